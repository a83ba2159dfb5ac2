// depthwise_conv2d's wgrad for channels_last images and few outputs, with any taps, strides and dilations. Neighbouring
// threads take neighbouring channels. A thread holds the sums of one to three taps. The threads that share a channel
// take the outputs of the whole batch in turn, one by one. Where windows do not overlap, a walk along a row, as in
// wgrad_sliding, reads no less. A thread starts all its reads for four outputs before it waits for the first. The sums
// are added as those of wgrad_sliding (add_members.cuh).
#include <cmath>

#include "add_members.cuh"
#include "read_pixels.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 256;
constexpr int kAtOnce = 4;    // outputs whose gradients and pixels a thread reads at once
constexpr int kMostTaps = 3;  // of a thread

template <class T>
struct WgradPointsParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_h, in_w, channels, taps, down_y, down_x, pad_y, pad_x, dilation_y, dilation_x;
  uint32_t outputs, outputs_a_split;                                   // of all images
  Divider<uint32_t> out_w, out_h, taps_x, groups, chunk, width, sums;  // chunk: vectors of channels of a block
  int members, parts;  // threads with a channel in common; parts in which their sums are added
  bool cluster;        // the blocks of a grid's column are one
};

// Where the window of an output begins, in an image without padding, and the pixels before that in memory.
struct Window {
  int y, x;
  uint32_t pixel;
};
template <class T>
__device__ Window window_of(const WgradPointsParams<T>& params, uint32_t output) {
  uint32_t image = output;
  const int x = int(params.out_w.divmod(image)) * params.down_x, y = int(params.out_h.divmod(image)) * params.down_y;
  return {y, x, (image * params.in_h + y) * params.in_w + x};
}

// A tap: by how much its pixel lies behind its window.
struct Tap {
  int y, x;
};
template <class T>
__device__ Tap tap_of(const WgradPointsParams<T>& params, uint32_t tap) {
  const int x = int(params.taps_x.divmod(tap)) * params.dilation_x - params.pad_x;
  return {int(tap) * params.dilation_y - params.pad_y, x};
}

// One sum of a thread, in the order of the kernel: slow, and exact where there are infinities.
template <class T>
__device__ __noinline__ acc_t<T> sum_again(const WgradPointsParams<T>& params, uint32_t begin, uint32_t end,
                                           int channel, uint32_t number) {
  const Tap tap = tap_of(params, number);
  acc_t<T> sum = 0;
  for (uint32_t output = begin; output < end; output += params.members) {
    const Window window = window_of(params, output);
    if (unsigned(window.y + tap.y) < unsigned(params.in_h) && unsigned(window.x + tap.x) < unsigned(params.in_w))
      sum +=
          widen(params.grad[int64_t(output) * params.channels + channel]) *
          widen(params.in[int64_t(window.pixel + unsigned(tap.y) * params.in_w + tap.x) * params.channels + channel]);
  }
  return sum;
}

// Adds the products of a thread's outputs from `output` on, of which there are at most kAtOnce before `end`.
template <int kTaps, int kVector, class T, class A>
__device__ void add_outputs(const WgradPointsParams<T>& params, uint32_t output, uint32_t end, int channel,
                            const Tap (&taps)[kTaps], A (&sum)[kTaps][kVector]) {
  Access<T, kVector> grads[kAtOnce], pixels[kAtOnce][kTaps];
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k, output += params.members) {
    const Window window = window_of(params, output);
    const bool there = output < end;
    const auto element = [&](const T* base, uint32_t pixel) {
      const unsigned at = (pixel * unsigned(params.channels) + unsigned(channel)) * unsigned(sizeof(T));
      return *reinterpret_cast<const Access<T, kVector>*>(reinterpret_cast<const char*>(base) + at);
    };
    grads[k] = Access<T, kVector>{};
    if (there) grads[k] = element(params.grad, output);
#pragma unroll
    for (int j = 0; j < kTaps; ++j) {
      pixels[k][j] = Access<T, kVector>{};
      if (there && unsigned(window.y + taps[j].y) < unsigned(params.in_h) &&
          unsigned(window.x + taps[j].x) < unsigned(params.in_w))
        pixels[k][j] = element(params.in, window.pixel + unsigned(taps[j].y) * params.in_w + taps[j].x);
    }
  }
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k)
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[j][v] += widen(part<T>(grads[k], v)) * widen(part<T>(pixels[k][j], v));
}

