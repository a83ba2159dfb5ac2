// depthwise_conv2d, forward and grad_input, for contiguous images and 3x3, 5x5 and, at stride 1, 7x7 taps. A block
// brings some rows of a plane, or several small planes, into shared memory, each pixel once but for the rows that
// neighbouring blocks share. A thread computes kX by kY outputs in registers: it walks down the rows of its window, and
// adds each to all the outputs that it concerns, so that three vectors from shared memory feed up to 7 * 7 * 4
// multiply-adds.
#include "depthwise_conv2d_load.cuh"
#include "depthwise_conv2d_split.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128;
constexpr int64_t kShared = 24 << 10;  // an image's part; those of the next images may be on their way meanwhile

template <class T, class R>
struct Tile {
  static constexpr int kX = sizeof(T) == 2 && R::kUp == 2 ? 8 : (sizeof(T) == 4 && R::kDown == 2 ? 2 : 4);
  static constexpr int kY = R::kUp == 1 ? 7 : 32 / kX;
  static constexpr int kStep = kX * R::kDown / R::kUp;                       // pixels to the next thread
  static constexpr int kVector = std::min<int>(kAccess / sizeof(T), kStep);  // read at once
  static constexpr int kLead = (R::kSame - R::kPhase) / R::kUp;              // pixels before the first output
  static constexpr int kShift = kLead ? 4 - kLead : 0;                       // so that images start at a vector
  static constexpr int kRow = (kShift + R::span(kX) + kVector - 1) / kVector * kVector;
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

template <class T>
struct PlanesOf {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, left, top;  // left, top: pixels of the patch before the first pixel
  int pitch, rows, columns, planes, channels, batch, images_a_split, stages, patch_bytes, load_bytes, store_bytes;
  bool flipped, whole, pairs;  // whole: every vector of outputs is aligned, and not cut by the right edge
  Divider<uint32_t> blocks_x, blocks_y, tiles_x, tiles_y;
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock, 4) planes(const __grid_constant__ PlanesOf<T> p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 2 && R::kTaps > 3 && R::kUp == 1 && R::kDown == 1) return;  // see launch_planes
#endif
  using S = Tile<T, R>;
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  clear(shared, p.stages * p.patch_bytes);
  uint32_t group = blockIdx.x;
  const int bx = int(p.blocks_x.split(group)) * int(p.tiles_x.divisor) * S::kX;
  const int by = int(p.blocks_y.split(group)) * int(p.tiles_y.divisor) * S::kY;
  const int channel = int(group) * p.planes, count = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  uint32_t rest = threadIdx.x;
  const int tx = int(p.tiles_x.split(rest)), ty = int(p.tiles_y.split(rest)), plane = int(rest);
  const bool busy = plane < count;

