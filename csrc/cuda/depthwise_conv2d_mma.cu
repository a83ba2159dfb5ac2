// depthwise_conv2d, forward and grad_input, for contiguous float16 and bfloat16 images at stride 1, on tensor cores.
//
// For one channel and one row of taps, outputs are a matrix product: 16 rows of the image, kBlocks * 8 pixels wide,
// times a matrix whose column n holds the taps from row n + shift on, and zeros around them. Eight outputs a product,
// one product a row of taps; sums stay in float32. From 5x5 taps on this is faster than multiply-adds, although more
// than half of the second matrix is zeros there.
//
// A block keeps the taps of its channels, twice, the second time moved by one, so that a pair of taps is one aligned
// word; it goes through the batch, bringing the next images into shared memory while it computes. A warp computes 16
// rows by kTiles * 8 columns.
//
// Zeros times infinity are NaN: where a result is not finite, a warp computes all of its results again, tap by tap.
#include "depthwise_conv2d_load.cuh"
#include "depthwise_conv2d_split.cuh"
#include "matrices.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kWarps = 8, kBlock = kWarps * kWarp, kRows = 16, kColumns = 8;

template <class T>
struct MmaOf {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_h, in_w, out_h, out_w, taps_h, taps_w, top, left, shift;  // left = pad + shift
  int pitch, rows, planes, channels, batch, images_a_split, stages, units_x, units_y, load_bytes, store_bytes;
  int patch_elements, staged_pitch, staged_at, taps_at, bytes;
  bool flipped, whole_rows;  // whole_rows: a warp's outputs are as wide as the image
  Divider<uint32_t> blocks_x, blocks_y;
};

// kTaps: rows of taps, whose matrices then stay in registers, as far as there is room, or 0 for any number of them.
template <class T, int kBlocks, int kTiles, int kTaps>
__global__ void __launch_bounds__(kBlock, kTiles == 2 ? 3 : 2) multiply(const __grid_constant__ MmaOf<T> p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kAll = kTiles + kBlocks - 1, kTapPitch = (kBlocks + 1) * kColumns;
  constexpr int kKept = kTiles == 2 && kTaps > 4 ? 4 : kTaps;  // nvcc 12.4 spills all seven, in 80 registers
  extern __shared__ __align__(kAccess) char shared[];
  T* const patches = reinterpret_cast<T*>(shared);
  T* const taps = reinterpret_cast<T*>(shared + p.taps_at);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, group = lane / 4, pair = lane % 4 * 2;
  clear(shared, p.bytes);
  uint32_t rest = blockIdx.x;
  const int bx = int(p.blocks_x.split(rest)) * p.units_x * kTiles * kColumns;
  const int by = int(p.blocks_y.split(rest)) * p.units_y * kRows;
  const int channel = int(rest) * p.planes, count = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  __syncthreads();
  const int all_taps = p.taps_h * p.taps_w;
  for (int i = threadIdx.x; i < count * all_taps; i += blockDim.x) {
    const int plane = i / all_taps, k = i % all_taps, y = k / p.taps_w, x = k % p.taps_w;
    const T tap = p.weight.narrowed(int64_t(channel + plane) * all_taps + (p.flipped ? all_taps - 1 - k : k));
    T* const row = taps + (plane * p.taps_h + y) * 2 * kTapPitch + x + kColumns - 1 + p.shift;
    row[0] = tap;
    row[kTapPitch - 1] = tap;
  }

  const auto place = [&] {
    return PlanesPlace(by - p.top, bx - p.left, p.rows, p.pitch, p.pitch, p.in_h, p.in_w,
                       p.load_bytes / int(sizeof(T)));
  };
  constexpr bool kWhole = kTiles == 2;  // the width of the images
  using Way = std::conditional_t<kWhole, Run<kBlock, T, decltype(place)>, Loads<8, PlanesPlace>>;
  const Way loads = [&] {
    if constexpr (kWhole)
      return Way(place, count);
    else
      return Way(place(), place().all(count));
  }();
  const int64_t in_image = int64_t(p.channels) * p.in_h * p.in_w, out_image = int64_t(p.channels) * p.out_h * p.out_w;
  const T* in = p.in + int64_t(begin) * in_image + int64_t(channel) * p.in_h * p.in_w;
  if constexpr (kWhole) in += loads.first;

  // A warp has one share of the block's outputs, the same in every image.
  const int units = p.units_x * p.units_y, plane = warp / units, uy = warp % units / p.units_x,
            ux = warp % units % p.units_x;
  const int oy = by + uy * kRows, ox = bx + ux * kTiles * kColumns;
  const bool busy = plane < count && oy < p.out_h && ox < p.out_w;
  const int width = min(kTiles * kColumns, p.out_w - ox), height = min(kRows, p.out_h - oy);
  const int tiles = (width + kColumns - 1) / kColumns;
  const int patch = (plane * p.rows + uy * kRows) * p.pitch + ux * kTiles * kColumns;
  const unsigned matrices = shared_address(patches + patch + lane % 16 * p.pitch + lane / 16 * kColumns);
  const float bias = busy && p.bias ? p.bias[channel + plane] : 0.0f;
  T* out = p.out + (int64_t(begin) * p.channels + channel + plane) * p.out_h * p.out_w + int64_t(oy) * p.out_w + ox;
  T* const staged = reinterpret_cast<T*>(shared + p.staged_at) + warp * kRows * p.staged_pitch;
  const int first_pair = pair - group + kColumns - 1;
  const uint32_t* const pairs = reinterpret_cast<const uint32_t*>(taps + plane * p.taps_h * 2 * kTapPitch) +
                                first_pair / 2 + first_pair % 2 * (kTapPitch / 2);
  const int first = max(0, p.top - oy - (kRows - 1)), last = min(p.taps_h, p.in_h + p.top - oy);
  __syncthreads();
  const auto load_taps = [&](int ky, uint32_t (&b)[kBlocks]) {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) b[j] = pairs[ky * kTapPitch + j * (kColumns / 2)];
  };
  uint32_t kept[kKept + 1][kBlocks];
  if (kKept > 0 && busy)
