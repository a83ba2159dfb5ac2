// depthwise_conv2d, forward and grad_input, for channels_last images: 3x3 taps at stride 2, where a pixel counts for so
// few outputs that shared memory costs more than it saves, and what depthwise_conv2d_pixels.cu leaves of 3x3 and 5x5:
// where the channels are no multiple of those that a thread takes there, or the image is not aligned for them.
// Neighbouring threads take neighbouring channels; each keeps their taps in registers, walks down the rows of its
// window, reads some rows ahead, and leaves what windows have in common to the caches.
#include "depthwise_conv2d_direct.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128, kBlocksAtOnce = 4;  // threads; blocks that a multiprocessor has registers for

// A thread's x by y outputs, and the rows that it reads ahead: the fastest on an H200 of those that need no local
// memory.
struct Sizes {
  int x, y, ahead;
};
constexpr Sizes sizes(int up, int down, int taps, int lanes, bool half) {
  const bool four = lanes == 4;
  if (taps == 5) return {4, up * down == 2 ? 4 : 7, 1};
  if (up == 2) return four ? Sizes{4, half ? 4 : 2, 1} : Sizes{2, 4, 2};
  if (down == 2) return half && !four ? Sizes{2, 7, 1} : Sizes{half ? 2 : 1, 4, 2};
  return half && lanes == 2 ? Sizes{4, 4, 1} : Sizes{2, 7, 2};
}
template <class T, class R, int lanes>
struct Region {
  static constexpr Sizes kSizes = sizes(R::kUp, R::kDown, R::kTaps, lanes, sizeof(T) == 2);
  static constexpr int kX = kSizes.x, kY = kSizes.y, kAhead = kSizes.ahead;
};

template <class T, class W>
struct DirectOf {
  const W* weight;
  Parameters<T> bias;
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, channels, left, top, batch;  // left, top: pixels before the first
  Divider<uint32_t> vectors, tiles_x, tiles_y;
};

// W: the weight's type, T or float.
template <class T, class W, class R, int kLanes, bool kFlipped>
__global__ void __launch_bounds__(kBlock, kBlocksAtOnce) direct(const __grid_constant__ DirectOf<T, W> p) {
  using S = Region<T, R, kLanes>;
  using A = acc_t<T>;
  constexpr int kTaps = R::kTaps * R::kTaps, kColumns = R::span(S::kX), kRows = R::span(S::kY);
  uint32_t rest = blockIdx.x * kBlock + threadIdx.x;
  const int channel = int(p.vectors.split(rest)) * kLanes, ox = int(p.tiles_x.split(rest)) * S::kX;
  const int oy = int(p.tiles_y.split(rest)) * S::kY;
  const int64_t image = rest;
  if (image >= p.batch) return;
  Access<W, kLanes> packed[kTaps];
#pragma unroll
  for (int i = 0; i < kTaps; ++i) packed[i] = reinterpret_cast<const Access<W, kLanes>*>(p.weight + channel * kTaps)[i];
  A taps[kTaps][kLanes], sum[S::kY][S::kX][kLanes];
#pragma unroll
  for (int k = 0; k < kTaps; ++k)
#pragma unroll
    for (int v = 0; v < kLanes; ++v) {
      const int i = v * kTaps + (kFlipped ? kTaps - 1 - k : k);
      const W tap = part<W>(packed[i / kLanes], i % kLanes);
      if constexpr (std::is_same_v<W, T>)
        taps[k][v] = widen(tap);
      else
        taps[k][v] = widen(narrow<T>(tap));
      asm("" : "+f"(taps[k][v]));  // or the compiler keeps 16-bit taps as they are, and widens them at every use
    }
#pragma unroll
  for (int v = 0; v < kLanes; ++v) {
    const A bias = p.bias ? p.bias[channel + v] : A(0);
#pragma unroll
    for (int y = 0; y < S::kY; ++y)
#pragma unroll
      for (int x = 0; x < S::kX; ++x) sum[y][x][v] = bias;
  }
  const int y0 = oy / R::kUp * R::kDown - p.top, x0 = ox / R::kUp * R::kDown - p.left, row_step = p.in_w * p.channels;
  const T* const in = p.in + image * p.in_h * row_step + channel;
  T* const out = p.out + ((image * p.out_h + oy) * p.out_w + ox) * p.channels + channel;
  Access<T, kLanes> rows[S::kAhead + 1][kColumns];
  // Not a function that takes a lambda: nvcc 12.4 made code of that which took up to 1.25 times as long.
#pragma unroll
  for (int coming = 0; coming < kRows + S::kAhead; ++coming) {
    if (coming < kRows)
      read_pixels(rows[coming % (S::kAhead + 1)], in, y0 + coming, x0, p.in_h, p.in_w, p.channels, row_step);
    const int i = coming - S::kAhead;
    if (i < 0) continue;
    A row[kColumns][kLanes];
    widen_pixels<T>(rows[i % (S::kAhead + 1)], row);
    add_row<R>(i, taps, row, 0, sum);
#pragma unroll
    for (int y = 0; y < S::kY; ++y) {
      const bool complete = R::tap(i, y) >= 0 && (i + 1 == kRows || R::tap(i + 1, y) < 0);
      if (!complete || oy + y >= p.out_h) continue;
#pragma unroll
      for (int x = 0; x < S::kX; ++x) {
        Vector<T, kLanes> value;
#pragma unroll
        for (int v = 0; v < kLanes; ++v) value.at[v] = narrow<T>(sum[y][x][v]);
        if (ox + x < p.out_w) *reinterpret_cast<Vector<T, kLanes>*>(out + (y * p.out_w + x) * p.channels) = value;
      }
    }
  }
}

