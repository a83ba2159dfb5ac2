// The gradient of depthwise_conv2d's weight for float16 and bfloat16 images, 5x5 and 7x7 taps, stride 1, and 7x7 at
// stride 2, on tensor cores.
//
// For one channel and one row of taps, 16 rows of the image, transposed, times the same rows of the gradient, is a
// matrix with the product of every column of the image and every column of the gradient, summed over the rows. Its
// diagonals belong to the taps of that row. Eight columns of the gradient meet 16 of the image at stride 1, 32 at
// stride 2; all such products of a channel, of all images, add to the same matrix, so that diagonals are added up only
// once, in the end. The rows of the image stay in registers, those of the gradient are shifted for each row of taps; at
// stride 2, even and odd rows of the image take turns.
//
//   grad_multiply         contiguous images: a warp has a plane of up to 16 rows, or so many rows of a larger one;
//   grad_multiply_pixels  channels_last: 16 channels of a patch are sorted into planes first, in shared memory.
//
// Zeros times infinity are NaN: where a sum is not finite, it is computed again, without what lies outside the images.
#include "depthwise_conv2d.cuh"
#include "matrices.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kWarps = 4, kBlock = kWarps * kWarp, kColumns = 8, kRows = 16;
constexpr int kMostSteps = 4096;  // products that a sum takes: tensor cores round each towards zero

template <class T>
struct GradMmaOf {
  const T *in, *grad;
  float* partial;
  int in_h, in_w, out_h, out_w, pad_h, pad_w, shift;
  int top, left, grad_top;  // rows and columns before the images' first, in shared memory
  int pitch, grad_pitch, rows, grad_rows, steps, channels, batch, images_a_split, stages;
  int grad_at, stage_bytes, bytes;
};

template <class T>
struct GradMmaPlanesOf : GradMmaOf<T> {
  int units, planes, bands, vector, grad_vector;
};

constexpr int kTogether = 16;  // channels of a channels_last image that a block takes: whole sectors of 32 bytes

template <class T>
struct GradMmaPixelsOf : GradMmaOf<T> {
  PixelsTile tile, grad_tile;  // as brought in; the rows and columns around them are zero
  int lead, grad_lead;         // elements before these, in a plane
  int plane, grad_plane, planes_at, grad_planes_at, spatial;
  Divider<uint32_t> chunks, blocks_x, pairs, grad_pairs;
};

// How rows of images and of taps meet: row r of an image, the top'th of shared memory, and row k of the taps belong to
// row r / kDown - k / kDown of the gradient, if r - k is a multiple of kDown.
template <int down, int taps>
struct GradMmaTile {
  static constexpr int kDown = down, kTaps = taps;
  static constexpr int kLoads = ((taps + down - 1) / down + 1) / 2;  // of the gradient, with two shifts each
  static constexpr int kShifts = 2 * kLoads;
  static constexpr int kGroups = 2 * down;  // columns of the image under eight of the gradient, by eight
  static constexpr int kLines = taps * kGroups * kColumns;
  static_assert(7 * down + taps <= kGroups * kColumns);
};

// Where a lane reads its rows of the matrices, in elements from the first row and column of a patch.
template <class S>
struct LanePlace {
  int lane = threadIdx.x % kWarp;
  int in_row = S::kDown == 1 ? lane / 16 * 8 + lane % 8 : lane % 8 * 2;
  int in_column = (S::kDown == 1 ? lane / 8 % 2 : lane / 8) * kColumns;
  int grad_row = S::kShifts - 1 + lane % 16 - lane / 16;
};

