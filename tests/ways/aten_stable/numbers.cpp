// A project that leans on ATen: numbers as arguments, indexing, in-place forms, integers, and outputs given by the
// caller.
#include <ATen/AccumulateType.h>
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/extension.h>
#include <torch/version.h>

#include <complex>
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
  return {sum, n % 3, n & 1, made, blob, sorted, order, std::get<0>(top), 1 - n, torch::full({2}, 3), n / 2};
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

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scalars", &scalars);
  m.def("indices", &indices);
  m.def("integers", &integers);
  m.def("into", &into);
  m.def("number", &number);
  m.def("summed", &summed, py::arg("x"), py::arg("grain") = 16);
  m.def("facts", &facts);
  m.def("turned", &turned, py::doc("complex numbers"), py::return_value_policy::move);
}
