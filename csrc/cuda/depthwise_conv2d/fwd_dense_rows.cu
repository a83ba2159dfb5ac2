// depthwise_conv2d, forward and dgrad, for contiguous images and kernels one tap high at stride and dilation 1: rows of
// samples, as in audio and sequence models. Outputs are counted in groups, as wide as a vector, or as half a vector of
// 16-bit numbers where they are few, row after row; a warp takes a run of them, which may go on from one row to the
// next. It copies the samples under each piece of a row into shared memory of its own, unchanged; a thread then
// computes a group at a time, and reads a vector of samples for each vector of taps. Other rows are fwd_rows.cu's.
#include "sliding.cuh"

namespace customops::cuda::depthwise {
namespace {

template <class T>
struct DenseRowsParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_w, out_w, in_h, top, down, taps, pad;
  uint32_t groups;  // of all rows
  int groups_a_warp, padded_taps;
  int samples_at, staged_at, elements_a_warp;  // of a warp's shared memory, in elements of T; taps come first
  bool flipped, whole;                         // whole: groups are stored as vectors
  Divider<uint32_t> groups_a_row, out_h, channels;
};

// The groups of a warp that are in one row.
struct Piece {
  uint32_t row;
  int first, count;  // groups: of the row, and how many
  int done;          // of the warp, before these
};

// f(piece, number) for the pieces of a warp's groups from `first` on.
template <class T, class F>
__device__ void for_pieces(const DenseRowsParams<T>& params, uint32_t first, int count, const F& f) {
  const int a_row = int(params.groups_a_row.divisor);
  Piece piece{first, 0, 0, 0};
  piece.first = int(params.groups_a_row.divmod(piece.row));
#pragma unroll 1
  for (int number = 0; piece.done < count; ++number) {
    piece.count = min(a_row - piece.first, count - piece.done);
    f(piece, number);
    ++piece.row, piece.first = 0, piece.done += piece.count;
  }
}

// By a warp: samples first, first + 1, ... of a row of `size`, with zeros outside of it.
template <class T>
__device__ void copy_samples(const T* row, int size, int first, int samples, T* to, int lane) {
  constexpr int kAtOnce = 8;
#pragma unroll 1
  for (int z = 0; z < samples; z += kAtOnce * kWarp) {
    T values[kAtOnce];
    const int at = first + z;
    if (at >= 0 && at + kAtOnce * kWarp <= size && z + kAtOnce * kWarp <= samples) {
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) values[k] = row[at + lane + k * kWarp];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) to[z + lane + k * kWarp] = values[k];
    } else {
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        values[k] = T{};
        const int i = z + lane + k * kWarp;
        if (i < samples && unsigned(first + i) < unsigned(size)) values[k] = row[first + i];
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (const int i = z + lane + k * kWarp; i < samples) to[i] = values[k];
    }
  }
}

// By a warp: the samples and the taps of its groups.
template <int kOutputs, class T, class A>
__device__ void load_pieces(const DenseRowsParams<T>& params, uint32_t first, int count, int lane, T* samples,
                            A* weight) {
  for_pieces(params, first, count, [&](const Piece& piece, int number) {
    uint32_t plane = piece.row;
    const int y = int(params.out_h.divmod(plane)) * params.down - params.top;
    const bool inside = unsigned(y) < unsigned(params.in_h);
    const T* const in = params.in + (int64_t(plane) * params.in_h + y) * params.in_w;
    copy_samples(in, inside ? params.in_w : 0, piece.first * kOutputs - params.pad,
                 piece.count * kOutputs + params.taps - 1,
                 samples + piece.done * kOutputs + number * params.padded_taps, lane);
    const int64_t channel = params.channels.divmod(plane);
    for (int k = lane; k < params.taps; k += kWarp)
      weight[number * params.padded_taps + k] =
          params.weight.select(channel * params.taps + (params.flipped ? params.taps - 1 - k : k));
  });
}

