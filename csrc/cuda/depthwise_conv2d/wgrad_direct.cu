// depthwise_conv2d's wgrad for channels_last images: 3x3 and 5x5 taps, above all where wgrad_pixels does not apply,
// because the channels are not a multiple of a thread's channels there or the images are not aligned, and 3x3 taps at a
// dilation, where pixels a dilation apart are an image of their own. As in fwd_direct.cu, threads read straight from
// memory. Each thread goes through tiles of the gradient; the threads of a block add their sums in shared memory.
#include "read_pixels.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

// Of an H200; fixed, so that results depend on shapes and addresses alone.
constexpr int64_t kThreadsAtOnce = 132 * 512;

template <class T>
struct WgradDirectParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_w, in_h, out_w, out_h, channels, left, top, members, tiles, tiles_a_split;
  Divider<uint32_t> chunk, tiles_x, tiles_y;  // chunk: vectors of channels that a block takes
  int dilation_x, dilation_y;
  Divider<uint32_t> phases_x, phases_y;  // of the dilation
};

// A thread's kX by kY pixels of the gradient, and the rows of the image that it reads ahead: with many rows the fastest
// of eight on an H200. At stride 2 reading three rows ahead took 0.87 to 0.89 of the time over large images.
constexpr int kManyRows = 7, kFewRows = 4;

template <class R, int rows>
struct WgradDirectTile {
  static constexpr int kX = R::kTaps == 5 && R::kDown == 1 ? 4 : 2, kY = rows,
                       kAhead = R::kTaps == 3 && R::kDown == 2 && rows == kManyRows ? 3 : 1;
};

// A block's threads: as many as have room for their sums in 48 KB of shared memory.
template <class R, int kLanes>
constexpr int kBlock = R::kTaps * R::kTaps * kLanes * 256 * 4 <= 48 << 10 ? 256 : 128;

