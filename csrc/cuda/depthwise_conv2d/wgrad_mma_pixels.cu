// depthwise_conv2d's wgrad on tensor cores (wgrad_mma.cuh) for channels_last images at stride 1. A block has 16
// channels of a patch, 16 rows of the images as wide as fits, and goes through the batch. It sorts the patch by channel
// in shared memory; each warp then computes channels of its own.
#include "wgrad_mma.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kTogether = 16;  // channels of a channels_last image that a block takes: whole sectors of 32 bytes

template <class T>
struct WgradMmaPixelsParams : WgradMmaParams<T> {
  PixelsTile tile, grad_tile;  // as copied; the rows and columns around them are zero
  int lead, grad_lead;         // elements before these, in a plane
  int plane_bytes, grad_plane_bytes, planes_at, grad_planes_at, image_blocks, load_bytes;
  Divider<uint32_t> chunks, blocks_x, pairs, grad_pairs;
};

// Channels side by side: the two halves of the channels of four pixels change places with those of the next four, so
// that no two pixels of a matrix lie in one bank.
struct SwizzledPixelsSource : PixelsSource {
  __device__ void operator()(int i, int& to, int& from) const {
    PixelsSource::operator()(i, to, from);
    to ^= to >> 3 & 8;
  }
};

// Where channels are odd: a thread reads two channels of pixels below each other, one by one, up to eight pixels of
// image and gradient each before the first is waited for. Tiles are a multiple of eight columns wide, so that a thread
// swizzles all pixels alike, and no wider than a block has threads for.
template <class T>
struct PairsOfRows {
  static constexpr int kPairs = kTogether / 2, kAtOnce = 8;
  int from, to, from_step, to_step, n;  // the first pair's offsets, those to the next, and the number of pairs
  bool two;                             // unless the second of the pair is no channel any more

  __device__ explicit PairsOfRows(const SwizzledPixelsSource& source) {
    const PixelsTile& tile = source.tile;
    const int pixel = threadIdx.x / kPairs, v = threadIdx.x % kPairs * 2, step = blockDim.x / kPairs / tile.columns;
    const int row = pixel / tile.columns, column = pixel % tile.columns, y = source.y0 + row, x = source.x0 + column;
    const int first = max(0, step - 1 - y) / step, end = (min(tile.rows - row, source.h - y) + step - 1) / step;
    const bool inside = row < step && unsigned(x) < unsigned(source.w) && v < source.channels;
    n = inside ? end - first : 0, two = v + 1 < source.channels;
    from_step = step * source.w * source.all_channels, to_step = step * tile.columns * kTogether;
    to = pixel * kTogether + v, to = (to ^ (to >> 3 & 8)) + first * to_step;
    from = (y * source.w + x) * source.all_channels + v + first * from_step;
  }
  __device__ void read(const T* image, int begin, Vector<T, 2> (&value)[kAtOnce]) const {
    image += from + begin * from_step;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i, image += from_step) {
      if (begin + i < n) value[i].at[0] = image[0];
      if (begin + i < n && two) value[i].at[1] = image[1];
    }
  }
  __device__ void write(T* patch, int begin, const Vector<T, 2> (&value)[kAtOnce]) const {
    patch += to + begin * to_step;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i, patch += to_step)
      if (begin + i < n) *reinterpret_cast<Vector<T, 2>*>(patch) = value[i];
  }
};

template <class T>
__device__ inline void copy_pairs(const PairsOfRows<T>& in, const T* image, T* patch, const PairsOfRows<T>& grad_in,
                                  const T* grad, T* grad_patch) {
  constexpr int kAtOnce = PairsOfRows<T>::kAtOnce;
#pragma unroll 1
  for (int begin = 0; begin < max(in.n, grad_in.n); begin += kAtOnce) {
    Vector<T, 2> value[kAtOnce] = {}, grad_value[kAtOnce] = {};
    in.read(image, begin, value);
    grad_in.read(grad, begin, grad_value);
    in.write(patch, begin, value);
    grad_in.write(grad_patch, begin, grad_value);
  }
}

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
    pairs.divmod(line);
    load_matrices<true>(four, tile + i * 512);
    const unsigned to = planes + i * 32 + line * beyond;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + j / 2 * 16 + j % 2 * 8 * plane_bytes), "r"(four[j]) : "memory");
  }
}

