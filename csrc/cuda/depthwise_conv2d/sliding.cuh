// What the kernels for any stride and dilation share on the GPU; their geometry is explained in problem.h.
#pragma once

#include "read_pixels.cuh"

namespace customops::cuda::depthwise {

// The logarithm of the threads that copy a run of n elements together: each copies several elements, as long as `runs`
// runs keep all threads of a block busy.
inline int log_lanes(int64_t n, int64_t runs) {
  int log = 0;
  while ((1 << log) < std::min<int64_t>(kThreads, n) &&
         ((1 << log) < kWarp || (1 << log) * 8 < n || (1 << log) * runs < kThreads))
    ++log;
  return log;
}

// Copies samples first, first + step, ... of a row of `size` elements into shared memory, widened, with zeros outside
// of the row. `lanes` threads take part; each issues several loads before it waits for the first.
template <class T, class A>
__device__ void copy_row(const T* row, int size, int first, int step, A* to, int samples, int lane, int lanes) {
  constexpr int kAtOnce = 8;
  int at = first + step * lane;
  const int hop = step * lanes;
  for (int z = lane; z < samples; z += kAtOnce * lanes) {
    T values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k, at += hop) {
      values[k] = T{};
      if (unsigned(at) < unsigned(size)) values[k] = row[at];
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (z + k * lanes < samples) to[z + k * lanes] = widen(values[k]);
  }
}

// Every tap_step-th tap from `first` on, `count` of them. For the first output, the first of them reads input `start`.
template <class Int>
struct TapClass {
  Int first, count, start;
};

template <class Int>
__device__ TapClass<Int> class_of(const SlidingAxis<Int>& a, Int number) {
  const Int rest = a.taps - 1 - number;
  return {number, rest < 0 ? 0 : (a.tap_step == 1 ? rest : rest / a.tap_step) + 1, number * a.dilation - a.pad};
}

template <class Int>
__device__ TapClass<Int> class_of_phase(const SlidingAxis<Int>& a, Int phase) {
  Int steps = a.pad - phase;
  if (a.tap_step < a.up) {
    const Int common = a.up / a.tap_step;
    if (steps % common != 0) return {0, 0, 0};
    steps /= common;
  }
  const Int residue = (steps % a.tap_step + a.tap_step) % a.tap_step;
  // In 32 bits where the product fits: a division of 64 bits takes about as long as all else here.
  const Int first = a.tap_step < (1 << 15) ? Int(uint32_t(residue) * uint32_t(a.inverse) % uint32_t(a.tap_step))
                                           : Int(int64_t(residue) * a.inverse % a.tap_step);
  const Int count = first < a.taps ? (a.taps - 1 - first) / a.tap_step + 1 : 0;
  return {first, count, (phase - a.pad + first * a.dilation) / a.up};
}

// The taps that read a pixel for one output of an axis: taps first, first + tap_step, ... read inputs `input`,
// input + input_step, ...
template <class Int>
struct TapRange {
  Int first, tap_step, input, input_step, count;
};

template <class Int>
__device__ TapRange<Int> taps_of_output(const SlidingAxis<Int>& a, Int output) {
  TapRange<Int> range{0, 1, output * a.down - a.pad, a.dilation, a.taps};
  if (a.up > 1) {
    const TapClass<Int> taps = class_of_phase(a, output % a.up);
    range = {taps.first, a.tap_step, taps.start + output / a.up, a.spacing, taps.count};
  }
  const Int step = range.input_step;
  Int skipped = 0;
  if (range.input < 0) skipped = min(range.count, step == 1 ? -range.input : (-range.input + step - 1) / step);
  range.input += skipped * step, range.first += skipped * range.tap_step;
  const Int rest = a.in - 1 - range.input;
  range.count = min(range.count - skipped, rest < 0 ? 0 : (step == 1 ? rest : rest / step) + 1);
  return range;
}

constexpr int kTapsAtOnce = 4;

// Which of a group's taps a thread adds up: where a GPU is not full of groups, `count` threads share one (problem.h).
struct TapShare {
  int number, count;
};

// slide: the axis along which a thread's registers slide; cross: the other one.
template <class T, class Int>
struct SlidingParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  SlidingAxis<Int> slide, cross;
  Int in_slide, in_cross, out_slide, out_cross;  // elements from one pixel to the next
  Int weight_slide, weight_cross, taps;
  int64_t in_image, out_image;  // elements of an image, or of a plane
  int64_t first_image;          // of this launch
  Int first_row, first_column;  // of this launch
  bool flipped;
};

