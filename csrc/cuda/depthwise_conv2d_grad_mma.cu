// The gradient of depthwise_conv2d's weight on tensor cores (depthwise_conv2d_grad_mma.cuh) for contiguous images: a
// warp has a plane of up to 16 rows, or as many rows of a larger one, and goes through the batch.
#include "depthwise_conv2d_grad_mma.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kWarps = 4, kBlock = kWarps * kWarp;

template <class T>
struct GradMmaPlanesOf : GradMmaOf<T> {
  int units, planes, bands, vector, grad_vector;
};

template <class T, class S>
__global__ void __launch_bounds__(kBlock, S::kDown == 1 ? 5 : 4)
    grad_multiply(const __grid_constant__ GradMmaPlanesOf<T> p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kAll = S::kTaps * S::kTaps, kStep = kColumns * int(sizeof(T));
  extern __shared__ __align__(kAccess) char shared[];
  const unsigned patches = shared_address(shared);
  const int warp = threadIdx.x / kWarp;
  const int channel = int(blockIdx.x) * p.planes, count = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  const int64_t in_image = int64_t(p.channels) * p.in_h * p.in_w, out_image = int64_t(p.channels) * p.out_h * p.out_w;
  const int plane = warp / p.units, unit = warp % p.units;

  const LanePlace<S> own;
  const unsigned to_in =
      ((plane * p.rows + unit * kRows * S::kDown + own.in_row) * p.pitch + own.in_column) * unsigned(sizeof(T));
  const unsigned to_grad =
      p.grad_at + (plane * p.grad_rows + unit * kRows + own.grad_row) * p.grad_pitch * unsigned(sizeof(T));
  float sum[S::kTaps][S::kDown][4] = {};
  for (int band = 0; band < p.bands; ++band) {
    const int first = band * p.units * kRows;
    __syncthreads();
    clear(shared, p.bytes);
    const auto place = [&] {
      return PlanesPlace(first * S::kDown - p.top, -p.left, p.rows, p.pitch, p.pitch, p.in_h, p.in_w, p.vector);
    };
    const auto grad_place = [&] {
      return PlanesPlace(first - p.grad_top, 0, p.grad_rows, p.grad_pitch, p.grad_pitch, p.out_h, p.out_w,
                         p.grad_vector);
    };
    const Run<kBlock, T, decltype(place)> run(place, count);
    const Run<kBlock, T, decltype(grad_place)> grad_run(grad_place, count);
    const T* in = p.in + int64_t(begin) * in_image + int64_t(channel) * p.in_h * p.in_w + run.first;
    const T* grad_in = p.grad + int64_t(begin) * out_image + int64_t(channel) * p.out_h * p.out_w + grad_run.first;
    const auto bring = [&](int stage) {
      const unsigned patch = patches + stage * p.stage_bytes;
      run.issue(p.vector, patch, in);
      grad_run.issue(p.grad_vector, patch + p.grad_at, grad_in);
      in += in_image, grad_in += out_image;
    };
    const auto compute = [&](int stage) {
      if (plane >= count) return;  // or too many warps
      unsigned from = patches + stage * p.stage_bytes + to_in, grads = patches + stage * p.stage_bytes + to_grad;
#pragma unroll 2
      for (int step = 0; step < p.steps; ++step) {
        add_products<T, S>(from, grads, p.pitch, p.grad_pitch, sum);
        from += kStep * S::kDown, grads += kStep;
      }
    };
    for_images(end - begin, p.stages, bring, compute);
  }

  float* const sums = reinterpret_cast<float*>(shared);
  __syncthreads();
  add_diagonals<S>(sum, p.shift, sums + kWarps * kAll + warp * S::kLines * kLinePitch, sums + warp * kAll);
  __syncthreads();
  const auto total = [&](int i) {
    float total = 0;
    for (int u = 0; u < p.units; ++u) total += sums[(i / kAll * p.units + u) * kAll + i % kAll];
    return total;
  };
  const auto again = [&](int i) {
    const int64_t plane = channel + i / kAll;
    return tap_by_tap<T, S>(p, p.in + plane * p.in_h * p.in_w, p.grad + plane * p.out_h * p.out_w, 1, i % kAll, 0,
                            p.out_w, 0, p.in_h);
  };
  write_sums(p.partial + (int64_t(blockIdx.y) * p.channels + channel) * kAll, count * kAll, total, again);
#endif
}

template <class T, class S>
bool launch_contiguous(const WeightGradient& p, cudaStream_t stream) {
  if (p.x.out > 4096 || p.y.in * p.x.in > kMost / kWarps || p.batch >= kMost || p.channels >= kMost) return false;
  GradMmaPlanesOf<T> q{};
  int64_t vector = row_vector<T>(p.in.data_ptr(), p.x.in);
  while (round_up(p.x.pad, vector) - p.x.pad + 7 * S::kDown + S::kTaps > S::kGroups * kColumns) vector /= 2;
  describe<S>(p, vector, q);
  q.vector = int(vector), q.grad_vector = row_vector<T>(q.grad, p.x.out), q.steps = int(ceil_div(p.x.out, kColumns));
  const int64_t all_rows = patch_rows<S>(q);
  int64_t units = std::min<int64_t>(all_rows, kWarps);
  units = ceil_div(all_rows, ceil_div(all_rows, units));
  int64_t planes = units == all_rows ? std::min(kWarps / units, p.channels) : 1;
  int64_t bytes;
  const auto too_large = [&] {
    set_patch<S>(units, q);
    q.grad_at = int(planes * q.rows * q.pitch * sizeof(T));
    bytes = q.grad_at + planes * q.grad_rows * q.grad_pitch * sizeof(T);
    return bytes > 48 << 10;
  };
  while (too_large() && planes > 1) planes = (planes + 1) / 2;
  while (too_large() && units > 1) units = (units + 1) / 2;
  const int64_t channel_groups = ceil_div(p.channels, planes), stage = bytes;
  q.units = int(units), q.planes = int(planes), q.bands = int(ceil_div(all_rows, units)), q.stage_bytes = int(stage);
  const int64_t most = most_images(p, int64_t(q.bands) * q.steps);
  if (most == 0) return false;
  const Split split =
      split_batch(p, sizeof(T), {channel_groups, kBlock, S::kDown == 1 ? 96 : 128, stage, 0, false, most});
  q.images_a_split = split.images, q.stages = split.stages;
  const auto fits = [&] {
    bytes = std::max(q.stages * stage, sums_bytes<S>(kWarps, kWarps));
    return allow_shared<grad_multiply<T, S>>(bytes);
  };
  while (!fits() && q.stages > 1) --q.stages;
  if (!fits()) return false;
  q.bytes = int(bytes);
  const int64_t splits = ceil_div(p.batch, q.images_a_split);
  const Tensor partial = partial_sums<T>(p, splits);
  q.partial = static_cast<float*>(partial.data_ptr());
  grad_multiply<T, S><<<dim3(unsigned(channel_groups), unsigned(splits)), kBlock, bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits, stream);
  return true;
}

}  // namespace

bool launch_mma_grad_weight(const WeightGradient& p, cudaStream_t stream) {
  if (p.channels_last) return launch_mma_grad_weight_channels_last(p, stream);
  return launch_for(p,
                    [&](auto zero, auto tile) { return launch_contiguous<decltype(zero), decltype(tile)>(p, stream); });
}

}  // namespace customops::cuda::depthwise
