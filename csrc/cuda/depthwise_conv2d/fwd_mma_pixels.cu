// depthwise_conv2d, forward and dgrad, for channels_last float16 and bfloat16 images under 5x5 and 7x7 taps at stride
// 1, on tensor cores; at stride 2 forward under 5x5 taps, and dgrad under 7x7.
//
// For eight channels and one column of taps, outputs are a product of two matrices, A (16x32) and B (32x8). B has the
// pixels as they lie in memory: row 8p + c is channel c of pixel p, of four below each other; each column is a tile of
// the image. A has the taps: row 8y + c is channel c of the output in row y, of two. A tap stands where both channels
// are the same, zeros elsewhere. So at most one of four neighbours in a row of A is not zero: the tensor cores' sparse
// products take up to two. Sums stay in float32.
//
// A block computes the same part of every image of its share of the batch. It copies that part, 32 channels of it, into
// shared memory, with zeros around the image; the next images are copied while it computes. A warp has eight channels,
// keeps their taps in registers, and computes eight tiles of kX by two outputs at a time. The four warps of a team have
// the same tiles: their outputs go through shared memory, so that all channels of a pixel are written at once.
//
// Zeros times infinity are NaN: where a result is not finite, a warp computes all of its results again, tap by tap.
#include "../matrices.cuh"
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kWarps = 8, kBlock = kWarps * kWarp;
constexpr int kLanes = 8, kTiles = 8;  // channels and tiles of a product
constexpr int kRows = 4;               // pixels below each other in a product
constexpr int kUnits = 4;              // groups of kLanes channels of a block: one for each warp of a team
constexpr int kTeam = kUnits * kWarp;  // threads that compute the same tiles
constexpr int64_t kShared = 40 << 10;  // bytes of a block's part: two images of two blocks fit into a multiprocessor
constexpr unsigned kAllLanes = 0xffffffff;

template <class R>
struct FwdMmaPixelsTile {
  static constexpr int kX = R::kUp == 2 ? 8 : 4, kY = 2;
  static constexpr int kPixels = kX * kY, kTaps = R::kTaps * R::kTaps;
  static constexpr int kSpanX = R::span(kX), kSpanY = R::span(kY), kSteps = (kSpanY + kRows - 1) / kRows;
  static constexpr int kStepX = kX * R::kDown / R::kUp, kStepY = kY * R::kDown / R::kUp;  // pixels to the next tile
  static constexpr int kStagedBytes = 2 * kTiles * kPixels * kAccess;   // a warp's part of two buffers of outputs
  static_assert(kUnits * kLanes * kTaps * 2 <= kUnits * kStagedBytes);  // the taps are there before
  static_assert(kShared + kWarps * kStagedBytes <= kFwdMmaPixelsShared);
  static_assert(kStepX * kUnits % 8 == 0 && kPixels % kUnits == 0);
};

template <class T>
struct FwdMmaPixelsParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, channels, left, top;  // left, top: pixels before the first
  int rows, columns;                                  // of a block's part of an image; columns are even
  int rows_at_once;                                   // that all threads copy in one step
  int tiles, block_h, batch, images_a_split, stages, stage_bytes, staged_at, bytes;
  bool flipped;
  Divider<uint32_t> chunks, blocks_x, tiles_x, row_vectors;  // vectors of kLanes channels
};

// The vectors of two neighbouring pixels fill all banks of shared memory once. Among these, vector v of tile t lies at
// v ^ t % 8, so that the same vector of eight tiles is read without conflicts.
__device__ inline unsigned swizzled(unsigned vector, unsigned tile) { return vector ^ (tile & 7); }

// A tile of outputs of a block.
template <class T>
struct Tile {
  int number, x, y;
  __device__ Tile(const FwdMmaPixelsParams<T>& params, int tile) : number(min(tile, params.tiles - 1)) {
    uint32_t line = number;
    x = int(params.tiles_x.divmod(line)), y = int(line);
  }
};

// What a thread copies of an image: one vector of a column, of every rows_at_once-th row.
template <class T, class S>
struct TileCopies {
  const FwdMmaPixelsParams<T>& params;
  int x0, y0, row;  // x0, y0: the pixel that the block's part starts with; row: the thread's first
  int from;         // in the image, in elements
  int vector;       // in shared memory
  int tile;         // of the column, in the first row of tiles

