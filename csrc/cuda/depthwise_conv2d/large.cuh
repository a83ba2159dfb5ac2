// depthwise_conv2d for large kernels at stride 1, contiguous images, any number of taps: bound by multiply-adds. The
// same kernel computes forward and dgrad, with a plane and its channel's taps, and wgrad, with a plane and
// the gradient as its taps, summed over the batch.
//
// Plane and taps lie in shared memory, widened. A thread computes 8 by 7 outputs: it walks down the rows of the plane,
// slides along each in steps of four pixels, and meets seven rows of taps at each step: 8 vectors read for 224
// multiply-adds. Rows outside the image are not there, so that they cost nothing; taps have rows of zeros around them
// instead, so that no step asks which of the seven concern it.
#pragma once

#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
constexpr int kX = 8, kY = 7, kTapStep = 4, kMaxThreads = 128;

template <class T>
struct LargeParams {
  Parameters<T> weight, bias;
  const T *in, *grad;                                              // grad: in the place of the weight
  void* out;                                                       // T, or partial sums of acc_t<T>
  int in_h, in_w, taps_h, taps_w, out_h, out_w, left, top, shift;  // shift: zeros before a row of taps
  int pitch, rows, tap_steps, planes, images, channels, batch, images_a_split, in_lanes_log, filter_lanes_log;
  bool flipped;
  Divider<uint32_t> blocks_x, blocks_y, tiles_x, tiles_y, slices;
};

// Lanes that take a row together: a power of two, at most a warp, at least the row's elements where those are fewer.
inline int row_lanes(int64_t elements) {
  int log = 0;
  while (log < 5 && (1 << log) < elements) ++log;
  return log;
}

// Widens `rows` rows from `first` on, columns lo to before hi, of some planes into shared memory, where planes are
// `step` apart; zeros around them are there before. `from(plane, i)` is element i of a plane.
template <class A, class From>
__device__ void widen_rows(A* to, int step, int pitch, const From& from, int planes, int width, int lo, int hi,
                           int first, int rows, int lanes_log) {
  const int lane = threadIdx.x & ((1 << lanes_log) - 1), all = planes * rows;
  const auto element = [&](int r, int c) {
    const int plane = r / rows, row = r - plane * rows;
    to[plane * step + row * pitch + c - lo] = from(plane, int64_t(first + row) * width + c);
  };
  if (hi - lo <= 1 << lanes_log) {
    if (lane < hi - lo)
#pragma unroll 8
      for (int r = threadIdx.x >> lanes_log; r < all; r += blockDim.x >> lanes_log) element(r, lo + lane);
  } else {
    for (int r = threadIdx.x >> lanes_log; r < all; r += blockDim.x >> lanes_log)
#pragma unroll 4
      for (int c = lo + lane; c < hi; c += 1 << lanes_log) element(r, c);
  }
}

