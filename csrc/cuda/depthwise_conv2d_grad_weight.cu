// The gradient of depthwise_conv2d's weight: products of image and gradient, summed over all pixels of a channel. Reads
// both once. A thread holds a sum for every tap in registers and goes through tiles of kX by kY pixels of the gradient;
// threads of a block add up what they have in shared memory, blocks write partial sums, and a second kernel adds those.
//
//   grad_planes  contiguous, 3x3, 5x5, 7x7, stride 1 and 2: tiles in shared memory;
//   grad_pixels  channels_last, the same: neighbouring threads take neighbouring channels, straight from the L1 cache;
//   depthwise_conv2d_large.cu  large kernels at stride 1;
//   grad_general everything else, eight taps at a time.
#include <torch/csrc/stable/library.h>

#include "depthwise_conv2d.cuh"

namespace customops::cuda {
namespace depthwise {
namespace {

constexpr int kBlock = 128;

template <class R>
struct PlaneTile {
  static constexpr int kX = 4 / R::kDown, kY = 7, kVector = 4;
  static constexpr int kStep = kX * R::kDown, kShift = 4 - R::kSame;  // images start at a vector
  static constexpr int kRow = (kShift + R::span(kX) + kVector - 1) / kVector * kVector;
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

template <class T>
struct GradPlanesOf {
  const T *in, *grad;
  acc_t<T>* partial;
  int in_w, in_h, out_w, out_h, left, top, pitch, columns, grad_pitch, planes, channels, batch, images_a_split, bands;
  int vector, lanes_log, grad_vector, grad_lanes_log, grad_at, bytes;
  Divider<uint32_t> tiles_x, tiles_y, rows, grad_rows;
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock) grad_planes(const __grid_constant__ GradPlanesOf<T> p) {
  using S = PlaneTile<R>;
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  T* const patch = reinterpret_cast<T*>(shared);
  T* const grad_patch = reinterpret_cast<T*>(shared + p.grad_at);
  clear(shared, p.bytes);
  const int channel = int(blockIdx.x) * p.planes, count = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  uint32_t plane = threadIdx.x;
  const int tx = int(p.tiles_x.split(plane)), ty = int(p.tiles_y.split(plane));
  const bool busy = int(plane) < count;
  const int64_t in_plane = int64_t(p.in_h) * p.in_w, out_plane = int64_t(p.out_h) * p.out_w;
  const T* const window = patch + (int(plane) * int(p.rows.divisor) + ty * S::kY * R::kDown) * p.pitch + tx * S::kStep;
  const T* const grads =
      grad_patch + (int(plane) * int(p.grad_rows.divisor) + ty * S::kY) * p.grad_pitch + tx * S::kX;
  A sum[S::kTaps][1] = {};
  for (int n = begin; n < end; ++n)
    for (int band = 0; band < p.bands; ++band) {
      const int by = band * int(p.grad_rows.divisor);
      const int64_t first = int64_t(n) * p.channels + channel;
      __syncthreads();
      const Patch<T> to{patch, p.pitch, by * R::kDown - p.top, -p.left, p.columns, p.rows};
      const Patch<T> grad_to{grad_patch, p.grad_pitch, by, 0, p.out_w, p.grad_rows};
      load_patch(to, p.in + first * in_plane, count, in_plane, p.in_h, p.in_w, p.vector, p.lanes_log,
                 p.bands > 1);
      load_patch(grad_to, p.grad + first * out_plane, count, out_plane, p.out_h, p.out_w, p.grad_vector,
                 p.grad_lanes_log, p.bands > 1);
      wait_copies();
      __syncthreads();
      if (!busy) continue;
      A grad[S::kY][S::kX][1];
#pragma unroll
      for (int y = 0; y < S::kY; ++y) {
        const auto vector = *reinterpret_cast<const Vector<T, S::kX>*>(grads + y * p.grad_pitch);
#pragma unroll
        for (int x = 0; x < S::kX; ++x) grad[y][x][0] = widen(vector.at[x]);
      }
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i) {
        using V = Vector<T, S::kVector>;
        const V* const from = reinterpret_cast<const V*>(window + i * p.pitch);
        A row[S::kRow][1];
#pragma unroll
        for (int j = 0; j < S::kRow / S::kVector; ++j) {
          const V vector = from[j];
#pragma unroll
          for (int v = 0; v < S::kVector; ++v) row[j * S::kVector + v][0] = widen(vector.at[v]);
        }
        add_taps<R>(i, grad, row, S::kShift, sum);
      }
    }

