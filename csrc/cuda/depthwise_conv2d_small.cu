// depthwise_conv2d for batches of contiguous images up to 8 pixels wide and 16 high at stride 1, such as the last 7x7
// of many networks, with up to 64 rows of taps. A block takes some channels of 32 images: what lies together in memory
// comes into shared memory as it is, whatever its width. A lane has an image, and its warp the same row and channel.
//
//   small_planes  forward and grad_input: a lane computes a row of an image's outputs. It multiplies each pixel of a
//                 row with the tap for each output of it, zero where there is none: no index depends on the width of
//                 the kernel. Zeros times infinity are NaN: a row with a result that is not finite is computed again,
//                 tap by tap;
//   small_grad    grad_weight, for images and gradients exactly 7 or 8 pixels wide: a lane computes a row of the taps
//                 from its image, by multiplying each pixel of a row with each of the gradient's; then the lanes' sums
//                 are added up. A block goes through several times 32 images.
#include "depthwise_conv2d_load.cuh"
#include "depthwise_conv2d_split.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kFewestImages = 8;  // fewer leave most lanes idle
constexpr int kBlock = 128, kGradBlock = 256, kImages = kWarp, kMostWidth = 8, kTapPitch = 2 * kMostWidth;
constexpr int64_t kShared = 96 << 10, kMostTaps = 64;  // bytes of a block; rows of taps

template <class T>
struct SmallOf {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_h, in_w, out_h, out_w, taps_h, taps_w, top, left, planes, channels, batch;
  int in_pitch, out_pitch, load_bytes, store_bytes, out_at, taps_at;  // a pitch: elements from image to image
  bool flipped;
};

// Each warp brings `elements` elements of one of the `images` images, which are `stride` apart.
template <class T>
__device__ void bring_images(T* to, int pitch, const T* from, int64_t stride, int images, int elements, int bytes) {
  const int lane = threadIdx.x % kWarp;
  for (int n = threadIdx.x / kWarp; n < images; n += blockDim.x / kWarp) {
    const T* const source = from + n * stride;
    T* const target = to + n * pitch;
    if (bytes == 4) {
      constexpr int kElements = 4 / sizeof(T);
      for (int i = lane * kElements; i < elements; i += kWarp * kElements)
        copy_async<4>(shared_address(target + i), source + i);
    } else {
#pragma unroll 8
      for (int i = lane; i < elements; i += kWarp) target[i] = source[i];
    }
  }
}

// An odd number of 4-byte words, so that lanes read from different banks.
template <class T>
int image_pitch(int64_t elements) {
  constexpr int64_t kWord = 4 / sizeof(T);
  return int((ceil_div(elements, kWord) | 1) * kWord);
}