  __device__ TileCopies(const FwdMmaPixelsParams<T>& params, int x0, int y0, int channels)
      : params(params), x0(x0), y0(y0) {
    uint32_t line = threadIdx.x;
    vector = int(params.row_vectors.divmod(line));
    const int column = vector / kUnits, channel = vector % kUnits * kLanes;
    row = int(line), tile = column / S::kStepX;
    if (row >= params.rows_at_once || unsigned(x0 + column) >= unsigned(params.in_w) || channel >= channels)
      row = params.rows;  // none
    while (row < params.rows && y0 + row < 0) row += params.rows_at_once;
    if (y0 + row >= params.in_h) row = params.rows;
    from = row < params.rows ? ((y0 + row) * params.in_w + x0 + column) * params.channels + channel : 0;
    vector += row * params.columns * kUnits;
  }
  __device__ void issue(unsigned patch, const T* image) const {
    const int end = min(params.rows, params.in_h - y0), tiles_x = int(params.tiles_x.divisor);
    const int64_t from_step = int64_t(params.rows_at_once) * params.in_w * params.channels;
    const int vector_step = params.rows_at_once * params.columns * kUnits;
    const T* at = image + from;
    int to = vector;
#pragma unroll 2
    for (int r = row; r < end; r += params.rows_at_once, at += from_step, to += vector_step)
      copy_async<kAccess, true>(patch + swizzled(to, unsigned(r) / S::kStepY * tiles_x + tile) * kAccess, at);
  }
};

// A thread's share of the taps of a block's channels: loaded into registers first, so that it waits for them later.
template <class T, int kTaps>
struct TapCopies {
  static constexpr int kMost = (kUnits * kLanes * kTaps + kTeam - 1) / kTeam;
  const FwdMmaPixelsParams<T>& params;
  const int all;
  T tap[kMost];

  __device__ TapCopies(const FwdMmaPixelsParams<T>& params, int channel)
      : params(params), all(min(kUnits * kLanes, params.channels - channel) * kTaps) {
    params.weight.visit([&](const auto& element) {
#pragma unroll
      for (int i = 0; i < kMost; ++i)
        if (const int at = threadIdx.x + i * blockDim.x; at < all) tap[i] = element(int64_t(channel) * kTaps + at);
    });
  }
  __device__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      if (const int at = threadIdx.x + i * blockDim.x; at < all)
        to[params.flipped ? at + kTaps - 1 - 2 * (at % kTaps) : at] = tap[i];
  }
};

// A lane's elements of A for each step and column of taps, from the taps of a warp's channels. A warp without channels
// gets zeros.
template <class T, class R>
__device__ void read_taps(const T* from, bool busy, uint32_t (&taps)[FwdMmaPixelsTile<R>::kSteps][R::kTaps][4]) {
  using S = FwdMmaPixelsTile<R>;
  // A lane has row `group`, which is its channel, and of pixels `pixel` and pixel + 2 the columns of four channels: its
  // own is among these where the condition below holds.
  const int group = threadIdx.x % kWarp / 4, quarter = threadIdx.x % 4, pixel = quarter / 2;
  busy &= quarter % 2 == group / 4;
  from += group * S::kTaps;
#pragma unroll
  for (int s = 0; s < S::kSteps; ++s)
#pragma unroll
    for (int kx = 0; kx < R::kTaps; ++kx)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int ky = R::tap(s * kRows + i / 2 * 2 + pixel, i % 2);
        uint32_t tap = 0;
        if (busy && ky >= 0) tap = from[ky * R::kTaps + kx].x;
        taps[s][kx][i] = group % 2 == 0 ? tap : tap << 16;
      }
}

// Adds the products of eight tiles to the sums of their outputs. A lane gives the address of its own tile's pixels.
template <class T, class R>
__device__ __forceinline__ void add_products(const FwdMmaPixelsParams<T>& params, unsigned patch, const Tile<T>& tile,
                                             int unit, const uint32_t (&taps)[FwdMmaPixelsTile<R>::kSteps][R::kTaps][4],
                                             float (&sum)[FwdMmaPixelsTile<R>::kX][4]) {
  using S = FwdMmaPixelsTile<R>;
  constexpr int kPair = 2 * kUnits * kAccess;  // bytes of two pixels
  const int lane = threadIdx.x % kWarp;
  const uint32_t metadata = lane / 4 % 4 < 2 ? 0x44444444 : 0xeeeeeeee;  // elements 0 and 1 of each four, or 2 and 3
#pragma unroll
  for (int s = 0; s < S::kSteps; ++s) {
    const int row = min(s * kRows + lane / 8, S::kSpanY - 1);
    const unsigned pair = patch + ((tile.y * S::kStepY + row) * params.columns + tile.x * S::kStepX) / 2 * kPair;
    const int number = tile.number + row / S::kStepY * int(params.tiles_x.divisor);
#pragma unroll
    for (int j = 0; j < S::kSpanX; ++j) {
      const unsigned first = pair + swizzled(unit, number + j / S::kStepX) * kAccess;
      uint32_t pixels[4];
      load_matrices(pixels, (first ^ j % 2 * (kPair / 2)) + j / 2 * kPair);
#pragma unroll
      for (int x = 0; x < S::kX; ++x)
        if (const int kx = R::tap(j, x); kx >= 0) multiply_sparse_32<T>(sum[x], taps[s][kx], pixels, metadata);
    }
  }
}

