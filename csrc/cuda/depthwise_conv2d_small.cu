// depthwise_conv2d, forward and grad_input, for batches of contiguous images up to 8 pixels wide and 16 high at stride
// 1, such as the last 7x7 of many networks, with up to 64 rows of taps. A block takes some channels of 32 images: what
// lies together in memory comes into shared memory as it is, whatever its width. A lane computes a row of an image's
// outputs; its warp has the same row and channel, so that all need the same taps. It multiplies each pixel of a row
// with the tap for each output of it, zero where there is none: no index depends on the kernel's width.
//
// Zeros times infinity are NaN: a row with a result that is not finite is computed again, tap by tap.
#include "depthwise_conv2d.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kFewestImages = 8;  // fewer leave most lanes idle
constexpr int kBlock = 128, kImages = kWarp, kMostWidth = 8, kTapPitch = 2 * kMostWidth;

template <class T>
struct SmallOf {
  const T *in, *weight, *bias;
  T* out;
  int in_h, in_w, out_h, out_w, taps_h, taps_w, top, left, planes, channels, batch;
  int in_pitch, out_pitch, load_bytes, store_bytes, out_at, taps_at;  // a pitch: elements from image to image
  bool flipped;
};

// kWidth: of the images, or more.
template <class T, int kWidth>
__global__ void __launch_bounds__(kBlock) small_planes(const __grid_constant__ SmallOf<T> p) {
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  T* const in = reinterpret_cast<T*>(shared);
  T* const out = reinterpret_cast<T*>(shared + p.out_at);
  A* const taps = reinterpret_cast<A*>(shared + p.taps_at);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = kBlock / kWarp;
  const int channel = int(blockIdx.x) * p.planes, planes = min(p.planes, p.channels - channel);
  const int first = int(blockIdx.y) * kImages, images = min(kImages, p.batch - first);
  const int in_plane = p.in_h * p.in_w, out_plane = p.out_h * p.out_w, all_taps = p.taps_h * p.taps_w;

  for (int n = warp; n < images; n += warps) {
    const T* const from = p.in + (int64_t(first + n) * p.channels + channel) * in_plane;
    T* const to = in + n * p.in_pitch;
    if (p.load_bytes == 4) {
      constexpr int kElements = 4 / sizeof(T);
      for (int i = lane * kElements; i < planes * in_plane; i += kWarp * kElements) copy_async<4>(to + i, from + i);
    } else {
#pragma unroll 8
      for (int i = lane; i < planes * in_plane; i += kWarp) to[i] = from[i];
    }
  }
  commit_copies();
  // The tap by which pixel ix counts for output ox stands at ix - ox + kWidth - 1.
  for (int i = threadIdx.x; i < planes * p.taps_h * kTapPitch; i += kBlock) {
    const int row = i / kTapPitch, kx = i % kTapPitch - (kWidth - 1) + p.left;
    const int plane = row / p.taps_h, k = row % p.taps_h * p.taps_w + kx;
    const bool there = unsigned(kx) < unsigned(p.taps_w);
    taps[i] = there ? widen(p.weight[int64_t(channel + plane) * all_taps + (p.flipped ? all_taps - 1 - k : k)]) : A(0);
  }
  wait_copies(0);
  __syncthreads();

  for (int i = warp; i < planes * p.out_h; i += warps) {
    const int plane = i / p.out_h, oy = i % p.out_h;
    const int begin = max(0, oy - p.top), end = min(p.in_h, oy - p.top + p.taps_h);
    const T* const image = in + lane * p.in_pitch + plane * in_plane;
    const A* const tap_rows = taps + (plane * p.taps_h - oy + p.top) * kTapPitch;
    const A bias = p.bias ? widen(p.bias[channel + plane]) : A(0);
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
      for (int x = 0; x < kWidth; ++x) pixel[x] = x < p.in_w ? widen(image[y * p.in_w + x]) : A(0);
#pragma unroll
      for (int x = 0; x < kWidth; ++x)
#pragma unroll
        for (int o = 0; o < kWidth; ++o) sum[o] += tap[x - o + kWidth - 1] * pixel[x];
    }
    A finite = 0;
#pragma unroll
    for (int x = 0; x < kWidth; ++x)
      if (x < p.out_w) finite += sum[x] * A(0);
    T* const to = out + lane * p.out_pitch + plane * out_plane + oy * p.out_w;
    if (finite == A(0) || lane >= images) {
#pragma unroll
      for (int x = 0; x < kWidth; ++x)
        if (x < p.out_w) to[x] = narrow<T>(sum[x]);
    } else {
      for (int o = 0; o < p.out_w; ++o) {
        A total = bias;
        for (int y = begin; y < end; ++y)
          for (int x = max(0, o - p.left); x < min(p.in_w, o - p.left + p.taps_w); ++x)
            total += tap_rows[y * kTapPitch + x - o + kWidth - 1] * widen(image[y * p.in_w + x]);
        to[o] = narrow<T>(total);
      }
    }
  }
  __syncthreads();
  for (int n = warp; n < images; n += warps)
    store_run(p.out + (int64_t(first + n) * p.channels + channel) * out_plane, out + n * p.out_pitch,
              planes * out_plane, p.store_bytes, lane, kWarp);
}

