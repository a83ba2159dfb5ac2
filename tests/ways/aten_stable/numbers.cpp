// A project that leans on ATen: numbers as arguments, indexing, in-place forms, integers, and outputs given by the
// caller.
#include <torch/extension.h>

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

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scalars", &scalars);
  m.def("indices", &indices);
  m.def("integers", &integers);
  m.def("into", &into);
  m.def("number", &number);
}
