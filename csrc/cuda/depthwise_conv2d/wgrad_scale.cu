// depthwise_conv2d's wgrad of one tap: a channel's gradient is the sum of the gradient times the pixels that it meets.
// Threads add up products of their own, several at once, and a block its threads' sums, in a fixed order. Of contiguous
// images a team of threads takes a channel, and a thread one output at a time or, where each output meets the pixel of
// its own index, a vector; of channels_last images a thread takes a vector of channels. Bound by memory.
#include "read_pixels.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kMaxBlock = 1024, kMaxChunk = 32;  // threads; elements of a chunk of channels

// Units whose loads a thread waits for together.
template <class T, int kVector>
constexpr int kUnitsAtOnce = kVector * sizeof(T) == kAccess ? 4 : 8;

// Units are what a thread multiplies at a time: outputs, or vectors that overlap a plane of the gradient.
template <class T>
struct WgradScaleParams {
  const T *in, *grad;
  WgradResult<T> result;
  Divider<uint32_t> row, rows;  // units of a row of the gradient; rows of an image
  int channels, in_h, in_w, down_y, down_x, pad_y, pad_x;
  int log_chunk;            // of the vectors of channels that a block takes; channels_last alone
  int64_t plane, elements;  // of a plane, and of all; flat images alone
  uint32_t units, units_a_split;
};

// The output and the pixel of a unit; whether there is such a pixel.
struct ScaleUnit {
  uint32_t image;
  int out_y, out_x, y, x;
  bool inside;
};

template <class T>
__device__ ScaleUnit unit_at(const WgradScaleParams<T>& params, uint32_t number) {
  ScaleUnit unit;
  unit.image = number;
  unit.out_x = int(params.row.divmod(unit.image)), unit.out_y = int(params.rows.divmod(unit.image));
  unit.x = unit.out_x * params.down_x - params.pad_x, unit.y = unit.out_y * params.down_y - params.pad_y;
  unit.inside = unsigned(unit.x) < unsigned(params.in_w) && unsigned(unit.y) < unsigned(params.in_h);
  return unit;
}

// Zeros instead of the elements that the bits of `part` leave out.
template <class T, int kVector>
__device__ void keep_part(Access<T, kVector>& vector, uint32_t part) {
  T* const at = reinterpret_cast<T*>(&vector);
#pragma unroll
  for (int v = 0; v < kVector; ++v) at[v] = part >> v & 1 ? at[v] : T{};
}

// Adds the products of units begin, begin + step, ... read(number, pixels, grads): one access each, zeros if there are
// none; returns which of their elements count. Elements are only looked at after all loads.
template <int kVector, class T, class A, class Read>
__device__ void add_units(uint32_t begin, uint32_t end, uint32_t step, const Read& read, A (&sum)[kVector]) {
  constexpr int kAtOnce = kUnitsAtOnce<T, kVector>;
  constexpr uint32_t kAll = (1u << kVector) - 1;
#pragma unroll 1
  for (uint32_t unit = begin; unit < end; unit += kAtOnce * step) {
    Access<T, kVector> pixels[kAtOnce], grads[kAtOnce];
    uint32_t part_of[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      pixels[k] = grads[k] = Access<T, kVector>{}, part_of[k] = kAll;
      if (unit + k * step < end) part_of[k] = read(unit + k * step, pixels[k], grads[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (part_of[k] != kAll) keep_part<T, kVector>(pixels[k], part_of[k]), keep_part<T, kVector>(grads[k], part_of[k]);
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] += widen(part<T>(grads[k], v)) * widen(part<T>(pixels[k], v));
    }
  }
}

// Adds the sums of a team's threads; the first of them has the total. sums: one a warp.
template <class A>
__device__ A add_team(A sum, A* sums) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  if (blockDim.x == kWarp) return sum;
  const int warps = int(blockDim.x) / kWarp, first = int(threadIdx.y) * warps;
  if (threadIdx.x % kWarp == 0) sums[first + int(threadIdx.x) / kWarp] = sum;
  __syncthreads();
  A total = 0;
  if (threadIdx.x == 0)
    for (int w = 0; w < warps; ++w) total += sums[first + w];
  return total;
}

