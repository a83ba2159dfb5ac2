// depthwise_conv2d's wgrad for channels_last images and 3x3, 5x5, 7x7 taps at strides 1 and 2. Reads image and
// gradient once, in tiles that pass through shared memory; neighbouring threads take neighbouring channels. A thread
// holds a sum for every tap in registers and goes through tiles of kX by kY pixels of the gradient; threads of a block
// add up what they have in shared memory, blocks write partial sums, and a second kernel adds those.
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 256;

template <class R>
struct WgradPixelsTile {
  static constexpr int kLanes = channel_lanes(R::kTaps);
  static constexpr int kX = R::kTaps == 7 && R::kDown == 1 ? 4 : 2;
  static constexpr int kY = R::kTaps == 7
                                ? (R::kDown == 2 ? 4 : 7)
                                : (R::kTaps == 3 ? 4 : 7) / (R::kDown == 2 ? 2 : 1) + (R::kTaps == 5 && R::kDown == 2);
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

template <class T>
struct WgradPixelsParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_w, in_h, out_w, out_h, channels, left, top, members, tiles, batch, images_a_split, image_blocks, stages;
  int load_bytes, grad_at, stage_elements, bytes;
  PixelsTile tile, grad_tile;
  Divider<uint32_t> chunk, chunks, blocks_x, tiles_x;
};

// kShifted: pixels are not aligned, see copy_images.cuh.
template <class T, class R, bool kShifted>
__global__ void __launch_bounds__(kBlock, 2) wgrad_pixels(const __grid_constant__ WgradPixelsParams<T> params) {
  using S = WgradPixelsTile<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  constexpr int kSpan = R::span(S::kX), kMore = kShiftedMore<T, kShifted>;
  if (params.result.partial != nullptr) start_next_kernel();
  extern __shared__ __align__(kAccess) char shared[];
  T* const patches = reinterpret_cast<T*>(shared);
  clear(shared, params.bytes);
  uint32_t rest = blockIdx.x, member = threadIdx.x;
  const int first_channel = int(params.chunks.divmod(rest) * params.chunk.divisor) * S::kLanes,
            image_blocks = int(rest);
  const int vector = int(params.chunk.divmod(member)) * S::kLanes;
  const int bx = int(params.blocks_x.divmod(rest)) * params.grad_tile.columns, by = int(rest) * params.grad_tile.rows;
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const bool busy = int(member) < params.members && first_channel + vector < params.channels;
  const PixelsSource source{params.tile,
                            by * R::kDown - params.top,
                            bx * R::kDown - params.left,
                            params.in_h,
                            params.in_w,
                            params.channels - first_channel + kMore,
                            params.channels};
  const PixelsSource grad_source{
      params.grad_tile, by, bx, params.out_h, params.out_w, params.channels - first_channel + kMore, params.channels};
  const Loads<4, PixelsSource> loads(source, source.all()), grad_loads(grad_source, grad_source.all());
  const int64_t in_image = int64_t(params.in_h) * params.in_w * params.channels,
                out_image = int64_t(params.out_h) * params.out_w * params.channels;
  const T* in = params.in + begin * in_image + first_channel;
  const T* grad_in = params.grad + begin * out_image + first_channel;
  const int row_step = params.tile.columns * params.tile.pixel,
            grad_step = params.grad_tile.columns * params.grad_tile.pixel;
  const T *const end_in = params.in + params.batch * in_image, *const end_grad = params.grad + params.batch * out_image;
  const int in_row = params.in_w * params.channels, grad_row = params.out_w * params.channels;
  // The elements of the tiles' first pixels, which say how they are aligned.
  unsigned first = element_of(in, int64_t(source.y0) * in_row + source.x0 * params.channels),
           grad_first = element_of(grad_in, int64_t(by) * grad_row + bx * params.channels);
  A sum[S::kTaps][S::kLanes] = {};
  const auto load = [&](int stage) {
    T* const patch = patches + stage * params.stage_elements;
    if constexpr (kShifted) {
      loads.issue_aligned(patch, in, end_in);
      grad_loads.issue_aligned(patch + params.grad_at, grad_in, end_grad);
    } else {
      loads.issue_bytes(params.load_bytes, patch, in);
      grad_loads.issue_bytes(params.load_bytes, patch + params.grad_at, grad_in);
    }
    in += in_image, grad_in += out_image;
  };
  const auto compute = [&](int stage) {
    const T* const patch = patches + stage * params.stage_elements + vector;
    for (int t = busy ? int(member) : params.tiles; t < params.tiles; t += params.members) {
      uint32_t ty = t;
      const int tx = int(params.tiles_x.divmod(ty));
      const T* from = patch + int(ty) * S::kY * R::kDown * row_step + tx * S::kX * R::kDown * params.tile.pixel;
      const T* grads = patch + params.grad_at + int(ty) * S::kY * grad_step + tx * S::kX * params.tile.pixel;
      unsigned element = first + ty * S::kY * R::kDown * in_row + unsigned(tx) * S::kX * R::kDown * params.channels;
      const unsigned grad_element = grad_first + ty * S::kY * grad_row + unsigned(tx) * S::kX * params.channels;
      const auto read = [&](const T* pixel, unsigned element) {
        return *reinterpret_cast<const V*>(pixel + (kShifted ? shift_of<T>(element) : 0));
      };
      A grad[S::kY][S::kX][S::kLanes];
#pragma unroll
      for (int y = 0; y < S::kY; ++y)
#pragma unroll
        for (int x = 0; x < S::kX; ++x) {
          const V value = read(grads + y * grad_step + x * params.tile.pixel,
                               grad_element + unsigned(y) * grad_row + x * params.channels);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) grad[y][x][v] = widen(value.at[v]);
        }
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i, from += row_step, element += in_row) {
        A row[kSpan][S::kLanes];
#pragma unroll
        for (int j = 0; j < kSpan; ++j) {
          const V value = read(from + j * params.tile.pixel, element + j * params.channels);
#pragma unroll
          for (int v = 0; v < S::kLanes; ++v) row[j][v] = widen(value.at[v]);
        }
        add_taps<R>(i, grad, row, 0, sum);
      }
    }
    first += unsigned(in_image), grad_first += unsigned(out_image);
  };
  for_images(end - begin, params.stages, load, compute);

  A* const sums = reinterpret_cast<A*>(shared);
  constexpr int kSums = S::kTaps * S::kLanes;
  const int chunk = int(params.chunk.divisor), columns = chunk * kSums;
  __syncthreads();
  if (int(member) < params.members)
