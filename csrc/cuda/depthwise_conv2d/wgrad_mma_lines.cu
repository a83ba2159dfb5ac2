// depthwise_conv2d's wgrad on tensor cores for contiguous float16 and bfloat16 images and taps in one line, stride 1.
//
// Eight pixels of the gradient beside each other meet 16 or more of the image: the products of both are a matrix whose
// diagonals belong to the taps, and it is the sum of such products all over the batch. One column of taps: eight rows
// of the gradient meet rows of the image, summed over columns. One row: all rows are one run of groups of eight pixels,
// with zeros between the rows, and the products are summed over the groups. An image's pixels beyond its group are
// those of the next groups.
//
// Zeros times infinity are NaN: where a sum is not finite, it is computed again, without what lies outside the images.
#include "copy_rows.cuh"
#include "wgrad_mma.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kSixteen = 16;

template <class T>
struct LineParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_h, in_w, out_h, out_w, channels, batch, pad_h, pad_w;
  int taps, first, met, left, shift;                     // along the line; met: those that meet a pixel
  int planes, images, bands, band_rows, images_a_split;  // of a stage; bands of an image, each for blocks of its own
  int rows, outer, inner, outer_step, inner_step;        // steps of a plane, how far apart they lie in shared memory
  int stages, grad_at, stage_bytes, plane_bytes, grad_plane_bytes, bytes;
  RowSteps in_steps, grad_steps;
};

// The sum of a tap over some images and rows of the gradient, by a warp.
template <class T>
__device__ float exact_sum(const LineParams<T>& params, int64_t channel, int ky, int kx, int y0, int y1, int begin,
                           int end) {
  const int down = ky - params.pad_h, across = kx - params.pad_w;
  const int first = max(y0, -down), rows = min(min(y1, params.out_h), params.in_h - down) - first;
  float total = 0;
  for (int n = begin; n < end; ++n) {
    const int64_t plane = int64_t(n) * params.channels + channel;
    const T* const in = params.in + plane * params.in_h * params.in_w;
    const T* const grad = params.grad + plane * params.out_h * params.out_w;
    for (int o = threadIdx.x % kWarp; o < rows * params.out_w; o += kWarp) {
      const int y = first + o / params.out_w, x = o % params.out_w, ix = x + across;
      if (ix >= 0 && ix < params.in_w)
        total += widen(grad[y * params.out_w + x]) * widen(in[(y + down) * params.in_w + ix]);
    }
    if (__any_sync(0xffffffff, isnan(total))) return NAN;  // and stays it
  }
  for (int other = kWarp / 2; other > 0; other /= 2) total += __shfl_xor_sync(0xffffffff, total, other);
  return total;
}

