// A project of pybind11 and accessors, in the idiom of 2019: it does not know of the stable ABI.
#include <torch/extension.h>

#include <vector>

template <typename scalar_t>
void sliding_sum(torch::TensorAccessor<scalar_t, 2> x, torch::TensorAccessor<scalar_t, 2> y, int64_t window) {
  at::parallel_for(0, y.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for (int64_t i = 0; i < y.size(1); ++i) {
        scalar_t sum = 0;
        for (int64_t k = 0; k < window; ++k) sum += x[n][i + k];
        y[n][i] = sum;
      }
  });
}

torch::Tensor windows_forward(torch::Tensor x, int window) {
  AT_ASSERTM(!x.is_cuda(), "x must be a CPU tensor");
  TORCH_CHECK(x.dim() == 2, "x must have 2 dimensions, got ", x.dim(), " in ", x.sizes());
  TORCH_CHECK(window > 0 && window <= x.size(1), "window out of range: ", window);
  auto y = torch::zeros({x.size(0), x.size(1) - window + 1}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "windows_forward", [&] {
    sliding_sum<scalar_t>(x.accessor<scalar_t, 2>(), y.accessor<scalar_t, 2>(), window);
  });
  return y;
}

std::vector<at::Tensor> gates(const at::Tensor& x, const at::Tensor& w, const at::Tensor& h) {
  auto z = torch::sigmoid(torch::mm(torch::cat({x, h}, /*dim=*/1), w.transpose(0, 1)));
  auto parts = z.chunk(2, /*dim=*/1);
  auto mixed = (1 - parts[0]) * torch::tanh(parts[1]) + parts[0] * 0.5;
  auto slope = torch::ones_like(z) - z.slice(0, 0, z.size(0)) * z;
  mixed += parts[1].to(at::kDouble).to(mixed.dtype());
  return {mixed.contiguous(), slope.sum(0, /*keepdim=*/true), z.view({-1}).select(0, 1).clone()};
}

int64_t count(torch::Tensor x) {
  if (x.dtype() == torch::kFloat32 && x.device().type() == torch::kCPU) return x.numel();
  return -1;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "Sums over windows.";
  m.def("forward", &windows_forward, "Sliding sums along the rows", py::arg("x"), py::arg("window") = 3);
  m.def("gates", &gates, "Mixes two gates");
  m.def("count", &count);
}
