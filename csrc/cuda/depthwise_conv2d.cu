// depthwise_conv2d: each channel of an image convolved with taps of its own; forward and grad_input. Reads x or grad
// once, but for the edges of tiles, and writes the output once. Bound by memory up to 5x5 taps, by multiply-adds
// beyond. Some channels_last images are copied into planes and back (worth_transposing).
//
//   depthwise_conv2d_small.cu   contiguous, up to 8 pixels wide, stride 1, any width of taps;
//   depthwise_conv2d_mma.cu     contiguous, 16-bit, stride 1, all taps but 3x3: tensor cores, from sm_80 on;
//   depthwise_conv2d_planes.cu  contiguous, 3x3, 5x5, 7x7, stride 1 and 2;
//   depthwise_conv2d_pixels.cu  channels_last, 3x3, 5x5, 7x7, stride 1, 5x5 also stride 2;
//   depthwise_conv2d_direct.cu  channels_last, 3x3, 5x5, stride 1 and 2, what is left by the former;
//   depthwise_conv2d_large.cu   contiguous, stride 1, any taps;
//   general, below              everything else, an output a thread.
#include <torch/csrc/stable/library.h>

#include <optional>

#include "../depthwise_conv2d_hook.h"
#include "depthwise_conv2d.cuh"

namespace customops::cuda {
namespace depthwise {
namespace {

// A Line as `general` wants it; Index is unsigned, Int its signed twin.
template <class Int>
struct Steps {
  Int in, up, down, pad, taps, dilation;

  explicit Steps(const Line& a)
      : in(Int(a.in)),
        up(Int(a.up)),
        down(Int(a.down)),
        pad(Int(a.pad)),
        taps(Int(a.taps)),
        dilation(Int(a.dilation)) {}

  struct Range {
    Int first, last, start;  // taps from first to before last meet samples of the image; tap 0 lies at sample start
  };
  __device__ Range window(Int o) const {
    const Int start = o * down - pad, samples = (in - 1) * up + 1;
    Int first = 0, last = taps;
    if (start < 0) first = (-start + dilation - 1) / dilation;
    if (start + (taps - 1) * dilation >= samples) last = start < samples ? (samples - 1 - start) / dilation + 1 : 0;
    return {first, last, start};
  }
};

template <class Index, class T>
__global__ void __launch_bounds__(kThreads)
    general(const T* in, T* out, const Parameters<T> weight, const Parameters<T> bias, Index outputs,
            const __grid_constant__ Steps<std::make_signed_t<Index>> along_x,
            const __grid_constant__ Steps<std::make_signed_t<Index>> along_y, Divider<Index> channels,
            Divider<Index> out_w, Divider<Index> out_h, bool channels_last, bool flipped) {
  using A = acc_t<T>;
  using Int = std::make_signed_t<Index>;
  const Index i = Index(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= outputs) return;
  Index rest = i, channel = 0;
  if (channels_last) channel = channels.split(rest);
  const auto x = along_x.window(Int(out_w.split(rest)));
  const auto y = along_y.window(Int(out_h.split(rest)));
  const int64_t image = rest;  // or plane
  if (!channels_last) channel = channels.split(rest);
  const int64_t pixel = channels_last ? int64_t(channels.divisor) : 1;
  const T* const from = in + image * along_y.in * along_x.in * pixel + (channels_last ? int64_t(channel) : 0);
  const int64_t all = int64_t(along_x.taps) * along_y.taps;
  A sum = bias ? bias[channel] : A(0);
#pragma unroll 1
  for (Int ky = y.first; ky < y.last; ++ky) {
    const Int at_y = y.start + ky * along_y.dilation;
    if (along_y.up > 1 && at_y % along_y.up != 0) continue;
    const T* const row = from + int64_t(at_y / along_y.up) * along_x.in * pixel;
#pragma unroll 1
    for (Int kx = x.first; kx < x.last; ++kx) {
      const Int at_x = x.start + kx * along_x.dilation;
      if (along_x.up > 1 && at_x % along_x.up != 0) continue;
      const int64_t k = int64_t(ky) * along_x.taps + kx;
      sum +=
          weight[int64_t(channel) * all + (flipped ? all - 1 - k : k)] * widen(row[int64_t(at_x / along_x.up) * pixel]);
    }
  }
  out[i] = narrow<T>(sum);
}

template <class Index, class T>
void launch_general(const Correlation& p, cudaStream_t stream) {
  using Int = std::make_signed_t<Index>;
  const int64_t n = p.batch * p.channels * p.y.out * p.x.out;
  general<Index, T><<<blocks(n, kThreads), kThreads, 0, stream>>>(
      static_cast<const T*>(p.in), static_cast<T*>(p.out), Parameters<T>(p.weight), Parameters<T>(p.bias), Index(n),
      Steps<Int>(p.x), Steps<Int>(p.y), Divider<Index>(p.channels), Divider<Index>(p.x.out), Divider<Index>(p.y.out),
      p.channels_last, p.flipped);
}

void launch_general(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (p.batch * p.channels * p.y.out * p.x.out < kMost && small(p.x) && small(p.y))
      launch_general<uint32_t, T>(p, stream);
    else
      launch_general<uint64_t, T>(p, stream);
  });
}

void run(const char* op, Correlation p, const Tensor& in, Tensor& out) {
  if (out.numel() == 0) return;
  const ScalarType dtype = in.scalar_type();
  Tensor planes_in = in, planes_out = out;
  const bool transposing = p.channels_last && worth_transposing(p.y, p.x) && dtype != ScalarType::Double;
  if (transposing) {
    planes_in = in_planes(op, in);
    planes_out = empty_image(out, p.batch, p.channels, p.y.out, p.x.out, false);
    p.channels_last = false;
  }
  p.in = planes_in.data_ptr(), p.out = planes_out.data_ptr();
  launch(op, out, [&](cudaStream_t stream) {
    if (p.channels_last ? launch_pixels(p, dtype, stream) || launch_direct(p, dtype, stream)
                        : launch_small(p, dtype, stream) || launch_mma(p, dtype, stream) ||
                              launch_planes(p, dtype, stream) || launch_large(p, dtype, stream))
      return;
    launch_general(p, dtype, stream);
  });
  if (transposing) copy_strided(op, planes_out, out);
}

}  // namespace
}  // namespace depthwise

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t stride_h,
                        int64_t stride_w, int64_t pad_top, int64_t pad_bottom, int64_t pad_left, int64_t pad_right,
                        int64_t dilation_h, int64_t dilation_w) {
  DepthwiseConv2d p = prepare_depthwise_conv2d(x, weight, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left,
                                               pad_right, dilation_h, dilation_w);
  const auto line = [](const ConvAxis& a) {
    return depthwise::Line{a.in, a.out, a.taps, 1, a.stride, a.pad, a.dilation};
  };
  depthwise::run(
      "depthwise_conv2d",
      {p.batch, p.channels, line(p.y), line(p.x), p.channels_last, false, &p.weight, p.bias ? &*p.bias : nullptr}, p.in,
      p.out);
  return p.out;
}

