// depthwise_conv2d's wgrad for contiguous images and any kernel at stride 1; the kernel is in large.cuh.
#include "large.cuh"

namespace customops::cuda::depthwise {
namespace {

template <class T>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  LargeParams<T> params{};
  params.in = static_cast<const T*>(problem.in), params.grad = static_cast<const T*>(problem.grad);
  params.in_h = int(problem.y.in), params.in_w = int(problem.x.in), params.taps_h = int(problem.y.out),
  params.taps_w = int(problem.x.out);
  params.out_h = int(problem.y.taps), params.out_w = int(problem.x.taps), params.left = int(problem.x.pad),
  params.top = int(problem.y.pad);
  params.channels = int(problem.channels), params.batch = int(problem.batch);
  const int64_t tiles_x = ceil_div(problem.x.taps, kX), tiles_y = ceil_div(problem.y.taps, kY),
                tiles = tiles_x * tiles_y;
  params.images = 1;
  // Small planes: many channels. Large ones: several threads share the rows of one.
  params.planes =
      problem.y.in * problem.x.in <= 256 ? int(std::min<int64_t>(problem.channels, kMaxThreads / tiles)) : 1;
  int64_t bytes = plan_shared_memory(params, tiles_x, tiles_y, 1);
  for (; bytes > 48 << 10 && params.planes > 1; bytes = plan_shared_memory(params, tiles_x, tiles_y, 1))
    params.planes = (params.planes + 1) / 2;
  const int64_t slices = std::min<int64_t>(kMaxThreads / (tiles * params.planes), problem.y.in);
  bytes = std::max<int64_t>(plan_shared_memory(params, tiles_x, tiles_y, slices),
                            round_up(kMaxThreads * (kX * kY + 1) * sizeof(acc_t<T>), kAccess));
  params.blocks_x = Divider<uint32_t>(1), params.blocks_y = Divider<uint32_t>(1);
  const int64_t groups = ceil_div(problem.channels, params.planes);
  const int64_t target_splits = std::min({std::max<int64_t>(kWantedBlocks / groups, 1), problem.batch, int64_t(65535)});
  params.images_a_split = int(ceil_div(problem.batch, target_splits));
  const int64_t splits = ceil_div(problem.batch, params.images_a_split);
  const Memory partial = partial_sums<T>(problem, splits);
  params.out = partial.data();
  const int64_t threads = round_up(params.planes * tiles * slices, kWarp);
  launch_kernel<large<T, true>>(Kernel::kWgradLarge, groups, splits, threads, bytes, params, stream);
  launch_add_splits(problem, partial, splits, stream);
}

}  // namespace

void launch_wgrad_large(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kWgradLarge, problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
