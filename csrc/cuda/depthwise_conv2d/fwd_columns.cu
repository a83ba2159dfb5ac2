// depthwise_conv2d, forward and dgrad, for contiguous images of any width and few taps. Some rows of a plane, or
// several planes, are a span of memory: a block copies it into shared memory as it lies, so that it does not matter
// where rows begin. A thread computes a run of outputs of one column. It walks down the rows under them, reads the
// pixels of each row once, and adds them to all the outputs whose windows have that row. At a dilation, and for dgrad
// at a stride, outputs that share rows lie apart, and the ones between belong to other runs.
#include "copy_images.cuh"
#include "first_tap.cuh"

namespace customops::cuda::depthwise {
namespace {

// A block takes `planes` planes, or `rows` rows of outputs of one of them; a thread takes `run` outputs.
struct ColumnsPlan {
  int64_t planes, rows, run;
};

template <class T>
struct ColumnsParams {
  Parameters<T> weight, bias;
  const T* in;
  T* out;
  Divider<uint32_t> width, spacing, runs, bands, channel;  // runs: of a column of a block's rows of outputs
  TapAxis y, x;
  int in_h, in_w, out_h, out_w, channels, batch, planes, all_planes, rows, run;
  int64_t elements;
  bool flipped;
};

// What a block has in shared memory: of each of its planes, the rows from `begin` to `end`.
struct ColumnsSpan {
  int first_row, rows, begin, end;  // first_row, rows: of outputs

  template <class T>
  __device__ ColumnsSpan(const ColumnsParams<T>& params, int band, int up)
      : first_row(band * params.rows), rows(min(params.rows, params.out_h - first_row)) {
    const TapAxis& y = params.y;
    const int first = first_row * y.down - y.pad, window = first / up,
              last = (first + (rows - 1) * y.down + (y.taps - 1) * y.dilation) / up;
    begin = params.planes > 1 ? 0 : min(max(0, window), params.in_h);
    end = params.planes > 1 ? params.in_h : max(begin, min(params.in_h, last + 1));
  }
};

// kTapsY, kTapsX: taps that an output meets. kStep: rows, in dilations, from the window of a thread's output to that of
// its next one. kPhases: for dgrad at a stride, where outputs may meet fewer taps than others.
template <class T, int kTapsY, int kTapsX, int kStep, bool kPhases>
struct Column {
  using A = acc_t<T>;
  static constexpr int kSums = (kTapsY + kStep - 1) / kStep;  // outputs whose windows have the same row

  A taps[kTapsY][kTapsX], bias;
  int columns[kTapsX];
  bool inside[kTapsX];
  int output, outputs;  // the row of the first output, and how many there are
  int row, rows;        // of its window: the first, and how many have a tap

  __device__ Column(const ColumnsParams<T>& params, const ColumnsSpan& span, int x, uint32_t run, int channel) {
    const TapAxis &y_axis = params.y, &x_axis = params.x;
    const int phase = int(params.spacing.divmod(run)), spacing = int(params.spacing.divisor);
    output = phase + spacing * int(run) * params.run;
    outputs = max(0, min(params.run, (span.rows - output + spacing - 1) / spacing));
    output += span.first_row;
    const FirstTap first_y = first_tap<kPhases>(y_axis, uint32_t(output)), first_x = first_tap<kPhases>(x_axis, x);
    const int step_y = kPhases ? int(y_axis.tap_step.divisor) : 1, step_x = kPhases ? int(x_axis.tap_step.divisor) : 1;
    row = first_y.pixel, rows = kPhases ? (y_axis.taps - first_y.tap + step_y - 1) / step_y : kTapsY;
    constexpr bool kAnyX = kPhases || kTapsY == 1;
    const int taps_x = kAnyX ? x_axis.taps : kTapsX, all = kPhases ? y_axis.taps * taps_x : kTapsY * taps_x;
    const int64_t weight = int64_t(channel) * all;
#pragma unroll
    for (int kx = 0; kx < kTapsX; ++kx) {
      const int tap_x = first_x.tap + kx * step_x;
      columns[kx] = first_x.pixel + kx * (kPhases ? x_axis.pixel_step : x_axis.dilation);
      inside[kx] = (!kAnyX || tap_x < taps_x) && unsigned(columns[kx]) < unsigned(params.in_w);
#pragma unroll
      for (int ky = 0; ky < kTapsY; ++ky) {
        const int tap = (first_y.tap + ky * step_y) * taps_x + tap_x;
        taps[ky][kx] = 0;
        if (!kAnyX || (ky < rows && tap_x < taps_x))
          taps[ky][kx] = params.weight.select(weight + (params.flipped ? all - 1 - tap : tap));
      }
    }
    bias = params.bias ? params.bias.select(channel) : A(0);
  }

