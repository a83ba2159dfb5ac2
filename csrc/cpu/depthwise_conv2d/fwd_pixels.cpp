// All dtypes but bfloat16, and the launcher.
#include "fwd_pixels.h"

namespace customops::cpu {

void fwd_pixels(const Problem& problem, Direction direction, const Choice& choice, const ConvTensors& tensors) {
  dispatch(problem.dtype, [&](auto zero) {
    fwd_pixels_of<decltype(zero)>(stacked(problem, choice.stacked), direction, choice, tensors);
  });
}

}  // namespace customops::cpu