// Adds taps [begin, end) of one class and row to a thread's outputs. in: the row; first: the input that output 0 reads
// by tap 0. weight(k): tap k of the class, a Vector. A step issues all its loads before it waits for the first.
template <int kOutputs, int kVector, class T, class Int, class A, class Weight>
__device__ void slide_over(const T* in, Int first, Int step, Int size, Int stride, Int begin, Int end,
                           const Weight& weight, A (&sum)[kOutputs][kVector]) {
  constexpr int kCarried = kOutputs - 1, kWindow = kCarried + kTapsAtOnce;
  using Pixel = Access<T, kVector>;
  using Unsigned = std::make_unsigned_t<Int>;
  Unsigned at = Unsigned(first + step * begin), offset = at * Unsigned(stride);
  const Unsigned hop = Unsigned(step) * Unsigned(stride);
  const auto read = [&](bool needed) {
    Pixel pixel{};
    if (needed && at < Unsigned(size)) pixel = *reinterpret_cast<const Pixel*>(in + offset);
    at += Unsigned(step), offset += hop;
    return pixel;
  };
  Pixel carried[kCarried];
  A window[kWindow][kVector];
#pragma unroll
  for (int i = 0; i < kCarried; ++i) carried[i] = read(true);
#pragma unroll 1
  for (Int tap = begin;;) {
    Pixel coming[kTapsAtOnce];
    Vector<A, kVector> taps[kTapsAtOnce];
#pragma unroll
    for (int k = 0; k < kTapsAtOnce; ++k) coming[k] = read(tap + k < end);
#pragma unroll
    for (int k = 0; k < kTapsAtOnce; ++k)
      if (tap + k < end) taps[k] = weight(tap + k);
    if (tap == begin) {
#pragma unroll
      for (int i = 0; i < kCarried; ++i)
#pragma unroll
        for (int v = 0; v < kVector; ++v) window[i][v] = widen(part<T>(carried[i], v));
    }
#pragma unroll
    for (int k = 0; k < kTapsAtOnce; ++k)
#pragma unroll
      for (int v = 0; v < kVector; ++v) window[kCarried + k][v] = widen(part<T>(coming[k], v));
#pragma unroll
    for (int k = 0; k < kTapsAtOnce; ++k)
      if (tap + k < end)  // or infinities would meet taps that are not there
#pragma unroll
        for (int o = 0; o < kOutputs; ++o)
#pragma unroll
          for (int v = 0; v < kVector; ++v) sum[o][v] += taps[k].at[v] * window[o + k][v];
    tap += kTapsAtOnce;
    if (tap >= end) break;
#pragma unroll
    for (int i = 0; i < kCarried; ++i)
#pragma unroll
      for (int v = 0; v < kVector; ++v) window[i][v] = window[i + kTapsAtOnce][v];
  }
}

