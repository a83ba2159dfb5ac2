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
  int plane_bytes, grad_plane_bytes, planes_at, grad_planes_at, image_blocks;
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

constexpr int kOneLine = 1 << 24;

// Elements of a pixel that was copied shifted (copy_images.cuh).
template <class T>
constexpr int kShiftedPixel = kTogether + kAccessElements<T>;

// Moves the channels of 16 shifted pixels, from `pixel` on, to where their room starts: two lanes a pixel. first: the
// element of the tile's first pixel, which says how it is aligned; row, channels: elements to the next row and pixel.
template <class T>
__device__ inline void align_channels(unsigned tile, int pixel, Divider<uint32_t> columns, unsigned first, int row,
                                      int channels) {
  const int lane = threadIdx.x % kWarp;
  uint32_t y = pixel + lane / 2;
  const unsigned at = tile + y * unsigned(kShiftedPixel<T> * sizeof(T)) + lane % 2 * kAccess;
  const unsigned x = columns.divmod(y);
  const int shift = shift_of<T>(first + y * row + x * channels);
  uint32_t word[5];
#pragma unroll
  for (int i = 0; i < 5; ++i)
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word[i]) : "r"(at + (shift / 2 + i) * 4) : "memory");
  const unsigned bytes = shift % 2 == 0 ? 0x3210 : 0x5432;
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = __byte_perm(word[i], word[i + 1], bytes);
  __syncwarp();
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(word[0]), "r"(word[1]), "r"(word[2]),
               "r"(word[3])
               : "memory");
  __syncwarp();
}

// Sorts pixels of a tile by channel, into planes `plane_bytes` apart: by 16 pixels, from the first to before the last
// of these; `pairs` of them are a line, after which the planes have `beyond` bytes more. (Where all is one line,
// kOneLine.) Before, align(i) is called for each.
template <int pixel_bytes, class Align>
__device__ inline void sort_by_channel(unsigned tile, unsigned planes, int plane_bytes, int first, int last,
                                       Divider<uint32_t> pairs, int beyond, const Align& align) {
  const int lane = threadIdx.x % kWarp, swizzle = pixel_bytes == 32 ? lane / 4 : 0;
  tile += (lane % 8 + lane / 16 * 8) * pixel_bytes + ((lane / 8 ^ swizzle) & 1) * 16;
  planes += lane / 4 * plane_bytes + lane % 4 * 4;
  for (int i = first + threadIdx.x / kWarp; i < last; i += blockDim.x / kWarp) {
    align(i);
    uint32_t four[4], line = i;
    pairs.divmod(line);
    load_matrices<true>(four, tile + i * 16 * pixel_bytes);
    const unsigned to = planes + i * 32 + line * beyond;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + j / 2 * 16 + j % 2 * 8 * plane_bytes), "r"(four[j]) : "memory");
  }
}

// kOwn: planes of a warp. Two, where so many of these blocks fit into a multiprocessor that their warps keep it busy.
// bytes: of one copy. kUnaligned: shifted copies of 16 bytes.
constexpr int kUnaligned = 0;
template <int own, int bytes>
struct PixelsBlock {
  static constexpr bool kShifted = bytes == kUnaligned;
  static constexpr int kBytes = kShifted ? kAccess : bytes;
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
  using Source = std::conditional_t<B::kShifted, PixelsSource, SwizzledPixelsSource>;
  constexpr int kPixelBytes = (B::kShifted ? kShiftedPixel<T> : kTogether) * int(sizeof(T));
  const int channels = params.channels - channel + kShiftedMore<T, B::kShifted>;
  const PixelsSource pixels{params.tile, y, x, params.in_h, params.in_w, channels, params.channels};
  const PixelsSource grad_pixels{params.grad_tile, grad_y, bx, params.out_h, params.out_w, channels, params.channels};
  const Source source{pixels}, grad_source{grad_pixels};
  const Loads<2, Source> loads(source, source.all()), grad_loads(grad_source, grad_source.all());
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
  const T *const end_in = params.in + params.batch * in_image, *const end_grad = params.grad + params.batch * out_image;
  const int in_row = params.in_w * params.channels, grad_row = params.out_w * params.channels;
  unsigned first_in = element_of(in, int64_t(y) * in_row + x * params.channels),
           first_grad = element_of(grad_in, int64_t(grad_y) * grad_row + bx * params.channels);
  const auto load = [&](int stage) {
    T* const patch = patches + stage * params.stage_bytes / int(sizeof(T));
    T* const grad_patch = patch + params.grad_at / int(sizeof(T));
    if constexpr (B::kShifted) {
      loads.issue_aligned(patch, in, end_in);
      grad_loads.issue_aligned(grad_patch, grad_in, end_grad);
    } else {
      loads.issue_bytes(B::kBytes, patch, in);
      grad_loads.issue_bytes(B::kBytes, grad_patch, grad_in);
    }
    in += in_image, grad_in += out_image;
  };
  const auto compute = [&](int stage) {
    const unsigned patch = start + stage * params.stage_bytes, grad_patch = patch + params.grad_at;
    const auto align = [&](int i) {
      if constexpr (B::kShifted)
        align_channels<T>(patch, i * 16, params.tile.divided_columns, first_in, in_row, params.channels);
    };
    const auto align_grad = [&](int i) {
      if constexpr (B::kShifted)
        align_channels<T>(grad_patch, i * 16, params.grad_tile.divided_columns, first_grad, grad_row, params.channels);
    };
    sort_by_channel<kPixelBytes>(patch, start + params.planes_at + params.lead * int(sizeof(T)), params.plane_bytes,
                                 first, last, params.pairs,
                                 params.pitch * int(sizeof(T)) - int(params.pairs.divisor) * 32, align);
    sort_by_channel<kPixelBytes>(grad_patch, start + params.grad_planes_at + params.grad_lead * int(sizeof(T)),
                                 params.grad_plane_bytes, grad_first, grad_last, params.grad_pairs,
                                 params.grad_pitch * int(sizeof(T)) - int(params.grad_pairs.divisor) * 32, align_grad);
    first_in += unsigned(in_image), first_grad += unsigned(out_image);
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
  const int pixel = B::kShifted ? kShiftedPixel<T> : kTogether;
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
    to = PixelsTile(blocks_y == 1 ? round_up(std::min(h, rows - top), 2) : rows, columns * kColumns, pixel,
                    B::kBytes / int(sizeof(T)));
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
        if (one_patch && has_channel_vectors(problem, 4)) return launch<T, S, PixelsBlock<2, 8>>(problem, stream);
        if (one_patch) return launch<T, S, PixelsBlock<2, kUnaligned>>(problem, stream);
        return wide ? launch<T, S, PixelsBlock<1, kAccess>>(problem, stream)
                    : launch<T, S, PixelsBlock<1, kUnaligned>>(problem, stream);
      }
    }
    fail_choice(Kernel::kWgradMmaPixels);
  });
}

}  // namespace customops::cuda::depthwise
