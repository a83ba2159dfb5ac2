// depthwise_conv2d's wgrad for any kernel, stride, dilation and dtype. A thread holds the sums of kTaps taps along the
// axis that slides, for each of kRows rows of taps. It walks along that axis over outputs whose windows overlap
// (sliding.cuh): each input that it reads is multiplied with kTaps gradients, and each gradient with kTaps * kRows
// inputs. Neighbouring threads take neighbouring columns of contiguous images, which slide along y unless they are
// flat, or neighbouring channels of channels_last images, which slide along x. The sums of a block are added in shared
// memory, those of all blocks by the first block of a cluster or by a second kernel (split_batch.cuh), in an order that
// depends only on shapes and on whether the GPU has clusters.
// Zeros times infinity are NaN: a thread's sum that is not finite is computed again, without what lies outside the
// images.
#include <cmath>
#include <optional>

#include "add_members.cuh"
#include "sliding.cuh"

namespace customops::cuda::depthwise {
namespace {

// Threads of a block: as a rule, and at most where one block takes all units of its channels. float64, which takes more
// registers, keeps the first.
constexpr int kBlock = 256;
template <class T>
constexpr int kMostThreads = sizeof(T) == 8 ? kBlock : 2 * kBlock;

// The least number of blocks that a multiprocessor must have room for (__launch_bounds__): as many as leave each thread
// enough registers. On sm_90 most of these kernels use at most 80, with which three blocks of kBlock threads fit; a
// version of which some kernels used more took up to 1.7 times as long.
template <class T, class Int, int kSums, bool kChannelsLast>
constexpr int blocks_at_once() {
  if (sizeof(Int) == 8 || (sizeof(T) == 8 && kSums > 4)) return 1;
  const bool few_registers = std::is_same_v<T, c10::Half> && kSums <= 4;
  if (kChannelsLast && sizeof(T) < 8) return few_registers ? 2 : 1;
  return few_registers ? 4 : 3;
}
template <class T, class Int, int kSums, bool kChannelsLast>
constexpr int kBlocksAtOnce = blocks_at_once<T, Int, kSums, kChannelsLast>();

// What counts units.
template <class Int>
using Count = std::conditional_t<sizeof(Int) == 4, uint32_t, int64_t>;

// `of` things dealt out to `parts` parts: how many are in each.
template <class Int>
struct Parts {
  Int each, rest;

