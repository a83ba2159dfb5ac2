// depthwise_conv2d, forward, and dgrad at stride 1, for images and outputs of up to 32x32 pixels under large windows.
// Under 31x31 taps over 14x14 pixels most taps meet no pixel, so the sum of an output goes over the image's pixels, not
// over the taps. A block has whole images in shared memory. A thread computes kRun outputs of a row, of one image or
// four: it reads kRun pixels of a row and the 2 kRun - 1 taps between these and its outputs, and multiplies all pairs.
// A tap outside the window is zero. Zero times infinity is NaN, so a sum that is not finite is computed again, tap by
// tap.
#include <optional>

#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kMostThreads = 256;

struct FwdWholeParams {
  const void *weight, *bias, *in;
  void* out;
  Dtype dtype;
  bool float32_weight, float32_bias;  // beside 16-bit images
  int in_h, in_w, out_h, out_w, channels, batch, taps_h, taps_w, top, left;
  int block_channels, block_images;  // that a block has at once
  int first_row, rows;               // of taps: those that meet a pixel for some output
  int tap_pitch, in_row;             // elements in shared memory from one row to the next: of taps, of pixels
  int in_pitch, out_pitch;           // from one plane to the next
  int taps_at, out_at;               // where taps and results begin, behind the pixels; in elements
  Divider<uint32_t> tap_rows, width, in_plane, out_plane;
  Divider<uint32_t> row_runs, out_height, image_groups;  // row_runs: runs of outputs that cover a row
  Divider<uint32_t> by_channels, last_channels;          // channels of a block, of the last block
  bool flipped, channels_last;
};

template <class T>
struct Type {
  using type = T;
};
// f(Type<T>()) for the dtype of the images. Between loads and stores a kernel works in A: one kernel serves three
// dtypes.
template <class A, class F>
__device__ void visit_dtype(Dtype dtype, const F& f) {
  if constexpr (std::is_same_v<A, double>)
    f(Type<double>());
  else if (dtype == Dtype::kFloat32)
    f(Type<float>());
  else if (dtype == Dtype::kFloat16)
    f(Type<c10::Half>());
  else
    f(Type<c10::BFloat16>());
}

// The tap by which pixel ix counts for output ox stands at column ix - ox + `last` of its row.
template <int kRun, class A>
__device__ void load_taps(const FwdWholeParams& params, int channel, int channels, A* taps) {
  const int all = params.taps_h * params.taps_w, last = int(params.row_runs.divisor) * kRun - 1;
  const int pitch = params.tap_pitch, column = int(threadIdx.x) % pitch, step = int(blockDim.x) / pitch;
  const int kx = column - last + params.left;
  if (int(threadIdx.x) >= step * pitch) return;
  visit_dtype<A>(params.dtype, [&](auto type) {
    const auto weight = Parameters<typename decltype(type)::type>{params.weight, params.float32_weight};
#pragma unroll 4
    for (int i = int(threadIdx.x) / pitch; i < channels * params.rows; i += step) {
      uint32_t plane = i;
      const int row = int(params.tap_rows.divmod(plane)), k = (params.first_row + row) * params.taps_w + kx;
      const int64_t at = int64_t(channel + int(plane)) * all + (params.flipped ? all - 1 - k : k);
      taps[i * pitch + column] = unsigned(kx) < unsigned(params.taps_w) ? weight.select(at) : A(0);
    }
  });
}

// Where element i of a block's planes is in global memory, and its image, channel and pixel. Elements are counted in
// the order of memory.
struct Place {
  int64_t at;
  int image, channel, pixel;
};
__device__ Place place_of(const FwdWholeParams& params, uint32_t i, const Divider<uint32_t>& plane, int first,
                          int channel) {
  Place place;
  const Divider<uint32_t>& channels = blockIdx.x + 1 < gridDim.x ? params.by_channels : params.last_channels;
  if (params.channels_last) {
    place.channel = int(channels.divmod(i)), place.pixel = int(plane.divmod(i)), place.image = int(i);
    place.at = (int64_t(first + place.image) * plane.divisor + place.pixel) * params.channels;
    place.at += channel + place.channel;
  } else {
    place.pixel = int(plane.divmod(i)), place.channel = int(channels.divmod(i)), place.image = int(i);
    place.at = int64_t(first + place.image) * params.channels + channel + place.channel;
    place.at = place.at * plane.divisor + place.pixel;
  }
  return place;
}

