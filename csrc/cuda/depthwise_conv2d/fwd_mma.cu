// depthwise_conv2d, forward and dgrad, for contiguous float16 and bfloat16 images at stride 1, on tensor cores.
//
// For one channel and one row of taps, outputs are a matrix product: 16 rows of the image, kBlocks * 8 pixels wide,
// times a matrix whose column n holds the taps from row n + shift on, and zeros around them. Eight outputs a product,
// one product a row of taps; sums stay in float32. From 5x5 taps on this is faster than multiply-adds, although then
// more than half of the second matrix is zeros.
//
// A block keeps the taps of its channels, twice, the second time moved by one, so that a pair of taps is one aligned
// word. It goes through the batch, and copies the next images into shared memory while it computes. A warp computes 16
// rows by kTiles * 8 columns.
//
// Zeros times infinity are NaN: where a result is not finite, a warp computes all of its results again, tap by tap.
#include "../matrices.cuh"
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kWarps = 8, kBlock = kWarps * kWarp, kRows = 16, kColumns = 8;

template <class T>
struct FwdMmaParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_h, in_w, out_h, out_w, taps_h, taps_w, top, left, shift;  // left = pad + shift
  int pitch, rows, planes, channels, batch, images_a_split, stages, warps_x, warps_y, load_bytes, store_bytes;
  int patch_elements, staged_pitch, staged_at, taps_at, bytes;
  bool flipped, whole_rows;  // whole_rows: a warp's outputs are as wide as the image
  Divider<uint32_t> blocks_x, blocks_y;
};

// Copies the taps of `count` channels into shared memory, twice: the second time one element further left.
template <class T, int kTapPitch>
__device__ __forceinline__ void load_taps(const FwdMmaParams<T>& params, int channel, int count, T* taps) {
  const int all_taps = params.taps_h * params.taps_w;
  for (int i = threadIdx.x; i < count * all_taps; i += blockDim.x) {
    const int plane = i / all_taps, k = i % all_taps, y = k / params.taps_w, x = k % params.taps_w;
    const T tap = params.weight.narrowed(int64_t(channel + plane) * all_taps + (params.flipped ? all_taps - 1 - k : k));
    T* const row = taps + (plane * params.taps_h + y) * 2 * kTapPitch + x + kColumns - 1 + params.shift;
    row[0] = tap;
    row[kTapPitch - 1] = tap;
  }
}

// Adds the products of 16 rows of the image from `row` on with one row of taps, whose blocks are `taps`.
template <class T, int kBlocks, int kTiles>
__device__ __forceinline__ void add_tap_row(unsigned row, const uint32_t (&taps)[kBlocks], int tiles,
                                            float (&sum)[kTiles][4]) {
  constexpr int kImageBlocks = kTiles + kBlocks - 1;
  uint32_t a[kImageBlocks + 1][2];
#pragma unroll
  for (int j = 0; j < kImageBlocks; j += 2) {
    uint32_t four[4];
    load_matrices(four, row + j * kColumns * unsigned(sizeof(T)));
    a[j][0] = four[0], a[j][1] = four[1], a[j + 1][0] = four[2], a[j + 1][1] = four[3];
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    if (t > 0 && t >= tiles) break;
#pragma unroll
    for (int j = 0; j + 1 < kBlocks; j += 2) multiply_16<T>(sum[t], a[t + j], taps + j);
    if constexpr (kBlocks % 2 == 1) multiply_8<T>(sum[t], a[t + kBlocks - 1], taps + kBlocks - 1);
  }
}

// Whether a result of the warp is infinite or NaN.
template <int kTiles>
__device__ __forceinline__ bool any_not_finite(const float (&sum)[kTiles][4]) {
  float finite = 0;
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int i = 0; i < 4; ++i) finite = fmaf(sum[t][i], 0.0f, finite);
  __syncwarp();
  return __any_sync(0xffffffff, finite != 0.0f);
}

// Computes a warp's outputs again, tap by tap, so that no zero is multiplied.
template <class T, int kTapPitch>
__device__ __forceinline__ void stage_exact_sums(const FwdMmaParams<T>& params, const T* from, const T* taps, int plane,
                                                 int oy, int ox, int height, int width, float bias, T* staged) {
  for (int i = threadIdx.x % kWarp; i < height * width; i += kWarp) {
    const int y = i / width, x = i % width;
    float total = bias;
    for (int ky = 0; ky < params.taps_h; ++ky)
      for (int kx = 0; kx < params.taps_w; ++kx)
        if (unsigned(oy + y + ky - params.top) < unsigned(params.in_h))
          if (unsigned(ox + x + kx + params.shift - params.left) < unsigned(params.in_w))
            total += widen(from[(y + ky) * params.pitch + x + kx]) *
                     widen(taps[(plane * params.taps_h + ky) * 2 * kTapPitch + kx + kColumns - 1 + params.shift]);
    staged[y * params.staged_pitch + x] = narrow<T>(total);
  }
}