// Adds the products of kRows rows of the image and eight columns of the gradient.
template <class T, class S>
__device__ void add_products(unsigned from, unsigned grads, int pitch, int grad_pitch,
                             float (&sum)[S::kTaps][S::kDown][4]) {
  uint32_t a[S::kDown][S::kDown][4], b[S::kLoads][4];  // a: of even and odd rows, for each 16 columns
#pragma unroll
  for (int i = 0; i < S::kDown; ++i) {
    const unsigned row = from + i * pitch * unsigned(sizeof(T));
    if constexpr (S::kDown == 1) {
      load_matrices<true>(a[i][0], row);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t four[4];
        load_matrices<true>(four, row + half * 16 * pitch * unsigned(sizeof(T)));
#pragma unroll
        for (int j = 0; j < 4; ++j) a[i][j / 2][half * 2 + j % 2] = four[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < S::kLoads; ++i) load_matrices<true>(b[i], grads - i * 2 * grad_pitch * unsigned(sizeof(T)));
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k)
#pragma unroll
    for (int j = 0; j < S::kDown; ++j)
      multiply_16<T>(sum[k][j], a[k % S::kDown][j], b[k / S::kDown / 2] + k / S::kDown % 2 * 2);
}

constexpr int kLinePitch = kColumns + 1;  // odd: no two lanes in one bank

// Adds up the diagonals of a warp's products into `to`, by way of kLines lines of its own in shared memory.
template <class S>
__device__ void add_diagonals(const float (&sum)[S::kTaps][S::kDown][4], int shift, float* lines, float* to) {
  constexpr int kAll = S::kTaps * S::kTaps, kTapLines = S::kLines / S::kTaps;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k)
#pragma unroll
    for (int j = 0; j < S::kDown; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        lines[(k * kTapLines + j * 16 + i / 2 * 8 + lane / 4) * kLinePitch + lane % 4 * 2 + i % 2] = sum[k][j][i];
  __syncwarp();
  for (int k = lane; k < kAll; k += kWarp) {
    const float* const from = lines + (k / S::kTaps * kTapLines + k % S::kTaps + shift) * kLinePitch;
    float total = 0;
#pragma unroll
    for (int x = 0; x < kColumns; ++x) total += from[x * (S::kDown * kLinePitch + 1)];
    to[k] = total;
  }
  __syncwarp();
}

// The sum of tap k over columns x0 to x1 of the gradient and rows y0 to y1 of the image, by a warp: slow, and exact
// where there are infinities. `in` and `grad` are a channel's; `pixel` elements from one pixel to the next.
template <class T, class S>
__device__ float tap_by_tap(const GradMmaOf<T>& p, const T* in, const T* grad, int pixel, int k, int x0, int x1, int y0,
                            int y1) {
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  const int64_t in_image = int64_t(p.channels) * p.in_h * p.in_w, out_image = int64_t(p.channels) * p.out_h * p.out_w;
  const int ky = k / S::kTaps, kx = k % S::kTaps, width = x1 - x0;
  float total = 0;
  for (int n = begin; n < end; ++n)
    for (int o = threadIdx.x % kWarp; o < p.out_h * width; o += kWarp) {
      const int oy = o / width, ox = x0 + o % width, iy = oy * S::kDown + ky - p.pad_h,
                ix = ox * S::kDown + kx - p.pad_w;
      if (iy >= y0 && iy < y1 && ix >= 0 && ix < p.in_w)
        total += widen(grad[n * out_image + int64_t(oy * p.out_w + ox) * pixel]) *
                 widen(in[n * in_image + int64_t(iy * p.in_w + ix) * pixel]);
    }
  for (int other = kWarp / 2; other > 0; other /= 2) total += __shfl_xor_sync(0xffffffff, total, other);
  return total;
}

// Writes n sums by a block's threads: total(i), or again(i), by a whole warp, where that is not finite.
template <class Total, class Again>
__device__ void write_sums(float* out, int n, const Total& total, const Again& again) {
  const int lane = threadIdx.x % kWarp;
  for (int first = threadIdx.x - lane; first < n; first += blockDim.x) {
    const int i = first + lane;
    const float sum = i < n ? total(i) : 0.0f;
    if (i < n) out[i] = sum;
    for (unsigned wrong = __ballot_sync(0xffffffff, !isfinite(sum)); wrong != 0; wrong &= wrong - 1) {
      const int at = first + __ffs(wrong) - 1;
      const float right = again(at);
      if (at == i) out[i] = right;
    }
  }
}

template <class T, class S>
__global__ void __launch_bounds__(kBlock, S::kDown == 1 ? 5 : 4)
    grad_multiply(const __grid_constant__ GradMmaPlanesOf<T> p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kAll = S::kTaps * S::kTaps, kStep = kColumns * int(sizeof(T));
  extern __shared__ __align__(kAccess) char shared[];
  const unsigned patches = shared_address(shared);
  const int warp = threadIdx.x / kWarp;
  const int channel = int(blockIdx.x) * p.planes, count = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  const int64_t in_image = int64_t(p.channels) * p.in_h * p.in_w, out_image = int64_t(p.channels) * p.out_h * p.out_w;
  const int plane = warp / p.units, unit = warp % p.units;

  const LanePlace<S> own;
  const unsigned to_in =
      ((plane * p.rows + unit * kRows * S::kDown + own.in_row) * p.pitch + own.in_column) * unsigned(sizeof(T));
  const unsigned to_grad =
      p.grad_at + (plane * p.grad_rows + unit * kRows + own.grad_row) * p.grad_pitch * unsigned(sizeof(T));
  float sum[S::kTaps][S::kDown][4] = {};
  for (int band = 0; band < p.bands; ++band) {
    const int first = band * p.units * kRows;
    __syncthreads();
    clear(shared, p.bytes);
    const auto place = [&] {
      return PlanesPlace(first * S::kDown - p.top, -p.left, p.rows, p.pitch, p.pitch, p.in_h, p.in_w, p.vector);
    };
    const auto grad_place = [&] {
      return PlanesPlace(first - p.grad_top, 0, p.grad_rows, p.grad_pitch, p.grad_pitch, p.out_h, p.out_w,
                         p.grad_vector);
    };
    const Run<kBlock, T, decltype(place)> run(place, count);
    const Run<kBlock, T, decltype(grad_place)> grad_run(grad_place, count);
    const T* in = p.in + int64_t(begin) * in_image + int64_t(channel) * p.in_h * p.in_w + run.first;
    const T* grad_in = p.grad + int64_t(begin) * out_image + int64_t(channel) * p.out_h * p.out_w + grad_run.first;
    const auto bring = [&](int stage) {
      const unsigned patch = patches + stage * p.stage_bytes;
      run.issue(p.vector, patch, in);
      grad_run.issue(p.grad_vector, patch + p.grad_at, grad_in);
      in += in_image, grad_in += out_image;
    };
    const auto compute = [&](int stage) {
      if (plane >= count) return;  // or too many warps
      unsigned from = patches + stage * p.stage_bytes + to_in, grads = patches + stage * p.stage_bytes + to_grad;
#pragma unroll 2
      for (int step = 0; step < p.steps; ++step) {
        add_products<T, S>(from, grads, p.pitch, p.grad_pitch, sum);
        from += kStep * S::kDown, grads += kStep;
      }
    };
    for_images(end - begin, p.stages, bring, compute);
  }

  float* const sums = reinterpret_cast<float*>(shared);
  __syncthreads();
  add_diagonals<S>(sum, p.shift, sums + kWarps * kAll + warp * S::kLines * kLinePitch, sums + warp * kAll);
  __syncthreads();
  const auto total = [&](int i) {
    float total = 0;
    for (int u = 0; u < p.units; ++u) total += sums[(i / kAll * p.units + u) * kAll + i % kAll];
    return total;
  };
  const auto again = [&](int i) {
    const int64_t plane = channel + i / kAll;
    return tap_by_tap<T, S>(p, p.in + plane * p.in_h * p.in_w, p.grad + plane * p.out_h * p.out_w, 1, i % kAll, 0,
                            p.out_w, 0, p.in_h);
  };
  write_sums(p.partial + (int64_t(blockIdx.y) * p.channels + channel) * kAll, count * kAll, total, again);
#endif
}

// Channels side by side: the two halves of the channels of four pixels change places with those of the next four, so
// that no two pixels of a matrix lie in one bank.
struct SwizzledPlace : PixelsPlace {
  __device__ void operator()(int i, int& to, int& from) const {
    PixelsPlace::operator()(i, to, from);
    to ^= to >> 3 & 8;
  }
};

// Sorts pixels of a tile by channel, into planes `plane` bytes apart: by 16 pixels, from the first to before the last
// of these; `pairs` of them are a line, after which the planes have `beyond` bytes more.
__device__ inline void sort_by_channel(unsigned tile, unsigned planes, int plane, int first, int last,
                                       Divider<uint32_t> pairs, int beyond) {
  const int lane = threadIdx.x % kWarp;
  tile += (lane % 8 + lane / 16 * 8) * 32 + ((lane / 8 ^ lane / 4) & 1) * 16;
  planes += lane / 4 * plane + lane % 4 * 4;
  for (int i = first + threadIdx.x / kWarp; i < last; i += blockDim.x / kWarp) {
    uint32_t four[4], line = i;
    pairs.split(line);
    load_matrices<true>(four, tile + i * 512);
    const unsigned to = planes + i * 32 + line * beyond;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + j / 2 * 16 + j % 2 * 8 * plane), "r"(four[j]) : "memory");
  }
}

