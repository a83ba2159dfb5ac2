// softclip(x, limit) for Python, with its derivative by C++ autograd.
#include <torch/extension.h>

#include "softclip.h"

namespace {

class Softclip : public torch::autograd::Function<Softclip> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double limit) {
    at::Tensor y = softclip_forward(x, limit);
    context->saved_data["limit"] = limit;
    context->save_for_backward({y});
    return y;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const double limit = context->saved_data["limit"].toDouble();
    return {softclip_backward(grads[0], context->get_saved_variables()[0], limit), at::Tensor()};
  }
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def(
      "softclip", [](const at::Tensor& x, double limit) { return Softclip::apply(x, limit); }, py::arg("x"),
      py::arg("limit") = 1.0);
}