// blockIdx.x: a group of taps and a chunk of channels; blockIdx.y: a split of the outputs.
template <class T, int kTaps, int kVector>
__global__ void __launch_bounds__(kBlock) wgrad_points(const __grid_constant__ WgradPointsParams<T> params) {
  using A = acc_t<T>;
  if (params.result.partial != nullptr) start_next_kernel();
  if (params.cluster) arrive_in_cluster();
  extern __shared__ __align__(kAccess) char shared[];
  A* const sums = reinterpret_cast<A*>(shared);
  uint32_t rest = blockIdx.x, member = threadIdx.x;
  const int first_tap = int(params.groups.divmod(rest)) * kTaps;
  const int first_channel = int(rest * params.chunk.divisor) * kVector;
  const int lane = int(params.chunk.divmod(member)), channel = first_channel + lane * kVector;
  const uint32_t begin = blockIdx.y * params.outputs_a_split + member,
                 end = min(params.outputs, (blockIdx.y + 1) * params.outputs_a_split);
  const bool busy = channel < params.channels && int(member) < params.members;
  Tap taps[kTaps];
#pragma unroll
  for (int j = 0; j < kTaps; ++j) taps[j] = tap_of(params, uint32_t(min(first_tap + j, params.taps - 1)));
  A sum[kTaps][kVector] = {};
  if (busy)
#pragma unroll 1
    for (uint32_t output = begin; output < end; output += params.members * kAtOnce)
      add_outputs(params, output, end, channel, taps, sum);
  const int width = int(params.width.divisor);
  if (int(member) < params.members)
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        A total = sum[j][v];
        if (busy && !isfinite(total) && first_tap + j < params.taps)
          total = sum_again(params, begin, end, channel + v, uint32_t(first_tap + j));
        sums[(j * params.members + int(member)) * width + lane * kVector + v] = total;
      }
  add_block<kTaps>(params, sums, [&](int i, int c, A total) {
    if (first_tap + i < params.taps && first_channel + c < params.channels)
      params.result.write(blockIdx.y, int64_t(params.channels) * params.taps,
                          int64_t(first_channel + c) * params.taps + first_tap + i, total);
  });
}

// How the work is divided: taps of a thread, vectors of channels of a block, and blocks that share a channel's outputs.
struct PointsPlan {
  int64_t taps, vectors, splits;
};

// The plan with the least time, in units of what memory makes a thread wait for kAtOnce outputs. Fitted to 6,757
// times of 363 problems on an H200, and fixed, so that results depend only on shapes and on whether the GPU has
// clusters.
PointsPlan plan_points(int64_t outputs, int64_t vectors, int64_t lanes, int64_t taps, bool clusters) {
  constexpr double kThreadsAtOnce = 132 * 512, kInstruction = 0.04, kWave = 2, kMember = 0.03, kSecondKernel = 4,
                   kCluster = 1.7, kLateBlock = 0.012;  // of a cluster: blocks beyond 112 wait for others
  PointsPlan best{};
  double least = 0;
  for (const int64_t a_thread : {1, 2, kMostTaps})
    for (const int64_t most_vectors : {8, 16, 32})
      for (const int64_t most_splits : {1, 4, 8, 32}) {
        const int64_t groups = ceil_div(taps, a_thread), chunks = ceil_div(vectors, most_vectors);
        if (3 * groups * a_thread > 4 * taps) continue;  // too many threads' taps are none
        const int64_t a_split = ceil_div(outputs, most_splits), splits = ceil_div(outputs, a_split),
                      chunk = ceil_div(vectors, chunks), members = std::min(kBlock / chunk, a_split);
        const double threads = double(round_up(members * chunk, kWarp)), blocks = double(groups * chunks * splits);
        const double waves = std::max(1.0, blocks * threads / kThreadsAtOnce);
        double time = double(ceil_div(a_split, members * kAtOnce)) *
                          (1 + kInstruction * double(12 + a_thread * (1 + lanes)) * waves) +
                      kWave * (waves - 1) +
                      kMember * double(members) * (1 + double(a_thread * chunk * lanes) / threads);
        if (splits > (clusters ? kMostInCluster : 1))
          time += kSecondKernel;
        else if (splits > 1)
          time += kCluster + kLateBlock * std::max(0.0, blocks - 112);
        if (least == 0 || time < least) least = time, best = {a_thread, most_vectors, most_splits};
      }
  return best;
}