  A* const sums = reinterpret_cast<A*>(shared);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k) sums[threadIdx.x * S::kTaps + k] = sum[k][0];
  __syncthreads();
  const int tiles = int(p.tiles_x.divisor * p.tiles_y.divisor);
  A* const out = p.partial + (int64_t(blockIdx.y) * p.channels + channel) * S::kTaps;
  for (int i = threadIdx.x; i < count * S::kTaps; i += kBlock) {
    const A* const from = sums + i / S::kTaps * tiles * S::kTaps + i % S::kTaps;
    A total = 0;
#pragma unroll 8
    for (int t = 0; t < tiles; ++t) total += from[t * S::kTaps];
    out[i] = total;
  }
}

template <class T, class R>
bool launch_planes(const WeightGradient& p, cudaStream_t stream) {
  using S = PlaneTile<R>;
  using A = acc_t<T>;
  const int64_t tiles_x = ceil_div(p.x.out, S::kX), all_y = ceil_div(p.y.out, S::kY);
  if (tiles_x > kBlock || p.batch >= kMost || p.channels >= kMost) return false;
  int64_t tiles_y = std::min(all_y, kBlock / tiles_x);
  tiles_y = ceil_div(all_y, ceil_div(all_y, tiles_y));
  int64_t planes = tiles_y == all_y ? std::min(kBlock / (tiles_x * tiles_y), p.channels) : 1;
  GradPlanesOf<T> q{};
  int64_t rows, grad_rows, bytes;
  const auto measure = [&] {
    q.pitch = int(round_up((tiles_x - 1) * S::kStep + S::kRow, kAccess / sizeof(T)));
    q.grad_pitch = int(round_up(tiles_x * S::kX, kAccess / sizeof(T)));
    rows = (tiles_y * S::kY - 1) * R::kDown + R::kTaps, grad_rows = tiles_y * S::kY;
    q.grad_at = int(round_up(planes * rows * q.pitch * sizeof(T), kAccess));
    bytes = q.grad_at + round_up(planes * grad_rows * q.grad_pitch * sizeof(T), kAccess);
  };
  constexpr int64_t kShared = 44 << 10;
  for (measure(); bytes > kShared && planes > 1; measure()) planes = (planes + 1) / 2;
  for (; bytes > kShared && tiles_y > 1; measure()) tiles_y = (tiles_y + 1) / 2;
  bytes = std::max<int64_t>(bytes, round_up(kBlock * S::kTaps * sizeof(A), kAccess));
  if (!allow_shared(grad_planes<T, R>, bytes)) return false;
  const int64_t groups = ceil_div(p.channels, planes);
  const int64_t wanted = std::min({std::max<int64_t>(kWantedBlocks / groups, 1), p.batch, int64_t(65535)});
  const int64_t images = ceil_div(p.batch, wanted), splits = ceil_div(p.batch, images);
  const Tensor partial = partial_sums<T>(p, splits);
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  q.partial = static_cast<A*>(partial.data_ptr());
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.left = int(p.x.pad + S::kShift), q.top = int(p.y.pad);
  q.columns = int((tiles_x - 1) * S::kStep + S::kRow);
  q.planes = int(planes), q.channels = int(p.channels), q.batch = int(p.batch), q.images_a_split = int(images);
  q.bands = int(ceil_div(all_y, tiles_y));
  q.vector = row_vector<T>(q.in, q.in_w, q.left), q.grad_vector = row_vector<T>(q.grad, q.out_w);
  q.lanes_log = row_lanes(ceil_div(q.in_w, q.vector)), q.grad_lanes_log = row_lanes(ceil_div(q.out_w, q.grad_vector));
  q.bytes = int(bytes);
  q.tiles_x = Divider<uint32_t>(tiles_x), q.tiles_y = Divider<uint32_t>(tiles_y);
  q.rows = Divider<uint32_t>(rows), q.grad_rows = Divider<uint32_t>(grad_rows);
  grad_planes<T, R><<<dim3(unsigned(groups), unsigned(splits)), kBlock, bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits, stream);
  return true;
}

template <class R>
struct PixelTile {
  static constexpr int kLanes = R::kTaps == 3 ? 4 : (R::kTaps == 5 ? 2 : 1);  // channels of a thread
  static constexpr int kX = R::kTaps == 7 ? 4 : 2, kY = R::kTaps == 3 ? 4 : 7;
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

template <class T>
struct GradPixelsOf {
  const T *in, *grad;
  acc_t<T>* partial;
  int in_w, in_h, out_w, out_h, channels, left, top, threads_a_channel;
  uint32_t tiles, tiles_a_split;
  Divider<uint32_t> chunk, tiles_x, tiles_y;
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock) grad_pixels(const __grid_constant__ GradPixelsOf<T> p) {
  using S = PixelTile<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  constexpr int kSpan = R::span(S::kX);
  __shared__ A sums[kBlock][S::kTaps * S::kLanes];
  uint32_t member = threadIdx.x;
  const int vector = int(p.chunk.split(member)), channel = (int(blockIdx.x * p.chunk.divisor) + vector) * S::kLanes;
  A sum[S::kTaps][S::kLanes] = {};
  const uint32_t end = min(p.tiles, (blockIdx.y + 1) * p.tiles_a_split);
  if (int(member) < p.threads_a_channel && channel < p.channels)
    for (uint32_t tile = blockIdx.y * p.tiles_a_split + member; tile < end; tile += p.threads_a_channel) {
      uint32_t n = tile;
      const int ox = int(p.tiles_x.split(n)) * S::kX, oy = int(p.tiles_y.split(n)) * S::kY;
      const int ix = ox * R::kDown - p.left, iy = oy * R::kDown - p.top;
      const T* const grads = p.grad + ((int64_t(n) * p.out_h + oy) * p.out_w + ox) * p.channels + channel;
      A grad[S::kY][S::kX][S::kLanes];
#pragma unroll
      for (int y = 0; y < S::kY; ++y)
#pragma unroll
        for (int x = 0; x < S::kX; ++x) {
          V value{};
          if (oy + y < p.out_h && ox + x < p.out_w)
            value = *reinterpret_cast<const V*>(grads + (int64_t(y) * p.out_w + x) * p.channels);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) grad[y][x][v] = widen(value.at[v]);
        }
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i) {
        const bool inside = unsigned(iy + i) < unsigned(p.in_h);
        const T* const from = p.in + ((int64_t(n) * p.in_h + iy + i) * p.in_w + ix) * p.channels + channel;
        A row[kSpan][S::kLanes];
#pragma unroll
        for (int j = 0; j < kSpan; ++j) {
          V value{};
          if (inside && unsigned(ix + j) < unsigned(p.in_w))
            value = *reinterpret_cast<const V*>(from + int64_t(j) * p.channels);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) row[j][v] = widen(value.at[v]);
        }
        add_taps<R>(i, grad, row, 0, sum);
      }
    }
