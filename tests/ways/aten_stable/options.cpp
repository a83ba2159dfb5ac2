// A project with optional tensors, lists, keyword defaults and several results, in the idiom of 2023.
#include <torch/extension.h>

#include <string>
#include <tuple>
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

at::Tensor filled(at::IntArrayRef shape, double value, const at::Tensor& like) {
  auto options = torch::TensorOptions().dtype(like.dtype()).device(like.device());
  auto t = torch::full(shape, value, options);
  t[0].fill_(1);
  t.slice(0, 1, 2).zero_();
  t.div_(3).mul_(0.3).sub_(0.1).add_(1);
  t[2] = at::rsqrt(t[0]);
  return at::where(t > 0.3, t * 0.7, 1 / t - 0.7);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("affine", &affine, "y = scale * (weight * x + bias), and where it is positive", py::arg("x"),
        py::arg("weight") = py::none(), py::arg("bias") = c10::nullopt, py::arg("scale") = 1.0,
        py::arg("inplace") = false);
  m.def("total", &total, py::arg("tensors"), py::arg("dims") = std::vector<int64_t>{}, py::arg("mode") = "sum",
        py::arg("first") = py::none());
  m.def("filled",
        [](std::vector<int64_t> shape, double value, const at::Tensor& like) { return filled(shape, value, like); });
}
