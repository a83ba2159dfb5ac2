// depthwise_conv2d, forward and dgrad, for contiguous images and kernels one tap high: rows of samples, as in audio and
// sequence models. A block copies segments of rows into shared memory, widened, and reordered so that windows of
// neighbouring outputs overlap as if stride and dilation were 1 (sliding.cuh); a thread then takes four outputs and
// reads four samples and four taps at a time.
#include "sliding.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kOutputs = 4, kShared = 48 << 10, kMaxGroups = 4 * kThreads;  // groups of outputs of a block

// A segment has `groups` groups of kOutputs outputs of each of `residues` residues; residues = x.stride(). In shared
// memory, subrow (row, residue, class) has `pitch` samples, of which the group g of the segment reads those from
// kOutputs * g on.
template <class T>
struct FwdRowsParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  SlidingAxis<int> x;
  uint32_t rows;  // of all planes, of the output
  int in_h, top, down, up, lanes_log, tap_lanes_log;
  int rows_a_block, sets, padded_taps, pitch;  // sets: of taps, one a class or a phase
  int weight_at, staged_at;                    // elements of shared memory
  bool flipped, whole;                         // whole: outputs are stored as vectors
  Divider<uint32_t> segments, groups, residues, subrows, out_h, channels;
};

// Copies the segments and the taps of the block's rows into shared memory.
template <class T, class A>
__device__ void load_rows(const FwdRowsParams<T>& params, uint32_t first_row, int rows, int segment, A* shared) {
  const SlidingAxis<int>& x = params.x;
  const int first = segment * int(params.groups.divisor) * kOutputs, lanes = 1 << params.lanes_log;
  const int subrows = rows * int(params.subrows.divisor);
  for (int i = threadIdx.x >> params.lanes_log; i < subrows; i += kThreads >> params.lanes_log) {
    uint32_t row = i, plane;
    const int subrow = int(params.subrows.divmod(row)), residue = subrow / x.classes;
    plane = first_row + row;
    const int y = int(params.out_h.divmod(plane)) * params.down - params.top, in_y = y / params.up;
    const TapClass<int> taps = x.up > 1 ? class_of_phase(x, residue % x.up) : class_of(x, subrow - residue * x.classes);
    const int start = taps.start + residue / x.up * x.down + x.input_step * first;
    const bool inside = y >= 0 && in_y < params.in_h && in_y * params.up == y;
    const T* const in = params.in + (int64_t(plane) * params.in_h + in_y) * x.in;
    A* const to = shared + i * params.pitch;
    copy_row(in, inside ? x.in : 0, start, x.input_step, to, params.pitch, int(threadIdx.x) & (lanes - 1), lanes);
  }
  A* const weight = shared + params.weight_at;
  const int sets = rows * params.sets, set_lanes = 1 << params.tap_lanes_log;
  for (int i = threadIdx.x >> params.tap_lanes_log; i < sets; i += kThreads >> params.tap_lanes_log) {
    const int row = i / params.sets, set = i - row * params.sets;
    uint32_t plane = first_row + row;
    params.out_h.divmod(plane);
    const int64_t channel = params.channels.divmod(plane);
    const TapClass<int> taps = x.up > 1 ? class_of_phase(x, set) : class_of(x, set);
    for (int k = threadIdx.x & (set_lanes - 1); k < params.padded_taps; k += set_lanes) {
      const int tap = taps.first + k * x.tap_step;
      weight[i * params.padded_taps + k] =
          k < taps.count ? params.weight[channel * x.taps + (params.flipped ? x.taps - 1 - tap : tap)] : A(0);
    }
  }
}

