// depthwise_conv2d, forward and dgrad, for contiguous images and 3x3, 5x5 and, at stride 1, 7x7 taps. A block
// copies some rows of a plane, or several small planes, into shared memory, each pixel once but for the rows that
// neighbouring blocks share. A thread computes kX by kY outputs in registers: it walks down the rows of its window, and
// adds each to all the outputs that it concerns, so that three vectors from shared memory feed up to 7 * 7 * 4
// multiply-adds.
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128;
constexpr int64_t kShared = 24 << 10;  // an image's part; those of the next images may be on their way meanwhile

template <class T, class R>
struct FwdPlanesTile {
  static constexpr int kX = sizeof(T) == 2 && R::kUp == 2 ? 8 : (sizeof(T) == 4 && R::kDown == 2 ? 2 : 4);
  static constexpr int kY = R::kUp == 1 ? 7 : 32 / kX;
  static constexpr int kStep = kX * R::kDown / R::kUp;                       // pixels to the next thread
  static constexpr int kVector = std::min<int>(kAccess / sizeof(T), kStep);  // read at once
  static constexpr int kLead = (R::kCentre - R::kPhase) / R::kUp;            // pixels before the first output
  static constexpr int kShift = kLead ? 4 - kLead : 0;                       // so that images start at a vector
  static constexpr int kRow = (kShift + R::span(kX) + kVector - 1) / kVector * kVector;
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

template <class T>
struct FwdPlanesParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  int in_w, in_h, out_w, out_h, left, top;  // left, top: pixels of the patch before the first pixel
  int pitch, rows, columns, planes, channels, batch, images_a_split, stages, patch_bytes, load_bytes, store_bytes;
  bool flipped, whole, pairs;  // whole: every vector of outputs is aligned, and not cut by the right edge
  Divider<uint32_t> blocks_x, blocks_y, tiles_x, tiles_y;
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock, 4) fwd_planes(const __grid_constant__ FwdPlanesParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 2 && R::kTaps > 3 && R::kUp == 1 && R::kDown == 1) __trap();  // see fwd_planes_takes
#endif
  using S = FwdPlanesTile<T, R>;
  using A = acc_t<T>;
  extern __shared__ __align__(kAccess) char shared[];
  clear(shared, params.stages * params.patch_bytes);
  uint32_t group = blockIdx.x;
  const int bx = int(params.blocks_x.divmod(group)) * int(params.tiles_x.divisor) * S::kX;
  const int by = int(params.blocks_y.divmod(group)) * int(params.tiles_y.divisor) * S::kY;
  const int channel = int(group) * params.planes, count = min(params.planes, params.channels - channel);
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  uint32_t rest = threadIdx.x;
  const int tx = int(params.tiles_x.divmod(rest)), ty = int(params.tiles_y.divmod(rest)), plane = int(rest);
  const bool busy = plane < count;

  A taps[S::kTaps][1];
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k)
    taps[k][0] =
        busy ? params.weight[int64_t(channel + plane) * S::kTaps + (params.flipped ? S::kTaps - 1 - k : k)] : A(0);
  const A bias = busy && params.bias ? params.bias[channel + plane] : A(0);

  const PlanesSource source(by / R::kUp * R::kDown - params.top, bx / R::kUp * R::kDown - params.left, params.rows,
                            params.columns, params.pitch, params.in_h, params.in_w, params.load_bytes / int(sizeof(T)));
  const Loads<8, PlanesSource> loads(source, source.all(count));
  const int64_t in_image = int64_t(params.channels) * params.in_h * params.in_w,
                out_plane = int64_t(params.out_h) * params.out_w;
  const T* in = params.in + int64_t(begin) * in_image + int64_t(channel) * params.in_h * params.in_w;
  T* out = params.out + (int64_t(begin) * params.channels + channel) * out_plane + int64_t(by) * params.out_w;
  const int window = (plane * params.rows + ty * (S::kY * R::kDown / R::kUp)) * params.pitch + tx * S::kStep;
  const int ox = tx * S::kX, oy = ty * S::kY;  // within the block
  const int out_rows = min(int(params.tiles_y.divisor) * S::kY, params.out_h - by), out_columns = params.out_w - bx;

  const auto load = [&](int stage) {
    loads.template issue_bytes<sizeof(T) * 4>(params.load_bytes,
                                              reinterpret_cast<T*>(shared + stage * params.patch_bytes), in);
    in += in_image;
  };
  const auto compute = [&](int stage) {
    T* const patch = reinterpret_cast<T*>(shared + stage * params.patch_bytes);
    A sum[S::kY][S::kX][1];
#pragma unroll
    for (int y = 0; y < S::kY; ++y)
#pragma unroll
      for (int x = 0; x < S::kX; ++x) sum[y][x][0] = bias;
    if (busy)
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i) {
        const auto* const from = reinterpret_cast<const Vector<T, S::kVector>*>(patch + window + i * params.pitch);
        A row[S::kRow][1];
#pragma unroll
        for (int j = 0; j < S::kRow / S::kVector; ++j) {
          const auto vector = from[j];
#pragma unroll
          for (int v = 0; v < S::kVector; ++v) row[j * S::kVector + v][0] = widen(vector.at[v]);
        }
        add_row<R>(i, taps, row, S::kShift, sum);
      }
    using V = Vector<T, S::kX>;
    if (params.store_bytes == 0) {  // straight to memory
      if (busy && ox < out_columns) {
        T* const to = out + plane * out_plane + int64_t(oy) * params.out_w + bx + ox;
#pragma unroll
        for (int y = 0; y < S::kY; ++y) {
          if (oy + y >= out_rows) break;
          V vector;
#pragma unroll
          for (int x = 0; x < S::kX; ++x) vector.at[x] = narrow<T>(sum[y][x][0]);
          if (params.whole) {
            *reinterpret_cast<V*>(to + y * params.out_w) = vector;
          } else if (params.pairs) {
#pragma unroll
            for (int x = 0; x < S::kX; x += 2)
              if (ox + x < out_columns)
                *reinterpret_cast<Vector<T, 2>*>(to + y * params.out_w + x) =
                    Vector<T, 2>{vector.at[x], vector.at[x + 1]};
          } else {
#pragma unroll
            for (int x = 0; x < S::kX; ++x)
              if (ox + x < out_columns) to[y * params.out_w + x] = vector.at[x];
          }
        }
      }
    } else {  // in the order of memory where the patch was, to write whole rows at once
      __syncthreads();
      if (busy) {
        T* const to = patch + (plane * out_rows + oy) * params.out_w + ox;
        constexpr int kPair = S::kX % 2 == 0 ? 2 : 1;
#pragma unroll
        for (int y = 0; y < S::kY; ++y) {
          if (oy + y >= out_rows) break;
          if (params.out_w % kPair == 0) {
#pragma unroll
            for (int x = 0; x < S::kX; x += kPair) {
              Vector<T, kPair> pair;
#pragma unroll
              for (int v = 0; v < kPair; ++v) pair.at[v] = narrow<T>(sum[y][x + v][0]);
              if (ox + x < out_columns) *reinterpret_cast<Vector<T, kPair>*>(to + y * params.out_w + x) = pair;
            }
          } else {
#pragma unroll
            for (int x = 0; x < S::kX; ++x)
              if (ox + x < out_columns) to[y * params.out_w + x] = narrow<T>(sum[y][x][0]);
          }
        }
      }
      __syncthreads();
      const int stored = count * out_rows * params.out_w;
      store_run(out, patch, stored, params.store_bytes, threadIdx.x, kBlock);
      __syncthreads();
      // Outputs lie where a later image of this stage has its border, which nobody writes again.
      clear(patch, (stored * int(sizeof(T)) + kAccess - 1) / kAccess * kAccess);
    }
    out += params.channels * out_plane;
  };
  for_images(end - begin, params.stages, load, compute);
}