template <class T, class R, int kLanes, int rows, bool kDilated>
__global__ void __launch_bounds__(kBlock<R, kLanes>, 512 / kBlock<R, kLanes>)
    wgrad_direct(const __grid_constant__ WgradDirectParams<T> params) {
  using S = WgradDirectTile<R, rows>;
  using A = acc_t<T>;
  constexpr int kTaps = R::kTaps * R::kTaps, kRows = R::span(S::kY);
  if (params.result.partial != nullptr) start_next_kernel();
  __shared__ A sums[kBlock<R, kLanes> * kTaps * kLanes];
  uint32_t rest = threadIdx.x;
  const int vector = int(params.chunk.divmod(rest)) * kLanes, member = int(rest);
  const int first_channel = int(blockIdx.x * params.chunk.divisor) * kLanes, channel = first_channel + vector;
  const int begin = int(blockIdx.y) * params.tiles_a_split, end = min(params.tiles, begin + params.tiles_a_split);
  const bool busy = member < params.members && channel < params.channels;
  const int row_step = params.in_w * params.channels, grad_step = params.out_w * params.channels;
  // Of the whole image, or of the pixels a dilation apart. Written so that without dilation nothing is computed.
  const auto either = [](int whole, int interleaved) { return kDilated ? interleaved : whole; };
  A sum[kTaps][kLanes] = {};
#pragma unroll 1
  for (int t = busy ? begin + member : end; t < end; t += params.members) {
    uint32_t image = t;
    const int ox = int(params.tiles_x.divmod(image)) * S::kX, oy = int(params.tiles_y.divmod(image)) * S::kY;
    Interleaved view_x, view_y;
    if constexpr (kDilated) {
      const int phase_x = int(params.phases_x.divmod(image)), phase_y = int(params.phases_y.divmod(image));
      view_x = Interleaved(params.in_w, params.out_w, params.left, params.dilation_x, phase_x);
      view_y = Interleaved(params.in_h, params.out_h, params.top, params.dilation_y, phase_y);
    }
    const int y0 = oy * R::kDown - either(params.top, view_y.before),
              x0 = ox * R::kDown - either(params.left, view_x.before);
    const T* in = params.in + int64_t(image) * params.in_h * row_step + channel;
    const T* grads = params.grad + int64_t(image) * params.out_h * grad_step + channel;
    if constexpr (kDilated) {
      in += view_y.first * row_step + view_x.first * params.channels;
      grads += view_y.phase * grad_step + view_x.phase * params.channels;
    }
    Access<T, kLanes> packed[S::kY][S::kX], rows[S::kAhead + 1][R::span(S::kX)];
#pragma unroll
    for (int y = 0; y < S::kY; ++y)
      read_pixels(packed[y], grads, oy + y, ox, either(params.out_h, view_y.out), either(params.out_w, view_x.out),
                  either(params.channels, params.channels * params.dilation_x),
                  either(grad_step, grad_step * params.dilation_y));
    A grad[S::kY][S::kX][kLanes];
#pragma unroll
    for (int y = 0; y < S::kY; ++y) widen_pixels<T>(packed[y], grad[y]);
#pragma unroll
    for (int coming = 0; coming < kRows + S::kAhead; ++coming) {
      if (coming < kRows)
        read_pixels(rows[coming % (S::kAhead + 1)], in, y0 + coming, x0, either(params.in_h, view_y.in),
                    either(params.in_w, view_x.in), either(params.channels, params.channels * params.dilation_x),
                    either(row_step, row_step * params.dilation_y));
      const int i = coming - S::kAhead;
      if (i < 0) continue;
      A row[R::span(S::kX)][kLanes];
      widen_pixels<T>(rows[i % (S::kAhead + 1)], row);
      add_taps<R>(i, grad, row, 0, sum);
    }
  }
  const int columns = int(params.chunk.divisor) * kLanes * kTaps;
  if (member < params.members)
#pragma unroll
    for (int v = 0; v < kLanes; ++v)
#pragma unroll
      for (int k = 0; k < kTaps; ++k) sums[member * columns + (vector + v) * kTaps + k] = sum[k][v];
  __syncthreads();
  const int block_sums = min(int(params.chunk.divisor) * kLanes, params.channels - first_channel) * kTaps;
  for (int i = threadIdx.x; i < block_sums; i += blockDim.x) {
    A total = 0;
#pragma unroll 4
    for (int m = 0; m < params.members; ++m) total += sums[m * columns + i];
    params.result.write(blockIdx.y, int64_t(params.channels) * kTaps, int64_t(first_channel) * kTaps + i, total);
  }
}

template <class T, class R, int kLanes, int rows, bool kDilated = false>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  using S = WgradDirectTile<R, rows>;
  const int64_t phases_x = kDilated ? problem.x.dilation : 1, phases_y = kDilated ? problem.y.dilation : 1;
  const int64_t tiles_x = ceil_div(ceil_div(problem.x.out, phases_x), S::kX),
                tiles_y = ceil_div(ceil_div(problem.y.out, phases_y), S::kY);
  const int64_t vectors = problem.channels / kLanes, tiles = problem.batch * tiles_x * tiles_y * phases_x * phases_y;
  // Vectors of channels of a block: 64 channels, or fewer where every tile then has a thread of one block and no second
  // kernel is needed, but whole sectors of memory.
  int64_t most_vectors = 64 / kLanes;
  const auto one_split = [&] { return tiles <= kBlock<R, kLanes> / most_vectors; };
  while (!one_split() && most_vectors * kLanes * int64_t(sizeof(T)) > kSector) most_vectors /= 2;
  if (!one_split()) most_vectors = 64 / kLanes;
  const int64_t chunks = ceil_div(vectors, most_vectors), chunk = ceil_div(vectors, chunks),
                members = kBlock<R, kLanes> / chunk;
  const int64_t splits = std::clamp<int64_t>(kThreadsAtOnce / kBlock<R, kLanes> / chunks, 1, ceil_div(tiles, members));
  WgradDirectParams<T> params{};
  params.tiles_a_split = int(ceil_div(tiles, splits));
  const int64_t used_splits = ceil_div(tiles, params.tiles_a_split);
  const WgradPartialSums<T> sums(problem, used_splits);
  params.in = static_cast<const T*>(problem.in), params.grad = static_cast<const T*>(problem.grad);
  params.result = sums.result();
  params.in_w = int(problem.x.in), params.in_h = int(problem.y.in), params.out_w = int(problem.x.out),
  params.out_h = int(problem.y.out);
  params.channels = int(problem.channels), params.left = int(problem.x.pad), params.top = int(problem.y.pad);
  params.members = int(members), params.tiles = int(tiles);
  params.chunk = Divider<uint32_t>(chunk), params.tiles_x = Divider<uint32_t>(tiles_x),
  params.tiles_y = Divider<uint32_t>(tiles_y);
  params.dilation_x = int(phases_x), params.dilation_y = int(phases_y);
  params.phases_x = Divider<uint32_t>(phases_x), params.phases_y = Divider<uint32_t>(phases_y);
  launch_kernel<wgrad_direct<T, R, kLanes, rows, kDilated>>(Kernel::kWgradDirect, chunks, used_splits,
                                                            round_up(members * chunk, kWarp), 0, params, stream);
  sums.finish(problem, stream, true);
}

