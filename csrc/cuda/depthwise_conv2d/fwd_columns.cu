// depthwise_conv2d, forward, and dgrad at stride 1, for contiguous images of any width and 2x2 to 7x7 taps. Some rows
// of a plane, or several planes, are a span of memory: a block copies it into shared memory as it lies, so that it does
// not matter where rows begin. A thread computes a run of outputs of one column. It walks down the rows under them,
// reads the pixels of each row once, and adds them to all the outputs whose windows have that row. At a dilation,
// outputs that share rows lie apart, and the ones between belong to other runs.
#include "copy_images.cuh"

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
  int in_h, in_w, out_h, out_w, channels, batch, down_y, down_x, pad_y, pad_x, dilation_y, dilation_x;
  int planes, all_planes, rows, run;
  int64_t elements;
  bool flipped;
};

// What a block has in shared memory: of each of its planes, the rows from `begin` to `end`.
struct ColumnsSpan {
  int first_row, rows, begin, end;  // first_row, rows: of outputs

  template <class T>
  __device__ ColumnsSpan(const ColumnsParams<T>& params, int band, int taps)
      : first_row(band * params.rows), rows(min(params.rows, params.out_h - first_row)) {
    const int window = first_row * params.down_y - params.pad_y;
    const int last = window + (rows - 1) * params.down_y + (taps - 1) * params.dilation_y;
    begin = params.planes > 1 ? 0 : min(max(0, window), params.in_h);
    end = params.planes > 1 ? params.in_h : max(begin, min(params.in_h, last + 1));
  }
};

// kTaps: along both axes. kStep: rows, in dilations, from the window of a thread's output to that of its next one.
template <class T, int kTaps, int kStep>
struct Column {
  using A = acc_t<T>;
  static constexpr int kSums = (kTaps + kStep - 1) / kStep;  // outputs whose windows have the same row

  A taps[kTaps][kTaps], bias;
  int columns[kTaps];
  bool inside[kTaps];
  int first, outputs;  // the first output's row, and how many there are

  __device__ Column(const ColumnsParams<T>& params, const ColumnsSpan& span, int x, uint32_t run, int channel) {
    const int phase = int(params.spacing.divmod(run)), spacing = int(params.spacing.divisor);
    first = phase + spacing * int(run) * params.run;
    outputs = max(0, min(params.run, (span.rows - first + spacing - 1) / spacing));
    first += span.first_row;
    const int64_t tap = int64_t(channel) * kTaps * kTaps;
#pragma unroll
    for (int k = 0; k < kTaps * kTaps; ++k)
      taps[k / kTaps][k % kTaps] = params.weight.select(tap + (params.flipped ? kTaps * kTaps - 1 - k : k));
    bias = params.bias ? params.bias.select(channel) : A(0);
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      columns[k] = x * params.down_x - params.pad_x + k * params.dilation_x;
      inside[k] = unsigned(columns[k]) < unsigned(params.in_w);
    }
  }

  // pixels: of row 0 of the plane, in shared memory. out: of the run's first output.
  __device__ void compute(const ColumnsParams<T>& params, const ColumnsSpan& span, const T* pixels, T* out) const {
    int y = first * params.down_y - params.pad_y;
    const int row_step = params.dilation_y * params.in_w, out_step = int(params.spacing.divisor * params.width.divisor);
    const T* row = pixels + y * params.in_w;
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
        for (int s = 0; s < kStep; ++s, y += params.dilation_y, row += row_step)
          if (begin + i < steps && unsigned(y - span.begin) < unsigned(span.end - span.begin)) add_row(row, i, s, sum);
        const int done = begin + i - (kSums - 1);
        if (done >= 0 && done < outputs) {
          *out = narrow<T>(sum[(i + 1) % kSums]);
          out += out_step;
        }
      }
    }
  }

  // Adds row `s` of the window of output i, whose sum is sum[i % kSums], to those of this output and the previous ones.
  __device__ void add_row(const T* row, int i, int s, A (&sum)[kSums]) const {
    A value[kTaps];
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      value[k] = 0;
      if (inside[k]) value[k] = widen(row[columns[k]]);
    }
#pragma unroll
    for (int back = 0; back < kSums; ++back)
      if (s + back * kStep < kTaps)
#pragma unroll
        for (int k = 0; k < kTaps; ++k) sum[(i - back + kSums) % kSums] += taps[s + back * kStep][k] * value[k];
  }
};