// kOwn: planes of a warp. Two, where so many of these blocks fit into a multiprocessor that their warps keep it busy.
template <int own>
struct PixelsBlock {
  static constexpr int kOwn = own, kWarps = kTogether / own, kThreads = kWarps * kWarp;
  static constexpr int at_once(int taps) { return own == 1 ? 1 : (taps == 5 ? 3 : 2); }  // on a multiprocessor
};

template <class T, class S, class B>
__global__ void __launch_bounds__(B::kThreads, B::at_once(S::kTaps))
    grad_multiply_pixels(const __grid_constant__ GradMmaPixelsOf<T> p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kAll = S::kTaps * S::kTaps, kStep = kColumns * int(sizeof(T));
  extern __shared__ __align__(kAccess) char shared[];
  T* const patches = reinterpret_cast<T*>(shared);
  const unsigned start = shared_address(shared);
  clear(shared, p.bytes);
  uint32_t rest = blockIdx.x;
  const int channel = int(p.chunks.split(rest)) * kTogether, spatial = int(rest);
  const int bx = int(p.blocks_x.split(rest)) * p.steps * kColumns, by = int(rest) * kRows;
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  const int y = by * S::kDown - p.top + p.lead / p.pitch, x = bx * S::kDown - p.left + p.lead % p.pitch;
  const int grad_y = by - p.grad_top + p.grad_lead / p.grad_pitch;
  const SwizzledPlace place{{p.tile, y, x, p.in_h, p.in_w, p.channels - channel, p.channels}};
  const SwizzledPlace grad_place{{p.grad_tile, grad_y, bx, p.out_h, p.out_w, p.channels - channel, p.channels}};
  const Loads<2, SwizzledPlace> loads(place, place.all()), grad_loads(grad_place, grad_place.all());
  const int64_t in_image = int64_t(p.channels) * p.in_h * p.in_w, out_image = int64_t(p.channels) * p.out_h * p.out_w;
  const T* in = p.in + begin * in_image + channel;
  const T* grad_in = p.grad + begin * out_image + channel;
  const int own = threadIdx.x / kWarp * B::kOwn;
  const auto range = [](const PixelsTile& tile, int y, int h, int& first, int& last) {
    const int groups = tile.columns / kColumns;
    first = max(-y, 0) * groups / 2, last = (min(tile.rows, h - y) * groups + 1) / 2;
  };
  int first, last, grad_first, grad_last;
  range(p.tile, y, p.in_h, first, last);
  range(p.grad_tile, grad_y, p.out_h, grad_first, grad_last);
  const LanePlace<S> at;
  const unsigned to_in = start + p.planes_at + (at.in_row * p.pitch + at.in_column) * unsigned(sizeof(T));
  const unsigned to_grad = start + p.grad_planes_at + at.grad_row * p.grad_pitch * unsigned(sizeof(T));
  float sum[B::kOwn][S::kTaps][S::kDown][4] = {};
  const auto bring = [&](int stage) {
    T* const patch = patches + stage * p.stage_bytes / int(sizeof(T));
    loads.issue_bytes(kAccess, patch, in);
    grad_loads.issue_bytes(kAccess, patch + p.grad_at / int(sizeof(T)), grad_in);
    in += in_image, grad_in += out_image;
  };
  const auto compute = [&](int stage) {
    const unsigned patch = start + stage * p.stage_bytes;
    sort_by_channel(patch, start + p.planes_at + p.lead * int(sizeof(T)), p.plane, first, last, p.pairs,
                    p.pitch * int(sizeof(T)) - int(p.pairs.divisor) * 32);
    sort_by_channel(patch + p.grad_at, start + p.grad_planes_at + p.grad_lead * int(sizeof(T)), p.grad_plane,
                    grad_first, grad_last, p.grad_pairs,
                    p.grad_pitch * int(sizeof(T)) - int(p.grad_pairs.divisor) * 32);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < B::kOwn; ++i) {
      unsigned from = to_in + (own + i) * p.plane, grads = to_grad + (own + i) * p.grad_plane;
#pragma unroll 2
      for (int step = 0; step < p.steps; ++step) {
        add_products<T, S>(from, grads, p.pitch, p.grad_pitch, sum[i]);
        from += kStep * S::kDown, grads += kStep;
      }
    }
  };
  for_images(end - begin, p.stages, bring, compute);

  float* const sums = reinterpret_cast<float*>(shared);
  float* const lines = sums + kTogether * kAll + threadIdx.x / kWarp * S::kLines * kLinePitch;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < B::kOwn; ++i) add_diagonals<S>(sum[i], p.shift, lines, sums + (own + i) * kAll);
  __syncthreads();
  const auto again = [&](int i) {
    const int plane = channel + i / kAll, y0 = by * S::kDown - p.top;
    return tap_by_tap<T, S>(p, p.in + plane, p.grad + plane, p.channels, i % kAll, bx,
                            min(bx + p.steps * kColumns, p.out_w), max(y0, 0), min(y0 + kRows * S::kDown, p.in_h));
  };
  const int64_t block = int64_t(blockIdx.y) * p.spatial + spatial;
  write_sums(
      p.partial + (block * p.channels + channel) * kAll, min(kTogether, p.channels - channel) * kAll,
      [&](int i) { return sums[i]; }, again);
