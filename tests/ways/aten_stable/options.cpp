// A project with optional tensors, lists, keyword defaults and several results, in the idiom of 2023.
#include <ATen/ExpandUtils.h>
#include <ATen/NativeFunctions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/native/cpu/utils.h>
#include <c10/core/SymInt.h>
#include <c10/util/CallOnce.h>
#include <c10/util/Enumerate.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/flat_hash_map.h>
#include <c10/util/hash.h>
#include <c10/util/overloaded.h>
#include <torch/extension.h>
#include <torch/serialize/tensor.h>

#include <array>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace {

std::tuple<at::Tensor, at::Tensor> affine(const at::Tensor& x, const c10::optional<at::Tensor>& weight,
                                          const std::optional<at::Tensor>& bias, double scale, bool inplace) {
  at::Tensor y = inplace ? x : x.clone();
  if (weight.has_value() && weight->defined()) y.mul_(*weight);
  if (bias) y.add_(bias.value());
  y *= scale;
  at::Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kByte));
  auto yc = y.contiguous();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, yc.scalar_type(), "affine", ([&] {
                                    const scalar_t* from = yc.data_ptr<scalar_t>();
                                    uint8_t* to = mask.data_ptr<uint8_t>();
                                    for (int64_t i = 0; i < yc.numel(); ++i) to[i] = from[i] > scalar_t(0);
                                  }));
  return std::make_tuple(y, mask);
}

at::Tensor total(const std::vector<at::Tensor>& tensors, std::vector<int64_t> dims, const std::string& mode,
                 c10::optional<int64_t> first) {
  TORCH_CHECK(!tensors.empty(), "total: no tensors");
  at::Tensor sum = at::zeros_like(tensors[0]);
  for (size_t i = first.value_or(0); i < tensors.size(); ++i) sum = sum + tensors[i];
  if (mode == "mean")
    sum = sum / static_cast<double>(tensors.size());
  else if (mode != "sum")
    throw std::invalid_argument("total: mode must be sum or mean, got " + mode);
  return dims.empty() ? sum : sum.sum(dims);
}

// The rows of a grid's cells, by their places modulo `kernel`, as a sparse op's kernel map has it.
struct PlaceHash {
  size_t operator()(const std::array<int64_t, 2>& place) const { return c10::get_hash(place[0], place[1]); }
};
std::vector<std::vector<int64_t>> cells(const at::Tensor& places, std::tuple<int, int64_t> kernel,
                                        std::pair<double, double> range, const std::array<int64_t, 3>& limits,
                                        std::array<bool, 2> flipped) {
  std::unordered_map<std::array<int64_t, 2>, std::vector<int64_t>, PlaceHash> table;
  auto a = places.accessor<int64_t, 2>();
  for (int64_t i = 0; i < a.size(0); ++i) {
    const std::array<int64_t, 2> place{a[i][flipped[0] ? 1 : 0] % std::get<0>(kernel),
                                       a[i][flipped[1] ? 0 : 1] % std::get<1>(kernel)};
    if (double(i) >= range.first && double(i) < range.second)
      table[place].push_back(i + limits[0] * limits[1] + limits[2]);
  }
  std::vector<std::vector<int64_t>> all;
  for (int64_t i = 0; i < std::get<0>(kernel); ++i)
    for (int64_t j = 0; j < std::get<1>(kernel); ++j) all.push_back(table[{i, j}]);
  return all;
}

void asserted(int64_t n) {
  AT_ASSERTM(n != 1, "n is ", n);
  AT_ASSERT(n != 2);
  TORCH_INTERNAL_ASSERT(n != 3, "n is ", n);
}

at::Tensor filled(at::IntArrayRef shape, double value, const at::Tensor& like) {
  auto options = torch::TensorOptions().dtype(like.dtype()).device(like.device());
  auto t = torch::full(shape, value, options);
  t[0].fill_(1);
  t.slice(0, 1, 2).zero_();
  t.div_(3).mul_(0.3).sub_(0.1).add_(1);
  t[2] = at::rsqrt(t[0]);
  return at::where(t > 0.3, t * 0.7, 1 / t - 0.7);
}