#pragma unroll
  for (int v = 0; v < S::kLanes; ++v)
#pragma unroll
    for (int k = 0; k < S::kTaps; ++k) sums[threadIdx.x][v * S::kTaps + k] = sum[k][v];
  __syncthreads();
  const int chunk = int(p.chunk.divisor), first = int(blockIdx.x) * chunk * S::kLanes;
  A* const out = p.partial + (int64_t(blockIdx.y) * p.channels + first) * S::kTaps;
  const int wanted = min(chunk * S::kLanes, p.channels - first) * S::kTaps;
  for (int i = threadIdx.x; i < wanted; i += kBlock) {
    A total = 0;
    for (int t = 0; t < p.threads_a_channel; ++t)
      total += sums[t * chunk + i / (S::kTaps * S::kLanes)][i % (S::kTaps * S::kLanes)];
    out[i] = total;
  }
}

template <class T, class R>
bool launch_pixels(const WeightGradient& p, cudaStream_t stream) {
  using S = PixelTile<R>;
  using V = Vector<T, S::kLanes>;
  GradPixelsOf<T> q{};
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  if (p.channels % S::kLanes != 0 || reinterpret_cast<uintptr_t>(q.in) % sizeof(V) != 0 ||
      reinterpret_cast<uintptr_t>(q.grad) % sizeof(V) != 0 || p.channels >= kMost)
    return false;
  const int64_t x = ceil_div(p.x.out, S::kX), y = ceil_div(p.y.out, S::kY);
  if (x > kMost / y || p.batch > kMost / (x * y)) return false;
  const int64_t vectors = p.channels / S::kLanes, chunks = ceil_div(vectors, kWarp), chunk = ceil_div(vectors, chunks);
  const int64_t tiles = p.batch * x * y, members = kBlock / chunk;
  const int64_t wanted = std::min({std::max<int64_t>(kWantedBlocks / chunks, 1), ceil_div(tiles, 4 * members),
                                   int64_t(65535)});
  const int64_t tiles_a_split = round_up(ceil_div(tiles, wanted), members), splits = ceil_div(tiles, tiles_a_split);
  const Tensor partial = partial_sums<T>(p, splits);
  q.partial = static_cast<acc_t<T>*>(partial.data_ptr());
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.channels = int(p.channels), q.left = int(p.x.pad), q.top = int(p.y.pad), q.threads_a_channel = int(members);
  q.tiles = uint32_t(tiles), q.tiles_a_split = uint32_t(tiles_a_split);
  q.chunk = Divider<uint32_t>(chunk), q.tiles_x = Divider<uint32_t>(x), q.tiles_y = Divider<uint32_t>(y);
  grad_pixels<T, R><<<dim3(unsigned(chunks), unsigned(splits)), kBlock, 0, stream>>>(q);
  launch_add_splits<T>(p, partial, splits, stream);
  return true;
}

