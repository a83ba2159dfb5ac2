// depthwise_conv2d, forward and dgrad, for few outputs or few taps, of any kernel, stride, dilation and dtype. A thread
// computes one output straight from memory, or, for many outputs of dgrad at a stride, those of four channels. The time
// of little work is the latency of dependent loads, and no tile or window is worth its setup. Contiguous images with
// more than a few taps are copied into shared memory first (simple_spans.cuh).
#include "first_tap.cuh"
#include "read_pixels.cuh"
#include "simple_spans.cuh"

namespace customops::cuda::depthwise {
namespace {

template <class T>
struct FwdSimpleParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  TapAxis y, x;
  Divider<uint32_t> width, height, channels;  // of the outputs; channels: in units of what a thread takes
  uint32_t threads;
  bool flipped;
};

// kTaps: along both axes, or 0: any. kLanes: channels of a thread, more than one only for channels_last images.
template <class T, int kTaps, bool up, bool channels_last, int kLanes>
__global__ void __launch_bounds__(kThreads) fwd_simple(const __grid_constant__ FwdSimpleParams<T> params) {
  using Pixel = Access<T, kLanes>;
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.threads) return;
  const TapAxis &y_axis = params.y, &x_axis = params.x;
  uint32_t image = i, channel = channels_last ? params.channels.divmod(image) * kLanes : 0;
  const FirstTap first_x = first_tap<up>(x_axis, params.width.divmod(image));
  const FirstTap first_y = first_tap<up>(y_axis, params.height.divmod(image));
  if (!channels_last) channel = params.channels.divmod(image);
  const int channels = int(params.channels.divisor) * kLanes, pixel = channels_last ? channels : 1;
  const int plane = y_axis.in * x_axis.in;
  const T* const in =
      params.in + int64_t(image) * channels * plane + (channels_last ? int64_t(channel) : int64_t(channel) * plane);
  const int taps_y = kTaps > 0 ? kTaps : y_axis.taps, taps_x = kTaps > 0 ? kTaps : x_axis.taps, taps = taps_y * taps_x;
  const int step_y = up ? int(y_axis.tap_step.divisor) : 1, step_x = up ? int(x_axis.tap_step.divisor) : 1;
  const int hop_y = up ? y_axis.pixel_step : y_axis.dilation, hop_x = up ? x_axis.pixel_step : x_axis.dilation;
  const int64_t first_weight = int64_t(channel) * taps + (params.flipped ? taps - 1 : 0);
  const int sign = params.flipped ? -1 : 1;
  acc_t<T> sum[kLanes];
#pragma unroll
  for (int v = 0; v < kLanes; ++v) sum[v] = params.bias ? params.bias[channel + v] : acc_t<T>(0);
  // Several taps are loaded before the first product, so that the loads do not wait for each other.
  constexpr int kAtOnce = kTaps > 0 ? kTaps : (kLanes > 1 ? 2 : 4);
  int y = first_y.pixel;
#pragma unroll(kTaps > 0 ? kTaps : 1)
  for (int ky = first_y.tap; ky < taps_y; ky += step_y, y += hop_y) {
    const bool inside_y = unsigned(y) < unsigned(y_axis.in);
    int x = first_x.pixel;
#pragma unroll(1)
    for (int kx = first_x.tap; kx < taps_x; kx += kAtOnce * step_x) {
      acc_t<T> weight[kAtOnce][kLanes];
      Pixel value[kAtOnce];
      int tap = ky * taps_x + kx;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k, x += hop_x, tap += step_x) {
        const bool inside = inside_y && kx + k * step_x < taps_x && unsigned(x) < unsigned(x_axis.in);
        value[k] = Pixel{};
        if (inside) value[k] = *reinterpret_cast<const Pixel*>(in + (y * x_axis.in + x) * pixel);
#pragma unroll
        for (int v = 0; v < kLanes; ++v)
          weight[k][v] = inside ? params.weight.select(first_weight + int64_t(v) * taps + sign * tap) : acc_t<T>(0);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)  // 0 times 0 where no pixel is
#pragma unroll
        for (int v = 0; v < kLanes; ++v) sum[v] += weight[k][v] * widen(part<T>(value[k], v));
    }
  }
  Vector<T, kLanes> result;
#pragma unroll
  for (int v = 0; v < kLanes; ++v) result.at[v] = narrow<T>(sum[v]);
  *reinterpret_cast<Vector<T, kLanes>*>(params.out + int64_t(i) * kLanes) = result;
}

template <class T, int kTaps, bool up, bool channels_last, int kLanes>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const FwdSimpleParams<T> params{weight_of<T>(problem),
                                  bias_of<T>(problem),
                                  static_cast<const T*>(problem.in),
                                  static_cast<T*>(problem.out),
                                  TapAxis(problem.y),
                                  TapAxis(problem.x),
                                  Divider<uint32_t>(problem.x.out),
                                  Divider<uint32_t>(problem.y.out),
                                  Divider<uint32_t>(problem.channels / kLanes),
                                  uint32_t(outputs(problem) / kLanes),
                                  problem.flipped};
  const auto grid = unsigned(ceil_div(params.threads, kThreads));
  fwd_simple<T, kTaps, up, channels_last, kLanes><<<grid, kThreads, 0, stream>>>(params);
}

template <class T, int kTaps, bool up>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  constexpr int64_t kFull = 1 << 18;  // outputs that keep a GPU busy with four channels a thread
  if (!problem.channels_last) return launch<T, kTaps, up, false, 1>(problem, stream);
  if constexpr (up && sizeof(T) < 8)
    if (outputs(problem) >= kFull && has_channel_vectors(problem, 4))
      return launch<T, kTaps, up, true, 4>(problem, stream);
  launch<T, kTaps, up, true, 1>(problem, stream);
}

}  // namespace

void launch_fwd_simple(const ForwardProblem& problem, cudaStream_t stream) {
  const int64_t taps = problem.y.taps == problem.x.taps ? problem.x.taps : 0;
  const SpansPlan spans = plan_spans(problem, current_gpu().multiprocessors);
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) < 8)
      if (spans.planes > 0) return launch_spans<T>(problem, spans, stream);
    if (problem.y.up > 1 || problem.x.up > 1) return launch<T, 0, true>(problem, stream);
    if (taps == 3) return launch<T, 3, false>(problem, stream);
    launch<T, 0, false>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
