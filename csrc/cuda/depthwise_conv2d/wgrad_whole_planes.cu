// depthwise_conv2d's wgrad for small contiguous 16-bit images and 5x5 taps, at stride 2 also 3x3: little work for a
// block, so that what comes before and after it counts. A block takes whole planes of a few channels, of as many images
// at once as fit. It copies them as they lie in memory, 16 bytes at a time whatever their width, and sorts them into
// rows. A thread then has one row of the taps, of one plane or of some rows of its gradient; neighbouring threads have
// neighbouring planes. The sums of a block are added in shared memory, those of the splits of a batch, if there are
// several, by a second kernel.
// Zeros times infinity are NaN: where a sum is not finite, a thread computes it again, without what lies outside.
#include "copy_images.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

// A thread's columns of the gradient at a time, one access, and what it reads of the image for them.
template <int taps, int down>
struct WholePlanesTile {
  static constexpr int kTaps = taps, kDown = down, kAll = taps * taps, kX = 8;
  static constexpr int kSpan = (kX - 1) * down + taps, kVectors = (kSpan + kX - 1) / kX;
  static constexpr int kMostSlots = taps == 3 ? 256 : 128;  // threads with a row of the taps in common
  static constexpr int kMostThreads = kMostSlots * taps;
};

// How planes as they lie in memory become rows. An item is one element, or two where widths and padding are even.
struct RowsOfPlanes {
  Divider<uint32_t> run, pixels, width;  // items of all planes of a block, of a plane, of a row
  int unit, together;                    // elements of an item; images whose items threads sort at once
  int pitch, plane, before;              // elements of a row, of a plane, before a row's first
};

template <class T>
struct WholePlanesParams {
  const T *in, *grad;
  WgradResult<T> result;
  int in_w, in_h, out_w, out_h, top, channels, batch, images_a_split;
  int planes, images, parts, part_rows, chunks, team;  // of a block at once: channels, images, parts of a plane's rows
  int in_raw, grad_raw;                                // bytes from one image's planes to the next one's, as in memory
  int grad_raw_at, rows_at, grad_rows_at, bytes;
  Divider<uint32_t> by_planes, by_slots;  // a slot: a plane of an image, a part of it
  RowsOfPlanes rows, grad_rows;
};

// The run of some planes of every image, as it lies in memory.
template <class T>
struct PlaneRun {
  const T *from, *end;  // of the batch's first image; the end of all images
  int64_t image;        // elements from one image to the next
  int bytes, pitch;     // of the run; from one run to the next in shared memory: as in memory, but for multiples of 16

