// depthwise_conv2d, forward and dgrad, of few taps over channels_last images, for any stride and dilation and channels
// that no vector divides. A block walks along a run of pixels, row after row. Which taps meet pixels there is the same
// for all of its threads, and for all channels of a thread: that is worked out once for them. The loads of several
// pixels are on their way at once.
#include "first_tap.cuh"
#include "read_pixels.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kAtOnce = 4;     // pixels whose loads are on their way
constexpr int kMostWarps = 4;  // of a block
constexpr int kLongest = 64;   // pixels that a block takes

template <class T>
struct ChannelsParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  TapAxis y, x;
  Divider<uint32_t> width, height, tiles;  // of the outputs; tiles: of the channels
  int channels, pixels, run;               // pixels: outputs of a channel, of which a block takes `run`
  bool flipped;
};

// Puts the taps of this thread's channels into shared memory, `threads` apart.
template <int kLanes, int kChunks, class T, class A>
__device__ void load_taps(const ChannelsParams<T>& params, int channel, int chunks, int threads, int count, A* taps) {
  params.weight.visit([&](const auto& element) {
#pragma unroll
    for (int j = 0; j < kChunks; ++j)
      if (j < chunks)
#pragma unroll
        for (int v = 0; v < kLanes; ++v) {
          const int64_t first = int64_t(channel + j * threads * kLanes + v) * count;
#pragma unroll 4
          for (int tap = 0; tap < count; ++tap)
            taps[((tap * kChunks + j) * kLanes + v) * threads] =
                widen(element(first + (params.flipped ? count - 1 - tap : tap)));
        }
  });
}

// kLanes: neighbouring channels of a thread; kChunks: such groups, one a block's threads apart from the next.
template <class T, int kLanes, int kChunks, bool up>
__global__ void __launch_bounds__(kMostWarps* kWarp) fwd_channels(const __grid_constant__ ChannelsParams<T> params) {
  using A = acc_t<T>;
  using Pixel = Access<T, kLanes>;
  extern __shared__ __align__(kAccess) char shared[];
  __shared__ FirstTap columns[up ? kLongest : 1];  // of the block's pixels
  const TapAxis &y_axis = params.y, &x_axis = params.x;
  uint32_t block = blockIdx.x;
  const int tile = int(params.tiles.divmod(block)), threads = int(blockDim.x), chunk = threads * kLanes;
  const int channel = tile * kChunks * chunk + int(threadIdx.x) * kLanes, count = y_axis.taps * x_axis.taps;
  const int chunks = max(0, (params.channels - channel + chunk - 1) / chunk);
  A* const taps = reinterpret_cast<A*>(shared) + threadIdx.x;
  load_taps<kLanes, kChunks>(params, channel, chunks, threads, count, taps);
  const int first = int(block) * params.run;
  if constexpr (up) {
    for (int p = int(threadIdx.x); p < params.run; p += threads) {
      uint32_t rows = uint32_t(first + p);
      columns[p] = first_tap<up>(x_axis, params.width.divmod(rows));
    }
    __syncthreads();
  }
  uint32_t image = uint32_t(first);
  int x = int(params.width.divmod(image)), y = int(params.height.divmod(image));
  const int width = int(params.width.divisor), height = int(params.height.divisor), row = x_axis.in * params.channels;
  const int step_y = up ? int(y_axis.tap_step.divisor) : 1, step_x = up ? int(x_axis.tap_step.divisor) : 1;
  const int hop_y = up ? y_axis.pixel_step : y_axis.dilation, hop_x = up ? x_axis.pixel_step : x_axis.dilation;
  const T* in = params.in + int64_t(image) * y_axis.in * row + channel;
  T* out = params.out + int64_t(first) * params.channels + channel;
  FirstTap first_y = first_tap<up>(y_axis, uint32_t(y));
  const int run = min(params.run, params.pixels - first);
#pragma unroll 1
  for (int done = 0; done < run;) {
    const int pixels = min(min(kAtOnce, run - done), width - x);
    FirstTap first_x[kAtOnce];
    A sum[kAtOnce][kChunks][kLanes];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      if constexpr (up)
        first_x[p] = columns[min(done + p, kLongest - 1)];
      else
        first_x[p] = first_tap<up>(x_axis, uint32_t(x + p));
      if (p >= pixels) first_x[p].tap = x_axis.taps;  // none
#pragma unroll
      for (int j = 0; j < kChunks; ++j)
#pragma unroll
        for (int v = 0; v < kLanes; ++v)
          sum[p][j][v] = params.bias && j < chunks ? params.bias.select(channel + j * chunk + v) : A(0);
    }
    int pixel_y = first_y.pixel;
#pragma unroll 1
    for (int ky = first_y.tap; ky < y_axis.taps; ky += step_y, pixel_y += hop_y) {
      if (unsigned(pixel_y) >= unsigned(y_axis.in)) continue;
      const T* const line = in + pixel_y * row;
#pragma unroll 1
      for (int kx = 0, shift = 0; kx < x_axis.taps; kx += step_x, shift += hop_x) {
        Pixel value[kAtOnce][kChunks];
        bool inside[kAtOnce];
#pragma unroll
        for (int p = 0; p < kAtOnce; ++p) {
          const int pixel_x = first_x[p].pixel + shift;
          inside[p] = first_x[p].tap + kx < x_axis.taps && unsigned(pixel_x) < unsigned(x_axis.in);
          if (inside[p])
#pragma unroll
            for (int j = 0; j < kChunks; ++j)
              if (j < chunks)
                value[p][j] = *reinterpret_cast<const Pixel*>(line + pixel_x * params.channels + j * chunk);
        }
#pragma unroll
        for (int p = 0; p < kAtOnce; ++p)
          if (inside[p]) {
            const A* const tap = taps + (ky * x_axis.taps + first_x[p].tap + kx) * kChunks * chunk;
#pragma unroll
            for (int j = 0; j < kChunks; ++j)
#pragma unroll
              for (int v = 0; v < kLanes; ++v)
                sum[p][j][v] += tap[(j * kLanes + v) * threads] * widen(part<T>(value[p][j], v));
          }
      }
    }
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p)
      if (p < pixels)