// Writes a warp's outputs from shared memory to memory.
template <class T, int kTiles>
__device__ __forceinline__ void store_staged(const FwdMmaParams<T>& params, const T* staged, int height, int width,
                                             T* out) {
  const int lane = threadIdx.x % kWarp;
  if (kTiles == 2 && params.store_bytes >= 8) {  // of 14x14 images, store_run would take 1.07 times the kernel's time
#pragma unroll
    for (int i = lane; i < kRows * kTiles * kColumns / 4; i += kWarp)
      if (i * 4 < height * width) reinterpret_cast<Bits<8>*>(out)[i] = reinterpret_cast<const Bits<8>*>(staged)[i];
  } else if (params.whole_rows) {
    store_run(out, staged, height * width, params.store_bytes, lane, kWarp);
  } else {  // eight lanes a row: rows are 112 bytes, or the last of a wide image
    for (int y = lane / 8; y < height; y += kWarp / 8)
      store_run(out + int64_t(y) * params.out_w, staged + y * params.staged_pitch, width, params.store_bytes, lane % 8,
                8);
  }
}

// kTaps: the rows of taps, or 0 for any number of them. If it is known, their matrices stay in registers, if there is
// room.
template <class T, int kBlocks, int kTiles, int kTaps>
__global__ void __launch_bounds__(kBlock, kTiles == 2 ? 3 : 2) fwd_mma(const __grid_constant__ FwdMmaParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kTapPitch = (kBlocks + 1) * kColumns;
  constexpr int kKept = kTiles == 2 && kTaps > 4 ? 4 : kTaps;  // nvcc 12.4 spills all seven, in 80 registers
  extern __shared__ __align__(kAccess) char shared[];
  T* const patches = reinterpret_cast<T*>(shared);
  T* const taps = reinterpret_cast<T*>(shared + params.taps_at);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, group = lane / 4, pair = lane % 4 * 2;
  clear(shared, params.bytes);
  uint32_t rest = blockIdx.x;
  const int bx = int(params.blocks_x.divmod(rest)) * params.warps_x * kTiles * kColumns;
  const int by = int(params.blocks_y.divmod(rest)) * params.warps_y * kRows;
  const int channel = int(rest) * params.planes, count = min(params.planes, params.channels - channel);
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  __syncthreads();
  load_taps<T, kTapPitch>(params, channel, count, taps);

  const auto source = [&] {
    return PlanesSource(by - params.top, bx - params.left, params.rows, params.pitch, params.pitch, params.in_h,
                        params.in_w, params.load_bytes / int(sizeof(T)));
  };
  constexpr bool kWholeWidth = kTiles == 2;  // a warp takes whole rows of the image
  using Loader = std::conditional_t<kWholeWidth, Run<kBlock, T, decltype(source)>, Loads<8, PlanesSource>>;
  const Loader loads = [&] {
    if constexpr (kWholeWidth)
      return Loader(source, count);
    else
      return Loader(source(), source().all(count));
  }();
  const int64_t in_image = int64_t(params.channels) * params.in_h * params.in_w,
                out_image = int64_t(params.channels) * params.out_h * params.out_w;
  const T* in = params.in + int64_t(begin) * in_image + int64_t(channel) * params.in_h * params.in_w;
  if constexpr (kWholeWidth) in += loads.first;

  // A warp computes the same part of the outputs in every image.
  const int plane_warps = params.warps_x * params.warps_y, plane = warp / plane_warps,
            uy = warp % plane_warps / params.warps_x, ux = warp % plane_warps % params.warps_x;
  const int oy = by + uy * kRows, ox = bx + ux * kTiles * kColumns;
  const bool busy = plane < count && oy < params.out_h && ox < params.out_w;
  const int width = min(kTiles * kColumns, params.out_w - ox), height = min(kRows, params.out_h - oy);
  const int tiles = (width + kColumns - 1) / kColumns;
  const int patch = (plane * params.rows + uy * kRows) * params.pitch + ux * kTiles * kColumns;
  const unsigned matrices = shared_address(patches + patch + lane % 16 * params.pitch + lane / 16 * kColumns);
  const float bias = busy && params.bias ? params.bias[channel + plane] : 0.0f;
  T* out = params.out + (int64_t(begin) * params.channels + channel + plane) * params.out_h * params.out_w +
           int64_t(oy) * params.out_w + ox;
  T* const staged = reinterpret_cast<T*>(shared + params.staged_at) + warp * kRows * params.staged_pitch;
  const int first_pair = pair - group + kColumns - 1;
  const uint32_t* const pairs = reinterpret_cast<const uint32_t*>(taps + plane * params.taps_h * 2 * kTapPitch) +
                                first_pair / 2 + first_pair % 2 * (kTapPitch / 2);
  const int begin_ky = max(0, params.top - oy - (kRows - 1)),
            end_ky = min(params.taps_h, params.in_h + params.top - oy);
  __syncthreads();
  const auto read_taps = [&](int ky, uint32_t (&b)[kBlocks]) {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) b[j] = pairs[ky * kTapPitch + j * (kColumns / 2)];
  };
  uint32_t kept[kKept + 1][kBlocks];
  if (kKept > 0 && busy)