  // Bytes before the run of image n, in the accesses that copy it. That of image n + i is (lead(n) + i * pitch) % 16.
  __device__ int lead(int n) const { return int(reinterpret_cast<uintptr_t>(from + n * image) % kAccess); }
  // Copies what lies between multiples of 16 bytes: the tensor starts at one. Where it ends before one, the runs in its
  // last 16 bytes are copied up to there, and then by elements: nothing beyond the end is read. That is one run, or
  // some of images of a few bytes.
  __device__ void copy(unsigned raw, int first, int images) const {
    const int lane = threadIdx.x % kWarp, first_lead = lead(first);
    const uintptr_t stop = reinterpret_cast<uintptr_t>(from + (first + images - 1) * image) + bytes;
    const unsigned rest = unsigned(stop % kAccess);
    const bool beyond = rest > 0 && stop - rest + kAccess > reinterpret_cast<uintptr_t>(end);
    const unsigned image_bytes = unsigned(min(image * int64_t(sizeof(T)), int64_t(kAccess)));
    const int whole_runs = beyond ? images - int((rest + image_bytes - 1) / image_bytes) : images;
    for (int i = threadIdx.x / kWarp; i < images; i += blockDim.x / kWarp) {
      const int to = first_lead + i * pitch, before = to % kAccess, size = before + bytes;
      const char* const at = reinterpret_cast<const char*>(from + (first + i) * image) - before;
      const int whole = i < whole_runs ? size : size / kAccess * kAccess;
#pragma unroll 1
      for (int b = lane * kAccess; b < whole; b += kWarp * kAccess)
        copy_async<kAccess, true>(raw + to - before + b, at + b);
      if (const int b = whole + lane * int(sizeof(T)); i >= whole_runs && b < size)
        copy_async<sizeof(T)>(raw + to - before + b, at + b);
    }
  }
  template <class Item>
  __device__ void sort_items(const char* raw, T* rows, int images, int step, const RowsOfPlanes& by) const {
    constexpr int kAtOnce = 8;  // loads that a thread waits for together
    for (uint32_t j = threadIdx.x; j < by.run.divisor * by.together; j += blockDim.x) {
      uint32_t image_of = j;
      const uint32_t item = by.run.divmod(image_of);
      if (int(item * sizeof(Item)) >= bytes) continue;
      uint32_t channel = item;
      uint32_t line = by.pixels.divmod(channel);
      const int column = int(by.width.divmod(line)) * int(sizeof(Item) / sizeof(T));
      const char* source = raw + item * sizeof(Item) + int(image_of) * pitch;
      T* to = rows + int(channel) * by.plane + int(line) * by.pitch + column + by.before + int(image_of) * step;
      const int source_step = by.together * pitch, to_step = by.together * step;
      for (int left = images - int(image_of); left > 0; left -= kAtOnce * by.together) {
        Item value[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k, source += source_step)
          if (k * by.together < left) value[k] = *reinterpret_cast<const Item*>(source);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k, to += to_step)
          if (k * by.together < left) *reinterpret_cast<Item*>(to) = value[k];
      }
    }
  }
  // Sorts the runs of some images into rows; step: elements from one image's rows to the next one's.
  __device__ void sort(const char* raw, T* rows, int first, int images, int step, const RowsOfPlanes& by) const {
    raw += lead(first);
    if (by.unit == 2)
      sort_items<uint32_t>(raw, rows, images, step, by);
    else
      sort_items<uint16_t>(raw, rows, images, step, by);
  }
};

// The sum of tap kx over some rows of the gradient: slow, and exact where there are infinities.
template <class S, class T>
__device__ __noinline__ float sum_rows_again(const WholePlanesParams<T>& params, const T* in, const T* grad, int kx,
                                             int rows) {
  float sum = 0;
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < params.out_w; ++x)
      if (const int column = x * S::kDown + kx - params.rows.before; column >= 0 && column < params.in_w)
        sum += widen(grad[y * params.grad_rows.pitch + x]) *
               widen(in[y * S::kDown * params.rows.pitch + column + params.rows.before]);
  return sum;
}

// Adds the products of rows [first, last) of the gradient with the rows of the image that tap row ky meets.
template <class S, class T>
__device__ void add_rows(const WholePlanesParams<T>& params, const T* in, const T* grad, int ky, int first, int last,
                         float (&sum)[S::kTaps]) {
  using V = Vector<T, S::kX>;
  const int below = params.in_h + params.top - ky;
  first = max(first, (max(params.top - ky, 0) + S::kDown - 1) / S::kDown);
  last = min(last, below > 0 ? (below - 1) / S::kDown + 1 : 0);
  if (first >= last) return;
  in += (first * S::kDown + ky - params.top) * params.rows.pitch, grad += first * params.grad_rows.pitch;
  float own[S::kTaps] = {};
  for (int y = 0; y < last - first; ++y)
#pragma unroll 1
    for (int chunk = 0; chunk < params.chunks; ++chunk) {
      const V* const from = reinterpret_cast<const V*>(in + y * S::kDown * params.rows.pitch) + chunk * S::kDown;
      const V gradient = reinterpret_cast<const V*>(grad + y * params.grad_rows.pitch)[chunk];
      V window[S::kVectors];
#pragma unroll
      for (int i = 0; i < S::kVectors; ++i) window[i] = from[i];
      float row[S::kSpan];
#pragma unroll
      for (int i = 0; i < S::kSpan; ++i) row[i] = widen(window[i / S::kX], i % S::kX);
#pragma unroll
      for (int x = 0; x < S::kX; ++x)
#pragma unroll
        for (int k = 0; k < S::kTaps; ++k) own[k] += widen(gradient, x) * row[x * S::kDown + k];
    }
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k)
    sum[k] += isfinite(own[k]) ? own[k] : sum_rows_again<S>(params, in, grad, k, last - first);
}