#pragma unroll
    for (int ky = 0; ky < kKept; ++ky) load_taps(ky, kept[ky]);

  const auto bring = [&](int stage) {
    T* const patch = patches + stage * p.patch_elements;
    if constexpr (kWhole)
      loads.issue(p.load_bytes / int(sizeof(T)), shared_address(patch), in);
    else
      loads.template issue_bytes<8>(p.load_bytes, patch, in);
    in += in_image;
  };
  const auto compute = [&](int stage) {
    if (busy) {
      float sum[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[t][i] = bias;
      const auto add = [&](unsigned row, const uint32_t (&b)[kBlocks]) {
        uint32_t a[kAll + 1][2];
#pragma unroll
        for (int j = 0; j < kAll; j += 2) {
          uint32_t four[4];
          load_matrices(four, row + j * kColumns * unsigned(sizeof(T)));
          a[j][0] = four[0], a[j][1] = four[1], a[j + 1][0] = four[2], a[j + 1][1] = four[3];
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          if (t > 0 && t >= tiles) break;
#pragma unroll
          for (int j = 0; j + 1 < kBlocks; j += 2) multiply_16<T>(sum[t], a[t + j], b + j);
          if constexpr (kBlocks % 2 == 1) multiply_8<T>(sum[t], a[t + kBlocks - 1], b + kBlocks - 1);
        }
      };
      const unsigned row = matrices + stage * p.patch_elements * unsigned(sizeof(T));
      if constexpr (kTaps > 0) {
#pragma unroll
        for (int ky = 0; ky < kTaps; ++ky) {
          if (ky >= kKept) load_taps(ky, kept[kKept]);
          add(row + ky * p.pitch * unsigned(sizeof(T)), kept[min(ky, kKept)]);
        }
      } else {
#pragma unroll 1
        for (int ky = first; ky < last; ++ky) {
          load_taps(ky, kept[0]);
          add(row + ky * p.pitch * unsigned(sizeof(T)), kept[0]);
        }
      }
      float finite = 0;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) finite = fmaf(sum[t][i], 0.0f, finite);
      __syncwarp();
      if (!__any_sync(0xffffffff, finite != 0.0f)) {
        T* const to = staged + group * p.staged_pitch + pair;
#pragma unroll
        for (int t = 0; t < kTiles; ++t)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            T* const two = to + half * 8 * p.staged_pitch + t * kColumns;
            const T a = narrow<T>(sum[t][half * 2]), b = narrow<T>(sum[t][half * 2 + 1]);
            if (p.staged_pitch % 2 == 0) {
              if (t * kColumns + pair < width) *reinterpret_cast<Vector<T, 2>*>(two) = Vector<T, 2>{a, b};
            } else {
              if (t * kColumns + pair < width) two[0] = a;
              if (t * kColumns + pair + 1 < width) two[1] = b;
            }
          }
      } else {
        const T* const from = patches + stage * p.patch_elements + patch + p.shift;
        for (int i = lane; i < height * width; i += kWarp) {
          const int y = i / width, x = i % width;
          float total = bias;
          for (int ky = 0; ky < p.taps_h; ++ky)
            for (int kx = 0; kx < p.taps_w; ++kx)
              if (unsigned(oy + y + ky - p.top) < unsigned(p.in_h))
                if (unsigned(ox + x + kx + p.shift - p.left) < unsigned(p.in_w))
                  total += widen(from[(y + ky) * p.pitch + x + kx]) *
                           widen(taps[(plane * p.taps_h + ky) * 2 * kTapPitch + kx + kColumns - 1 + p.shift]);
          staged[y * p.staged_pitch + x] = narrow<T>(total);
        }
      }
      __syncwarp();
      if (kWhole && p.store_bytes >= 8) {  // of 14x14 images, store_run would take 1.07 times the kernel's time
#pragma unroll
        for (int i = lane; i < kRows * kTiles * kColumns / 4; i += kWarp)
          if (i * 4 < height * width) reinterpret_cast<Bits<8>*>(out)[i] = reinterpret_cast<const Bits<8>*>(staged)[i];
      } else if (p.whole_rows) {
        store_run(out, staged, height * width, p.store_bytes, lane, kWarp);
      } else {  // eight lanes a row: rows are 112 bytes, or the last of a wide image
        for (int y = lane / 8; y < height; y += kWarp / 8)
          store_run(out + int64_t(y) * p.out_w, staged + y * p.staged_pitch, width, p.store_bytes, lane % 8, 8);
      }
    }
    out += out_image;
  };
  for_images(end - begin, p.stages, bring, compute);