// x summed to the shape of y, and what else sources ask of tensors and say in errors.
at::Tensor reduced(const at::Tensor& x, const at::Tensor& y, int64_t at_most) {
  TORCH_CHECK_LE(x.dim(), at_most) << "reduced: too many dimensions";
  TORCH_CHECK_EQ(x.scalar_type(), y.scalar_type());
  TORCH_CHECK_ARG(y.dim() > 0, 2, "no dimensions");
  TORCH_INTERNAL_ASSERT_DEBUG_ONLY(x.defined(), "no tensor");
  if (x.numel() == 0) throw py::value_error("reduced: no elements");
  if (x.size(0) > 100) throw py::index_error("reduced: too many rows");
  return at::sum_to(x, y.sizes());
}
std::vector<int64_t> asked(const at::Tensor& x, const at::Tensor& y) {
  return {x.is_same(y), x.is_same(x), x.is_leaf(), (x * 2).is_leaf(), at::Tensor().is_same(at::Tensor())};
}
std::string named(const at::Tensor& x) {
  return x.toString() + " of " + std::to_string(x.dtype().itemsize()) + " and " + std::to_string(x.itemsize());
}
at::Tensor like_rows(const at::Tensor& x, int64_t times) {
  const c10::SymInt columns = x.sym_size(-1);
  return at::zeros_symint({times, columns}, x.options()) + at::empty_symint(x.sym_sizes(), x.options()).fill_(1).sum();
}
// Each kind of exception, and what a source does that catches ATen's.
std::string refused(int64_t kind) {
  TORCH_CHECK_TYPE(kind != 0, "refused: ", kind, " is of a wrong type");
  TORCH_CHECK_NOT_IMPLEMENTED(kind != 1, "refused: ", kind, " is to come");
  TORCH_CHECK_INDEX(kind != 2, "refused: ", kind, " is out of range");
  TORCH_CHECK_WITH(ValueError, kind != 3, "refused: ", kind, " is no value");
  try {
    if (kind == 4) return std::to_string(at::ones({2}).add(at::ones({3})).dim());
    TORCH_CHECK_INDEX(kind != 5, "caught");
  } catch (const c10::Error& error) {
    return std::string("caught ") + error.what_without_backtrace();
  }
  if (kind == 6) AT_ERROR("refused: ", kind);
  if (kind == 7) C10_THROW_ERROR(TypeError, "refused: seven");
  return "";
}
int64_t product(int64_t a, int64_t b) { return a * b; }
at::Tensor product(at::Tensor a, at::Tensor b) { return a * b; }
at::Tensor nested(const std::vector<std::vector<at::Tensor>>& lists, std::vector<std::vector<int64_t>> counts,
                  at::ScalarType dtype) {
  return (lists.at(0).at(1) + lists.at(1).at(0) * counts.at(1).at(0)).to(dtype);
}
// Voxels of points, each with the number of its first point, as a sparse convolution has them.
std::vector<at::Tensor> voxels(const at::Tensor& places, int64_t most) {
  static c10::once_flag once;
  c10::call_once(once, [] {});
  ska::flat_hash_map<int64_t, int> first;
  ska::flat_hash_set<int64_t> empty_planes;
  int left = 0;
  std::vector<int> numbers;
  {
    const auto count = c10::make_scope_exit([&] { left = static_cast<int>(first.size()); });
    const auto a = places.accessor<int64_t, 2>();
    for (int64_t i = 0; i < a.size(0) && static_cast<int64_t>(first.size()) < most; ++i)
      numbers.push_back(first.emplace(a[i][0] * 8 + a[i][1], i).first->second);
  }
  auto grid = at::full({2, 8}, -1, at::kInt);
  const int64_t planes = 2, rows = 8;
  int64_t plane = 0, row = 0;
  at::native::data_index_init(int64_t(3), plane, planes, row, rows);
  const c10::function_ref<int(int64_t)> number = [&](int64_t key) {
    const auto found = first.find(key);
    return found == first.end() ? -1 : found->second;
  };
  for (int64_t i = 3; i < 16; ++i) {
    grid.accessor<int, 2>()[plane][row] = number(plane * rows + row);
    at::native::data_index_step(plane, planes, row, rows);
  }
  const auto size = c10::overloaded([](int) { return 4; }, [](double) { return 8; });
  TORCH_CHECK(empty_planes.count(1) == 0 && size(1) + size(1.0) == 12, "sets and overloads");
  return {grid, torch::tensor(numbers), torch::tensor(left)};
}
int64_t counted(c10::IntArrayRef& sizes, std::string& name, const at::Tensor& x) {
  int64_t all = static_cast<int64_t>(name.size());
  for (const auto [i, size] : c10::enumerate(sizes)) all += static_cast<int64_t>(i) * size;
  return all + (x.type().toScalarType(at::kByte).scalarType() == at::kByte ? 100 : 0);
}
enum class Activation : uint8_t { kNone, kRelu = 3, kTanh };
enum Padding { ZERO = -1, SAME };
at::Tensor activated(const at::Tensor& x, Activation activation, std::optional<Padding> padding) {
  const at::Tensor y = padding ? x + static_cast<int>(*padding) : x;
  return activation == Activation::kRelu ? y.relu() : activation == Activation::kTanh ? y.tanh() : y;
}
namespace F = torch::nn::functional;
std::vector<at::Tensor> padded(const at::Tensor& x) {
  return {F::pad(x, F::PadFuncOptions({0, 3})),
          F::pad(x, F::PadFuncOptions({1, 0, 2, 1}).value(0.5)),
          F::pad(x, F::PadFuncOptions({1, 2}).mode(torch::kReflect)),
          F::softmax(x, 1),
          F::log_softmax(x, F::LogSoftmaxFuncOptions(0).dtype(at::kDouble)),
          F::normalize(x, F::NormalizeFuncOptions().p(1).dim(0)),
          F::linear(F::relu(x), x),
          F::silu(x)};
}
// Images by size or by scale in each mode that their dimensions have; empty: not said.
std::vector<at::Tensor> resized(const at::Tensor& x, std::vector<int64_t> size, std::vector<double> scale) {
  F::InterpolateFuncOptions options;
  if (!size.empty()) options.size(size);
  if (!scale.empty()) options.scale_factor(scale);
  std::vector<at::Tensor> all = {F::interpolate(x, options), F::interpolate(x, options.mode(torch::kArea))};
  for (const bool corners : {false, true}) {
    options.align_corners(corners);
    if (x.dim() == 3) all.push_back(F::interpolate(x, options.mode(torch::kLinear)));
    if (x.dim() == 4) all.push_back(F::interpolate(x, options.mode(torch::kBilinear)));
    if (x.dim() == 4) all.push_back(F::interpolate(x, options.mode(torch::kBicubic)));
    if (x.dim() == 5) all.push_back(F::interpolate(x, options.mode(torch::kTrilinear)));
  }
  all.push_back(F::interpolate(x, options.recompute_scale_factor(true)));
  return all;
}
std::vector<at::Tensor> sampled(const at::Tensor& x, const at::Tensor& grid, const at::Tensor& weight) {
  auto options = F::GridSampleFuncOptions().mode(torch::kBilinear).padding_mode(torch::kZeros).align_corners(true);
  return {F::grid_sample(x, grid, options),
          F::grid_sample(x, grid, options.mode(torch::kNearest).padding_mode(torch::kBorder)),
          F::grid_sample(x, grid, options.mode(torch::kBicubic).padding_mode(torch::kReflection).align_corners(false)),
          F::conv2d(x, weight, F::Conv2dFuncOptions().stride(2).padding({1, 0}).groups(2)),
          F::conv2d(x, weight, F::Conv2dFuncOptions().padding(torch::kSame).groups(2).bias(weight.sum({1, 2, 3}))),
          F::conv1d(x.select(2, 0), weight[0][0].slice(0, 0, 1).expand({4, 1, 3}),
                    F::Conv1dFuncOptions().groups(4).dilation(2)),
          F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.2)),
          F::gelu(x),
          F::one_hot(x.gt(0).to(at::kLong), 3)};
}
at::Tensor warned(const at::Tensor& x) {
  for (int i = 0; i < 3; ++i) TORCH_WARN_ONCE("warned: ", x.dim(), " dimensions");
  return x;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("resized", &resized);
  m.def("sampled", &sampled);
  m.attr("__version__") = "1.2 \"three\"";
  m.attr("LEVEL") = 3;
  m.attr("SCALE") = 2.0;
  m.attr("DEBUG") = false;
  m.def("reduced", &reduced, py::arg("x"), py::arg("y").noconvert(), py::arg_v("at_most", 4));
  m.def("cells", &cells, py::arg("places"), py::arg("kernel") = std::make_tuple(2, int64_t(3)),
        py::arg("range") = std::make_pair(0.0, 100.0), py::arg("limits") = std::array<int64_t, 3>{1, 2, 3},
        py::arg("flipped") = std::array<bool, 2>{false, false});
  m.def("asserted", &asserted);
  m.def("asked", &asked);
  m.def("named", &named);
  m.def("refused", &refused);
  m.def("product", py::overload_cast<int64_t, int64_t>(&product));
  m.def("products", py::overload_cast<at::Tensor, at::Tensor>(&product));
  m.def("nested", &nested, py::arg("lists"), py::arg("counts"), py::arg("dtype") = torch::kFloat64);
  m.def("like_rows", &like_rows);
  m.def("voxels", &voxels, py::arg("places"), py::arg("most") = 4);
  m.def("padded", &padded);
  m.def("counted", &counted);
  py::enum_<Activation>(m, "Activation", "What comes last.")
      .value("NONE", Activation::kNone)
      .value("RELU", Activation::kRelu, "max(x, 0)")
      .value("TANH", Activation::kTanh);
  py::enum_<Padding>(m, "Padding", py::arithmetic()).value("ZERO", ZERO).value("SAME", SAME).export_values();
  m.def("activated", &activated, py::arg("x"), py::arg("activation") = Activation::kRelu,
        py::arg("padding") = py::none());
  m.def("warned", &warned);
  m.def("affine", &affine, "y = scale * (weight * x + bias), and where it is positive", py::arg("x"),
        py::arg("weight") = py::none(), py::arg("bias") = c10::nullopt, py::arg("scale") = 1.0,
        py::arg("inplace") = false);
  m.def("total", &total, py::arg("tensors"), py::arg("dims") = std::vector<int64_t>{}, py::arg("mode") = "sum",
        py::arg("first") = py::none());
  m.def("filled",
        [](std::vector<int64_t> shape, double value, const at::Tensor& like) { return filled(shape, value, like); });
}