// One output: a thread's share of the taps that meet an input, some at a time.
template <int kVector, class T, class Int, class A, class Weight>
__device__ void sum_output(const SlidingParams<T, Int>& params, const T* in, Int slide, Int cross, TapShare share,
                           const Weight& weight, A (&sum)[1][kVector]) {
  constexpr int kAtOnce = kVector == 1 ? 9 : 4;
  using Pixel = Access<T, kVector>;
  const TapRange<Int> a = taps_of_output(params.slide, slide), b = taps_of_output(params.cross, cross);
  if (a.count <= 0 || b.count <= 0) return;
  Int offset = a.input * params.in_slide + b.input * params.in_cross;
  Int tap = a.first * params.weight_slide + b.first * params.weight_cross;
  const Int next = b.input_step * params.in_cross, next_tap = b.tap_step * params.weight_cross;
  const Int line = a.input_step * params.in_slide - b.count * next;
  const Int line_tap = a.tap_step * params.weight_slide - b.count * next_tap;
  Int left = a.count * b.count, column = 0;
  if (share.count > 1) {
    const Int each = (left + share.count - 1) / share.count, begin = share.number * each, lines = begin / b.count;
    column = begin - lines * b.count, left = min(each, left - begin);
    offset += lines * (line + b.count * next) + column * next;
    tap += lines * (line_tap + b.count * next_tap) + column * next_tap;
  }
#pragma unroll 1
  for (; left > 0; left -= kAtOnce) {
    Pixel pixels[kAtOnce];
    Vector<A, kVector> taps[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      pixels[k] = Pixel{}, taps[k] = Vector<A, kVector>{};
      if (k < left) pixels[k] = *reinterpret_cast<const Pixel*>(in + offset), taps[k] = weight(tap);
      offset += next, tap += next_tap;
      if (++column == b.count) column = 0, offset += line, tap += line_tap;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[0][v] += taps[k].at[v] * widen(part<T>(pixels[k], v));
  }
}

// The outputs of group `group` along the axis that slides, and of `cross` along the other. weight(k): tap k, a Vector.
// Shares are rows of taps, or parts of the one row.
template <int kOutputs, int kVector, class T, class Int, class A, class Weight>
__device__ void sum_group(const SlidingParams<T, Int>& params, const T* in, Int group, Int cross, TapShare share,
                          const Weight& weight, A (&sum)[kOutputs][kVector]) {
  if constexpr (kOutputs == 1) {
    sum_output<kVector>(params, in, group, cross, share, weight, sum);
  } else {
    const SlidingAxis<Int>& a = params.slide;
    Int phase = 0, residue = 0, number = group;
    if (a.stride() > 1) phase = group % a.up, residue = group / a.up % a.spacing, number = group / a.stride();
    const Int offset = residue * a.down + a.input_step * number * kOutputs, step = a.input_step;
    const TapRange<Int> rows = taps_of_output(params.cross, cross);
    const Int next_row = rows.input_step * params.in_cross, next_tap = rows.tap_step * params.weight_cross;
    const bool shares_rows = params.cross.taps > 1;
    const Int first_row = shares_rows ? share.number : 0, row_step = shares_rows ? share.count : 1;
    const auto add = [&](const TapClass<Int>& taps) {
      const Int first = taps.start + offset, last = first + step * (kOutputs - 1), rest = a.in - 1 - first;
      // Taps that meet an input for one of the outputs.
      Int begin = last >= 0 ? 0 : (step == 1 ? -last : (step - 1 - last) / step);
      Int end = min(taps.count, rest < 0 ? 0 : (step == 1 ? rest : rest / step) + 1);
      if (!shares_rows && share.count > 1) {
        const Int each = ((end - begin - 1) / (share.count * kTapsAtOnce) + 1) * kTapsAtOnce;
        begin += share.number * each, end = min(end, begin + each);
      }
      if (begin >= end) return;
      Int row = rows.input * params.in_cross + first_row * next_row, stride = a.tap_step * params.weight_slide;
      Int tap = rows.first * params.weight_cross + taps.first * params.weight_slide + first_row * next_tap;
#pragma unroll 1
      for (Int j = first_row; j < rows.count; j += row_step, row += row_step * next_row, tap += row_step * next_tap)
        slide_over<kOutputs, kVector>(
            in + row, first, step, a.in, params.in_slide, begin, end, [&](Int k) { return weight(tap + k * stride); },
            sum);
    };
    if (a.up > 1) {
      add(class_of_phase(a, phase));
    } else {
#pragma unroll 1
      for (Int c = 0; c < a.classes; ++c) add(class_of(a, c));
    }
  }
}

}  // namespace customops::cuda::depthwise