// So many channels, of `pixels` pixels each, that an image takes some hundred elements of shared memory; an even number
// if there are several: a pair of 16-bit elements then is aligned, as far as it can be.
inline int64_t small_channels(int64_t channels, int64_t pixels) {
  constexpr int64_t kElements = 448;
  return std::min(std::max<int64_t>(kElements / pixels / 2 * 2, 1), channels);
}

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

  bring_images(in, p.in_pitch, p.in + (int64_t(first) * p.channels + channel) * in_plane,
               int64_t(p.channels) * in_plane, images, planes * in_plane, p.load_bytes);
  commit_copies();
  // The tap by which pixel ix counts for output ox stands at ix - ox + kWidth - 1.
  for (int i = threadIdx.x; i < planes * p.taps_h * kTapPitch; i += kBlock) {
    const int row = i / kTapPitch, kx = i % kTapPitch - (kWidth - 1) + p.left;
    const int plane = row / p.taps_h, k = row % p.taps_h * p.taps_w + kx;
    const bool there = unsigned(kx) < unsigned(p.taps_w);
    taps[i] = there ? p.weight[int64_t(channel + plane) * all_taps + (p.flipped ? all_taps - 1 - k : k)] : A(0);
  }
  wait_copies(0);
  __syncthreads();

  for (int i = warp; i < planes * p.out_h; i += warps) {
    const int plane = i / p.out_h, oy = i % p.out_h;
    const int begin = max(0, oy - p.top), end = min(p.in_h, oy - p.top + p.taps_h);
    const T* const image = in + lane * p.in_pitch + plane * in_plane;
    const A* const tap_rows = taps + (plane * p.taps_h - oy + p.top) * kTapPitch;
    const A bias = p.bias ? p.bias[channel + plane] : A(0);
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
  q.weight = Parameters<T>(p.weight), q.bias = Parameters<T>(p.bias);
  q.in = static_cast<const T*>(p.in), q.out = static_cast<T*>(p.out);
  q.in_h = int(p.y.in), q.in_w = int(p.x.in), q.out_h = int(p.y.out), q.out_w = int(p.x.out);
  q.taps_h = int(p.y.taps), q.taps_w = int(p.x.taps), q.top = int(p.y.pad), q.left = int(p.x.pad);
  q.channels = int(p.channels), q.batch = int(p.batch), q.flipped = p.flipped;
  int64_t bytes = 0;
  const auto measure = [&](int64_t planes) {
    q.planes = int(planes);
    q.in_pitch = image_pitch<T>(planes * in_plane), q.out_pitch = image_pitch<T>(planes * out_plane);
    q.out_at = int(round_up(kImages * q.in_pitch * sizeof(T), kAccess));
    q.taps_at = q.out_at + int(round_up(kImages * q.out_pitch * sizeof(T), kAccess));
    bytes = q.taps_at + planes * p.y.taps * kTapPitch * int64_t(sizeof(acc_t<T>));
  };
  measure(small_channels(p.channels, in_plane + out_plane));
  while (bytes > kShared && q.planes > 1) measure(std::max(q.planes / 4 * 2, 1));
  q.load_bytes = std::min(run_bytes<T>(p.in, p.channels * in_plane, q.planes * in_plane), 4);
  q.store_bytes = std::min(run_bytes<T>(p.out, p.channels * out_plane, q.planes * out_plane), 4);
  const int64_t groups = ceil_div(p.channels, q.planes), batches = ceil_div(p.batch, kImages);
  if (bytes > kShared || p.channels >= kMost || batches > 65535 || !allow_shared<small_planes<T, kWidth>>(bytes))
    return false;
  small_planes<T, kWidth><<<dim3(unsigned(groups), unsigned(batches)), kBlock, bytes, stream>>>(q);
  return true;
}

template <class T>
struct SmallGradOf {
  const T *in, *grad;
  acc_t<T>* partial;
  int in_h, out_h, taps_h, taps_w, top, left, planes, channels, batch, images_a_split;
  int in_pitch, grad_pitch, in_bytes, grad_bytes, grad_at, sums_at;
};

// The sums of `values` numbers over the lanes of a warp: each step halves the numbers that a lane has, and the lanes
// that it shares them with. With 16 of them, lane l returns the sum of number l / 2.
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

