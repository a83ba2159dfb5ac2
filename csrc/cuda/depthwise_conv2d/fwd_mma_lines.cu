// depthwise_conv2d, forward and dgrad, on tensor cores for contiguous float16 and bfloat16 images and kernels one tap
// high at stride and dilation 1 along rows: rows of samples, as in audio, sequence and state space models.
//
// Outputs 8 * i + j of a row are a matrix product. Row i of the first matrix is the vector of eight samples i and those
// after it; column j of the second has the taps from row j on, and zeros around them. Where the windows of a row begin
// inside a vector, its taps begin as many rows later. A warp takes a piece of a row, which it copies into shared memory
// of its own, with zeros around the row; no warp waits for another.
//
// Zeros times infinity are NaN: where a result is not finite, a warp computes its outputs again, tap by tap.
#include "../matrices.cuh"
#include "copy_images.cuh"
#include "dense_rows.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128, kLanes = 8, kTile = 16 * kLanes;  // threads; samples of a vector; outputs of a product
constexpr int kZeros = 2 * (kLanes - 1);                      // before the taps: for the column, and the row's start

template <class T>
struct MmaLinesParams : RowsParams<T> {
  int tiles;  // of a warp
  uint32_t warps;
  Divider<uint32_t> warps_a_row;
};

// Elements of a warp's shared memory.
__host__ __device__ constexpr int taps_elements(int steps) { return 16 * steps + 2 * kLanes; }
__host__ __device__ constexpr int line_elements(int steps, int tiles) {
  return taps_elements(steps) + tiles * kTile + 2 * steps * kLanes;
}

// Copies `count` vectors of a row from column `first` on into shared memory, zeros for what is not of the row.
template <class T, int kMost>
__device__ void copy_line(const RowsParams<T>& params, const T* row, int size, int first, int count, uint4* to) {
  constexpr int kLoads = (kMost + kWarp - 1) / kWarp;
  const int lane = threadIdx.x % kWarp;
  uint4 vectors[kLoads] = {};
#pragma unroll
  for (int l = 0; l < kLoads; ++l) {
    const int column = first + (lane + l * kWarp) * kLanes;
    if (lane + l * kWarp >= count || column >= size || column + kLanes <= 0) continue;
    if (row + column >= params.in && row + column + kLanes <= params.in_end) {
      vectors[l] = *reinterpret_cast<const uint4*>(row + column);
    } else {
#pragma unroll
      for (int i = 0; i < kLanes; ++i)
        if (unsigned(column + i) < unsigned(size)) reinterpret_cast<T*>(&vectors[l])[i] = row[column + i];
    }
  }
#pragma unroll
  for (int l = 0; l < kLoads; ++l) {
    const int column = first + (lane + l * kWarp) * kLanes;
    if (column < 0 || column + kLanes > size)
#pragma unroll
      for (int i = 0; i < kLanes; ++i)
        if (unsigned(column + i) >= unsigned(size)) reinterpret_cast<uint16_t*>(&vectors[l])[i] = 0;
    if (lane + l * kWarp < count) to[lane + l * kWarp] = vectors[l];
  }
}

// Writes the taps in the order of the samples that they meet to shared memory, and zeros around them.
template <class T, int kSteps>
__device__ void copy_taps(const RowsParams<T>& params, int channel, T* to) {
#pragma unroll
  for (int i = threadIdx.x % kWarp; i < taps_elements(kSteps); i += kWarp) {
    const int k = i - kZeros;
    T tap(0, T::from_bits());
    if (unsigned(k) < unsigned(params.taps))
      tap = params.weight.narrowed(int64_t(channel) * params.taps + (params.flipped ? params.taps - 1 - k : k));
    to[i] = tap;
  }
}

// Computes a lane's four outputs of a tile again. samples: under the tile, of which the first is that of `column`.
template <class T>
__device__ void exact_sums(const T* samples, const T* taps, int count, int column, int size, float bias,
                           float (&sum)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int from = threadIdx.x % kWarp * 2 + i % 2 + i / 2 * (kTile / 2);
    sum[i] = bias;
#pragma unroll 1
    for (int k = 0; k < count; ++k)
      if (unsigned(column + from + k) < unsigned(size)) sum[i] += widen(samples[from + k]) * widen(taps[k]);
  }
}

// Stores half a tile, two neighbours a lane; `left` outputs of the row are left. Aligned pairs are one access.
template <class T>
__device__ void store_pairs(float first, float second, T* out, int left) {
  const int lane = threadIdx.x % kWarp, at = 2 * lane;
  const T low = narrow<T>(first), high = narrow<T>(second);
  const uint32_t pair = low.x | uint32_t(high.x) << 16;
  if (reinterpret_cast<uintptr_t>(out) % 4 == 0) {
    if (at + 1 < left)
      *reinterpret_cast<uint32_t*>(out + at) = pair;
    else if (at < left)
      out[at] = low;
    return;
  }
  const uint32_t next = __shfl_down_sync(0xffffffff, pair, 1);
  if (lane == 0 && left > 0) out[0] = low;
  if (lane + 1 < kWarp && at + 2 < left)
    *reinterpret_cast<uint32_t*>(out + at + 1) = __funnelshift_r(pair, next, 16);
  else if (at + 1 < left)
    out[at + 1] = high;
}