template <class T, bool kGradient>
__global__ void __launch_bounds__(kMaxThreads) large(const __grid_constant__ LargeParams<T> params) {
  using A = acc_t<T>;
  using V = Vector<A, kTapStep>;
  extern __shared__ __align__(kAccess) char shared[];
  const int filter_pitch = params.tap_steps * kTapStep, filter_rows = params.taps_h + 2 * (kY - 1);
  A* const patch = reinterpret_cast<A*>(shared);
  A* const filter = patch + params.images * params.planes * params.rows * params.pitch;
  const int patch_bytes = int(reinterpret_cast<char*>(filter) - shared);
  clear(shared, patch_bytes + int(params.planes * filter_rows * filter_pitch * sizeof(A)));

  uint32_t group = blockIdx.x;
  const int bx = int(params.blocks_x.divmod(group)) * int(params.tiles_x.divisor) * kX;
  const int by = int(params.blocks_y.divmod(group)) * int(params.tiles_y.divisor) * kY;
  const int channel = int(group) * params.planes, planes = min(params.planes, params.channels - channel);
  uint32_t plane = threadIdx.x;
  const int tx = int(params.tiles_x.divmod(plane)), ty = int(params.tiles_y.divmod(plane)),
            slice = int(params.slices.divmod(plane));
  const int image = int(plane) / params.planes;  // of those in shared memory
  plane -= image * params.planes;
  const int per_step = kGradient ? 1 : params.images;
  const int begin = int(blockIdx.y) * (kGradient ? params.images_a_split : params.images);
  const int end = min(params.batch, begin + (kGradient ? params.images_a_split : params.images));
  const bool busy = image < per_step && int(plane) < planes && begin + image < end;

  // Rows of the plane that a thread's outputs see, and its share of them.
  const int oy = by + ty * kY, lowest = max(by - params.top, 0);
  const int first_row = max(oy - params.top, 0),
            rows = max(min(oy - params.top + kY - 1 + params.taps_h, params.in_h) - first_row, 0);
  const int slices = int(params.slices.divisor);
  const int from_row = first_row + rows * slice / slices, to_row = first_row + rows * (slice + 1) / slices;
  const int lo = max(bx - params.left, 0), hi = min(bx - params.left + params.pitch, params.in_w);
  const int loaded = min(params.rows, params.in_h - lowest);
  A sum[kY][kX] = {};
  for (int n = begin; n < end; n += per_step) {
    __syncthreads();
    // Forward has images of one channel here, the gradient channels of one image.
    const T* const in = params.in + (int64_t(n) * params.channels + channel) * params.in_h * params.in_w;
    const int64_t in_step = int64_t(kGradient ? 1 : params.channels) * params.in_h * params.in_w;
    widen_rows(
        patch + (lo - bx + params.left), params.rows * params.pitch, params.pitch,
        [&](int plane, int64_t i) { return widen(in[plane * in_step + i]); },
        kGradient ? planes : min(per_step, end - n), params.in_w, lo, hi, lowest, loaded, params.in_lanes_log);
    A* const to = filter + (kY - 1) * filter_pitch + params.shift;
    const int64_t filter_step = int64_t(params.taps_h) * params.taps_w;
    const auto filter_element = [&](int plane, int64_t i) {
      if constexpr (kGradient)
        return widen(params.grad[(int64_t(n) * params.channels + channel + plane) * filter_step + i]);
      else
        return params.weight[(channel + plane) * filter_step + (params.flipped ? filter_step - 1 - i : i)];
    };
    widen_rows(to, filter_rows * filter_pitch, filter_pitch, filter_element, planes, params.taps_w, 0, params.taps_w, 0,
               params.taps_h, params.filter_lanes_log);
    __syncthreads();
    if (!busy) continue;
    for (int r = from_row; r < to_row; ++r) {
      const A* const row =
          patch + ((image * params.planes + plane) * params.rows + r - lowest) * params.pitch + tx * kX;
      const A* const taps = filter + (plane * filter_rows + r - oy + params.top + kY - 1) * filter_pitch;
      A window[kX + kTapStep];
#pragma unroll
      for (int j = 0; j < kX / kTapStep; ++j) {
        const V vector = reinterpret_cast<const V*>(row)[j];
#pragma unroll
        for (int v = 0; v < kTapStep; ++v) window[j * kTapStep + v] = vector.at[v];
      }
      for (int s = 0; s < params.tap_steps; ++s) {
        const V next = reinterpret_cast<const V*>(row)[kX / kTapStep + s];
#pragma unroll
        for (int v = 0; v < kTapStep; ++v) window[kX + v] = next.at[v];
#pragma unroll
        for (int y = 0; y < kY; ++y) {
          const V tap = *reinterpret_cast<const V*>(taps - y * filter_pitch + s * kTapStep);
#pragma unroll
          for (int v = 0; v < kTapStep; ++v)
#pragma unroll
            for (int x = 0; x < kX; ++x) sum[y][x] += tap.at[v] * window[x + v];
        }
#pragma unroll
        for (int x = 0; x < kX; ++x) window[x] = window[x + kTapStep];
      }
    }
  }

  if constexpr (kGradient) {
    constexpr int kPitch = kX * kY + 1;
    A* const sums = reinterpret_cast<A*>(shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kX * kY; ++i) sums[threadIdx.x * kPitch + i] = sum[i / kX][i % kX];
    __syncthreads();
    const int tiles = int(params.tiles_x.divisor * params.tiles_y.divisor), outputs = params.out_h * params.out_w;
    A* const out = static_cast<A*>(params.out) + (int64_t(blockIdx.y) * params.channels + channel) * outputs;
    for (int i = threadIdx.x; i < planes * outputs; i += blockDim.x) {
      const int c = i / outputs, y = i % outputs / params.out_w, x = i % outputs % params.out_w;
      const int thread = c * slices * tiles + y / kY * int(params.tiles_x.divisor) + x / kX;
      A total = 0;
      for (int s = 0; s < slices; ++s) total += sums[(thread + s * tiles) * kPitch + y % kY * kX + x % kX];
      out[i] = total;
    }
  } else if (busy) {
    const int ox = bx + tx * kX;
    const A bias = params.bias ? params.bias[channel + plane] : A(0);
    T* const out = static_cast<T*>(params.out) +
                   ((int64_t(begin + image) * params.channels + channel + plane) * params.out_h + oy) * params.out_w +
                   ox;
#pragma unroll
    for (int y = 0; y < kY; ++y)
#pragma unroll
      for (int x = 0; x < kX; ++x)
        if (oy + y < params.out_h && ox + x < params.out_w)
          out[int64_t(y) * params.out_w + x] = narrow<T>(sum[y][x] + bias);
  }
}

template <class T>
int64_t plan_shared_memory(LargeParams<T>& params, int64_t tiles_x, int64_t tiles_y, int64_t slices) {
  using A = acc_t<T>;
  params.tap_steps = int(ceil_div(params.taps_w + params.shift, kTapStep));
  params.pitch = int((tiles_x - 1) * kX + (params.tap_steps - 1) * kTapStep + kX + kTapStep);
  params.rows = int(std::min<int64_t>(params.in_h, tiles_y * kY - 1 + params.taps_h));
  params.tiles_x = Divider<uint32_t>(tiles_x), params.tiles_y = Divider<uint32_t>(tiles_y),
  params.slices = Divider<uint32_t>(slices);
  params.in_lanes_log = row_lanes(std::min(params.in_w, params.pitch)),
  params.filter_lanes_log = row_lanes(params.taps_w);
  return (int64_t(params.images) * params.planes * params.rows * params.pitch +
          int64_t(params.planes) * (params.taps_h + 2 * (kY - 1)) * params.tap_steps * kTapStep) *
         int64_t(sizeof(A));
}

}  // namespace customops::cuda::depthwise
