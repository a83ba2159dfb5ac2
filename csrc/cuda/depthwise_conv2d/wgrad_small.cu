// depthwise_conv2d's wgrad for batches of contiguous images and gradients exactly 7 or 8 pixels wide and up to 16 high
// at stride 1, with up to 64 rows of taps. A lane computes a row of the taps from its image: it multiplies each pixel
// of a row with each pixel of a row of the gradient. The lanes' sums are then added. A block goes through several times
// 32 images.
#include "small.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 256;

template <class T>
struct WgradSmallParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_h, out_h, taps_h, taps_w, top, left, planes, channels, batch, images_a_split;
  int in_pitch, grad_pitch, in_bytes, grad_bytes, grad_at, sums_at;
};

// Adds `values` numbers over the lanes of a warp. Each step halves the numbers of a lane: it gives one half to another
// lane and gets the other half of that lane's. With 16 numbers, lane l returns the sum of number l / 2.
template <int values, class A>
__device__ A add_lanes(const A (&x)[values]) {
  static_assert(values <= kWarp / 2 && (values & (values - 1)) == 0);
  if constexpr (values == 1) {
    return x[0] + __shfl_xor_sync(0xffffffffu, x[0], 1);
  } else {
    constexpr int kHalf = values / 2;
    const bool upper = threadIdx.x & values;
    A sum[kHalf];
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      const A mine = upper ? x[j + kHalf] : x[j], other = upper ? x[j] : x[j + kHalf];
      sum[j] = mine + __shfl_xor_sync(0xffffffffu, other, values);
    }
    return add_lanes(sum);
  }
}

// kWidth: the exact width of image and gradient: zeros beyond it could be multiplied by infinities.
template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock) wgrad_small(const __grid_constant__ WgradSmallParams<T> params) {
  using A = acc_t<T>;
  static_assert(2 * kWidth - 1 <= kTapPitch);
  if (params.result.partial != nullptr) start_next_kernel();
  extern __shared__ __align__(kAccess) char shared[];
  T* const in = reinterpret_cast<T*>(shared);
  T* const grad = reinterpret_cast<T*>(shared + params.grad_at);
  A* const sums =
      reinterpret_cast<A*>(shared + params.sums_at);  // (plane, ky, kTapPitch): the column ix - ox + kWidth - 1
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = kBlock / kWarp;
  const int channel = int(blockIdx.x) * params.planes, planes = min(params.planes, params.channels - channel);
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const int in_plane = params.in_h * kWidth, grad_plane = params.out_h * kWidth, rows = planes * params.taps_h;
  const int64_t in_image = int64_t(params.channels) * in_plane, grad_image = int64_t(params.channels) * grad_plane;
  clear(sums, rows * kTapPitch * int(sizeof(A)));
  for (int first = begin; first < end; first += kImages) {
    const int images = min(kImages, end - first);
    __syncthreads();
    load_images(in, params.in_pitch, params.in + first * in_image + int64_t(channel) * in_plane, in_image, images,
                planes * in_plane, params.in_bytes);
    load_images(grad, params.grad_pitch, params.grad + first * grad_image + int64_t(channel) * grad_plane, grad_image,
                images, planes * grad_plane, params.grad_bytes);
    commit_copies();
    wait_copies(0);
    __syncthreads();
    for (int i = warp; i < rows; i += warps) {
      const int plane = i / params.taps_h, ky = i % params.taps_h;
      const int y_begin = max(0, ky - params.top),
                y_end = lane < images ? min(params.in_h, params.out_h + ky - params.top) : 0;
      const T* const image = in + lane * params.in_pitch + plane * in_plane;
      const T* const gradient = grad + lane * params.grad_pitch + plane * grad_plane + (params.top - ky) * kWidth;
      A sum[kTapPitch] = {};
      for (int y = y_begin; y < y_end; ++y) {
        A pixel[kWidth], g[kWidth];
#pragma unroll
        for (int x = 0; x < kWidth; ++x)
          pixel[x] = widen(image[y * kWidth + x]), g[x] = widen(gradient[y * kWidth + x]);
#pragma unroll
        for (int x = 0; x < kWidth; ++x)
#pragma unroll
          for (int o = 0; o < kWidth; ++o) sum[x - o + kWidth - 1] += pixel[x] * g[o];
      }
      const A total = add_lanes(sum);
      if (lane % 2 == 0) sums[i * kTapPitch + lane / 2] += total;
    }
  }
  __syncthreads();
  const int64_t taps = int64_t(params.taps_h) * params.taps_w;
  for (int i = threadIdx.x; i < rows * params.taps_w; i += kBlock) {
    const int column = i % params.taps_w - params.left + kWidth - 1;
    params.result.write(blockIdx.y, params.channels * taps, channel * taps + i,
                        unsigned(column) < 2 * kWidth - 1 ? sums[i / params.taps_w * kTapPitch + column] : A(0));
  }
}

template <class T, int kWidth>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  const int64_t in_plane = problem.y.in * kWidth, grad_plane = problem.y.out * kWidth;
  WgradSmallParams<T> params{};
  params.in = static_cast<const T*>(problem.in), params.grad = static_cast<const T*>(problem.grad);
  params.in_h = int(problem.y.in), params.out_h = int(problem.y.out), params.taps_h = int(problem.y.taps),
  params.taps_w = int(problem.x.taps);
  params.top = int(problem.y.pad), params.left = int(problem.x.pad), params.channels = int(problem.channels),
  params.batch = int(problem.batch);
  int64_t bytes = 0;
  const int64_t shared = std::min(kSmallShared, current_gpu().shared_a_block);
  const auto measure = [&](int64_t planes) {
    params.planes = int(planes);
    params.in_pitch = image_pitch<T>(planes * in_plane), params.grad_pitch = image_pitch<T>(planes * grad_plane);
    params.grad_at = int(round_up(kImages * params.in_pitch * sizeof(T), kAccess));
    params.sums_at = params.grad_at + int(round_up(kImages * params.grad_pitch * sizeof(T), kAccess));
    bytes = params.sums_at + planes * problem.y.taps * kTapPitch * int64_t(sizeof(acc_t<T>));
  };
  measure(small_channels(problem.channels, in_plane + grad_plane));
  while (bytes > shared && params.planes > 1) measure(std::max(params.planes / 4 * 2, 1));
  params.in_bytes = std::min(run_bytes<T>(params.in, problem.channels * in_plane, params.planes * in_plane), 4);
  params.grad_bytes = std::min(run_bytes<T>(params.grad, problem.channels * grad_plane, params.planes * grad_plane), 4);
  const int64_t groups = ceil_div(problem.channels, params.planes);
  const int64_t wanted = std::clamp<int64_t>(kWantedBlocks / groups, 1, ceil_div(problem.batch, kImages));
  params.images_a_split = int(round_up(ceil_div(problem.batch, wanted), kImages));
  const int64_t splits = ceil_div(problem.batch, params.images_a_split);
  if (!allow_shared<wgrad_small<T, kWidth>>(bytes)) fail_choice(Kernel::kWgradSmall);
  const WgradPartialSums<T> partial(problem, splits);
  params.result = partial.result();
  wgrad_small<T, kWidth><<<dim3(unsigned(groups), unsigned(splits)), kBlock, bytes, stream>>>(params);
  partial.finish(problem, stream, true);
}

}  // namespace

void launch_wgrad_small(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kWgradSmall, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.x.in == kMaxWidth - 1)
      launch<T, kMaxWidth - 1>(problem, stream);
    else
      launch<T, kMaxWidth>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
