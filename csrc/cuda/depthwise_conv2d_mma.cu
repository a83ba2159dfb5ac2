// depthwise_conv2d, forward and grad_input, for contiguous float16 and bfloat16 images at stride 1, on tensor cores.
//
// For one channel and one row of taps, outputs are a matrix product: 16 rows of the image, kBlocks * 8 pixels wide,
// times a matrix whose column n holds the taps from row n + shift on, and zeros around them. Eight outputs a product,
// one product a row of taps; sums stay in float32. So much faster than multiply-adds is this that every number of taps
// up to 7x7 is bound by memory, although half of the second matrix or more is zeros.
//
// A block keeps the taps of its channels, twice, the second time moved by one, so that a pair of taps is one aligned
// word; it goes through the batch, bringing the next image into shared memory while it computes. A warp computes 16 rows
// by kTiles * 8 columns.
//
// Zeros times infinity are NaN: where a result is not finite, a warp computes all of its results again, tap by tap.
#include "depthwise_conv2d.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128, kWarps = kBlock / kWarp, kRows = 16, kColumns = 8;

template <int kTiles>
constexpr int kStagedPitch = kTiles == 7 ? 72 : 24;  // no two rows of a fragment in the same banks

template <class T>
struct MmaOf {
  const T *in, *weight, *bias;
  T* out;
  int in_h, in_w, out_h, out_w, taps_h, taps_w, top, left, shift;  // left = pad + shift
  int pitch, planes, channels, batch, images_a_split, units_x, units_y, vector, lanes_log, out_vector, out_lanes_log;
  int patch_elements, taps_at, staged_at, bytes;
  bool flipped;
  Divider<uint32_t> blocks_x, blocks_y, rows;
};