template <class T, class R>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  using S = FwdPlanesTile<T, R>;
  const auto before = [](const Axis& a) { return (a.pad - R::kPhase) / R::kUp; };
  const int64_t image_tiles_x = ceil_div(problem.x.out, S::kX), image_tiles_y = ceil_div(problem.y.out, S::kY);
  int64_t tiles_x = ceil_div(image_tiles_x, ceil_div(image_tiles_x, 64)),
          tiles_y = std::max<int64_t>(kBlock / tiles_x, 1);
  tiles_y = ceil_div(image_tiles_y, ceil_div(image_tiles_y, tiles_y));
  const auto one_plane = [&] { return tiles_x == image_tiles_x && tiles_y == image_tiles_y; };
  int64_t planes = one_plane() ? std::clamp<int64_t>(kBlock / (tiles_x * tiles_y), 1, problem.channels) : 1;

  FwdPlanesParams<T> params{};
  const auto plan_patch = [&] {  // returns its bytes
    params.pitch = int(round_up((tiles_x - 1) * S::kStep + S::kRow, kAccess / sizeof(T)));
    params.rows = int((tiles_y - 1) * S::kY * R::kDown / R::kUp + R::span(S::kY));
    const int64_t staged = tiles_x == image_tiles_x ? tiles_y * S::kY * problem.x.out : 0;
    const int64_t bytes = round_up(planes * std::max(int64_t(params.rows) * params.pitch, staged) * sizeof(T), kAccess);
    params.patch_bytes = int(std::min<int64_t>(bytes, 1 << 30));
    return bytes;
  };
  while (plan_patch() > kShared && planes > 1) planes = (planes + 1) / 2;
  while (plan_patch() > kShared && tiles_y > 1) tiles_y = (tiles_y + 1) / 2;
  while (plan_patch() > kShared && tiles_x > 1) tiles_x = (tiles_x + 1) / 2;
  const int64_t blocks_x = ceil_div(image_tiles_x, tiles_x), blocks_y = ceil_div(image_tiles_y, tiles_y);
  const int64_t groups = ceil_div(problem.channels, planes), an_image = groups * blocks_x * blocks_y;
  if (plan_patch() > kShared) fail_choice(Kernel::kFwdPlanes);
  const BatchSplit split = split_batch(problem, sizeof(T), {an_image, kBlock, 128, params.patch_bytes, 0});
  params.images_a_split = split.images, params.stages = split.stages;
  while (params.stages > 1 && !allow_shared<fwd_planes<T, R>>(params.stages * params.patch_bytes)) --params.stages;

  set_problem<T>(problem, params);
  params.left = int(before(problem.x) + S::kShift), params.top = int(before(problem.y)),
  params.columns = int(round_up((tiles_x - 1) * S::kStep + S::kRow, 4));  // a multiple of every row_vector
  params.planes = int(planes);
  params.load_bytes =
      int(sizeof(T)) * row_vector<T>(problem.in, problem.x.in,
                                     blocks_x > 1 ? std::gcd<int64_t>(params.left, tiles_x * S::kStep) : params.left);
  params.whole = problem.x.out % S::kX == 0 && reinterpret_cast<uintptr_t>(problem.out) % (S::kX * sizeof(T)) == 0;
  params.store_bytes = params.whole || blocks_x > 1 ? 0
                                                    : run_bytes<T>(problem.out, problem.y.out * problem.x.out,
                                                                   blocks_y > 1 ? tiles_y * S::kY * problem.x.out : 0);
  params.pairs = problem.x.out % 2 == 0 && reinterpret_cast<uintptr_t>(problem.out) % (2 * sizeof(T)) == 0;
  params.blocks_x = Divider<uint32_t>(blocks_x), params.blocks_y = Divider<uint32_t>(blocks_y);
  params.tiles_x = Divider<uint32_t>(tiles_x), params.tiles_y = Divider<uint32_t>(tiles_y);
  launch_kernel<fwd_planes<T, R>>(Kernel::kFwdPlanes, an_image, ceil_div(problem.batch, params.images_a_split), kBlock,
                                  params.stages * params.patch_bytes, params, stream);
}

template <class T, int taps>
void launch_taps(const ForwardProblem& problem, cudaStream_t stream) {
  if (is_step(problem, 1, 1)) return launch<T, TapWindow<1, 1, taps>>(problem, stream);
  if constexpr (taps < 7) {
    if (is_step(problem, 1, 2)) return launch<T, TapWindow<1, 2, taps>>(problem, stream);
    if (is_step(problem, 2, 1)) return launch<T, TapWindow<2, 1, taps>>(problem, stream);
  }
  fail_choice(Kernel::kFwdPlanes);
}

}  // namespace

void launch_fwd_planes(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdPlanes, problem.dtype, [&](auto zero) {
    dispatch_taps(Kernel::kFwdPlanes, problem.x.taps,
                  [&](auto taps) { launch_taps<decltype(zero), decltype(taps)::value>(problem, stream); });
  });
}

}  // namespace customops::cuda::depthwise
