// depthwise_conv2d, forward and dgrad, for channels_last images and 3x3, 5x5 and 7x7 taps, the latter two also at
// stride 2. A block copies a tile of the image, some channels deep, into shared memory, with zeros around the image,
// and goes through the batch: the next images' tiles are on their way meanwhile. Neighbouring threads take neighbouring
// channels, and keep their taps in registers: fewer channels for more taps. A thread computes kX by kY pixels, walking
// down the rows of its window.
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kShared = 55 << 10;  // so that four tiles fit into a multiprocessor that has as much as sm_90

template <class R>
struct FwdPixelsTile {
  static constexpr int kLanes = channel_lanes(R::kTaps);
  static constexpr int kX = R::kTaps == 7 && R::kDown == 1 ? 4 : 2;
  static constexpr int kY = [] {
    if (R::kTaps == 7 && R::kUp * R::kDown == 2) return R::kUp == 2 ? 8 : 4;
    return R::kUp == 2 || R::kTaps == 3 ? 4 : 7;
  }();
  static constexpr int kTaps = R::kTaps * R::kTaps;
  static constexpr int kStepX = kX * R::kDown / R::kUp, kStepY = kY * R::kDown / R::kUp;  // pixels to the next thread
};

template <class T>
struct FwdPixelsParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, channels, left, top;  // left, top: pixels before the first
  int members, tiles, batch, images_a_split, stages, load_bytes;
  bool flipped;
  PixelsTile tile;
  Divider<uint32_t> chunk, chunks, blocks_x, tiles_x;  // a chunk: vectors of channels; tiles: of threads
};

// kShifted: pixels are not aligned, see copy_images.cuh.
template <class T, class R, bool kShifted>
__global__ void __launch_bounds__(kBlock, 2) fwd_pixels(const __grid_constant__ FwdPixelsParams<T> params) {
  using S = FwdPixelsTile<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  constexpr int kSpan = R::span(S::kX);
  extern __shared__ __align__(kAccess) char shared[];
  const int elements = params.tile.rows * params.tile.columns * params.tile.pixel;
  const int stage_elements = (elements + kAccess - 1) / kAccess * kAccess;
  T* const patches = reinterpret_cast<T*>(shared);
  clear(shared, params.stages * stage_elements * int(sizeof(T)));
  uint32_t rest = blockIdx.x, member = threadIdx.x;
  const int first_channel = int(params.chunks.divmod(rest) * params.chunk.divisor) * S::kLanes;
  const int vector = int(params.chunk.divmod(member)) * S::kLanes, channel = first_channel + vector;
  const int bx = int(params.blocks_x.divmod(rest)) * int(params.tiles_x.divisor) * S::kX;
  const int by = int(rest) * (params.tiles / int(params.tiles_x.divisor)) * S::kY;
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const bool busy = int(member) < params.members && channel < params.channels;
  A taps[S::kTaps][S::kLanes], bias[S::kLanes];
#pragma unroll
  for (int v = 0; v < S::kLanes; ++v) bias[v] = busy && params.bias ? params.bias[channel + v] : A(0);
  params.weight.visit([&](const auto& element) {
#pragma unroll
    for (int v = 0; v < S::kLanes; ++v)
#pragma unroll
      for (int k = 0; k < S::kTaps; ++k)
        taps[k][v] =
            busy ? widen(element(int64_t(channel + v) * S::kTaps + (params.flipped ? S::kTaps - 1 - k : k))) : A(0);
  });
  const PixelsSource source{params.tile,
                            by / R::kUp * R::kDown - params.top,
                            bx / R::kUp * R::kDown - params.left,
                            params.in_h,
                            params.in_w,
                            params.channels - first_channel + kShiftedMore<T, kShifted>,
                            params.channels};
  const Loads<4, PixelsSource> loads(source, source.all());
  const int64_t in_image = int64_t(params.in_h) * params.in_w * params.channels,
                out_image = int64_t(params.out_h) * params.out_w * params.channels;
  const T* in = params.in + begin * in_image + first_channel;
  T* out = params.out + begin * out_image + channel;
  const int row_step = params.tile.columns * params.tile.pixel;
  const T* const end_of_images = params.in + params.batch * in_image;
  const int image_row = params.in_w * params.channels;
  // The element of the tile's first pixel, which says how it is aligned.
  unsigned first = element_of(in, int64_t(source.y0) * image_row + source.x0 * params.channels);
  const auto load = [&](int stage) {
    T* const patch = patches + stage * stage_elements;
    if constexpr (kShifted)
      loads.issue_aligned(patch, in, end_of_images);
    else
      loads.issue_bytes(params.load_bytes, patch, in);
    in += in_image;
  };
  const auto compute = [&](int stage) {
    const T* const patch = patches + stage * stage_elements + vector;
    for (int t = busy ? int(member) : params.tiles; t < params.tiles; t += params.members) {
      uint32_t ty = t;
      const int tx = int(params.tiles_x.divmod(ty)), ox = bx + tx * S::kX, oy = by + int(ty) * S::kY;
      if (ox >= params.out_w || oy >= params.out_h) continue;
      const T* from = patch + int(ty) * S::kStepY * row_step + tx * S::kStepX * params.tile.pixel;
      unsigned element = first + ty * S::kStepY * image_row + unsigned(tx) * S::kStepX * params.channels;
      A sum[S::kY][S::kX][S::kLanes];
#pragma unroll
      for (int y = 0; y < S::kY; ++y)
#pragma unroll
        for (int x = 0; x < S::kX; ++x)
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) sum[y][x][v] = bias[v];
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i, from += row_step, element += image_row) {
        A row[kSpan][S::kLanes];
#pragma unroll
        for (int j = 0; j < kSpan; ++j) {
          const int shift = kShifted ? shift_of<T>(element + j * params.channels) : 0;
          const V value = *reinterpret_cast<const V*>(from + j * params.tile.pixel + shift);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) row[j][v] = widen(value, v);
        }
        add_row<R>(i, taps, row, 0, sum);
      }
      T* to = out + (int64_t(oy) * params.out_w + ox) * params.channels;
