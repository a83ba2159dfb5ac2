// depthwise_conv2d, forward and dgrad, of one tap: each output is one pixel times a weight, or padding. A thread
// computes neighbours in memory and stores them at once; it finds all that they meet before it loads the first pixel.
// Without stride and padding the images are one flat array, and pixels are read as they are stored. Bound by memory.
#include "problem.cuh"

namespace customops::cuda::depthwise {
namespace {

// Outputs o, o + 1, ... meet pixels `down` apart, of which every up-th output meets one.
struct ScaleAxis {
  Divider<uint32_t> out, up;
  int in, down, pad;
  int before;             // multiples of `up` that keep positions positive
  int first, first_rest;  // where output 0 is

  explicit ScaleAxis(const Axis& given) {
    const Axis a = without_unused_steps(given);
    const int64_t multiples = ceil_div(std::max<int64_t>(a.pad, 0), a.up), start = multiples * a.up - a.pad;
    out = Divider<uint32_t>(a.out), up = Divider<uint32_t>(a.up);
    in = int(a.in), down = int(a.down), pad = int(a.pad), before = int(multiples);
    first = int(start / a.up - multiples), first_rest = int(start % a.up);
  }
};

// An output's place along an axis, and the pixel that it meets, if `rest` is 0.
struct ScalePlace {
  int output, pixel, rest;

  __device__ void start(const ScaleAxis& axis, uint32_t at) {
    uint32_t whole = at * axis.down + uint32_t(axis.before) * axis.up.divisor - uint32_t(axis.pad);
    output = int(at), rest = int(axis.up.divmod(whole)), pixel = int(whole) - axis.before;
  }
  // Whether that was not the last of the axis, after which its first one follows.
  __device__ bool next(const ScaleAxis& axis) {
    const bool more = ++output < int(axis.out.divisor), step = ++rest == int(axis.up.divisor);
    pixel = more ? pixel + (step ? axis.down : 0) : axis.first;
    rest = more ? (step ? 0 : rest) : axis.first_rest;
    output = more ? output : 0;
    return more;
  }
  __device__ bool inside(const ScaleAxis& axis) const { return rest == 0 && unsigned(pixel) < unsigned(axis.in); }
};

template <class T>
struct FwdScaleParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  ScaleAxis y, x;
  Divider<uint32_t> channels;
  uint32_t outputs;
  bool one_pixel;  // a vector's outputs are channels of one pixel, and those of `in` are aligned; channels_last alone
};

// Goes from an output to the next in memory. Along each axis by additions, because a division takes longer than all
// else that an output needs.
template <bool kChannelsLast>
struct ScaleWalk {
  uint32_t channel, plane;  // plane: or the image, of channels_last ones
  ScalePlace y, x;

  template <class T>
  __device__ ScaleWalk(const FwdScaleParams<T>& params, uint32_t output) {
    channel = kChannelsLast ? params.channels.divmod(output) : 0;
    x.start(params.x, params.x.out.divmod(output)), y.start(params.y, params.y.out.divmod(output));
    plane = output;
    if (!kChannelsLast) channel = params.channels.divmod(output);
  }
  template <class T>
  __device__ void next(const FwdScaleParams<T>& params) {
    if (kChannelsLast && ++channel < params.channels.divisor) return;
    if (kChannelsLast) channel = 0;
    if (x.next(params.x) || y.next(params.y)) return;
    ++plane;
    if (!kChannelsLast && ++channel == params.channels.divisor) channel = 0;
  }
  template <class T>
  __device__ bool inside(const FwdScaleParams<T>& params) const {
    return y.inside(params.y) && x.inside(params.x);
  }
  template <class T>
  __device__ uint32_t pixel(const FwdScaleParams<T>& params) const {
    const uint32_t at = (plane * params.y.in + y.pixel) * params.x.in + x.pixel;
    return kChannelsLast ? at * params.channels.divisor + channel : at;
  }
};

// What a thread's outputs meet: elements of `in`, those that there are, and channels.
template <int kVector>
struct ScaleMet {
  uint32_t element[kVector], channel[kVector];
  uint32_t inside = 0;  // a bit an output
};

// Of a pixel's channels and the next pixel's, where a vector has no others.
template <int kVector, class T>
__device__ void meet_two_pixels(const FwdScaleParams<T>& params, uint32_t first, ScaleMet<kVector>& met) {
  ScaleWalk<true> at(params, first);
  const uint32_t channel = at.channel, channels = params.channels.divisor, left = channels - channel;
  const uint32_t element = at.pixel(params);
  uint32_t inside = at.inside(params) ? 1 : 0;
  at.channel = channels - 1, at.next(params);
  const uint32_t next_element = at.pixel(params) - left;
  if (at.inside(params)) inside |= 2;
  if (inside == 0 && !params.bias) return;
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    const bool next = v >= left;
    met.element[v] = (next ? next_element : element) + v, met.channel[v] = channel + v - (next ? channels : 0);
    if (first + v < params.outputs) met.inside |= (inside >> next & 1) << v;
  }
}

