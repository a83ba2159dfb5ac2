// depthwise_conv2d, forward, and dgrad at stride 1, for small square windows over contiguous images. A thread computes
// a run of outputs of a column straight from memory; all that it reads is on its way before the first product, so that
// it waits for memory once. Its outputs share rows where runs_share_rows (takes.h) says so.
#include "problem.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kRunThreads = 128;

template <class T>
struct RunsParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  Divider<uint32_t> width, runs, channel;  // runs: of a column of outputs
  int in_h, in_w, out_h, out_w, channels, batch, down_y, down_x, pad_y, pad_x, dilation_y, dilation_x;
  uint32_t threads;
  bool flipped;
};

// kStep: rows from an output's window to that of the next, or 0: any stride and dilation, no shared rows.
template <class T, int kTaps, int kStep, int kRun>
__global__ void __launch_bounds__(kRunThreads) fwd_runs(const __grid_constant__ RunsParams<T> params) {
  constexpr int kHop = kStep > 0 ? kStep : kTaps, kRows = (kRun - 1) * kHop + kTaps, kAll = kTaps * kTaps;
  uint32_t plane = blockIdx.x * kRunThreads + threadIdx.x;
  if (plane >= params.threads) return;
  const int x = int(params.width.divmod(plane)), y = int(params.runs.divmod(plane)) * kRun;
  const int down_y = kStep > 0 ? kStep : params.down_y, dilation_y = kStep > 0 ? 1 : params.dilation_y;
  const int top = y * down_y - params.pad_y, left = x * params.down_x - params.pad_x;
  const T* const in = params.in + int64_t(plane) * (params.in_h * params.in_w);
  T value[kRows][kTaps];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = kStep > 0 ? top + i : top + i / kTaps * down_y + i % kTaps * dilation_y;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      const int column = left + (kStep > 0 ? k : k * params.dilation_x);
      value[i][k] = T(0);
      if (unsigned(row) < unsigned(params.in_h) && unsigned(column) < unsigned(params.in_w))
        value[i][k] = in[row * params.in_w + column];
    }
  }
  uint32_t channel = plane;
  channel = params.channel.divmod(channel);
  T weight[kAll];
  params.weight.visit([&](const auto& element) {
    const int64_t first = int64_t(channel) * kAll;
#pragma unroll
    for (int tap = 0; tap < kAll; ++tap) weight[tap] = element(first + (params.flipped ? kAll - 1 - tap : tap));
  });
  const acc_t<T> bias = params.bias ? params.bias.select(channel) : acc_t<T>(0);
  T* const out = params.out + int64_t(plane) * (params.out_h * params.out_w) + (y * params.out_w + x);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    acc_t<T> sum = bias;
#pragma unroll
    for (int tap = 0; tap < kAll; ++tap) sum += widen(weight[tap]) * widen(value[i * kHop + tap / kTaps][tap % kTaps]);
    if (y + i < params.out_h) out[i * params.out_w] = narrow<T>(sum);
  }
}

template <class T, int kTaps, int kStep, int kRun>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const int64_t runs = ceil_div(problem.y.out, kRun);
  RunsParams<T> params{};
  set_problem<T>(problem, params);
  params.width = Divider<uint32_t>(problem.x.out), params.runs = Divider<uint32_t>(runs);
  params.channel = Divider<uint32_t>(problem.channels);
  params.down_y = int(problem.y.down), params.down_x = int(problem.x.down);
  params.pad_y = int(problem.y.pad), params.pad_x = int(problem.x.pad);
  params.dilation_y = int(problem.y.dilation), params.dilation_x = int(problem.x.dilation);
  params.threads = uint32_t(problem.batch * problem.channels * runs * problem.x.out);
  fwd_runs<T, kTaps, kStep, kRun><<<unsigned(ceil_div(params.threads, kRunThreads)), kRunThreads, 0, stream>>>(params);
}

// How long runs of that length take, in no unit: a thread's instructions, about, times the threads of a multiprocessor.
// Fewer threads than kFewThreads take no less time, for they wait for memory. Measured on an H200.
inline int64_t cost(const Problem& problem, int64_t run) {
  constexpr int64_t kFewThreads = 256;
  const int64_t taps = problem.y.taps, rows = (run - 1) * problem.y.down + taps;
  const int64_t threads = problem.batch * problem.channels * problem.x.out * ceil_div(problem.y.out, run);
  return std::max(threads / current_gpu().multiprocessors, kFewThreads) *
         (40 + 3 * rows * taps + (1 + run) * taps * taps);
}

// kTaps: those of runs that share rows.
template <class T, int kTaps>
void launch_sharing(const ForwardProblem& problem, cudaStream_t stream) {
  const bool short_run = cost(problem, 4) < cost(problem, 8);
  if (problem.y.down == 1)
    return short_run ? launch<T, kTaps, 1, 4>(problem, stream) : launch<T, kTaps, 1, 8>(problem, stream);
  short_run ? launch<T, kTaps, 2, 4>(problem, stream) : launch<T, kTaps, 2, 8>(problem, stream);
}

template <class T>
void launch_apart(const ForwardProblem& problem, cudaStream_t stream) {
  switch (problem.y.taps) {
    case 2: return launch<T, 2, 0, 2>(problem, stream);
    case 3: return launch<T, 3, 0, 2>(problem, stream);
    case 4: return launch<T, 4, 0, 2>(problem, stream);
    case 5: return launch<T, 5, 0, 2>(problem, stream);
    default: fail_choice(Kernel::kFwdRuns);
  }
}

}  // namespace

void launch_fwd_runs(const ForwardProblem& problem, cudaStream_t stream) {
  if (!runs_share_rows(problem))
    return dispatch(problem.dtype, [&](auto zero) { launch_apart<decltype(zero)>(problem, stream); });
  dispatch_float(Kernel::kFwdRuns, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.y.taps == 4) return launch_sharing<T, 4>(problem, stream);
    dispatch_taps(Kernel::kFwdRuns, problem.y.taps,
                  [&](auto taps) { launch_sharing<T, decltype(taps)::value>(problem, stream); });
  });
}

}  // namespace customops::cuda::depthwise