  Parts() = default;
  Parts(Int of, Int parts) : each(of / parts), rest(of % parts) {}
  __device__ Int of_part(Int i) const { return each + (i < rest ? 1 : 0); }
};

// slide: the axis along which a thread walks; cross: the other one; both of the forward pass.
template <class T, class Int>
struct WgradSlidingParams {
  const T *in, *grad;
  WgradResult<T> result;
  SlidingAxis<Int> slide, cross;
  int64_t channels, taps, in_image, out_image;
  Int in_slide, in_cross, out_slide, out_cross;  // elements from one pixel to the next
  int64_t weight_slide, weight_cross;
  Count<Int> units, units_a_split;  // a unit: the walk of one thread
  Int walk;                         // outputs of a walk
  // Walks along one line of outputs of one residue; residues that have outputs; lines. Nothing divides before a
  // thread's first load: in a small problem all threads wait for that at once.
  Divider<Count<Int>> walks, residues, lines;
  Parts<Int> class_taps, residue_outputs;
  bool cross_first;  // units count the other axis first
  Divider<uint32_t> chunks_of_class, row_groups, chunk, groups, width, sums;
  int members, parts;  // threads with a channel in common; parts in which their sums are added
  bool cluster;        // the blocks of a grid's column are one
};

// Widens n pixels of each row into the window, from its pixel kFirst on.
template <class T, int n, int kFirst, int kPixels, int kRows, int kWidth, int kVector, class A>
__device__ __forceinline__ void widen_into_window(const Access<T, kVector> (&pixels)[kPixels][kRows],
                                                  A (&window)[kRows][kWidth][kVector]) {
#pragma unroll
  for (int row = 0; row < kRows; ++row)
#pragma unroll
    for (int i = 0; i < n; ++i)
#pragma unroll
      for (int v = 0; v < kVector; ++v) window[row][kFirst + i][v] = widen(part<T>(pixels[i][row], v));
}

// Adds the products of the gradients of kStep outputs from o on, as far as there are outputs, with the window's pixels.
template <class T, int kTaps, int kStep, int kRows, int kWidth, int kVector, class Int, class A>
__device__ __forceinline__ void add_gradients(const Access<T, kVector> (&gradient)[kStep], Int o, Int outputs,
                                              const A (&window)[kRows][kWidth][kVector],
                                              A (&sum)[kRows][kTaps][kVector]) {
#pragma unroll
  for (int k = 0; k < kStep; ++k)
    if (o + k < outputs)  // or infinities would meet gradients that are not there
#pragma unroll
      for (int row = 0; row < kRows; ++row)
#pragma unroll
        for (int j = 0; j < kTaps; ++j)
#pragma unroll
          for (int v = 0; v < kVector; ++v) sum[row][j][v] += widen(part<T>(gradient[k], v)) * window[row][k + j][v];
}

// Adds the walk over `outputs` outputs of one residue along one line. A step issues all its loads before it waits for
// the first; with one tap it takes four outputs, or each would wait for its own.
template <int kTaps, int kRows, int kVector, class T, class Int, class A>
__device__ void add_walk(const WgradSlidingParams<T, Int>& params, const T* const (&rows)[kRows], const T* grad,
                         Int first_in, Int first_out, Int outputs, A (&sum)[kRows][kTaps][kVector]) {
  constexpr int kCarried = kTaps - 1, kStep = kTaps == 1 ? 4 : kTaps;
  using Pixel = Access<T, kVector>;
  using Unsigned = std::make_unsigned_t<Int>;
  const SlidingAxis<Int>& a = params.slide;
  A window[kRows][kCarried + kStep][kVector];
  Unsigned at = Unsigned(first_in), offset = at * Unsigned(params.in_slide);
  const Unsigned hop = Unsigned(a.input_step) * Unsigned(params.in_slide);
  // One comparison a load where a step has sixteen loads: with two, there were too few predicate registers, and some
  // loads waited for others.
  Unsigned columns[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) columns[row] = rows[row] != nullptr ? Unsigned(a.in) : 0;
  const auto read = [&](Pixel(&pixels)[kRows]) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      pixels[row] = Pixel{};
      if (kTaps == 1 ? at < columns[row] : rows[row] != nullptr && at < Unsigned(a.in))
        pixels[row] = *reinterpret_cast<const Pixel*>(rows[row] + offset);
    }
    at += Unsigned(a.input_step), offset += hop;
  };
  Pixel carried[kCarried + 1][kRows];
#pragma unroll
  for (int i = 0; i < kCarried; ++i) read(carried[i]);
  const T* from = grad + first_out * params.out_slide;
  const Int grad_hop = a.spacing * params.out_slide;
#pragma unroll 1
  for (Int o = 0; o < outputs; o += kStep) {
    Pixel gradient[kStep], coming[kStep][kRows];
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      gradient[k] = Pixel{};
      if (o + k < outputs) gradient[k] = *reinterpret_cast<const Pixel*>(from);
      from += grad_hop;
      read(coming[k]);
    }
    if (o == 0) widen_into_window<T, kCarried, 0>(carried, window);
    widen_into_window<T, kStep, kCarried>(coming, window);
    add_gradients<T, kTaps>(gradient, o, outputs, window, sum);
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
      for (int i = 0; i < kCarried; ++i)
#pragma unroll
        for (int v = 0; v < kVector; ++v) window[row][i][v] = window[row][i + kStep][v];
  }
}