template <class T, int taps>
bool launch_taps(const WeightGradient& p, cudaStream_t stream) {
  if (p.x.down != p.y.down) return false;
  if (p.x.down == 1)
    return p.channels_last ? launch_pixels<T, Reach<1, 1, taps>>(p, stream)
                           : launch_planes<T, Reach<1, 1, taps>>(p, stream);
  if (p.x.down == 2)
    return p.channels_last ? launch_pixels<T, Reach<1, 2, taps>>(p, stream)
                           : launch_planes<T, Reach<1, 2, taps>>(p, stream);
  return false;
}

// A block takes eight taps of a channel, or of 32 channels of a channels_last image, over a split of the pixels.
constexpr int kTapsAtOnce = 8;

template <class Index, class T>
__global__ void __launch_bounds__(kThreads)
    grad_general(const T* in, const T* grad, acc_t<T>* partial, const __grid_constant__ Line along_x,
                 const __grid_constant__ Line along_y, Index channels, Index pixels, Index pixels_a_split,
                 Divider<Index> out_w, Divider<Index> out_h, bool channels_last) {
  using A = acc_t<T>;
  __shared__ A sums[kTapsAtOnce][kThreads];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Index channel = channels_last ? Index(blockIdx.x) * kWarp + lane : Index(blockIdx.x);
  const Index step = channels_last ? kThreads / kWarp : kThreads;
  const Index begin = Index(blockIdx.z) * pixels_a_split, end = min(pixels, begin + pixels_a_split);
  const int64_t first = int64_t(blockIdx.y) * kTapsAtOnce, taps = along_x.taps * along_y.taps;
  const int64_t to_pixel = channels_last ? int64_t(channels) : 1;
  A sum[kTapsAtOnce] = {};
  if (channel < channels)
    for (Index i = begin + (channels_last ? warp : threadIdx.x); i < end; i += step) {
      Index n = i;
      const int64_t ox = int64_t(out_w.split(n)), oy = int64_t(out_h.split(n));
      const int64_t plane = channels_last ? int64_t(n) : int64_t(n) * int64_t(channels) + int64_t(channel);
      const int64_t offset = channels_last ? int64_t(channel) : 0;
      const A g = widen(grad[((plane * along_y.out + oy) * along_x.out + ox) * to_pixel + offset]);
      int64_t ky = first / along_x.taps, kx = first % along_x.taps;
#pragma unroll
      for (int k = 0; k < kTapsAtOnce; ++k) {
        const int64_t iy = oy * along_y.down - along_y.pad + ky * along_y.dilation;
        const int64_t ix = ox * along_x.down - along_x.pad + kx * along_x.dilation;
        if (first + k < taps && iy >= 0 && iy < along_y.in && ix >= 0 && ix < along_x.in)
          sum[k] += g * widen(in[((plane * along_y.in + iy) * along_x.in + ix) * to_pixel + offset]);
        if (++kx == along_x.taps) kx = 0, ++ky;
      }
    }
#pragma unroll
  for (int k = 0; k < kTapsAtOnce; ++k) sums[k][threadIdx.x] = sum[k];
  __syncthreads();
  // Threads of one channel are every 32nd for channels_last images, all otherwise: added up in a fixed order.
  for (int half = kThreads / 2; half >= (channels_last ? kWarp : 1); half /= 2) {
    for (int i = threadIdx.x; i < kTapsAtOnce * half; i += kThreads) sums[i / half][i % half] += sums[i / half][i % half + half];
    __syncthreads();
  }
  const int k = channels_last ? warp : int(threadIdx.x);
  static_assert(kThreads / kWarp == kTapsAtOnce);
  if (k < kTapsAtOnce && first + k < taps && channel < channels)
    partial[(int64_t(blockIdx.z) * int64_t(channels) + int64_t(channel)) * taps + first + k] =
        sums[k][channels_last ? lane : 0];
}

