// depthwise_conv2d, forward and dgrad, for any kernel, stride, dilation and dtype. A thread computes kOutputs outputs
// whose windows overlap (sliding.cuh). It keeps the inputs under them in registers, which slide along one axis, tap by
// tap, and reads straight from memory; the L1 cache holds what the windows of neighbouring threads share. Neighbouring
// threads take neighbouring columns of contiguous images, or neighbouring channels of channels_last images. Where few
// outputs meet many taps, several threads of a block share a group's taps and add their sums in shared memory, in a
// fixed order. problem.h (plan_sliding) chooses the axis, the number of outputs and that of threads. sliding_tiles.cuh
// computes channels_last images whose windows have long runs of neighbouring taps.
#include "../device.h"
#include "sliding_tiles.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

template <int kOutputs, int kVector, class T, class Int, class A>
__device__ void store_group(const SlidingParams<T, Int>& params, T* out, Int group, Int cross,
                            const A (&sum)[kOutputs][kVector]) {
  const Int stride = params.slide.stride();
  Int first = group * kOutputs;
  if (stride > 1) first = group % stride + stride * kOutputs * (group / stride);
  T* const to = out + cross * params.out_cross + first * params.out_slide;
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (first + o * stride >= params.slide.out) continue;
    Vector<T, kVector> value;
#pragma unroll
    for (int v = 0; v < kVector; ++v) value.at[v] = narrow<T>(sum[o][v]);
    *reinterpret_cast<Vector<T, kVector>*>(to + o * stride * params.out_slide) = value;
  }
}

// The threads of a block: 2^log_groups for groups of outputs, times the shares of their taps. All of a warp have one
// share.
struct Sharing {
  int log_groups, shares;

  explicit Sharing(int count) : log_groups(0), shares(count) {
    while (kThreads >> log_groups > shares) ++log_groups;
  }
  __device__ int group() const { return int(threadIdx.x) & ((1 << log_groups) - 1); }
  __device__ TapShare share() const { return {int(threadIdx.x) >> log_groups, shares}; }
};

// Adds the sums of the threads that share a group, in their order. Whether this thread has the total.
template <int kOutputs, int kVector, class A>
__device__ bool add_shares(const Sharing& sharing, A* sums, A (&sum)[kOutputs][kVector]) {
  if (sharing.shares == 1) return true;
#pragma unroll
  for (int i = 0; i < kOutputs * kVector; ++i) sums[i * kThreads + threadIdx.x] = sum[i / kVector][i % kVector];
  __syncthreads();
  if (threadIdx.x >> sharing.log_groups > 0) return false;
#pragma unroll 1
  for (int other = 1; other < sharing.shares; ++other)
#pragma unroll
    for (int i = 0; i < kOutputs * kVector; ++i)
      sum[i / kVector][i % kVector] += sums[i * kThreads + (other << sharing.log_groups) + threadIdx.x];
  return true;
}
template <int kOutputs, int kVector, class T>
constexpr int64_t shares_bytes(int shares) {
  return shares == 1 ? 0 : kThreads * kOutputs * kVector * int64_t(sizeof(acc_t<T>));
}

// Neighbouring outputs of a row, where each access is aligned and not cut by the right edge.
template <int kOutputs, class T, class Int, class A>
__device__ void store_row(const SlidingParams<T, Int>& params, T* out, Int group, Int cross,
                          const A (&sum)[kOutputs][1]) {
  constexpr int kAtOnce = kOutputs < int(kAccess / sizeof(T)) ? kOutputs : int(kAccess / sizeof(T));
  T* const to = out + cross * params.out_cross + group * kOutputs;
#pragma unroll
  for (int i = 0; i < kOutputs; i += kAtOnce) {
    if (group * kOutputs + i >= params.slide.out) continue;
    Vector<T, kAtOnce> value;
#pragma unroll
    for (int v = 0; v < kAtOnce; ++v) value.at[v] = narrow<T>(sum[i + v][0]);
    *reinterpret_cast<Vector<T, kAtOnce>*>(to + i) = value;
  }
}

