// The gradient of depthwise_conv2d's weight: products of image and gradient, summed over all pixels of a channel. Reads
// both once. A thread holds a sum for every tap in registers and goes through tiles of kX by kY pixels of the gradient;
// threads of a block add up what they have in shared memory, blocks write partial sums, and a second kernel adds those.
//
//   grad_planes  contiguous, 3x3, 5x5, 7x7, stride 1 and 2: tiles in shared memory;
//   grad_pixels  channels_last, the same: neighbouring threads take neighbouring channels;
//   depthwise_conv2d_grad_direct.cu  channels_last, 3x3, 5x5, stride 1 and 2, channels that grad_pixels does not take;
//   depthwise_conv2d_grad_mma.cu  16-bit, 5x5 and 7x7, most sizes: tensor cores, from sm_80 on;
//   depthwise_conv2d_small.cu  batches of images 7 or 8 pixels wide at stride 1;
//   depthwise_conv2d_large.cu  large kernels at stride 1;
//   grad_general everything else, eight taps at a time.
//
// Some channels_last images are copied into planes before (worth_transposing).
#include <torch/csrc/stable/library.h>

#include "depthwise_conv2d_load.cuh"
#include "depthwise_conv2d_split.cuh"

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
  int in_w, in_h, out_w, out_h, left, top, rows, pitch, columns, grad_pitch, planes, channels, batch, images_a_split;
  int bands, stages, stage_bytes, load_bytes, grad_load_bytes, grad_at, bytes;
  Divider<uint32_t> tiles_x, tiles_y;
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock, 4) grad_planes(const __grid_constant__ GradPlanesOf<T> p) {
  using S = PlaneTile<R>;
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  const int channel = int(blockIdx.x) * p.planes, count = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  uint32_t rest = threadIdx.x;
  const int tx = int(p.tiles_x.split(rest)), ty = int(p.tiles_y.split(rest)), plane = int(rest);
  const int grad_rows = int(p.tiles_y.divisor) * S::kY;
  const int64_t in_image = int64_t(p.channels) * p.in_h * p.in_w, out_image = int64_t(p.channels) * p.out_h * p.out_w;
  const int to_window = (plane * p.rows + ty * S::kY * R::kDown) * p.pitch + tx * S::kStep;
  const int to_grads = (plane * grad_rows + ty * S::kY) * p.grad_pitch + tx * S::kX;
  A sum[S::kTaps][1] = {};
  for (int band = 0; band < p.bands; ++band) {
    const int by = band * grad_rows;
    __syncthreads();
    clear(shared, p.bytes);
    const PlanesPlace place(by * R::kDown - p.top, -p.left, p.rows, p.columns, p.pitch, p.in_h, p.in_w,
                            p.load_bytes / int(sizeof(T)));
    const PlanesPlace grad_place(by, 0, grad_rows, p.out_w, p.grad_pitch, p.out_h, p.out_w,
                                 p.grad_load_bytes / int(sizeof(T)));
    const Loads<8, PlanesPlace> loads(place, place.all(count)), grad_loads(grad_place, grad_place.all(count));
    const T* in = p.in + int64_t(begin) * in_image + int64_t(channel) * p.in_h * p.in_w;
    const T* grad_in = p.grad + int64_t(begin) * out_image + int64_t(channel) * p.out_h * p.out_w;
    const auto bring = [&](int stage) {
      char* const patch = shared + stage * p.stage_bytes;
      loads.template issue_bytes<sizeof(T) * 4>(p.load_bytes, reinterpret_cast<T*>(patch), in);
      grad_loads.template issue_bytes<sizeof(T) * 4>(p.grad_load_bytes, reinterpret_cast<T*>(patch + p.grad_at),
                                                     grad_in);
      in += in_image, grad_in += out_image;
    };
    const auto compute = [&](int stage) {
      if (plane >= count) return;
      const char* const patch = shared + stage * p.stage_bytes;
      const T* const window = reinterpret_cast<const T*>(patch) + to_window;
      const T* const grads = reinterpret_cast<const T*>(patch + p.grad_at) + to_grads;
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
    };
    for_images(end - begin, p.stages, bring, compute);
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
  int64_t bytes;
  const auto too_large = [&] {
    q.pitch = int(round_up((tiles_x - 1) * S::kStep + S::kRow, kAccess / sizeof(T)));
    q.grad_pitch = int(round_up(tiles_x * S::kX, kAccess / sizeof(T)));
    q.rows = int((tiles_y * S::kY - 1) * R::kDown + R::kTaps);
    q.grad_at = int(round_up(planes * q.rows * q.pitch * sizeof(T), kAccess));
    bytes = q.grad_at + round_up(planes * tiles_y * S::kY * q.grad_pitch * sizeof(T), kAccess);
    return bytes > 48 << 10;
  };
  while (too_large() && planes > 1) planes = (planes + 1) / 2;
  while (too_large() && tiles_y > 1) tiles_y = (tiles_y + 1) / 2;
  const int64_t groups = ceil_div(p.channels, planes);
  q.stage_bytes = int(bytes);
  const Split split = split_batch(p, sizeof(T), {groups, kBlock, 128, bytes, 0});
  q.images_a_split = split.images, q.stages = split.stages;
  const auto fits = [&] {
    bytes = std::max<int64_t>(q.stages * q.stage_bytes, round_up(kBlock * S::kTaps * sizeof(A), kAccess));
    return allow_shared<grad_planes<T, R>>(bytes);
  };
  while (!fits() && q.stages > 1) --q.stages;
  if (p.y.in * p.x.in > kMost / planes || !fits()) return false;
  const int64_t splits = ceil_div(p.batch, q.images_a_split);
  const Tensor partial = partial_sums<T>(p, splits);
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  q.partial = static_cast<A*>(partial.data_ptr());
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.left = int(p.x.pad + S::kShift), q.top = int(p.y.pad), q.columns = int((tiles_x - 1) * S::kStep + S::kRow);
  q.planes = int(planes), q.channels = int(p.channels), q.batch = int(p.batch);
  q.bands = int(ceil_div(all_y, tiles_y)), q.bytes = int(bytes);
  q.load_bytes = int(sizeof(T)) * row_vector<T>(q.in, q.in_w, q.left);
  q.grad_load_bytes = int(sizeof(T)) * row_vector<T>(q.grad, q.out_w);
  q.tiles_x = Divider<uint32_t>(tiles_x), q.tiles_y = Divider<uint32_t>(tiles_y);
  grad_planes<T, R><<<dim3(unsigned(groups), unsigned(splits)), kBlock, bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits, stream);
  return true;
}