// A vector of the flat images; zeros behind their end.
template <class T, int kVector>
__device__ void read_flat(const T* images, int64_t first, int64_t elements, Access<T, kVector>& vector) {
  if (first + kVector <= elements) {
    vector = *reinterpret_cast<const Access<T, kVector>*>(images + first);
    return;
  }
  T* const at = reinterpret_cast<T*>(&vector);
#pragma unroll
  for (int v = 0; v < kVector; ++v)
    if (first + v < elements) at[v] = images[first + v];
}

// blockDim: threads of a team, teams; blockIdx: teams, splits of a channel's units.
template <class T, int kVector>
__global__ void __launch_bounds__(kMaxBlock) wgrad_scale_planes(const __grid_constant__ WgradScaleParams<T> params) {
  using A = acc_t<T>;
  using Pixels = Access<T, kVector>;
  __shared__ A sums[kMaxBlock / kWarp];
  const int channel = int(blockIdx.x * blockDim.y + threadIdx.y);
  const uint32_t begin = blockIdx.y * params.units_a_split, end = min(params.units, begin + params.units_a_split);
  A each[kVector] = {};
  if (params.result.partial != nullptr) start_next_kernel();
  const auto read = [&](uint32_t number, Pixels& pixels, Pixels& grads) -> uint32_t {
    if constexpr (kVector == 1) {
      const ScaleUnit unit = unit_at(params, number);
      if (!unit.inside) return 1;
      const int64_t plane = int64_t(unit.image) * params.channels + channel;
      const int out_h = int(params.rows.divisor), out_w = int(params.row.divisor);
      pixels = *reinterpret_cast<const Pixels*>(params.in + (plane * params.in_h + unit.y) * params.in_w + unit.x);
      grads = *reinterpret_cast<const Pixels*>(params.grad + (plane * out_h + unit.out_y) * out_w + unit.out_x);
      return 1;
    } else {
      uint32_t image = number;
      const uint32_t vector = params.row.divmod(image);
      const int64_t start = (int64_t(image) * params.channels + channel) * params.plane;
      const int64_t first = (start / kVector + vector) * kVector;
      const int from = int(max(start - first, int64_t(0))),
                to = int(min(start + params.plane - first, int64_t(kVector)));
      if (from >= to) return (1u << kVector) - 1;
      read_flat<T, kVector>(params.in, first, params.elements, pixels);
      read_flat<T, kVector>(params.grad, first, params.elements, grads);
      return (1u << to) - (1u << from);
    }
  };
  if (channel < params.channels) add_units<kVector, T>(begin + threadIdx.x, end, blockDim.x, read, each);
  A sum = 0;
#pragma unroll
  for (int v = 0; v < kVector; ++v) sum += each[v];
  sum = add_team(sum, sums);
  if (threadIdx.x == 0 && channel < params.channels) params.result.write(blockIdx.y, params.channels, channel, sum);
}

// blockIdx: chunks of channels, splits of the pixels. Neighbouring threads take neighbouring channels. Where each
// output meets the pixel of its own index, the images are flat, and a number of pixels may count as one with as many
// channels more (joined_pixels).
template <class T, int kVector, bool kFlat>
__global__ void __launch_bounds__(kMaxBlock) wgrad_scale_pixels(const __grid_constant__ WgradScaleParams<T> params) {
  using A = acc_t<T>;
  using Pixels = Access<T, kVector>;
  __shared__ A sums[kMaxBlock / kWarp * kMaxChunk];
  if (params.result.partial != nullptr) start_next_kernel();
  const int vectors = 1 << params.log_chunk, chunk = vectors * kVector;
  const uint32_t member = threadIdx.x >> params.log_chunk, members = blockDim.x >> params.log_chunk;
  const int first_channel = int(blockIdx.x) * chunk, lane = int(threadIdx.x & (vectors - 1)) * kVector;
  const int channel = first_channel + lane;
  const uint32_t begin = blockIdx.y * params.units_a_split, end = min(params.units, begin + params.units_a_split);
  A sum[kVector] = {};
  const auto read = [&](uint32_t number, Pixels& pixels, Pixels& grads) {
    if constexpr (kFlat) {
      const int64_t first = int64_t(number) * params.channels + channel;
      read_flat<T, kVector>(params.in, first, params.elements, pixels);
      read_flat<T, kVector>(params.grad, first, params.elements, grads);
    } else if (const ScaleUnit unit = unit_at(params, number); unit.inside) {
      const int64_t at = (int64_t(unit.image) * params.in_h + unit.y) * params.in_w + unit.x;
      pixels = *reinterpret_cast<const Pixels*>(params.in + at * params.channels + channel);
      grads = *reinterpret_cast<const Pixels*>(params.grad + int64_t(number) * params.channels + channel);
    }
    return (1u << kVector) - 1;
  };
  if (channel < params.channels) add_units<kVector, T>(begin + member, end, members, read, sum);
  // The members of a warp, and then the warps.
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    if (distance >= vectors)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] += __shfl_xor_sync(0xffffffff, sum[v], distance);
  if (int(threadIdx.x) % kWarp < vectors)