// How the threads of contiguous images are counted: columns or groups of them, then rows or groups of them, then
// planes.
struct PlaneThreads {
  Divider<uint32_t> columns, rows, channels;
  uint32_t threads, first_channel;
  bool along_x, whole;  // along_x: x slides; whole: store_row can store
};

template <class T, class Int, int kOutputs>
__global__ void __launch_bounds__(kThreads)
    sliding_planes(const __grid_constant__ SlidingParams<T, Int> params, const __grid_constant__ PlaneThreads count,
                   const Sharing sharing) {
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  uint32_t rest = (blockIdx.x << sharing.log_groups) + sharing.group();
  const bool stores = rest < count.threads;
  if (!stores) rest = count.threads - 1;
  const Int column = params.first_column + Int(count.columns.divmod(rest));
  const Int row = params.first_row + Int(count.rows.divmod(rest));
  const Int group = count.along_x ? column : row, cross = count.along_x ? row : column;
  const int64_t plane = params.first_image + rest;
  uint32_t image = rest + count.first_channel;
  const uint32_t channel = count.channels.divmod(image);
  A sum[kOutputs][1];
  const TapShare share = sharing.share();
  const A bias = params.bias && share.number == 0 ? params.bias[channel] : A(0);
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) sum[o][0] = bias;
  const int64_t from = int64_t(channel) * params.taps + (params.flipped ? params.taps - 1 : 0);
  const Int sign = params.flipped ? -1 : 1;
  sum_group<kOutputs, 1>(
      params, params.in + plane * params.in_image, group, cross, share,
      [&](Int k) { return Vector<A, 1>{{params.weight.select(from + sign * k)}}; }, sum);
  if (!add_shares<kOutputs, 1>(sharing, reinterpret_cast<A*>(shared), sum) || !stores) return;
  T* const out = params.out + plane * params.out_image;
  if (kOutputs > 1 && count.whole)
    store_row<kOutputs>(params, out, group, cross, sum);
  else
    store_group<kOutputs, 1>(params, out, group, cross, sum);
}

// How the threads of channels_last images are laid out: a block takes `chunk` vectors of channels and a run of items;
// an item is a group of outputs. Items count along x within strips of columns, then along y, strips and images.
struct PixelItems {
  Divider<uint32_t> chunk, chunks, strip, rows, strips, taps;
  uint32_t items, items_a_block;
  int members, columns;  // columns: all items along x
  int pitch;             // elements from one tap of the block's channels to the next
  int tap_sums;          // elements of all taps of the block
  int64_t channels;
  bool along_x;  // x slides
};

