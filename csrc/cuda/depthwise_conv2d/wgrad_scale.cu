// depthwise_conv2d's wgrad of one tap: a channel's gradient is the sum of the gradient times the pixels that it meets.
// Threads add up products of their own, several at once, and a block its threads' sums, in a fixed order. Of contiguous
// images a team of threads takes a channel, and a thread one output at a time or, where each output meets the pixel of
// its own index, a vector; of channels_last images a thread takes a vector of channels. Bound by memory.
#include "read_pixels.cuh"
#include "split_batch.cuh"

namespace customops::cuda::depthwise {
namespace {

constexpr int kMaxBlock = 1024;

// Units are what a thread multiplies at a time: outputs, or vectors that overlap a plane of the gradient.
template <class T>
struct WgradScaleParams {
  const T *in, *grad;
  WgradResult<T> result;
  Divider<uint32_t> row, rows;  // units of a row of the gradient; rows of an image
  Divider<uint32_t> chunk;      // vectors of channels that a block takes; channels_last alone
  int channels, in_h, in_w, down_y, down_x, pad_y, pad_x, members;
  int64_t plane, elements;  // of a plane, and of all; vectors of planes alone
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

// Adds the products of units begin, begin + step, ... read(number, pixels, grads): one access each, zeros if there are
// none.
template <int kVector, class T, class A, class Read>
__device__ void add_units(uint32_t begin, uint32_t end, uint32_t step, const Read& read, A (&sum)[kVector]) {
  constexpr int kAtOnce = kVector * sizeof(T) == kAccess ? 4 : 8;
#pragma unroll 1
  for (uint32_t unit = begin; unit < end; unit += kAtOnce * step) {
    Access<T, kVector> pixels[kAtOnce], grads[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      pixels[k] = grads[k] = Access<T, kVector>{};
      if (unit + k * step < end) read(unit + k * step, pixels[k], grads[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] += widen(part<T>(grads[k], v)) * widen(part<T>(pixels[k], v));
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

// Elements [begin, end) of a vector of the flat images; the last one may be cut by their end. Zeros elsewhere.
template <int kVector, class T>
__device__ Access<T, kVector> read_part(const T* images, int64_t first, int begin, int end, int64_t elements) {
  Access<T, kVector> whole{};
  T* const at = reinterpret_cast<T*>(&whole);
  const bool cut = first + kVector > elements;
  if (!cut) whole = *reinterpret_cast<const Access<T, kVector>*>(images + first);
  if (cut || begin > 0 || end < kVector)
#pragma unroll
    for (int v = 0; v < kVector; ++v) at[v] = v < begin || v >= end ? T{} : (cut ? images[first + v] : at[v]);
  return whole;
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
  const auto read = [&](uint32_t number, Pixels& pixels, Pixels& grads) {
    if constexpr (kVector == 1) {
      const ScaleUnit unit = unit_at(params, number);
      if (!unit.inside) return;
      const int64_t plane = int64_t(unit.image) * params.channels + channel;
      const int out_h = int(params.rows.divisor), out_w = int(params.row.divisor);
      pixels = *reinterpret_cast<const Pixels*>(params.in + (plane * params.in_h + unit.y) * params.in_w + unit.x);
      grads = *reinterpret_cast<const Pixels*>(params.grad + (plane * out_h + unit.out_y) * out_w + unit.out_x);
    } else {
      uint32_t image = number;
      const uint32_t vector = params.row.divmod(image);
      const int64_t start = (int64_t(image) * params.channels + channel) * params.plane;
      const int64_t first = (start / kVector + vector) * kVector;
      const int from = int(max(start - first, int64_t(0))),
                to = int(min(start + params.plane - first, int64_t(kVector)));
      if (from >= to) return;
      pixels = read_part<kVector>(params.in, first, from, to, params.elements);
      grads = read_part<kVector>(params.grad, first, from, to, params.elements);
    }
  };
  if (channel < params.channels) add_units<kVector, T>(begin + threadIdx.x, end, blockDim.x, read, each);
  A sum = 0;
#pragma unroll
  for (int v = 0; v < kVector; ++v) sum += each[v];
  sum = add_team(sum, sums);
  if (threadIdx.x == 0 && channel < params.channels) params.result.write(blockIdx.y, params.channels, channel, sum);
}

// blockIdx: chunks of channels, splits of the pixels. Neighbouring threads take neighbouring channels.
template <class T, int kVector>
__global__ void __launch_bounds__(kMaxBlock) wgrad_scale_pixels(const __grid_constant__ WgradScaleParams<T> params) {
  using A = acc_t<T>;
  using Pixels = Access<T, kVector>;
  __shared__ A sums[kMaxBlock * kVector];
  uint32_t member = threadIdx.x;
  const int chunk = int(params.chunk.divisor) * kVector, lane = int(params.chunk.divmod(member)) * kVector;
  const int first_channel = int(blockIdx.x) * chunk, channel = first_channel + lane;
  const uint32_t begin = blockIdx.y * params.units_a_split, end = min(params.units, begin + params.units_a_split);
  A sum[kVector] = {};
  const auto read = [&](uint32_t number, Pixels& pixels, Pixels& grads) {
    const ScaleUnit unit = unit_at(params, number);
    if (!unit.inside) return;
    const int64_t at = (int64_t(unit.image) * params.in_h + unit.y) * params.in_w + unit.x;
    pixels = *reinterpret_cast<const Pixels*>(params.in + at * params.channels + channel);
    grads = *reinterpret_cast<const Pixels*>(params.grad + int64_t(number) * params.channels + channel);
  };
  const bool busy = channel < params.channels && int(member) < params.members;
  if (busy) add_units<kVector, T>(begin + member, end, params.members, read, sum);
#pragma unroll
  for (int v = 0; v < kVector; ++v)
    if (int(member) < params.members) sums[int(member) * chunk + lane + v] = sum[v];
  __syncthreads();
  // As many threads as have a channel each add up some of the members, and the first of them what those have found.
  const int parts = int(blockDim.x) / chunk, c = int(threadIdx.x) % chunk, own = int(threadIdx.x) / chunk;
  A total = 0;
  if (own < parts)
    for (int m = own; m < params.members; m += parts) total += sums[m * chunk + c];
  __syncthreads();
  if (own < parts) sums[own * chunk + c] = total;
  __syncthreads();
  if (own > 0 || first_channel + c >= params.channels) return;
  for (int p = 1; p < min(parts, params.members); ++p) total += sums[p * chunk + c];
  params.result.write(blockIdx.y, params.channels, first_channel + c, total);
}

// How many threads take a channel, or a chunk of them, and how many splits there are. One split, without a second
// kernel, as long as its threads have few units. Fixed numbers, so that results depend on shapes alone.
struct ScaleWork {
  int64_t threads, splits;

  // lanes: threads for each unit; groups: channels or chunks.
  ScaleWork(int64_t least_threads, int64_t units, int64_t lanes, int64_t groups) : threads(least_threads), splits(1) {
    constexpr int64_t kWantedThreads = 1 << 18, kFewUnits = 16, kUnits = 8;
    while (threads < kMaxBlock && 4 * threads < units * lanes && threads * groups < kWantedThreads) threads *= 2;
    if (units * lanes > kFewUnits * threads)
      splits = std::clamp<int64_t>(std::min(units * lanes / (kUnits * threads), kWantedThreads / (threads * groups)), 1,
                                   65535);
  }
};

template <class T>
WgradScaleParams<T> scale_params(const WgradProblem& problem) {
  WgradScaleParams<T> params{};
  params.in = static_cast<const T*>(problem.in.data_ptr());
  params.grad = static_cast<const T*>(problem.grad.data_ptr());
  params.row = Divider<uint32_t>(problem.x.out), params.rows = Divider<uint32_t>(problem.y.out);
  params.channels = int(problem.channels), params.in_h = int(problem.y.in), params.in_w = int(problem.x.in);
  params.down_y = int(problem.y.down), params.down_x = int(problem.x.down);
  params.pad_y = int(problem.y.pad), params.pad_x = int(problem.x.pad);
  params.units = uint32_t(problem.batch * problem.y.out * problem.x.out);
  return params;
}

// launch(splits), with the partial sums.
template <class T, class Launch>
void launch_splits(const WgradProblem& problem, WgradScaleParams<T>& params, int64_t splits, cudaStream_t stream,
                   const Launch& launch) {
  params.units_a_split = uint32_t(ceil_div(params.units, splits));
  splits = ceil_div(params.units, params.units_a_split);
  const WgradPartialSums<T> sums(problem, splits);
  params.result = sums.result();
  launch(unsigned(splits));
  sums.finish(problem, stream);
}

template <class T, int kVector>
void launch_planes(const WgradProblem& problem, cudaStream_t stream) {
  auto params = scale_params<T>(problem);
  if (kVector > 1) {  // a plane begins and ends within vectors
    const int64_t vectors = ceil_div(problem.x.out, int64_t(kVector)) + 1;
    params.row = Divider<uint32_t>(vectors), params.units = uint32_t(problem.batch * vectors);
    params.plane = problem.x.out, params.elements = problem.batch * problem.channels * problem.x.out;
  }
  const ScaleWork work(kWarp, params.units, 1, problem.channels);
  const int64_t teams = std::max<int64_t>(kThreads / work.threads, 1);
  launch_splits(problem, params, work.splits, stream, [&](unsigned splits) {
    const dim3 grid(unsigned(ceil_div(problem.channels, teams)), splits);
    wgrad_scale_planes<T, kVector><<<grid, dim3(unsigned(work.threads), unsigned(teams)), 0, stream>>>(params);
  });
}

template <class T, int kVector>
void launch_pixels(const WgradProblem& problem, cudaStream_t stream) {
  constexpr int64_t kMostVectors = 2 * kSector / int64_t(kVector * sizeof(T));
  auto params = scale_params<T>(problem);
  const int64_t vectors = problem.channels / kVector, chunks = ceil_div(vectors, kMostVectors),
                chunk = ceil_div(vectors, chunks);
  const ScaleWork work(kThreads, params.units, chunk, chunks);
  params.chunk = Divider<uint32_t>(chunk), params.members = int(work.threads / chunk);
  launch_splits(problem, params, work.splits, stream, [&](unsigned splits) {
    const dim3 grid(unsigned(ceil_div(vectors, chunk)), splits);
    wgrad_scale_pixels<T, kVector><<<grid, unsigned(work.threads), 0, stream>>>(params);
  });
}

}  // namespace

void launch_wgrad_scale(const WgradProblem& problem, cudaStream_t stream) {
  const auto one_to_one = [](const Axis& a) { return a.down == 1 && a.pad == 0 && a.in == a.out; };
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kVector = kAccess / sizeof(T);
    if (problem.channels_last) {
      if (has_channel_vectors(problem, kVector)) return launch_pixels<T, kVector>(problem, stream);
      if constexpr (kVector > 2)
        if (has_channel_vectors(problem, 2)) return launch_pixels<T, 2>(problem, stream);
      return launch_pixels<T, 1>(problem, stream);
    }
    // Those are one row (problem.h, simplified).
    const bool flat = one_to_one(problem.y) && one_to_one(problem.x) && problem.y.out == 1 &&
                      std::min(problem.in_alignment, problem.out_alignment) == kAccess;
    flat ? launch_planes<T, kVector>(problem, stream) : launch_planes<T, 1>(problem, stream);
  });
}

}  // namespace customops::cuda::depthwise
