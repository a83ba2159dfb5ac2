// Which taps of a window meet pixels, for dgrad at a stride too, where only some do.
#pragma once

#include "problem.cuh"

namespace customops::cuda::depthwise {

// Dgrad: pixels lie `up` apart (problem.h), so an output meets every tap_step-th tap, from one on that depends on its
// phase, or none. tap_step is up / common, the greatest common divisor of up and dilation.
struct TapAxis {
  int in, taps, down, pad, dilation;
  Divider<uint32_t> up, common, tap_step;
  int before;        // multiples of `up` that keep positions positive
  uint32_t inverse;  // of dilation / common modulo tap_step
  int pixel_step;    // pixels from one of these taps to the next

  TapAxis() = default;
  explicit TapAxis(const Axis& given) {
    const Axis a = without_unused_steps(given);
    const int64_t divisor = std::gcd(a.up, a.dilation);
    in = int(a.in), taps = int(a.taps), down = int(a.down), pad = int(a.pad), dilation = int(a.dilation);
    up = Divider<uint32_t>(a.up), common = Divider<uint32_t>(divisor), tap_step = Divider<uint32_t>(a.up / divisor);
    before = int(ceil_div(std::max<int64_t>(a.pad, 0), a.up));
    inverse = uint32_t(inverse_modulo(a.dilation / divisor, a.up / divisor));
    pixel_step = int(a.dilation / divisor);
  }
};

// The first tap that an output meets a pixel by, and that pixel, which may be outside of the image.
struct FirstTap {
  int tap, pixel;
};

// up: that is dgrad, `down` is 1, and takes_steps of takes.h has to hold.
template <bool up>
__device__ FirstTap first_tap(const TapAxis& axis, uint32_t output) {
  if (!up) return {0, int(output) * axis.down - axis.pad};
  uint32_t whole = output + uint32_t(axis.before) * axis.up.divisor - uint32_t(axis.pad);
  const uint32_t phase = axis.up.divmod(whole);
  uint32_t steps = phase;
  if (axis.common.divmod(steps) != 0) return {axis.taps, 0};
  uint32_t product = (axis.tap_step.divisor - steps) * axis.inverse;
  const uint32_t tap = axis.tap_step.divmod(product);
  uint32_t pixels = phase + tap * uint32_t(axis.dilation);
  axis.up.divmod(pixels);
  return {int(tap), int(whole + pixels) - axis.before};
}

}  // namespace customops::cuda::depthwise