Tensor depthwise_conv2d_grad_input(const Tensor& grad, const Tensor& weight, int64_t height, int64_t width,
                                   int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                   int64_t dilation_h, int64_t dilation_w, bool channels_last) {
  DepthwiseConv2d p = prepare_depthwise_conv2d_grad_input(grad, weight, height, width, stride_h, stride_w, pad_top,
                                                          pad_left, dilation_h, dilation_w, channels_last);
  const auto line = [](const ConvAxis& a) {
    return depthwise::Line{a.out, a.in, a.taps, a.stride, 1, a.dilation * (a.taps - 1) - a.pad, a.dilation};
  };
  depthwise::run("_depthwise_conv2d_grad_input",
                 {p.batch, p.channels, line(p.y), line(p.x), p.channels_last, true, &p.weight, nullptr}, p.out, p.in);
  return p.in;
}

Tensor depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w,
                                    int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                    int64_t dilation_h, int64_t dilation_w, bool float32);  // in _grad_weight.cu

constexpr auto& depthwise_conv2d_gradients = gradients<depthwise_conv2d_grad_input, depthwise_conv2d_grad_weight>;

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("depthwise_conv2d", TORCH_BOX(&customops::cuda::depthwise_conv2d));
  m.impl("_depthwise_conv2d", TORCH_BOX(&customops::cuda::depthwise_conv2d));
  m.impl("_depthwise_conv2d_grad_input", TORCH_BOX(&customops::cuda::depthwise_conv2d_grad_input));
  m.impl("_depthwise_conv2d_gradients", TORCH_BOX(&customops::cuda::depthwise_conv2d_gradients));
}

STABLE_TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  if (customops::hook_enabled())
    m.impl("_mps_convolution", TORCH_BOX(&customops::hooked<customops::cuda::depthwise_conv2d>));
}