template <class T, int kTaps, int kVector>
void launch(const WgradProblem& problem, const PointsPlan& plan, cudaStream_t stream) {
  const Axis &y = problem.y, &x = problem.x;
  const int64_t outputs = problem.batch * y.out * x.out, vectors = problem.channels / kVector,
                groups = ceil_div(problem.taps(), kTaps);
  const int64_t chunks = ceil_div(vectors, plan.vectors), chunk = ceil_div(vectors, chunks);
  const int64_t a_split = ceil_div(outputs, plan.splits), splits = ceil_div(outputs, a_split);
  WgradPointsParams<T> params{};
  params.in = static_cast<const T*>(problem.in), params.grad = static_cast<const T*>(problem.grad);
  params.in_h = int(y.in), params.in_w = int(x.in), params.channels = int(problem.channels);
  params.taps = int(problem.taps()), params.down_y = int(y.down), params.down_x = int(x.down);
  params.pad_y = int(y.pad), params.pad_x = int(x.pad);
  params.dilation_y = int(y.dilation), params.dilation_x = int(x.dilation);
  params.outputs = uint32_t(outputs), params.outputs_a_split = uint32_t(a_split);
  params.out_w = Divider<uint32_t>(x.out), params.out_h = Divider<uint32_t>(y.out);
  params.taps_x = Divider<uint32_t>(x.taps), params.groups = Divider<uint32_t>(groups);
  params.chunk = Divider<uint32_t>(chunk);
  params.members = int(std::min(kBlock / chunk, a_split));
  const int64_t width = chunk * kVector, block_sums = kTaps * width, threads = round_up(params.members * chunk, kWarp);
  params.width = Divider<uint32_t>(width), params.sums = Divider<uint32_t>(block_sums);
  params.parts = parts_of_members(params.members, threads, block_sums);
  params.cluster = splits > 1 && splits <= kMostInCluster && has_clusters(current_gpu());
  const WgradPartialSums<T> sums(problem, params.cluster ? 1 : splits);
  params.result = sums.result();
  const int64_t bytes = block_sums * (params.members + (params.cluster ? splits : 0)) * int64_t(sizeof(acc_t<T>));
  constexpr auto kernel = wgrad_points<T, kTaps, kVector>;
  (params.cluster ? launch_clusters<kernel, WgradPointsParams<T>>
                  : launch_kernel<kernel, WgradPointsParams<T>>)(Kernel::kWgradPoints, groups * chunks, splits, threads,
                                                                 bytes, params, stream);
  sums.finish(problem, stream, true);
}

template <class T, int kVector>
void launch_plan(const WgradProblem& problem, cudaStream_t stream) {
  const PointsPlan plan = plan_points(problem.batch * problem.y.out * problem.x.out, problem.channels / kVector,
                                      kVector, problem.taps(), has_clusters(current_gpu()));
  switch (plan.taps) {
    case 1: return launch<T, 1, kVector>(problem, plan, stream);
    case 2: return launch<T, 2, kVector>(problem, plan, stream);
    default: return launch<T, kMostTaps, kVector>(problem, plan, stream);
  }
}

}  // namespace

void launch_wgrad_points(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kWgradPoints, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    has_channel_vectors(problem, 2) ? launch_plan<T, 2>(problem, stream) : launch_plan<T, 1>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