// kWidth: of image and gradient, exactly: zeros beyond them would meet infinities.
template <class T, int kWidth>
__global__ void __launch_bounds__(kGradBlock) small_grad(const __grid_constant__ SmallGradOf<T> p) {
  using A = acc_t<T>;
  static_assert(2 * kWidth - 1 <= kTapPitch);
  extern __shared__ __align__(kAccess) char shared[];
  T* const in = reinterpret_cast<T*>(shared);
  T* const grad = reinterpret_cast<T*>(shared + p.grad_at);
  A* const sums = reinterpret_cast<A*>(shared + p.sums_at);  // (plane, ky, kTapPitch): the column ix - ox + kWidth - 1
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = kGradBlock / kWarp;
  const int channel = int(blockIdx.x) * p.planes, planes = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  const int in_plane = p.in_h * kWidth, grad_plane = p.out_h * kWidth, rows = planes * p.taps_h;
  const int64_t in_image = int64_t(p.channels) * in_plane, grad_image = int64_t(p.channels) * grad_plane;
  clear(sums, rows * kTapPitch * int(sizeof(A)));
  for (int first = begin; first < end; first += kImages) {
    const int images = min(kImages, end - first);
    __syncthreads();
    bring_images(in, p.in_pitch, p.in + first * in_image + int64_t(channel) * in_plane, in_image, images,
                 planes * in_plane, p.in_bytes);
    bring_images(grad, p.grad_pitch, p.grad + first * grad_image + int64_t(channel) * grad_plane, grad_image, images,
                 planes * grad_plane, p.grad_bytes);
    commit_copies();
    wait_copies(0);
    __syncthreads();
    for (int i = warp; i < rows; i += warps) {
      const int plane = i / p.taps_h, ky = i % p.taps_h;
      const int y_begin = max(0, ky - p.top), y_end = lane < images ? min(p.in_h, p.out_h + ky - p.top) : 0;
      const T* const image = in + lane * p.in_pitch + plane * in_plane;
      const T* const gradient = grad + lane * p.grad_pitch + plane * grad_plane + (p.top - ky) * kWidth;
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
  A* const out = p.partial + (int64_t(blockIdx.y) * p.channels + channel) * p.taps_h * p.taps_w;
  for (int i = threadIdx.x; i < rows * p.taps_w; i += kGradBlock) {
    const int column = i % p.taps_w - p.left + kWidth - 1;
    out[i] = unsigned(column) < 2 * kWidth - 1 ? sums[i / p.taps_w * kTapPitch + column] : A(0);
  }
}

template <class T, int kWidth>
bool launch(const WeightGradient& p, cudaStream_t stream) {
  const int64_t in_plane = p.y.in * kWidth, grad_plane = p.y.out * kWidth;
  SmallGradOf<T> q{};
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  q.in_h = int(p.y.in), q.out_h = int(p.y.out), q.taps_h = int(p.y.taps), q.taps_w = int(p.x.taps);
  q.top = int(p.y.pad), q.left = int(p.x.pad), q.channels = int(p.channels), q.batch = int(p.batch);
  int64_t bytes = 0;
  const auto measure = [&](int64_t planes) {
    q.planes = int(planes);
    q.in_pitch = image_pitch<T>(planes * in_plane), q.grad_pitch = image_pitch<T>(planes * grad_plane);
    q.grad_at = int(round_up(kImages * q.in_pitch * sizeof(T), kAccess));
    q.sums_at = q.grad_at + int(round_up(kImages * q.grad_pitch * sizeof(T), kAccess));
    bytes = q.sums_at + planes * p.y.taps * kTapPitch * int64_t(sizeof(acc_t<T>));
  };
  measure(small_channels(p.channels, in_plane + grad_plane));
  while (bytes > kShared && q.planes > 1) measure(std::max(q.planes / 4 * 2, 1));
  q.in_bytes = std::min(run_bytes<T>(q.in, p.channels * in_plane, q.planes * in_plane), 4);
  q.grad_bytes = std::min(run_bytes<T>(q.grad, p.channels * grad_plane, q.planes * grad_plane), 4);
  const int64_t groups = ceil_div(p.channels, q.planes);
  const int64_t wanted = std::clamp<int64_t>(kWantedBlocks / groups, 1, ceil_div(p.batch, kImages));
  q.images_a_split = int(round_up(ceil_div(p.batch, wanted), kImages));
  const int64_t splits = ceil_div(p.batch, q.images_a_split);
  if (!allow_shared<small_grad<T, kWidth>>(bytes)) return false;
  const Tensor partial = partial_sums<T>(p, splits);
  q.partial = static_cast<acc_t<T>*>(partial.data_ptr());
  small_grad<T, kWidth><<<dim3(unsigned(groups), unsigned(splits)), kGradBlock, bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits, stream);
  return true;
}

}  // namespace

bool launch_small(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  if (!stride_1(p.x) || !stride_1(p.y) || p.x.in > kMostWidth || p.x.out > kMostWidth || p.y.in > 2 * kMostWidth ||
      p.y.out > 2 * kMostWidth || p.y.taps > kMostTaps || p.x.taps > kMost / kMostTaps || p.batch < kFewestImages)
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

bool launch_small_grad_weight(const WeightGradient& p, cudaStream_t stream) {
  if (!stride_1(p.x) || !stride_1(p.y) || p.x.in != p.x.out || p.y.in > 2 * kMostWidth || p.y.out > 2 * kMostWidth ||
      p.y.taps > kMostTaps || p.x.taps > kMost / (kMostTaps * kWarp) || p.batch < kFewestImages || p.batch >= kMost ||
      p.channels >= kMost)
    return false;
  bool done = false;
  dispatch(p.in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>) {
      if (p.x.in == kMostWidth - 1) done = launch<T, kMostWidth - 1>(p, stream);
      if (p.x.in == kMostWidth) done = launch<T, kMostWidth>(p, stream);
    }
  });
  return done;
}

}  // namespace customops::cuda::depthwise