// kWide: a row of taps. Pixels of the image that meet eight of the gradient: 16 * kGroups.
template <class T, int kGroups, bool kWide>
__global__ void __launch_bounds__(kBlock, kGroups < 8 ? 6 : 4)
    wgrad_mma_lines(const __grid_constant__ LineParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kPixels = kGroups * kSixteen, kPitch = kColumns + 1, kSums = kPixels * kPitch;
  if (params.result.partial != nullptr) start_next_kernel();
  extern __shared__ __align__(kAccess) char shared[];
  const int channel = int(blockIdx.x) * params.planes, count = min(params.planes, params.channels - channel);
  const int begin = int(blockIdx.y) / params.bands * params.images_a_split,
            end = min(params.batch, begin + params.images_a_split);
  const int y0 = int(blockIdx.y) % params.bands * params.band_rows, in_y = y0 - params.pad_h, in_lo = max(in_y, 0);
  const int in_rows = min(in_y + params.rows, params.in_h) - in_lo, rows = min(params.band_rows, params.out_h - y0);
  clear(shared, params.bytes);

  const RowSteps &in_steps = params.in_steps, &grad_steps = params.grad_steps;
  const RowStart in_start(in_steps), grad_start(grad_steps);
  int next = begin;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int plane_warps = kWarps / params.planes, plane = warp / plane_warps;
  const auto load = [&](int stage) {  // the warps of a plane load it
    if (plane >= count) return;
    char* const patch = shared + stage * params.stage_bytes;
    for (int n = next, slot = plane; n < min(next + params.images, end); ++n, slot += params.planes) {
      const int64_t at = int64_t(n) * params.channels + channel + plane;
      copy_rows(in_steps, in_start, in_rows,
                reinterpret_cast<T*>(patch + slot * params.plane_bytes) + (in_lo - in_y) * in_steps.pitch + params.left,
                params.in + (at * params.in_h + in_lo) * params.in_w);
      copy_rows(grad_steps, grad_start, rows,
                reinterpret_cast<T*>(patch + params.grad_at + slot * params.grad_plane_bytes),
                params.grad + (at * params.out_h + y0) * params.out_w);
    }
    next += params.images;
  };

  // The matrices' rows, in bytes: groups of eight pixels, or rows of the image.
  const int eighth = lane % 8, second = lane / 8 % 2, half = lane / 16;
  const int from_in = kWide ? (eighth + second + half * 8) * kAccess
                            : (eighth + second * 8) * in_steps.pitch * int(sizeof(T)) + half * kAccess;
  const int from_grad =
      kWide ? (eighth + second * 8) * kAccess : eighth * grad_steps.pitch * int(sizeof(T)) + second * kAccess;
  const int group_step = kWide ? 2 * kAccess : kSixteen * in_steps.pitch * int(sizeof(T));
  const unsigned patches = shared_address(shared);
  float sum[kGroups][4] = {};
  int image = begin;
  const auto compute = [&](int stage) {
    const int images = min(params.images, end - image);
    image += params.images;
    if (plane >= count) return;
    for (int slot = plane; slot < images * params.planes; slot += params.planes)
#pragma unroll 2
      for (int outer = warp % plane_warps; outer < params.outer; outer += plane_warps) {
        const unsigned at = patches + stage * params.stage_bytes + outer * params.outer_step;
        unsigned in = at + slot * params.plane_bytes + from_in,
                 grad = at + params.grad_at + slot * params.grad_plane_bytes + from_grad;
        for (int step = 0; step < (kWide ? 1 : params.inner); ++step) {
          uint32_t a[kGroups][4], b[2];
          load_matrices<kWide>(b, grad);
#pragma unroll
          for (int g = 0; g < kGroups; ++g) load_matrices<kWide>(a[g], in + g * group_step);
#pragma unroll
          for (int g = 0; g < kGroups; ++g) multiply_16<T>(sum[g], a[g], b);
          in += kSixteen * int(sizeof(T)), grad += kSixteen * int(sizeof(T));
        }
      }
  };
  for_images((end - begin + params.images - 1) / params.images, params.stages, load, compute);

  __syncthreads();
  float* const sums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      sums[warp * kSums + (g * kSixteen + k / 2 * 8 + lane / 4) * kPitch + lane % 4 * 2 + k % 2] = sum[g][k];
  __syncthreads();
  const auto total = [&](int i) {
    const int k = i % params.taps - params.first;
    if (k < 0 || k >= params.met) return 0.0f;
    float total = 0;
    for (int u = 0; u < plane_warps; ++u) {
      const float* const from = sums + (i / params.taps * plane_warps + u) * kSums + (k + params.shift) * kPitch;
#pragma unroll
      for (int x = 0; x < kColumns; ++x) total += from[x * (kPitch + 1)];
    }
    return total;
  };
  const auto again = [&](int i) {
    const int k = i % params.taps - params.first;
    return exact_sum(params, channel + i / params.taps, kWide ? 0 : k, kWide ? k : 0, y0, y0 + params.band_rows, begin,
                     end);
  };
  write_sums(count * params.taps, total, again, [&](int i, float sum) {
    params.result.write(blockIdx.y, int64_t(params.channels) * params.taps, int64_t(channel) * params.taps + i, sum);
  });
#endif
}

