// depthwise_conv2d, forward and grad_input, for contiguous images and 3x3, 5x5 and 7x7 taps. A block brings some rows of
// a plane, or several small planes, into shared memory, each pixel once but for the rows that neighbouring blocks share.
// A thread computes kX by kY outputs in registers: it walks down the rows of its window, and adds each to all the
// outputs that it concerns, so that three vectors from shared memory feed up to 7 * 7 * 4 multiply-adds.
#include "depthwise_conv2d.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128;
constexpr int64_t kShared = 40 << 10;  // so that five blocks fit into a multiprocessor of sm_80 or newer

template <class T, class R>
struct Tile {
  static constexpr int kX = std::max<int>(kAccess / sizeof(T) / R::kDown, 1), kY = R::kUp == 2 ? 8 : 7;
  static constexpr int kStep = kX * R::kDown / R::kUp;                            // pixels to the next thread
  static constexpr int kVector = std::min<int>(kAccess / sizeof(T), kStep);       // read at once
  static constexpr int kLead = (R::kSame - R::kPhase) / R::kUp;                   // pixels before the first output
  static constexpr int kShift = kLead ? 4 - kLead : 0;                            // so that images start at a vector
  static constexpr int kRow = (kShift + R::span(kX) + kVector - 1) / kVector * kVector;
  static constexpr int kTaps = R::kTaps * R::kTaps, kTapPitch = (kTaps + 3) / 4 * 4;
};

template <class T>
struct PlanesOf {
  const T *in, *weight, *bias;
  T* out;
  int in_w, in_h, out_w, out_h, left, top;  // left, top: pixels of the patch before the first pixel
  int pitch, columns, staged_pitch, planes, all_planes, vector, lanes_log, out_vector, out_lanes_log;
  bool flipped, whole;  // whole: every vector of outputs is aligned, and not cut by the right edge
  int tap_bytes, bytes;
  Divider<uint32_t> blocks_x, blocks_y, tiles_x, tiles_y, rows, channels;  // rows of the patch
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock) planes(const __grid_constant__ PlanesOf<T> p) {
  using S = Tile<T, R>;
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  A* const shared_taps = reinterpret_cast<A*>(shared);
  T* const patch = reinterpret_cast<T*>(shared + p.tap_bytes);
  clear(patch, p.bytes - p.tap_bytes);
  uint32_t group = blockIdx.x;
  const int bx = int(p.blocks_x.split(group)) * int(p.tiles_x.divisor) * S::kX;
  const int by = int(p.blocks_y.split(group)) * int(p.tiles_y.divisor) * S::kY;
  const int first = int(group) * p.planes, count = min(p.planes, p.all_planes - first);
  for (int i = threadIdx.x; i < count * S::kTaps; i += kBlock) {
    const int plane = i / S::kTaps, k = i % S::kTaps;
    uint32_t rest = first + plane;
    const int channel = int(p.channels.split(rest));
    shared_taps[plane * S::kTapPitch + k] =
        widen(p.weight[int64_t(channel) * S::kTaps + (p.flipped ? S::kTaps - 1 - k : k)]);
  }
  __syncthreads();
  const Patch<T> to{patch, p.pitch, by / R::kUp * R::kDown - p.top, bx / R::kUp * R::kDown - p.left, p.columns, p.rows};
  const int64_t in_plane = int64_t(p.in_h) * p.in_w, out_plane = int64_t(p.out_h) * p.out_w;
  load_patch(to, p.in + first * in_plane, count, in_plane, p.in_h, p.in_w, p.vector, p.lanes_log);
  wait_copies();
  __syncthreads();

  uint32_t plane = threadIdx.x;
  const int tx = int(p.tiles_x.split(plane)), ty = int(p.tiles_y.split(plane));
  const bool busy = int(plane) < count;
  A sum[S::kY][S::kX][1] = {};
  if (busy) {
    A taps[S::kTaps][1];
#pragma unroll
    for (int k = 0; k < S::kTaps; ++k) taps[k][0] = shared_taps[plane * S::kTapPitch + k];
    uint32_t rest = first + plane;
    const A bias = p.bias ? widen(p.bias[p.channels.split(rest)]) : A(0);
#pragma unroll
    for (int y = 0; y < S::kY; ++y)
#pragma unroll
      for (int x = 0; x < S::kX; ++x) sum[y][x][0] = bias;
    const T* const window =
        patch + (int(plane) * int(p.rows.divisor) + ty * (S::kY * R::kDown / R::kUp)) * p.pitch + tx * S::kStep;
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
      add_row<R>(i, taps, row, S::kShift, sum);
    }
  }

  T* const out = p.out + first * out_plane;
  using V = Vector<T, S::kX>;
  if (!p.whole) __syncthreads();  // the results take the place of the patch, so that rows are written as a whole
  if (busy) {
    const int ox = bx + tx * S::kX, oy = by + ty * S::kY;
#pragma unroll
    for (int y = 0; y < S::kY; ++y) {
      V vector;
#pragma unroll
      for (int x = 0; x < S::kX; ++x) vector.at[x] = narrow<T>(sum[y][x][0]);
      if (!p.whole)
        *reinterpret_cast<V*>(patch + ((plane * p.tiles_y.divisor + ty) * S::kY + y) * p.staged_pitch + tx * S::kX) =
            vector;
      else if (oy + y < p.out_h && ox < p.out_w)
        *reinterpret_cast<V*>(out + plane * out_plane + int64_t(oy + y) * p.out_w + ox) = vector;
    }
  }
  if (p.whole) return;
  __syncthreads();
  const int lane = threadIdx.x & ((1 << p.out_lanes_log) - 1), rows = int(p.tiles_y.divisor) * S::kY;
  const int width = min(int(p.tiles_x.divisor) * S::kX, p.out_w - bx);
  const auto store = [&](auto sample) {
    using W = decltype(sample);
    constexpr int kWidth = sizeof(W) / sizeof(T);
    for (int r = threadIdx.x >> p.out_lanes_log; r < count * rows; r += kBlock >> p.out_lanes_log) {
      const int at = r / rows, y = by + r % rows;
      if (y >= p.out_h) continue;
      T* const to_row = out + at * out_plane + int64_t(y) * p.out_w + bx;
      for (int c = lane * kWidth; c < width; c += kWidth << p.out_lanes_log)
        *reinterpret_cast<W*>(to_row + c) = *reinterpret_cast<const W*>(patch + r * p.staged_pitch + c);
    }
  };
  if (p.out_vector == 4)
    store(Vector<T, 4>());
  else if (p.out_vector == 2)
    store(Vector<T, 2>());
  else
    store(Vector<T, 1>());
}