// Two channels a thread where a read then has four bytes, if there are threads enough for that: for 16-bit images and
// 5x5 taps at stride 2. At stride 1 the tiles would take too many registers.
inline bool takes_pairs(const Problem& problem) {
  const int64_t tiles = ceil_div(problem.x.out, 2) * ceil_div(problem.y.out, kManyRows) * problem.batch;
  return problem.x.taps == 5 && problem.x.down == 2 && has_channel_vectors(problem, 2) &&
         tiles * problem.channels / 2 >= 2 * kThreadsAtOnce;
}

template <class T, int taps, int kLanes>
void launch_stride(const WgradProblem& problem, cudaStream_t stream) {
  // Tiles of few rows where they cover the gradient with an eighth fewer rows, or more: with less to gain they took up
  // to 1.1 times as long.
  const auto covered = [&](int64_t rows) { return round_up(problem.y.out, rows); };
  const bool few_rows = 8 * covered(kFewRows) <= 7 * covered(kManyRows);
  if constexpr (taps == 3)
    if (problem.x.down == 1) return launch<T, TapWindow<1, 1, taps>, kLanes, kManyRows>(problem, stream);
  if constexpr (taps == 5 && kLanes == 1)
    if (problem.x.down == 1)
      return few_rows ? launch<T, TapWindow<1, 1, taps>, kLanes, kFewRows>(problem, stream)
                      : launch<T, TapWindow<1, 1, taps>, kLanes, kManyRows>(problem, stream);
  if (problem.x.down != 2) fail_choice(Kernel::kWgradDirect);
  few_rows ? launch<T, TapWindow<1, 2, taps>, kLanes, kFewRows>(problem, stream)
           : launch<T, TapWindow<1, 2, taps>, kLanes, kManyRows>(problem, stream);
}

}  // namespace

void launch_wgrad_direct(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kWgradDirect, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (wgrad_direct_takes_dilation(problem))
      return has_channel_vectors(problem, 2) ? launch<T, TapWindow<1, 1, 3>, 2, kManyRows, true>(problem, stream)
                                             : launch<T, TapWindow<1, 1, 3>, 1, kManyRows, true>(problem, stream);
    if constexpr (sizeof(T) == 2)
      if (takes_pairs(problem)) return launch_stride<T, 5, 2>(problem, stream);
    if (problem.x.taps == 5) return launch_stride<T, 5, 1>(problem, stream);
    if (wgrad_direct_lanes(problem) == 2) return launch_stride<T, 3, 2>(problem, stream);
    launch_stride<T, 3, 1>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
