// depthwise_conv2d's wgrad for contiguous images and kernels one tap high: rows of samples, as in audio and sequence
// models. A block copies segments of rows of one channel and of their gradient into shared memory, sorted as in
// fwd_rows.cu; a thread holds the sums of kTaps taps, and reads four gradients and kTaps + 3 samples at a time. The
// order of the sums depends on shapes alone.
#include "sliding.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kOutputs = 4, kShared = 48 << 10, kWarps = kThreads / kWarp;

template <class T>
struct WgradRowsParams {
  const T *in, *grad;
  WgradResult<T> result;
  SlidingAxis<int> x;
  int64_t rows, rows_a_split;  // of one channel, in the output
  int channels, in_h, top, down, lanes_log;
  int rows_a_step, segments, pitch, grad_pitch, grad_at;  // pitches and grad_at in elements
  int sets, sets_a_block, chunks_of_class, slots;         // a set: kTaps taps of one class; slots: threads of a set
  Divider<uint32_t> groups, subrows, out_h;
};

// Copies the segment of `rows` rows from first_row on into shared memory.
template <class T, class A>
__device__ void load_rows(const WgradRowsParams<T>& params, uint32_t first_row, int rows, int channel, int segment,
                          A* shared) {
  const SlidingAxis<int>& x = params.x;
  const int first = segment * int(params.groups.divisor) * kOutputs, lanes = 1 << params.lanes_log;
  const int lane = int(threadIdx.x) & (lanes - 1), subrows = rows * int(params.subrows.divisor);
  for (int i = threadIdx.x >> params.lanes_log; i < subrows; i += kThreads >> params.lanes_log) {
    uint32_t row = i, image;
    const int subrow = int(params.subrows.divmod(row)), residue = subrow / x.classes;
    image = first_row + row;
    const int y = int(params.out_h.divmod(image)) * params.down - params.top;
    const int start = class_of(x, subrow - residue * x.classes).start + residue * x.down + x.input_step * first;
    const bool inside = y >= 0 && y < params.in_h;
    const T* const in = params.in + ((int64_t(image) * params.channels + channel) * params.in_h + y) * x.in;
    A* const to = shared + i * params.pitch;
    copy_row(in, inside ? x.in : 0, start, x.input_step, to, params.pitch, lane, lanes);
  }
  for (int i = threadIdx.x >> params.lanes_log; i < rows * x.spacing; i += kThreads >> params.lanes_log) {
    const int r = i / x.spacing, residue = i - r * x.spacing;
    uint32_t image = first_row + r;
    const int y = int(params.out_h.divmod(image));
    const T* const grad =
        params.grad + ((int64_t(image) * params.channels + channel) * params.out_h.divisor + y) * x.out;
    A* const to = shared + params.grad_at + i * params.grad_pitch;
    copy_row(grad, x.out, residue + x.spacing * first, x.spacing, to, params.grad_pitch, lane, lanes);
  }
}

// Adds the products of four gradients, the first `count` of which are there, with the samples under kTaps taps.
template <int kTaps, class A>
__device__ void add_products(const A* samples, const A* gradients, int count, A (&sum)[kTaps]) {
  using V = Vector<A, kOutputs>;
  A window[kTaps + kOutputs];
#pragma unroll
  for (int i = 0; i < kTaps + kOutputs; i += kOutputs) {
    const V vector = *reinterpret_cast<const V*>(samples + i);
#pragma unroll
    for (int v = 0; v < kOutputs; ++v) window[i + v] = vector.at[v];
  }
  const V g = *reinterpret_cast<const V*>(gradients);
#pragma unroll
  for (int o = 0; o < kOutputs; ++o)
    if (o < count)
#pragma unroll
      for (int k = 0; k < kTaps; ++k) sum[k] += g.at[o] * window[o + k];
}

// blockIdx.x: sets of taps, then channels; blockIdx.y: splits.
template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads) wgrad_rows(const __grid_constant__ WgradRowsParams<T> params) {
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char bytes[];
  A* const shared = reinterpret_cast<A*>(bytes);
  const SlidingAxis<int>& x = params.x;
  const int set_blocks = (params.sets + params.sets_a_block - 1) / params.sets_a_block;
  const int channel = int(blockIdx.x) / set_blocks;
  const int set = int(blockIdx.x) % set_blocks * params.sets_a_block + int(threadIdx.x) / params.slots;
  const int number = set / params.chunks_of_class, first_tap = set % params.chunks_of_class * kTaps;
  const int slot = int(threadIdx.x) % params.slots, groups = int(params.groups.divisor);
  const int64_t begin = int64_t(blockIdx.y) * params.rows_a_split, end = min(params.rows, begin + params.rows_a_split);
  const bool busy = set < params.sets && int(threadIdx.x) < params.slots * params.sets_a_block;
  A sum[kTaps] = {};
  for (int64_t row = begin; row < end; row += params.rows_a_step)
    for (int segment = 0; segment < params.segments; ++segment) {
      const int rows = int(min(int64_t(params.rows_a_step), end - row)), first = segment * groups * kOutputs;
      __syncthreads();
      load_rows(params, uint32_t(row), rows, channel, segment, shared);
      __syncthreads();
      if (!busy) continue;
      for (int i = slot; i < rows * x.spacing * groups; i += params.slots) {
        uint32_t line = i;  // a residue of a row
        const int z = int(params.groups.divmod(line)) * kOutputs;
        const int residue = int(line) % x.spacing;
        const int left = x.out - residue - x.spacing * (first + z);
        add_products<kTaps>(shared + (int(line) * x.classes + number) * params.pitch + z + first_tap,
                            shared + params.grad_at + int(line) * params.grad_pitch + z,
                            (left + x.spacing - 1) / x.spacing, sum);
      }
    }
#pragma unroll
  for (int k = 0; k < kTaps; ++k)
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) sum[k] += __shfl_xor_sync(0xffffffff, sum[k], distance);
  __syncthreads();
  if (threadIdx.x % kWarp == 0)