// samples: from the first that the thread's first output meets on.
template <class A>
__device__ void add_taps_of_row(const A* samples, const A* weight, int count, A (&sum)[kOutputs]) {
  using V = Vector<A, kOutputs>;
  A window[2 * kOutputs];
  const auto read = [&](int half, int at) {
    const V vector = *reinterpret_cast<const V*>(samples + at);
#pragma unroll
    for (int v = 0; v < kOutputs; ++v) window[half * kOutputs + v] = vector.at[v];
  };
  read(0, 0);
#pragma unroll 1
  for (int k = 0; k < count; k += kOutputs) {
    read(1, k + kOutputs);
    const V taps = *reinterpret_cast<const V*>(weight + k);
#pragma unroll
    for (int v = 0; v < kOutputs; ++v)
      if (k + v < count)  // or infinities would meet taps that are not there
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) sum[o] += taps.at[v] * window[v + o];
#pragma unroll
    for (int v = 0; v < kOutputs; ++v) window[v] = window[kOutputs + v];
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) rows(const __grid_constant__ FwdRowsParams<T> params) {
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char bytes[];
  A* const shared = reinterpret_cast<A*>(bytes);
  const SlidingAxis<int>& x = params.x;
  uint32_t block = blockIdx.x;
  const int segment = int(params.segments.divmod(block));
  const uint32_t first_row = block * params.rows_a_block;
  const int rows = int(min(uint32_t(params.rows_a_block), params.rows - first_row));
  load_rows(params, first_row, rows, segment, shared);
  __syncthreads();

  const int groups = int(params.groups.divisor), residues = int(params.residues.divisor);
  const int columns = groups * residues * kOutputs, first = segment * columns;  // of the segment, in the output
  for (int i = threadIdx.x; i < rows * groups * residues; i += kThreads) {
    uint32_t rest = i;
    const int group = int(params.groups.divmod(rest)), residue = int(params.residues.divmod(rest)), row = int(rest);
    const A* const subrow = shared + (row * residues + residue) * x.classes * params.pitch + group * kOutputs;
    const A* const weight = shared + params.weight_at + row * params.sets * params.padded_taps;
    uint32_t plane = first_row + row;
    params.out_h.divmod(plane);
    const uint32_t channel = params.channels.divmod(plane);
    const A bias = params.bias ? params.bias[channel] : A(0);
    A sum[kOutputs] = {bias, bias, bias, bias};
    if (x.up > 1) {
      const int phase = residue % x.up;
      add_taps_of_row(subrow, weight + phase * params.padded_taps, class_of_phase(x, phase).count, sum);
    } else {
      for (int c = 0; c < x.classes; ++c)
        add_taps_of_row(subrow + c * params.pitch, weight + c * params.padded_taps, class_of(x, c).count, sum);
    }
    const int at = first + group * kOutputs;
    if (params.whole) {
      Vector<T, kOutputs> value;
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) value.at[o] = narrow<T>(sum[o]);
      if (at < x.out)
        *reinterpret_cast<Vector<T, kOutputs>*>(params.out + int64_t(first_row + row) * x.out + at) = value;
    } else {
#pragma unroll
      for (int o = 0; o < kOutputs; ++o)
        shared[params.staged_at + row * columns + residue + residues * (group * kOutputs + o)] = sum[o];
    }
  }
  if (params.whole) return;
  __syncthreads();
  for (int r = 0; r < rows; ++r)
    for (int i = threadIdx.x; i < min(columns, x.out - first); i += kThreads)
      params.out[int64_t(first_row + r) * x.out + first + i] = narrow<T>(shared[params.staged_at + r * columns + i]);
}

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  FwdRowsParams<T> params{};
  params.weight = weight_of<T>(problem), params.bias = bias_of<T>(problem);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  const SlidingAxis<int> x = params.x = sliding_axis<int>(problem.x);
  params.in_h = int(problem.y.in);
  params.top = int(problem.y.pad), params.down = int(problem.y.down), params.up = int(problem.y.up);
  params.rows = uint32_t(problem.batch * problem.channels * problem.y.out), params.flipped = problem.flipped;
  params.sets = std::max(x.up, x.classes);
  params.padded_taps = int(round_up(ceil_div(x.taps, x.tap_step), kOutputs));
  const int residues = x.stride();
  // Several groups a thread, where there are enough for all multiprocessors.
  const int64_t all = x.groups(kOutputs) / residues, blocks = 4 * current_gpu().multiprocessors;
  const int64_t target_groups = std::clamp<int64_t>(all * residues * params.rows / blocks, kThreads, kMaxGroups);
  const int64_t max_groups = std::max<int64_t>(target_groups / residues, 1);
  int64_t groups = ceil_div(all, ceil_div(all, max_groups)), block_rows = 0, bytes = 0;
  params.whole =
      residues == 1 && x.out % kOutputs == 0 && reinterpret_cast<uintptr_t>(params.out) % (kOutputs * sizeof(T)) == 0;
  const auto too_large = [&] {
    params.pitch = int(groups) * kOutputs + params.padded_taps;
    params.weight_at = int(block_rows) * residues * x.classes * params.pitch;
    params.staged_at = params.weight_at + int(block_rows) * params.sets * params.padded_taps;
    bytes = (params.staged_at + (params.whole ? 0 : block_rows * residues * groups * kOutputs)) * sizeof(acc_t<T>);
    return bytes > kShared;
  };
  block_rows = std::clamp<int64_t>(target_groups / (residues * groups), 1, int64_t(params.rows));
  while (too_large() && block_rows > 1) block_rows = (block_rows + 1) / 2;
  while (too_large() && groups > 1) groups = (groups + 1) / 2;
  params.rows_a_block = int(block_rows);
  const int64_t segments = ceil_div(all, groups);
  params.segments = Divider<uint32_t>(segments), params.groups = Divider<uint32_t>(groups);
  params.residues = Divider<uint32_t>(residues), params.subrows = Divider<uint32_t>(residues * x.classes);
  params.out_h = Divider<uint32_t>(problem.y.out), params.channels = Divider<uint32_t>(problem.channels);
  params.lanes_log = log_lanes(params.pitch, block_rows * residues * x.classes);
  params.tap_lanes_log = log_lanes(params.padded_taps, block_rows * params.sets);
  const int64_t grid = segments * ceil_div(int64_t(params.rows), block_rows);
  rows<T><<<unsigned(grid), kThreads, bytes, stream>>>(params);
}

}  // namespace

void launch_fwd_rows(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch(problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
