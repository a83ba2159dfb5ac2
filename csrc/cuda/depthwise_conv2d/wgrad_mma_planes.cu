// depthwise_conv2d's wgrad on tensor cores (wgrad_mma.cuh) for contiguous images. A warp has a plane of up to 16 rows,
// or 16 rows of a larger plane, and goes through the batch.
#include "wgrad_mma.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kWarps = 4, kBlock = kWarps * kWarp;

template <class T>
struct WgradMmaPlanesParams : WgradMmaParams<T> {
  int plane_warps, planes, bands, vector, grad_vector;
};

template <class T, class S>
__global__ void __launch_bounds__(kBlock, S::kDown == 1 ? 5 : 4)
    wgrad_mma_planes(const __grid_constant__ WgradMmaPlanesParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kAll = S::kTaps * S::kTaps, kStep = kColumns * int(sizeof(T));
  if (params.result.partial != nullptr) start_next_kernel();
  extern __shared__ __align__(kAccess) char shared[];
  const unsigned patches = shared_address(shared);
  const int warp = threadIdx.x / kWarp;
  const int channel = int(blockIdx.x) * params.planes, count = min(params.planes, params.channels - channel);
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const int64_t in_image = int64_t(params.channels) * params.in_h * params.in_w,
                out_image = int64_t(params.channels) * params.out_h * params.out_w;
  const int plane = warp / params.plane_warps, plane_warp = warp % params.plane_warps;

  const LaneOffsets<S> own;
  const unsigned to_in =
      ((plane * params.rows + plane_warp * kRows * S::kDown + own.in_row) * params.pitch + own.in_column) *
      unsigned(sizeof(T));
  const unsigned to_grad = params.grad_at + (plane * params.grad_rows + plane_warp * kRows + own.grad_row) *
                                                params.grad_pitch * unsigned(sizeof(T));
  float sum[S::kTaps][S::kDown][4] = {};
  for (int band = 0; band < params.bands; ++band) {
    const int first = band * params.plane_warps * kRows;
    __syncthreads();
    clear(shared, params.bytes);
    const auto source = [&] {
      return PlanesSource(first * S::kDown - params.top, -params.left, params.rows, params.pitch, params.pitch,
                          params.in_h, params.in_w, params.vector);
    };
    const auto grad_source = [&] {
      return PlanesSource(first - params.grad_top, 0, params.grad_rows, params.grad_pitch, params.grad_pitch,
                          params.out_h, params.out_w, params.grad_vector);
    };
    constexpr bool kSingly = S::kDown == 1;  // there are registers for that
    const Run<kBlock, T, decltype(source), kSingly> run(source, count);
    const Run<kBlock, T, decltype(grad_source), kSingly> grad_run(grad_source, count);
    const T* in = params.in + int64_t(begin) * in_image + int64_t(channel) * params.in_h * params.in_w + run.first;
    const T* grad_in =
        params.grad + int64_t(begin) * out_image + int64_t(channel) * params.out_h * params.out_w + grad_run.first;
    const auto load = [&](int stage) {
      const unsigned patch = patches + stage * params.stage_bytes;
      run.issue(params.vector, patch, in);
      grad_run.issue(params.grad_vector, patch + params.grad_at, grad_in);
      in += in_image, grad_in += out_image;
    };
    const auto compute = [&](int stage) {
      if (plane >= count) return;  // or too many warps
      unsigned from = patches + stage * params.stage_bytes + to_in,
               grads = patches + stage * params.stage_bytes + to_grad;
#pragma unroll 2
      for (int step = 0; step < params.steps; ++step) {
        add_products<T, S>(from, grads, params.pitch, params.grad_pitch, sum);
        from += kStep * S::kDown, grads += kStep;
      }
    };
    for_images(end - begin, params.stages, load, compute);
  }

  float* const sums = reinterpret_cast<float*>(shared);
  __syncthreads();
  add_diagonals<S>(sum, params.shift, sums + kWarps * kAll + warp * S::kLines * kLinePitch, sums + warp * kAll);
  __syncthreads();
  const auto total = [&](int i) {
    float total = 0;
    for (int u = 0; u < params.plane_warps; ++u) total += sums[(i / kAll * params.plane_warps + u) * kAll + i % kAll];
    return total;
  };
  const auto again = [&](int i) {
    const int64_t plane = channel + i / kAll;
    return tap_by_tap<T, S>(params, params.in + plane * params.in_h * params.in_w,
                            params.grad + plane * params.out_h * params.out_w, 1, i % kAll, 0, params.out_w, 0,
                            params.in_h);
  };
  write_sums(count * kAll, total, again, [&](int i, float sum) {
    params.result.write(blockIdx.y, int64_t(params.channels) * kAll, int64_t(channel) * kAll + i, sum);
  });
#endif
}