// kFlat: output i meets pixel i.
template <class T, int kVector, bool kFlat, bool kChannelsLast>
__global__ void __launch_bounds__(kThreads) fwd_scale(const __grid_constant__ FwdScaleParams<T> params) {
  const uint32_t first = (blockIdx.x * kThreads + threadIdx.x) * kVector;
  if (first >= params.outputs) return;
  const bool whole = first + kVector <= params.outputs;
  ScaleMet<kVector> met;
  if (!kFlat && kChannelsLast && kVector > 1 && params.channels.divisor >= kVector) {
    meet_two_pixels(params, first, met);
  } else {
    ScaleWalk<kChannelsLast> at(params, first);
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      met.element[v] = kFlat ? first + v : at.pixel(params), met.channel[v] = at.channel;
      if (first + v < params.outputs && (kFlat || at.inside(params))) met.inside |= 1 << v;
      if (kVector > 1) at.next(params);
    }
  }
  const bool vector = kFlat ? whole : kVector > 1 && params.one_pixel && met.inside != 0;
  Vector<T, kVector> pixels{};
  acc_t<T> weight[kVector] = {}, bias[kVector] = {};
  if (met.inside != 0) {
    if (vector) {
      pixels = *reinterpret_cast<const Vector<T, kVector>*>(params.in + met.element[0]);
    } else {  // no branches, or loads would wait for each other: a load of some pixel where there is none
#pragma unroll
      for (int v = 0; v < kVector; ++v) pixels.at[v] = params.in[met.inside >> v & 1 ? met.element[v] : 0];
    }
    params.weight.visit([&](const auto& element) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) weight[v] = widen(T(element(met.channel[v])));
    });
  }
  if (params.bias)
#pragma unroll
    for (int v = 0; v < kVector; ++v) bias[v] = params.bias.select(met.channel[v]);
  Vector<T, kVector> result;
#pragma unroll
  for (int v = 0; v < kVector; ++v)
    result.at[v] = narrow<T>(met.inside >> v & 1 ? bias[v] + weight[v] * widen(pixels.at[v]) : bias[v]);
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
  const FwdScaleParams<T> params{weight_of<T>(problem),
                                 bias_of<T>(problem),
                                 static_cast<const T*>(problem.in),
                                 static_cast<T*>(problem.out),
                                 ScaleAxis(problem.y),
                                 ScaleAxis(problem.x),
                                 Divider<uint32_t>(problem.channels),
                                 uint32_t(outputs(problem)),
                                 problem.channels_last && has_channel_vectors(problem, kVector)};
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
  // Few outputs: as many threads as there can be; more of them where vectors of 16-bit outputs gather every few pixels.
  const bool gathers = !problem.channels_last && !flat && problem.y.up == 1 && problem.x.up == 1;
  const int64_t full = gathers && is_16_bit(problem.dtype) ? 1 << 20 : 1 << 18;
  const bool vectors =
      outputs(problem) >= full && problem.out_alignment == kAccess && (!flat || problem.in_alignment == kAccess);
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    vectors ? launch<T, kAccess / sizeof(T)>(problem, flat, stream) : launch<T, 1>(problem, flat, stream);
  });
}

}  // namespace customops::cuda::depthwise