#endif
}

// The image starts at a multiple of `vector` columns.
template <class S, class T>
void describe(const WeightGradient& p, int64_t vector, GradMmaOf<T>& q) {
  q.in = static_cast<const T*>(p.in.data_ptr()), q.grad = static_cast<const T*>(p.grad.data_ptr());
  q.in_h = int(p.y.in), q.in_w = int(p.x.in), q.out_h = int(p.y.out), q.out_w = int(p.x.out);
  q.pad_h = int(p.y.pad), q.pad_w = int(p.x.pad), q.channels = int(p.channels), q.batch = int(p.batch);
  q.left = int(round_up(p.x.pad, vector)), q.shift = q.left - q.pad_w;
  q.top = int(p.y.pad % S::kDown), q.grad_top = int(S::kShifts - 1 - p.y.pad / S::kDown);
}

// A patch: how many times kRows rows of the gradient, and `steps` times eight of its columns.
template <class S, class T>
void set_patch(int64_t times, GradMmaOf<T>& q) {
  const int groups = q.steps * S::kDown + S::kGroups - S::kDown;
  q.pitch = (groups | 1) * kColumns, q.grad_pitch = (q.steps | 1) * kColumns;  // no two rows of a matrix in one bank
  q.rows = int(times) * kRows * S::kDown, q.grad_rows = int(times) * kRows + S::kShifts - 1;
}

