// The gradient of depthwise_conv2d's weight for channels_last images, what `grad_pixels` leaves of 3x3 and 5x5 taps:
// where the channels are no multiple of those that a thread takes there, or the images are not aligned for them. As in
// depthwise_conv2d_direct.cu, threads read straight from memory; each goes through tiles of the gradient, and those of
// a block add up what they have in shared memory.
#include "depthwise_conv2d_direct.cuh"
#include "depthwise_conv2d_split.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kBlocksAtOnce = 264;  // of an H200; fixed, so that results depend on shapes and addresses alone

template <class T>
struct GradDirectOf {
  const T *in, *grad;
  acc_t<T>* partial;
  int in_w, in_h, out_w, out_h, channels, left, top, members, tiles, tiles_a_split;
  Divider<uint32_t> chunk, tiles_x, tiles_y;  // chunk: vectors of channels that a block takes
};

// A thread's kX by kY pixels of the gradient, and the rows of the image that it reads ahead: the fastest of eight on an
// H200.
template <class R>
struct Region {
  static constexpr int kX = R::kTaps == 5 && R::kDown == 1 ? 4 : 2, kY = 7, kAhead = 1;
};

template <class T, class R, int kLanes>
__global__ void __launch_bounds__(kBlock, 2) grad_direct(const __grid_constant__ GradDirectOf<T> p) {
  using S = Region<R>;
  using A = acc_t<T>;
  constexpr int kTaps = R::kTaps * R::kTaps, kRows = R::span(S::kY);
  __shared__ A sums[kBlock * kTaps * kLanes];
  uint32_t rest = threadIdx.x;
  const int vector = int(p.chunk.split(rest)) * kLanes, member = int(rest);
  const int first_channel = int(blockIdx.x * p.chunk.divisor) * kLanes, channel = first_channel + vector;
  const int begin = int(blockIdx.y) * p.tiles_a_split, end = min(p.tiles, begin + p.tiles_a_split);
  const bool busy = member < p.members && channel < p.channels;
  const int row_step = p.in_w * p.channels, grad_step = p.out_w * p.channels;
  A sum[kTaps][kLanes] = {};
#pragma unroll 1
  for (int t = busy ? begin + member : end; t < end; t += p.members) {
    uint32_t image = t;
    const int ox = int(p.tiles_x.split(image)) * S::kX, oy = int(p.tiles_y.split(image)) * S::kY;
    const int y0 = oy * R::kDown - p.top, x0 = ox * R::kDown - p.left;
    const T* const in = p.in + int64_t(image) * p.in_h * row_step + channel;
    const T* const grads = p.grad + int64_t(image) * p.out_h * grad_step + channel;
    Access<T, kLanes> packed[S::kY][S::kX], rows[S::kAhead + 1][R::span(S::kX)];
#pragma unroll
    for (int y = 0; y < S::kY; ++y) read_pixels(packed[y], grads, oy + y, ox, p.out_h, p.out_w, p.channels, grad_step);
    A grad[S::kY][S::kX][kLanes];
#pragma unroll
    for (int y = 0; y < S::kY; ++y) widen_pixels<T>(packed[y], grad[y]);
#pragma unroll
    for (int coming = 0; coming < kRows + S::kAhead; ++coming) {
      if (coming < kRows)
        read_pixels(rows[coming % (S::kAhead + 1)], in, y0 + coming, x0, p.in_h, p.in_w, p.channels, row_step);
      const int i = coming - S::kAhead;
      if (i < 0) continue;
      A row[R::span(S::kX)][kLanes];
      widen_pixels<T>(rows[i % (S::kAhead + 1)], row);
      add_taps<R>(i, grad, row, 0, sum);
    }
  }
  const int columns = int(p.chunk.divisor) * kLanes * kTaps;
  if (member < p.members)
#pragma unroll
    for (int v = 0; v < kLanes; ++v)
#pragma unroll
      for (int k = 0; k < kTaps; ++k) sums[member * columns + (vector + v) * kTaps + k] = sum[k][v];
  __syncthreads();
  A* const out = p.partial + (int64_t(blockIdx.y) * p.channels + first_channel) * kTaps;
  const int wanted = min(int(p.chunk.divisor) * kLanes, p.channels - first_channel) * kTaps;
  for (int i = threadIdx.x; i < wanted; i += blockDim.x) {
    A total = 0;
#pragma unroll 4
    for (int m = 0; m < p.members; ++m) total += sums[m * columns + i];
    out[i] = total;
  }
}

template <class T, class R, int kLanes>
bool launch(const WeightGradient& p, cudaStream_t stream) {
  using S = Region<R>;
  const auto misaligned = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.data_ptr()) % sizeof(Access<T, kLanes>) != 0;
  };
  const int64_t tiles_x = ceil_div(p.x.out, S::kX), tiles_y = ceil_div(p.y.out, S::kY);
  if (p.channels % kLanes != 0 || misaligned(p.in) || misaligned(p.grad) ||
      extent(p.y) * extent(p.x) > kMost / p.channels || p.batch > kMost / (tiles_x * tiles_y))
    return false;
  const int64_t vectors = p.channels / kLanes, chunks = ceil_div(vectors, 64 / kLanes),
                chunk = ceil_div(vectors, chunks);
  const int64_t members = kBlock / chunk, tiles = p.batch * tiles_x * tiles_y;
  const int64_t splits = std::clamp<int64_t>(kBlocksAtOnce / chunks, 1, ceil_div(tiles, members));
  GradDirectOf<T> q{};
  q.tiles_a_split = int(ceil_div(tiles, splits));
  const int64_t all = ceil_div(tiles, q.tiles_a_split);
  const Tensor partial = partial_sums<T>(p, all);
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  q.partial = static_cast<acc_t<T>*>(partial.data_ptr());
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.channels = int(p.channels), q.left = int(p.x.pad), q.top = int(p.y.pad);
  q.members = int(members), q.tiles = int(tiles);
  q.chunk = Divider<uint32_t>(chunk), q.tiles_x = Divider<uint32_t>(tiles_x), q.tiles_y = Divider<uint32_t>(tiles_y);
  const auto threads = unsigned(round_up(members * chunk, kWarp));
  grad_direct<T, R, kLanes><<<dim3(unsigned(chunks), unsigned(all)), threads, 0, stream>>>(q);
  launch_add_splits<T>(p, partial, all, stream);
  return true;
}

template <class T, int taps, int kLanes>
bool launch(const WeightGradient& p, cudaStream_t stream) {
  if (p.x.down != p.y.down) return false;
  if (p.x.down == 1) return launch<T, Reach<1, 1, taps>, kLanes>(p, stream);
  if (p.x.down == 2) return launch<T, Reach<1, 2, taps>, kLanes>(p, stream);
  return false;
}

}  // namespace

bool launch_direct_grad_weight(const WeightGradient& p, cudaStream_t stream) {
  if (!p.channels_last || p.y.taps != p.x.taps) return false;
  bool done = false;
  dispatch(p.in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>) {
      if (p.x.taps == 3) done = launch<T, 3, 2>(p, stream) || launch<T, 3, 1>(p, stream);
      if (p.x.taps == 5) done = launch<T, 5, 1>(p, stream);
    }
  });
  return done;
}

}  // namespace customops::cuda::depthwise