template <class T, class S>
__global__ void __launch_bounds__(S::kMostThreads)
    wgrad_whole_planes(const __grid_constant__ WholePlanesParams<T> params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  extern __shared__ __align__(kAccess) char shared[];
  if (params.result.partial != nullptr) start_next_kernel();
  const int channel = int(blockIdx.x) * params.planes, count = min(params.planes, params.channels - channel);
  const int begin = int(blockIdx.y) * params.images_a_split, end = min(params.batch, begin + params.images_a_split);
  const int in_pixels = params.in_h * params.in_w, out_pixels = params.out_h * params.out_w;
  const int64_t in_image = int64_t(params.channels) * in_pixels, out_image = int64_t(params.channels) * out_pixels;
  const PlaneRun<T> run{params.in + int64_t(channel) * in_pixels, params.in + params.batch * in_image, in_image,
                        count * in_pixels * int(sizeof(T)), params.in_raw};
  const PlaneRun<T> grad_run{params.grad + int64_t(channel) * out_pixels, params.grad + params.batch * out_image,
                             out_image, count * out_pixels * int(sizeof(T)), params.grad_raw};
  char* const grad_raw = shared + params.grad_raw_at;
  T* const rows = reinterpret_cast<T*>(shared + params.rows_at);
  T* const grad_rows = reinterpret_cast<T*>(shared + params.grad_rows_at);
  const auto copy = [&](int first) {
    run.copy(shared_address(shared), first, min(params.images, end - first));
    grad_run.copy(shared_address(grad_raw), first, min(params.images, end - first));
    commit_copies();
  };
  copy(begin);
  clear(rows, params.bytes - params.rows_at);
  const int warp = threadIdx.x / kWarp, ky = warp % S::kTaps, slot = warp / S::kTaps * kWarp + threadIdx.x % kWarp;
  const int pitch = blockDim.x / S::kTaps;
  uint32_t part = slot;
  const int place = int(params.by_slots.divmod(part));
  uint32_t image = place;
  const bool busy = int(params.by_planes.divmod(image)) < count && int(part) < params.parts;
  const int first_row = int(part) * params.part_rows, last_row = min(first_row + params.part_rows, params.out_h);
  float sum[S::kTaps] = {};
  for (int first = begin; first < end; first += params.images) {
    const int images = min(params.images, end - first);
    wait_copies(0);
    __syncthreads();
    run.sort(shared, rows, first, images, params.planes * params.rows.plane, params.rows);
    grad_run.sort(grad_raw, grad_rows, first, images, params.planes * params.grad_rows.plane, params.grad_rows);
    __syncthreads();
    if (first + params.images < end) copy(first + params.images);
    if (busy && int(image) < images)
      add_rows<S>(params, rows + place * params.rows.plane, grad_rows + place * params.grad_rows.plane, ky, first_row,
                  last_row, sum);
  }
  float* const sums = reinterpret_cast<float*>(shared);  // (taps, slots)
  __syncthreads();
#pragma unroll
  for (int k = 0; k < S::kTaps; ++k) sums[(ky * S::kTaps + k) * pitch + slot] = sum[k];
  __syncthreads();
  const int slots = int(params.by_slots.divisor) * params.parts, plane = int(threadIdx.x) / params.team / S::kAll,
            k = int(threadIdx.x) / params.team % S::kAll, member = int(threadIdx.x) % params.team;
  float total = 0;
  if (plane < count)
#pragma unroll 8
    for (int s = plane + member * params.planes; s < slots; s += params.team * params.planes)
      total += sums[k * pitch + s];
  // A team of threads a sum.
  for (int half = params.team / 2; half > 0; half /= 2) total += __shfl_xor_sync(0xffffffffu, total, half);
  if (plane < count && member == 0)
    params.result.write(blockIdx.y, int64_t(params.channels) * S::kAll, int64_t(channel + plane) * S::kAll + k, total);
#endif
}