template <class S, class T>
int64_t patch_rows(const GradMmaOf<T>& q) {
  return ceil_div(q.in_h + q.top, kRows * S::kDown);
}

template <class S>
constexpr int64_t sums_bytes(int64_t planes, int64_t warps) {
  return round_up((planes * S::kTaps * S::kTaps + warps * S::kLines * kLinePitch) * sizeof(float), kAccess);
}

template <class T, class S>
bool launch_planes(const WeightGradient& p, cudaStream_t stream) {
  if (p.x.out > 4096 || p.y.in * p.x.in > kMost / kWarps || p.batch >= kMost || p.channels >= kMost) return false;
  GradMmaPlanesOf<T> q{};
  int64_t vector = row_vector<T>(p.in.data_ptr(), p.x.in);
  while (round_up(p.x.pad, vector) - p.x.pad + 7 * S::kDown + S::kTaps > S::kGroups * kColumns) vector /= 2;
  describe<S>(p, vector, q);
  q.vector = int(vector), q.grad_vector = row_vector<T>(q.grad, p.x.out), q.steps = int(ceil_div(p.x.out, kColumns));
  const int64_t all_rows = patch_rows<S>(q);
  int64_t units = std::min<int64_t>(all_rows, kWarps);
  units = ceil_div(all_rows, ceil_div(all_rows, units));
  int64_t planes = units == all_rows ? std::min(kWarps / units, p.channels) : 1;
  int64_t bytes;
  const auto too_large = [&] {
    set_patch<S>(units, q);
    q.grad_at = int(planes * q.rows * q.pitch * sizeof(T));
    bytes = q.grad_at + planes * q.grad_rows * q.grad_pitch * sizeof(T);
    return bytes > 48 << 10;
  };
  while (too_large() && planes > 1) planes = (planes + 1) / 2;
  while (too_large() && units > 1) units = (units + 1) / 2;
  const int64_t channel_groups = ceil_div(p.channels, planes), stage = bytes;
  const Split split = split_batch(p, sizeof(T), {channel_groups, kBlock, S::kDown == 1 ? 96 : 128, stage, 0});
  q.images_a_split = split.images, q.stages = split.stages, q.stage_bytes = int(stage);
  const auto fits = [&] {
    bytes = std::max(q.stages * stage, sums_bytes<S>(kWarps, kWarps));
    return allow_shared<grad_multiply<T, S>>(bytes);
  };
  while (!fits() && q.stages > 1) --q.stages;
  q.units = int(units), q.planes = int(planes), q.bands = int(ceil_div(all_rows, units)), q.bytes = int(bytes);
  if (!fits() || q.in_w + q.left > q.pitch || int64_t(q.images_a_split) * q.bands * q.steps > kMostSteps) return false;
  const int64_t splits = ceil_div(p.batch, q.images_a_split);
  const Tensor partial = partial_sums<T>(p, splits);
  q.partial = static_cast<float*>(partial.data_ptr());
  grad_multiply<T, S><<<dim3(unsigned(channel_groups), unsigned(splits)), kBlock, bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits, stream);
  return true;
}