#pragma unroll
        for (int j = 0; j < kChunks; ++j)
          if (j < chunks) {
            Vector<T, kLanes> result;
#pragma unroll
            for (int v = 0; v < kLanes; ++v) result.at[v] = narrow<T>(sum[p][j][v]);
            *reinterpret_cast<Vector<T, kLanes>*>(out + p * params.channels + j * chunk) = result;
          }
    done += pixels, x += pixels, out += pixels * params.channels;
    if (x < width) continue;
    x = 0;
    if (++y == height) y = 0, in += int64_t(y_axis.in) * row;
    first_y = first_tap<up>(y_axis, uint32_t(y));
  }
}

template <class T, int kLanes, int kChunks>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  constexpr int64_t kWarpsAMultiprocessor = 48, kShortest = 4;
  const int64_t warps = ceil_div(problem.channels, kLanes * kChunks * kWarp), tiles = ceil_div(warps, kMostWarps);
  const int64_t pixels = problem.batch * problem.y.out * problem.x.out, threads = ceil_div(warps, tiles) * kWarp;
  const int64_t wanted = current_gpu().multiprocessors * kWarpsAMultiprocessor;
  const int64_t run = std::clamp<int64_t>(pixels * warps / wanted, kShortest, kLongest);
  const ChannelsParams<T> params{weight_of<T>(problem),
                                 bias_of<T>(problem),
                                 static_cast<const T*>(problem.in),
                                 static_cast<T*>(problem.out),
                                 TapAxis(problem.y),
                                 TapAxis(problem.x),
                                 Divider<uint32_t>(problem.x.out),
                                 Divider<uint32_t>(problem.y.out),
                                 Divider<uint32_t>(tiles),
                                 int(problem.channels),
                                 int(pixels),
                                 int(run),
                                 problem.flipped};
  const auto bytes = size_t(problem.taps() * threads * kLanes * kChunks * int64_t(sizeof(acc_t<T>)));
  const auto grid = unsigned(tiles * ceil_div(pixels, run)), block = unsigned(threads);
  problem.y.up > 1 || problem.x.up > 1
      ? fwd_channels<T, kLanes, kChunks, true><<<grid, block, bytes, stream>>>(params)
      : fwd_channels<T, kLanes, kChunks, false><<<grid, block, bytes, stream>>>(params);
}

// Several chunks share the work of finding pixels and taps: worth it where they leave less than 3 of 8 channels empty.
template <class T, int kLanes>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  constexpr int64_t kChunks = 4, kVector = kLanes * kWarp;
  constexpr int64_t kShared = (48 << 10) - kLongest * int64_t(sizeof(FirstTap));  // the rest is `columns`
  const int64_t one = round_up(problem.channels, kVector), several = round_up(problem.channels, kChunks * kVector);
  const int64_t bytes = problem.taps() * kMostWarps * kChunks * kVector * int64_t(sizeof(acc_t<T>));
  const bool fills = 8 * one >= 5 * several;
  if (fills && bytes <= kShared) return launch<T, kLanes, kChunks>(problem, stream);
  launch<T, kLanes, 1>(problem, stream);
}

}  // namespace

void launch_fwd_channels(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2)
      if (has_channel_vectors(problem, 2)) return launch<T, 2>(problem, stream);
    launch<T, 1>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