  // pixels: of row 0 of the plane, in shared memory. out: of the first output.
  __device__ void compute(const ColumnsParams<T>& params, const ColumnsSpan& span, const T* pixels, T* out) const {
    const int dilation = kPhases ? params.y.pixel_step : (kTapsY > 1 ? params.y.dilation : params.y.down);
    const int row_step = dilation * params.in_w, out_step = int(params.spacing.divisor * params.width.divisor);
    int y = row;
    const T* at = pixels + y * params.in_w;
    A sum[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] = bias;
    const int steps = outputs + kSums - 1;
#pragma unroll 1
    for (int begin = 0; begin < steps; begin += kSums) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sum[i] = bias;  // output begin + i
#pragma unroll
        for (int s = 0; s < kStep; ++s, y += dilation, at += row_step)
          if (begin + i < steps && unsigned(y - span.begin) < unsigned(span.end - span.begin)) add_row(at, i, s, sum);
        const int done = begin + i - (kSums - 1);
        if (done >= 0 && done < outputs) {
          *out = narrow<T>(sum[(i + 1) % kSums]);
          out += out_step;
        }
      }
    }
  }

  // Adds row `s` of the window of output i, whose sum is sum[i % kSums], to those of this output and the previous ones.
  __device__ void add_row(const T* pixels, int i, int s, A (&sum)[kSums]) const {
    A value[kTapsX];
#pragma unroll
    for (int x = 0; x < kTapsX; ++x) {
      value[x] = 0;
      if (inside[x]) value[x] = widen(pixels[columns[x]]);
    }
#pragma unroll
    for (int back = 0; back < kSums; ++back) {
      const int y = s + back * kStep;
      if (y < kTapsY && (!kPhases || y < rows))  // or infinities would meet taps that are not there
#pragma unroll
        for (int x = 0; x < kTapsX; ++x) sum[(i - back + kSums) % kSums] += taps[y][x] * value[x];
    }
  }
};

template <class T, int kTapsY, int kTapsX, int kStep, bool kPhases>
__global__ void __launch_bounds__(kThreads) fwd_columns(const __grid_constant__ ColumnsParams<T> params) {
  constexpr int kVector = kAccess / sizeof(T);
  extern __shared__ __align__(kAccess) char shared[];
  T* const pixels = reinterpret_cast<T*>(shared);
  uint32_t group = blockIdx.x;
  const ColumnsSpan span(params, int(params.bands.divmod(group)), kPhases ? int(params.y.up.divisor) : 1);
  const int first_plane = int(group) * params.planes, planes = min(params.planes, params.all_planes - first_plane);
  const int plane = params.in_h * params.in_w;
  const int64_t start = int64_t(first_plane) * plane + span.begin * params.in_w;
  const int lead = int(start % kVector);
  if (span.begin < span.end)
    copy_span(params.in, start - lead, lead + (planes - 1) * plane + (span.end - span.begin) * params.in_w,
              params.elements, pixels);
  const int width = int(params.width.divisor), items = planes * int(params.runs.divisor) * width;
  const T* const in = pixels + lead - span.begin * params.in_w;
  for (int item = int(threadIdx.x), first = item; first == item || item < items; item += int(blockDim.x)) {
    uint32_t image = uint32_t(min(item, items - 1));
    const int x = int(params.width.divmod(image)), run = int(params.runs.divmod(image));
    uint32_t channel = uint32_t(first_plane) + image;
    channel = params.channel.divmod(channel);
    const Column<T, kTapsY, kTapsX, kStep, kPhases> column(params, span, x, run, int(channel));
    if (first == item) {  // the taps are on their way while the pixels are
      wait_copies(0);
      __syncthreads();
    }
    if (item < items)
      column.compute(params, span, in + int(image) * plane,
                     params.out + (int64_t(first_plane + int(image)) * params.out_h + column.output) * width + x);
  }
}

// Measured on an H200: short runs read rows twice, long ones leave most of a GPU idle where there are few outputs.
inline ColumnsPlan plan_columns(const Problem& problem, int64_t multiprocessors) {
  constexpr int64_t kShortest = 4, kBlock = 128, kThreadsAMultiprocessor = 256;
  constexpr int64_t kSharedAThread = 192;  // bytes, so that a multiprocessor has room for many threads
  const int64_t spacing = sliding_axis<int64_t>(problem.y).stride(), columns = problem.x.out * spacing;
  const int64_t planes = problem.batch * problem.channels, longest = ceil_div(problem.y.out, spacing);
  const int64_t bytes = problem.element_bytes(), a_plane = problem.y.in * problem.x.in * bytes;
  const int64_t most =
      std::max(kShortest, kSharedAThread * problem.y.up * problem.x.up / (bytes * problem.y.down * problem.x.down));
  const int64_t wanted = ceil_div(multiprocessors * kThreadsAMultiprocessor, planes * columns);
  const int64_t pieces = std::max(ceil_div(longest, most), std::min(wanted, ceil_div(longest, kShortest)));
  int64_t run = ceil_div(longest, pieces), runs = ceil_div(longest, run);
  if (columns * runs <= kBlock && a_plane + kColumnsEnds <= kColumnsShared) {
    const int64_t fit = std::min(kBlock / (columns * runs), (kColumnsShared - kColumnsEnds) / a_plane);
    return {std::clamp<int64_t>(planes / (2 * multiprocessors), 1, fit), problem.y.out, run};
  }
  runs = std::min(runs, std::max<int64_t>(1, kBlock / columns));
  while (columns_bytes(problem, runs * run * spacing) > kColumnsShared) runs > 1 ? --runs : run = (run + 1) / 2;
  return {1, std::min(problem.y.out, runs * run * spacing), run};
}