// Where the walk of a unit starts. Units count walks, residues, lines and images; where y slides, columns come first.
template <class T, class Int>
struct WalkStart {
  const T *in, *grad;  // the image; the line of its gradient
  Int cross, residue, first;
};

template <bool kChannelsLast, class T, class Int>
__device__ WalkStart<T, Int> start_of(const WgradSlidingParams<T, Int>& params, Count<Int> unit, int64_t channel) {
  const bool cross_first = !kChannelsLast && params.cross_first;
  Int cross = 0;
  if (cross_first) cross = Int(params.lines.divmod(unit));
  const Int walk = Int(params.walks.divmod(unit)), residue = Int(params.residues.divmod(unit));
  if (!cross_first) cross = Int(params.lines.divmod(unit));
  const int64_t image = kChannelsLast ? int64_t(unit) : int64_t(unit) * params.channels + channel;
  const int64_t inside = kChannelsLast ? channel : 0;
  return {params.in + image * params.in_image + inside,
          params.grad + image * params.out_image + inside + cross * params.out_cross, cross, residue,
          walk * params.walk};
}

template <int kTaps, int kRows, int kVector, bool kChannelsLast, class T, class Int, class A>
__device__ void add_unit(const WgradSlidingParams<T, Int>& params, Count<Int> unit, int64_t channel,
                         const TapClass<Int>& taps, Int first_tap, Int first_row, A (&sum)[kRows][kTaps][kVector]) {
  const SlidingAxis<Int>&a = params.slide, &b = params.cross;
  const WalkStart<T, Int> start = start_of<kChannelsLast>(params, unit, channel);
  const T* rows[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const Int at = start.cross * b.down - b.pad + (first_row + row) * b.dilation;
    rows[row] = at >= 0 && at < b.in && first_row + row < b.taps ? start.in + at * params.in_cross : nullptr;
  }
  add_walk<kTaps, kRows, kVector>(params, rows, start.grad,
                                  taps.start + start.residue * a.down + a.input_step * (start.first + first_tap),
                                  start.residue + a.spacing * start.first,
                                  min(params.walk, params.residue_outputs.of_part(start.residue) - start.first), sum);
}

// One sum of a thread, in the order of add_unit: slow, and exact where there are infinities.
template <bool kChannelsLast, class T, class Int>
__device__ __noinline__ acc_t<T> sum_again(const WgradSlidingParams<T, Int>& params, Count<Int> begin, Count<Int> end,
                                           int64_t channel, const TapClass<Int>& taps, Int tap, Int row) {
  const SlidingAxis<Int>&a = params.slide, &b = params.cross;
  acc_t<T> sum = 0;
  for (Count<Int> unit = begin; unit < end; unit += params.members) {
    const WalkStart<T, Int> start = start_of<kChannelsLast>(params, unit, channel);
    const Int line = start.cross * b.down - b.pad + row * b.dilation;
    if (line < 0 || line >= b.in) continue;
    const T* const in = start.in + line * params.in_cross;
    for (Int o = start.first; o < start.first + params.walk; ++o) {
      const Int out = start.residue + a.spacing * o,
                at = taps.start + start.residue * a.down + a.input_step * (o + tap);
      if (out < a.out && at >= 0 && at < a.in)
        sum += widen(start.grad[out * params.out_slide]) * widen(in[at * params.in_slide]);
    }
  }
  return sum;
}

// Adds up the sums of a block whose threads are all members of one channel: a warp's sums first, then those of all
// warps.
template <int kSums, class A, class Write>
__device__ void add_warps(A (&sum)[kSums], A* sums, const Write& write) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] += __shfl_xor_sync(0xffffffff, sum[i], distance);
  const int warps = int(blockDim.x) / kWarp, warp = threadIdx.x / kWarp;
  __syncthreads();
  if (threadIdx.x % kWarp == 0)
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i * warps + warp] = sum[i];
  __syncthreads();
  if (const int i = threadIdx.x; i < kSums) {
    A total = 0;
    for (int m = 0; m < warps; ++m) total += sums[i * warps + m];
    write(i, 0, total);
  }
}