__device__ inline void load_matrices(uint32_t (&to)[4], const void* row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned from = unsigned(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
#endif
}

template <class T>
__device__ void multiply_16(float (&sum)[4], const uint32_t* a, const uint32_t* b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, c10::Half>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

template <class T>
__device__ void multiply_8(float (&sum)[4], const uint32_t* a, const uint32_t* b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, c10::Half>)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}

template <class T, int kBlocks, int kTiles>
__global__ void __launch_bounds__(kBlock) multiply(const __grid_constant__ MmaOf<T> p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kAll = kTiles + kBlocks - 1, kTapPitch = (kBlocks + 1) * kColumns, kStaged = kStagedPitch<kTiles>;
  extern __shared__ __align__(kAccess) char shared[];
  T* const patches = reinterpret_cast<T*>(shared);
  T* const taps = reinterpret_cast<T*>(shared + p.taps_at);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, group = lane / 4, pair = lane % 4 * 2;
  T* const staged = reinterpret_cast<T*>(shared + p.staged_at) + warp * kRows * kStaged;
  clear(shared, p.bytes);
  uint32_t rest = blockIdx.x;
  const int bx = int(p.blocks_x.split(rest)) * p.units_x * kTiles * kColumns;
  const int by = int(p.blocks_y.split(rest)) * p.units_y * kRows;
  const int channel = int(rest) * p.planes, count = min(p.planes, p.channels - channel);
  const int begin = int(blockIdx.y) * p.images_a_split, end = min(p.batch, begin + p.images_a_split);
  __syncthreads();
  const int all_taps = p.taps_h * p.taps_w;
  for (int i = threadIdx.x; i < count * all_taps; i += kBlock) {
    const int plane = i / all_taps, k = i % all_taps, y = k / p.taps_w, x = k % p.taps_w;
    const T tap = p.weight[int64_t(channel + plane) * all_taps + (p.flipped ? all_taps - 1 - k : k)];
    T* const row = taps + (plane * p.taps_h + y) * 2 * kTapPitch + x + kColumns - 1 + p.shift;
    row[0] = tap;
    row[kTapPitch - 1] = tap;
  }

  const int64_t in_plane = int64_t(p.in_h) * p.in_w, out_plane = int64_t(p.out_h) * p.out_w;
  const auto load = [&](int n, int stage) {
    const Patch<T> to{patches + stage * p.patch_elements, p.pitch, by - p.top, bx - p.left, p.pitch, p.rows};
    load_patch(to, p.in + (int64_t(n) * p.channels + channel) * in_plane, count, in_plane, p.in_h, p.in_w, p.vector,
               p.lanes_log);
  };
  if (begin < end) load(begin, 0);
  wait_copies();
  __syncthreads();
  const int first_pair = pair - group + kColumns - 1;
  const uint32_t* const pairs = reinterpret_cast<const uint32_t*>(taps) + first_pair / 2 + first_pair % 2 * (kTapPitch / 2);
  const int units = p.units_x * p.units_y;
  for (int n = begin, stage = 0; n < end; ++n, stage ^= 1) {
    if (n + 1 < end) load(n + 1, stage ^ 1);
    for (int unit = warp; unit < count * units; unit += kWarps) {
      const int plane = unit / units, uy = unit % units / p.units_x, ux = unit % units % p.units_x;
      const int oy = by + uy * kRows, ox = bx + ux * kTiles * kColumns;
      if (oy >= p.out_h || ox >= p.out_w) continue;
      const T* const patch = patches + stage * p.patch_elements +
                             (plane * int(p.rows.divisor) + uy * kRows) * p.pitch + ux * kTiles * kColumns;
      const T* const from = patch + lane % 16 * p.pitch + lane / 16 * kColumns;
      const float bias = p.bias ? widen(p.bias[channel + plane]) : 0.0f;
      float sum[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[t][i] = bias;
      const int first = max(0, p.top - oy - (kRows - 1)), last = min(p.taps_h, p.in_h + p.top - oy);
#pragma unroll 1
      for (int ky = first; ky < last; ++ky) {
        uint32_t a[kAll + 1][2], b[kBlocks];
#pragma unroll
        for (int j = 0; j < kBlocks; ++j) b[j] = pairs[(plane * p.taps_h + ky) * kTapPitch + j * (kColumns / 2)];
#pragma unroll
        for (int j = 0; j < kAll; j += 2) {
          uint32_t four[4];
          load_matrices(four, from + ky * p.pitch + j * kColumns);
          a[j][0] = four[0], a[j][1] = four[1], a[j + 1][0] = four[2], a[j + 1][1] = four[3];
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
          for (int j = 0; j + 1 < kBlocks; j += 2) multiply_16<T>(sum[t], a[t + j], b + j);
          if constexpr (kBlocks % 2 == 1) multiply_8<T>(sum[t], a[t + kBlocks - 1], b + kBlocks - 1);
        }
      }
      float finite = 0;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) finite += sum[t][i] * 0.0f;
      const int width = min(kTiles * kColumns, p.out_w - ox), height = min(kRows, p.out_h - oy);
      __syncwarp();
      if (!__any_sync(0xffffffff, finite != 0.0f)) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            *reinterpret_cast<Vector<T, 2>*>(staged + (group + half * 8) * kStaged + t * kColumns + pair) =
                Vector<T, 2>{narrow<T>(sum[t][half * 2]), narrow<T>(sum[t][half * 2 + 1])};
      } else {
        for (int i = lane; i < height * width; i += kWarp) {
          const int y = i / width, x = i % width;
          float total = bias;
          for (int ky = 0; ky < p.taps_h; ++ky)
            for (int kx = 0; kx < p.taps_w; ++kx)
              if (unsigned(oy + y + ky - p.top) < unsigned(p.in_h))
                if (unsigned(ox + x + kx + p.shift - p.left) < unsigned(p.in_w))
                  total += widen(patch[(y + ky) * p.pitch + x + kx + p.shift]) *
                           widen(taps[(plane * p.taps_h + ky) * 2 * kTapPitch + kx + kColumns - 1 + p.shift]);
          staged[y * kStaged + x] = narrow<T>(total);
        }
      }
      __syncwarp();
      T* const out = p.out + (int64_t(n) * p.channels + channel + plane) * out_plane + int64_t(oy) * p.out_w + ox;
      const auto store = [&](auto sample) {
        using W = decltype(sample);
        constexpr int kWidth = sizeof(W) / sizeof(T);
        for (int y = lane >> p.out_lanes_log; y < height; y += kWarp >> p.out_lanes_log)
          for (int x = (lane & ((1 << p.out_lanes_log) - 1)) * kWidth; x < width; x += kWidth << p.out_lanes_log)
            *reinterpret_cast<W*>(out + int64_t(y) * p.out_w + x) = *reinterpret_cast<const W*>(staged + y * kStaged + x);
      };
      if (p.out_vector == 8)
        store(Vector<T, 8>());
      else if (p.out_vector == 4)
        store(Vector<T, 4>());
      else if (p.out_vector == 2)
        store(Vector<T, 2>());
      else
        store(Vector<T, 1>());
    }
    wait_copies();
    __syncthreads();
  }
#endif
}