// By a warp of one group a thread: the same for two pieces at a time. All loads of both are issued before the first
// store, because where outputs are few, nothing else hides how long a load takes. A piece has 32 * kOutputs + 63
// samples at most.
template <int kOutputs, class T, class A>
__device__ void load_pairs_of_pieces(const DenseRowsParams<T>& params, uint32_t first, int count, int lane, T* samples,
                                     A* weight) {
  static_assert(kDenseRowsMostTaps % kWarp == 0);
  constexpr int kLoads = kOutputs + kDenseRowsMostTaps / kWarp, kTapLoads = kDenseRowsMostTaps / kWarp;
  const int a_row = int(params.groups_a_row.divisor);
  Piece piece{first, 0, 0, 0};
  piece.first = int(params.groups_a_row.divmod(piece.row));
#pragma unroll 1
  for (int number = 0; piece.done < count; number += 2) {
    T values[2][kLoads], *to[2];
    A taps[2][kTapLoads];
    int wanted[2];
    int64_t channels[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      piece.count = min(a_row - piece.first, count - piece.done);  // the second may have none
      wanted[n] = piece.count > 0 ? piece.count * kOutputs + params.taps - 1 : 0;
      to[n] = samples + piece.done * kOutputs + (number + n) * params.padded_taps;
      uint32_t plane = piece.row;
      const int y = int(params.out_h.divmod(plane)) * params.down - params.top;
      const int size = unsigned(y) < unsigned(params.in_h) ? params.in_w : 0;
      const int start = piece.first * kOutputs - params.pad, end = max(0, min(size, start + wanted[n]));
      const T* const in = params.in + (int64_t(plane) * params.in_h + y) * params.in_w;
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        values[n][k] = T{};
        const int at = start + lane + k * kWarp;
        if (unsigned(at) < unsigned(end)) values[n][k] = in[at];
      }
      channels[n] = params.channels.divmod(plane);
      ++piece.row, piece.first = 0, piece.done += piece.count;
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int k = 0; k < kTapLoads; ++k) {
        const int tap = min(lane + k * kWarp, params.taps - 1);  // no branch, or its load would be waited for
        taps[n][k] = params.weight.select(channels[n] * params.taps + (params.flipped ? params.taps - 1 - tap : tap));
      }
    __syncwarp();  // keeps the stores below the loads
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int k = 0; k < kLoads; ++k)
        if (const int i = lane + k * kWarp; i < wanted[n]) to[n][i] = values[n][k];
#pragma unroll
      for (int k = 0; k < kTapLoads; ++k)
        if (const int tap = lane + k * kWarp; wanted[n] > 0 && tap < params.taps)
          weight[(number + n) * params.padded_taps + tap] = taps[n][k];
    }
  }
}

// samples: from the first that the group's first output meets on.
template <int kOutputs, class T, class A>
__device__ void add_row_of_taps(const T* samples, const A* weight, int count, A (&sum)[kOutputs]) {
  A window[2 * kOutputs];
  const auto read = [&](int half, int at) {
    const auto vector = *reinterpret_cast<const Vector<T, kOutputs>*>(samples + at);
#pragma unroll
    for (int v = 0; v < kOutputs; ++v) window[half * kOutputs + v] = widen(vector.at[v]);
  };
  read(0, 0);
#pragma unroll 1
  for (int k = 0; k < count; k += kOutputs) {
    read(1, k + kOutputs);
    A taps[kOutputs];
#pragma unroll
    for (int v = 0; v < kOutputs; v += 4) {
      const auto vector = *reinterpret_cast<const Vector<A, 4>*>(weight + k + v);
#pragma unroll
      for (int i = 0; i < 4; ++i) taps[v + i] = vector.at[i];
    }
#pragma unroll
    for (int v = 0; v < kOutputs; ++v)
      if (k + v < count)  // or infinities would meet taps that are not there
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) sum[o] += taps[v] * window[v + o];
#pragma unroll
    for (int v = 0; v < kOutputs; ++v) window[v] = window[kOutputs + v];
  }
}

// Outputs of a group: few outputs leave most of a GPU idle, and smaller groups of 16-bit numbers reach more of it.
template <class T, bool kFew>
constexpr int kGroupOutputs = kFew ? 4 : kAccess / int(sizeof(T));

