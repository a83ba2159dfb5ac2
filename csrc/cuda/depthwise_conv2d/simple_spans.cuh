// fwd_simple forward, and for dgrad at stride 1, over contiguous images that are small: one after another, or some rows
// of one, their pixels are a span of memory. A block copies the span under its outputs into shared memory at once, as
// it lies, and the taps. So a thread waits for memory once, not for each row of taps. A thread then computes an output
// at a time; neighbours are stored by neighbours.
#pragma once

#include "copy_images.cuh"

namespace customops::cuda::depthwise {

constexpr int kSpanTaps = 4;  // that a thread reads at once

// A block takes `planes` planes, or `rows` rows of outputs of one of them.
struct SpansPlan {
  int64_t planes, rows;  // planes: 0: this is not for the problem
  int64_t pixels;        // elements of a span, at most
};

template <class T>
struct SpansParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  Divider<uint32_t> width, rows, bands, channels;  // outputs of a row; rows of a block; blocks of a plane
  Divider<uint32_t> tap_width, tap_rows;           // tap_width: filled up to kSpanTaps
  int in_h, in_w, out_h, taps_y, taps_x, down_y, down_x, pad_y, pad_x, dilation_y, dilation_x;
  int planes, all_planes, sets, tap_bytes;  // sets of taps of a block: one, if there is one channel
  int64_t elements;
  bool flipped;
};

// The taps of `sets` planes from `first_plane` on.
template <class T, class A>
__device__ void load_span_taps(const SpansParams<T>& params, int first_plane, int sets, A* taps) {
  const int width = int(params.tap_width.divisor), all = sets * params.taps_y * width;
  params.weight.visit([&](const auto& element) {
#pragma unroll 2
    for (int i = int(threadIdx.x); i < all; i += int(blockDim.x)) {
      uint32_t set = uint32_t(i);
      const int kx = int(params.tap_width.divmod(set)), ky = int(params.tap_rows.divmod(set));
      uint32_t channel = uint32_t(first_plane) + set;
      channel = params.channels.divmod(channel);
      const int tap = ky * params.taps_x + kx, count = params.taps_y * params.taps_x;
      taps[i] = kx < params.taps_x
                    ? widen(T(element(int64_t(channel) * count + (params.flipped ? count - 1 - tap : tap))))
                    : A(0);
    }
  });
}

// The sum of an output whose window begins at row y and column x, either of which may be outside. image: pixel (0, 0).
// kOneStep: a row of taps is kSpanTaps; which columns are inside is then known for all rows.
template <bool kOneStep, class T, class A>
__device__ A sum_span(const SpansParams<T>& params, const T* image, const A* taps, int y, int x, A sum) {
  const int end = max(0, min(params.in_w, x + params.taps_x * params.dilation_x));
  const int width = kOneStep ? kSpanTaps : int(params.tap_width.divisor);
  int column[kSpanTaps];
  bool inside[kSpanTaps];
  const auto find = [&](int first) {
#pragma unroll
    for (int k = 0; k < kSpanTaps; ++k) {
      column[k] = first + k * params.dilation_x;
      inside[k] = unsigned(column[k]) < unsigned(end);
    }
  };
  if (kOneStep) find(x);
#pragma unroll 1
  for (int ky = 0; ky < params.taps_y; ++ky, y += params.dilation_y, taps += width) {
    if (unsigned(y) >= unsigned(params.in_h)) continue;
    const T* const row = image + y * params.in_w;
#pragma unroll 1
    for (int kx = 0; kx < width; kx += kSpanTaps) {
      if (!kOneStep) find(x + kx * params.dilation_x);
      A pixel[kSpanTaps], tap[kSpanTaps];
      *reinterpret_cast<Vector<A, kSpanTaps>*>(tap) = *reinterpret_cast<const Vector<A, kSpanTaps>*>(taps + kx);
#pragma unroll
      for (int k = 0; k < kSpanTaps; ++k)
        if (inside[k]) pixel[k] = widen(row[column[k]]);
#pragma unroll
      for (int k = 0; k < kSpanTaps; ++k)
        if (inside[k]) sum += tap[k] * pixel[k];  // or infinities would meet taps that are not there
    }
  }
  return sum;
}

template <class T, bool kOneStep>
__global__ void __launch_bounds__(kThreads) simple_spans(const __grid_constant__ SpansParams<T> params) {
  using A = acc_t<T>;
  constexpr int kVector = kAccess / sizeof(T);
  extern __shared__ __align__(kAccess) char shared[];
  A* const taps = reinterpret_cast<A*>(shared);
  T* const pixels = reinterpret_cast<T*>(shared + params.tap_bytes);
  uint32_t group = blockIdx.x;
  const int band = int(params.bands.divmod(group)), first_plane = int(group) * params.planes;
  const int planes = min(params.planes, params.all_planes - first_plane), first_row = band * int(params.rows.divisor);
  const int rows = min(int(params.rows.divisor), params.out_h - first_row);
  // Several planes are whole.
  const int window = first_row * params.down_y - params.pad_y;
  const int begin = params.planes > 1 ? 0 : max(0, window);
  const int end =
      params.planes > 1
          ? params.in_h
          : min(params.in_h, window + (rows - 1) * params.down_y + (params.taps_y - 1) * params.dilation_y + 1);
  const int plane = params.in_h * params.in_w;
  const int64_t start = int64_t(first_plane) * plane + begin * params.in_w;
  const int lead = int(start % kVector);
  if (begin < end)
    copy_span(params.in, start - lead, lead + (planes - 1) * plane + (end - begin) * params.in_w, params.elements,
              pixels);
  load_span_taps(params, first_plane, min(planes, params.sets), taps);
  wait_copies(0);
  __syncthreads();
  const int width = int(params.width.divisor), outputs = planes * rows * width;
  T* const out = params.out + (int64_t(first_plane) * params.out_h + first_row) * width;
#pragma unroll 1
  for (int i = int(threadIdx.x); i < outputs; i += int(blockDim.x)) {
    uint32_t set = uint32_t(i);
    const int x = int(params.width.divmod(set)), y = int(params.rows.divmod(set));
    uint32_t channel = uint32_t(first_plane) + set;
    channel = params.channels.divmod(channel);
    const T* const image = pixels + lead + int(set) * plane - begin * params.in_w;
    const int tap_set = params.sets > 1 ? int(set) : 0;
    out[i] = narrow<T>(sum_span<kOneStep>(params, image, taps + tap_set * params.taps_y * int(params.tap_width.divisor),
                                          window + y * params.down_y, x * params.down_x - params.pad_x,
                                          params.bias ? params.bias[channel] : A(0)));
  }
}