// The place in shared memory of a team's outputs: channels `unit` of a pixel of a tile, of eight. The XOR avoids
// conflicts of banks.
__device__ inline int staged_vector(int pixel, int tile, int unit) {
  return (pixel * kTiles + tile) * kUnits + (unit ^ tile / 2);
}

// Computes a warp's outputs again, tap by tap, so that no zero is multiplied.
template <class T, class R>
__device__ void stage_exact_sums(const FwdMmaPixelsParams<T>& params, const T* patch, int first_tile, int unit,
                                 int channel, int x0, int y0, T* staged) {
  using S = FwdMmaPixelsTile<R>;
  const int lane = threadIdx.x % kWarp % kLanes;
  channel += lane;
#pragma unroll 1
  for (int i = threadIdx.x % kWarp / kLanes; i < kTiles * S::kPixels; i += kWarp / kLanes) {
    const int own = i / S::kPixels, pixel = i % S::kPixels, x = pixel % S::kX, y = pixel / S::kX;
    const Tile<T> tile(params, first_tile + own);
    float total = params.bias ? params.bias[channel] : 0.0f;
#pragma unroll 1
    for (int iy = 0; iy < S::kSpanY; ++iy)
#pragma unroll 1
      for (int ix = 0; ix < S::kSpanX; ++ix) {
        const int ky = R::tap(iy, y), kx = R::tap(ix, x), k = ky * R::kTaps + kx;
        const int row = tile.y * S::kStepY + iy, column = tile.x * S::kStepX + ix;
        if (ky < 0 || kx < 0 || unsigned(y0 + row) >= unsigned(params.in_h) ||
            unsigned(x0 + column) >= unsigned(params.in_w))
          continue;
        const unsigned vector = swizzled((row * params.columns + column) * kUnits + unit,
                                         row / S::kStepY * int(params.tiles_x.divisor) + column / S::kStepX);
        total += widen(patch[vector * kLanes + lane]) *
                 params.weight[int64_t(channel) * S::kTaps + (params.flipped ? S::kTaps - 1 - k : k)];
      }
    staged[staged_vector(pixel, own, unit) * kLanes + lane] = narrow<T>(total);
  }
}

// Rounds a warp's sums and writes them into shared memory; false where one is not finite: then nothing is written.
template <class T, int kX>
__device__ __forceinline__ bool stage_sums(const float (&sum)[kX][4], T* staged, int unit) {
  using Two = std::conditional_t<std::is_same_v<T, c10::Half>, __half2, __nv_bfloat162>;
  const int lane = threadIdx.x % kWarp;
  Two two[2][kX], not_finite{};
#pragma unroll
  for (int y = 0; y < 2; ++y)
#pragma unroll
    for (int x = 0; x < kX; ++x) {
      two[y][x] = round_two<Two>(sum[x][y * 2], sum[x][y * 2 + 1]);
      not_finite = __hfma2(two[y][x], Two{}, not_finite);  // NaN from then on
    }
  if (__any_sync(kAllLanes, bits_of(not_finite) != 0)) return false;
  auto* const to = reinterpret_cast<uint32_t*>(staged + staged_vector(0, lane / 4, unit) * kLanes) + lane % 4;
#pragma unroll
  for (int y = 0; y < 2; ++y)
#pragma unroll
    for (int x = 0; x < kX; ++x) to[(y * kX + x) * kTiles * kTeam / kWarp * 4] = transpose_matrix(bits_of(two[y][x]));
  return true;
}