#pragma unroll
    for (int ky = 0; ky < kKept; ++ky) read_taps(ky, kept[ky]);

  const auto load = [&](int stage) {
    T* const patch = patches + stage * params.patch_elements;
    if constexpr (kWholeWidth)
      loads.issue(params.load_bytes / int(sizeof(T)), shared_address(patch), in);
    else
      loads.template issue_bytes<8>(params.load_bytes, patch, in);
    in += in_image;
  };
  const auto compute = [&](int stage) {
    if (busy) {
      float sum[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[t][i] = bias;
      const unsigned row = matrices + stage * params.patch_elements * unsigned(sizeof(T));
      if constexpr (kTaps > 0) {
#pragma unroll
        for (int ky = 0; ky < kTaps; ++ky) {
          if (ky >= kKept) read_taps(ky, kept[kKept]);
          add_tap_row<T>(row + ky * params.pitch * unsigned(sizeof(T)), kept[min(ky, kKept)], tiles, sum);
        }
      } else {
#pragma unroll 1
        for (int ky = begin_ky; ky < end_ky; ++ky) {
          read_taps(ky, kept[0]);
          add_tap_row<T>(row + ky * params.pitch * unsigned(sizeof(T)), kept[0], tiles, sum);
        }
      }
      if (!any_not_finite(sum)) {
        T* const to = staged + group * params.staged_pitch + pair;
#pragma unroll
        for (int t = 0; t < kTiles; ++t)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            T* const two = to + half * 8 * params.staged_pitch + t * kColumns;
            const T a = narrow<T>(sum[t][half * 2]), b = narrow<T>(sum[t][half * 2 + 1]);
            if (params.staged_pitch % 2 == 0) {
              if (t * kColumns + pair < width) *reinterpret_cast<Vector<T, 2>*>(two) = Vector<T, 2>{a, b};
            } else {
              if (t * kColumns + pair < width) two[0] = a;
              if (t * kColumns + pair + 1 < width) two[1] = b;
            }
          }
      } else {
        stage_exact_sums<T, kTapPitch>(params, patches + stage * params.patch_elements + patch + params.shift, taps,
                                       plane, oy, ox, height, width, bias, staged);
      }
      __syncwarp();
      store_staged<T, kTiles>(params, staged, height, width, out);
    }
    out += out_image;
  };
  for_images(end - begin, params.stages, load, compute);
#endif
}

