// The sizes of a convolution along one axis: output o is the sum of in[o * stride + k * dilation - pad] over taps k.
#pragma once

#include <cstdint>

namespace customops {

struct ConvAxis {
  int64_t in, out, taps, stride, pad, dilation;  // `pad` before the image; the one after it shows in `out` alone
};

}  // namespace customops
