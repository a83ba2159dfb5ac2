// depthwise_conv2d, forward and dgrad, for contiguous images and kernels one tap high at stride and dilation 1 along
// rows: rows of samples, as in audio, sequence and state space models. A thread computes the outputs of a row that lie
// in one aligned run of four or eight in memory, a group of taps at a time. It reads the samples under these as aligned
// vectors too, and shifts them into place in registers: nothing is copied to shared memory, and no thread waits for
// another.
#include "dense_rows.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128;  // threads

template <class T>
struct DenseRowsParams : RowsParams<T> {
  uint32_t threads;
  bool aligned;  // whether the images are whole vectors
  Divider<uint32_t> threads_a_row;
};

// A row of samples in vectors of kLanes.
template <class T, int kLanes>
struct RowVectors {
  const T* at;
  int size, reach;  // a vector at column c has samples of the row if 0 <= c + kLanes - 1 < reach
  bool whole;       // whether none of these vectors reaches beyond the images

  __device__ RowVectors(const DenseRowsParams<T>& params, const Row<T>& row)
      : at(row.in), size(row.size), reach(size > 0 ? size + kLanes - 1 : 0) {
    whole =
        params.aligned || (at - place(0) >= params.in && at + size + (-place(size) & (kLanes - 1)) <= params.in_end);
  }
  // Of a column in its aligned vector.
  __device__ int place(int column) const {
    return int(reinterpret_cast<uintptr_t>(at + column) / sizeof(T)) & (kLanes - 1);
  }
};

// The samples under kOutputs outputs and kTaps taps.
template <class T, int kOutputs, int kTaps>
struct DenseRowsWindow {
  static constexpr int kBytes = std::min(kAccess, kOutputs* int(sizeof(T))), kLanes = kBytes / int(sizeof(T));
  static constexpr int kSamples = kOutputs + kTaps - 1;
  static constexpr int kVectors = (kLanes - 1 + kSamples + kLanes - 1) / kLanes;  // at most, if not aligned
  static constexpr int kPerWord = 4 / int(sizeof(T)), kWords = kVectors * kBytes / 4;

  alignas(kBytes) uint32_t words[kWords];

  // start: the first sample's column, which may be negative. place: in its vector.
  __device__ void load(const RowVectors<T, kLanes>& row, int start, int place) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = 0;
    if (row.whole) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int column = start - place + v * kLanes;
        if (unsigned(column + kLanes - 1) < unsigned(row.reach))
          reinterpret_cast<Bits<kBytes>*>(words)[v] = *reinterpret_cast<const Bits<kBytes>*>(row.at + column);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kVectors * kLanes; ++i)
        if (unsigned(start - place + i) < unsigned(row.size))
          reinterpret_cast<T*>(words)[i] = row.at[start - place + i];
    }
  }

  template <int kBy>
  __device__ void shift_words(bool wanted) {
#pragma unroll
    for (int i = 0; i + kBy < kWords; ++i) words[i] = wanted ? words[i + kBy] : words[i];
  }

  // The bits of the samples before one.
  __device__ static uint32_t below(int sample) {
    static_assert(kSamples < 32);
    return sample >= 32 ? ~0u : (1u << max(sample, 0)) - 1;
  }

  __device__ void widen_samples(acc_t<T> (&samples)[kSamples], int start, int place, int size) {
    if constexpr (kBytes == 16) shift_words<2>(place & 2 * kPerWord);
    shift_words<1>(place & kPerWord);
    if constexpr (kPerWord == 2) {
#pragma unroll
      for (int i = 0; i + 1 < kWords; ++i) words[i] = __funnelshift_r(words[i], words[i + 1], place % 2 * 16);
    }
#pragma unroll
    for (int i = 0; i < kSamples; ++i) samples[i] = widen(reinterpret_cast<const T*>(words)[i]);
    if (start >= 0 && start + kSamples <= size) return;
    const uint32_t inside = below(size - start) & ~below(-start);
#pragma unroll
    for (int i = 0; i < kSamples; ++i)
      if ((inside & 1u << i) == 0) samples[i] = 0;
  }
};

