// depthwise_conv2d's wgrad on tensor cores for contiguous float16 and bfloat16 images at stride 1, under windows of
// more than seven taps along one axis and several along the other.
//
// Row i of the image and row y of the gradient belong to row i - y + pad of the taps. A matrix whose line m is a row of
// the image from pixel m on, times a matrix of eight rows of the gradient, has sums of 16x8 taps. A warp goes along the
// rows 16 pixels at a time, and adds all rows of all images to the same sums. Under windows up to 8 wide, the lines are
// of two to eight rows of the image, `step` apart, so that few lines are idle.
//
// Sums do not depend on the order of the 16 pixels: a lane takes four neighbours, with one access of the gradient, and
// three words of the image for lines 2m and 2m + 1.
//
// Zeros times infinity are NaN: where a sum is not finite, it is computed again, without what lies outside the images.
#include "copy_rows.cuh"
#include "wgrad_mma.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kSixteen = 16;

template <class T>
struct WindowParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_h, in_w, out_h, out_w, channels, batch;
  int taps_h, taps_w, first_y, first_x, met_h, met_w;  // met: taps that meet a pixel, from `first` on
  int pad, left, shift;                                // left: zeros before a row, `shift` more than the padding
  int lines_log, step, tiles_x, tiles_y;               // of a group of lines; rows of taps of a group; tiles of taps
  int planes, images, chunks, chunk_steps, steps;      // of a stage; warps that share a row; steps of 16 pixels
  bool narrow;                                         // up to 8 pixels wide: two rows make 16
  int rows, grad_rows;
  RowSteps in_steps, grad_steps;
  int bands, band_rows, items_a_split, stages, grad_at, stage_bytes, zeros_at, bytes;

  __device__ int groups() const { return 8 >> lines_log; }
};

// A part of an image: for t from t0 to t1, row t + offset + group * step of the image meets rows t, t - 1, ... of the
// gradient. in_y and grad_y are the first rows in shared memory.
struct Band {
  int t0, t1, offset, in_y, grad_y;

  template <class T>
  __device__ Band(const WindowParams<T>& params, int ky, int index) : offset(ky - params.pad) {
    t0 = max(0, -offset - (params.groups() - 1) * params.step) + index * params.band_rows;
    t1 = min(min(params.out_h + params.step - 1, params.in_h - offset), t0 + params.band_rows);
    in_y = max(0, t0 + offset), grad_y = max(0, t0 - params.step + 1);
  }
};

// Four pixels for line 2m and for line 2m + 1, as multiply_16 takes them.
__device__ inline void load_lines(uint32_t (&a)[4], const char* from) {
  const uint32_t* const words = reinterpret_cast<const uint32_t*>(from);
  const uint32_t last = words[2];
  a[0] = words[0], a[2] = words[1];
  a[1] = __byte_perm(a[0], a[2], 0x5432), a[3] = __byte_perm(a[2], last, 0x5432);
}

// The sum of tap (ky, kx), `row` below the first tap of its group, over the block's items, by a warp.
template <class T>
__device__ float exact_sum(const WindowParams<T>& params, int64_t channel, int first_ky, int ky, int kx, int row,
                           int begin, int end) {
  float total = 0;
  for (int item = begin; item < end; ++item) {
    const Band band(params, first_ky, item % params.bands);
    const int down = ky - params.pad, across = kx - params.left + params.shift;
    const int y0 = max(max(0, -down), band.t0 - row), y1 = min(min(params.out_h, params.in_h - down), band.t1 - row);
    const int first = item / params.bands * params.images;
    for (int n = first; n < min(first + params.images, params.batch); ++n) {
      const int64_t plane = int64_t(n) * params.channels + channel;
      const T* const in = params.in + plane * params.in_h * params.in_w;
      const T* const grad = params.grad + plane * params.out_h * params.out_w;
      for (int o = threadIdx.x % kWarp; o < (y1 - y0) * params.out_w; o += kWarp) {
        const int y = y0 + o / params.out_w, x = o % params.out_w, ix = x + across;
        if (ix >= 0 && ix < params.in_w)
          total += widen(grad[y * params.out_w + x]) * widen(in[(y + down) * params.in_w + ix]);
      }
    }
    if (__any_sync(0xffffffff, isnan(total))) return NAN;  // and stays it
  }
  for (int other = kWarp / 2; other > 0; other /= 2) total += __shfl_xor_sync(0xffffffff, total, other);
  return total;
}