  A taps[S::kTaps][1];
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k)
    taps[k][0] = busy ? p.weight[int64_t(channel + plane) * S::kTaps + (p.flipped ? S::kTaps - 1 - k : k)] : A(0);
  const A bias = busy && p.bias ? p.bias[channel + plane] : A(0);

  const PlanesPlace place(by / R::kUp * R::kDown - p.top, bx / R::kUp * R::kDown - p.left, p.rows, p.columns, p.pitch,
                          p.in_h, p.in_w, p.load_bytes / int(sizeof(T)));
  const Loads<8, PlanesPlace> loads(place, place.all(count));
  const int64_t in_image = int64_t(p.channels) * p.in_h * p.in_w, out_plane = int64_t(p.out_h) * p.out_w;
  const T* in = p.in + int64_t(begin) * in_image + int64_t(channel) * p.in_h * p.in_w;
  T* out = p.out + (int64_t(begin) * p.channels + channel) * out_plane + int64_t(by) * p.out_w;
  const int window = (plane * p.rows + ty * (S::kY * R::kDown / R::kUp)) * p.pitch + tx * S::kStep;
  const int ox = tx * S::kX, oy = ty * S::kY;  // within the block
  const int out_rows = min(int(p.tiles_y.divisor) * S::kY, p.out_h - by), out_columns = p.out_w - bx;

  const auto bring = [&](int stage) {
    loads.template issue_bytes<sizeof(T) * 4>(p.load_bytes, reinterpret_cast<T*>(shared + stage * p.patch_bytes), in);
    in += in_image;
  };
  const auto compute = [&](int stage) {
    T* const patch = reinterpret_cast<T*>(shared + stage * p.patch_bytes);
    A sum[S::kY][S::kX][1];
#pragma unroll
    for (int y = 0; y < S::kY; ++y)
#pragma unroll
      for (int x = 0; x < S::kX; ++x) sum[y][x][0] = bias;
    if (busy) {
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i) {
        using V = Vector<T, S::kVector>;
        const V* const from = reinterpret_cast<const V*>(patch + window + i * p.pitch);
        A row[S::kRow][1];
#pragma unroll
        for (int j = 0; j < S::kRow / S::kVector; ++j) {
          const V vector = from[j];
#pragma unroll
          for (int v = 0; v < S::kVector; ++v) row[j * S::kVector + v][0] = widen(vector.at[v]);
        }
        add_row<R>(i, taps, row, S::kShift, sum);
      }
    }
    using V = Vector<T, S::kX>;
    if (p.store_bytes == 0) {  // straight to memory
      if (busy && ox < out_columns) {
        T* const to = out + plane * out_plane + int64_t(oy) * p.out_w + bx + ox;
#pragma unroll
        for (int y = 0; y < S::kY; ++y) {
          if (oy + y >= out_rows) break;
          V vector;
#pragma unroll
          for (int x = 0; x < S::kX; ++x) vector.at[x] = narrow<T>(sum[y][x][0]);
          if (p.whole) {
            *reinterpret_cast<V*>(to + y * p.out_w) = vector;
          } else if (p.pairs) {
#pragma unroll
            for (int x = 0; x < S::kX; x += 2)
              if (ox + x < out_columns)
                *reinterpret_cast<Vector<T, 2>*>(to + y * p.out_w + x) = Vector<T, 2>{vector.at[x], vector.at[x + 1]};
          } else {
#pragma unroll
            for (int x = 0; x < S::kX; ++x)
              if (ox + x < out_columns) to[y * p.out_w + x] = vector.at[x];
          }
        }
      }
    } else {  // in the order of memory where the patch was, to write whole rows at once
      __syncthreads();
      if (busy) {
        T* const to = patch + (plane * out_rows + oy) * p.out_w + ox;
        constexpr int kPair = S::kX % 2 == 0 ? 2 : 1;
#pragma unroll
        for (int y = 0; y < S::kY; ++y) {
          if (oy + y >= out_rows) break;
          if (p.out_w % kPair == 0) {
#pragma unroll
            for (int x = 0; x < S::kX; x += kPair) {
              Vector<T, kPair> pair;
#pragma unroll
              for (int v = 0; v < kPair; ++v) pair.at[v] = narrow<T>(sum[y][x + v][0]);
              if (ox + x < out_columns) *reinterpret_cast<Vector<T, kPair>*>(to + y * p.out_w + x) = pair;
            }
          } else {
#pragma unroll
            for (int x = 0; x < S::kX; ++x)
              if (ox + x < out_columns) to[y * p.out_w + x] = narrow<T>(sum[y][x][0]);
          }
        }
      }
      __syncthreads();
      const int stored = count * out_rows * p.out_w;
      store_run(out, patch, stored, p.store_bytes, threadIdx.x, kBlock);
      __syncthreads();
      // Outputs lie where a later image of this stage has its border, which nobody writes again.
      clear(patch, (stored * int(sizeof(T)) + kAccess - 1) / kAccess * kAccess);
    }
    out += p.channels * out_plane;
  };
  for_images(end - begin, p.stages, bring, compute);
}