// Channels_last images. The block's taps are in shared memory, (taps, channels). Threads that share taps take one item.
template <class T, class Int, int kOutputs, int kVector>
__global__ void __launch_bounds__(kThreads)
    sliding_pixels(const __grid_constant__ SlidingParams<T, Int> params, const __grid_constant__ PixelItems items,
                   const Sharing sharing) {
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  A* const taps = reinterpret_cast<A*>(shared);
  const int chunk = int(items.chunk.divisor) * kVector, pitch = items.pitch;
  uint32_t rest = blockIdx.x, member = sharing.group();
  const int64_t first_channel = int64_t(items.chunks.divmod(rest)) * chunk;
  const int channels = int(min(int64_t(chunk), items.channels - first_channel));
  params.weight.visit([&](const auto& element) {
#pragma unroll 4
    for (int i = threadIdx.x; i < channels * int(params.taps); i += blockDim.x) {
      uint32_t c = i;
      const int k = int(items.taps.divmod(c));
      taps[(params.flipped ? int(params.taps) - 1 - k : k) * pitch + int(c)] =
          widen(T(element(first_channel * params.taps + i)));
    }
  });
  __syncthreads();
  const int lane = int(items.chunk.divmod(member)) * kVector;
  const bool idle = lane >= channels || int(member) >= items.members;
  if (idle && sharing.shares == 1) return;
  const TapShare share = sharing.share();
  const int64_t channel = first_channel + (idle ? 0 : lane);
  A bias[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) bias[v] = params.bias && share.number == 0 ? params.bias[channel + v] : A(0);
  const uint32_t begin = rest * items.items_a_block, end = min(items.items, begin + items.items_a_block);
#pragma unroll 1
  for (uint32_t item = begin + member; item < end || sharing.shares > 1; item += items.members) {
    uint32_t image = item;
    int column = int(items.strip.divmod(image));
    const Int row = Int(params.first_row + items.rows.divmod(image));
    column += int(items.strips.divmod(image) * items.strip.divisor);
    const bool stores = !idle && item < end && column < items.columns;
    if (!stores && sharing.shares == 1) continue;
    const int64_t n = params.first_image + image;
    const Int group = items.along_x ? Int(column) : row, cross = items.along_x ? row : Int(column);
    A sum[kOutputs][kVector];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[o][v] = bias[v];
    if (stores)
      sum_group<kOutputs, kVector>(
          params, params.in + n * params.in_image + channel, group, cross, share,
          [&](Int k) { return *reinterpret_cast<const Vector<A, kVector>*>(taps + int(k) * pitch + lane); }, sum);
    const bool total = add_shares<kOutputs, kVector>(sharing, taps + items.tap_sums, sum);
    if (!total || !stores) return;
    store_group<kOutputs, kVector>(params, params.out + n * params.out_image + channel, group, cross, sum);
    if (sharing.shares > 1) return;
  }
}

template <class T, class Int>
SlidingParams<T, Int> sliding_params(const ForwardProblem& problem, bool along_x) {
  const int64_t pixel = problem.channels_last ? problem.channels : 1;
  const Axis &y = problem.y, &x = problem.x;
  SlidingParams<T, Int> params{};
  params.weight = weight_of<T>(problem), params.bias = bias_of<T>(problem);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  params.slide = sliding_axis<Int>(along_x ? x : y), params.cross = sliding_axis<Int>(along_x ? y : x);
  params.taps = Int(y.taps * x.taps), params.flipped = problem.flipped;
  params.in_image = y.in * x.in * pixel, params.out_image = y.out * x.out * pixel;
  params.in_slide = params.out_slide = params.in_cross = params.out_cross = Int(pixel);
  (along_x ? params.in_cross : params.in_slide) *= Int(x.in);
  (along_x ? params.out_cross : params.out_slide) *= Int(x.out);
  params.weight_slide = Int(along_x ? 1 : x.taps), params.weight_cross = Int(along_x ? x.taps : 1);
  return params;
}

// launch(images, rows) for pieces of at most kMaxIndex threads or items; sets what a launch begins with.
template <class T, class Int, class Launch>
void for_pieces(int64_t images, int64_t rows, int64_t a_row, SlidingParams<T, Int>& params, const Launch& launch) {
  const int64_t piece_images = std::max<int64_t>(kMaxIndex / (rows * a_row), 1);
  const int64_t piece_rows = std::min(rows, std::max<int64_t>(kMaxIndex / a_row, 1));
  for (params.first_image = 0; params.first_image < images; params.first_image += piece_images)
    for (int64_t row = 0; row < rows; row += piece_rows) {
      params.first_row = Int(row);
      launch(std::min(piece_images, images - params.first_image), std::min(piece_rows, rows - row));
    }
}

