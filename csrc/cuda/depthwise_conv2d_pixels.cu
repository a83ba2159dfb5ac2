// depthwise_conv2d, forward and grad_input, for channels_last images and 3x3, 5x5 and 7x7 taps. Neighbouring threads
// take neighbouring channels, so every access of a warp is whole sectors, and the L1 cache serves the pixels that the
// windows of a block share. A thread keeps the taps of its channels in registers: fewer channels for more taps. It
// computes kX by kY pixels, walking down the rows of its window.
#include "depthwise_conv2d.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128;

template <class R>
struct Region {
  static constexpr int kLanes = R::kTaps == 3 ? 4 : (R::kTaps == 5 ? 2 : 1);  // channels of a thread
  static constexpr int kX = R::kTaps == 3 ? 2 : 4, kY = R::kUp == 2 ? 4 : (R::kTaps == 3 ? 4 : 7);
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

template <class T>
struct PixelsOf {
  const T *in, *weight, *bias;
  T* out;
  int in_w, in_h, out_w, out_h, channels, left, top;  // left, top: pixels before the first
  bool flipped;
  uint32_t threads;
  Divider<uint32_t> chunk, tiles_x, tiles_y, chunks;  // a chunk: vectors of channels that blocks take together
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock) pixels(const __grid_constant__ PixelsOf<T> p) {
  using S = Region<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  constexpr int kSpan = R::span(S::kX);
  uint32_t rest = blockIdx.x * kBlock + threadIdx.x;
  if (rest >= p.threads) return;
  uint32_t vector = p.chunk.split(rest);
  const int ox = int(p.tiles_x.split(rest)) * S::kX, oy = int(p.tiles_y.split(rest)) * S::kY;
  vector += p.chunks.split(rest) * p.chunk.divisor;
  const int channel = int(vector) * S::kLanes;
  if (channel >= p.channels) return;
  const int ix = ox / R::kUp * R::kDown - p.left, iy = oy / R::kUp * R::kDown - p.top;
  const T* const image = p.in + int64_t(rest) * p.in_h * p.in_w * p.channels + channel;
  A taps[S::kTaps][S::kLanes];
#pragma unroll
  for (int v = 0; v < S::kLanes; ++v)
#pragma unroll
    for (int k = 0; k < S::kTaps; ++k)
      taps[k][v] = widen(p.weight[int64_t(channel + v) * S::kTaps + (p.flipped ? S::kTaps - 1 - k : k)]);
  A sum[S::kY][S::kX][S::kLanes];
#pragma unroll
  for (int v = 0; v < S::kLanes; ++v) {
    const A bias = p.bias ? widen(p.bias[channel + v]) : A(0);
#pragma unroll
    for (int y = 0; y < S::kY; ++y)
#pragma unroll
      for (int x = 0; x < S::kX; ++x) sum[y][x][v] = bias;
  }
#pragma unroll
  for (int i = 0; i < R::span(S::kY); ++i) {
    const bool inside = unsigned(iy + i) < unsigned(p.in_h);
    const T* const from = image + (int64_t(iy + i) * p.in_w + ix) * p.channels;
    A row[kSpan][S::kLanes];
#pragma unroll
    for (int j = 0; j < kSpan; ++j) {
      const bool there = inside && unsigned(ix + j) < unsigned(p.in_w);
      V value{};
      if (there) value = *reinterpret_cast<const V*>(from + int64_t(j) * p.channels);
#pragma unroll
      for (int v = 0; v < S::kLanes; ++v) row[j][v] = widen(value.at[v]);
    }
    add_row<R>(i, taps, row, 0, sum);
  }
#pragma unroll
  for (int y = 0; y < S::kY; ++y)
#pragma unroll
    for (int x = 0; x < S::kX; ++x) {
      if (oy + y >= p.out_h || ox + x >= p.out_w) continue;
      V value;
#pragma unroll
      for (int v = 0; v < S::kLanes; ++v) value.at[v] = narrow<T>(sum[y][x][v]);
      const int64_t pixel = (int64_t(rest) * p.out_h + oy + y) * p.out_w + ox + x;
      *reinterpret_cast<V*>(p.out + pixel * p.channels + channel) = value;
    }
}

template <class T, class R>
bool launch(const Correlation& p, cudaStream_t stream) {
  using S = Region<R>;
  using V = Vector<T, S::kLanes>;
  if ((p.x.pad - R::kPhase) % R::kUp != 0 || (p.y.pad - R::kPhase) % R::kUp != 0) return false;
  if (p.channels % S::kLanes != 0 || reinterpret_cast<uintptr_t>(p.in) % sizeof(V) != 0 ||
      reinterpret_cast<uintptr_t>(p.out) % sizeof(V) != 0 || p.channels >= kMost)
    return false;
  const int64_t vectors = p.channels / S::kLanes, x = ceil_div(p.x.out, S::kX), y = ceil_div(p.y.out, S::kY);
  if (x > kMost / y || 2 * vectors > kMost / (x * y) || p.batch > kMost / (2 * vectors * x * y)) return false;
  const int64_t chunks = ceil_div(vectors, kWarp), chunk = ceil_div(vectors, chunks);

  PixelsOf<T> q{};
  q.in = static_cast<const T*>(p.in), q.weight = static_cast<const T*>(p.weight);
  q.bias = static_cast<const T*>(p.bias), q.out = static_cast<T*>(p.out);
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.channels = int(p.channels), q.flipped = p.flipped;
  q.left = int((p.x.pad - R::kPhase) / R::kUp), q.top = int((p.y.pad - R::kPhase) / R::kUp);
  q.threads = uint32_t(p.batch * chunks * chunk * x * y);
  q.chunk = Divider<uint32_t>(chunk), q.chunks = Divider<uint32_t>(chunks);
  q.tiles_x = Divider<uint32_t>(x), q.tiles_y = Divider<uint32_t>(y);
  pixels<T, R><<<blocks(q.threads, kBlock), kBlock, 0, stream>>>(q);
  return true;
}

template <class T, int taps>
bool launch(const Correlation& p, cudaStream_t stream) {
  const auto is = [&](int up, int down) {
    return p.x.up == up && p.y.up == up && p.x.down == down && p.y.down == down;
  };
  if (is(1, 1)) return launch<T, Reach<1, 1, taps>>(p, stream);
  if (is(1, 2)) return launch<T, Reach<1, 2, taps>>(p, stream);
  if (is(2, 1)) return launch<T, Reach<2, 1, taps>>(p, stream);
  return false;
}

}  // namespace

bool launch_pixels(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  if (p.x.taps != p.y.taps || p.x.dilation != 1 || p.y.dilation != 1 || !small(p.x) || !small(p.y)) return false;
  bool done = false;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>) {
      if (p.x.taps == 3) done = launch<T, 3>(p, stream);
      if (p.x.taps == 5) done = launch<T, 5>(p, stream);
      if (p.x.taps == 7) done = launch<T, 7>(p, stream);
    }
  });
  return done;
}

}  // namespace customops::cuda::depthwise