template <class Index, class T>
void launch_general(const WeightGradient& p, cudaStream_t stream) {
  const int64_t pixels = p.batch * p.y.out * p.x.out, groups = p.channels_last ? ceil_div(p.channels, kWarp) : p.channels;
  const int64_t chunks = ceil_div(p.taps(), kTapsAtOnce), per_step = p.channels_last ? kThreads / kWarp : kThreads;
  const int64_t wanted = std::min({std::max<int64_t>(kWantedBlocks / groups / chunks, 1), ceil_div(pixels, 8 * per_step),
                                   int64_t(65535)});
  const int64_t pixels_a_split = ceil_div(pixels, wanted), splits = ceil_div(pixels, pixels_a_split);
  if (chunks > 65535) fail("_depthwise_conv2d_grad_weight: a kernel of ", p.taps(), " taps is too large for CUDA");
  const Tensor partial = partial_sums<T>(p, splits);
  grad_general<Index, T>
      <<<dim3(unsigned(groups), unsigned(chunks), unsigned(splits)), kThreads, 0, stream>>>(
          static_cast<const T*>(p.in.data_ptr()), static_cast<const T*>(p.grad.data_ptr()),
          static_cast<acc_t<T>*>(partial.data_ptr()), p.x, p.y, Index(p.channels), Index(pixels), Index(pixels_a_split),
          Divider<Index>(p.x.out), Divider<Index>(p.y.out), p.channels_last);
  launch_add_splits<T>(p, partial, splits, stream);
}

template <class T>
void run(const WeightGradient& p, cudaStream_t stream) {
  const bool plain = p.x.dilation == 1 && p.y.dilation == 1 && small(p.x) && small(p.y);
  if constexpr (!std::is_same_v<T, double>) {
    if (plain && p.x.taps == p.y.taps) {
      if (p.x.taps == 3 && launch_taps<T, 3>(p, stream)) return;
      if (p.x.taps == 5 && launch_taps<T, 5>(p, stream)) return;
      if (p.x.taps == 7 && launch_taps<T, 7>(p, stream)) return;
    }
    if (plain && p.taps() > 1 && !p.channels_last && launch_large_grad_weight(p, stream)) return;
  }
  if (p.batch * p.y.out * p.x.out < kMost && p.channels < kMost)
    launch_general<uint32_t, T>(p, stream);
  else
    launch_general<uint64_t, T>(p, stream);
}

}  // namespace
}  // namespace depthwise

Tensor depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w,
                                    int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                    int64_t dilation_h, int64_t dilation_w) {
  const char* const op = "_depthwise_conv2d_grad_weight";
  DepthwiseConv2d d = prepare_depthwise_conv2d_grad_weight(grad, x, kernel_h, kernel_w, stride_h, stride_w, pad_top,
                                                           pad_left, dilation_h, dilation_w);
  if (d.weight.numel() == 0) return d.weight;
  if (d.in.numel() == 0) return torch::stable::zero_(d.weight);
  const auto line = [](const ConvAxis& a) {
    return depthwise::Line{a.in, a.out, a.taps, 1, a.stride, a.pad, a.dilation};
  };
  depthwise::WeightGradient p{d.batch, d.channels, line(d.y), line(d.x), d.channels_last, d.in, d.out, d.weight};
  // Large kernels are bound by multiply-adds, so that transpositions are cheap beside them.
  const auto unit = [](const depthwise::Line& a) { return a.down == 1 && a.dilation == 1; };
  if (p.channels_last && p.taps() > 49 && unit(p.x) && unit(p.y) && x.scalar_type() != ScalarType::Double)
    p.in = depthwise::in_planes(op, p.in), p.grad = depthwise::in_planes(op, p.grad), p.channels_last = false;
  launch(op, x, [&](cudaStream_t stream) {
    dispatch(x.scalar_type(), [&](auto zero) { depthwise::run<decltype(zero)>(p, stream); });
  });
  return d.weight;
}

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("_depthwise_conv2d_grad_weight", TORCH_BOX(&customops::cuda::depthwise_conv2d_grad_weight));
}