// Adds the products of a row of the image, from a lane's pixel on, and of the rows of the gradient that it meets.
template <class T, int kAcross, int kDown>
__device__ __forceinline__ void add_row(const char* at, const char* (&grads)[kDown], int steps,
                                        float (&sum)[kAcross][kDown][4]) {
  constexpr int kStep = kSixteen * int(sizeof(T));
  constexpr int kAtOnce = kAcross * kDown > 4 ? 2 : 4;  // steps whose loads a warp waits for together
  uint32_t a[kAcross - 1 + kAtOnce][4];
#pragma unroll
  for (int m = 0; m < kAcross - 1; ++m) load_lines(a[m], at + m * kStep);
  at += (kAcross - 1) * kStep;
  const auto add = [&](auto at_once) {
    constexpr int kSteps = decltype(at_once)::value;
    uint2 b[kSteps][kDown];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      load_lines(a[kAcross - 1 + s], at + s * kStep);
#pragma unroll
      for (int n = 0; n < kDown; ++n) b[s][n] = *reinterpret_cast<const uint2*>(grads[n] + s * kStep);
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int n = 0; n < kDown; ++n)
#pragma unroll
        for (int m = 0; m < kAcross; ++m) multiply_16<T>(sum[m][n], a[m + s], &b[s][n].x);
#pragma unroll
    for (int m = 0; m < kAcross - 1; ++m)
#pragma unroll
      for (int k = 0; k < 4; ++k) a[m][k] = a[m + kSteps][k];
    at += kSteps * kStep;
#pragma unroll
    for (int n = 0; n < kDown; ++n) grads[n] += kSteps * kStep;
  };
  int step = 0;
#pragma unroll 1
  for (; step + kAtOnce <= steps; step += kAtOnce) add(std::integral_constant<int, kAtOnce>());
#pragma unroll 1
  for (; step < steps; ++step) add(std::integral_constant<int, 1>());
}

// A block computes a tile of 16 * kAcross by 8 * kDown taps (and their groups) of some planes, from items of the batch:
// images, or bands of them.
template <class T, int kAcross, int kDown>
__global__ void __launch_bounds__(kBlock, 5) wgrad_mma_windows(const __grid_constant__ WindowParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int kLines = kSixteen * kAcross, kSums = kLines * 8 * kDown;
  if (params.result.partial != nullptr) start_next_kernel();
  extern __shared__ __align__(kAccess) char shared[];
  const int tile_x = int(blockIdx.x) % params.tiles_x, rest = int(blockIdx.x) / params.tiles_x;
  const int tile_y = rest % params.tiles_y, channel = rest / params.tiles_y * params.planes;
  const int count = min(params.planes, params.channels - channel);
  const int items = (params.batch + params.images - 1) / params.images * params.bands;
  const int begin = int(blockIdx.y) * params.items_a_split, end = min(items, begin + params.items_a_split);
  const int tile_h = params.step * params.groups(), first_ky = tile_y * tile_h, first_line = tile_x * kLines;
  clear(shared, params.bytes);

  const RowSteps &in_steps = params.in_steps, &grad_steps = params.grad_steps;
  const RowStart in_start(in_steps), grad_start(grad_steps);
  int next = begin;
  const auto load = [&](int stage) {
    const Band band(params, first_ky, next % params.bands);
    const int first = next++ / params.bands * params.images;
    T* patch = reinterpret_cast<T*>(shared + stage * params.stage_bytes);
    T* grad_patch = reinterpret_cast<T*>(shared + stage * params.stage_bytes + params.grad_at);
    const int in_rows = min(params.rows, params.in_h - band.in_y) * count,  // of one plane, or all of several
        grad_rows = min(params.grad_rows, params.out_h - band.grad_y) * count;
    for (int n = first; n < min(first + params.images, params.batch); ++n) {
      const int64_t plane = int64_t(n) * params.channels + channel;
      copy_rows(in_steps, in_start, in_rows, patch + params.left,
                params.in + (plane * params.in_h + band.in_y) * params.in_w);
      copy_rows(grad_steps, grad_start, grad_rows, grad_patch,
                params.grad + (plane * params.out_h + band.grad_y) * params.out_w);
      patch += params.planes * params.rows * in_steps.pitch;
      grad_patch += params.planes * params.grad_rows * grad_steps.pitch;
    }
  };

  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, eighth = lane / 4, quarter = lane % 4;
  const int plane_warps = kWarps / params.planes, plane = warp / plane_warps, chunk = warp % params.chunks;
  const int later = params.narrow ? quarter / 2 : 0, each = params.narrow ? 2 : 1;
  const int pixel = (params.narrow ? quarter % 2 : quarter) * 4 + chunk * params.chunk_steps * kSixteen;
  const int group = eighth >> params.lines_log, line = (eighth & ((1 << params.lines_log) - 1)) * 2;
  const int column = (first_line + line + pixel) * int(sizeof(T));
  const int steps = min(params.chunk_steps, params.steps - chunk * params.chunk_steps);
  float sum[kAcross][kDown][4] = {};
  int item = begin;
  const auto compute = [&](int stage) {
    const Band band(params, first_ky, item % params.bands);
    const int images = min(params.images, params.batch - item++ / params.bands * params.images);
    if (plane >= count) return;
    const int row_bytes = in_steps.pitch * int(sizeof(T)), grad_row_bytes = grad_steps.pitch * int(sizeof(T));
    const int shift = band.offset + group * params.step - band.in_y;
    const int in_rows = max(0, min(min(params.rows, params.in_h - band.in_y), band.t1 + shift)),
              grad_rows = min(params.grad_rows, params.out_h - band.grad_y);
    const int first = band.t0 + warp % plane_warps / params.chunks * each + later,
              more = plane_warps / params.chunks * each;
    for (int slot = plane; slot < images * params.planes; slot += params.planes) {
      int i = first + shift, y = first - eighth - band.grad_y;
      int in_at = stage * params.stage_bytes + (slot * params.rows + i) * row_bytes + column;
      int grad_at = stage * params.stage_bytes + params.grad_at + (slot * params.grad_rows + y) * grad_row_bytes +
                    pixel * int(sizeof(T));
      for (int t = first - later; t < band.t1; t += more) {
        const char* at = shared + (unsigned(i) < unsigned(in_rows) ? in_at : params.zeros_at + column);
        const char* grads[kDown];
#pragma unroll
        for (int n = 0; n < kDown; ++n)
          grads[n] = shared + (unsigned(y - n * 8) < unsigned(grad_rows) ? grad_at - n * 8 * grad_row_bytes
                                                                         : params.zeros_at + pixel * int(sizeof(T)));
        add_row<T>(at, grads, steps, sum);
        i += more, y += more, in_at += more * row_bytes, grad_at += more * grad_row_bytes;
      }
    }
  };
  for_images<true>(end - begin, params.stages, load, compute);

  __syncthreads();
  float* const sums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int m = 0; m < kAcross; ++m)