#endif
}

template <class T, int kBlocks, int kTiles, int kTaps>
bool launch(const Correlation& p, int vector, int shift, cudaStream_t stream) {
  MmaOf<T> q{};
  q.weight = Parameters<T>(p.weight), q.bias = Parameters<T>(p.bias);
  q.in = static_cast<const T*>(p.in), q.out = static_cast<T*>(p.out);
  q.in_h = int(p.y.in), q.in_w = int(p.x.in), q.out_h = int(p.y.out), q.out_w = int(p.x.out);
  q.taps_h = int(p.y.taps), q.taps_w = int(p.x.taps), q.top = int(p.y.pad), q.left = int(p.x.pad) + shift;
  q.shift = shift, q.load_bytes = vector * int(sizeof(T)), q.channels = int(p.channels), q.batch = int(p.batch);
  q.flipped = p.flipped;
  const int64_t all_x = ceil_div(p.x.out, kTiles * kColumns), all_y = ceil_div(p.y.out, kRows);
  q.units_x = int(std::min<int64_t>(all_x, 2));
  q.units_y = int(std::min<int64_t>(all_y, kWarps / q.units_x));
  q.units_y = int(ceil_div(all_y, ceil_div(all_y, q.units_y)));
  q.planes = q.units_x == all_x && q.units_y == all_y
                 ? int(std::min<int64_t>(kWarps / (q.units_x * q.units_y), p.channels))
                 : 1;
  q.stages = 2;
  const auto too_large = [&] {
    q.whole_rows = q.units_x == 1 && all_x == 1;
    q.staged_pitch = q.whole_rows ? q.out_w : (kTiles == 7 ? 72 : 24);  // no two rows of a fragment in one bank
    q.pitch = ((q.units_x * kTiles + kBlocks - 1) | 1) * kColumns;
    q.rows = q.units_y * kRows + q.taps_h - 1;
    q.patch_elements =
        q.planes * q.rows * q.pitch + kColumns;  // matrices are read in pairs, the last beyond the last row
    q.staged_at = int(q.stages * q.patch_elements * sizeof(T));
    q.taps_at =
        q.staged_at + int(round_up(q.planes * q.units_x * q.units_y * kRows * q.staged_pitch * sizeof(T), kAccess));
    q.bytes = q.taps_at + int(q.planes * p.y.taps * 2 * (kBlocks + 1) * kColumns * sizeof(T));
    return q.bytes > 64 << 10;
  };
  while (too_large() && q.planes > 1) q.planes = (q.planes + 1) / 2;
  while (too_large() && q.units_y > 1) q.units_y = (q.units_y + 1) / 2;
  while (too_large() && q.units_x > 1) q.units_x = 1;
  const int64_t blocks_x = ceil_div(all_x, q.units_x), blocks_y = ceil_div(all_y, q.units_y);
  const int64_t groups = ceil_div(p.channels, q.planes), an_image = groups * blocks_x * blocks_y;
  if (p.batch >= kMost || groups > kMost / (blocks_x * blocks_y) || p.y.in * p.x.in > kMost / q.planes ||
      !allow_shared<multiply<T, kBlocks, kTiles, kTaps>>(q.bytes))
    return false;
  const unsigned threads = kTiles == 2 ? kBlock : unsigned(q.planes * q.units_x * q.units_y) * kWarp;
  const int64_t stage = q.patch_elements * int64_t(sizeof(T));
  const Split split =
      split_batch(p, sizeof(T), {an_image, threads, kTiles == 2 ? 80 : 128, stage, q.bytes - q.stages * stage});
  q.images_a_split = split.images, q.stages = split.stages;
  while ((too_large() || !allow_shared<multiply<T, kBlocks, kTiles, kTaps>>(q.bytes)) && q.stages > 1) --q.stages;
  // A warp's outputs start at multiples of a plane and of kRows rows, a multiple of 16 bytes for any width, or of a
  // row.
  q.store_bytes = run_bytes<T>(q.out, q.whole_rows ? p.y.out * p.x.out : p.x.out, 0);
  q.blocks_x = Divider<uint32_t>(blocks_x), q.blocks_y = Divider<uint32_t>(blocks_y);
  const dim3 grid(unsigned(an_image), unsigned(ceil_div(p.batch, q.images_a_split)));
  multiply<T, kBlocks, kTiles, kTaps><<<grid, threads, q.bytes, stream>>>(q);
  return true;
}