template <class T, class R>
__global__ void __launch_bounds__(kBlock, 2) fwd_mma_pixels(const __grid_constant__ FwdMmaPixelsParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using S = FwdMmaPixelsTile<R>;
  constexpr int kStaged = kTiles * S::kPixels * kUnits * kLanes;  // elements of a team's outputs
  extern __shared__ __align__(128) char shared[];
  uint32_t rest = blockIdx.x;
  const int first_channel = int(params.chunks.divmod(rest)) * kUnits * kLanes;
  const int bx = int(params.blocks_x.divmod(rest)) * int(params.tiles_x.divisor) * S::kX;
  const int by = int(rest) * params.block_h;
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, unit = warp % kUnits, team = warp / kUnits;
  const int channel = first_channel + unit * kLanes;
  const bool busy = channel < params.channels;
  T* staged = reinterpret_cast<T*>(shared + params.staged_at);  // the taps at first, then outputs
  const TapCopies<T, S::kTaps> tap_copies(params, first_channel);
  clear(shared, params.staged_at);
  uint32_t taps[S::kSteps][R::kTaps][4];
  const float bias = busy && params.bias ? params.bias[channel + lane / 4] : 0.0f;
  const TileCopies<T, S> copies(params, bx / R::kUp * R::kDown - params.left, by / R::kUp * R::kDown - params.top,
                                params.channels - first_channel);
  const int64_t in_image = int64_t(params.in_h) * params.in_w * params.channels,
                out_image = int64_t(params.out_h) * params.out_w * params.channels;
  const T* in = params.in + begin * in_image + first_channel;
  const unsigned start = shared_address(shared);
  const auto load = [&](int stage) {
    copies.issue(start + stage * params.stage_bytes, in);
    in += in_image;
  };
  // Of its team's outputs, a thread writes channels own_unit of pixels unit, unit + 4, ... of a tile.
  const int own_unit = lane % kUnits, own_tile = lane / kUnits;
  const bool writes = first_channel + own_unit * kLanes < params.channels;
  T* out = params.out + begin * out_image + first_channel + own_unit * kLanes;
  int turn = 0;  // of two buffers for outputs: while one is written to memory, the next outputs go into the other
  const auto compute = [&](int stage) {
    for (int first = team * kTiles; first < params.tiles; first += blockDim.x / kTeam * kTiles, turn ^= 1) {
      const Tile<T> tile(params, first + lane % kTiles);
      T* const to = staged + turn * kStaged;
      if (busy) {
        float sum[S::kX][4];
#pragma unroll
        for (int x = 0; x < S::kX; ++x)
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[x][i] = bias;
        add_products<T, R>(params, start + stage * params.stage_bytes, tile, unit, taps, sum);
        if (!stage_sums<T>(sum, to, unit))
          stage_exact_sums<T, R>(params, reinterpret_cast<const T*>(shared + stage * params.stage_bytes), first, unit,
                                 channel, copies.x0, copies.y0, to);
      }
      const int place = __shfl_sync(kAllLanes, tile.x | tile.y << 16, own_tile);
      asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kTeam) : "memory");
      const int x0 = bx + (place & 0xffff) * S::kX, y0 = by + (place >> 16) * S::kY;
      if (writes && first + own_tile < params.tiles)
#pragma unroll
        for (int i = 0; i < S::kPixels / kUnits; ++i) {
          const int pixel = i * kUnits + unit, x = x0 + pixel % S::kX, y = y0 + pixel / S::kX;
          if (x < params.out_w && y < params.out_h)
            *reinterpret_cast<Bits<16>*>(out + (y * params.out_w + x) * params.channels) =
                *reinterpret_cast<const Bits<16>*>(to + staged_vector(pixel, own_tile, own_unit) * kLanes);
        }
    }
    out += out_image;
  };
  for_images(end - begin, params.stages, load, compute, [&] {
    tap_copies.store(staged);
    __syncthreads();
    read_taps<T, R>(staged + unit * kLanes * S::kTaps, busy, taps);
    staged += team * 2 * kStaged;
  });
#endif
}

// A block's part of an image: tiles, and the rows and columns of pixels under them.
template <class S>
struct TilesOfBlock {
  int64_t x, y;
  int64_t rows() const { return (y - 1) * S::kStepY + S::kSpanY; }
  int64_t columns() const { return round_up((x - 1) * S::kStepX + S::kSpanX, 2); }
  int64_t bytes() const { return rows() * columns() * kUnits * kAccess; }
  bool fits() const { return bytes() <= kShared && columns() * kUnits <= kBlock; }
  int64_t threads() const { return x * y <= kTiles && columns() * kUnits <= kTeam ? kTeam : kBlock; }
};