// Taps from `from` on, backwards if they are flipped. More than four are read at constant distances from it, which
// takes a branch, but no arithmetic for each.
template <class T, int kTaps>
__device__ void load_taps(const DenseRowsParams<T>& params, int from, int left, T (&taps)[kTaps]) {
  params.weight.visit([&](const auto& element) {
    if (kTaps <= 4) {
      const int step = params.flipped ? -1 : 1;
#pragma unroll
      for (int k = 0; k < kTaps; ++k)
        if (k < left) taps[k] = element(from + k * step);
    } else if (params.flipped) {
#pragma unroll
      for (int k = 0; k < kTaps; ++k)
        if (k < left) taps[k] = element(from - k);
    } else {
#pragma unroll
      for (int k = 0; k < kTaps; ++k)
        if (k < left) taps[k] = element(from + k);
    }
  });
}

// Stores a thread's outputs from `column` on, in vectors but where they are of another row.
template <class T, int kLanes, int kOutputs>
__device__ void store_outputs(const acc_t<T> (&sum)[kOutputs], T* row, int column, int width) {
#pragma unroll
  for (int v = 0; v < kOutputs; v += kLanes) {
    Vector<T, kLanes> value;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) value.at[i] = narrow<T>(sum[v + i]);
    if (column + v >= 0 && column + v + kLanes <= width) {
      *reinterpret_cast<Vector<T, kLanes>*>(row + column + v) = value;
    } else {
#pragma unroll
      for (int i = 0; i < kLanes; ++i)
        if (unsigned(column + v + i) < unsigned(width)) row[column + v + i] = value.at[i];
    }
  }
}

template <class T, int kOutputs, int kTaps>
__global__ void __launch_bounds__(kBlock) fwd_dense_rows(const __grid_constant__ DenseRowsParams<T> params) {
  using Window = DenseRowsWindow<T, kOutputs, kTaps>;
  using A = acc_t<T>;
  uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= params.threads) return;
  const int part = int(params.threads_a_row.divmod(row));
  // Of the first output; below 0, it is of another row.
  const int column = part * kOutputs - int(row * uint32_t(params.out_w) & (kOutputs - 1));
  if (column >= params.out_w) return;
  const Row<T> line(params, row);
  const RowVectors<T, Window::kLanes> in(params, line);
  const int first_tap = line.channel * params.taps + (params.flipped ? params.taps - 1 : 0);
  const int place = in.place(column - params.pad);  // the same for all groups of taps
  A sum[kOutputs];
  const A bias = params.bias ? params.bias.select(line.channel) : A(0);
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) sum[o] = bias;
  int tap = 0;
#pragma unroll 1
  do {
    const int left = params.taps - tap, start = column - params.pad + tap;
    Window window;
    window.load(in, start, place);
    T taps[kTaps];
    load_taps(params, params.flipped ? first_tap - tap : first_tap + tap, left, taps);
    A samples[Window::kSamples];
    window.widen_samples(samples, start, place, line.size);
#pragma unroll
    for (int k = 0; k < kTaps; ++k)
      if (k < left) {  // or infinities would meet taps that are not there
        const A weight = widen(taps[k]);
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) sum[o] += weight * samples[k + o];
      }
    tap += kTaps;
  } while (kTaps == kDenseRowsGroup && tap < params.taps);  // fewer are all that there are
  store_outputs<T, Window::kLanes>(sum, line.out, column, params.out_w);
}

template <class T, int kOutputs, int kTaps>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  DenseRowsParams<T> params{};
  set_rows<T>(problem, params);
  params.aligned = alignment_of(params.in) == kAccess && (params.in_end - params.in) * sizeof(T) % kAccess == 0;
  // A row may begin at the last output of a thread.
  const int64_t a_row = ceil_div(problem.x.out + (problem.x.out % kOutputs ? kOutputs - 1 : 0), kOutputs);
  params.threads = uint32_t(problem.batch * problem.channels * problem.y.out * a_row);
  params.threads_a_row = Divider<uint32_t>(a_row);
  fwd_dense_rows<T, kOutputs, kTaps><<<unsigned(ceil_div(params.threads, kBlock)), kBlock, 0, stream>>>(params);
}

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  constexpr int64_t kFew = 2300;  // outputs a multiprocessor of an H200: fewer are divided among more threads
  if (problem.x.taps <= 4) return launch<T, 4, 4>(problem, stream);
  if (problem.x.taps <= 8) return launch<T, 4, 8>(problem, stream);
  if (outputs(problem) < kFew * current_gpu().multiprocessors) return launch<T, 4, kDenseRowsGroup>(problem, stream);
  launch<T, 8, kDenseRowsGroup>(problem, stream);
}

}  // namespace

void launch_fwd_dense_rows(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdDenseRows, problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
