// A project that leans on ATen: numbers as arguments, indexing, in-place forms, integers, and outputs given by the
// caller.
#include <ATen/AccumulateType.h>
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <torch/extension.h>
#include <torch/version.h>

#include <complex>
#include <numeric>
#include <vector>

using torch::indexing::None;
using torch::indexing::Slice;

std::vector<at::Tensor> scalars(const at::Tensor& x, const at::Tensor& w) {
  auto y = at::addmm(x, x, w, 0.5, 2);
  auto z = x.pow(3).clamp(-1, 1).add(w, 0.1);
  auto mask = z > 0.25;
  auto filled = z.masked_fill(mask, 7).clamp_min_(0.125);
  y.addcmul_(x, w, -0.3).add_(z, 3).mul_(1.1).sub_(2).div_(3);
  auto n = x.norm(2, {1}, true) + at::pow(2, x).sum(1, true);
  auto normal = at::layer_norm(x, {x.size(1)});
  return {y, z, filled, n, at::where(mask, x, 0.0), at::leaky_relu(x, 0.2), normal, torch::elu(x), x.std(1)};
}

std::vector<at::Tensor> indices(const at::Tensor& x, const at::Tensor& rows) {
  auto y = x.clone();
  y.index_put_({Slice(0, 2), 1}, 5.0);
  y.index_put_({rows}, -1.5);
  y.index_put_({"...", Slice(None, None, 2)}, y.index({"...", Slice(None, None, 2)}) * 2);
  auto added = at::zeros_like(x).index_add_(0, rows, x.index_select(0, rows));
  auto ones = torch::ones({rows.size(0)}, rows.options());
  auto counts = torch::zeros({x.size(0)}, rows.options()).scatter_add_(0, rows, ones);
  return {y, x.index({rows}), x.index({None, rows, Slice(1)}), x.index({x > 0}), added, counts, x.index({-1})};
}

std::vector<at::Tensor> integers(const at::Tensor& n) {
  auto steps = torch::arange(n.size(0), n.options());
  auto sum = n + steps - 1;
  sum += n;
  sum *= 2;
  std::vector<int64_t> list = {3, 1, 2};
  auto made = torch::tensor(list, torch::kInt);
  auto blob = torch::from_blob(list.data(), {3}, torch::kLong).clone();
  auto [sorted, order] = n.sort(0, true);
  auto top = at::topk(n, 2);
  return {sum, n % 3, n & 1, n.__rshift__(2), n.__lshift__(1), made, blob, sorted, order, std::get<0>(top), 1 - n, torch::full({2}, 3), n / 2};
}

at::Tensor into(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  at::mm_out(out, a, b);
  at::sum_out(out, at::stack({out, a}), {0});
  return out;
}

double number(const at::Tensor& x) {
  TORCH_CHECK(x.numel() > 0, "number: no elements")  // without a semicolon, as sources have it
  if (x.is_floating_point()) return x.sum().item<double>() + x.max().item().toDouble();
  return static_cast<double>(x.sum().item().toLong());
}

// Sums over threads, and what sources ask of dtypes, layouts and sizes.
double summed(const at::Tensor& x, int64_t grain) {
  TORCH_CHECK(!at::in_parallel_region() && at::get_thread_num() == 0, "no loop is around this");
  const auto own = x.expect_contiguous();
  const double* from = own->data_ptr<double>();
  std::vector<double> of_threads(at::get_num_threads());
  at::parallel_for(0, x.numel(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) of_threads[at::get_thread_num()] += from[i];
  });
  const auto add = [&](int64_t begin, int64_t end, double sum) {
    for (int64_t i = begin; i < end; ++i) sum += from[i];
    return sum;
  };
  double all = at::parallel_reduce(0, x.numel(), grain, 0.0, add, [](double a, double b) { return a + b; });
  for (const double part : of_threads) all -= part;
  return all;
}
std::tuple<torch::Tensor, std::vector<int64_t>, bool, torch::Dtype> facts(const at::Tensor& x, const at::Tensor& y) {
  auto table = torch::tensor({{1.0, 2.0}, {3.0, TORCH_VERSION_MAJOR * 2.0}}, x.options().dtype(torch::kF32));
  auto bits = torch::tensor({1, 2, 4}, torch::kI32);
  bits |= bits * 2;
  bits &= bits + 1;
  bits ^= torch::ones_like(bits);
  table = table.to("cpu") + bits.sum() + at::native::ones_like(table);
  const auto common = at::promote_types(c10::typeMetaToScalarType(x.dtype()), y.scalar_type());
  TORCH_CHECK(common == c10::promoteTypes(y.scalar_type(), x.scalar_type()), "promotion has no order");
  TORCH_CHECK(x.type().backend() == at::Backend::CPU && x.type().device_type() == at::kCPU, "x must be on the CPU");
  std::vector<int64_t> sizes = at::infer_size(x.sizes(), y.sizes());
  sizes.push_back(std::hash<c10::Device>()(x.device()) == std::hash<c10::Device>()(y.device()));
  return {table.to(y.type()), sizes, x.is_non_overlapping_and_dense(), common};
}
at::Tensor turned(const at::Tensor& z) {
  auto out = at::empty_like(z);
  const auto spectrum = torch::fft::fft(z.view(-1)) + at::fft_fftn(z).view(-1);
  AT_DISPATCH_COMPLEX_TYPES(z.scalar_type(), "turned", [&] {
    const scalar_t *from = z.data_ptr<scalar_t>(), two(2, 0);
    using wide_t = at::acc_type<scalar_t, false>;
    for (int64_t i = 0; i < z.numel(); ++i) {
      const wide_t wide = static_cast<wide_t>(std::exp(from[i]) * std::conj(from[i]) + std::pow(from[i], two));
      out.data_ptr<scalar_t>()[i] =
          static_cast<scalar_t>(wide) + std::abs(from[i]) * std::sqrt(from[i]) / std::arg(from[i]);
    }
  });
  return out.view(-1).index_copy(0, torch::tensor({1, 0}, torch::kLong), spectrum.slice(0, 0, 2)) +
         torch::fft::ifftn(spectrum);
}

