// depthwise_conv2d, forward and dgrad, for contiguous images and kernels one tap high and few taps wide, at stride and
// dilation 1 along rows, as in state space models. A thread computes the outputs that a row has in one aligned vector
// of memory. It reads the samples under these as aligned vectors too and shifts them into place in registers:
// nothing is copied to shared memory, and no thread waits for another.
#include "sliding.cuh"

namespace customops::cuda::depthwise {
namespace {

template <class T>
struct FewTapsParams {
  Parameters<T> weight, bias;
  const T* in;  // rounded down to a whole vector
  T* out;       // aligned
  int in_w, out_w, in_h, top, down, taps, pad;
  int in_first, in_end;  // of the image, counted from `in`
  uint32_t threads;
  bool flipped;
  Divider<uint32_t> vectors_a_row, out_h, channels;
};

// The samples under the outputs of one vector of `kBytes`.
template <class T, int kBytes>
struct FewTapsWindow {
  static constexpr int kOutputs = kBytes / int(sizeof(T)), kSamples = kOutputs + kFewTapsMost - 1;
  static constexpr int kVectors = (kOutputs - 1 + kSamples + kOutputs - 1) / kOutputs;  // at most, if not aligned
  static constexpr int kPerWord = 4 / int(sizeof(T)), kWords = kVectors * kBytes / 4;

  alignas(kBytes) uint32_t words[kWords] = {};
  int start, size;  // the first sample's column, which may be negative, and the row's length
  int shift;        // of the first sample in `words`, in samples

  // row_at: of the row's first sample in params.in.
  __device__ FewTapsWindow(const FewTapsParams<T>& params, int row_at, int start, int size)
      : start(start), size(size), shift((row_at + start) % kOutputs) {
    if (shift < 0) shift += kOutputs;
    const int block = row_at + start - shift, from = row_at + max(start, 0), to = row_at + min(size, start + kSamples);
    // Vectors that hold no sample are not read, and none may reach beyond the images.
    if ((from & -kOutputs) >= params.in_first && ((to - 1) | (kOutputs - 1)) < params.in_end) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int first = block + v * kOutputs;
        if (first < to && first + kOutputs > from)
          reinterpret_cast<Bits<kBytes>*>(words)[v] = *reinterpret_cast<const Bits<kBytes>*>(params.in + first);
      }
    } else {
      shift = 0;
#pragma unroll
      for (int i = 0; i < kSamples; ++i)
        if (unsigned(start + i) < unsigned(size)) reinterpret_cast<T*>(words)[i] = params.in[row_at + start + i];
    }
  }

  template <int kBy>
  __device__ void shift_words(bool wanted) {
#pragma unroll
    for (int i = 0; i + kBy < kWords; ++i) words[i] = wanted ? words[i + kBy] : words[i];
  }

  __device__ void widen_samples(acc_t<T> (&samples)[kSamples]) {
    if constexpr (kBytes == 16) shift_words<2>(shift & 2 * kPerWord);
    shift_words<1>(shift & kPerWord);
    if constexpr (kPerWord == 2) {
#pragma unroll
      for (int i = 0; i + 1 < kWords; ++i) words[i] = __funnelshift_r(words[i], words[i + 1], shift % 2 * 16);
    }
    const bool inside = start >= 0 && start + kSamples <= size;
#pragma unroll
    for (int i = 0; i < kSamples; ++i) {
      samples[i] = widen(reinterpret_cast<const T*>(words)[i]);
      if (!inside && unsigned(start + i) >= unsigned(size)) samples[i] = 0;
    }
  }
};

template <class T, int kBytes>
__global__ void __launch_bounds__(kThreads) fwd_few_taps(const __grid_constant__ FewTapsParams<T> params) {
  using Window = FewTapsWindow<T, kBytes>;
  using A = acc_t<T>;
  constexpr int kOutputs = Window::kOutputs;
  uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= params.threads) return;
  const int vector = int(params.vectors_a_row.divmod(row)), row_out = int(row) * params.out_w;
  const int column = vector * kOutputs - row_out % kOutputs;  // of the first output; below 0, it is of another row
  if (column >= params.out_w) return;
  uint32_t plane = row;
  const int y = int(params.out_h.divmod(plane)) * params.down - params.top;
  const int size = unsigned(y) < unsigned(params.in_h) ? params.in_w : 0;
  Window window(params, params.in_first + (int(plane) * params.in_h + y) * params.in_w, column - params.pad, size);
  const int channel = int(params.channels.divmod(plane));
  A taps[kFewTapsMost], samples[Window::kSamples], sum[kOutputs];
#pragma unroll
  for (int k = 0; k < kFewTapsMost; ++k)
    if (k < params.taps)
      taps[k] = params.weight.select(channel * params.taps + (params.flipped ? params.taps - 1 - k : k));
  const A bias = params.bias ? params.bias.select(channel) : A(0);
  window.widen_samples(samples);
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) sum[o] = bias;
#pragma unroll
  for (int k = 0; k < kFewTapsMost; ++k)
    if (k < params.taps)  // or infinities would meet taps that are not there
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) sum[o] += taps[k] * samples[k + o];
  Vector<T, kOutputs> value;
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) value.at[o] = narrow<T>(sum[o]);
  T* const out = params.out + row_out + column;
  if (column >= 0 && column + kOutputs <= params.out_w) {
    *reinterpret_cast<Vector<T, kOutputs>*>(out) = value;
    return;
  }
#pragma unroll
  for (int o = 0; o < kOutputs; ++o)
    if (unsigned(column + o) < unsigned(params.out_w)) out[o] = value.at[o];
}

template <class T, int kBytes>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  constexpr int kOutputs = kBytes / int(sizeof(T));
  FewTapsParams<T> params{};
  params.weight = Parameters<T>(problem.weight), params.bias = Parameters<T>(problem.bias);
  const auto address = reinterpret_cast<uintptr_t>(problem.in);
  params.in = reinterpret_cast<const T*>(address - address % kBytes), params.out = static_cast<T*>(problem.out);
  params.in_first = int(address % kBytes / sizeof(T));
  params.in_end = params.in_first + int(problem.batch * problem.channels * problem.y.in * problem.x.in);
  params.in_w = int(problem.x.in), params.out_w = int(problem.x.out), params.in_h = int(problem.y.in);
  params.top = int(problem.y.pad), params.down = int(problem.y.down);
  params.taps = int(problem.x.taps), params.pad = int(problem.x.pad), params.flipped = problem.flipped;
  // A row may begin at the last output of a vector.
  const int64_t a_row = ceil_div(problem.x.out + (problem.x.out % kOutputs ? kOutputs - 1 : 0), kOutputs);
  params.threads = uint32_t(problem.batch * problem.channels * problem.y.out * a_row);
  params.vectors_a_row = Divider<uint32_t>(a_row);
  params.out_h = Divider<uint32_t>(problem.y.out), params.channels = Divider<uint32_t>(problem.channels);
  constexpr int kBlock = kThreads / 2;
  fwd_few_taps<T, kBytes><<<unsigned(ceil_div(params.threads, kBlock)), kBlock, 0, stream>>>(params);
}

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  // Few outputs leave most of a GPU idle: smaller vectors reach more of it.
  const bool few = outputs(problem) < int64_t(kAccess / sizeof(T)) * 512 * current_gpu().multiprocessors;
  few ? launch<T, kAccess / 2>(problem, stream) : launch<T, kAccess>(problem, stream);
}

}  // namespace

void launch_fwd_few_taps(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdFewTaps, problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
