// depthwise_conv2d for large kernels at stride 1, contiguous images, any number of taps: bound by multiply-adds. The
// same kernel computes forward and grad_input, with a plane and its channel's taps, and grad_weight, with a plane and
// the gradient as its taps, summed over the batch.
//
// Plane and taps lie in shared memory, widened. A thread computes 8 by 7 outputs: it walks down the rows of the plane,
// slides along each in steps of four pixels, and meets seven rows of taps at each step: 8 vectors read for 224
// multiply-adds. Rows outside the image are not there, so that they cost nothing; taps have rows of zeros around them
// instead, so that no step asks which of the seven concern it.
#include "depthwise_conv2d_load.cuh"
#include "depthwise_conv2d_split.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kX = 8, kY = 7, kStep = 4, kMostThreads = 128;

template <class T>
struct LargeOf {
  Parameters<T> weight, bias;
  const T *in, *grad;                                              // grad: in the place of the weight
  void* out;                                                       // T, or partial sums of acc_t<T>
  int in_h, in_w, taps_h, taps_w, out_h, out_w, left, top, shift;  // shift: zeros before a row of taps
  int pitch, rows, steps, planes, images, channels, batch, images_a_split, in_lanes_log, filter_lanes_log;
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
__global__ void __launch_bounds__(kMostThreads) large(const __grid_constant__ LargeOf<T> p) {
  using A = acc_t<T>;
  using V = Vector<A, kStep>;
  extern __shared__ __align__(kAccess) char shared[];
  const int filter_pitch = p.steps * kStep, filter_rows = p.taps_h + 2 * (kY - 1);
  A* const patch = reinterpret_cast<A*>(shared);
  A* const filter = patch + p.images * p.planes * p.rows * p.pitch;
  const int patch_bytes = int(reinterpret_cast<char*>(filter) - shared);
  clear(shared, patch_bytes + int(p.planes * filter_rows * filter_pitch * sizeof(A)));

  uint32_t group = blockIdx.x;
  const int bx = int(p.blocks_x.split(group)) * int(p.tiles_x.divisor) * kX;
  const int by = int(p.blocks_y.split(group)) * int(p.tiles_y.divisor) * kY;
  const int channel = int(group) * p.planes, planes = min(p.planes, p.channels - channel);
  uint32_t plane = threadIdx.x;
  const int tx = int(p.tiles_x.split(plane)), ty = int(p.tiles_y.split(plane)), slice = int(p.slices.split(plane));
  const int image = int(plane) / p.planes;  // of those in shared memory
  plane -= image * p.planes;
  const int per_step = kGradient ? 1 : p.images;
  const int begin = int(blockIdx.y) * (kGradient ? p.images_a_split : p.images);
  const int end = min(p.batch, begin + (kGradient ? p.images_a_split : p.images));
  const bool busy = image < per_step && int(plane) < planes && begin + image < end;

  // Rows of the plane that a thread's outputs see, and its share of them.
  const int oy = by + ty * kY, lowest = max(by - p.top, 0);
  const int first_row = max(oy - p.top, 0), rows = max(min(oy - p.top + kY - 1 + p.taps_h, p.in_h) - first_row, 0);
  const int slices = int(p.slices.divisor);
  const int from_row = first_row + rows * slice / slices, to_row = first_row + rows * (slice + 1) / slices;
  const int lo = max(bx - p.left, 0), hi = min(bx - p.left + p.pitch, p.in_w);
  const int loaded = min(p.rows, p.in_h - lowest);
  A sum[kY][kX] = {};
  for (int n = begin; n < end; n += per_step) {
    __syncthreads();
    // Forward has images of one channel here, the gradient channels of one image.
    const T* const in = p.in + (int64_t(n) * p.channels + channel) * p.in_h * p.in_w;
    const int64_t in_step = int64_t(kGradient ? 1 : p.channels) * p.in_h * p.in_w;
    widen_rows(
        patch + (lo - bx + p.left), p.rows * p.pitch, p.pitch,
        [&](int plane, int64_t i) { return widen(in[plane * in_step + i]); },
        kGradient ? planes : min(per_step, end - n), p.in_w, lo, hi, lowest, loaded, p.in_lanes_log);
    A* const to = filter + (kY - 1) * filter_pitch + p.shift;
    const int64_t filter_step = int64_t(p.taps_h) * p.taps_w;
    const auto filter_element = [&](int plane, int64_t i) {
      if constexpr (kGradient)
        return widen(p.grad[(int64_t(n) * p.channels + channel + plane) * filter_step + i]);
      else
        return p.weight[(channel + plane) * filter_step + (p.flipped ? filter_step - 1 - i : i)];
    };
    widen_rows(to, filter_rows * filter_pitch, filter_pitch, filter_element, planes, p.taps_w, 0, p.taps_w, 0, p.taps_h,
               p.filter_lanes_log);
    __syncthreads();
    if (!busy) continue;
    for (int r = from_row; r < to_row; ++r) {
      const A* const row = patch + ((image * p.planes + plane) * p.rows + r - lowest) * p.pitch + tx * kX;
      const A* const taps = filter + (plane * filter_rows + r - oy + p.top + kY - 1) * filter_pitch;
      A window[kX + kStep];
#pragma unroll
      for (int j = 0; j < kX / kStep; ++j) {
        const V vector = reinterpret_cast<const V*>(row)[j];
#pragma unroll
        for (int v = 0; v < kStep; ++v) window[j * kStep + v] = vector.at[v];
      }
      for (int s = 0; s < p.steps; ++s) {
        const V next = reinterpret_cast<const V*>(row)[kX / kStep + s];
#pragma unroll
        for (int v = 0; v < kStep; ++v) window[kX + v] = next.at[v];
#pragma unroll
        for (int y = 0; y < kY; ++y) {
          const V tap = *reinterpret_cast<const V*>(taps - y * filter_pitch + s * kStep);
#pragma unroll
          for (int v = 0; v < kStep; ++v)
#pragma unroll
            for (int x = 0; x < kX; ++x) sum[y][x] += tap.at[v] * window[x + v];
        }
#pragma unroll
        for (int x = 0; x < kX; ++x) window[x] = window[x + kStep];
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
    const int tiles = int(p.tiles_x.divisor * p.tiles_y.divisor), outputs = p.out_h * p.out_w;
    A* const out = static_cast<A*>(p.out) + (int64_t(blockIdx.y) * p.channels + channel) * outputs;
    for (int i = threadIdx.x; i < planes * outputs; i += blockDim.x) {
      const int c = i / outputs, y = i % outputs / p.out_w, x = i % outputs % p.out_w;
      const int thread = c * slices * tiles + y / kY * int(p.tiles_x.divisor) + x / kX;
      A total = 0;
      for (int s = 0; s < slices; ++s) total += sums[(thread + s * tiles) * kPitch + y % kY * kX + x % kX];
      out[i] = total;
    }
  } else if (busy) {
    const int ox = bx + tx * kX;
    const A bias = p.bias ? p.bias[channel + plane] : A(0);
    T* const out = static_cast<T*>(p.out) +
                   ((int64_t(begin + image) * p.channels + channel + plane) * p.out_h + oy) * p.out_w + ox;
#pragma unroll
    for (int y = 0; y < kY; ++y)
#pragma unroll
      for (int x = 0; x < kX; ++x)
        if (oy + y < p.out_h && ox + x < p.out_w) out[int64_t(y) * p.out_w + x] = narrow<T>(sum[y][x] + bias);
  }
}

template <class T>
int64_t measure(LargeOf<T>& q, int64_t tiles_x, int64_t tiles_y, int64_t slices) {
  using A = acc_t<T>;
  q.steps = int(ceil_div(q.taps_w + q.shift, kStep));
  q.pitch = int((tiles_x - 1) * kX + (q.steps - 1) * kStep + kX + kStep);
  q.rows = int(std::min<int64_t>(q.in_h, tiles_y * kY - 1 + q.taps_h));
  q.tiles_x = Divider<uint32_t>(tiles_x), q.tiles_y = Divider<uint32_t>(tiles_y), q.slices = Divider<uint32_t>(slices);
  q.in_lanes_log = row_lanes(std::min(q.in_w, q.pitch)), q.filter_lanes_log = row_lanes(q.taps_w);
  return (int64_t(q.images) * q.planes * q.rows * q.pitch +
          int64_t(q.planes) * (q.taps_h + 2 * (kY - 1)) * q.steps * kStep) *
         int64_t(sizeof(A));
}

template <class T>
bool launch_forward(const Correlation& p, cudaStream_t stream) {
  LargeOf<T> q{};
  q.weight = Parameters<T>(p.weight), q.bias = Parameters<T>(p.bias);
  q.in = static_cast<const T*>(p.in), q.out = p.out;
  q.in_h = int(p.y.in), q.in_w = int(p.x.in), q.taps_h = int(p.y.taps), q.taps_w = int(p.x.taps);
  q.out_h = int(p.y.out), q.out_w = int(p.x.out), q.left = int(p.x.pad), q.top = int(p.y.pad);
  q.planes = 1, q.channels = int(p.channels), q.batch = int(p.batch), q.flipped = p.flipped;
  const int64_t all_x = ceil_div(p.x.out, kX), all_y = ceil_div(p.y.out, kY);
  int64_t tiles_x = ceil_div(all_x, ceil_div(all_x, 16)), tiles_y = std::min(all_y, kMostThreads / tiles_x);
  tiles_y = ceil_div(all_y, ceil_div(all_y, tiles_y));
  q.images = int(std::min(p.batch, std::max<int64_t>(64 / (tiles_x * tiles_y), 1)));
  constexpr int64_t kShared = 48 << 10;
  int64_t bytes = measure(q, tiles_x, tiles_y, 1);
  for (; bytes > kShared && q.images > 1; bytes = measure(q, tiles_x, tiles_y, 1)) q.images = (q.images + 1) / 2;
  for (; bytes > kShared && tiles_y > 1; bytes = measure(q, tiles_x, tiles_y, 1)) tiles_y = (tiles_y + 1) / 2;
  for (; bytes > kShared && tiles_x > 1; bytes = measure(q, tiles_x, tiles_y, 1)) tiles_x = (tiles_x + 1) / 2;
  const int64_t blocks_x = ceil_div(all_x, tiles_x), blocks_y = ceil_div(all_y, tiles_y);
  const int64_t groups = ceil_div(p.batch, q.images);
  if (!allow_shared<large<T, false>>(bytes) || p.batch >= kMost || p.channels > kMost / (blocks_x * blocks_y) ||
      groups > 65535)
    return false;
  q.blocks_x = Divider<uint32_t>(blocks_x), q.blocks_y = Divider<uint32_t>(blocks_y);
  // Many small images: threads that only help to load them.
  const int64_t threads = q.images > 1 ? kMostThreads : round_up(tiles_x * tiles_y, kWarp);
  large<T, false>
      <<<dim3(unsigned(p.channels * blocks_x * blocks_y), unsigned(groups)), unsigned(threads), bytes, stream>>>(q);
  return true;
}

template <class T>
bool launch_backward(const WeightGradient& p, cudaStream_t stream) {
  LargeOf<T> q{};
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  q.in_h = int(p.y.in), q.in_w = int(p.x.in), q.taps_h = int(p.y.out), q.taps_w = int(p.x.out);
  q.out_h = int(p.y.taps), q.out_w = int(p.x.taps), q.left = int(p.x.pad), q.top = int(p.y.pad);
  q.channels = int(p.channels), q.batch = int(p.batch);
  const int64_t tiles_x = ceil_div(p.x.taps, kX), tiles_y = ceil_div(p.y.taps, kY), tiles = tiles_x * tiles_y;
  if (tiles > kMostThreads || p.batch >= kMost || p.channels >= kMost) return false;
  q.images = 1;
  // Small planes: many channels. Large ones: several threads share the rows of one.
  q.planes = p.y.in * p.x.in <= 256 ? int(std::min<int64_t>(p.channels, kMostThreads / tiles)) : 1;
  int64_t bytes = measure(q, tiles_x, tiles_y, 1);
  for (; bytes > 48 << 10 && q.planes > 1; bytes = measure(q, tiles_x, tiles_y, 1)) q.planes = (q.planes + 1) / 2;
  const int64_t slices = std::min<int64_t>(kMostThreads / (tiles * q.planes), p.y.in);
  bytes = std::max<int64_t>(measure(q, tiles_x, tiles_y, slices),
                            round_up(kMostThreads * (kX * kY + 1) * sizeof(acc_t<T>), kAccess));
  if (!allow_shared<large<T, true>>(bytes)) return false;
  q.blocks_x = Divider<uint32_t>(1), q.blocks_y = Divider<uint32_t>(1);
  const int64_t groups = ceil_div(p.channels, q.planes);
  const int64_t wanted = std::min({std::max<int64_t>(kWantedBlocks / groups, 1), p.batch, int64_t(65535)});
  q.images_a_split = int(ceil_div(p.batch, wanted));
  const int64_t splits = ceil_div(p.batch, q.images_a_split);
  const Tensor partial = partial_sums<T>(p, splits);
  q.out = partial.data_ptr();
  const int64_t threads = round_up(q.planes * tiles * slices, kWarp);
  large<T, true><<<dim3(unsigned(groups), unsigned(splits)), unsigned(threads), bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits, stream);
  return true;
}

}  // namespace

bool launch_large(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  if (!stride_1(p.x) || !stride_1(p.y)) return false;
  bool done = false;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>) done = launch_forward<T>(p, stream);
  });
  return done;
}

bool launch_large_grad_weight(const WeightGradient& p, cudaStream_t stream) {
  if (!stride_1(p.x) || !stride_1(p.y)) return false;
  bool done = false;
  dispatch(p.in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>) done = launch_backward<T>(p, stream);
  });
  return done;
}

}  // namespace customops::cuda::depthwise