// The runs of a column of a block's rows of outputs.
inline int64_t columns_runs(const Problem& problem, const ColumnsPlan& plan) {
  const int64_t spacing = sliding_axis<int64_t>(problem.y).stride();
  return spacing * ceil_div(plan.rows, spacing * plan.run);
}

template <class T>
ColumnsParams<T> columns_params(const ForwardProblem& problem, const ColumnsPlan& plan) {
  ColumnsParams<T> params{};
  set_problem<T>(problem, params);
  params.y = TapAxis(problem.y), params.x = TapAxis(problem.x);
  params.width = Divider<uint32_t>(params.out_w),
  params.spacing = Divider<uint32_t>(sliding_axis<int64_t>(problem.y).stride());
  params.runs = Divider<uint32_t>(columns_runs(problem, plan));
  params.bands = Divider<uint32_t>(ceil_div(problem.y.out, plan.rows));
  params.channel = Divider<uint32_t>(problem.channels);
  params.planes = int(plan.planes), params.all_planes = int(problem.batch * problem.channels);
  params.rows = int(plan.rows), params.run = int(plan.run);
  params.elements = problem.batch * problem.channels * problem.y.in * problem.x.in;
  return params;
}

template <class T, int kTapsY, int kTapsX, int kStep, bool kPhases>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const ColumnsPlan plan = plan_columns(problem, current_gpu().multiprocessors);
  const auto params = columns_params<T>(problem, plan);
  const int64_t items = plan.planes * columns_runs(problem, plan) * problem.x.out, rounds = ceil_div(items, kThreads);
  const auto threads = unsigned(round_up(ceil_div(items, rounds), kWarp));
  const int64_t bytes = plan.planes > 1 ? plan.planes * problem.y.in * problem.x.in * sizeof(T) + kColumnsEnds
                                        : columns_bytes(problem, plan.rows);
  const auto grid = unsigned(ceil_div(params.all_planes, plan.planes) * params.bands.divisor);
  fwd_columns<T, kTapsY, kTapsX, kStep, kPhases><<<grid, threads, bytes, stream>>>(params);
}

// One tap high. kTaps: at least as many as there are along x.
template <class T>
void launch_row(const ForwardProblem& problem, cudaStream_t stream) {
  if (problem.x.taps <= 4) return launch<T, 1, 4, 1, false>(problem, stream);
  if (problem.x.taps <= 8) return launch<T, 1, 8, 1, false>(problem, stream);
  if (problem.x.taps <= 12) return launch<T, 1, 12, 1, false>(problem, stream);
  launch<T, 1, 16, 1, false>(problem, stream);
}

// kTaps: along y.
template <class T, int kTaps>
void launch_taps(const ForwardProblem& problem, cudaStream_t stream) {
  if (has_phases(problem)) {
    if constexpr (kTaps <= kColumnsPhaseTaps) return launch<T, kTaps, kTaps, 1, true>(problem, stream);
    fail_choice(Kernel::kFwdColumns);
  }
  const bool one_step = sliding_axis<int64_t>(problem.y).tap_step == 1;
  if (problem.x.taps == 1)
    return one_step ? launch<T, kTaps, 1, 1, false>(problem, stream) : launch<T, kTaps, 1, 2, false>(problem, stream);
  one_step ? launch<T, kTaps, kTaps, 1, false>(problem, stream) : launch<T, kTaps, kTaps, 2, false>(problem, stream);
}

}  // namespace

void launch_fwd_columns(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    switch (columns_taps(problem)) {
      case 1: return launch_row<T>(problem, stream);
      case 2: return launch_taps<T, 2>(problem, stream);
      case 3: return launch_taps<T, 3>(problem, stream);
      case 4: return launch_taps<T, 4>(problem, stream);
      case 5: return launch_taps<T, 5>(problem, stream);
      case 6: return launch_taps<T, 6>(problem, stream);
      case 7: return launch_taps<T, 7>(problem, stream);
      default: fail_choice(Kernel::kFwdColumns);
    }
  });
}

}  // namespace customops::cuda::depthwise