#pragma unroll
    for (int v = 0; v < kVector; ++v) sums[int(threadIdx.x) / kWarp * kMaxChunk + lane + v] = sum[v];
  __syncthreads();
  const int c = int(threadIdx.x);
  if (c >= chunk || first_channel + c >= params.channels) return;
  A total = 0;
#pragma unroll 8
  for (int w = 0; w < int(blockDim.x) / kWarp; ++w) total += sums[w * kMaxChunk + c];
  params.result.write(blockIdx.y, params.channels, first_channel + c, total);
}

// How many threads take a channel, or a chunk of them, and how many splits there are. One split, without a second
// kernel, as long as its threads have few units. Fixed numbers: results depend on shapes and addresses alone.
struct ScaleWork {
  int64_t threads, splits = 1;

  // lanes: threads for each unit; groups: channels or chunks; few: units that are not worth more threads; narrow: of
  // accesses of less than 16 bytes, whose threads need fewer registers.
  ScaleWork(int64_t least_threads, int64_t units, int64_t lanes, int64_t groups, int64_t few, bool narrow)
      : threads(least_threads) {
    constexpr int64_t kWantedThreads = 1 << 18, kFewUnits = 16, kUnits = 8;
    // More of the largest blocks than multiprocessors were slower than blocks of half as many threads, on an H200.
    const int64_t most_threads = groups > kH200.multiprocessors ? kMaxBlock / 2 : kMaxBlock;
    while (threads < most_threads && few * threads < units * lanes && 2 * threads * groups <= kWantedThreads)
      threads *= 2;
    if (units * lanes <= kFewUnits * threads) return;
    // Blocks of few threads, whose last wave takes less of the time, and as many as fill one to four waves.
    const int64_t wave = kH200.multiprocessors * (narrow ? 6 : 4);
    const int64_t most = std::min<int64_t>(units * lanes / (kUnits * kThreads), 65535);
    threads = std::min<int64_t>(threads, kThreads);
    double best = 0;
    for (int64_t waves = 1; waves <= 4; ++waves) {
      const int64_t fit = std::clamp<int64_t>(wave * waves / groups, 1, std::max<int64_t>(most, 1));
      const double full = double(fit * groups) / double(round_up(fit * groups, wave));
      if (full > best * 1.05) best = full, splits = fit;
    }
  }
};

bool is_aligned(const Problem& problem) { return std::min(problem.in_alignment, problem.out_alignment) == kAccess; }

template <class T>
WgradScaleParams<T> scale_params(const WgradProblem& problem) {
  WgradScaleParams<T> params{};
  params.in = static_cast<const T*>(problem.in);
  params.grad = static_cast<const T*>(problem.grad);
  params.row = Divider<uint32_t>(problem.x.out), params.rows = Divider<uint32_t>(problem.y.out);
  params.channels = int(problem.channels), params.in_h = int(problem.y.in), params.in_w = int(problem.x.in);
  params.down_y = int(problem.y.down), params.down_x = int(problem.x.down);
  params.pad_y = int(problem.y.pad), params.pad_x = int(problem.x.pad);
  params.units = uint32_t(problem.batch * problem.y.out * problem.x.out);
  return params;
}

// launch(splits), with the partial sums: `each` of them a split.
template <class T, class Launch>
void launch_splits(const WgradProblem& problem, WgradScaleParams<T>& params, int64_t splits, int64_t each,
                   cudaStream_t stream, const Launch& launch) {
  params.units_a_split = uint32_t(ceil_div(params.units, splits));
  splits = ceil_div(params.units, params.units_a_split);
  const WgradPartialSums<T> sums(problem, splits * each);
  params.result = sums.result();
  launch(unsigned(splits));
  sums.finish(problem, stream, true);
}