template <class T, class S, int own>
bool launch_pixels(const WeightGradient& p, cudaStream_t stream) {
  using B = PixelsBlock<own>;
  constexpr int kVector = kAccess / sizeof(T);
  GradMmaPixelsOf<T> q{};
  describe<S>(p, 2, q);
  if (channel_vector<T>(q.in, q.grad, p.channels, kTogether) < kVector || p.channels >= kMost || p.batch >= kMost ||
      std::max(p.y.in * p.x.in, p.y.out * p.x.out) > kMost / p.channels)
    return false;
  const int64_t all_steps = ceil_div(p.x.out, kColumns);
  q.steps = int(ceil_div(all_steps, ceil_div(all_steps, 7)));
  set_patch<S>(1, q);
  q.grad_rows = int(round_up(q.grad_rows, 2));
  const int64_t blocks_x = ceil_div(p.x.out, q.steps * kColumns), blocks_y = patch_rows<S>(q);
  const int64_t chunks = ceil_div(p.channels, kTogether), an_image = chunks * blocks_x * blocks_y;
  if (blocks_x * blocks_y > kMost / chunks) return false;
  q.spatial = int(blocks_x * blocks_y);
  // What one patch has of the images is brought in without what lies around them.
  const auto tile = [&](int rows, int pitch, int groups, int above, int before, int h, int w, PixelsTile& tile,
                        int& lead, Divider<uint32_t>& pairs) {
    int whole = int(ceil_div(w, kColumns));
    if (whole * kColumns != pitch) whole = int(round_up(whole, 2));
    const bool one = blocks_x == 1 && before + whole * kColumns <= pitch;
    const int columns = one ? whole : groups, top = blocks_y == 1 ? above : 0;
    tile =
        PixelsTile(blocks_y == 1 ? round_up(std::min(h, rows - top), 2) : rows, columns * kColumns, kTogether, kVector);
    lead = top * pitch + (one ? before : 0);
    pairs = Divider<uint32_t>(columns % 2 == 0 ? columns / 2 : 1 << 24);
  };
  tile(q.rows, q.pitch, q.pitch / kColumns, q.top, q.left, q.in_h, q.in_w, q.tile, q.lead, q.pairs);
  tile(q.grad_rows, q.grad_pitch, q.steps, q.grad_top, 0, q.out_h, q.out_w, q.grad_tile, q.grad_lead, q.grad_pairs);
  q.plane = (q.rows * q.pitch + kColumns) * int(sizeof(T));  // an odd number of rows of matrices
  q.grad_plane = (q.grad_rows * q.grad_pitch + kColumns) * int(sizeof(T));
  q.grad_at = int(q.tile.elements() * sizeof(T));
  const int64_t stage = q.grad_at + q.grad_tile.elements() * sizeof(T);
  const int64_t planes = kTogether * (q.plane + q.grad_plane) + kAccess * kColumns;
  const Split split = split_batch(
      p, sizeof(T), {an_image, B::kThreads, 65536 / (B::kThreads * B::at_once(S::kTaps)), stage, planes, true});
  q.images_a_split = split.images, q.stages = std::max(split.stages, std::min(2, split.images));
  q.stage_bytes = int(stage);
  const auto fits = [&] {
    q.planes_at = int(q.stages * stage), q.grad_planes_at = q.planes_at + kTogether * q.plane;
    q.bytes = int(std::max(q.planes_at + planes, sums_bytes<S>(kTogether, B::kWarps)));
    return allow_shared<grad_multiply_pixels<T, S, B>>(q.bytes);
  };
  while (!fits() && q.stages > 1) --q.stages;
  if (!fits() || int64_t(q.images_a_split) * q.steps > kMostSteps) return false;
  q.chunks = Divider<uint32_t>(chunks), q.blocks_x = Divider<uint32_t>(blocks_x);
  const int64_t splits = ceil_div(p.batch, q.images_a_split);
  const Tensor partial = partial_sums<T>(p, splits * q.spatial);
  q.partial = static_cast<float*>(partial.data_ptr());
  grad_multiply_pixels<T, S, B><<<dim3(unsigned(an_image), unsigned(splits)), B::kThreads, q.bytes, stream>>>(q);
  launch_add_splits<T>(p, partial, splits * q.spatial, stream);
  return true;
}