template <class T, int kBlocks, int kTaps>
bool launch(const Correlation& p, int vector, int shift, cudaStream_t stream) {
  const bool whole = p.x.out <= 2 * kColumns && p.x.in + p.x.pad + shift <= (kBlocks + 1) * kColumns &&
                     p.y.in + p.y.pad < p.y.out + p.y.taps;
  return whole ? launch<T, kBlocks, 2, kTaps>(p, vector, shift, stream)
               : launch<T, kBlocks, 7, kTaps>(p, vector, shift, stream);
}

template <class T>
bool launch(const Correlation& p, cudaStream_t stream) {
  if (p.y.taps > 4096) return false;  // sizes of patches are ints
  // Images start at a vector, as far as their width lets them.
  const int vector = row_vector<T>(p.in, p.x.in);
  const int shift = int(round_up(p.x.pad, vector) - p.x.pad);
  const int64_t blocks = ceil_div(shift + kColumns - 1 + p.x.taps, kColumns);
  if (blocks <= 2 && p.y.taps == 5) return launch<T, 2, 5>(p, vector, shift, stream);
  if (blocks <= 2 && p.y.taps == 7) return launch<T, 2, 7>(p, vector, shift, stream);
  if (blocks <= 3) return launch<T, 3, 0>(p, vector, shift, stream);
  if (blocks <= 5) return launch<T, 5, 0>(p, vector, shift, stream);
  if (blocks <= 9) return launch<T, 9, 0>(p, vector, shift, stream);
  return false;
}

}  // namespace

// By the code that was loaded: below sm_80 these kernels are empty, also where a newer GPU compiles such a PTX.
bool has_tensor_cores() {
  return once_a_device([](int) {
           cudaFuncAttributes of{};
           return cudaFuncGetAttributes(&of, multiply<c10::Half, 2, 2, 5>) == cudaSuccess ? of.ptxVersion : 1;
         }) >= 80;
}

bool launch_mma(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  const auto fits = [](const Line& a) { return a.up == 1 && a.down == 1 && a.dilation == 1 && a.pad >= 0 && small(a); };
  if (!fits(p.x) || !fits(p.y) || !has_tensor_cores()) return false;
  if (p.x.taps == 3 && p.y.taps == 3) return false;  // multiply-adds are faster: launch_planes
  if (dtype == ScalarType::Half) return launch<c10::Half>(p, stream);
  if (dtype == ScalarType::BFloat16) return launch<c10::BFloat16>(p, stream);
  return false;
}

}  // namespace customops::cuda::depthwise