template <class T, int kVector>
void launch_planes(const WgradProblem& problem, cudaStream_t stream) {
  auto params = scale_params<T>(problem);
  if (kVector > 1) {  // a plane begins and ends within vectors
    const int64_t vectors = ceil_div(problem.x.out, int64_t(kVector)) + 1;
    params.row = Divider<uint32_t>(vectors), params.units = uint32_t(problem.batch * vectors);
    params.plane = problem.x.out, params.elements = problem.batch * problem.channels * problem.x.out;
  }
  const ScaleWork work(kWarp, params.units, 1, problem.channels, 4, kVector == 1);
  const int64_t teams = std::max<int64_t>(kThreads / work.threads, 1);
  launch_splits(problem, params, work.splits, 1, stream, [&](unsigned splits) {
    const dim3 grid(unsigned(ceil_div(problem.channels, teams)), splits);
    wgrad_scale_planes<T, kVector><<<grid, dim3(unsigned(work.threads), unsigned(teams)), 0, stream>>>(params);
  });
}

// `joined` pixels of flat images count as one; a split then writes `joined` rows of partial sums.
template <class T, int kVector, bool kFlat>
void launch_pixels(const WgradProblem& problem, int64_t joined, cudaStream_t stream) {
  constexpr int64_t kMost = 2 * kSector / int64_t(kVector * sizeof(T)), kFew = 1 << 17, kShort = 8 * 512;
  static_assert(kMost * kVector <= kMaxChunk);
  auto params = scale_params<T>(problem);
  params.elements = params.units * problem.channels, params.units = uint32_t(ceil_div(params.units, joined));
  params.channels = int(problem.channels * joined);
  const int64_t vectors = params.channels / kVector, access = kVector * sizeof(T);
  int log_chunk = 0;
  while ((1 << log_chunk) < std::min(vectors, kMost)) ++log_chunk;
  // Less of little work than whole sectors of memory, so that more blocks share it.
  while (params.units * vectors <= kFew && params.units << log_chunk > kShort && access << log_chunk > kAccess)
    --log_chunk;
  const int64_t chunks = ceil_div(vectors, int64_t(1) << log_chunk);
  const ScaleWork work(kThreads, params.units, 1 << log_chunk, chunks, kUnitsAtOnce<T, kVector>, access < kAccess);
  params.log_chunk = log_chunk;
  launch_splits(problem, params, work.splits, joined, stream, [&](unsigned splits) {
    const dim3 grid(unsigned(chunks), splits);
    wgrad_scale_pixels<T, kVector, kFlat><<<grid, unsigned(work.threads), 0, stream>>>(params);
  });
}

// How many pixels of flat images count as one, so that they are whole vectors for any number of channels. 0 where that
// is not worth a second kernel, or the images are not aligned.
int64_t joined_pixels(const Problem& problem, int vector) {
  constexpr int64_t kMuch = 1 << 22;  // elements
  const int64_t joined = vector / std::gcd<int64_t>(problem.channels, vector);
  const bool fits = is_aligned(problem) && problem.channels < kMaxIndex / vector;
  return fits && (joined == 1 || outputs(problem) >= kMuch) ? joined : 0;
}

}  // namespace

void launch_wgrad_scale(const WgradProblem& problem, cudaStream_t stream) {
  const auto one_to_one = [](const Axis& a) { return a.down == 1 && a.pad == 0 && a.in == a.out; };
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kVector = kAccess / sizeof(T);
    // Those are one row (problem.h, simplified).
    const bool flat = one_to_one(problem.y) && one_to_one(problem.x) && problem.y.out == 1;
    if (problem.channels_last) {
      if (const int64_t joined = flat ? joined_pixels(problem, kVector) : 0; joined > 0)
        return launch_pixels<T, kVector, true>(problem, joined, stream);
      if (has_channel_vectors(problem, kVector)) return launch_pixels<T, kVector, false>(problem, 1, stream);
      if constexpr (kVector > 2)
        if (has_channel_vectors(problem, 2)) return launch_pixels<T, 2, false>(problem, 1, stream);
      return launch_pixels<T, 1, false>(problem, 1, stream);
    }
    if (flat && is_aligned(problem)) return launch_planes<T, kVector>(problem, stream);
    launch_planes<T, 1>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
