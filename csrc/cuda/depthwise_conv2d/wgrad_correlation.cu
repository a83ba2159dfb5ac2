// depthwise_conv2d's wgrad for contiguous images whose output has fewer pixels than the kernel has taps. It is computed
// as a forward pass: the gradient is the kernel, the taps are the outputs, stride and dilation are exchanged. A thread
// computes some taps as in fwd_sliding.cu, for one image of its split after the other.
#include "sliding.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

template <class T>
struct WgradCorrelationParams {
  SlidingParams<T, int> sliding;
  const T* grad;
  WgradResult<T> result;
  int64_t channels, batch, images_a_split;
};

// blockIdx.y: a split of the batch.
template <class T, int kOutputs>
__global__ void __launch_bounds__(kThreads)
    wgrad_correlation(const __grid_constant__ WgradCorrelationParams<T> params, Divider<uint32_t> columns,
                      Divider<uint32_t> groups, uint32_t threads) {
  using A = acc_t<T>;
  uint32_t channel = blockIdx.x * kThreads + threadIdx.x;
  if (channel >= threads) return;
  const auto& sliding = params.sliding;
  const int column = int(columns.divmod(channel)), group = int(groups.divmod(channel));
  const int64_t begin = blockIdx.y * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  A sum[kOutputs][1] = {};
#pragma unroll 1
  for (int64_t n = begin; n < end; ++n) {
    const int64_t plane = n * params.channels + channel;
    const T* const grad = params.grad + plane * sliding.taps;
    sum_group<kOutputs, 1>(
        sliding, sliding.in + plane * sliding.in_image, group, column, TapShare{0, 1},
        [&](int k) { return Vector<A, 1>{{widen(grad[k])}}; }, sum);
  }
  const auto& a = sliding.slide;
  const int first = group % a.stride() + a.stride() * kOutputs * (group / a.stride());
#pragma unroll
  for (int o = 0; o < kOutputs; ++o)
    if (const int row = first + o * a.stride(); row < a.out)
      params.result.write(blockIdx.y, params.channels * sliding.out_image,
                          channel * sliding.out_image + int64_t(row) * sliding.cross.out + column, sum[o][0]);
}

template <class T, int kOutputs>
void launch(const WgradProblem& problem, const Axis& y, const Axis& x, cudaStream_t stream) {
  WgradCorrelationParams<T> params{};
  auto& sliding = params.sliding;
  sliding.in = static_cast<const T*>(problem.in);
  params.grad = static_cast<const T*>(problem.grad), params.batch = problem.batch;
  sliding.slide = sliding_axis<int>(y), sliding.cross = sliding_axis<int>(x);
  params.channels = problem.channels, sliding.taps = int(y.taps * x.taps);
  sliding.in_image = y.in * x.in, sliding.out_image = y.out * x.out;
  sliding.in_slide = int(x.in), sliding.in_cross = 1, sliding.weight_slide = int(x.taps), sliding.weight_cross = 1;
  const int64_t groups = sliding.slide.groups(kOutputs), threads = problem.channels * groups * x.out;
  const int64_t target_splits = std::clamp<int64_t>(kWantedBlocks * kThreads / threads, 1, 65535);
  params.images_a_split = ceil_div(problem.batch, target_splits);
  const int64_t splits = ceil_div(problem.batch, params.images_a_split);
  const WgradPartialSums<T> sums(problem, splits);
  params.result = sums.result();
  wgrad_correlation<T, kOutputs><<<dim3(blocks(threads, kThreads), unsigned(splits)), kThreads, 0, stream>>>(
      params, Divider<uint32_t>(x.out), Divider<uint32_t>(groups), uint32_t(threads));
  sums.finish(problem, stream);
}

}  // namespace

void launch_wgrad_correlation(const WgradProblem& problem, cudaStream_t stream) {
  const Axis y = correlation_axis(problem.y), x = correlation_axis(problem.x);
  const auto slide = sliding_axis<int64_t>(y);
  // Outputs of a thread: as many as leave a GPU enough threads; of shapes alone, as the order of the sums.
  const bool several =
      slide.residue_outputs() > 2 && problem.batch * problem.channels * x.out * slide.groups(4) >= kWantedBlocks * 128;
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (several)
      launch<T, 4>(problem, y, x, stream);
    else
      launch<T, 1>(problem, y, x, stream);
  });
}

}  // namespace customops::cuda::depthwise