template <class T, class Int, int kOutputs>
void launch_planes(const ForwardProblem& problem, bool along_x, int shares, cudaStream_t stream) {
  const Sharing sharing(shares);
  auto params = sliding_params<T, Int>(problem, along_x);
  const int64_t groups = int64_t(params.slide.groups(kOutputs));
  const int64_t columns = along_x ? groups : problem.x.out;
  PlaneThreads count{};
  count.channels = Divider<uint32_t>(problem.channels);
  count.along_x = along_x;
  constexpr int64_t kAtOnce = std::min<int64_t>(kOutputs, kAccess / sizeof(T));
  count.whole = along_x && params.slide.stride() == 1 && problem.x.out % kAtOnce == 0 &&
                problem.out_alignment % (kAtOnce * sizeof(T)) == 0;
  for (int64_t column = 0; column < columns; column += kMaxIndex) {
    const int64_t piece = std::min(columns - column, kMaxIndex);
    params.first_column = Int(column), count.columns = Divider<uint32_t>(piece);
    for_pieces(problem.batch * problem.channels, along_x ? problem.y.out : groups, piece, params,
               [&](int64_t planes, int64_t rows) {
                 count.rows = Divider<uint32_t>(rows), count.threads = uint32_t(planes * rows * piece);
                 count.first_channel = uint32_t(params.first_image % problem.channels);
                 sliding_planes<T, Int, kOutputs>
                     <<<blocks(count.threads, 1 << sharing.log_groups), kThreads, shares_bytes<kOutputs, 1, T>(shares),
                        stream>>>(params, count, sharing);
               });
  }
}

// Bytes for taps in the default 48 KiB of shared memory where it also holds the sums of threads that share taps.
constexpr int64_t kSharedSlidingTaps = kSlidingTaps - (16 << 10);

// Vectors of channels that a block takes, whose taps have room: a sector of memory where threads share taps, because
// such a block has few outputs for the taps that it copies.
inline int64_t sliding_chunk(int64_t vectors, int64_t bytes_a_vector, int64_t vector_bytes, int shares) {
  const int64_t most = shares > 1 ? std::min(kSharedSlidingTaps / bytes_a_vector, kSector / vector_bytes)
                                  : std::min<int64_t>(kSlidingTaps / bytes_a_vector, kWarp);
  return ceil_div(vectors, ceil_div(vectors, std::max<int64_t>(most, 1)));
}

template <class T, class Int, int kOutputs, int kVector>
void launch_pixels(const ForwardProblem& problem, bool along_x, int shares, cudaStream_t stream) {
  const Sharing sharing(shares);
  constexpr int64_t kStrip = 64 / kOutputs, kMostLoops = 8;
  auto params = sliding_params<T, Int>(problem, along_x);
  const int64_t groups = int64_t(params.slide.groups(kOutputs));
  const int64_t columns = along_x ? groups : problem.x.out, rows = along_x ? problem.y.out : groups;
  const int64_t strips = ceil_div(columns, kStrip), strip = ceil_div(columns, strips);
  const int64_t vectors = problem.channels / kVector;
  const int64_t a_vector = int64_t(params.taps) * kVector * int64_t(sizeof(acc_t<T>));
  const int64_t room = shares > 1 ? kSharedSlidingTaps : kSlidingTaps;
  const int64_t chunk = sliding_chunk(vectors, a_vector, kVector * int64_t(sizeof(T)), shares),
                chunks = ceil_div(vectors, chunk);
  PixelItems items{};
  items.taps = Divider<uint32_t>(params.taps);
  items.chunk = Divider<uint32_t>(chunk), items.chunks = Divider<uint32_t>(chunks);
  items.strip = Divider<uint32_t>(strip), items.strips = Divider<uint32_t>(strips);
  items.members = int((1 << sharing.log_groups) / chunk), items.columns = int(columns), items.along_x = along_x;
  items.channels = problem.channels;
  // One vector more than a tap has: neighbouring taps, which are loaded together, then lie in other banks.
  const int64_t padded = (chunk + 1) * a_vector <= room ? chunk + 1 : chunk;
  items.pitch = int(padded * kVector), items.tap_sums = int(params.taps) * items.pitch;
  const int64_t wanted = device_attribute<cudaDevAttrMultiProcessorCount>() * 16;
  for_pieces(problem.batch, rows, strips * strip * chunks, params, [&](int64_t images, int64_t rows) {
    const int64_t all = images * rows * strips * strip;
    const int64_t loops = shares > 1 ? 1 : std::clamp<int64_t>(all * chunks / items.members / wanted, 1, kMostLoops);
    items.rows = Divider<uint32_t>(rows), items.items = uint32_t(all);
    items.items_a_block = uint32_t(items.members * loops);
    const int64_t grid = ceil_div(all, items.items_a_block) * chunks;
    const int64_t threads = shares > 1 ? kThreads : round_up(items.members * chunk, kWarp);
    const int64_t bytes = padded * a_vector + shares_bytes<kOutputs, kVector, T>(shares);
    sliding_pixels<T, Int, kOutputs, kVector>
        <<<unsigned(grid), unsigned(threads), bytes, stream>>>(params, items, sharing);
  });
}