#pragma unroll
      for (int y = 0; y < S::kY; ++y, to += params.out_w * params.channels) {
        if (oy + y >= params.out_h) break;
#pragma unroll
        for (int x = 0; x < S::kX; ++x) {
          V value;
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) value.at[v] = narrow<T>(sum[y][x][v]);
          if (ox + x < params.out_w) *reinterpret_cast<V*>(to + x * params.channels) = value;
        }
      }
    }
    out += out_image, first += unsigned(in_image);
  };
  for_images(end - begin, params.stages, load, compute);
}

template <class T, class R, bool kShifted>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  using S = FwdPixelsTile<R>;
  using V = Vector<T, S::kLanes>;
  const int64_t vectors = problem.channels / S::kLanes,
                chunk = kShifted ? shifted_chunk(vectors, S::kLanes) : channel_chunk(vectors, S::kLanes, sizeof(V));
  const int64_t chunks = ceil_div(vectors, chunk), members = kBlock / chunk;
  const int64_t image_tiles_x = ceil_div(problem.x.out, S::kX), image_tiles_y = ceil_div(problem.y.out, S::kY);
  const int64_t pixel = chunk * S::kLanes + (kShifted ? kAccessElements<T> : 0);
  const int64_t vector =
      kShifted ? kAccessElements<T> : channel_vector<T>(problem.in, problem.in, problem.channels, pixel);
  const auto rows = [](int64_t y) { return (y - 1) * S::kStepY + R::span(S::kY); };
  const auto columns = [](int64_t x) { return (x - 1) * S::kStepX + R::span(S::kX); };
  const auto [tiles_x, tiles_y] = tiles_of_block(image_tiles_x, image_tiles_y, members, [&](int64_t x, int64_t y) {
    const int64_t read = rows(y) * columns(x);
    return read * pixel * int64_t(sizeof(T)) <= kShared ? read : 0;
  });
  FwdPixelsParams<T> params{};
  params.tile = PixelsTile(rows(tiles_y), columns(tiles_x), pixel, vector);
  set_problem<T>(problem, params);
  params.left = int((problem.x.pad - R::kPhase) / R::kUp), params.top = int((problem.y.pad - R::kPhase) / R::kUp);
  params.tiles = int(tiles_x * tiles_y), params.members = int(std::min<int64_t>(members, params.tiles)),
  params.load_bytes = int(vector * sizeof(T));
  const int64_t blocks_x = ceil_div(image_tiles_x, tiles_x), blocks_y = ceil_div(image_tiles_y, tiles_y);
  const int64_t stage = round_up(params.tile.elements(), kAccess) * int64_t(sizeof(T));
  const int64_t threads = round_up(params.members * chunk, kWarp);
  const BlockNeeds needs{chunks * blocks_x * blocks_y, threads, 128, stage, 0, params.load_bytes == 16};
  const BatchSplit split = split_batch(problem, sizeof(T), needs);
  params.images_a_split = split.images, params.stages = split.stages;
  while (params.stages > 1 && !allow_shared<fwd_pixels<T, R, kShifted>>(params.stages * stage)) --params.stages;
  params.chunk = Divider<uint32_t>(chunk), params.chunks = Divider<uint32_t>(chunks);
  params.blocks_x = Divider<uint32_t>(blocks_x), params.tiles_x = Divider<uint32_t>(tiles_x);
  launch_kernel<fwd_pixels<T, R, kShifted>>(Kernel::kFwdPixels, chunks * blocks_x * blocks_y,
                                            ceil_div(problem.batch, params.images_a_split), threads,
                                            params.stages * stage, params, stream);
}

template <class T, class R>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  if constexpr (sizeof(T) == 2 && R::kTaps == 7)
    if (problem.channels % 4 != 0) return launch<T, R, true>(problem, stream);
  launch<T, R, false>(problem, stream);
}

template <class T, int taps>
void launch_taps(const ForwardProblem& problem, cudaStream_t stream) {
  if (is_step(problem, 1, 1)) return launch<T, TapWindow<1, 1, taps>>(problem, stream);
  if constexpr (taps >= 5) {
    if (is_step(problem, 1, 2)) return launch<T, TapWindow<1, 2, taps>>(problem, stream);
    if (is_step(problem, 2, 1)) return launch<T, TapWindow<2, 1, taps>>(problem, stream);
  }
  fail_choice(Kernel::kFwdPixels);
}

}  // namespace

void launch_fwd_pixels(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdPixels, problem.dtype, [&](auto zero) {
    dispatch_taps(Kernel::kFwdPixels, problem.x.taps,
                  [&](auto taps) { launch_taps<decltype(zero), decltype(taps)::value>(problem, stream); });
  });
}

}  // namespace customops::cuda::depthwise