template <class R>
struct PixelTile {
  static constexpr int kLanes = channel_lanes(R::kTaps);
  static constexpr int kX = R::kTaps == 7 ? 4 : 2;
  static constexpr int kY =
      R::kTaps == 7 ? 7 : (R::kTaps == 3 ? 4 : 7) / (R::kDown == 2 ? 2 : 1) + (R::kTaps == 5 && R::kDown == 2);
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

constexpr int kPixelsBlock = 256;

template <class T>
struct GradPixelsOf {
  const T *in, *grad;
  acc_t<T>* partial;
  int in_w, in_h, out_w, out_h, channels, left, top, members, tiles, batch, images_a_split, spatial, stages;
  int load_bytes, grad_at, stage_elements, bytes;
  PixelsTile tile, grad_tile;
  Divider<uint32_t> chunk, chunks, blocks_x, tiles_x;
};

template <class T, class R>
__global__ void __launch_bounds__(kPixelsBlock, 2) grad_pixels(const __grid_constant__ GradPixelsOf<T> p) {
  using S = PixelTile<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  constexpr int kSpan = R::span(S::kX);
  extern __shared__ __align__(kAccess) char shared[];
  T* const patches = reinterpret_cast<T*>(shared);
  clear(shared, p.bytes);
  uint32_t rest = blockIdx.x, member = threadIdx.x;
  const int first_channel = int(p.chunks.split(rest)) * p.tile.pixel, spatial = int(rest);
  const int vector = int(p.chunk.split(member)) * S::kLanes;
  const int bx = int(p.blocks_x.split(rest)) * p.grad_tile.columns, by = int(rest) * p.grad_tile.rows;
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  const bool busy = int(member) < p.members && first_channel + vector < p.channels;
  const PixelsPlace place{
      p.tile, by * R::kDown - p.top, bx * R::kDown - p.left, p.in_h, p.in_w, p.channels - first_channel, p.channels};
  const PixelsPlace grad_place{p.grad_tile, by, bx, p.out_h, p.out_w, p.channels - first_channel, p.channels};
  const Loads<4, PixelsPlace> loads(place, place.all()), grad_loads(grad_place, grad_place.all());
  const int64_t in_image = int64_t(p.in_h) * p.in_w * p.channels, out_image = int64_t(p.out_h) * p.out_w * p.channels;
  const T* in = p.in + begin * in_image + first_channel;
  const T* grad_in = p.grad + begin * out_image + first_channel;
  const int row_step = p.tile.columns * p.tile.pixel, grad_step = p.grad_tile.columns * p.grad_tile.pixel;
  A sum[S::kTaps][S::kLanes] = {};
  const auto bring = [&](int stage) {
    T* const patch = patches + stage * p.stage_elements;
    loads.issue_bytes(p.load_bytes, patch, in);
    grad_loads.issue_bytes(p.load_bytes, patch + p.grad_at, grad_in);
    in += in_image, grad_in += out_image;
  };
  const auto compute = [&](int stage) {
    const T* const patch = patches + stage * p.stage_elements + vector;
    for (int t = busy ? int(member) : p.tiles; t < p.tiles; t += p.members) {
      uint32_t ty = t;
      const int tx = int(p.tiles_x.split(ty));
      const T* from = patch + int(ty) * S::kY * R::kDown * row_step + tx * S::kX * R::kDown * p.tile.pixel;
      const T* grads = patch + p.grad_at + int(ty) * S::kY * grad_step + tx * S::kX * p.tile.pixel;
      A grad[S::kY][S::kX][S::kLanes];
#pragma unroll
      for (int y = 0; y < S::kY; ++y)
#pragma unroll
        for (int x = 0; x < S::kX; ++x) {
          const V value = *reinterpret_cast<const V*>(grads + y * grad_step + x * p.tile.pixel);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) grad[y][x][v] = widen(value.at[v]);
        }
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i, from += row_step) {
        A row[kSpan][S::kLanes];
#pragma unroll
        for (int j = 0; j < kSpan; ++j) {
          const V value = *reinterpret_cast<const V*>(from + j * p.tile.pixel);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) row[j][v] = widen(value.at[v]);
        }
        add_taps<R>(i, grad, row, 0, sum);
      }
    }
  };
  for_images(end - begin, p.stages, bring, compute);

  A* const sums = reinterpret_cast<A*>(shared);
  constexpr int kSums = S::kTaps * S::kLanes;
  const int chunk = int(p.chunk.divisor), columns = chunk * kSums;
  __syncthreads();
  if (int(member) < p.members)
