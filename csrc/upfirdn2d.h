// What the CPU and the CUDA kernel of upfirdn2d share: the checks, the sizes, and the polyphase view of one axis.
//
// With z the zero-stuffed, padded image and g the filter as it slides (f reversed for a convolution),
//   y[o] = gain * sum_k g[k] z[o*down + k],   z[u] = x[(u - pad) / up] where up divides u - pad, 0 elsewhere.
// So only every up-th tap meets a pixel: k = k0, k0 + up, ... with pixels i0, i0 + 1, ..., both from `window`.
#pragma once

#include "allocate.h"
#include "dispatch.h"

namespace customops {

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // b > 0
inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

struct Axis {
  int64_t in, out, up, down, pad, taps;

  struct Window {
    int64_t tap, pixel, count;  // first tap and its pixel, which may lie outside the image; then every up-th tap
  };
  Window window(int64_t o) const {
    const int64_t tap = floor_mod(pad - o * down, up);
    return {tap, (o * down - pad + tap) / up, tap < taps ? (taps - 1 - tap) / up + 1 : 0};
  }
};

// The filter in its own memory. One dimension stands for itself along both axes; no tensor for a single tap of 1.
struct Filter {
  const float* data = nullptr;
  int64_t stride_x = 0, stride_y = 0;
  bool separable = false, reversed = false;
};

struct Upfirdn2d {
  Axis x, y;
  Filter filter;
  double gain;
  int64_t batch, channels;
  bool channels_last;
  Tensor in, out;  // both dense, in the same memory format
};

inline Axis make_axis(const char* name, int64_t in, int64_t taps, int64_t up, int64_t down, int64_t pad0,
                      int64_t pad1) {
  if (up < 1 || down < 1) fail("upfirdn2d: up and down must be at least 1, got ", up, " and ", down, " along ", name);
  constexpr int64_t kMaxStep = int64_t(1) << 31;  // so that sums and products of these and of sizes fit into 64 bits
  if (up > kMaxStep || down > kMaxStep || pad0 > kMaxStep || pad0 < -kMaxStep || pad1 > kMaxStep || pad1 < -kMaxStep)
    fail("upfirdn2d: up, down and padding must be at most 2^31, got ", up, ", ", down, ", ", pad0, " and ", pad1,
         " along ", name);
  if (in < 1) fail("upfirdn2d: x must have at least one pixel along ", name, ", got none");
  constexpr int64_t kMostSamples = int64_t(1) << 60;
  if (in > kMostSamples / up) fail("upfirdn2d: x must have at most 2^60 samples along ", name, ", got ", in, " * ", up);
  const int64_t padded = in * up + pad0 + pad1;
  if (padded < taps)
    fail("upfirdn2d: the output must have at least one pixel along ", name, ", got ", in, " * ", up, " + padding ",
         pad0, " + ", pad1, " = ", padded, " samples for a filter of ", taps);
  return {in, (padded - taps) / down + 1, up, down, pad0, taps};
}

// Checks the arguments, makes x dense and allocates the output in x's memory format: channels_last where neighbouring
// channels, and not neighbouring columns, lie side by side; the fake kernel in customops/upfirdn2d.py has the same
// rule.
inline Upfirdn2d prepare_upfirdn2d(const Tensor& x, const std::optional<Tensor>& f, int64_t up_x, int64_t up_y,
                                   int64_t down_x, int64_t down_y, int64_t pad_x0, int64_t pad_x1, int64_t pad_y0,
                                   int64_t pad_y1, bool flip_filter, double gain) {
  check_dtype("upfirdn2d", "x", x);
  if (x.dim() != 4) fail("upfirdn2d: x must have shape (N, C, H, W), got ", to_string(x.sizes()));
  check_fits("upfirdn2d", "gain", gain, x.scalar_type());
  Filter filter;
  int64_t taps_x = 1, taps_y = 1;
  if (f) {
    if (f->dim() != 1 && f->dim() != 2) fail("upfirdn2d: f must have 1 or 2 dimensions, got ", f->dim());
    if (f->scalar_type() != ScalarType::Float)
      fail("upfirdn2d: f must be torch.float32, got ", to_string(f->scalar_type()));
    if (f->is_cpu() != x.is_cpu() || f->get_device_index() != x.get_device_index())
      fail("upfirdn2d: f must be on the device of x, ", device_name(x), ", got ", device_name(*f));
    if (f->numel() == 0) fail("upfirdn2d: f must have at least one tap, got shape ", to_string(f->sizes()));
    taps_y = f->size(0);
    taps_x = f->size(f->dim() - 1);
    filter = {f->const_data_ptr<float>(), f->stride(f->dim() - 1), f->stride(0), f->dim() == 1, !flip_filter};
  }
  const int64_t n = x.size(0), c = x.size(1);
  const Axis along_x = make_axis("x", x.size(3), taps_x, up_x, down_x, pad_x0, pad_x1);
  const Axis along_y = make_axis("y", x.size(2), taps_y, up_y, down_y, pad_y0, pad_y1);
  const bool last = c > 1 && x.stride(1) == 1 && x.stride(3) != 1;
  const int64_t h = along_y.out, w = along_x.out;
  const int64_t sizes[] = {n, c, h, w};
  check_numel("upfirdn2d", {sizes, 4});
  const int64_t nchw[] = {c * h * w, h * w, w, 1}, nhwc[] = {c * h * w, 1, w * c, c};
  return {along_x,
          along_y,
          filter,
          gain,
          n,
          c,
          last,
          dense_image(x, last),
          empty_strided(x, {sizes, 4}, {last ? nhwc : nchw, 4})};
}

}  // namespace customops