// Copies images of the batch from `first` on into shared memory. A thread copies the same pixel of kImages images,
// which are image_groups apart.
template <int kImages, class A>
__device__ void load_pixels(const FwdWholeParams& params, int first, int images, int channel, int channels, A* pixels) {
  const int image_groups = int(params.image_groups.divisor);
  const int count = image_groups * channels * params.in_h * params.in_w;
  const int64_t apart = int64_t(image_groups) * params.channels * params.in_h * params.in_w;
  visit_dtype<A>(params.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma unroll(kImages == 1 ? 4 : 2)
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const Place place = place_of(params, i, params.in_plane, first, channel);
      uint32_t row = place.pixel;
      const int x = int(params.width.divmod(row));
      T value[kImages];
#pragma unroll
      for (int n = 0; n < kImages; ++n)
        value[n] =
            place.image + n * image_groups < images ? static_cast<const T*>(params.in)[place.at + n * apart] : T(0);
#pragma unroll
      for (int n = 0; n < kImages; ++n)
        pixels[((place.image + n * image_groups) * params.block_channels + place.channel) * params.in_pitch +
               int(row) * params.in_row + x] = widen(value[n]);
    }
  });
}

template <int kImages, class A>
__device__ void store_results(const FwdWholeParams& params, int first, int images, int channel, int channels,
                              const A* results) {
  const int image_groups = int(params.image_groups.divisor);
  const int count = image_groups * channels * params.out_h * params.out_w;
  const int64_t apart = int64_t(image_groups) * params.channels * params.out_h * params.out_w;
  visit_dtype<A>(params.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma unroll 2
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const Place place = place_of(params, i, params.out_plane, first, channel);
#pragma unroll
      for (int n = 0; n < kImages; ++n)
        if (place.image + n * image_groups < images)
          static_cast<T*>(params.out)[place.at + n * apart] = narrow<T>(
              results[((place.image + n * image_groups) * params.block_channels + place.channel) * params.out_pitch +
                      place.pixel]);
    }
  });
}

// Adds rows begin to end of kImages images, `apart` elements from one to the next, to the sums of a run of outputs.
template <int kRun, int kImages, class A>
__device__ void add_rows(const A* taps, int tap_pitch, const A* pixels, int in_row, int apart, int begin, int end,
                         A (&sum)[kImages][kRun]) {
#pragma unroll 1
  for (int y = begin; y < end; ++y)
#pragma unroll 1
    for (int x = 0; x < in_row; x += kRun) {
      A tap[2 * kRun - 1];
#pragma unroll
      for (int j = 0; j < 2 * kRun - 1; ++j) tap[j] = taps[y * tap_pitch + x + j];
#pragma unroll
      for (int n = 0; n < kImages; ++n) {
        A pixel[kRun];
#pragma unroll
        for (int i = 0; i < kRun; ++i) pixel[i] = pixels[n * apart + y * in_row + x + i];
#pragma unroll
        for (int i = 0; i < kRun; ++i)
#pragma unroll
          for (int o = 0; o < kRun; ++o) sum[n][o] += tap[i - o + kRun - 1] * pixel[i];
      }
    }
}

template <int kRun, class A>
__device__ bool all_finite(const A (&sum)[kRun], int width) {
  A zero = 0;
#pragma unroll
  for (int o = 0; o < kRun; ++o)
    if (o < width) zero += sum[o] * A(0);
  return zero == A(0);
}

// What add_rows sums for one image, tap by tap, into shared memory.
template <class A>
__device__ void add_by_taps(const FwdWholeParams& params, const A* taps, const A* pixels, A bias, int first_x,
                            int begin, int end, int width, A* out) {
#pragma unroll 1
  for (int o = 0; o < width; ++o) {
    const int left = first_x + o - params.left;
    A total = bias;
#pragma unroll 1
    for (int y = begin; y < end; ++y)
#pragma unroll 1
      for (int x = max(0, left); x < min(params.in_w, left + params.taps_w); ++x)
        total += taps[y * params.tap_pitch + x - o] * pixels[y * params.in_row + x];
    out[o] = total;
  }
}

