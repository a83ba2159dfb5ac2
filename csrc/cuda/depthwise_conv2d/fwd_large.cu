// depthwise_conv2d, forward and dgrad, for contiguous images and any kernel at stride 1; the kernel is in large.cuh.
#include "large.cuh"

namespace customops::cuda::depthwise {
namespace {

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  LargeParams<T> params{};
  set_problem<T>(problem, params);
  params.taps_h = int(problem.y.taps), params.taps_w = int(problem.x.taps);
  params.left = int(problem.x.pad), params.top = int(problem.y.pad), params.planes = 1;
  const int64_t image_tiles_x = ceil_div(problem.x.out, kX), image_tiles_y = ceil_div(problem.y.out, kY);
  int64_t tiles_x = ceil_div(image_tiles_x, ceil_div(image_tiles_x, 16)),
          tiles_y = std::min(image_tiles_y, kMaxThreads / tiles_x);
  tiles_y = ceil_div(image_tiles_y, ceil_div(image_tiles_y, tiles_y));
  params.images = int(std::min(problem.batch, std::max<int64_t>(64 / (tiles_x * tiles_y), 1)));
  constexpr int64_t kShared = 48 << 10;
  int64_t bytes = plan_shared_memory(params, tiles_x, tiles_y, 1);
  for (; bytes > kShared && params.images > 1; bytes = plan_shared_memory(params, tiles_x, tiles_y, 1))
    params.images = (params.images + 1) / 2;
  for (; bytes > kShared && tiles_y > 1; bytes = plan_shared_memory(params, tiles_x, tiles_y, 1))
    tiles_y = (tiles_y + 1) / 2;
  for (; bytes > kShared && tiles_x > 1; bytes = plan_shared_memory(params, tiles_x, tiles_y, 1))
    tiles_x = (tiles_x + 1) / 2;
  const int64_t blocks_x = ceil_div(image_tiles_x, tiles_x), blocks_y = ceil_div(image_tiles_y, tiles_y);
  const int64_t groups = ceil_div(problem.batch, params.images);
  params.blocks_x = Divider<uint32_t>(blocks_x), params.blocks_y = Divider<uint32_t>(blocks_y);
  // Many small images: threads that only help to load them.
  const int64_t threads = params.images > 1 ? kMaxThreads : round_up(tiles_x * tiles_y, kWarp);
  launch_kernel<large<T, false>>(Kernel::kFwdLarge, problem.channels * blocks_x * blocks_y, groups, threads, bytes,
                                 params, stream);
}

}  // namespace

void launch_fwd_large(const ForwardProblem& problem, cudaStream_t stream) { launch<float>(problem, stream); }

}  // namespace customops::cuda::depthwise