#pragma unroll
    for (int v = 0; v < S::kLanes; ++v)
#pragma unroll
      for (int k = 0; k < S::kTaps; ++k) sums[member * columns + (vector + v) * S::kTaps + k] = sum[k][v];
  __syncthreads();
  A* const out = p.partial + ((int64_t(blockIdx.y) * p.spatial + spatial) * p.channels + first_channel) * S::kTaps;
  const int wanted = min(p.tile.pixel, p.channels - first_channel) * S::kTaps;
  for (int i = threadIdx.x; i < wanted; i += blockDim.x) {
    A total = 0;
#pragma unroll 4
    for (int m = 0; m < p.members; ++m) total += sums[m * columns + i];
    out[i] = total;
  }
}

template <class T, class R>
bool launch_pixels(const WeightGradient& p, cudaStream_t stream) {
  using S = PixelTile<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  GradPixelsOf<T> q{};
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  if (p.channels % S::kLanes != 0 || reinterpret_cast<uintptr_t>(q.in) % sizeof(V) != 0 ||
      reinterpret_cast<uintptr_t>(q.grad) % sizeof(V) != 0 || p.channels >= kMost || p.batch >= kMost ||
      std::max(p.y.in * p.x.in, p.y.out * p.x.out) > kMost / p.channels)
    return false;
  const int64_t vectors = p.channels / S::kLanes, chunk = channel_chunk(vectors, S::kLanes, sizeof(V));
  const int64_t chunks = ceil_div(vectors, chunk), members = kPixelsBlock / chunk;
  const int64_t all_x = ceil_div(p.x.out, S::kX), all_y = ceil_div(p.y.out, S::kY);
  const int64_t pixel = chunk * S::kLanes;
  const int64_t vector = channel_vector<T>(q.in, q.grad, p.channels, pixel);
  int64_t stage = 0;
  const auto measure = [&](int64_t x, int64_t y) {
    q.tile = PixelsTile((y * S::kY - 1) * R::kDown + R::kTaps, (x * S::kX - 1) * R::kDown + R::kTaps, pixel, vector);
    q.grad_tile = PixelsTile(y * S::kY, x * S::kX, pixel, vector);
    q.grad_at = int(round_up(q.tile.elements(), kAccess));
    q.stage_elements = int(q.grad_at + round_up(q.grad_tile.elements(), kAccess));
    stage = q.stage_elements * int64_t(sizeof(T));
    return stage <= 55 << 10 ? int64_t(q.tile.rows) * q.tile.columns : 0;
  };
  const auto [tiles_x, tiles_y] = tiles_of_block(all_x, all_y, members, measure);
  measure(tiles_x, tiles_y);
  const int64_t blocks_x = ceil_div(all_x, tiles_x), blocks_y = ceil_div(all_y, tiles_y);
  q.spatial = int(blocks_x * blocks_y);
  if (q.spatial > kMost / chunks) return false;
  q.members = int(std::min<int64_t>(members, tiles_x * tiles_y));
  const int64_t threads = round_up(q.members * chunk, kWarp);
  const bool past_l1 = run_bytes<T>(nullptr, p.channels, pixel) == kAccess;  // of the shape alone
  const Split split = split_batch(p, sizeof(T), {chunks * q.spatial, threads, 128, stage, 0, past_l1});
  q.images_a_split = split.images, q.stages = split.stages;
  const int64_t splits = ceil_div(p.batch, q.images_a_split), sums = members * chunk * S::kTaps * S::kLanes * sizeof(A);
  const auto bytes = [&](int stages) { return std::max(stages * stage, sums); };
  while (q.stages > 1 && !allow_shared<grad_pixels<T, R>>(bytes(q.stages))) --q.stages;
  q.bytes = int(bytes(q.stages));
  if (!allow_shared<grad_pixels<T, R>>(q.bytes)) return false;
  const Tensor partial = partial_sums<T>(p, splits * q.spatial);
  q.partial = static_cast<A*>(partial.data_ptr());
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.channels = int(p.channels), q.left = int(p.x.pad), q.top = int(p.y.pad);
  q.tiles = int(tiles_x * tiles_y), q.batch = int(p.batch), q.load_bytes = int(vector * sizeof(T));
  q.chunk = Divider<uint32_t>(chunk), q.chunks = Divider<uint32_t>(chunks);
  q.blocks_x = Divider<uint32_t>(blocks_x), q.tiles_x = Divider<uint32_t>(tiles_x);
  grad_pixels<T, R><<<dim3(unsigned(chunks * q.spatial), unsigned(splits)), unsigned(threads), q.bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits * q.spatial, stream);
  return true;
}