template <class T, int kBlocks, int kTiles, int kTaps>
void launch(const ForwardProblem& problem, int vector, int shift, cudaStream_t stream) {
  FwdMmaParams<T> params{};
  set_problem<T>(problem, params);
  params.taps_h = int(problem.y.taps), params.taps_w = int(problem.x.taps), params.top = int(problem.y.pad),
  params.left = int(problem.x.pad) + shift;
  params.shift = shift, params.load_bytes = vector * int(sizeof(T));
  const int64_t image_tiles_x = ceil_div(problem.x.out, kTiles * kColumns),
                image_tiles_y = ceil_div(problem.y.out, kRows);
  params.warps_x = int(std::min<int64_t>(image_tiles_x, 2));
  params.warps_y = int(std::min<int64_t>(image_tiles_y, kWarps / params.warps_x));
  params.warps_y = int(ceil_div(image_tiles_y, ceil_div(image_tiles_y, params.warps_y)));
  params.planes = params.warps_x == image_tiles_x && params.warps_y == image_tiles_y
                      ? int(std::min<int64_t>(kWarps / (params.warps_x * params.warps_y), problem.channels))
                      : 1;
  params.stages = 2;
  constexpr int kShared = 64 << 10;
  const auto plan_shared_memory = [&] {  // returns its bytes
    params.whole_rows = params.warps_x == 1 && image_tiles_x == 1;
    params.staged_pitch =
        params.whole_rows ? params.out_w : (kTiles == 7 ? 72 : 24);  // no two rows of a fragment in one bank
    params.pitch = ((params.warps_x * kTiles + kBlocks - 1) | 1) * kColumns;
    params.rows = params.warps_y * kRows + params.taps_h - 1;
    params.patch_elements = params.planes * params.rows * params.pitch +
                            kColumns;  // matrices are read in pairs, the last beyond the last row
    params.staged_at = int(params.stages * params.patch_elements * sizeof(T));
    params.taps_at =
        params.staged_at +
        int(round_up(params.planes * params.warps_x * params.warps_y * kRows * params.staged_pitch * sizeof(T),
                     kAccess));
    params.bytes = params.taps_at + int(params.planes * problem.y.taps * 2 * (kBlocks + 1) * kColumns * sizeof(T));
    return params.bytes;
  };
  while (plan_shared_memory() > kShared && params.planes > 1) params.planes = (params.planes + 1) / 2;
  while (plan_shared_memory() > kShared && params.warps_y > 1) params.warps_y = (params.warps_y + 1) / 2;
  while (plan_shared_memory() > kShared && params.warps_x > 1) params.warps_x = 1;
  const int64_t blocks_x = ceil_div(image_tiles_x, params.warps_x), blocks_y = ceil_div(image_tiles_y, params.warps_y);
  const int64_t groups = ceil_div(problem.channels, params.planes), an_image = groups * blocks_x * blocks_y;
  if (!allow_shared<fwd_mma<T, kBlocks, kTiles, kTaps>>(params.bytes)) fail_choice(Kernel::kFwdMma);
  const unsigned threads = kTiles == 2 ? kBlock : unsigned(params.planes * params.warps_x * params.warps_y) * kWarp;
  const int64_t stage = params.patch_elements * int64_t(sizeof(T));
  const BatchSplit split = split_batch(
      problem, sizeof(T), {an_image, threads, kTiles == 2 ? 80 : 128, stage, params.bytes - params.stages * stage});
  params.images_a_split = split.images, params.stages = split.stages;
  while ((plan_shared_memory() > kShared || !allow_shared<fwd_mma<T, kBlocks, kTiles, kTaps>>(params.bytes)) &&
         params.stages > 1)
    --params.stages;
  // A warp's outputs start at multiples of a plane and of kRows rows, a multiple of 16 bytes for any width, or of a
  // row.
  params.store_bytes = run_bytes<T>(params.out, params.whole_rows ? problem.y.out * problem.x.out : problem.x.out, 0);
  params.blocks_x = Divider<uint32_t>(blocks_x), params.blocks_y = Divider<uint32_t>(blocks_y);
  launch_kernel<fwd_mma<T, kBlocks, kTiles, kTaps>>(
      Kernel::kFwdMma, an_image, ceil_div(problem.batch, params.images_a_split), threads, params.bytes, params, stream);
}

template <class T, int kBlocks, int kTaps>
void launch(const ForwardProblem& problem, int vector, int shift, cudaStream_t stream) {
  const bool whole = problem.x.out <= 2 * kColumns &&
                     problem.x.in + problem.x.pad + shift <= (kBlocks + 1) * kColumns &&
                     problem.y.in + problem.y.pad < problem.y.out + problem.y.taps;
  if (whole)
    launch<T, kBlocks, 2, kTaps>(problem, vector, shift, stream);
  else
    launch<T, kBlocks, 7, kTaps>(problem, vector, shift, stream);
}

template <class T>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  // Images start at a multiple of a vector, where their width allows it.
  const int vector = row_vector<T>(problem.in, problem.x.in);
  const int shift = int(round_up(problem.x.pad, vector) - problem.x.pad);
  switch (fwd_mma_blocks(problem)) {
    case 2:
      if (problem.y.taps == 5) return launch<T, 2, 5>(problem, vector, shift, stream);
      return launch<T, 2, 7>(problem, vector, shift, stream);
    case 3: return launch<T, 3, 0>(problem, vector, shift, stream);
    case 5: return launch<T, 5, 0>(problem, vector, shift, stream);
    case 9: return launch<T, 9, 0>(problem, vector, shift, stream);
    default: fail_choice(Kernel::kFwdMma);
  }
}

}  // namespace

void launch_fwd_mma(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_16_bit(Kernel::kFwdMma, problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