// kOwn: planes of a warp. Two, where so many of these blocks fit into a multiprocessor that their warps keep it busy.
// kBytes: of pixels, copied at a time; kFew: 4 or 8, whatever their channels are aligned for.
constexpr int kFew = 0, kSingly = 2;
template <int own, int bytes>
struct PixelsBlock {
  static constexpr int kBytes = bytes;
  static constexpr int kOwn = own, kWarps = kTogether / own, kThreads = kWarps * kWarp;
  static constexpr int at_once(int taps) { return own == 1 ? 1 : (taps == 5 ? 3 : 2); }  // on a multiprocessor
};

template <class T, class S, class B>
__global__ void __launch_bounds__(B::kThreads, B::at_once(S::kTaps))
    wgrad_mma_pixels(const __grid_constant__ WgradMmaPixelsParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kAll = S::kTaps * S::kTaps, kStep = kColumns * int(sizeof(T));
  if (params.result.partial != nullptr) start_next_kernel();
  extern __shared__ __align__(kAccess) char shared[];
  T* const patches = reinterpret_cast<T*>(shared);
  const unsigned start = shared_address(shared);
  clear(shared, params.bytes);
  uint32_t rest = blockIdx.x;
  const int channel = int(params.chunks.divmod(rest)) * kTogether, image_blocks = int(rest);
  const int bx = int(params.blocks_x.divmod(rest)) * params.steps * kColumns, by = int(rest) * kRows;
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const int y = by * S::kDown - params.top + params.lead / params.pitch,
            x = bx * S::kDown - params.left + params.lead % params.pitch;
  const int grad_y = by - params.grad_top + params.grad_lead / params.grad_pitch;
  const SwizzledPixelsSource source{
      {params.tile, y, x, params.in_h, params.in_w, params.channels - channel, params.channels}};
  const SwizzledPixelsSource grad_source{
      {params.grad_tile, grad_y, bx, params.out_h, params.out_w, params.channels - channel, params.channels}};
  const Loads<2, SwizzledPixelsSource> loads(source, source.all()), grad_loads(grad_source, grad_source.all());
  const PairsOfRows<T> pairs(source), grad_pairs(grad_source);
  const int64_t in_image = int64_t(params.channels) * params.in_h * params.in_w,
                out_image = int64_t(params.channels) * params.out_h * params.out_w;
  const T* in = params.in + begin * in_image + channel;
  const T* grad_in = params.grad + begin * out_image + channel;
  const int own = threadIdx.x / kWarp * B::kOwn;
  const auto range = [](const PixelsTile& tile, int y, int h, int& first, int& last) {
    const int groups = tile.columns / kColumns;
    first = max(-y, 0) * groups / 2, last = (min(tile.rows, h - y) * groups + 1) / 2;
  };
  int first, last, grad_first, grad_last;
  range(params.tile, y, params.in_h, first, last);
  range(params.grad_tile, grad_y, params.out_h, grad_first, grad_last);
  const LaneOffsets<S> at;
  const unsigned to_in = start + params.planes_at + (at.in_row * params.pitch + at.in_column) * unsigned(sizeof(T));
  const unsigned to_grad = start + params.grad_planes_at + at.grad_row * params.grad_pitch * unsigned(sizeof(T));
  float sum[B::kOwn][S::kTaps][S::kDown][4] = {};
  const auto load = [&](int stage) {
    T* const patch = patches + stage * params.stage_bytes / int(sizeof(T));
    T* const grad_patch = patch + params.grad_at / int(sizeof(T));
    if constexpr (B::kBytes == kSingly) {
      copy_pairs(pairs, in, patch, grad_pairs, grad_in, grad_patch);
    } else {
      const int bytes = B::kBytes == kAccess ? kAccess : params.load_bytes;
      loads.issue_bytes(bytes, patch, in);
      grad_loads.issue_bytes(bytes, grad_patch, grad_in);
    }
    in += in_image, grad_in += out_image;
  };
  const auto compute = [&](int stage) {
    const unsigned patch = start + stage * params.stage_bytes;
    sort_by_channel(patch, start + params.planes_at + params.lead * int(sizeof(T)), params.plane_bytes, first, last,
                    params.pairs, params.pitch * int(sizeof(T)) - int(params.pairs.divisor) * 32);
    sort_by_channel(patch + params.grad_at, start + params.grad_planes_at + params.grad_lead * int(sizeof(T)),
                    params.grad_plane_bytes, grad_first, grad_last, params.grad_pairs,
                    params.grad_pitch * int(sizeof(T)) - int(params.grad_pairs.divisor) * 32);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < B::kOwn; ++i) {
      unsigned from = to_in + (own + i) * params.plane_bytes, grads = to_grad + (own + i) * params.grad_plane_bytes;
#pragma unroll 2
      for (int step = 0; step < params.steps; ++step) {
        add_products<T, S>(from, grads, params.pitch, params.grad_pitch, sum[i]);
        from += kStep * S::kDown, grads += kStep;
      }
    }
  };
  for_images(end - begin, params.stages, load, compute);

  float* const sums = reinterpret_cast<float*>(shared);
  float* const lines = sums + kTogether * kAll + threadIdx.x / kWarp * S::kLines * kLinePitch;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < B::kOwn; ++i) add_diagonals<S>(sum[i], params.shift, lines, sums + (own + i) * kAll);
  __syncthreads();
  const auto again = [&](int i) {
    const int plane = channel + i / kAll, y0 = by * S::kDown - params.top;
    return tap_by_tap<T, S>(params, params.in + plane, params.grad + plane, params.channels, i % kAll, bx,
                            min(bx + params.steps * kColumns, params.out_w), max(y0, 0),
                            min(y0 + kRows * S::kDown, params.in_h));
  };
  const int64_t block = int64_t(blockIdx.y) * params.image_blocks + image_blocks;
  write_sums(
      min(kTogether, params.channels - channel) * kAll, [&](int i) { return sums[i]; }, again,
      [&](int i, float sum) {
        params.result.write(block, int64_t(params.channels) * kAll, int64_t(channel) * kAll + i, sum);
      });