// How rows of `width` elements, `height` a plane, are sorted into rows of `pitch` with zeros before and behind.
inline RowsOfPlanes rows_of_planes(int64_t height, int64_t width, int64_t pitch, int64_t before) {
  RowsOfPlanes rows{};
  rows.pitch = int(pitch), rows.before = int(before);
  rows.plane = int((height * pitch / 8 | 1) * 8);  // an odd number of accesses: neighbours lie in other banks
  rows.unit = width % 2 == 0 && before % 2 == 0 ? 2 : 1;
  rows.pixels = Divider<uint32_t>(height * width / rows.unit), rows.width = Divider<uint32_t>(width / rows.unit);
  return rows;
}

// From one image's planes to the next one's in shared memory, in bytes: as in memory, but for multiples of 16.
inline int64_t raw_pitch(int64_t planes, int64_t channels, int64_t pixels) {
  const int64_t least = 2 * planes * pixels + kAccess, image = 2 * channels * pixels;
  return least + ((image - least) % kAccess + kAccess) % kAccess;
}

// What a block takes.
struct WholePlanesBlock {
  int64_t planes, slots, images, splits, part_rows;
};

// The block for which a model finds the fewest cycles of a multiprocessor. Its constants were fitted on an H100; it
// plans for the multiprocessors of an H200 on every GPU, so that sums depend on shapes alone. Shared memory has room
// for two blocks there.
template <class S, class T>
WholePlanesBlock plan_block(const WgradProblem& problem, const WholePlanesParams<T>& params) {
  const Axis &y = problem.y, &x = problem.x;
  const int64_t in_pixels = y.in * x.in, out_pixels = y.out * x.out,
                row_bytes = params.rows.plane + params.grad_rows.plane;
  WholePlanesBlock best{};
  int64_t least = 0;
  for (const int64_t slots : {S::kMostSlots / 2, S::kMostSlots})
    for (int64_t planes = 1; planes <= std::min<int64_t>(8, problem.channels); ++planes) {
      const int64_t groups = ceil_div(problem.channels, planes);
      const int64_t an_image = raw_pitch(planes, problem.channels, in_pixels) +
                               raw_pitch(planes, problem.channels, out_pixels) + 2 * planes * row_bytes;
      const int64_t most = std::min({slots / planes, (kWholePlanesShared - 4 * kAccess) / an_image, problem.batch});
      if (most == 0) break;
      for (const int64_t blocks : {groups, kH200.multiprocessors, 2 * kH200.multiprocessors}) {
        const int64_t each = ceil_div(problem.batch, std::clamp<int64_t>(blocks / groups, 1, problem.batch)),
                      splits = ceil_div(problem.batch, each), rounds = ceil_div(each, most);
        const int64_t images = ceil_div(each, rounds);
        const int64_t part_rows = ceil_div(y.out, std::clamp<int64_t>(slots / (planes * images), 1, y.out));
        // Two blocks of few threads are on a multiprocessor at once.
        const int64_t a_multiprocessor = ceil_div(groups * splits, kH200.multiprocessors),
                      at_once = slots == S::kMostSlots ? 1 : std::min<int64_t>(a_multiprocessor, 2);
        const int64_t rows = part_rows * params.chunks;
        // Copies and sorting, and the multiply-adds; then barriers of a round, a row's latency, the start of a block,
        // and the second kernel.
        const int64_t work = 2 * planes * images * (in_pixels + out_pixels) / 25 + S::kTaps * slots * rows * 5 / 8;
        const int64_t cost =
            ceil_div(a_multiprocessor, at_once) * (rounds * (500 + 65 * rows + at_once * work) + 2500) +
            (splits > 1 ? 2500 : 0);
        if (least == 0 || cost < least) least = cost, best = {planes, slots, images, splits, part_rows};
      }
    }
  return best;
}

