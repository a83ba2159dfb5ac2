// bfloat16, in a source of its own: of all kernels on the CPU, this one compiles for the longest time.
#include "fwd_pixels.h"

namespace customops::cpu {

template void fwd_pixels_of<c10::BFloat16>(const Problem&, Direction, const Choice&, const ConvTensors&);

}  // namespace customops::cpu