// A thread computes kRun outputs of kImages images at a time.
template <class A, int kRun, int kImages>
__global__ void __launch_bounds__(kMostThreads) fwd_whole_planes(const __grid_constant__ FwdWholeParams params) {
  extern __shared__ __align__(kAccess) char shared[];
  A* const pixels = reinterpret_cast<A*>(shared);
  A* const all_taps = pixels + params.taps_at;
  A* const results = pixels + params.out_at;
  const int channel = int(blockIdx.x) * params.block_channels;
  const int channels = min(params.block_channels, params.channels - channel);
  load_taps<kRun>(params, channel, channels, all_taps);
  const int planes = params.block_images * params.block_channels;
  if (params.in_row > params.in_w)  // zeros behind each row
    for (int i = threadIdx.x; i < planes * params.in_pitch; i += blockDim.x) pixels[i] = A(0);
  __syncthreads();

  uint32_t rest = threadIdx.x;
  const int first_x = int(params.row_runs.divmod(rest)) * kRun, oy = int(params.out_height.divmod(rest));
  const int image = int(params.image_groups.divmod(rest)), plane = int(rest);
  const int image_groups = int(params.image_groups.divisor), width = min(kRun, params.out_w - first_x);
  const int begin = max(0, oy - params.top), end = min(params.in_h, oy - params.top + params.taps_h);
  const int shift = int(params.row_runs.divisor) * kRun - kRun - first_x;
  const A* const taps =
      all_taps + (plane * params.rows - oy + params.top - params.first_row) * params.tap_pitch + shift;
  const int apart = image_groups * params.block_channels;
  const A* const in = pixels + (image * params.block_channels + plane) * params.in_pitch;
  A* const out = results + (image * params.block_channels + plane) * params.out_pitch + oy * params.out_w + first_x;
  for (int first = int(blockIdx.y) * params.block_images; first < params.batch;
       first += int(gridDim.y) * params.block_images) {
    const int images = min(params.block_images, params.batch - first);
    load_pixels<kImages>(params, first, images, channel, channels, pixels);
    __syncthreads();
    if (plane < channels) {
      A bias = 0;
      if (params.bias)
        visit_dtype<A>(params.dtype, [&](auto type) {
          bias = Parameters<typename decltype(type)::type>{params.bias, params.float32_bias}[channel + plane];
        });
      A sum[kImages][kRun];
#pragma unroll
      for (int n = 0; n < kImages; ++n)
#pragma unroll
        for (int o = 0; o < kRun; ++o) sum[n][o] = bias;
      add_rows(taps, params.tap_pitch, in, params.in_row, apart * params.in_pitch, begin, end, sum);
      unsigned unsure = 0;  // images, as bits, with a result that is not finite
#pragma unroll
      for (int n = 0; n < kImages; ++n)
        if (image + n * image_groups < images) {
          if (!all_finite(sum[n], width)) unsure |= 1u << n;
#pragma unroll
          for (int o = 0; o < kRun; ++o)
            if (o < width) out[n * apart * params.out_pitch + o] = sum[n][o];
        }
#pragma unroll 1
      for (; unsure != 0; unsure &= unsure - 1) {
        const int n = __ffs(unsure) - 1;
        add_by_taps(params, taps + kRun - 1, in + n * apart * params.in_pitch, bias, first_x, begin, end, width,
                    out + n * apart * params.out_pitch);
      }
    }
    __syncthreads();
    store_results<kImages>(params, first, images, channel, channels, results);
  }
}

constexpr int64_t kMostBytes = 100 << 10;  // of shared memory of a block, so that a multiprocessor has two

// How the work is laid out: the sizes of shared memory, and what a block takes at once.
struct FwdWholePlan {
  int64_t run, images;             // of a thread: outputs of a row, images
  int64_t channels, image_groups;  // of a block at once
  int64_t row_runs, first_row, rows, in_row, in_pitch, out_pitch, tap_pitch, taps_at, out_at;  // as in FwdWholeParams
  int64_t bytes, threads, splits;  // splits: parts of the batch, of a block each