#pragma unroll
    for (int k = 0; k < kTaps; ++k) shared[int(threadIdx.x) / kWarp * kTaps + k] = sum[k];
  __syncthreads();
  const int warps = params.slots / kWarp, first_set = set - int(threadIdx.x) / params.slots;
  for (int i = threadIdx.x; i < params.sets_a_block * kTaps; i += kThreads) {
    const int of = first_set + i / kTaps, j = of % params.chunks_of_class * kTaps + i % kTaps;
    const int tap = of / params.chunks_of_class + j * x.tap_step;
    if (of >= params.sets || tap >= x.taps) continue;
    A total = 0;
    for (int w = 0; w < warps; ++w) total += shared[(i / kTaps * warps + w) * kTaps + i % kTaps];
    params.result.write(blockIdx.y, int64_t(params.channels) * x.taps, int64_t(channel) * x.taps + tap, total);
  }
}

template <class T, int kTaps>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  WgradRowsParams<T> params{};
  params.in = static_cast<const T*>(problem.in), params.grad = static_cast<const T*>(problem.grad);
  const SlidingAxis<int> x = params.x = sliding_axis<int>(problem.x);
  params.channels = int(problem.channels), params.in_h = int(problem.y.in);
  params.top = int(problem.y.pad), params.down = int(problem.y.down), params.rows = problem.batch * problem.y.out;
  params.chunks_of_class = int(ceil_div(ceil_div(x.taps, x.tap_step), kTaps));
  params.sets = x.classes * params.chunks_of_class;
  params.sets_a_block = 1;
  while (params.sets_a_block < params.sets && params.sets_a_block < kWarps) params.sets_a_block *= 2;
  params.slots = kThreads / params.sets_a_block;
  const int64_t subrows = int64_t(x.spacing) * x.classes, samples = int64_t(params.chunks_of_class) * kTaps;
  const int64_t all = ceil_div(ceil_div(x.out, x.spacing), kOutputs);
  int64_t groups = std::min<int64_t>(all, 512), bytes = 0;
  params.rows_a_step = int(std::clamp<int64_t>(4 * kThreads / (groups * x.spacing), 1, ceil_div(params.rows, 4)));
  const auto too_large = [&] {
    params.pitch = int(groups * kOutputs + samples), params.grad_pitch = int(groups * kOutputs);
    params.grad_at = int(params.rows_a_step * subrows) * params.pitch;
    bytes = (params.grad_at + params.rows_a_step * x.spacing * params.grad_pitch) * int64_t(sizeof(acc_t<T>));
    return bytes > kShared;
  };
  while (too_large() && params.rows_a_step > 1) params.rows_a_step = (params.rows_a_step + 1) / 2;
  while (too_large() && groups > 1) groups = (groups + 1) / 2;
  bytes = std::max<int64_t>(bytes, kWarps * kTaps * sizeof(acc_t<T>));
  params.segments = int(ceil_div(all, groups));
  params.groups = Divider<uint32_t>(groups), params.subrows = Divider<uint32_t>(subrows);
  params.out_h = Divider<uint32_t>(problem.y.out),
  params.lanes_log = log_lanes(params.pitch, params.rows_a_step * subrows);
  const int64_t grid = problem.channels * ceil_div(params.sets, params.sets_a_block);
  const int64_t target_splits = std::clamp<int64_t>(kWantedBlocks / grid, 1, 65535);
  params.rows_a_split = round_up(ceil_div(params.rows, target_splits), params.rows_a_step);
  const int64_t splits = ceil_div(params.rows, params.rows_a_split);
  const WgradPartialSums<T> sums(problem, splits);
  params.result = sums.result();
  wgrad_rows<T, kTaps><<<dim3(unsigned(grid), unsigned(splits)), kThreads, bytes, stream>>>(params);
  sums.finish(problem, stream);
}

}  // namespace

void launch_wgrad_rows(const WgradProblem& problem, cudaStream_t stream) {
  const auto x = sliding_axis<int64_t>(problem.x);
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (ceil_div(x.taps, x.tap_step) <= 4)
      launch<T, 4>(problem, stream);
    else
      launch<T, sizeof(T) == 8 ? 8 : 16>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