// What a model expects such tiles to cost, in instructions of a warp: a part for eight tiles, for a pixel that is
// copied, and for the start of a block. It adds up the time until the last block ends, and twice the mean over the GPU.
// Constants were fitted to times measured on an H200.
template <class S>
double cost_of(const TilesOfBlock<S>& tiles, int64_t batch, int64_t blocks_an_image, int64_t multiprocessors) {
  constexpr double kStart = 1200, kPixel = 0.3;
  const int64_t threads = tiles.threads(), rounds = ceil_div(tiles.x * tiles.y, threads / kTeam * kTiles);
  const double image = (threads == kBlock ? 330.0 : 300.0) * double(rounds) +
                       kPixel * double(tiles.rows() * tiles.columns() * kBlock / threads);
  const int64_t at_once = 2 * kBlock / threads * multiprocessors;
  const double all = double(batch) * double(blocks_an_image) / double(at_once) * image;
  double last = all;
  for (int64_t waves = 3; waves > 0; --waves)
    if (const int64_t splits = std::min(batch, waves * at_once / blocks_an_image); splits > 0) {
      const double time = double(waves) * (kStart + double(ceil_div(batch, splits)) * image);
      last = waves == 3 ? time : std::min(last, time);
    }
  return last + 2 * all;
}

// The cheapest tiles, among those that cut each axis of the image into blocks as equal as possible.
template <class S>
TilesOfBlock<S> plan_tiles(const Problem& problem) {
  constexpr int64_t kMost = 16;
  const int64_t image_x = ceil_div(problem.x.out, S::kX), image_y = ceil_div(problem.y.out, S::kY);
  const int64_t chunks = ceil_div(problem.channels, kUnits * kLanes), multiprocessors = current_gpu().multiprocessors;
  const auto even = [](int64_t image, int64_t tiles) { return tiles == ceil_div(image, ceil_div(image, tiles)); };
  TilesOfBlock<S> best{1, 1};
  double least = 0;
  for (int64_t x = 1; x <= std::min(image_x, kMost); ++x)
    for (int64_t y = 1; even(image_x, x) && y <= std::min(image_y, kMost); ++y) {
      const TilesOfBlock<S> tiles{x, y};
      if (!even(image_y, y) || !tiles.fits()) continue;
      const double cost =
          cost_of(tiles, problem.batch, chunks * ceil_div(image_x, x) * ceil_div(image_y, y), multiprocessors);
      if (least == 0 || cost < least) least = cost, best = tiles;
    }
  return best;
}

template <class T, class R>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  using S = FwdMmaPixelsTile<R>;
  const int64_t chunks = ceil_div(problem.channels, kUnits * kLanes);
  const TilesOfBlock<S> tiles = plan_tiles<S>(problem);
  FwdMmaPixelsParams<T> params{};
  set_problem<T>(problem, params);
  params.left = int((problem.x.pad - R::kPhase) / R::kUp), params.top = int((problem.y.pad - R::kPhase) / R::kUp);
  params.tiles = int(tiles.x * tiles.y), params.block_h = int(tiles.y) * S::kY, params.rows = int(tiles.rows()),
  params.columns = int(tiles.columns());
  const int64_t blocks_x = ceil_div(problem.x.out, tiles.x * S::kX),
                blocks_y = ceil_div(problem.y.out, tiles.y * S::kY);
  const int64_t threads = tiles.threads(), stage = tiles.bytes(), staged = threads / kWarp * S::kStagedBytes;
  const BatchSplit split =
      split_batch(problem, sizeof(T), {chunks * blocks_x * blocks_y, threads, 128, stage, staged, true});
  params.images_a_split = split.images, params.stages = split.stages, params.stage_bytes = int(stage);
  const auto plan_shared_memory = [&] {
    params.staged_at = int(params.stages * stage);
    return params.bytes = int(params.staged_at + staged);
  };
  while (!allow_shared<fwd_mma_pixels<T, R>>(plan_shared_memory()) && params.stages > 1) --params.stages;
  params.rows_at_once = int(threads) / (params.columns * kUnits);
  params.chunks = Divider<uint32_t>(chunks), params.blocks_x = Divider<uint32_t>(blocks_x);
  params.tiles_x = Divider<uint32_t>(tiles.x), params.row_vectors = Divider<uint32_t>(params.columns * kUnits);
  launch_kernel<fwd_mma_pixels<T, R>>(Kernel::kFwdMmaPixels, chunks * blocks_x * blocks_y,
                                      ceil_div(problem.batch, params.images_a_split), threads, params.bytes, params,
                                      stream);
}

}  // namespace

void launch_fwd_mma_pixels(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_16_bit(Kernel::kFwdMmaPixels, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool five = problem.x.taps == 5, one = is_step(problem, 1, 1);
    if (one)
      return five ? launch<T, TapWindow<1, 1, 5>>(problem, stream) : launch<T, TapWindow<1, 1, 7>>(problem, stream);
    five ? launch<T, TapWindow<1, 2, 5>>(problem, stream) : launch<T, TapWindow<2, 1, 7>>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