  FwdWholePlan(const Problem& problem, int64_t run, int64_t images) : run(run), images(images) {
    const Axis &y = problem.y, &x = problem.x;
    row_runs = ceil_div(x.out, run), in_row = round_up(x.in, run);
    first_row = std::max<int64_t>(0, y.pad - (y.out - 1));
    rows = std::max<int64_t>(1, std::min(y.taps, y.in + y.pad) - first_row);
    in_pitch = (y.in * in_row) | 1, out_pitch = (y.out * x.out) | 1;
    // Rows lie further apart than they are long, so that lanes of several rows read taps from different banks: the
    // distances with the fewest conflicts over common widths. For runs of 8, none of those tried was better than none.
    const int64_t skew = run == 5 ? 6 : (run == 6 ? 4 : (run == 7 ? 3 : 0));
    tap_pitch = in_row + row_runs * run - 1 + (row_runs > 1 ? skew : 0);
  }

  // Fills a block, up to most_threads and most_bytes: with images first, then channels. Of channels_last images, up to
  // most_channels come before images, for neighbouring channels share an access; it is 1 for contiguous ones.
  void fill(const Problem& problem, int64_t most_threads, int64_t most_channels, int64_t most_bytes) {
    const int64_t lanes = row_runs * problem.y.out, steps = ceil_div(problem.batch, images);
    const int64_t wide = std::max<int64_t>(problem.element_bytes(), 4), taps = rows * tap_pitch;
    const int64_t plane = images * (in_pitch + out_pitch) + taps;
    const int64_t planes = std::max<int64_t>(1, std::min(most_threads / lanes, most_bytes / (plane * wide)));
    channels = std::min({planes, problem.channels, most_channels});
    image_groups = std::min(planes / channels, steps);
    image_groups = ceil_div(steps, ceil_div(steps, image_groups));
    if (!problem.channels_last) channels = std::min(planes / image_groups, problem.channels);
    threads = round_up(std::max(lanes * image_groups * channels, tap_pitch), kWarp);
    const int64_t all = channels * image_groups * images;
    taps_at = all * in_pitch, out_at = taps_at + channels * taps;
    bytes = (out_at + all * out_pitch) * wide;
  }

  // Splits the batch; returns the estimated time, about in instructions of a multiprocessor. Fewer than kFewThreads
  // threads leave it idle in part. The numbers are estimates, compared with times of other plans on an H200.
  double split(const Problem& problem, const Gpu& gpu) {
    constexpr int64_t kBlocks = 8;  // of a multiprocessor
    constexpr double kFewThreads = 384, kTurn = 100, kTap = 15;
    const int64_t of_channels = ceil_div(problem.channels, channels),
                  all_turns = ceil_div(problem.batch, images * image_groups);
    splits = std::clamp<int64_t>(gpu.multiprocessors * kBlocks / of_channels, 1, std::min<int64_t>(all_turns, 65535));
    const int64_t turns = ceil_div(all_turns, splits);  // of a block
    splits = ceil_div(all_turns, turns);
    const double blocks = double(ceil_div(of_channels * splits, gpu.multiprocessors));
    const double at_once = std::min(blocks, double(std::max<int64_t>(1, gpu.shared_a_multiprocessor / (bytes + 1024))));
    const double idle = std::max(1.0, kFewThreads / (at_once * double(threads)));
    const double n = double(images), r = double(run);
    const double sums =
        double(std::min(problem.y.taps, problem.y.in) * (in_row / run)) * (n * r * r + 2 * (2 * r - 1 + n * r) + 10);
    // Images move in sectors of 32 bytes, of which a narrow block of channels uses a part.
    const int64_t element = problem.element_bytes(), used = problem.channels_last ? channels * element : 32;
    const double sector = 64.0 * double(element) / double(std::min<int64_t>(used, 32));
    const double copies =
        double((in_pitch + out_pitch) * channels * image_groups) / double(threads) * (25 + (5 + sector) * n);
    return blocks * idle *
           (double(turns * threads) * (sums + copies + kTurn) + double(channels * rows * tap_pitch) * kTap);
  }
};