// blockIdx.x: a group of taps and a chunk of channels; blockIdx.y: a split of the units.
template <class T, class Int, int kTaps, int kRows, int kVector, bool kChannelsLast>
__global__ void __launch_bounds__(kChannelsLast ? kMostThreads<T> : kBlock,
                                  kBlocksAtOnce<T, Int, kTaps * kRows, kChannelsLast>)
    wgrad_sliding(const __grid_constant__ WgradSlidingParams<T, Int> params) {
  using A = acc_t<T>;
  constexpr int kSums = kTaps * kRows;
  if (params.result.partial != nullptr) start_next_kernel();
  if constexpr (kChannelsLast)
    if (params.cluster) arrive_in_cluster();
  extern __shared__ __align__(kAccess) char shared[];
  A* const sums = reinterpret_cast<A*>(shared);
  uint32_t rest = blockIdx.x, member = threadIdx.x;
  uint32_t group = params.groups.divmod(rest);
  const int64_t first_channel = int64_t(rest) * params.chunk.divisor * kVector;
  const int lane = int(params.chunk.divmod(member));
  const int64_t channel = first_channel + lane * kVector;
  const Int first_tap = Int(params.chunks_of_class.divmod(group)) * kTaps;
  const Int first_row = Int(params.row_groups.divmod(group)) * kRows, number = Int(group);
  const TapClass<Int> taps{number, params.class_taps.of_part(number),
                           number * params.slide.dilation - params.slide.pad};
  A sum[kRows][kTaps][kVector] = {};
  const Count<Int> begin = Count<Int>(blockIdx.y) * params.units_a_split,
                   end = min(params.units, begin + params.units_a_split);
  if (channel < params.channels && int(member) < params.members && first_tap < taps.count)
#pragma unroll 1
    for (Count<Int> unit = begin + member; unit < end; unit += params.members)
      add_unit<kTaps, kRows, kVector, kChannelsLast>(params, unit, channel, taps, first_tap, first_row, sum);
  const int width = int(params.width.divisor), members = params.members;
  bool finite = true;
#pragma unroll
  for (int i = 0; i < kSums; ++i)
#pragma unroll
    for (int v = 0; v < kVector; ++v) finite &= isfinite(sum[i / kTaps][i % kTaps][v]);
  A* const own = sums + int(member) * width + lane * kVector;
  if (int(member) < members && (kChannelsLast || !finite)) {
#pragma unroll
    for (int i = 0; i < kSums; ++i)
#pragma unroll
      for (int v = 0; v < kVector; ++v) own[i * members * width + v] = sum[i / kTaps][i % kTaps][v];
#pragma unroll 1
    for (int i = finite ? kSums * kVector : 0; i < kSums * kVector; ++i) {
      A& value = own[i / kVector * members * width + i % kVector];
      const Int row = first_row + i / kVector / kTaps, tap = first_tap + i / kVector % kTaps;
      if (!isfinite(value) && row < params.cross.taps && tap < taps.count)
        value = sum_again<kChannelsLast>(params, begin + member, end, channel + i % kVector, taps, tap, row);
    }
  }
  const auto write = [&](int i, int c, A total) {
    const Int row = first_row + i / kTaps, tap = first_tap + i % kTaps;
    if (row >= params.cross.taps || tap >= taps.count || first_channel + c >= params.channels) return;
    const int64_t k =
        int64_t(row) * params.weight_cross + int64_t(taps.first + tap * params.slide.tap_step) * params.weight_slide;
    const int64_t to = (first_channel + c) * params.taps + k;
    params.result.write(blockIdx.y, params.channels * params.taps, to, total);
  };
  if constexpr (!kChannelsLast) {
    A(&all)[kSums] = reinterpret_cast<A(&)[kSums]>(sum);
    if (!finite)
#pragma unroll
      for (int i = 0; i < kSums; ++i) all[i] = own[i * members];
    add_warps(all, sums, write);
  } else {
    add_block<kSums>(params, sums, write);
  }
}