template <class T, int kTaps, int kStep>
__global__ void __launch_bounds__(kThreads) fwd_columns(const __grid_constant__ ColumnsParams<T> params) {
  constexpr int kVector = kAccess / sizeof(T);
  extern __shared__ __align__(kAccess) char shared[];
  T* const pixels = reinterpret_cast<T*>(shared);
  uint32_t group = blockIdx.x;
  const ColumnsSpan span(params, int(params.bands.divmod(group)), kTaps);
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
    const Column<T, kTaps, kStep> column(params, span, x, run, int(channel));
    if (first == item) {  // the taps are on their way while the pixels are
      wait_copies(0);
      __syncthreads();
    }
    if (item < items)
      column.compute(params, span, in + int(image) * plane,
                     params.out + (int64_t(first_plane + int(image)) * params.out_h + column.first) * width + x);
  }
}

// Measured on an H200: short runs read rows twice, long ones leave most of a GPU idle where there are few outputs.
inline ColumnsPlan plan_columns(const Problem& problem, int64_t multiprocessors) {
  constexpr int64_t kShortest = 4, kBlock = 128, kThreadsAMultiprocessor = 256;
  constexpr int64_t kSharedAThread = 192;  // bytes, so that a multiprocessor has room for many threads
  const int64_t spacing = columns_spacing(problem.y), columns = problem.x.out * spacing;
  const int64_t planes = problem.batch * problem.channels, longest = ceil_div(problem.y.out, spacing);
  const int64_t bytes = problem.element_bytes(), a_plane = problem.y.in * problem.x.in * bytes;
  const int64_t most = std::max(kShortest, kSharedAThread / (bytes * problem.y.down * problem.x.down));
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
  const int64_t spacing = columns_spacing(problem.y);
  return spacing * ceil_div(plan.rows, spacing * plan.run);
}

template <class T>
ColumnsParams<T> columns_params(const ForwardProblem& problem, const ColumnsPlan& plan) {
  ColumnsParams<T> params{};
  set_problem<T>(problem, params);
  params.width = Divider<uint32_t>(params.out_w), params.spacing = Divider<uint32_t>(columns_spacing(problem.y));
  params.runs = Divider<uint32_t>(columns_runs(problem, plan));
  params.bands = Divider<uint32_t>(ceil_div(problem.y.out, plan.rows));
  params.channel = Divider<uint32_t>(problem.channels);
  const Axis y = without_unused_steps(problem.y), x = without_unused_steps(problem.x);
  params.down_y = int(y.down), params.down_x = int(x.down), params.pad_y = int(y.pad), params.pad_x = int(x.pad);
  params.dilation_y = int(y.dilation), params.dilation_x = int(x.dilation);
  params.planes = int(plan.planes), params.all_planes = int(problem.batch * problem.channels);
  params.rows = int(plan.rows), params.run = int(plan.run);
  params.elements = problem.batch * problem.channels * y.in * x.in;
  return params;
}

template <class T, int kTaps, int kStep>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  const ColumnsPlan plan = plan_columns(problem, current_gpu().multiprocessors);
  const auto params = columns_params<T>(problem, plan);
  const int64_t items = plan.planes * columns_runs(problem, plan) * problem.x.out, rounds = ceil_div(items, kThreads);
  const auto threads = unsigned(round_up(ceil_div(items, rounds), kWarp));
  const int64_t bytes = plan.planes > 1 ? plan.planes * problem.y.in * problem.x.in * sizeof(T) + kColumnsEnds
                                        : columns_bytes(problem, plan.rows);
  const auto grid = unsigned(ceil_div(params.all_planes, plan.planes) * params.bands.divisor);
  fwd_columns<T, kTaps, kStep><<<grid, threads, bytes, stream>>>(params);
}

template <class T, int kTaps>
void launch(const ForwardProblem& problem, cudaStream_t stream) {
  columns_step(problem.y) == 1 ? launch<T, kTaps, 1>(problem, stream) : launch<T, kTaps, 2>(problem, stream);
}

}  // namespace

void launch_fwd_columns(const ForwardProblem& problem, cudaStream_t stream) {
  dispatch_float(Kernel::kFwdColumns, problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    switch (problem.x.taps) {
      case 2: return launch<T, 2>(problem, stream);
      case 3: return launch<T, 3>(problem, stream);
      case 4: return launch<T, 4>(problem, stream);
      case 5: return launch<T, 5>(problem, stream);
      case 6: return launch<T, 6>(problem, stream);
      case 7: return launch<T, 7>(problem, stream);
      default: fail_choice(Kernel::kFwdColumns);
    }
  });
}

}  // namespace customops::cuda::depthwise