template <class T, class W, class R, int kLanes, bool kFlipped>
bool launch(const Correlation& p, cudaStream_t stream) {
  using S = Region<T, R, kLanes>;
  const auto misaligned = [](const void* data, size_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes != 0; };
  if ((p.x.pad - R::kPhase) % R::kUp != 0 || (p.y.pad - R::kPhase) % R::kUp != 0) return false;
  const int64_t vectors = p.channels / kLanes, tiles_x = ceil_div(p.x.out, S::kX), tiles_y = ceil_div(p.y.out, S::kY);
  if (p.channels % kLanes != 0 || misaligned(p.in, sizeof(Access<T, kLanes>)) ||
      p.channels >= kMost / (R::kTaps * R::kTaps) || extent(p.y) * extent(p.x) > kMost / p.channels ||
      p.batch > kMost / (vectors * tiles_x * tiles_y))
    return false;
  Tensor weight = *p.weight;
  // Part of a larger tensor, then. kLanes taps are one access.
  if (misaligned(weight.data_ptr(), sizeof(Access<W, kLanes>))) {
    weight = new_like(*p.weight);
    copy_strided("depthwise_conv2d", *p.weight, weight);
  }
  DirectOf<T, W> q{};
  q.weight = static_cast<const W*>(weight.data_ptr()), q.bias = Parameters<T>(p.bias);
  q.in = static_cast<const T*>(p.in), q.out = static_cast<T*>(p.out);
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.channels = int(p.channels), q.batch = int(p.batch);
  q.left = int((p.x.pad - R::kPhase) / R::kUp), q.top = int((p.y.pad - R::kPhase) / R::kUp);
  q.vectors = Divider<uint32_t>(vectors), q.tiles_x = Divider<uint32_t>(tiles_x);
  q.tiles_y = Divider<uint32_t>(tiles_y);
  direct<T, W, R, kLanes, kFlipped><<<blocks(p.batch * vectors * tiles_x * tiles_y, kBlock), kBlock, 0, stream>>>(q);
  return true;
}

template <class T, class W, int taps, int kLanes>
bool launch(const Correlation& p, cudaStream_t stream) {
  using R = Reach<1, 1, taps>;
  const auto is = [&](int up, int down) {
    return p.x.up == up && p.y.up == up && p.x.down == down && p.y.down == down;
  };
  if (is(1, 2)) return launch<T, W, Reach<1, 2, taps>, kLanes, false>(p, stream);
  if (is(2, 1)) return launch<T, W, Reach<2, 1, taps>, kLanes, true>(p, stream);
  if constexpr (kLanes < channel_lanes(taps))
    if (is(1, 1))
      return p.flipped ? launch<T, W, R, kLanes, true>(p, stream) : launch<T, W, R, kLanes, false>(p, stream);
  return false;
}

template <class T, class W>
bool launch(const Correlation& p, cudaStream_t stream) {
  if (p.x.taps == 5) return launch<T, W, 5, 1>(p, stream);
  return launch<T, W, 3, 4>(p, stream) || launch<T, W, 3, 2>(p, stream) || launch<T, W, 3, 1>(p, stream);
}

}  // namespace

bool launch_direct(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  if ((p.x.taps != 3 && p.x.taps != 5) || p.y.taps != p.x.taps || p.x.dilation != 1 || p.y.dilation != 1 ||
      !small(p.x) || !small(p.y))
    return false;
  bool done = false;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>)
      done = p.weight->scalar_type() == ScalarType::Float ? launch<T, float>(p, stream) : launch<T, T>(p, stream);
  });
  return done;
}

}  // namespace customops::cuda::depthwise