template <class T, int kWidth>
bool launch(const Correlation& p, cudaStream_t stream) {
  const int64_t in_plane = p.y.in * p.x.in, out_plane = p.y.out * p.x.out;
  SmallOf<T> q{};
  q.in = static_cast<const T*>(p.in), q.weight = static_cast<const T*>(p.weight);
  q.bias = static_cast<const T*>(p.bias), q.out = static_cast<T*>(p.out);
  q.in_h = int(p.y.in), q.in_w = int(p.x.in), q.out_h = int(p.y.out), q.out_w = int(p.x.out);
  q.taps_h = int(p.y.taps), q.taps_w = int(p.x.taps), q.top = int(p.y.pad), q.left = int(p.x.pad);
  q.channels = int(p.channels), q.batch = int(p.batch), q.flipped = p.flipped;
  constexpr int64_t kWord = 4 / sizeof(T), kElements = 448, kShared = 96 << 10;  // elements: of an image
  int64_t bytes = 0;
  const auto measure = [&](int64_t planes) {
    q.planes = int(planes);
    // An odd number of 4-byte words, so that lanes read from different banks.
    q.in_pitch = int((ceil_div(planes * in_plane, kWord) | 1) * kWord);
    q.out_pitch = int((ceil_div(planes * out_plane, kWord) | 1) * kWord);
    q.out_at = int(round_up(kImages * q.in_pitch * sizeof(T), kAccess));
    q.taps_at = q.out_at + int(round_up(kImages * q.out_pitch * sizeof(T), kAccess));
    bytes = q.taps_at + planes * p.y.taps * kTapPitch * int64_t(sizeof(acc_t<T>));
  };
  // An even number of channels: a pair of 16-bit elements then is aligned, as far as it can be.
  measure(std::min(std::max<int64_t>(kElements / (in_plane + out_plane) / 2 * 2, 1), p.channels));
  while (bytes > kShared && q.planes > 1) measure(std::max(q.planes / 4 * 2, 1));
  q.load_bytes = std::min(run_bytes<T>(p.in, p.channels * in_plane, q.planes * in_plane), 4);
  q.store_bytes = std::min(run_bytes<T>(p.out, p.channels * out_plane, q.planes * out_plane), 4);
  const int64_t groups = ceil_div(p.channels, q.planes), batches = ceil_div(p.batch, kImages);
  if (bytes > kShared || p.channels >= kMost || batches > 65535 || !allow_shared(small_planes<T, kWidth>, bytes))
    return false;
  small_planes<T, kWidth><<<dim3(unsigned(groups), unsigned(batches)), kBlock, bytes, stream>>>(q);
  return true;
}

}  // namespace

bool launch_small(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  const auto fits = [](const Line& a) { return a.up == 1 && a.down == 1 && a.dilation == 1 && small(a); };
  if (!fits(p.x) || !fits(p.y) || p.x.in > kMostWidth || p.x.out > kMostWidth || p.y.in > 2 * kMostWidth ||
      p.y.out > 2 * kMostWidth || p.y.taps > 64 || p.x.taps > kMost / 64 || p.batch < kFewestImages)
    return false;
  bool done = false;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>)
      done = std::max(p.x.in, p.x.out) < kMostWidth ? launch<T, kMostWidth - 1>(p, stream)
                                                    : launch<T, kMostWidth>(p, stream);
  });
  return done;
}

}  // namespace customops::cuda::depthwise