// Sets all but the images and sums.
template <class S, class T>
WholePlanesBlock plan(const WgradProblem& problem, WholePlanesParams<T>& params) {
  const Axis &y = problem.y, &x = problem.x;
  params.chunks = int(ceil_div(x.out, S::kX)), params.top = int(y.pad);
  const int64_t window = ((params.chunks - 1) * S::kDown + S::kVectors) * S::kX;
  params.rows = rows_of_planes(y.in, x.in, round_up(std::max(window, x.pad + x.in), S::kX), x.pad);
  params.grad_rows = rows_of_planes(y.out, x.out, params.chunks * S::kX, 0);
  const WholePlanesBlock block = plan_block<S>(problem, params);
  const int64_t places = block.planes * block.images, threads = block.slots * S::kTaps;
  params.planes = int(block.planes), params.images = int(block.images);
  params.images_a_split = int(ceil_div(problem.batch, block.splits));
  params.part_rows = int(block.part_rows), params.parts = int(ceil_div(y.out, block.part_rows));
  params.by_planes = Divider<uint32_t>(block.planes), params.by_slots = Divider<uint32_t>(places);
  int64_t bytes = 0;
  const auto take = [&](int64_t more) {
    const int64_t at = bytes;
    bytes += round_up(more, kAccess);
    return int(at);
  };
  params.in_raw = int(raw_pitch(block.planes, problem.channels, y.in * x.in));
  params.grad_raw = int(raw_pitch(block.planes, problem.channels, y.out * x.out));
  take(block.images * params.in_raw + kAccess);
  params.grad_raw_at = take(block.images * params.grad_raw + kAccess);
  params.rows_at = take(2 * places * params.rows.plane);
  params.grad_rows_at = take(2 * places * params.grad_rows.plane);
  params.bytes = int(std::max<int64_t>(bytes, S::kAll * block.slots * sizeof(float)));
  for (RowsOfPlanes* rows : {&params.rows, &params.grad_rows}) {
    const int64_t run = block.planes * rows->pixels.divisor;
    rows->run = Divider<uint32_t>(run), rows->together = int(std::clamp<int64_t>(threads / run, 1, block.images));
  }
  params.team = 1;
  while (params.team < kWarp && 2 * params.team * block.planes * S::kAll <= threads) params.team *= 2;
  return block;
}

template <class T, class S>
void launch(const WgradProblem& problem, cudaStream_t stream) {
  WholePlanesParams<T> params{};
  set_problem<T>(problem, params);
  const WholePlanesBlock block = plan<S>(problem, params);
  const WgradPartialSums<T> sums(problem, block.splits);
  params.result = sums.result();
  launch_kernel<wgrad_whole_planes<T, S>>(Kernel::kWgradWholePlanes, ceil_div(problem.channels, block.planes),
                                          block.splits, block.slots * S::kTaps, params.bytes, params, stream);
  sums.finish(problem, stream, true);
}

}  // namespace

void launch_wgrad_whole_planes(const WgradProblem& problem, cudaStream_t stream) {
  dispatch_16_bit(Kernel::kWgradWholePlanes, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.x.taps == 3) return launch<T, WholePlanesTile<3, 2>>(problem, stream);
    if (problem.x.down == 1) return launch<T, WholePlanesTile<5, 1>>(problem, stream);
    launch<T, WholePlanesTile<5, 2>>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