#pragma unroll
    for (int v = 0; v < S::kLanes; ++v)
#pragma unroll
      for (int k = 0; k < S::kTaps; ++k) sums[member * columns + (vector + v) * S::kTaps + k] = sum[k][v];
  __syncthreads();
  const int block_sums = min(chunk * S::kLanes, params.channels - first_channel) * S::kTaps;
  for (int i = threadIdx.x; i < block_sums; i += blockDim.x) {
    A total = 0;
#pragma unroll 4
    for (int m = 0; m < params.members; ++m) total += sums[m * columns + i];
    params.result.write(int64_t(blockIdx.y) * params.image_blocks + image_blocks, int64_t(params.channels) * S::kTaps,
                        int64_t(first_channel) * S::kTaps + i, total);
  }
}

template <class T, class R, bool kShifted>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  using S = WgradPixelsTile<R>;
  using A = acc_t<T>;
  using V = Vector<T, S::kLanes>;
  WgradPixelsParams<T> params{};
  set_problem<T>(problem, params);
  const int64_t vectors = problem.channels / S::kLanes,
                chunk = kShifted ? shifted_chunk(vectors, S::kLanes) : channel_chunk(vectors, S::kLanes, sizeof(V));
  const int64_t chunks = ceil_div(vectors, chunk), members = kBlock / chunk;
  const int64_t image_tiles_x = ceil_div(problem.x.out, S::kX), image_tiles_y = ceil_div(problem.y.out, S::kY);
  const int64_t pixel = chunk * S::kLanes + (kShifted ? kAccessElements<T> : 0);
  const int64_t vector =
      kShifted ? kAccessElements<T> : channel_vector<T>(params.in, params.grad, problem.channels, pixel);
  int64_t stage = 0;
  const auto plan_tiles = [&](int64_t x, int64_t y) {  // returns the pixels that it reads, 0 for too many
    params.tile =
        PixelsTile((y * S::kY - 1) * R::kDown + R::kTaps, (x * S::kX - 1) * R::kDown + R::kTaps, pixel, vector);
    params.grad_tile = PixelsTile(y * S::kY, x * S::kX, pixel, vector);
    params.grad_at = int(round_up(params.tile.elements(), kAccess));
    params.stage_elements = int(params.grad_at + round_up(params.grad_tile.elements(), kAccess));
    stage = params.stage_elements * int64_t(sizeof(T));
    return stage <= 55 << 10 ? int64_t(params.tile.rows) * params.tile.columns : 0;
  };
  const auto [tiles_x, tiles_y] = tiles_of_block(image_tiles_x, image_tiles_y, members, plan_tiles);
  plan_tiles(tiles_x, tiles_y);
  const int64_t blocks_x = ceil_div(image_tiles_x, tiles_x), blocks_y = ceil_div(image_tiles_y, tiles_y);
  params.image_blocks = int(blocks_x * blocks_y);
  params.members = int(std::min<int64_t>(members, tiles_x * tiles_y));
  const int64_t threads = round_up(params.members * chunk, kWarp);
  const bool past_l1 = kShifted || run_bytes<T>(nullptr, problem.channels, pixel) == kAccess;  // of the shape alone
  const BatchSplit split =
      split_batch(problem, sizeof(T), {chunks * params.image_blocks, threads, 128, stage, 0, past_l1});
  params.images_a_split = split.images, params.stages = split.stages;
  const int64_t splits = ceil_div(problem.batch, params.images_a_split),
                sums = members * chunk * S::kTaps * S::kLanes * sizeof(A);
  const auto bytes = [&](int stages) { return std::max(stages * stage, sums); };
  while (params.stages > 1 && !allow_shared<wgrad_pixels<T, R, kShifted>>(bytes(params.stages))) --params.stages;
  params.bytes = int(bytes(params.stages));
  const WgradPartialSums<T> partial(problem, splits * params.image_blocks);
  params.result = partial.result();
  params.left = int(problem.x.pad), params.top = int(problem.y.pad);
  params.tiles = int(tiles_x * tiles_y), params.load_bytes = int(vector * sizeof(T));
  params.chunk = Divider<uint32_t>(chunk), params.chunks = Divider<uint32_t>(chunks);
  params.blocks_x = Divider<uint32_t>(blocks_x), params.tiles_x = Divider<uint32_t>(tiles_x);
  launch_kernel<wgrad_pixels<T, R, kShifted>>(Kernel::kWgradPixels, chunks * params.image_blocks, splits, threads,
                                              params.bytes, params, stream);
  partial.finish(problem, stream, true);
}

template <class T, class R>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  if constexpr (sizeof(T) == 2 && R::kTaps == 7)
    if (problem.channels % 4 != 0) return launch<T, R, true>(problem, stream);
  launch<T, R, false>(problem, stream);
}

template <class T, int taps>
void launch_taps(const WgradProblem& problem, cudaStream_t stream) {
  if (problem.x.down == 1) return launch<T, TapWindow<1, 1, taps>>(problem, stream);
  if (problem.x.down == 2) return launch<T, TapWindow<1, 2, taps>>(problem, stream);
  fail_choice(Kernel::kWgradPixels);
}

}  // namespace

void launch_wgrad_pixels(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kWgradPixels, problem.dtype, [&](auto zero) {
    dispatch_taps(Kernel::kWgradPixels, problem.x.taps,
                  [&](auto taps) { launch_taps<decltype(zero), decltype(taps)::value>(problem, stream); });
  });
}

}  // namespace customops::cuda::depthwise