// Outputs of a walk, at most: long enough that what a walk reads before its first sum costs little.
constexpr int64_t kWalk = 24;
// Threads that fill a GPU, about, as measured on an H200; fixed, so that results depend on shapes alone.
constexpr double kWantedPlaneThreads = 1 << 15, kWantedPixelThreads = 1 << 16;

// Walks along one line: as long as kWalk, or shorter where there are too few to fill a GPU.
inline int64_t walks_of_line(int64_t outputs, int64_t taps, double wanted) {
  const int64_t most = ceil_div(outputs, taps), least = std::min(ceil_div(outputs, kWalk), most);
  return std::clamp(int64_t(std::ceil(wanted)), least, most);
}

// How the units of a channel are divided: walks of a line, vectors of channels and threads of a block, and how many
// blocks, of one cluster, take all units of their channels: then no second kernel is needed. 0 if more do.
struct UnitPlan {
  int64_t walks, vectors, threads, blocks;
};

// What plan_units has to know: lines of a channel; outputs of a line, of one residue; outputs of a walk's step; groups
// of taps; vectors of channels, and the bytes of one; whether the GPU has clusters of blocks.
struct Units {
  int64_t lines, outputs, taps, step, groups, vectors, vector_bytes, most_threads;
  bool clusters;
};

// Threads that take several units, one after the other, where few blocks have all units of their channels. A step takes
// as long as memory's latency; with more than kMostSteps, or more blocks than an H200 has multiprocessors, a second
// kernel was faster there. A cluster of 8 or 4 blocks is taken where it saves two steps or more and all have at most
// kMostInClusters blocks: a cluster has to lie within one GPC, so that some multiprocessors stay idle. All are fixed,
// so that results depend only on shapes and on whether the GPU has clusters. Chunks of less than a sector of memory are
// read twice, but from the cache. None if no plan takes fewer than `steps`.
inline std::optional<UnitPlan> plan_long_units(const Units& units, int64_t steps) {
  constexpr int64_t kMostSteps = 6, kMultiprocessors = 132, kMostInClusters = 112;
  std::optional<UnitPlan> best;
  for (const int64_t blocks : {1, 8, 4}) {
    if (blocks > 1 && (!units.clusters || steps == kMaxIndex)) break;
    for (const int64_t bytes : {kSector, kSector / 2}) {
      const int64_t vectors = bytes / units.vector_bytes, members = units.most_threads / vectors * blocks;
      const int64_t all_blocks = units.groups * ceil_div(units.vectors, vectors) * blocks;
      if (all_blocks > (blocks > 1 ? kMostInClusters : kMultiprocessors)) break;
      const int64_t most_walks = std::min(ceil_div(units.outputs, units.taps), members * kMostSteps / units.lines);
      for (int64_t n = ceil_div(units.outputs, (kMostSteps - 1) * units.step); n <= most_walks; ++n) {
        const int64_t walk = ceil_div(units.outputs, n), rounds = ceil_div(units.lines * n, members);
        const int64_t each = rounds * (1 + ceil_div(walk, units.step));  // one to fill the window
        const int64_t all = each + (blocks > 1 ? 1 : 0);
        if (each <= kMostSteps && all < steps) steps = all, best = UnitPlan{n, vectors, units.most_threads, blocks};
      }
    }
  }
  return best;
}

