// depthwise_conv2d and its gradients. A first, plain version.
#include "../depthwise_conv2d.h"

#include <torch/csrc/stable/library.h>

#include "strided.h"

namespace customops::cpu {
namespace {

struct Steps {
  int64_t n, c, y, x;
  Steps(bool last, int64_t c_, int64_t h, int64_t w)
      : n(c_ * h * w), c(last ? 1 : h * w), y(last ? w * c_ : w), x(last ? c_ : 1) {}
};

template <class F>
void over_planes(const DepthwiseConv2d& p, const F& f) {
  parallel(p.channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t n = 0; n < p.batch; ++n) f(n, c);
  });
}

// f(input pixel, output pixel, tap) wherever all three meet.
template <class F>
void meet(const DepthwiseConv2d& p, const F& f) {
  for (int64_t oy = 0; oy < p.y.out; ++oy)
    for (int64_t ox = 0; ox < p.x.out; ++ox)
      for (int64_t ky = 0; ky < p.y.taps; ++ky)
        for (int64_t kx = 0; kx < p.x.taps; ++kx) {
          const int64_t iy = oy * p.y.stride + ky * p.y.dilation - p.y.pad;
          const int64_t ix = ox * p.x.stride + kx * p.x.dilation - p.x.pad;
          if (iy >= 0 && iy < p.y.in && ix >= 0 && ix < p.x.in) f(iy, ix, oy, ox, ky * p.x.taps + kx);
        }
}

}  // namespace

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t stride_h,
                        int64_t stride_w, int64_t pad_top, int64_t pad_bottom, int64_t pad_left, int64_t pad_right,
                        int64_t dilation_h, int64_t dilation_w) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d(x, weight, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left,
                                                     pad_right, dilation_h, dilation_w);
  if (p.out.numel() == 0) return p.out;
  dispatch(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T *in = p.in.const_data_ptr<T>(), *w = p.weight.const_data_ptr<T>();
    const T* b = p.bias ? p.bias->const_data_ptr<T>() : nullptr;
    T* out = static_cast<T*>(p.out.mutable_data_ptr());
    const Steps si(p.channels_last, p.channels, p.y.in, p.x.in), so(p.channels_last, p.channels, p.y.out, p.x.out);
    over_planes(p, [&](int64_t n, int64_t c) {
      std::vector<acc_t<T>> sum(p.y.out * p.x.out, b ? acc_t<T>(b[c]) : 0);
      meet(p, [&](int64_t iy, int64_t ix, int64_t oy, int64_t ox, int64_t k) {
        sum[oy * p.x.out + ox] +=
            acc_t<T>(in[n * si.n + c * si.c + iy * si.y + ix * si.x]) * acc_t<T>(w[c * p.y.taps * p.x.taps + k]);
      });
      for (int64_t y = 0; y < p.y.out; ++y)
        for (int64_t x = 0; x < p.x.out; ++x) out[n * so.n + c * so.c + y * so.y + x * so.x] = T(sum[y * p.x.out + x]);
    });
  });
  return p.out;
}

Tensor grad_input(const Tensor& grad, const Tensor& weight, int64_t height, int64_t width, int64_t stride_h,
                  int64_t stride_w, int64_t pad_top, int64_t pad_left, int64_t dilation_h, int64_t dilation_w,
                  bool channels_last) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d_grad_input(
      grad, weight, height, width, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w, channels_last);
  if (p.in.numel() == 0) return p.in;
  dispatch(grad.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T *g = p.out.const_data_ptr<T>(), *w = p.weight.const_data_ptr<T>();
    T* in = static_cast<T*>(p.in.mutable_data_ptr());
    const Steps si(p.channels_last, p.channels, p.y.in, p.x.in), so(p.channels_last, p.channels, p.y.out, p.x.out);
    over_planes(p, [&](int64_t n, int64_t c) {
      std::vector<acc_t<T>> sum(p.y.in * p.x.in);
      meet(p, [&](int64_t iy, int64_t ix, int64_t oy, int64_t ox, int64_t k) {
        sum[iy * p.x.in + ix] +=
            acc_t<T>(g[n * so.n + c * so.c + oy * so.y + ox * so.x]) * acc_t<T>(w[c * p.y.taps * p.x.taps + k]);
      });
      for (int64_t y = 0; y < p.y.in; ++y)
        for (int64_t x = 0; x < p.x.in; ++x) in[n * si.n + c * si.c + y * si.y + x * si.x] = T(sum[y * p.x.in + x]);
    });
  });
  return p.in;
}

Tensor grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w, int64_t stride_h,
                   int64_t stride_w, int64_t pad_top, int64_t pad_left, int64_t dilation_h, int64_t dilation_w) {
  const DepthwiseConv2d p = prepare_depthwise_conv2d_grad_weight(grad, x, kernel_h, kernel_w, stride_h, stride_w,
                                                                 pad_top, pad_left, dilation_h, dilation_w);
  if (p.weight.numel() == 0) return p.weight;
  dispatch(grad.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T *g = p.out.const_data_ptr<T>(), *in = p.in.const_data_ptr<T>();
    T* w = static_cast<T*>(p.weight.mutable_data_ptr());
    const Steps si(p.channels_last, p.channels, p.y.in, p.x.in), so(p.channels_last, p.channels, p.y.out, p.x.out);
    const int64_t taps = p.y.taps * p.x.taps;
    std::vector<double> sum(p.channels * taps);
    over_planes(p, [&](int64_t n, int64_t c) {
      meet(p, [&](int64_t iy, int64_t ix, int64_t oy, int64_t ox, int64_t k) {
        sum[c * taps + k] += double(g[n * so.n + c * so.c + oy * so.y + ox * so.x]) *
                             double(in[n * si.n + c * si.c + iy * si.y + ix * si.x]);
      });
    });
    for (size_t i = 0; i < sum.size(); ++i) w[i] = T(acc_t<T>(sum[i]));
  });
  return p.weight;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d", TORCH_BOX(&customops::cpu::depthwise_conv2d));
  m.impl("_depthwise_conv2d_grad_input", TORCH_BOX(&customops::cpu::grad_input));
  m.impl("_depthwise_conv2d_grad_weight", TORCH_BOX(&customops::cpu::grad_weight));
}
