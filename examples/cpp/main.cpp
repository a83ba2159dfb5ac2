// Calls customops::axpy through torch's dispatcher. The program is linked with libcustomops.so, which registers the ops
// when it is opened; Python has no part in it.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <iostream>

int main() {
  auto axpy = c10::Dispatcher::singleton()
                  .findSchemaOrThrow("customops::axpy", "")
                  .typed<at::Tensor(const at::Tensor&, const at::Tensor&, double)>();
  at::Tensor x = at::arange(1., 4.), y = at::arange(4., 7.);
  std::cout << axpy.call(x, y, 2) << '\n';  // 6 9 12
  try {
    axpy.call(x, at::ones(5), 2);
  } catch (const std::exception& error) {
    std::cout << "as it should, a wrong shape raises: " << error.what() << '\n';
  }
}