template <class T, class S>
bool launch(const WeightGradient& p, cudaStream_t stream) {
  if (!p.channels_last) return launch_planes<T, S>(p, stream);
  if constexpr (S::kDown == 1) {
    const auto one_patch = [](const Line& a) { return a.out > kColumns && a.out <= kRows; };
    if (one_patch(p.x) && one_patch(p.y)) return launch_pixels<T, S, 2>(p, stream);
    // Multiply-adds are faster where half of a patch would be empty, and for fewer taps.
    if (std::min(p.x.out, p.y.out) <= kColumns || S::kTaps < 7) return false;
  }
  if constexpr (S::kTaps == 7) return launch_pixels<T, S, 1>(p, stream);
  return false;
}

template <class T>
bool launch(const WeightGradient& p, cudaStream_t stream) {
  if (p.x.taps == 7)
    return p.x.down == 1 ? launch<T, GradMmaTile<1, 7>>(p, stream) : launch<T, GradMmaTile<2, 7>>(p, stream);
  return p.x.taps == 5 && p.x.down == 1 && launch<T, GradMmaTile<1, 5>>(p, stream);
}

}  // namespace

bool launch_mma_grad_weight(const WeightGradient& p, cudaStream_t stream) {
  const auto fits = [](const Line& a) {
    return a.down <= 2 && a.dilation == 1 && a.pad >= 0 && a.pad < a.taps && small(a);
  };
  if (!fits(p.x) || !fits(p.y) || p.x.down != p.y.down || p.x.taps != p.y.taps || !has_tensor_cores()) return false;
  if (p.in.scalar_type() == ScalarType::Half) return launch<c10::Half>(p, stream);
  if (p.in.scalar_type() == ScalarType::BFloat16) return launch<c10::BFloat16>(p, stream);
  return false;
}

}  // namespace customops::cuda::depthwise
