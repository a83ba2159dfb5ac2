// depthwise_conv2d, forward and dgrad, for contiguous images and any kernel at stride 1; the kernel is in large.cuh.
#include "large.cuh"

namespace customops::cuda::depthwise {
namespace {

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  LargeParams<T> params{};
  params.weight = Parameters<T>(problem.weight), params.bias = Parameters<T>(problem.bias);
  params.in = static_cast<const T*>(problem.in), params.out = problem.out;
  params.in_h = int(problem.y.in), params.in_w = int(problem.x.in), params.taps_h = int(problem.y.taps),
  params.taps_w = int(problem.x.taps);
  params.out_h = int(problem.y.out), params.out_w = int(problem.x.out), params.left = int(problem.x.pad),
  params.top = int(problem.y.pad);
  params.planes = 1, params.channels = int(problem.channels), params.batch = int(problem.batch),
  params.flipped = problem.flipped;
  const int64_t all_x = ceil_div(problem.x.out, kX), all_y = ceil_div(problem.y.out, kY);
  int64_t tiles_x = ceil_div(all_x, ceil_div(all_x, 16)), tiles_y = std::min(all_y, kMostThreads / tiles_x);
  tiles_y = ceil_div(all_y, ceil_div(all_y, tiles_y));
  params.images = int(std::min(problem.batch, std::max<int64_t>(64 / (tiles_x * tiles_y), 1)));
  constexpr int64_t kShared = 48 << 10;
  int64_t bytes = measure(params, tiles_x, tiles_y, 1);
  for (; bytes > kShared && params.images > 1; bytes = measure(params, tiles_x, tiles_y, 1))
    params.images = (params.images + 1) / 2;
  for (; bytes > kShared && tiles_y > 1; bytes = measure(params, tiles_x, tiles_y, 1)) tiles_y = (tiles_y + 1) / 2;
  for (; bytes > kShared && tiles_x > 1; bytes = measure(params, tiles_x, tiles_y, 1)) tiles_x = (tiles_x + 1) / 2;
  const int64_t blocks_x = ceil_div(all_x, tiles_x), blocks_y = ceil_div(all_y, tiles_y);
  const int64_t groups = ceil_div(problem.batch, params.images);
  if (!allow_shared<large<T, false>>(bytes)) fail_choice(Kernel::kFwdLarge);
  params.blocks_x = Divider<uint32_t>(blocks_x), params.blocks_y = Divider<uint32_t>(blocks_y);
  // Many small images: threads that only help to load them.
  const int64_t threads = params.images > 1 ? kMostThreads : round_up(tiles_x * tiles_y, kWarp);
  large<T, false>
      <<<dim3(unsigned(problem.channels * blocks_x * blocks_y), unsigned(groups)), unsigned(threads), bytes, stream>>>(
          params);
}

}  // namespace

void launch_fwd_large(const ForwardProblem& problem, cudaStream_t stream) { launch<float>(problem, stream); }

}  // namespace customops::cuda::depthwise