template <class T, int taps>
bool launch_taps(const WeightGradient& p, cudaStream_t stream) {
  if (p.x.down != p.y.down) return false;
  if (p.x.down == 1)
    return p.channels_last ? launch_pixels<T, Reach<1, 1, taps>>(p, stream)
                           : launch_planes<T, Reach<1, 1, taps>>(p, stream);
  if constexpr (taps == 7)
    return false;
  else if (p.x.down == 2)
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
#pragma unroll 1
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
    for (int i = threadIdx.x; i < kTapsAtOnce * half; i += kThreads)
      sums[i / half][i % half] += sums[i / half][i % half + half];
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
  const int64_t pixels = p.batch * p.y.out * p.x.out,
                groups = p.channels_last ? ceil_div(p.channels, kWarp) : p.channels;
  const int64_t chunks = ceil_div(p.taps(), kTapsAtOnce), per_step = p.channels_last ? kThreads / kWarp : kThreads;
  const int64_t wanted =
      std::min({std::max<int64_t>(kWantedBlocks / groups / chunks, 1), ceil_div(pixels, 8 * per_step), int64_t(65535)});
  const int64_t pixels_a_split = ceil_div(pixels, wanted), splits = ceil_div(pixels, pixels_a_split);
  if (chunks > 65535) fail("_depthwise_conv2d_grad_weight: a kernel of ", p.taps(), " taps is too large for CUDA");
  const Tensor partial = partial_sums<T>(p, splits);
  grad_general<Index, T><<<dim3(unsigned(groups), unsigned(chunks), unsigned(splits)), kThreads, 0, stream>>>(
      static_cast<const T*>(p.in.data_ptr()), static_cast<const T*>(p.grad.data_ptr()),
      static_cast<acc_t<T>*>(partial.data_ptr()), p.x, p.y, Index(p.channels), Index(pixels), Index(pixels_a_split),
      Divider<Index>(p.x.out), Divider<Index>(p.y.out), p.channels_last);
  launch_add_splits<T>(p, partial, splits, stream);
}