FwdWholePlan plan_whole_planes(const Problem& problem, int64_t run, const Gpu& gpu) {
  const int64_t most_bytes = std::min(gpu.shared_a_block, kMostBytes);
  std::optional<FwdWholePlan> best;
  double least = 0;
  for (int64_t images = 1; images <= 4 && images < 2 * problem.batch; images *= 4)
    for (int64_t threads = 64; threads <= kMostThreads; threads += 64)
      for (int64_t access = problem.channels_last ? 64 : 8; access >= 8; access /= 2) {  // bytes
        FwdWholePlan plan(problem, run, images);
        plan.fill(problem, threads, problem.channels_last ? access / problem.element_bytes() : 1, most_bytes);
        if (plan.bytes > most_bytes) continue;
        const double time = plan.split(problem, gpu);
        if (!best || time < least) best = plan, least = time;
      }
  if (!best) fail_choice(Kernel::kFwdWholePlanes);
  return *best;
}

template <class A, int kRun, int kImages>
void launch(const ForwardProblem& problem, const FwdWholePlan& plan, cudaStream_t stream) {
  const Axis &y = problem.y, &x = problem.x;
  FwdWholeParams params{};
  set_sizes(problem, params);
  params.weight = problem.weight, params.bias = problem.bias;
  params.in = problem.in, params.out = problem.out, params.dtype = problem.dtype;
  params.float32_weight = problem.float32_weight, params.float32_bias = problem.float32_bias;
  params.flipped = problem.flipped, params.channels_last = problem.channels_last;
  params.taps_h = int(y.taps), params.taps_w = int(x.taps), params.top = int(y.pad), params.left = int(x.pad);
  params.first_row = int(plan.first_row), params.rows = int(plan.rows), params.tap_pitch = int(plan.tap_pitch);
  params.in_row = int(plan.in_row), params.in_pitch = int(plan.in_pitch), params.out_pitch = int(plan.out_pitch);
  params.taps_at = int(plan.taps_at), params.out_at = int(plan.out_at);
  params.block_channels = int(plan.channels), params.block_images = int(plan.image_groups * kImages);
  params.tap_rows = Divider<uint32_t>(plan.rows), params.width = Divider<uint32_t>(x.in);
  params.in_plane = Divider<uint32_t>(y.in * x.in), params.out_plane = Divider<uint32_t>(y.out * x.out);
  params.row_runs = Divider<uint32_t>(plan.row_runs), params.out_height = Divider<uint32_t>(y.out);
  params.image_groups = Divider<uint32_t>(plan.image_groups), params.by_channels = Divider<uint32_t>(plan.channels);
  const int64_t blocks = ceil_div(problem.channels, plan.channels);
  params.last_channels = Divider<uint32_t>(problem.channels - (blocks - 1) * plan.channels);
  launch_kernel<fwd_whole_planes<A, kRun, kImages>>(Kernel::kFwdWholePlanes, blocks, plan.splits, plan.threads,
                                                    plan.bytes, params, stream);
}

template <class A, int kRun>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const FwdWholePlan plan = plan_whole_planes(problem, kRun, current_gpu());
  plan.images == 4 ? launch<A, kRun, 4>(problem, plan, stream) : launch<A, kRun, 1>(problem, plan, stream);
}

// The run that leaves the fewest outputs and pixels of a row empty; of several such, the longest.
int64_t best_run(const Problem& problem, std::initializer_list<int64_t> runs) {
  int64_t best = 0, least = 0;
  for (const int64_t run : runs) {
    const int64_t pairs = round_up(problem.x.out, run) * round_up(problem.x.in, run);
    if (best == 0 || pairs < least) best = run, least = pairs;
  }
  return best;
}

}  // namespace

void launch_fwd_whole_planes(const ForwardProblem& problem, cudaStream_t stream) {
  if (problem.dtype == Dtype::kFloat64)
    return best_run(problem, {7, 5}) == 7 ? launch<double, 7>(problem, stream) : launch<double, 5>(problem, stream);
  switch (best_run(problem, {8, 7, 6, 5})) {
    case 5: return launch<float, 5>(problem, stream);
    case 6: return launch<float, 6>(problem, stream);
    case 7: return launch<float, 7>(problem, stream);
    default: return launch<float, 8>(problem, stream);
  }
}

}  // namespace customops::cuda::depthwise