// Of channels_last images. A block takes 32 vectors of channels, or fewer where every unit then has a thread of one
// block, but whole sectors of memory. Walks are no shorter for that than kWalk.
inline UnitPlan plan_units(const Units& units) {
  const double wanted = kWantedPixelThreads / double(units.lines) / double(units.vectors * units.groups);
  int64_t walks = walks_of_line(units.outputs, units.taps, wanted);
  if (const int64_t most = kBlock * units.vector_bytes / kSector / units.lines;
      most > 0 && ceil_div(units.outputs, most) <= kWalk)
    walks = std::min(walks, most);
  for (int64_t vectors = kWarp;; vectors /= 2) {
    if (units.lines * walks <= kBlock / vectors) {
      const UnitPlan plan{walks, vectors, kBlock, 1};
      if (!units.clusters) return plan;
      const int64_t walk = ceil_div(units.outputs, walks);
      return plan_long_units(units, 1 + ceil_div(walk, units.step)).value_or(plan);
    }
    if (vectors * units.vector_bytes <= kSector) break;
  }
  return plan_long_units(units, kMaxIndex).value_or(UnitPlan{walks, kWarp, kBlock, 0});
}

template <class T, class Int>
void set_images(const WgradProblem& problem, bool along_x, WgradSlidingParams<T, Int>& params) {
  const int64_t pixel = problem.channels_last ? problem.channels : 1;
  const Axis &y = problem.y, &x = problem.x;
  params.in = static_cast<const T*>(problem.in), params.grad = static_cast<const T*>(problem.grad);
  params.slide = sliding_axis<Int>(along_x ? x : y), params.cross = sliding_axis<Int>(along_x ? y : x);
  params.channels = problem.channels, params.taps = problem.taps();
  params.in_image = y.in * x.in * pixel, params.out_image = y.out * x.out * pixel;
  params.in_slide = params.out_slide = params.in_cross = params.out_cross = Int(pixel);
  (along_x ? params.in_cross : params.in_slide) *= Int(x.in);
  (along_x ? params.out_cross : params.out_slide) *= Int(x.out);
  params.cross_first = !along_x;
  params.weight_slide = along_x ? 1 : x.taps, params.weight_cross = along_x ? x.taps : 1;
}

template <class T, class Int, int kTaps, int kRows, int kVector, bool kChannelsLast>
void launch(const WgradProblem& problem, bool along_x, cudaStream_t stream) {
  WgradSlidingParams<T, Int> params{};
  set_images(problem, along_x, params);
  const SlidingAxis<Int>& a = params.slide;
  const int64_t residue_outputs = ceil_div(int64_t(a.out), int64_t(a.spacing));
  const int64_t chunks_of_class = ceil_div(ceil_div(int64_t(a.taps), int64_t(a.tap_step)), kTaps);
  const int64_t row_groups = ceil_div(int64_t(params.cross.taps), kRows);
  const int64_t groups = int64_t(a.classes) * row_groups * chunks_of_class;
  const int64_t vectors = kChannelsLast ? problem.channels / kVector : problem.channels;
  const int64_t residues = std::min(a.spacing, a.out);
  const int64_t lines = problem.batch * int64_t(params.cross.out) * residues;  // of a channel
  const UnitPlan plan = [&]() -> UnitPlan {
    if constexpr (kChannelsLast)
      return plan_units({lines, residue_outputs, kTaps, kTaps == 1 ? 4 : kTaps, groups, vectors,
                         kVector * int64_t(sizeof(T)), kMostThreads<T>, has_clusters(current_gpu())});
    const double wanted = kWantedPlaneThreads / double(lines) / double(vectors * groups);
    return {walks_of_line(residue_outputs, kTaps, wanted), 1, kBlock, 0};
  }();
  params.walk = Int(ceil_div(residue_outputs, plan.walks)), params.units = Count<Int>(lines * plan.walks);
  params.walks = Divider<Count<Int>>(plan.walks), params.residues = Divider<Count<Int>>(residues);
  params.lines = Divider<Count<Int>>(int64_t(params.cross.out));
  params.class_taps = Parts<Int>(a.taps, a.tap_step), params.residue_outputs = Parts<Int>(a.out, a.spacing);
  params.chunks_of_class = Divider<uint32_t>(chunks_of_class), params.row_groups = Divider<uint32_t>(row_groups);
  const int64_t chunk = ceil_div(vectors, ceil_div(vectors, plan.vectors)), chunks = ceil_div(vectors, chunk);
  params.chunk = Divider<uint32_t>(chunk), params.groups = Divider<uint32_t>(groups);
  params.members = int(plan.threads / chunk);
  if (groups * chunks >= kMaxIndex) fail_size(problem);
  const int64_t wanted = std::clamp<int64_t>(kWantedBlocks / (groups * chunks), 1, 65535), all = params.units;
  const int64_t a_split =
      plan.blocks > 0 ? ceil_div(all, plan.blocks) : std::max<int64_t>(ceil_div(all, wanted), 2 * params.members);
  const int64_t splits = plan.blocks > 0 ? plan.blocks : ceil_div(all, a_split), units = std::min(all, a_split);
  params.units_a_split = Count<Int>(a_split), params.cluster = plan.blocks > 1;
  // No more threads than have a unit, and all of them with about as many.
  params.members = int(ceil_div(units, ceil_div(units, params.members)));
  const int64_t width = chunk * kVector, block_sums = kTaps * kRows * width;
  const int64_t threads = round_up(params.members * chunk, kWarp);
  params.width = Divider<uint32_t>(width), params.sums = Divider<uint32_t>(block_sums);
  params.parts = parts_of_members(params.members, threads, block_sums);
  const WgradPartialSums<T> sums(problem, params.cluster ? 1 : splits);
  params.result = sums.result();
  const int64_t bytes = block_sums * (params.members + (params.cluster ? splits : 0)) * int64_t(sizeof(acc_t<T>));
  constexpr auto kernel = wgrad_sliding<T, Int, kTaps, kRows, kVector, kChannelsLast>;
  (params.cluster ? launch_clusters<kernel, WgradSlidingParams<T, Int>>
                  : launch_kernel<kernel, WgradSlidingParams<T, Int>>)(Kernel::kWgradSliding, groups * chunks, splits,
                                                                       threads, bytes, params, stream);
  sums.finish(problem, stream, true);
}

