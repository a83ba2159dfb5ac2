// depthwise_conv2d, forward and dgrad, for few outputs of few taps, of any kernel, stride, dilation and dtype. A thread
// computes one output straight from memory. The time of so little work is the latency of dependent loads, and no tile
// or window is worth its setup.
#include "problem.cuh"

namespace customops::cuda::depthwise {
namespace {

struct SimpleAxis {
  int in, taps, up, down, pad, dilation;

  explicit SimpleAxis(const Axis& a)
      : in(int(a.in)),
        taps(int(a.taps)),
        up(int(a.up)),
        down(int(a.down)),
        pad(int(a.pad)),
        dilation(int(a.dilation)) {}
};

template <class T>
struct FwdSimpleParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  SimpleAxis y, x;
  Divider<uint32_t> width, height, channels;  // of the outputs
  uint32_t outputs;
  bool flipped;
};

// kTaps: along both axes, or 0: any.
template <class T, int kTaps, bool up, bool channels_last>
__global__ void __launch_bounds__(kThreads) fwd_simple(const __grid_constant__ FwdSimpleParams<T> params) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.outputs) return;
  const SimpleAxis &y_axis = params.y, &x_axis = params.x;
  uint32_t image = i, channel = channels_last ? params.channels.divmod(image) : 0;
  const int x_begin = int(params.width.divmod(image)) * x_axis.down - x_axis.pad;
  const int y_begin = int(params.height.divmod(image)) * y_axis.down - y_axis.pad;
  if (!channels_last) channel = params.channels.divmod(image);
  const int channels = int(params.channels.divisor), pixel = channels_last ? channels : 1;
  const int plane = y_axis.in * x_axis.in;
  const T* const in =
      params.in + int64_t(image) * channels * plane + (channels_last ? int64_t(channel) : int64_t(channel) * plane);
  const int taps_y = kTaps > 0 ? kTaps : y_axis.taps, taps_x = kTaps > 0 ? kTaps : x_axis.taps;
  const int64_t first_tap = int64_t(channel) * (taps_y * taps_x) + (params.flipped ? taps_y * taps_x - 1 : 0);
  const int sign = params.flipped ? -1 : 1;
  acc_t<T> sum = params.bias ? params.bias[channel] : acc_t<T>(0);
  // Several taps are loaded before the first product, so that the loads do not wait for each other.
  constexpr int kAtOnce = kTaps > 0 ? kTaps : 4;
#pragma unroll(kTaps > 0 ? kTaps : 1)
  for (int ky = 0; ky < taps_y; ++ky) {
    int y = y_begin + ky * y_axis.dilation;
    if (up && y % y_axis.up != 0) continue;
    if (up) y /= y_axis.up;
    const bool inside_y = unsigned(y) < unsigned(y_axis.in);
#pragma unroll(1)
    for (int first = 0; first < taps_x; first += kAtOnce) {
      acc_t<T> weight[kAtOnce], value[kAtOnce];
      bool inside[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int kx = first + k;
        int x = x_begin + kx * x_axis.dilation;
        inside[k] = inside_y && kx < taps_x;
        if (up) inside[k] = inside[k] && x % x_axis.up == 0, x /= x_axis.up;
        inside[k] = inside[k] && unsigned(x) < unsigned(x_axis.in);
        weight[k] = inside[k] ? params.weight.select(first_tap + sign * (ky * taps_x + kx)) : acc_t<T>(0);
        value[k] = inside[k] ? widen(in[(y * x_axis.in + x) * pixel]) : acc_t<T>(0);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) sum += weight[k] * value[k];  // 0 times 0 where no pixel is
    }
  }
  params.out[i] = narrow<T>(sum);
}

template <class T, int kTaps, bool up>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const FwdSimpleParams<T> params{Parameters<T>(problem.weight),
                                  Parameters<T>(problem.bias),
                                  static_cast<const T*>(problem.in),
                                  static_cast<T*>(problem.out),
                                  SimpleAxis(problem.y),
                                  SimpleAxis(problem.x),
                                  Divider<uint32_t>(uint32_t(problem.x.out)),
                                  Divider<uint32_t>(uint32_t(problem.y.out)),
                                  Divider<uint32_t>(uint32_t(problem.channels)),
                                  uint32_t(outputs(problem)),
                                  problem.flipped};
  const auto grid = unsigned(ceil_div(params.outputs, kThreads));
  if (problem.channels_last)
    fwd_simple<T, kTaps, up, true><<<grid, kThreads, 0, stream>>>(params);
  else
    fwd_simple<T, kTaps, up, false><<<grid, kThreads, 0, stream>>>(params);
}

}  // namespace

void launch_fwd_simple(const ForwardProblem& problem, cudaStream_t stream) {
  const int64_t taps = problem.y.taps == problem.x.taps ? problem.x.taps : 0;
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.y.up > 1 || problem.x.up > 1) return launch<T, 0, true>(problem, stream);
    if (taps == 3) return launch<T, 3, false>(problem, stream);
    launch<T, 0, false>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
