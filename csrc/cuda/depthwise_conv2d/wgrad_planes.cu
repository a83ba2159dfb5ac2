// depthwise_conv2d's wgrad for contiguous images and 3x3, 5x5, 7x7 taps, at stride 2 up to 5x5. Reads image and
// gradient once, in tiles that pass through shared memory. A thread holds a sum for every tap in registers and goes
// through tiles of kX by kY pixels of the gradient; threads of a block add up what they have in shared memory, blocks
// write partial sums, and a second kernel adds those.
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kBlock = 128;

template <class R>
struct WgradPlanesTile {
  static constexpr int kX = 4 / R::kDown, kY = 7, kVector = 4;
  static constexpr int kStep = kX * R::kDown, kShift = 4 - R::kCentre;  // images start at a vector
  static constexpr int kRow = (kShift + R::span(kX) + kVector - 1) / kVector * kVector;
  static constexpr int kTaps = R::kTaps * R::kTaps;
};

template <class T>
struct WgradPlanesParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_w, in_h, out_w, out_h, left, top, rows, pitch, columns, grad_pitch, planes, channels, batch, images_a_split;
  int bands, stages, stage_bytes, load_bytes, grad_load_bytes, grad_at, bytes;
  Divider<uint32_t> tiles_x, tiles_y;
};

template <class T, class R>
__global__ void __launch_bounds__(kBlock, 4) wgrad_planes(const __grid_constant__ WgradPlanesParams<T> params) {
  using S = WgradPlanesTile<R>;
  using A = acc_t<T>;
  if (params.result.partial != nullptr) start_next_kernel();
  extern __shared__ __align__(kAccess) char shared[];
  const int channel = int(blockIdx.x) * params.planes, count = min(params.planes, params.channels - channel);
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  uint32_t rest = threadIdx.x;
  const int tx = int(params.tiles_x.divmod(rest)), ty = int(params.tiles_y.divmod(rest)), plane = int(rest);
  const int grad_rows = int(params.tiles_y.divisor) * S::kY;
  const int64_t in_image = int64_t(params.channels) * params.in_h * params.in_w,
                out_image = int64_t(params.channels) * params.out_h * params.out_w;
  const int to_window = (plane * params.rows + ty * S::kY * R::kDown) * params.pitch + tx * S::kStep;
  const int to_grads = (plane * grad_rows + ty * S::kY) * params.grad_pitch + tx * S::kX;
  A sum[S::kTaps][1] = {};
  for (int band = 0; band < params.bands; ++band) {
    const int by = band * grad_rows;
    __syncthreads();
    clear(shared, params.bytes);
    const PlanesSource source(by * R::kDown - params.top, -params.left, params.rows, params.columns, params.pitch,
                              params.in_h, params.in_w, params.load_bytes / int(sizeof(T)));
    const PlanesSource grad_source(by, 0, grad_rows, params.out_w, params.grad_pitch, params.out_h, params.out_w,
                                   params.grad_load_bytes / int(sizeof(T)));
    const Loads<8, PlanesSource> loads(source, source.all(count)), grad_loads(grad_source, grad_source.all(count));
    const T* in = params.in + int64_t(begin) * in_image + int64_t(channel) * params.in_h * params.in_w;
    const T* grad_in = params.grad + int64_t(begin) * out_image + int64_t(channel) * params.out_h * params.out_w;
    const auto load = [&](int stage) {
      char* const patch = shared + stage * params.stage_bytes;
      loads.template issue_bytes<sizeof(T) * 4>(params.load_bytes, reinterpret_cast<T*>(patch), in);
      grad_loads.template issue_bytes<sizeof(T) * 4>(params.grad_load_bytes,
                                                     reinterpret_cast<T*>(patch + params.grad_at), grad_in);
      in += in_image, grad_in += out_image;
    };
    const auto compute = [&](int stage) {
      if (plane >= count) return;
      const char* const patch = shared + stage * params.stage_bytes;
      const T* const window = reinterpret_cast<const T*>(patch) + to_window;
      const T* const grads = reinterpret_cast<const T*>(patch + params.grad_at) + to_grads;
      A grad[S::kY][S::kX][1];
#pragma unroll
      for (int y = 0; y < S::kY; ++y) {
        const auto vector = *reinterpret_cast<const Vector<T, S::kX>*>(grads + y * params.grad_pitch);
#pragma unroll
        for (int x = 0; x < S::kX; ++x) grad[y][x][0] = widen(vector.at[x]);
      }
#pragma unroll
      for (int i = 0; i < R::span(S::kY); ++i) {
        using V = Vector<T, S::kVector>;
        const V* const from = reinterpret_cast<const V*>(window + i * params.pitch);
        A row[S::kRow][1];
#pragma unroll
        for (int j = 0; j < S::kRow / S::kVector; ++j) {
          const V vector = from[j];
#pragma unroll
          for (int v = 0; v < S::kVector; ++v) row[j * S::kVector + v][0] = widen(vector.at[v]);
        }
        add_taps<R>(i, grad, row, S::kShift, sum);
      }
    };
    for_images<true>(end - begin, params.stages, load, compute);
  }

  A* const sums = reinterpret_cast<A*>(shared);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k) sums[threadIdx.x * S::kTaps + k] = sum[k][0];
  __syncthreads();
  const int tiles = int(params.tiles_x.divisor * params.tiles_y.divisor);
  for (int i = threadIdx.x; i < count * S::kTaps; i += kBlock) {
    const A* const from = sums + i / S::kTaps * tiles * S::kTaps + i % S::kTaps;
    A total = 0;
#pragma unroll 8
    for (int t = 0; t < tiles; ++t) total += from[t * S::kTaps];
    params.result.write(blockIdx.y, int64_t(params.channels) * S::kTaps, int64_t(channel) * S::kTaps + i, total);
  }
}

