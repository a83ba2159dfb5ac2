// The gradient of depthwise_conv2d's weight on tensor cores (depthwise_conv2d_grad_mma.cuh) for channels_last images: a
// block has 16 channels of a patch, 16 rows of the images as wide as fits, and goes through the batch. What came into
// shared memory is sorted by channel there, then each warp has planes of its own.
#include "depthwise_conv2d_grad_mma.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kTogether = 16;  // channels of a channels_last image that a block takes: whole sectors of 32 bytes

template <class T>
struct GradMmaPixelsOf : GradMmaOf<T> {
  PixelsTile tile, grad_tile;  // as brought in; the rows and columns around them are zero
  int lead, grad_lead;         // elements before these, in a plane
  int plane_bytes, grad_plane_bytes, planes_at, grad_planes_at, spatial;
  Divider<uint32_t> chunks, blocks_x, pairs, grad_pairs;
};

// Channels side by side: the two halves of the channels of four pixels change places with those of the next four, so
// that no two pixels of a matrix lie in one bank.
struct SwizzledPlace : PixelsPlace {
  __device__ void operator()(int i, int& to, int& from) const {
    PixelsPlace::operator()(i, to, from);
    to ^= to >> 3 & 8;
  }
};

constexpr int kOneLine = 1 << 24;

// Sorts pixels of a tile by channel, into planes `plane_bytes` apart: by 16 pixels, from the first to before the last
// of these; `pairs` of them are a line, after which the planes have `beyond` bytes more. (Where all is one line,
// kOneLine.)
__device__ inline void sort_by_channel(unsigned tile, unsigned planes, int plane_bytes, int first, int last,
                                       Divider<uint32_t> pairs, int beyond) {
  const int lane = threadIdx.x % kWarp;
  tile += (lane % 8 + lane / 16 * 8) * 32 + ((lane / 8 ^ lane / 4) & 1) * 16;
  planes += lane / 4 * plane_bytes + lane % 4 * 4;
  for (int i = first + threadIdx.x / kWarp; i < last; i += blockDim.x / kWarp) {
    uint32_t four[4], line = i;
    pairs.split(line);
    load_matrices<true>(four, tile + i * 512);
    const unsigned to = planes + i * 32 + line * beyond;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + j / 2 * 16 + j % 2 * 8 * plane_bytes), "r"(four[j]) : "memory");
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
    sort_by_channel(patch, start + p.planes_at + p.lead * int(sizeof(T)), p.plane_bytes, first, last, p.pairs,
                    p.pitch * int(sizeof(T)) - int(p.pairs.divisor) * 32);
    sort_by_channel(patch + p.grad_at, start + p.grad_planes_at + p.grad_lead * int(sizeof(T)), p.grad_plane_bytes,
                    grad_first, grad_last, p.grad_pairs,
                    p.grad_pitch * int(sizeof(T)) - int(p.grad_pairs.divisor) * 32);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < B::kOwn; ++i) {
      unsigned from = to_in + (own + i) * p.plane_bytes, grads = to_grad + (own + i) * p.grad_plane_bytes;
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

template <class T, class S, int own>
bool launch_channels_last(const WeightGradient& p, cudaStream_t stream) {
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
  const auto describe_tile = [&](int rows, int pitch, int groups, int above, int before, int h, int w, PixelsTile& to,
                                 int& lead, Divider<uint32_t>& pairs) {
    int whole = int(ceil_div(w, kColumns));
    if (whole * kColumns != pitch) whole = int(round_up(whole, 2));
    const bool one = blocks_x == 1 && before + whole * kColumns <= pitch;
    const int columns = one ? whole : groups, top = blocks_y == 1 ? above : 0;
    to =
        PixelsTile(blocks_y == 1 ? round_up(std::min(h, rows - top), 2) : rows, columns * kColumns, kTogether, kVector);
    lead = top * pitch + (one ? before : 0);
    pairs = Divider<uint32_t>(columns % 2 == 0 ? columns / 2 : kOneLine);
  };
  describe_tile(q.rows, q.pitch, q.pitch / kColumns, q.top, q.left, q.in_h, q.in_w, q.tile, q.lead, q.pairs);
  describe_tile(q.grad_rows, q.grad_pitch, q.steps, q.grad_top, 0, q.out_h, q.out_w, q.grad_tile, q.grad_lead,
                q.grad_pairs);
  q.plane_bytes = (q.rows * q.pitch + kColumns) * int(sizeof(T));  // an odd number of rows of matrices
  q.grad_plane_bytes = (q.grad_rows * q.grad_pitch + kColumns) * int(sizeof(T));
  q.grad_at = int(q.tile.elements() * sizeof(T));
  const int64_t stage = q.grad_at + q.grad_tile.elements() * sizeof(T);
  const int64_t planes = kTogether * (q.plane_bytes + q.grad_plane_bytes);
  const int64_t most = most_images(p, q.steps);
  if (most == 0) return false;
  const Split split = split_batch(
      p, sizeof(T), {an_image, B::kThreads, 65536 / (B::kThreads * B::at_once(S::kTaps)), stage, planes, true, most});
  q.images_a_split = split.images, q.stages = std::max(split.stages, std::min(2, split.images));
  q.stage_bytes = int(stage);
  const auto fits = [&] {
    q.planes_at = int(q.stages * stage), q.grad_planes_at = q.planes_at + kTogether * q.plane_bytes;
    q.bytes = int(std::max(q.planes_at + planes, sums_bytes<S>(kTogether, B::kWarps)));
    return allow_shared<grad_multiply_pixels<T, S, B>>(q.bytes);
  };
  while (!fits() && q.stages > 1) --q.stages;
  if (!fits()) return false;
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
  if constexpr (S::kDown == 1) {
    const auto one_patch = [](const Line& a) { return a.out > kColumns && a.out <= kRows; };
    if (one_patch(p.x) && one_patch(p.y)) return launch_channels_last<T, S, 2>(p, stream);
    // Multiply-adds are faster where half of a patch would be empty, and for fewer taps.
    if (std::min(p.x.out, p.y.out) <= kColumns || S::kTaps < 7) return false;
  }
  if constexpr (S::kTaps == 7) return launch_channels_last<T, S, 1>(p, stream);
  return false;
}

}  // namespace

bool launch_mma_grad_weight_channels_last(const WeightGradient& p, cudaStream_t stream) {
  return launch_for(p, [&](auto zero, auto tile) { return launch<decltype(zero), decltype(tile)>(p, stream); });
}

}  // namespace customops::cuda::depthwise
