// depthwise_conv2d, forward and grad_input, for channels_last images and 3x3, 5x5 and 7x7 taps, 5x5 also at stride 2. A
// block brings a tile of the image, channel_chunk deep, into shared memory, with zeros around the image, and goes
// through the batch: the next images' tiles are on their way meanwhile. Neighbouring threads take neighbouring
// channels, and keep their taps in registers: fewer channels for more taps. A thread computes kX by kY pixels, walking
// down the rows of its window.
#include "depthwise_conv2d_load.cuh"
#include "depthwise_conv2d_split.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kShared = 55 << 10;  // so that four tiles fit into a multiprocessor that has as much as sm_90

template <class R>
struct Region {
  static constexpr int kLanes = channel_lanes(R::kTaps);
  static constexpr int kX = R::kTaps == 7 ? 4 : 2;
  static constexpr int kY = R::kUp == 2 || R::kTaps == 3 ? 4 : 7;
  static constexpr int kTaps = R::kTaps * R::kTaps;
  static constexpr int kStepX = kX * R::kDown / R::kUp, kStepY = kY * R::kDown / R::kUp;  // pixels to the next thread
};

template <class T>
struct PixelsOf {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, channels, left, top;  // left, top: pixels before the first
  int members, tiles, batch, images_a_split, stages, load_bytes;
  bool flipped;
  PixelsTile tile;
  Divider<uint32_t> chunk, chunks, blocks_x, tiles_x;  // a chunk: vectors of channels; tiles: of threads
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock, 2) pixels(const __grid_constant__ PixelsOf<T> p) {
  using S = Region<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  constexpr int kSpan = R::span(S::kX);
  extern __shared__ __align__(kAccess) char shared[];
  const int elements = p.tile.rows * p.tile.columns * p.tile.pixel;
  const int stage_elements = (elements + kAccess - 1) / kAccess * kAccess;
  T* const patches = reinterpret_cast<T*>(shared);
  clear(shared, p.stages * stage_elements * int(sizeof(T)));
  uint32_t rest = blockIdx.x, member = threadIdx.x;
  const int first_channel = int(p.chunks.split(rest)) * p.tile.pixel;
  const int vector = int(p.chunk.split(member)) * S::kLanes, channel = first_channel + vector;
  const int bx = int(p.blocks_x.split(rest)) * int(p.tiles_x.divisor) * S::kX;
  const int by = int(rest) * (p.tiles / int(p.tiles_x.divisor)) * S::kY;
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  const bool busy = int(member) < p.members && channel < p.channels;
  A taps[S::kTaps][S::kLanes], bias[S::kLanes];
#pragma unroll
  for (int v = 0; v < S::kLanes; ++v) bias[v] = busy && p.bias ? p.bias[channel + v] : A(0);
  p.weight.visit([&](const auto& element) {
#pragma unroll
    for (int v = 0; v < S::kLanes; ++v)
#pragma unroll
      for (int k = 0; k < S::kTaps; ++k)
        taps[k][v] = busy ? widen(element(int64_t(channel + v) * S::kTaps + (p.flipped ? S::kTaps - 1 - k : k))) : A(0);
  });
  const PixelsPlace place{p.tile,
                          by / R::kUp * R::kDown - p.top,
                          bx / R::kUp * R::kDown - p.left,
                          p.in_h,
                          p.in_w,
                          p.channels - first_channel,
                          p.channels};
  const Loads<4, PixelsPlace> loads(place, place.all());
  const int64_t in_image = int64_t(p.in_h) * p.in_w * p.channels, out_image = int64_t(p.out_h) * p.out_w * p.channels;
  const T* in = p.in + begin * in_image + first_channel;
  T* out = p.out + begin * out_image + channel;
  const int row_step = p.tile.columns * p.tile.pixel;
  const auto bring = [&](int stage) {
    loads.issue_bytes(p.load_bytes, patches + stage * stage_elements, in);
    in += in_image;
  };
  const auto compute = [&](int stage) {
    const T* const patch = patches + stage * stage_elements + vector;
    for (int t = busy ? int(member) : p.tiles; t < p.tiles; t += p.members) {
      uint32_t ty = t;
      const int tx = int(p.tiles_x.split(ty)), ox = bx + tx * S::kX, oy = by + int(ty) * S::kY;
      if (ox >= p.out_w || oy >= p.out_h) continue;
      const T* from = patch + int(ty) * S::kStepY * row_step + tx * S::kStepX * p.tile.pixel;
      A sum[S::kY][S::kX][S::kLanes];
#pragma unroll
      for (int y = 0; y < S::kY; ++y)
#pragma unroll
        for (int x = 0; x < S::kX; ++x)
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) sum[y][x][v] = bias[v];
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i, from += row_step) {
        A row[kSpan][S::kLanes];
#pragma unroll
        for (int j = 0; j < kSpan; ++j) {
          const V value = *reinterpret_cast<const V*>(from + j * p.tile.pixel);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) row[j][v] = widen(value.at[v]);
        }
        add_row<R>(i, taps, row, 0, sum);
      }
      T* to = out + (int64_t(oy) * p.out_w + ox) * p.channels;