template <class T>
void run(const WeightGradient& p, cudaStream_t stream) {
  const bool plain = p.x.dilation == 1 && p.y.dilation == 1 && small(p.x) && small(p.y);
  if constexpr (!std::is_same_v<T, double>) {
    if (plain && !p.channels_last && launch_small_grad_weight(p, stream)) return;
    if (plain && launch_mma_grad_weight(p, stream)) return;
    if (plain && p.x.taps == p.y.taps) {
      if (p.x.taps == 3 && launch_taps<T, 3>(p, stream)) return;
      if (p.x.taps == 5 && launch_taps<T, 5>(p, stream)) return;
      if (p.x.taps == 7 && launch_taps<T, 7>(p, stream)) return;
    }
    if (plain && launch_direct_grad_weight(p, stream)) return;
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
                                    int64_t dilation_h, int64_t dilation_w, bool float32) {
  const char* const op = "_depthwise_conv2d_grad_weight";
  DepthwiseConv2d d = prepare_depthwise_conv2d_grad_weight(grad, x, kernel_h, kernel_w, stride_h, stride_w, pad_top,
                                                           pad_left, dilation_h, dilation_w, float32);
  if (d.weight.numel() == 0) return d.weight;
  if (d.in.numel() == 0) return torch::stable::zero_(d.weight);
  const auto line = [](const ConvAxis& a) {
    return depthwise::Line{a.in, a.out, a.taps, 1, a.stride, a.pad, a.dilation};
  };
  depthwise::WeightGradient p{d.batch, d.channels, line(d.y), line(d.x), d.channels_last, d.in, d.out, d.weight};
  if (p.channels_last && depthwise::worth_transposing(p.y, p.x) && x.scalar_type() != ScalarType::Double)
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
