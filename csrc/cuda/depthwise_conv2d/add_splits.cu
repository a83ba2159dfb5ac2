// The second kernel of wgrad, where a batch is split: it adds up the partial sums of the splits, in a fixed order.
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

// 2^log_sums sums a block, each by as many threads as that leaves. O: T or float.
template <class O, class A>
__global__ void __launch_bounds__(kThreads) add_splits(const A* partial, O* out, int64_t n, int splits, int log_sums) {
  constexpr int kAtOnce = 8;  // loads that a thread waits for together: none of them is behind a branch
  wait_for_last_kernel();
  __shared__ A sums[kThreads];
  const int a_block = 1 << log_sums, step = kThreads >> log_sums;
  const int64_t i = (int64_t(blockIdx.x) << log_sums) + (threadIdx.x & (a_block - 1)), from = min(i, n - 1);
  A sum = 0;
  for (int first = threadIdx.x >> log_sums; first < splits; first += kAtOnce * step) {
    A values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) values[k] = partial[min(first + k * step, splits - 1) * n + from];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (first + k * step < splits) sum += values[k];
  }
  for (int half = kThreads / 2; half >= a_block; half /= 2) {
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (int(threadIdx.x) < half) sum += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (int(threadIdx.x) < a_block && i < n) out[i] = narrow<O>(sum);
}

// Whether a kernel may start before the last one of its stream ends. Drivers older than CUDA 12.3 cannot capture that
// in a graph.
bool may_start_early() {
  static const int version = [] {
    int known = 0;
    cudaDriverGetVersion(&known);
    return known;
  }();
  return version >= 12030 && has_clusters(current_gpu());
}

}  // namespace

void launch_add_splits(const WgradProblem& problem, const Memory& partial, int64_t splits, cudaStream_t stream,
                       bool early) {
  const int64_t n = problem.channels * problem.taps();
  int log_sums = 8;  // kThreads sums, unless a thread would add up more than 8 splits
  while (log_sums > 3 && (splits << log_sums) > 8 * kThreads) --log_sums;
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto* out) {
      cudaLaunchAttribute overlap{};
      overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      overlap.val.programmaticStreamSerializationAllowed = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = blocks(n, 1 << log_sums), config.blockDim = kThreads, config.stream = stream;
      config.attrs = &overlap, config.numAttrs = early && may_start_early() ? 1 : 0;
      cudaLaunchKernelEx(&config, add_splits<std::remove_pointer_t<decltype(out)>, acc_t<T>>,
                         static_cast<const acc_t<T>*>(partial.data()), out, n, int(splits), log_sums);
    };
    if constexpr (sizeof(T) == 2)
      if (problem.float32_weight) return launch(static_cast<float*>(problem.out));
    launch(static_cast<T*>(problem.out));
  });
}

}  // namespace customops::cuda::depthwise