template <class T, class Int, int kVector, bool kChannelsLast>
void launch_taps(const WgradProblem& problem, cudaStream_t stream) {
  // Contiguous images slide along y, so that neighbouring threads read neighbouring columns, unless they are flat.
  const bool along_x = kChannelsLast || problem.y.out < 8;
  const Axis &slide = along_x ? problem.x : problem.y, &cross = along_x ? problem.y : problem.x;
  const auto axis = sliding_axis<int64_t>(slide);
  const int64_t taps = ceil_div(axis.taps, axis.tap_step);
  if (taps == 1) return launch<T, Int, 1, 3, kVector, kChannelsLast>(problem, along_x, stream);
  if (cross.taps == 1) return launch<T, Int, 4, 1, kVector, kChannelsLast>(problem, along_x, stream);
  launch<T, Int, 3, 3, kVector, kChannelsLast>(problem, along_x, stream);
}

template <class T>
void launch_dtype(const WgradProblem& problem, cudaStream_t stream) {
  const bool narrow = slides_in_int32(problem.y) && fits_int32(problem.x) &&
                      problem.batch * problem.y.out * problem.x.out < kMaxIndex;  // or 32 bits might not count units
  if (!narrow)
    return problem.channels_last ? launch<T, int64_t, 1, 3, 1, true>(problem, true, stream)
                                 : launch<T, int64_t, 1, 3, 1, false>(problem, false, stream);
  if (!problem.channels_last) return launch_taps<T, int, 1, false>(problem, stream);
  if constexpr (sizeof(T) < 8)
    if (has_channel_vectors(problem, 2)) return launch_taps<T, int, 2, true>(problem, stream);
  launch_taps<T, int, 1, true>(problem, stream);
}

}  // namespace

void launch_wgrad_sliding(const WgradProblem& problem, cudaStream_t stream) {
  dispatch(problem.dtype, [&](auto zero) { launch_dtype<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