#pragma unroll
    for (int n = 0; n < kDown; ++n)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        sums[warp * kSums + (n * 8 + quarter * 2 + k % 2) * kLines + m * kSixteen + k / 2 * 8 + eighth] = sum[m][n][k];
  __syncthreads();
  // Tiles at an edge have the taps that meet no pixel, too.
  const int y0 = tile_y == 0 ? 0 : params.first_y + first_ky,
            y1 = tile_y + 1 == params.tiles_y ? params.taps_h : params.first_y + first_ky + tile_h;
  const int x0 = tile_x == 0 ? 0 : params.first_x + first_line - params.shift,
            x1 = tile_x + 1 == params.tiles_x ? params.taps_w : params.first_x + first_line + kLines - params.shift;
  const int width = x1 - x0, tile = (y1 - y0) * width;
  const auto total = [&](int i) {
    const int ky = y0 + i % tile / width - params.first_y, kx = x0 + i % width - params.first_x;
    if (ky < 0 || ky >= params.met_h || kx < 0 || kx >= params.met_w) return 0.0f;
    const int down = ky - first_ky, across = kx + params.shift - first_line;
    const int at = down % params.step * kLines + across / kSixteen * kSixteen + across % 2 * 8 +
                   (down / params.step << params.lines_log) + across % kSixteen / 2;
    float total = 0;
    for (int u = 0; u < plane_warps; ++u) total += sums[(i / tile * plane_warps + u) * kSums + at];
    return total;
  };
  const auto again = [&](int i) {
    const int ky = y0 + i % tile / width - params.first_y, kx = x0 + i % width - params.first_x;
    return exact_sum(params, channel + i / tile, first_ky, ky, kx, (ky - first_ky) % params.step, begin, end);
  };
  write_sums(count * tile, total, again, [&](int i, float sum) {
    const int64_t tap = int64_t(y0 + i % tile / width) * params.taps_w + x0 + i % width;
    const int64_t taps = int64_t(params.taps_h) * params.taps_w;
    params.result.write(blockIdx.y, params.channels * taps, (channel + i / tile) * taps + tap, sum);
  });
#endif
}