template <class T, bool kFew>
__global__ void __launch_bounds__(kThreads) fwd_dense_rows(const __grid_constant__ DenseRowsParams<T> params) {
  using A = acc_t<T>;
  constexpr int kOutputs = kGroupOutputs<T, kFew>;
  extern __shared__ __align__(kAccess) char bytes[];
  const int lane = int(threadIdx.x) % kWarp;
  T* const own = reinterpret_cast<T*>(bytes) + int(threadIdx.x) / kWarp * params.elements_a_warp;
  A* const weight = reinterpret_cast<A*>(own);
  T *const samples = own + params.samples_at, *const staged = own + params.staged_at;
  const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp * uint32_t(params.groups_a_warp);
  if (first >= params.groups) return;
  const int count = int(min(uint32_t(params.groups_a_warp), params.groups - first));
  if constexpr (kFew)
    load_pairs_of_pieces<kOutputs>(params, first, count, lane, samples, weight);
  else
    load_pieces<kOutputs>(params, first, count, lane, samples, weight);
  __syncwarp();

  uint32_t first_row = first;
  params.groups_a_row.divmod(first_row);
#pragma unroll 1
  for (int i = lane; i < count; i += kWarp) {
    uint32_t row = first + uint32_t(i);
    const int group = int(params.groups_a_row.divmod(row)), at = int(row - first_row) * params.padded_taps;
    uint32_t plane = row;
    params.out_h.divmod(plane);
    const uint32_t channel = params.channels.divmod(plane);
    const A bias = params.bias ? params.bias[channel] : A(0);
    A sum[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) sum[o] = bias;
    add_row_of_taps(samples + i * kOutputs + at, weight + at, params.taps, sum);
    Vector<T, kOutputs> value;
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) value.at[o] = narrow<T>(sum[o]);
    T* const to = params.whole ? params.out + int64_t(row) * params.out_w + group * kOutputs : staged + i * kOutputs;
    *reinterpret_cast<Vector<T, kOutputs>*>(to) = value;
  }
  if (params.whole) return;
  __syncwarp();
  for_pieces(params, first, count, [&](const Piece& piece, int) {
    const int column = piece.first * kOutputs, columns = min(piece.count * kOutputs, params.out_w - column);
    T* const to = params.out + int64_t(piece.row) * params.out_w + column;
#pragma unroll 4
    for (int x = lane; x < columns; x += kWarp) to[x] = staged[piece.done * kOutputs + x];
  });
}

template <class T, bool kFew>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  constexpr int kOutputs = kGroupOutputs<T, kFew>;
  DenseRowsParams<T> params{};
  params.weight = Parameters<T>(problem.weight), params.bias = Parameters<T>(problem.bias);
  params.in = static_cast<const T*>(problem.in), params.out = static_cast<T*>(problem.out);
  params.in_w = int(problem.x.in), params.out_w = int(problem.x.out), params.in_h = int(problem.y.in);
  params.top = int(problem.y.pad), params.down = int(problem.y.down);
  params.taps = int(problem.x.taps), params.pad = int(problem.x.pad), params.flipped = problem.flipped;
  params.padded_taps = int(round_up(params.taps, kAccess / sizeof(T)));  // so that each warp's part is aligned
  const int64_t a_row = ceil_div(problem.x.out, kOutputs),
                groups = problem.batch * problem.channels * problem.y.out * a_row;
  params.groups = uint32_t(groups);
  // Two groups a thread, where there are enough for all multiprocessors.
  const bool many = !kFew && groups >= int64_t(64) * kWarp * current_gpu().multiprocessors;
  params.groups_a_warp = many ? 2 * kWarp : kWarp;
  const int pieces = int((params.groups_a_warp + a_row - 2) / a_row) + 1;
  params.whole = params.out_w % kOutputs == 0 && reinterpret_cast<uintptr_t>(params.out) % (kOutputs * sizeof(T)) == 0;
  const int samples = params.groups_a_warp * kOutputs;
  params.samples_at = pieces * params.padded_taps * int(sizeof(acc_t<T>) / sizeof(T));
  params.staged_at = params.samples_at + samples + pieces * params.padded_taps;
  params.elements_a_warp = params.staged_at + (params.whole ? 0 : samples);
  params.groups_a_row = Divider<uint32_t>(a_row);
  params.out_h = Divider<uint32_t>(problem.y.out), params.channels = Divider<uint32_t>(problem.channels);
  const int64_t threads = kFew ? kThreads / 2 : kThreads, warps = threads / kWarp;
  const int64_t bytes = warps * params.elements_a_warp * int64_t(sizeof(T));
  const int64_t grid = ceil_div(ceil_div(groups, params.groups_a_warp), warps);
  fwd_dense_rows<T, kFew><<<unsigned(grid), unsigned(threads), bytes, stream>>>(params);
}

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const bool few = outputs(problem) < int64_t(kGroupOutputs<T, false>) * 256 * current_gpu().multiprocessors;
  few ? launch<T, true>(problem, stream) : launch<T, false>(problem, stream);
}

}  // namespace

void launch_fwd_dense_rows(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdDenseRows, problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