template <class T, class R>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  using S = WgradPlanesTile<R>;
  using A = acc_t<T>;
  const int64_t tiles_x = ceil_div(problem.x.out, S::kX), image_tiles_y = ceil_div(problem.y.out, S::kY);
  int64_t tiles_y = std::min(image_tiles_y, kBlock / tiles_x);
  tiles_y = ceil_div(image_tiles_y, ceil_div(image_tiles_y, tiles_y));
  int64_t planes = tiles_y == image_tiles_y ? std::min(kBlock / (tiles_x * tiles_y), problem.channels) : 1;
  WgradPlanesParams<T> params{};
  int64_t bytes;
  const auto plan_patch = [&] {  // returns its bytes
    params.pitch = int(round_up((tiles_x - 1) * S::kStep + S::kRow, kAccess / sizeof(T)));
    params.grad_pitch = int(round_up(tiles_x * S::kX, kAccess / sizeof(T)));
    params.rows = int((tiles_y * S::kY - 1) * R::kDown + R::kTaps);
    params.grad_at = int(round_up(planes * params.rows * params.pitch * sizeof(T), kAccess));
    bytes = params.grad_at + round_up(planes * tiles_y * S::kY * params.grad_pitch * sizeof(T), kAccess);
    return bytes;
  };
  while (plan_patch() > 48 << 10 && planes > 1) planes = (planes + 1) / 2;
  while (plan_patch() > 48 << 10 && tiles_y > 1) tiles_y = (tiles_y + 1) / 2;
  const int64_t groups = ceil_div(problem.channels, planes);
  params.stage_bytes = int(bytes);
  const BatchSplit split = split_batch(problem, sizeof(T), {groups, kBlock, 128, bytes, 0});
  params.images_a_split = split.images, params.stages = split.stages;
  const auto shared_bytes = [&] {
    return std::max<int64_t>(params.stages * params.stage_bytes, round_up(kBlock * S::kTaps * sizeof(A), kAccess));
  };
  while (params.stages > 1 && !allow_shared<wgrad_planes<T, R>>(shared_bytes())) --params.stages;
  const int64_t splits = ceil_div(problem.batch, params.images_a_split);
  const WgradPartialSums<T> partial(problem, splits);
  set_problem<T>(problem, params);
  params.result = partial.result();
  params.left = int(problem.x.pad + S::kShift), params.top = int(problem.y.pad),
  params.columns = int((tiles_x - 1) * S::kStep + S::kRow);
  params.planes = int(planes);
  params.bands = int(ceil_div(image_tiles_y, tiles_y)), params.bytes = int(shared_bytes());
  params.load_bytes = int(sizeof(T)) * row_vector<T>(params.in, params.in_w, params.left);
  params.grad_load_bytes = int(sizeof(T)) * row_vector<T>(params.grad, params.out_w);
  params.tiles_x = Divider<uint32_t>(tiles_x), params.tiles_y = Divider<uint32_t>(tiles_y);
  launch_kernel<wgrad_planes<T, R>>(Kernel::kWgradPlanes, groups, splits, kBlock, params.bytes, params, stream);
  partial.finish(problem, stream, true);
}

template <class T, int taps>
void launch_taps(const WgradProblem& problem, cudaStream_t stream) {
  if (problem.x.down == 1) return launch<T, TapWindow<1, 1, taps>>(problem, stream);
  if constexpr (taps < 7)
    if (problem.x.down == 2) return launch<T, TapWindow<1, 2, taps>>(problem, stream);
  fail_choice(Kernel::kWgradPlanes);
}

}  // namespace

void launch_wgrad_planes(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kWgradPlanes, problem.dtype, [&](auto zero) {
    dispatch_taps(Kernel::kWgradPlanes, problem.x.taps,
                  [&](auto taps) { launch_taps<decltype(zero), decltype(taps)::value>(problem, stream); });
  });
}

}  // namespace customops::cuda::depthwise
