// depthwise_conv2d, forward and dgrad, of one tap: each output is one pixel times a weight, or padding. A thread
// computes neighbours in memory and stores them at once. Without stride and padding the images are one flat array, and
// pixels are read as they are stored. Bound by memory.
#include "problem.cuh"

namespace customops::cuda::depthwise {
namespace {

struct ScaleAxis {
  Divider<uint32_t> out, up;
  int in, down, pad;

  explicit ScaleAxis(const Axis& a) : out(a.out), up(a.up), in(int(a.in)), down(int(a.down)), pad(int(a.pad)) {}

  // The pixel that output o meets, or -1.
  __device__ int pixel(uint32_t o) const {
    const int at = int(o) * down - pad;
    if (at < 0) return -1;
    uint32_t whole = uint32_t(at);
    if (up.divisor > 1 && up.divmod(whole) != 0) return -1;
    return int(whole) < in ? int(whole) : -1;
  }
};

template <class T>
struct FwdScaleParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  ScaleAxis y, x;
  Divider<uint32_t> channels;
  uint32_t outputs;
};

// Where an output is.
struct ScalePosition {
  uint32_t image, channel, y, x;
};

template <bool kChannelsLast, class T>
__device__ ScalePosition position_of(const FwdScaleParams<T>& params, uint32_t output) {
  ScalePosition at{output, 0, 0, 0};
  if (kChannelsLast) at.channel = params.channels.divmod(at.image);
  at.x = params.x.out.divmod(at.image), at.y = params.y.out.divmod(at.image);
  if (!kChannelsLast) at.channel = params.channels.divmod(at.image);
  return at;
}

template <bool kChannelsLast, class T>
__device__ void move_to_next(const FwdScaleParams<T>& params, ScalePosition& at) {
  if (kChannelsLast && ++at.channel < params.channels.divisor) return;
  if (kChannelsLast) at.channel = 0;
  if (++at.x < params.x.out.divisor) return;
  at.x = 0;
  if (++at.y < params.y.out.divisor) return;
  at.y = 0;
  if (!kChannelsLast && ++at.channel < params.channels.divisor) return;
  if (!kChannelsLast) at.channel = 0;
  ++at.image;
}

// kFlat: output i meets pixel i.
template <class T, int kVector, bool kFlat, bool kChannelsLast>
__global__ void __launch_bounds__(kThreads) fwd_scale(const __grid_constant__ FwdScaleParams<T> params) {
  const uint32_t first = (blockIdx.x * kThreads + threadIdx.x) * kVector;
  if (first >= params.outputs) return;
  const bool whole = first + kVector <= params.outputs;
  ScalePosition at = position_of<kChannelsLast>(params, first);
  Vector<T, kVector> pixels{};
  acc_t<T> weight[kVector] = {}, bias[kVector] = {};
  if (kFlat && whole) pixels = *reinterpret_cast<const Vector<T, kVector>*>(params.in + first);
  int y = 0, x = 0;
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    if (first + v >= params.outputs) break;
    if (!kFlat && (v == 0 || !kChannelsLast || at.channel == 0)) y = params.y.pixel(at.y), x = params.x.pixel(at.x);
    if (y >= 0 && x >= 0) {
      weight[v] = params.weight.select(at.channel);
      const uint32_t channels = params.channels.divisor;
      if (kFlat && !whole) pixels.at[v] = params.in[first + v];
      if (!kFlat)
        pixels.at[v] =
            params.in[kChannelsLast ? ((at.image * params.y.in + y) * params.x.in + x) * channels + at.channel
                                    : ((at.image * channels + at.channel) * params.y.in + y) * params.x.in + x];
    }
    if (params.bias) bias[v] = params.bias.select(at.channel);
    if (kVector > 1) move_to_next<kChannelsLast>(params, at);
  }
  Vector<T, kVector> result;
#pragma unroll
  for (int v = 0; v < kVector; ++v) result.at[v] = narrow<T>(bias[v] + weight[v] * widen(pixels.at[v]));
  if (whole) {
    *reinterpret_cast<Vector<T, kVector>*>(params.out + first) = result;
  } else {
#pragma unroll
    for (int v = 0; v < kVector; ++v)
      if (first + v < params.outputs) params.out[first + v] = result.at[v];
  }
}

template <class T, int kVector>
void launch(const ForwardProblem& problem, bool flat, cudaStream_t stream) {
  const FwdScaleParams<T> params{
      Parameters<T>(problem.weight),       Parameters<T>(problem.bias), static_cast<const T*>(problem.in),
      static_cast<T*>(problem.out),        ScaleAxis(problem.y),        ScaleAxis(problem.x),
      Divider<uint32_t>(problem.channels), uint32_t(outputs(problem))};
  const unsigned grid = blocks(params.outputs, kThreads * kVector);
  if (problem.channels_last)
    flat ? fwd_scale<T, kVector, true, true><<<grid, kThreads, 0, stream>>>(params)
         : fwd_scale<T, kVector, false, true><<<grid, kThreads, 0, stream>>>(params);
  else
    flat ? fwd_scale<T, kVector, true, false><<<grid, kThreads, 0, stream>>>(params)
         : fwd_scale<T, kVector, false, false><<<grid, kThreads, 0, stream>>>(params);
}

}  // namespace

void launch_fwd_scale(const ForwardProblem& problem, cudaStream_t stream) {
  const auto one_to_one = [](const Axis& a) { return a.up == 1 && a.down == 1 && a.pad == 0 && a.in == a.out; };
  const bool flat = one_to_one(problem.y) && one_to_one(problem.x);
  // Few outputs: as many threads as there can be.
  const bool vectors =
      outputs(problem) >= 1 << 18 && problem.out_alignment == kAccess && (!flat || problem.in_alignment == kAccess);
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    vectors ? launch<T, kAccess / sizeof(T)>(problem, flat, stream) : launch<T, 1>(problem, flat, stream);
  });
}

}  // namespace customops::cuda::depthwise