// Sets what a stage holds (a band of an image, or some planes of some images) and how many warps share a row. Returns
// the steps of a warp for an item.
template <int kLines, class T>
int64_t set_stage(const WgradProblem& problem, int64_t zeros, WindowParams<T>& params) {
  const int64_t groups = 8 >> params.lines_log, pitch = params.in_steps.pitch, grad_pitch = params.grad_steps.pitch;
  const int64_t all_rows = std::min(problem.y.out + params.step - 1, problem.y.in + (groups - 1) * params.step);

  const auto plan = [&](int64_t bands, int64_t planes, int64_t images) {  // returns a stage's bytes
    params.planes = int(planes), params.images = int(images), params.band_rows = int(ceil_div(all_rows, bands));
    params.bands = int(ceil_div(all_rows, params.band_rows));
    params.rows = int(std::min<int64_t>(problem.y.in, params.band_rows + (groups - 1) * params.step));
    params.grad_rows = int(std::min<int64_t>(problem.y.out, params.band_rows + params.step - 1));
    // Matrices reach beyond the last row.
    const int64_t patch =
        images * planes * params.rows * pitch + params.left + params.tiles_x * kLines + kSixteen * (params.steps + 1);
    params.grad_at = int(round_up(patch * sizeof(T), kAccess));
    params.stage_bytes = params.grad_at + int(images * planes * params.grad_rows * grad_pitch * sizeof(T));
    return params.stage_bytes;
  };
  int64_t bands = 1, planes = 1, images = 1;
  while (plan(bands, 1, 1) > 32 << 10 && params.band_rows > 16) ++bands;
  const int64_t most = std::min(kH200.shared_a_block, current_gpu().shared_a_block);
  while (plan(bands, 1, 1) + zeros > most && params.band_rows > 1) ++bands;
  const int64_t all = problem.batch * problem.channels * params.tiles_x * params.tiles_y;
  // Small planes: several, and several images, at a time.
  const int64_t row_steps = ceil_div(params.band_rows, params.narrow ? 2 : 1) * params.steps;
  const bool one_plane = params.bands == 1;
  const bool whole = params.tiles_y == 1 && params.rows == problem.y.in && params.grad_rows == problem.y.out;
  while (one_plane && whole && planes < kWarps && row_steps * planes <= 32 && planes * 2 <= problem.channels &&
         all >= 1024 * planes && plan(1, planes * 2, 1) <= 32 << 10)
    planes *= 2;
  while (one_plane && images * 2 <= problem.batch && all >= 800 * planes * images &&
         row_steps * planes * images <= 256 && plan(1, planes, images * 2) <= 24 << 10)
    images *= 2;
  plan(bands, planes, images);
  const int64_t plane_warps = kWarps / planes;
  params.chunks = 1;
  while (params.chunks < plane_warps && params.band_rows * params.chunks * 2 <= plane_warps &&
         params.steps > params.chunks)
    params.chunks *= 2;
  params.chunk_steps = int(ceil_div(params.steps, params.chunks));
  return ceil_div(ceil_div(params.band_rows, params.narrow ? 2 : 1), plane_warps / params.chunks) * params.chunk_steps *
         images;
}