template <class T, int kGroups, bool kWide>
void launch(const WgradProblem& problem, LineParams<T>& params, cudaStream_t stream) {
  constexpr auto kernel = wgrad_mma_lines<T, kGroups, kWide>;
  const int64_t steps = ceil_div(problem.x.out, kSixteen), reach = problem.x.out + params.met + params.shift - 1;
  const int64_t wide =
      kWide ? std::max(problem.x.in + params.left, reach - params.left) : std::max(problem.x.in, steps * kSixteen);
  const int64_t pitch = kWide ? round_up(wide, 8) : (ceil_div(wide, 8) | 1) * 8;  // no two rows in one bank
  const auto plan = [&](int64_t bands, int64_t planes, int64_t images) {          // returns a stage's bytes
    params.planes = int(planes), params.images = int(images);
    params.band_rows = int(ceil_div(problem.y.out, bands));
    if (!kWide) params.band_rows = int(round_up(params.band_rows, 8));
    params.bands = int(ceil_div(problem.y.out, params.band_rows));
    params.rows = kWide ? params.band_rows : params.band_rows + params.met - 1;
    params.outer = int(ceil_div(kWide ? params.band_rows * pitch : params.band_rows, kWide ? 8 * kSixteen : 8));
    params.inner = int(steps);
    params.outer_step = int(kWide ? 8 * kSixteen : 8 * pitch) * int(sizeof(T));
    // As far as matrices reach.
    const int64_t elements =
        kWide ? params.outer * 8 * kSixteen + 2 * 8 * kGroups : (params.outer * 8 - 8 + kSixteen * kGroups) * pitch;
    params.plane_bytes = int(elements * sizeof(T));
    params.grad_plane_bytes = params.outer * params.outer_step;
    params.grad_at = int(planes * images) * params.plane_bytes;
    params.stage_bytes = params.grad_at + int(planes * images) * params.grad_plane_bytes;
    return params.stage_bytes;
  };
  const auto shared_bytes = [&] {
    return std::max<int64_t>(params.stages * params.stage_bytes,
                             round_up(kWarps * kSixteen * kGroups * (kColumns + 1) * sizeof(float), kAccess));
  };
  int64_t bands = 1, planes = 1, images = 1;
  while (plan(bands, 1, 1) > 24 << 10 && params.band_rows > (kWide ? 1 : 16)) ++bands;
  const int64_t all = problem.batch * problem.channels * params.bands;
  while (planes < kWarps && params.outer <= 8 && planes * 2 <= problem.channels && all >= 1024 * planes &&
         plan(bands, planes * 2, 1) <= 24 << 10)
    planes *= 2;
  while (images * 2 <= problem.batch && all >= 800 * planes * images && plan(bands, planes, images * 2) <= 16 << 10)
    images *= 2;
  plan(bands, planes, images);
  params.in_steps = {problem.x.in, params.in_steps.vector, pitch, kBlock / planes};
  params.grad_steps = {problem.x.out, run_bytes<T>(params.grad, problem.x.out, 0) / int(sizeof(T)), pitch,
                       kBlock / planes};
  const int64_t blocks = ceil_div(problem.channels, planes), items = ceil_div(problem.batch, images);
  const int64_t item_steps = images * ceil_div(params.outer, kWarps / planes) * (kWide ? 1 : params.inner);
  const int64_t bytes =
      (problem.y.in * problem.x.in + problem.y.out * problem.x.out) * problem.channels * int64_t(sizeof(T)) * images;
  const BatchSplit split = split_batch(
      items,
      {blocks * params.bands, kBlock, 64, params.stage_bytes, 0, false, std::max<int64_t>(kMaxSteps / item_steps, 1)},
      std::max(bytes, kLeastBytes * blocks * params.bands), kH200, 130e3);
  params.images_a_split = split.images * params.images, params.stages = split.stages;
  while (params.stages > 1 && !allow_shared<kernel>(shared_bytes())) --params.stages;
  params.bytes = int(shared_bytes());
  const int64_t splits = ceil_div(problem.batch, params.images_a_split) * params.bands;
  const WgradPartialSums<T> partial(problem, splits);
  params.result = partial.result();
  launch_kernel<kernel>(Kernel::kWgradMmaLines, blocks, splits, kBlock, params.bytes, params, stream);
  partial.finish(problem, stream, true);
}

template <class T, bool kWide>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  LineParams<T> params{};
  set_problem<T>(problem, params);
  params.pad_h = int(problem.y.pad), params.pad_w = int(problem.x.pad);
  const Axis& axis = kWide ? problem.x : problem.y;
  params.taps = int(axis.taps),
  params.first = int(std::min(std::max<int64_t>(0, axis.pad - axis.out + 1), axis.taps - 1));
  params.met = int(std::max<int64_t>(1, std::min(axis.taps, axis.in + axis.pad) - params.first));
  (kWide ? params.pad_w : params.pad_h) -= params.first;
  int64_t vector = run_bytes<T>(params.in, problem.x.in, 0) / int64_t(sizeof(T));
  const auto groups = [&](int64_t vector) {
    return ceil_div(7 + params.met + (kWide ? round_up(params.pad_w, vector) - params.pad_w : 0), kSixteen);
  };
  // Images start at a multiple of a vector, where that takes no more matrices.
  while (vector > 2 && groups(vector) > groups(2)) vector /= 2;
  params.in_steps.vector = int(vector);
  if (kWide) params.left = int(round_up(params.pad_w, vector)), params.shift = params.left - params.pad_w;
  const int64_t wanted = groups(vector);
  if (wanted <= 2) return launch<T, 2, kWide>(problem, params, stream);
  if (wanted <= 3) return launch<T, 3, kWide>(problem, params, stream);
  if (wanted <= 5) return launch<T, 5, kWide>(problem, params, stream);
  launch<T, 8, kWide>(problem, params, stream);
}

}  // namespace

void launch_wgrad_mma_lines(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_16_bit(Kernel::kWgradMmaLines, problem.dtype, [&](auto zero) {
    if (problem.y.taps == 1) return launch<decltype(zero), true>(problem, stream);
    launch<decltype(zero), false>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