inline int64_t span_taps(const Problem& problem) { return problem.y.taps * round_up(problem.x.taps, kSpanTaps); }

inline SpansPlan plan_spans(const Problem& problem, int64_t multiprocessors) {
  constexpr int64_t kRoom = 40 << 10, kMostWidth = 1024, kMostTaps = 1024;
  const int64_t in_plane = problem.y.in * problem.x.in, plane = problem.y.out * problem.x.out;
  const int64_t planes = problem.batch * problem.channels, taps = problem.taps();
  // Measured on an H200: fewer taps are not worth it, nor 3x3, for which fwd_simple is compiled.
  const bool square = problem.y.taps == 3 && problem.x.taps == 3;
  const int64_t least_taps = is_16_bit(problem.dtype) && !square ? 7 : 16;
  if (problem.channels_last || problem.dtype == Dtype::kFloat64 || problem.in_alignment < kAccess || problem.y.up > 1 ||
      problem.x.up > 1 || taps < least_taps || taps > kMostTaps || problem.x.out > kMostWidth ||
      in_plane > plane * std::min<int64_t>(taps, 16))
    return {};
  const int64_t tap_bytes = span_taps(problem) * 4, bytes = problem.element_bytes(), room = kRoom - 2 * kAccess;
  // Outputs of a block: one a thread, or more where that leaves enough blocks.
  const int64_t wanted = kThreads * std::clamp<int64_t>(planes * plane / (multiprocessors * 4 * kThreads), 1, 4);
  const int64_t a_plane = in_plane * bytes + (problem.channels > 1 ? tap_bytes : 0);
  const int64_t shared_taps = problem.channels > 1 ? 0 : tap_bytes;
  if (plane <= wanted && a_plane + shared_taps <= room) {
    const int64_t fit = std::min({wanted / plane, (room - shared_taps) / a_plane, planes});
    return {fit, problem.y.out, fit * in_plane};
  }
  const int64_t span = (problem.y.taps - 1) * problem.y.dilation + 1;
  const auto pixels = [&](int64_t rows) {
    return std::min(problem.y.in, (rows - 1) * problem.y.down + span) * problem.x.in;
  };
  int64_t rows = std::clamp<int64_t>(wanted / problem.x.out, 1, problem.y.out);
  rows = ceil_div(problem.y.out, ceil_div(problem.y.out, rows));
  while (rows > 1 && pixels(rows) * bytes + tap_bytes > room) rows = (rows + 1) / 2;
  if (pixels(rows) * bytes + tap_bytes > room || planes * problem.y.out >= kMaxIndex) return {};
  return {1, rows, pixels(rows)};
}

template <class T>
void launch_spans(const ForwardProblem& problem, const SpansPlan& plan, cudaStream_t stream) {
  SpansParams<T> params{};
  params.weight = weight_of<T>(problem), params.bias = bias_of<T>(problem);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  const Axis y = without_unused_steps(problem.y), x = without_unused_steps(problem.x);
  const int64_t planes = problem.batch * problem.channels, bands = ceil_div(y.out, plan.rows);
  params.width = Divider<uint32_t>(x.out), params.rows = Divider<uint32_t>(plan.rows);
  params.bands = Divider<uint32_t>(bands), params.channels = Divider<uint32_t>(problem.channels);
  params.tap_width = Divider<uint32_t>(round_up(x.taps, kSpanTaps)), params.tap_rows = Divider<uint32_t>(y.taps);
  params.in_h = int(y.in), params.in_w = int(x.in), params.out_h = int(y.out);
  params.taps_y = int(y.taps), params.taps_x = int(x.taps), params.down_y = int(y.down), params.down_x = int(x.down);
  params.pad_y = int(y.pad), params.pad_x = int(x.pad);
  params.dilation_y = int(y.dilation), params.dilation_x = int(x.dilation);
  params.planes = int(plan.planes), params.all_planes = int(planes), params.flipped = problem.flipped;
  params.sets = problem.channels > 1 ? int(plan.planes) : 1;
  params.tap_bytes = int(params.sets * span_taps(problem) * int64_t(sizeof(acc_t<T>)));
  params.elements = planes * y.in * x.in;
  const int64_t threads = std::min<int64_t>(kThreads, round_up(plan.planes * plan.rows * x.out, kWarp));
  const int64_t bytes = params.tap_bytes + (plan.pixels * int64_t(sizeof(T)) + 2 * kAccess);
  const auto grid = unsigned(ceil_div(planes, plan.planes) * bands), block = unsigned(threads);
  x.taps <= kSpanTaps ? simple_spans<T, true><<<grid, block, bytes, stream>>>(params)
                      : simple_spans<T, false><<<grid, block, bytes, stream>>>(params);
}

}  // namespace customops::cuda::depthwise