#endif
}

template <class T, class S, class B>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  WgradMmaPixelsParams<T> params{};
  set_images<S>(problem, 2, params);
  const int vector = B::kBytes == kAccess   ? kAccess / sizeof(T)
                     : B::kBytes == kSingly ? 2  // pairs
                                            : channel_vector<T>(params.in, params.grad, problem.channels, kTogether);
  params.load_bytes = vector * int(sizeof(T));
  const int64_t all_steps = ceil_div(problem.x.out, kColumns);
  params.steps = int(ceil_div(all_steps, ceil_div(all_steps, 7)));
  set_patch<S>(1, params);
  params.grad_rows = int(round_up(params.grad_rows, 2));
  const int64_t blocks_x = ceil_div(problem.x.out, params.steps * kColumns), blocks_y = patch_rows<S>(params);
  const int64_t chunks = ceil_div(problem.channels, kTogether), an_image = chunks * blocks_x * blocks_y;
  params.image_blocks = int(blocks_x * blocks_y);
  // What one patch has of the images is copied without what lies around them.
  const auto plan_pixels_tile = [&](int rows, int pitch, int groups, int above, int before, int h, int w,
                                    PixelsTile& to, int& lead, Divider<uint32_t>& pairs) {
    int whole = int(ceil_div(w, kColumns));
    if (whole * kColumns != pitch) whole = int(round_up(whole, 2));
    const bool one = blocks_x == 1 && before + whole * kColumns <= pitch;
    const int columns = one ? whole : groups, top = blocks_y == 1 ? above : 0;
    to = PixelsTile(blocks_y == 1 ? round_up(std::min(h, rows - top), 2) : rows, columns * kColumns, kTogether, vector);
    lead = top * pitch + (one ? before : 0);
    pairs = Divider<uint32_t>(columns % 2 == 0 ? columns / 2 : kOneLine);
  };
  plan_pixels_tile(params.rows, params.pitch, params.pitch / kColumns, params.top, params.left, params.in_h,
                   params.in_w, params.tile, params.lead, params.pairs);
  plan_pixels_tile(params.grad_rows, params.grad_pitch, params.steps, params.grad_top, 0, params.out_h, params.out_w,
                   params.grad_tile, params.grad_lead, params.grad_pairs);
  params.plane_bytes = (params.rows * params.pitch + kColumns) * int(sizeof(T));  // an odd number of rows of matrices
  params.grad_plane_bytes = (params.grad_rows * params.grad_pitch + kColumns) * int(sizeof(T));
  params.grad_at = int(params.tile.elements() * sizeof(T));
  const int64_t stage = params.grad_at + params.grad_tile.elements() * sizeof(T);
  const int64_t planes = kTogether * (params.plane_bytes + params.grad_plane_bytes);
  const int64_t most = max_images(problem, params.steps);
  if (most == 0) fail_choice(Kernel::kWgradMmaPixels);
  const BatchSplit split =
      split_batch(problem, sizeof(T),
                  {an_image, B::kThreads, 65536 / (B::kThreads * B::at_once(S::kTaps)), stage, planes, true, most});
  params.images_a_split = split.images, params.stages = std::max(split.stages, std::min(2, split.images));
  params.stage_bytes = int(stage);
  const auto plan_shared_memory = [&] {  // returns its bytes
    params.planes_at = int(params.stages * stage),
    params.grad_planes_at = params.planes_at + kTogether * params.plane_bytes;
    params.bytes = int(std::max(params.planes_at + planes, sums_bytes<S>(kTogether, B::kWarps)));
    return params.bytes;
  };
  while (!allow_shared<wgrad_mma_pixels<T, S, B>>(plan_shared_memory()) && params.stages > 1) --params.stages;
  params.chunks = Divider<uint32_t>(chunks), params.blocks_x = Divider<uint32_t>(blocks_x);
  const int64_t splits = ceil_div(problem.batch, params.images_a_split);
  const WgradPartialSums<T> partial(problem, splits * params.image_blocks);
  params.result = partial.result();
  launch_kernel<wgrad_mma_pixels<T, S, B>>(Kernel::kWgradMmaPixels, an_image, splits, B::kThreads, params.bytes, params,
                                           stream);
  partial.finish(problem, stream, true);
}

}  // namespace

void launch_wgrad_mma_pixels(const WgradProblem& problem, cudaStream_t stream) {
  const bool one_patch = std::max(problem.x.out, problem.y.out) <= kRows, wide = has_channel_vectors(problem, 8);
  dispatch_tile(Kernel::kWgradMmaPixels, problem, [&](auto zero, auto tile) {
    using T = decltype(zero);
    using S = decltype(tile);
    if constexpr (S::kDown == 1) {
      if (one_patch && wide) return launch<T, S, PixelsBlock<2, kAccess>>(problem, stream);
      if constexpr (S::kTaps == 7) {
        if (one_patch && has_channel_vectors(problem, 2)) return launch<T, S, PixelsBlock<2, kFew>>(problem, stream);
        if (one_patch) return launch<T, S, PixelsBlock<2, kSingly>>(problem, stream);
        if (wide) return launch<T, S, PixelsBlock<1, kAccess>>(problem, stream);
      }
    }
    fail_choice(Kernel::kWgradMmaPixels);
  });
}

}  // namespace customops::cuda::depthwise