#pragma unroll
      for (int y = 0; y < S::kY; ++y, to += p.out_w * p.channels) {
        if (oy + y >= p.out_h) break;
#pragma unroll
        for (int x = 0; x < S::kX; ++x) {
          V value;
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) value.at[v] = narrow<T>(sum[y][x][v]);
          if (ox + x < p.out_w) *reinterpret_cast<V*>(to + x * p.channels) = value;
        }
      }
    }
    out += out_image;
  };
  for_images(end - begin, p.stages, bring, compute);
}

template <class T, class R>
bool launch(const Correlation& p, cudaStream_t stream) {
  using S = Region<R>;
  using V = Vector<T, S::kLanes>;
  if ((p.x.pad - R::kPhase) % R::kUp != 0 || (p.y.pad - R::kPhase) % R::kUp != 0) return false;
  if (p.channels % S::kLanes != 0 || reinterpret_cast<uintptr_t>(p.in) % sizeof(V) != 0 ||
      reinterpret_cast<uintptr_t>(p.out) % sizeof(V) != 0 || p.channels >= kMost || p.batch >= kMost ||
      std::max(p.y.in * p.x.in, p.y.out * p.x.out) > kMost / p.channels)
    return false;
  const int64_t vectors = p.channels / S::kLanes, chunk = channel_chunk(vectors, S::kLanes, sizeof(V));
  const int64_t chunks = ceil_div(vectors, chunk), members = kBlock / chunk;
  const int64_t all_x = ceil_div(p.x.out, S::kX), all_y = ceil_div(p.y.out, S::kY);
  const int64_t pixel = chunk * S::kLanes, vector = channel_vector<T>(p.in, p.in, p.channels, pixel);
  const auto rows = [](int64_t y) { return (y - 1) * S::kStepY + R::span(S::kY); };
  const auto columns = [](int64_t x) { return (x - 1) * S::kStepX + R::span(S::kX); };
  const auto [tiles_x, tiles_y] = tiles_of_block(all_x, all_y, members, [&](int64_t x, int64_t y) {
    const int64_t read = rows(y) * columns(x);
    return read * pixel * int64_t(sizeof(T)) <= kShared ? read : 0;
  });
  PixelsOf<T> q{};
  q.tile = PixelsTile(rows(tiles_y), columns(tiles_x), pixel, vector);
  q.weight = Parameters<T>(p.weight), q.bias = Parameters<T>(p.bias);
  q.in = static_cast<const T*>(p.in), q.out = static_cast<T*>(p.out);
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.channels = int(p.channels), q.flipped = p.flipped, q.batch = int(p.batch);
  q.left = int((p.x.pad - R::kPhase) / R::kUp), q.top = int((p.y.pad - R::kPhase) / R::kUp);
  q.tiles = int(tiles_x * tiles_y), q.members = int(std::min<int64_t>(members, q.tiles)),
  q.load_bytes = int(vector * sizeof(T));
  const int64_t blocks_x = ceil_div(all_x, tiles_x), blocks_y = ceil_div(all_y, tiles_y);
  if (blocks_x * blocks_y > kMost / chunks) return false;
  const int64_t stage = round_up(q.tile.elements(), kAccess) * int64_t(sizeof(T));
  const int64_t threads = round_up(q.members * chunk, kWarp);
  const BlockNeeds needs{chunks * blocks_x * blocks_y, threads, 128, stage, 0, q.load_bytes == 16};
  const Split split = split_batch(p, sizeof(T), needs);
  q.images_a_split = split.images, q.stages = split.stages;
  while (q.stages > 1 && !allow_shared<pixels<T, R>>(q.stages * stage)) --q.stages;
  if (!allow_shared<pixels<T, R>>(q.stages * stage)) return false;
  q.chunk = Divider<uint32_t>(chunk), q.chunks = Divider<uint32_t>(chunks);
  q.blocks_x = Divider<uint32_t>(blocks_x), q.tiles_x = Divider<uint32_t>(tiles_x);
  const dim3 grid(unsigned(chunks * blocks_x * blocks_y), unsigned(ceil_div(p.batch, q.images_a_split)));
  pixels<T, R><<<grid, unsigned(threads), q.stages * stage, stream>>>(q);
  return true;
}

template <class T, int taps>
bool launch(const Correlation& p, cudaStream_t stream) {
  const auto is = [&](int up, int down) {
    return p.x.up == up && p.y.up == up && p.x.down == down && p.y.down == down;
  };
  if (is(1, 1)) return launch<T, Reach<1, 1, taps>>(p, stream);
  if constexpr (taps == 5) {
    if (is(1, 2)) return launch<T, Reach<1, 2, taps>>(p, stream);
    if (is(2, 1)) return launch<T, Reach<2, 1, taps>>(p, stream);
  }
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
