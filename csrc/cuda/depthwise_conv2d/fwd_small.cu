// depthwise_conv2d, forward and dgrad, for batches of contiguous images up to 8 pixels wide and 16 high at stride 1,
// such as the last 7x7 of many networks, with up to 64 rows of taps. A lane computes a row of an image's outputs. It
// multiplies each pixel of a row with the tap for each output of it, zero where there is none: no index depends on the
// width of the kernel. Zeros times infinity are NaN: a row with a result that is not finite is computed again, tap by
// tap.
#include "small.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128;

template <class T>
struct FwdSmallParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_h, in_w, out_h, out_w, taps_h, taps_w, top, left, planes, channels, batch;
  int in_pitch, out_pitch, load_bytes, store_bytes, out_at, taps_at;  // a pitch: elements from image to image
  bool flipped;
};

// kWidth: of the images, or more.
template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock) fwd_small(const __grid_constant__ FwdSmallParams<T> params) {
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  T* const in = reinterpret_cast<T*>(shared);
  T* const out = reinterpret_cast<T*>(shared + params.out_at);
  A* const taps = reinterpret_cast<A*>(shared + params.taps_at);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = kBlock / kWarp;
  const int channel = int(blockIdx.x) * params.planes, planes = min(params.planes, params.channels - channel);
  const int first = int(blockIdx.y) * kImages, images = min(kImages, params.batch - first);
  const int in_plane = params.in_h * params.in_w, out_plane = params.out_h * params.out_w,
            all_taps = params.taps_h * params.taps_w;

  load_images(in, params.in_pitch, params.in + (int64_t(first) * params.channels + channel) * in_plane,
              int64_t(params.channels) * in_plane, images, planes * in_plane, params.load_bytes);
  commit_copies();
  // The tap by which pixel ix counts for output ox stands at ix - ox + kWidth - 1.
  for (int i = threadIdx.x; i < planes * params.taps_h * kTapPitch; i += kBlock) {
    const int row = i / kTapPitch, kx = i % kTapPitch - (kWidth - 1) + params.left;
    const int plane = row / params.taps_h, k = row % params.taps_h * params.taps_w + kx;
    const bool there = unsigned(kx) < unsigned(params.taps_w);
    taps[i] =
        there ? params.weight[int64_t(channel + plane) * all_taps + (params.flipped ? all_taps - 1 - k : k)] : A(0);
  }
  wait_copies(0);
  __syncthreads();

  for (int i = warp; i < planes * params.out_h; i += warps) {
    const int plane = i / params.out_h, oy = i % params.out_h;
    const int begin = max(0, oy - params.top), end = min(params.in_h, oy - params.top + params.taps_h);
    const T* const image = in + lane * params.in_pitch + plane * in_plane;
    const A* const tap_rows = taps + (plane * params.taps_h - oy + params.top) * kTapPitch;
    const A bias = params.bias ? params.bias[channel + plane] : A(0);
    A sum[kWidth];
#pragma unroll
    for (int x = 0; x < kWidth; ++x) sum[x] = bias;
    for (int y = begin; y < end; ++y) {
      using V = Vector<A, 4>;
      A tap[kTapPitch], pixel[kWidth];
#pragma unroll
      for (int j = 0; j < kTapPitch / 4; ++j) {
        const V four = reinterpret_cast<const V*>(tap_rows + y * kTapPitch)[j];
#pragma unroll
        for (int v = 0; v < 4; ++v) tap[j * 4 + v] = four.at[v];
      }
#pragma unroll
      for (int x = 0; x < kWidth; ++x) pixel[x] = x < params.in_w ? widen(image[y * params.in_w + x]) : A(0);
#pragma unroll
      for (int x = 0; x < kWidth; ++x)
#pragma unroll
        for (int o = 0; o < kWidth; ++o) sum[o] += tap[x - o + kWidth - 1] * pixel[x];
    }
    A finite = 0;
#pragma unroll
    for (int x = 0; x < kWidth; ++x)
      if (x < params.out_w) finite += sum[x] * A(0);
    T* const to = out + lane * params.out_pitch + plane * out_plane + oy * params.out_w;
    if (finite == A(0) || lane >= images) {
#pragma unroll
      for (int x = 0; x < kWidth; ++x)
        if (x < params.out_w) to[x] = narrow<T>(sum[x]);
    } else {
      for (int o = 0; o < params.out_w; ++o) {
        A total = bias;
        for (int y = begin; y < end; ++y)
          for (int x = max(0, o - params.left); x < min(params.in_w, o - params.left + params.taps_w); ++x)
            total += tap_rows[y * kTapPitch + x - o + kWidth - 1] * widen(image[y * params.in_w + x]);
        to[o] = narrow<T>(total);
      }
    }
  }
  __syncthreads();
  for (int n = warp; n < images; n += warps)
    store_run(params.out + (int64_t(first + n) * params.channels + channel) * out_plane, out + n * params.out_pitch,
              planes * out_plane, params.store_bytes, lane, kWarp);
}

template <class T, int kWidth>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const int64_t in_plane = problem.y.in * problem.x.in, out_plane = problem.y.out * problem.x.out;
  FwdSmallParams<T> params{};
  set_problem<T>(problem, params);
  params.taps_h = int(problem.y.taps), params.taps_w = int(problem.x.taps), params.top = int(problem.y.pad),
  params.left = int(problem.x.pad);
  int64_t bytes = 0;
  const int64_t shared = std::min(kSmallShared, current_gpu().shared_a_block);
  const auto plan_planes = [&](int64_t planes) {
    params.planes = int(planes);
    params.in_pitch = image_pitch<T>(planes * in_plane), params.out_pitch = image_pitch<T>(planes * out_plane);
    params.out_at = int(round_up(kImages * params.in_pitch * sizeof(T), kAccess));
    params.taps_at = params.out_at + int(round_up(kImages * params.out_pitch * sizeof(T), kAccess));
    bytes = params.taps_at + planes * problem.y.taps * kTapPitch * int64_t(sizeof(acc_t<T>));
  };
  plan_planes(small_channels(problem.channels, in_plane + out_plane));
  while (bytes > shared && params.planes > 1) plan_planes(std::max(params.planes / 4 * 2, 1));
  params.load_bytes = std::min(run_bytes<T>(problem.in, problem.channels * in_plane, params.planes * in_plane), 4);
  params.store_bytes = std::min(run_bytes<T>(problem.out, problem.channels * out_plane, params.planes * out_plane), 4);
  const int64_t groups = ceil_div(problem.channels, params.planes), batches = ceil_div(problem.batch, kImages);
  launch_kernel<fwd_small<T, kWidth>>(Kernel::kFwdSmall, groups, batches, kBlock, bytes, params, stream);
}

}  // namespace

void launch_fwd_small(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdSmall, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (std::max(problem.x.in, problem.x.out) < kMaxWidth)
      launch<T, kMaxWidth - 1>(problem, stream);
    else
      launch<T, kMaxWidth>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