template <class T, int kBlocks, int kTiles>
bool launch(const Correlation& p, int vector, int shift, cudaStream_t stream) {
  MmaOf<T> q{};
  q.in = static_cast<const T*>(p.in), q.weight = static_cast<const T*>(p.weight);
  q.bias = static_cast<const T*>(p.bias), q.out = static_cast<T*>(p.out);
  q.in_h = int(p.y.in), q.in_w = int(p.x.in), q.out_h = int(p.y.out), q.out_w = int(p.x.out);
  q.taps_h = int(p.y.taps), q.taps_w = int(p.x.taps), q.top = int(p.y.pad), q.left = int(p.x.pad) + shift;
  q.shift = shift, q.vector = vector, q.channels = int(p.channels), q.batch = int(p.batch), q.flipped = p.flipped;
  const int64_t all_x = ceil_div(p.x.out, kTiles * kColumns), all_y = ceil_div(p.y.out, kRows);
  q.units_x = int(std::min<int64_t>(all_x, 2));
  q.units_y = int(std::min<int64_t>(all_y, 8 / q.units_x));
  q.units_y = int(ceil_div(all_y, ceil_div(all_y, q.units_y)));
  q.planes = q.units_x == all_x && q.units_y == all_y
                 ? int(std::min<int64_t>(std::max(8 / (q.units_x * q.units_y), 1), p.channels))
                 : 1;
  int64_t rows;
  const auto measure = [&] {
    q.pitch = ((q.units_x * kTiles + kBlocks - 1) | 1) * kColumns;
    rows = q.units_y * kRows + p.y.taps - 1;
    q.patch_elements = int(q.planes * rows * q.pitch);
    q.taps_at = int(2 * q.patch_elements * sizeof(T));
    q.staged_at = q.taps_at + int(q.planes * p.y.taps * 2 * (kBlocks + 1) * kColumns * sizeof(T));
    q.bytes = q.staged_at + int(kWarps * kRows * kStagedPitch<kTiles> * sizeof(T));
    return q.bytes > 56 << 10;
  };
  while (measure() && q.planes > 1) q.planes = (q.planes + 1) / 2;
  while (measure() && q.units_y > 1) q.units_y = (q.units_y + 1) / 2;
  while (measure() && q.units_x > 1) q.units_x = 1;
  const int64_t blocks_x = ceil_div(all_x, q.units_x), blocks_y = ceil_div(all_y, q.units_y);
  const int64_t groups = ceil_div(p.channels, q.planes);
  if (!allow_shared(multiply<T, kBlocks, kTiles>, q.bytes) || p.batch >= kMost || groups > kMost / (blocks_x * blocks_y))
    return false;
  const int64_t wanted =
      std::min({std::max<int64_t>(kWantedBlocks / (groups * blocks_x * blocks_y), 1), p.batch, int64_t(65535)});
  q.images_a_split = int(ceil_div(p.batch, wanted));
  q.lanes_log = row_lanes(ceil_div(std::min(q.pitch, q.in_w), vector));
  q.out_vector = q.out_w % 8 == 0 && aligned(q.out) ? 8 : row_vector<T>(q.out, q.out_w);
  q.out_lanes_log = row_lanes(ceil_div(std::min(kTiles * kColumns, q.out_w), q.out_vector));
  q.blocks_x = Divider<uint32_t>(blocks_x), q.blocks_y = Divider<uint32_t>(blocks_y);
  q.rows = Divider<uint32_t>(rows);
  const dim3 grid(unsigned(groups * blocks_x * blocks_y), unsigned(ceil_div(p.batch, q.images_a_split)));
  multiply<T, kBlocks, kTiles><<<grid, kBlock, q.bytes, stream>>>(q);
  return true;
}

template <class T, int kBlocks>
bool launch(const Correlation& p, int vector, int shift, cudaStream_t stream) {
  return p.x.out <= 2 * kColumns ? launch<T, kBlocks, 2>(p, vector, shift, stream)
                                 : launch<T, kBlocks, 7>(p, vector, shift, stream);
}

template <class T>
bool launch(const Correlation& p, cudaStream_t stream) {
  // Images start at a vector, as far as their width lets them.
  const int vector = row_vector<T>(p.in, p.x.in);
  const int shift = int(round_up(std::max<int64_t>(p.x.pad, 0), vector) - p.x.pad);
  const int64_t blocks = ceil_div(shift + kColumns - 1 + p.x.taps, kColumns);
  if (blocks <= 2) return launch<T, 2>(p, vector, shift, stream);
  if (blocks == 3) return launch<T, 3>(p, vector, shift, stream);
  if (blocks <= 5) return launch<T, 5>(p, vector, shift, stream);
  if (blocks <= 9) return launch<T, 9>(p, vector, shift, stream);
  return false;
}

// Reads driver state that never changes: cheap enough for every call.
bool has_tensor_cores() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major >= 8;
}

}  // namespace

bool launch_mma(const Correlation& p, ScalarType dtype, cudaStream_t stream) {
  const auto fits = [](const Line& a) {
    return a.up == 1 && a.down == 1 && a.dilation == 1 && a.pad >= 0 && small(a);
  };
  if (!fits(p.x) || !fits(p.y) || !has_tensor_cores()) return false;
  if (dtype == ScalarType::Half) return launch<c10::Half>(p, stream);
  if (dtype == ScalarType::BFloat16) return launch<c10::BFloat16>(p, stream);
  return false;
}

}  // namespace customops::cuda::depthwise