template <class T, class S>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  WgradMmaPlanesParams<T> params{};
  int64_t vector = row_vector<T>(problem.in, problem.x.in);
  while (round_up(problem.x.pad, vector) - problem.x.pad + 7 * S::kDown + S::kTaps > S::kGroups * kColumns) vector /= 2;
  set_images<S>(problem, vector, params);
  params.vector = int(vector), params.grad_vector = row_vector<T>(params.grad, problem.x.out),
  params.steps = int(ceil_div(problem.x.out, kColumns));
  const int64_t all_rows = patch_rows<S>(params);
  int64_t plane_warps = std::min<int64_t>(all_rows, kWarps);
  plane_warps = ceil_div(all_rows, ceil_div(all_rows, plane_warps));
  int64_t planes = plane_warps == all_rows ? std::min(kWarps / plane_warps, problem.channels) : 1;
  int64_t bytes;
  const auto plan_patch = [&] {  // returns its bytes
    set_patch<S>(plane_warps, params);
    params.grad_at = int(planes * params.rows * params.pitch * sizeof(T));
    bytes = params.grad_at + planes * params.grad_rows * params.grad_pitch * sizeof(T);
    return bytes;
  };
  while (plan_patch() > 48 << 10 && planes > 1) planes = (planes + 1) / 2;
  while (plan_patch() > 48 << 10 && plane_warps > 1) plane_warps = (plane_warps + 1) / 2;
  const int64_t channel_groups = ceil_div(problem.channels, planes), stage = bytes;
  params.plane_warps = int(plane_warps), params.planes = int(planes),
  params.bands = int(ceil_div(all_rows, plane_warps)), params.stage_bytes = int(stage);
  const int64_t most = max_images(problem, int64_t(params.bands) * params.steps);
  if (most == 0) fail_choice(Kernel::kWgradMmaPlanes);
  const BatchSplit split =
      split_batch(problem, sizeof(T), {channel_groups, kBlock, S::kDown == 1 ? 96 : 128, stage, 0, false, most});
  params.images_a_split = split.images, params.stages = split.stages;
  const auto shared_bytes = [&] { return std::max(params.stages * stage, sums_bytes<S>(kWarps, kWarps)); };
  while (params.stages > 1 && !allow_shared<wgrad_mma_planes<T, S>>(shared_bytes())) --params.stages;
  params.bytes = int(shared_bytes());
  const int64_t splits = ceil_div(problem.batch, params.images_a_split);
  const WgradPartialSums<T> partial(problem, splits);
  params.result = partial.result();
  launch_kernel<wgrad_mma_planes<T, S>>(Kernel::kWgradMmaPlanes, channel_groups, splits, kBlock, params.bytes, params,
                                        stream);
  partial.finish(problem, stream, true);
}

}  // namespace

void launch_wgrad_mma_planes(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_tile(Kernel::kWgradMmaPlanes, problem,
                [&](auto zero, auto tile) { launch<decltype(zero), decltype(tile)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