template <class T>
void launch_contiguous(const ForwardProblem& problem, cudaStream_t stream) {
  constexpr int kMaxOutputs = sizeof(T) == 8 ? 4 : 8;
  const SlidingPlan plan = plan_sliding(problem, 1, kMaxOutputs, kMaxShares, current_gpu().multiprocessors);
  if (plan.outputs == 1) return launch_planes<T, int, 1>(problem, false, plan.shares, stream);
  if constexpr (kMaxOutputs == 8)
    if (plan.outputs == 8) return launch_planes<T, int, 8>(problem, plan.along_x, plan.shares, stream);
  launch_planes<T, int, 4>(problem, plan.along_x, plan.shares, stream);
}

template <class T, int kVector>
void launch_vectors(const ForwardProblem& problem, cudaStream_t stream) {
  const int64_t a_vector = problem.taps() * kVector * int64_t(sizeof(acc_t<T>));
  const int most_shares = a_vector <= kSharedSlidingTaps ? kMaxShares : 1;
  const SlidingPlan plan = plan_sliding(problem, kVector, 4, most_shares, current_gpu().multiprocessors);
  if (plan.outputs == 1) return launch_pixels<T, int, 1, kVector>(problem, false, plan.shares, stream);
  launch_pixels<T, int, 4, kVector>(problem, plan.along_x, plan.shares, stream);
}

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  if (!slides_in_int32(problem))
    return problem.channels_last ? launch_pixels<T, int64_t, 1, 1>(problem, false, 1, stream)
                                 : launch_planes<T, int64_t, 1>(problem, false, 1, stream);
  if (!problem.channels_last) return launch_contiguous<T>(problem, stream);
  if constexpr (sizeof(T) < 8) {
    const TilesPlan tiles = plan_tiles(problem, current_gpu().multiprocessors);
    const auto params = sliding_params<T, int>(problem, tiles.along_x);
    if (tiles.vector == 2) return launch_tiles<T, 2>(problem, tiles, params, stream);
    if (tiles.vector == 1) return launch_tiles<T, 1>(problem, tiles, params, stream);
  }
  // So few outputs do not fill a GPU: the time is the latency of a thread's loads, which vectors leave to fewer
  // threads.
  if (outputs(problem) < 1 << 16 && problem.taps() >= 25) return launch_vectors<T, 1>(problem, stream);
  if constexpr (sizeof(T) < 8)
    if (has_channel_vectors(problem, 4) && sliding_has_room(problem, 4)) return launch_vectors<T, 4>(problem, stream);
  if (has_channel_vectors(problem, 2) && sliding_has_room(problem, 2)) return launch_vectors<T, 2>(problem, stream);
  launch_vectors<T, 1>(problem, stream);
}

}  // namespace

void launch_fwd_sliding(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch(problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