template <class T, class R>
bool launch(const Correlation& p, cudaStream_t stream) {
  using S = Tile<T, R>;
  const auto before = [](const Line& a) { return (a.pad - R::kPhase) / R::kUp; };
  if ((p.x.pad - R::kPhase) % R::kUp != 0 || (p.y.pad - R::kPhase) % R::kUp != 0) return false;
  const int64_t all_x = ceil_div(p.x.out, S::kX), all_y = ceil_div(p.y.out, S::kY);
  int64_t tiles_x = ceil_div(all_x, ceil_div(all_x, 64)), tiles_y = std::max<int64_t>(kBlock / tiles_x, 1);
  tiles_y = ceil_div(all_y, ceil_div(all_y, tiles_y));
  const auto one_plane = [&] { return tiles_x == all_x && tiles_y == all_y; };
  int64_t planes = one_plane() ? std::clamp<int64_t>(kBlock / (tiles_x * tiles_y), 1, p.channels) : 1;

  PlanesOf<T> q{};
  const auto too_large = [&] {
    q.pitch = int(round_up((tiles_x - 1) * S::kStep + S::kRow, kAccess / sizeof(T)));
    q.rows = int((tiles_y - 1) * S::kY * R::kDown / R::kUp + R::span(S::kY));
    const int64_t staged = tiles_x == all_x ? tiles_y * S::kY * p.x.out : 0;
    const int64_t bytes = round_up(planes * std::max(int64_t(q.rows) * q.pitch, staged) * sizeof(T), kAccess);
    q.patch_bytes = int(std::min<int64_t>(bytes, 1 << 30));
    return bytes > kShared;
  };
  while (too_large() && planes > 1) planes = (planes + 1) / 2;
  while (too_large() && tiles_y > 1) tiles_y = (tiles_y + 1) / 2;
  while (too_large() && tiles_x > 1) tiles_x = (tiles_x + 1) / 2;
  const int64_t blocks_x = ceil_div(all_x, tiles_x), blocks_y = ceil_div(all_y, tiles_y);
  const int64_t groups = ceil_div(p.channels, planes), an_image = groups * blocks_x * blocks_y;
  if (too_large() || p.batch >= kMost || p.channels >= kMost || blocks_x * blocks_y > kMost / groups ||
      p.y.in * p.x.in > kMost / planes)
    return false;
  const Split split = split_batch(p, sizeof(T), {an_image, kBlock, 128, q.patch_bytes, 0});
  q.images_a_split = split.images, q.stages = split.stages;
  while (q.stages > 1 && !allow_shared<depthwise::planes<T, R>>(q.stages * q.patch_bytes)) --q.stages;

  q.weight = Parameters<T>(p.weight), q.bias = Parameters<T>(p.bias);
  q.in = static_cast<const T*>(p.in), q.out = static_cast<T*>(p.out);
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.left = int(before(p.x) + S::kShift), q.top = int(before(p.y)),
  q.columns = int(round_up((tiles_x - 1) * S::kStep + S::kRow, 4));  // a multiple of every row_vector
  q.planes = int(planes), q.channels = int(p.channels), q.batch = int(p.batch), q.flipped = p.flipped;
  q.load_bytes = int(sizeof(T)) *
                 row_vector<T>(p.in, p.x.in, blocks_x > 1 ? std::gcd<int64_t>(q.left, tiles_x * S::kStep) : q.left);
  q.whole = p.x.out % S::kX == 0 && reinterpret_cast<uintptr_t>(p.out) % (S::kX * sizeof(T)) == 0;
  q.store_bytes = q.whole || blocks_x > 1
                      ? 0
                      : run_bytes<T>(p.out, p.y.out * p.x.out, blocks_y > 1 ? tiles_y * S::kY * p.x.out : 0);
  q.pairs = p.x.out % 2 == 0 && reinterpret_cast<uintptr_t>(p.out) % (2 * sizeof(T)) == 0;
  q.blocks_x = Divider<uint32_t>(blocks_x), q.blocks_y = Divider<uint32_t>(blocks_y);
  q.tiles_x = Divider<uint32_t>(tiles_x), q.tiles_y = Divider<uint32_t>(tiles_y);
  const dim3 grid(unsigned(an_image), unsigned(ceil_div(p.batch, q.images_a_split)));
  depthwise::planes<T, R><<<grid, kBlock, q.stages * q.patch_bytes, stream>>>(q);
  return true;
}

template <class T, int taps>
bool launch(const Correlation& p, cudaStream_t stream) {
  const auto is = [&](int up, int down) {
    return p.x.up == up && p.y.up == up && p.x.down == down && p.y.down == down;
  };
  if (is(1, 1)) return launch<T, Reach<1, 1, taps>>(p, stream);
  if constexpr (taps < 7) {
    if (is(1, 2)) return launch<T, Reach<1, 2, taps>>(p, stream);
    if (is(2, 1)) return launch<T, Reach<2, 1, taps>>(p, stream);
  }
  return false;
}

}  // namespace

bool launch_planes(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  if (p.x.taps != p.y.taps || p.x.dilation != 1 || p.y.dilation != 1 || !small(p.x) || !small(p.y)) return false;
  // Tensor cores are faster from 5x5 on; what launch_mma refuses, such as padding beyond the kernel, is rare.
  const bool unit = p.x.up * p.y.up * p.x.down * p.y.down == 1;
  if (dtype != ScalarType::Float && unit && p.x.taps > 3 && has_tensor_cores()) return false;
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