// A step of an optimizer for a list of parameters, and functions of statistics.
std::vector<at::Tensor> step(std::vector<at::Tensor> params, const std::vector<at::Tensor>& grads) {
  at::_foreach_mul_(params, 0.5);
  at::_foreach_add_(params, grads, -0.25);
  auto squares = at::_foreach_mul(grads, grads);
  const std::vector<at::Scalar> by = {2, -0.5};
  at::_foreach_addcdiv_(params, grads, at::_foreach_add(squares, 1), by);
  for (const auto& t : at::_foreach_norm(params)) params.push_back(t);
  return params;
}
std::vector<at::Tensor> special(const at::Tensor& x) {
  return {at::special_erf(x),         at::special_xlogy(x, 2),      torch::special::expit(x),
          torch::special::gammaln(x), torch::special::xlogy(2, x),  at::special_logit(x, 0.1),
          at::special_i0(x),          torch::special::softmax(x, 0, at::kDouble), torch::special::polygamma(1, x)};
}
// Sums, norms and a gate of a row in vectors, the last of them partly filled.
template <typename scalar_t>
void of_row(const scalar_t* x, const scalar_t* w, scalar_t* y, int64_t n) {
  using Vec = at::vec::Vectorized<scalar_t>;
  const scalar_t most = at::vec::reduce_all<scalar_t>([](Vec a, Vec b) { return at::vec::maximum(a, b); }, x, n);
  const scalar_t sum = at::vec::map2_reduce_all<scalar_t>([](Vec a, Vec b) { return a * b; },
                                                          [](Vec a, Vec b) { return a + b; }, x, w, n);
  at::vec::map2<scalar_t>([=](Vec a, Vec b) { return at::vec::fmadd(Vec(sum), (a - Vec(most)).exp(), b.abs().sqrt()); },
                          y, x, w, n);
  int64_t i = 0;
  for (; i + Vec::size() <= n; i += Vec::size()) {
    const Vec a = Vec::loadu(x + i), b = Vec::loadu(w + i), zero(0);
    const Vec chosen = Vec::blendv(a, b, a < b) + (a.gt(b) & at::vec::clamp(b, zero, Vec(1)));
    (Vec::loadu(y + i) + Vec::set(chosen, a.neg(), 1) / (Vec(1) + a.tanh() * a)).store(y + i);
  }
  const Vec rest = Vec::loadu(y + i, n - i) - Vec::arange(scalar_t(1), 2);
  rest.store(y + i, static_cast<int>(n - i));
}
at::Tensor vectors(const at::Tensor& x, const at::Tensor& w) {
  const auto xc = x.contiguous(), wc = w.contiguous();
  auto y = at::empty_like(xc);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "vectors", [&] {
    for (int64_t r = 0; r < x.size(0); ++r)
      of_row(xc[r].data_ptr<scalar_t>(), wc[r].data_ptr<scalar_t>(), y[r].data_ptr<scalar_t>(), x.size(1));
  });
  if (x.size(1) < at::vec::Vectorized<at::BFloat16>::size()) return y;
  auto narrow = xc.to(at::kBFloat16);
  auto* at = narrow.data_ptr<at::BFloat16>();
  auto [low, high] = at::vec::convert_to_float<at::BFloat16>(at::vec::Vectorized<at::BFloat16>::loadu(at));
  at::vec::convert_from_float<at::BFloat16>(high * low, low + high).store(at);
  return y + narrow;
}

// Memory of C++, which goes with the last tensor that shares it.
static int64_t given_back = 0;
at::Tensor owned(int64_t rows, bool turned) {
  auto* values = new std::vector<int>(rows * 2);
  std::iota(values->begin(), values->end(), 0);
  const auto deleter = [values](void* at) {
    TORCH_CHECK(at == values->data(), "another address");
    ++given_back;
    delete values;
  };
  TORCH_CHECK(at::kCPU == at::Device("cpu").type() && c10::DeviceTypeName(at::kCUDA) == "CUDA", "names of devices");
  if (turned) return torch::from_blob(values->data(), {2, rows}, {1, 2}, deleter, at::kInt);
  return torch::from_blob(values->data(), at::IntList({rows, 2}), deleter, torch::dtype(torch::kInt32));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("owned", &owned, py::arg("rows"), py::arg("turned") = false);
  m.def("given_back", [] { return given_back; });
  m.def("step", &step);
  m.def("special", &special);
  m.def("vectors", &vectors);
  m.def("scalars", &scalars);
  m.def("indices", &indices);
  m.def("integers", &integers);
  m.def("into", &into);
  m.def("number", &number);
  m.def("summed", &summed, py::arg("x"), py::arg("grain") = 16);
  m.def("facts", &facts);
  m.def("turned", &turned, py::doc("complex numbers"), py::return_value_policy::move);
}