// kSteps: of 16 rows of the second matrix. kMostTiles: of a warp.
template <class T, int kSteps, int kMostTiles>
__global__ void __launch_bounds__(kBlock) fwd_mma_lines(const __grid_constant__ MmaLinesParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  extern __shared__ __align__(kAccess) char shared[];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  uint32_t row = blockIdx.x * (kBlock / kWarp) + warp;
  if (row >= params.warps) return;
  T* const taps = reinterpret_cast<T*>(shared) + warp * line_elements(kSteps, params.tiles);
  T* const samples = taps + taps_elements(kSteps);
  const int first = int(params.warps_a_row.divmod(row)) * params.tiles * kTile;
  const Row<T> line(params, row);
  T* const out = line.out + first;
  const int width = min(params.tiles * kTile, params.out_w - first), tiles = (width + kTile - 1) / kTile;
  const int start = first - params.pad;
  const int shift = int(reinterpret_cast<uintptr_t>(line.in + start) / sizeof(T)) & (kLanes - 1);
  copy_line<T, kMostTiles * 16 + 2 * kSteps>(params, line.in, line.size, start - shift, tiles * 16 + 2 * kSteps,
                                             reinterpret_cast<uint4*>(samples));
  copy_taps<T, kSteps>(params, line.channel, taps);
  const float bias = params.bias ? params.bias[line.channel] : 0.0f;
  __syncwarp();
  uint32_t b[kSteps][2];
#pragma unroll
  for (int i = 0; i < 2 * kSteps; ++i) {
    const T* const two = taps + kZeros + lane % 4 * 2 - lane / 4 - shift + i * kLanes;
    b[i / 2][i % 2] = two[0].x | uint32_t(two[1].x) << 16;
  }
  const unsigned rows = shared_address(samples) + (lane % 16 + lane / 16) * kAccess;
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    float sum[4] = {bias, bias, bias, bias};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint32_t a[4];
      load_matrices(a, rows + (t * 16 + s * 2) * kAccess);
      multiply_16<T>(sum, a, b[s]);
    }
    const float not_finite = (sum[0] + sum[1]) * 0.0f + (sum[2] + sum[3]) * 0.0f;
    if (__any_sync(0xffffffff, not_finite != 0.0f))  // NaN
      exact_sums(samples + t * kTile + shift, taps + kZeros, params.taps, start + t * kTile, line.size, bias, sum);
    store_pairs(sum[0], sum[1], out + t * kTile, width - t * kTile);
    store_pairs(sum[2], sum[3], out + t * kTile + kTile / 2, width - t * kTile - kTile / 2);
  }
#endif
}

template <class T, int kSteps, int kMostTiles>
void launch(const ForwardProblem& problem, int64_t tiles_a_warp, cudaStream_t stream) {
  MmaLinesParams<T> params{};
  set_rows<T>(problem, params);
  const int64_t rows = problem.batch * problem.channels * problem.y.out, tiles = ceil_div(problem.x.out, kTile);
  const int64_t a_row = ceil_div(tiles, tiles_a_warp);
  params.tiles = int(ceil_div(tiles, a_row)), params.warps = uint32_t(rows * a_row);
  params.warps_a_row = Divider<uint32_t>(a_row);
  constexpr int kWarps = kBlock / kWarp;
  const int64_t bytes = kWarps * line_elements(kSteps, params.tiles) * int64_t(sizeof(T));
  fwd_mma_lines<T, kSteps, kMostTiles><<<unsigned(ceil_div(params.warps, kWarps)), kBlock, bytes, stream>>>(params);
}

template <class T, int kSteps>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  // Long pieces read less twice, and prepare the taps less often; few of them leave most of a GPU idle. Measured on an
  // H200.
  constexpr int64_t kWarpsAMultiprocessor = 16;
  const int64_t rows = problem.batch * problem.channels * problem.y.out, tiles = ceil_div(problem.x.out, kTile);
  int64_t most = 1;
  while (most < 8 && most < tiles &&
         rows * ceil_div(tiles, 2 * most) >= kWarpsAMultiprocessor * current_gpu().multiprocessors)
    most *= 2;
  most > 4 ? launch<T, kSteps, 8>(problem, most, stream) : launch<T, kSteps, 4>(problem, most, stream);
}

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  if (problem.x.taps <= 16 * 2 - kZeros) return launch<T, 2>(problem, stream);
  if (problem.x.taps <= 16 * 3 - kZeros) return launch<T, 3>(problem, stream);
  static_assert(kDenseRowsMostTaps <= 16 * 5 - kZeros);
  launch<T, 5>(problem, stream);
}

}  // namespace

void launch_fwd_mma_lines(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_16_bit(Kernel::kFwdMmaLines, problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