template <class T, class R>
bool launch(const Correlation& p, cudaStream_t stream) {
  using S = Tile<T, R>;
  using A = acc_t<T>;
  const auto before = [](const Line& a) { return (a.pad - R::kPhase) / R::kUp; };
  if ((p.x.pad - R::kPhase) % R::kUp != 0 || (p.y.pad - R::kPhase) % R::kUp != 0) return false;
  const int64_t all = p.batch * p.channels;
  const int64_t all_x = ceil_div(p.x.out, S::kX), all_y = ceil_div(p.y.out, S::kY);
  int64_t tiles_x = ceil_div(all_x, ceil_div(all_x, 56)), tiles_y = std::max<int64_t>(kBlock / tiles_x, 1);
  tiles_y = ceil_div(all_y, ceil_div(all_y, tiles_y));
  int64_t planes = tiles_x == all_x && tiles_y == all_y ? std::max<int64_t>(kBlock / (tiles_x * tiles_y), 1) : 1;

  int64_t pitch, rows, staged_pitch, tap_bytes, bytes;
  const auto measure = [&] {
    pitch = round_up((tiles_x - 1) * S::kStep + S::kRow, kAccess / sizeof(T));
    rows = (tiles_y - 1) * S::kY * R::kDown / R::kUp + R::span(S::kY);
    staged_pitch = tiles_x * S::kX;
    tap_bytes = planes * S::kTapPitch * sizeof(A);
    bytes = tap_bytes +
            round_up(planes * std::max(rows * pitch, tiles_y * S::kY * staged_pitch) * sizeof(T), kAccess);
  };
  for (measure(); bytes > kShared && planes > 1; measure()) planes = (planes + 1) / 2;
  for (; bytes > kShared && tiles_y > 1; measure()) tiles_y = (tiles_y + 1) / 2;
  for (; bytes > kShared && tiles_x > 1; measure()) tiles_x = (tiles_x + 1) / 2;
  const int64_t blocks_x = ceil_div(all_x, tiles_x), blocks_y = ceil_div(all_y, tiles_y), groups = ceil_div(all, planes);
  if (bytes > 48 << 10 || all >= kMost || groups * blocks_x > kMost / blocks_y) return false;

  PlanesOf<T> q{};
  q.in = static_cast<const T*>(p.in), q.weight = static_cast<const T*>(p.weight);
  q.bias = static_cast<const T*>(p.bias), q.out = static_cast<T*>(p.out);
  q.in_w = int(p.x.in), q.in_h = int(p.y.in), q.out_w = int(p.x.out), q.out_h = int(p.y.out);
  q.left = int(before(p.x) + S::kShift), q.top = int(before(p.y));
  q.pitch = int(pitch), q.columns = int((tiles_x - 1) * S::kStep + S::kRow), q.staged_pitch = int(staged_pitch);
  q.planes = int(planes), q.all_planes = int(all), q.flipped = p.flipped;
  q.vector = row_vector<T>(p.in, p.x.in, blocks_x > 1 ? std::gcd<int64_t>(q.left, tiles_x * S::kStep) : q.left);
  q.lanes_log = row_lanes(ceil_div(std::min<int64_t>(q.columns, q.in_w), q.vector));
  q.out_vector = std::min(row_vector<T>(p.out, p.x.out), S::kX);
  q.out_lanes_log = row_lanes(ceil_div(std::min<int64_t>(staged_pitch, q.out_w), q.out_vector));
  q.whole = p.x.out % S::kX == 0 && reinterpret_cast<uintptr_t>(p.out) % (S::kX * sizeof(T)) == 0;
  q.tap_bytes = int(tap_bytes), q.bytes = int(bytes);
  q.blocks_x = Divider<uint32_t>(blocks_x), q.blocks_y = Divider<uint32_t>(blocks_y);
  q.tiles_x = Divider<uint32_t>(tiles_x), q.tiles_y = Divider<uint32_t>(tiles_y);
  q.rows = Divider<uint32_t>(rows), q.channels = Divider<uint32_t>(p.channels);
  depthwise::planes<T, R><<<unsigned(groups * blocks_x * blocks_y), kBlock, bytes, stream>>>(q);
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

bool launch_planes(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
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
