// Every op of the package, by schema. Kernels register themselves at the bottom of csrc/<device>/<op>.
#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(myops, m) {
  m.def("swish(Tensor x) -> Tensor");
  m.def("swish_backward(Tensor grad, Tensor x) -> Tensor");
}