template <class T, int kAcross, int kDown>
void launch(const WgradProblem& problem, WindowParams<T>& params, cudaStream_t stream) {
  const int64_t groups = 8 >> params.lines_log;
  params.tiles_x = int(ceil_div(params.met_w + params.shift, kSixteen * kAcross));
  params.tiles_y = int(ceil_div(params.met_h, 8 * kDown * groups));
  params.step = int(ceil_div(params.met_h, groups * params.tiles_y));
  params.narrow = problem.x.out <= 8, params.steps = int(ceil_div(problem.x.out, kSixteen));
  const int64_t reach = problem.x.out + params.met_w + params.shift - 1;  // columns of a row that taps meet
  const int64_t pitch = round_up(std::max(problem.x.in + params.left, reach - params.left), 4),
                grad_pitch = (params.steps | 1) * kSixteen;  // no two rows in one bank
  params.in_steps = {problem.x.in, params.in_steps.vector, pitch};
  params.grad_steps = {problem.x.out, row_vector<T>(params.grad, problem.x.out), grad_pitch};
  const int64_t zeros = round_up((kSixteen * (params.steps + 2 + params.tiles_x * kAcross)) * sizeof(T), kAccess);
  constexpr int64_t kSums = kWarps * kSixteen * kAcross * 8 * kDown * sizeof(float);
  const auto shared_bytes = [&] { return std::max(params.stages * params.stage_bytes + zeros, kSums); };
  const int64_t tiles = params.tiles_x * params.tiles_y;
  const int64_t item_steps = set_stage<kSixteen * kAcross>(problem, zeros, params), images = params.images;
  const int64_t blocks = ceil_div(problem.channels, params.planes) * tiles;
  const int64_t items = ceil_div(problem.batch, images) * params.bands,
                most = std::max<int64_t>(kMaxSteps / item_steps, 1);
  // What memory moves in the time that tensor cores take for an item.
  const int64_t work = (12 + 4 * kAcross * kDown) * tiles * images;
  const int64_t item_bytes = (problem.y.in * problem.x.in + problem.y.out * problem.x.out) * problem.channels *
                             int64_t(sizeof(T)) * work / params.bands;
  const BatchSplit split = split_batch(items, {blocks, kBlock, 96, params.stage_bytes, zeros, false, most},
                                       std::max(item_bytes, kLeastBytes * blocks), kH200, 130e3);
  params.items_a_split = split.images, params.stages = split.stages;
  while (params.stages > 1 && !allow_shared<wgrad_mma_windows<T, kAcross, kDown>>(shared_bytes())) --params.stages;
  params.zeros_at = params.stages * params.stage_bytes, params.bytes = int(shared_bytes());
  const int64_t splits = ceil_div(items, params.items_a_split);
  const WgradPartialSums<T> partial(problem, splits);
  params.result = partial.result();
  launch_kernel<wgrad_mma_windows<T, kAcross, kDown>>(Kernel::kWgradMmaWindows, blocks, splits, kBlock, params.bytes,
                                                      params, stream);
  partial.finish(problem, stream, true);
}

// The least time, about, that tiles of that many taps take.
double tiles_time(int64_t lines, int64_t rows, int64_t across, int64_t down) {
  return double(ceil_div(lines, kSixteen * across) * ceil_div(rows, 8 * down)) *
         (std::max(1.7 * double(across * down), double(3 + 2 * down)) + 2);
}

template <class T>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  WindowParams<T> params{};
  set_problem<T>(problem, params);
  const auto met = [](const Axis& a) {  // the first tap that meets a pixel, and how many do
    const int64_t first = std::min(std::max<int64_t>(0, a.pad - a.out + 1), a.taps - 1);
    return std::pair(int(first), int(std::max<int64_t>(1, std::min(a.taps, a.in + a.pad) - first)));
  };
  std::tie(params.first_y, params.met_h) = met(problem.y), std::tie(params.first_x, params.met_w) = met(problem.x);
  params.taps_h = int(problem.y.taps), params.taps_w = int(problem.x.taps);
  const int64_t pad = problem.x.pad - params.first_x;
  params.pad = int(problem.y.pad) - params.first_y;
  // Images start at a multiple of a vector, where that takes no more lines.
  int64_t vector = row_vector<T>(params.in, problem.x.in);
  const auto lines = [&](int64_t vector) { return params.met_w + round_up(pad, vector) - pad; };
  while (vector > 2 && ceil_div(lines(vector), kSixteen) > ceil_div(lines(2), kSixteen)) vector /= 2;
  params.in_steps.vector = int(vector);
  params.left = int(round_up(pad, vector)), params.shift = int(params.left - pad);
  const int64_t all_lines = lines(vector);
  params.lines_log = 3;
  while (params.lines_log > 0 && all_lines <= 1 << params.lines_log && params.met_h > 8 * (8 >> params.lines_log))
    --params.lines_log;
  const int64_t rows = ceil_div(params.met_h, 8 >> params.lines_log);
  double best = 0;
  void (*chosen)(const WgradProblem&, WindowParams<T>&, cudaStream_t) = nullptr;
  const auto consider = [&](auto across, auto down) {
    const double time = tiles_time(all_lines, rows, across.value, down.value);
    if (chosen == nullptr || time < best) best = time, chosen = &launch<T, across.value, down.value>;
  };
  constexpr std::integral_constant<int, 1> one;
  constexpr std::integral_constant<int, 2> two;
  constexpr std::integral_constant<int, 4> four;
  consider(one, one), consider(one, two), consider(one, four), consider(two, one), consider(two, two),
      consider(two, four), consider(four, one), consider(four, two);
  chosen(problem, params, stream);
}

}  // namespace

void launch_wgrad_mma_windows(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_16_bit(Kernel::kWgradMmaWindows, problem.dtype, [&](auto zero) { launch<decltype(zero)>(problem, stream); });
}

}  // namespace customops::cuda::depthwise
