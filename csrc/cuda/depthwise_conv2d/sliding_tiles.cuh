// fwd_sliding for runs of taps over channels_last images, where neither stride nor dilation spread the windows:
// reading pixel by pixel straight from memory (sliding.cuh) would take more time there than the products. A block
// copies the pixels under a tile of outputs into shared memory at once, zeros around the image included. A thread
// computes kTileOutputs outputs of kVector channels. The pixels under them slide through a ring of registers, so that
// each pixel and each tap that it reads from shared memory counts for all its outputs.
#pragma once

#include "copy_images.cuh"
#include "sliding.cuh"

namespace customops::cuda::depthwise {

constexpr int kTileOutputs = 8;

// A block takes `chunk` vectors of channels, and `loops` tiles of `groups` groups of outputs by `lines` lines of them.
struct TilesPlan {
  int vector;  // channels; 0: this is not for the problem
  bool along_x;
  int chunk, groups, lines, loops, threads;
};

// Where the pixels and taps of a tile lie in shared memory. A pixel has room for a warp of vectors, so that offsets
// within a group are constants.
struct TileLayout {
  int64_t tap_bytes, group_pitch, line_pitch;  // pitches in vectors
  int64_t lines, pixels;                       // of a tile with what its windows need around it
  int64_t bytes;

  TileLayout(const Axis& slide, const Axis& cross, const TilesPlan& plan, int64_t element_bytes)
      : tap_bytes(round_up(slide.taps * cross.taps * (kWarp + 1) * plan.vector * 4, kAccess)),
        // Threads of neighbouring groups then use neighbouring banks.
        group_pitch(kTileOutputs * kWarp + plan.chunk % kWarp),
        lines(plan.lines + cross.taps - 1),
        pixels(plan.groups * kTileOutputs + slide.taps - 1) {
    line_pitch = ceil_div(pixels, kTileOutputs) * group_pitch;
    bytes = tap_bytes + lines * line_pitch * plan.vector * element_bytes;
  }
};

// The largest tile of so many channels a thread for which there is room; none: vector is 0.
inline TilesPlan plan_tiles_of(const Problem& problem, int vector, int64_t multiprocessors) {
  constexpr int64_t kRoom = 48 << 10, kMostLoops = 8;
  const bool along_x = problem.x.taps > 1;
  const Axis &slide = along_x ? problem.x : problem.y, &cross = along_x ? problem.y : problem.x;
  const int64_t element_bytes = problem.element_bytes(), vectors = problem.channels / vector;
  // Whole accesses of 16 bytes.
  const int64_t even = round_up(ceil_div(vectors, ceil_div(vectors, kWarp)), 16 / (vector * element_bytes));
  const int64_t chunk = std::min<int64_t>(even, kWarp), chunks = ceil_div(vectors, chunk);
  const int64_t all_groups = ceil_div(slide.out, kTileOutputs);
  for (int64_t members = kThreads / chunk; members > 0; members = members * 3 / 4) {
    const int64_t groups = ceil_div(all_groups, ceil_div(all_groups, members));
    const int64_t most_lines = std::min(std::max<int64_t>(members / groups, 1), cross.out);
    const int64_t lines = ceil_div(cross.out, ceil_div(cross.out, most_lines));
    const int64_t tiles = problem.batch * ceil_div(all_groups, groups) * ceil_div(cross.out, lines);
    const int64_t loops = std::clamp<int64_t>(tiles * chunks / (multiprocessors * 16), 1, kMostLoops);
    const int64_t threads = round_up(groups * lines * chunk, kWarp);
    const TilesPlan plan{vector, along_x, int(chunk), int(groups), int(lines), int(loops), int(threads)};
    if (TileLayout(slide, cross, plan, element_bytes).bytes <= kRoom && tiles < kMaxIndex / chunks) return plan;
  }
  return {};
}

// Two channels a thread, which share what it reads, where outputs are many; one where they are few, because the time is
// a thread's latency then. What is many, and from how many threads a block pays beside launch_vectors (shared memory
// has no room for wide windows of many channels), was measured on an H200; so was that few channels of many outputs are
// slower.
inline TilesPlan plan_tiles(const Problem& problem, int64_t multiprocessors) {
  const bool along_x = problem.x.taps > 1, both = along_x && problem.y.taps > 1;
  const Axis& slide = along_x ? problem.x : problem.y;
  if (!problem.channels_last || problem.dtype == Dtype::kFloat64 || !is_dense(problem.y) || !is_dense(problem.x) ||
      !slides_in_int32(problem) || slide.taps < (both ? 6 : 3))
    return {};
  const bool halves = is_16_bit(problem.dtype);
  const double waves = double(outputs(problem)) / double(multiprocessors * kThreads * 2 * kTileOutputs);
  if (problem.channels < 10 && waves > 1.25) return {};
  if (has_channel_vectors(problem, 2) && waves > (halves ? 1.25 : 6)) {
    const TilesPlan plan = plan_tiles_of(problem, 2, multiprocessors);
    if (plan.threads >= (halves && !both ? 3 * kThreads / 8 : 7 * kThreads / 8)) return plan;
  }
  const TilesPlan plan = plan_tiles_of(problem, 1, multiprocessors);
  return plan.threads >= kThreads / 2 ? plan : TilesPlan{};
}

struct TileItems {
  Divider<uint32_t> chunk, chunks, groups, slide_tiles, cross_tiles, taps, copies, pixels;
  uint32_t tiles, tiles_a_block;
  int members, lines, all_pixels;
  int tap_bytes, group_pitch, line_pitch, copy_bytes;
  int channels;
};

// Starts the copies of a tile's pixels, some bytes a time, from `first_slide` and `first_cross` on, maybe outside.
template <int bytes, class Pixel, class T>
__device__ void copy_tile(const SlidingParams<T, int>& params, const TileItems& items, const T* image, int channels,
                          int first_slide, int first_cross, Pixel* to) {
  uint32_t member = threadIdx.x;
  const int element = int(items.copies.divmod(member)) * (bytes / int(sizeof(T)));
  const int step = int(blockDim.x / items.copies.divisor);
  if (element >= channels || int(member) >= step) return;
#pragma unroll 2
  for (int i = int(member); i < items.all_pixels; i += step) {
    uint32_t line = i;
    const int pixel = int(items.pixels.divmod(line)), slide = first_slide + pixel, cross = first_cross + int(line);
    Pixel* const vectors =
        to + int(line) * items.line_pitch + pixel / kTileOutputs * items.group_pitch + pixel % kTileOutputs * kWarp;
    T* const target = reinterpret_cast<T*>(vectors) + element;
    if (unsigned(slide) < unsigned(params.slide.in) && unsigned(cross) < unsigned(params.cross.in))
      copy_async<bytes>(shared_address(target), image + slide * params.in_slide + cross * params.in_cross + element);
    else
      *reinterpret_cast<Bits<bytes>*>(target) = Bits<bytes>{};
  }
}

// Up to kTileOutputs taps. ring[i]: pixel i of the window; each tap adds the next one in the place of the oldest.
template <bool whole, int kVector, class T, class Pixel, class A>
__device__ void add_run_of_taps(const Pixel* window, int group_pitch, const A* taps, int count,
                                A (&ring)[kTileOutputs][kVector], A (&sum)[kTileOutputs][kVector]) {
  constexpr int kTapPitch = (kWarp + 1) * kVector;
#pragma unroll
  for (int k = 0; k < kTileOutputs; ++k) {
    if (!whole && k >= count) return;  // or infinities would meet taps that are not there
    const Pixel next = k == 0 ? window[(kTileOutputs - 1) * kWarp] : window[group_pitch + (k - 1) * kWarp];
    const auto tap = *reinterpret_cast<const Vector<A, kVector>*>(taps + k * kTapPitch);
#pragma unroll
    for (int v = 0; v < kVector; ++v) ring[(k + kTileOutputs - 1) % kTileOutputs][v] = widen(part<T>(next, v));
#pragma unroll
    for (int o = 0; o < kTileOutputs; ++o)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[o][v] += tap.at[v] * ring[(o + k) % kTileOutputs][v];
  }
}

// Adds all taps to the outputs from `output` on of line `cross`. pixels: those under them in shared memory.
template <int kVector, class T, class Pixel, class A>
__device__ void sum_tile(const SlidingParams<T, int>& params, const TileItems& items, const Pixel* pixels,
                         const A* taps, int output, int cross, A (&sum)[kTileOutputs][kVector]) {
  constexpr int kTapPitch = (kWarp + 1) * kVector;
  // Runs of taps that meet an input for one of the outputs.
  const int first = output - params.slide.pad, end = min(params.slide.taps, params.slide.in - first);
  const int skipped = max(0, 1 - first - kTileOutputs) / kTileOutputs, begin = skipped * kTileOutputs;
  if (begin >= end) return;
#pragma unroll 1
  for (int j = 0; j < params.cross.taps; ++j) {
    if (unsigned(cross - params.cross.pad + j) >= unsigned(params.cross.in)) continue;
    const Pixel* window = pixels + j * items.line_pitch + skipped * items.group_pitch;
    const A* tap = taps + (j * params.slide.taps + begin) * kTapPitch;
    A ring[kTileOutputs][kVector];
#pragma unroll
    for (int i = 0; i < kTileOutputs - 1; ++i)
#pragma unroll
      for (int v = 0; v < kVector; ++v) ring[i][v] = widen(part<T>(window[i * kWarp], v));
    int left = end - begin;
#pragma unroll 1
    for (; left >= kTileOutputs; left -= kTileOutputs) {
      add_run_of_taps<true, kVector, T>(window, items.group_pitch, tap, left, ring, sum);
      window += items.group_pitch, tap += kTileOutputs * kTapPitch;
    }
    if (left > 0) add_run_of_taps<false, kVector, T>(window, items.group_pitch, tap, left, ring, sum);
  }
}

template <class T, int kVector>
__global__ void __launch_bounds__(kThreads)
    sliding_tiles(const __grid_constant__ SlidingParams<T, int> params, const __grid_constant__ TileItems items) {
  using A = acc_t<T>;
  using Pixel = Access<T, kVector>;
  extern __shared__ __align__(kAccess) char shared[];
  A* const taps = reinterpret_cast<A*>(shared);
  Pixel* const pixels = reinterpret_cast<Pixel*>(shared + items.tap_bytes);
  uint32_t rest = blockIdx.x, member = threadIdx.x;
  const int chunk = int(items.chunk.divisor) * kVector, first_channel = int(items.chunks.divmod(rest)) * chunk;
  const int channels = min(chunk, items.channels - first_channel);
  const int vector = int(items.chunk.divmod(member)), channel = vector * kVector;
  const bool idle = channel >= channels || int(member) >= items.members;
  uint32_t line = member;
  const int group = int(items.groups.divmod(line));
  A bias[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) bias[v] = params.bias && !idle ? params.bias[first_channel + channel + v] : A(0);
  const uint32_t begin = rest * items.tiles_a_block, end = min(items.tiles, begin + items.tiles_a_block);
#pragma unroll 1
  for (uint32_t tile = begin; tile < end; ++tile) {
    uint32_t image = tile;
    const int tile_output = int(items.slide_tiles.divmod(image) * items.groups.divisor) * kTileOutputs;
    const int tile_line = int(items.cross_tiles.divmod(image)) * items.lines;
    const T* const in = params.in + int64_t(image) * params.in_image + first_channel;
    if (tile != begin) __syncthreads();
    const auto copy = [&](auto bytes) {
      copy_tile<decltype(bytes)::value>(params, items, in, channels, tile_output - params.slide.pad,
                                        tile_line - params.cross.pad, pixels);
    };
    if (items.copy_bytes == 16)
      copy(std::integral_constant<int, 16>());
    else if (items.copy_bytes == 8)
      copy(std::integral_constant<int, 8>());
    else if (kVector * sizeof(T) > 2 || items.copy_bytes == 4)
      copy(std::integral_constant<int, 4>());
    else if constexpr (kVector * sizeof(T) == 2)
      copy(std::integral_constant<int, 2>());
    commit_copies();
    if (tile == begin)
      params.weight.visit([&](const auto& element) {
#pragma unroll 4
        for (int i = threadIdx.x; i < channels * params.taps; i += blockDim.x) {
          uint32_t c = i;
          const int k = int(items.taps.divmod(c));
          taps[(params.flipped ? params.taps - 1 - k : k) * (kWarp + 1) * kVector + int(c)] =
              widen(T(element(int64_t(first_channel) * params.taps + i)));
        }
      });
    wait_copies(0);
    __syncthreads();
    const int cross = tile_line + int(line), output = tile_output + group * kTileOutputs;
    if (idle || cross >= params.cross.out || output >= params.slide.out) continue;
    A sum[kTileOutputs][kVector];
#pragma unroll
    for (int o = 0; o < kTileOutputs; ++o)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[o][v] = bias[v];
    sum_tile<kVector>(params, items, pixels + int(line) * items.line_pitch + group * items.group_pitch + vector,
                      taps + channel, output, cross, sum);
    T* const to = params.out + int64_t(image) * params.out_image + first_channel + channel + cross * params.out_cross;
#pragma unroll
    for (int o = 0; o < kTileOutputs; ++o) {
      if (output + o >= params.slide.out) break;
      Vector<T, kVector> value;
#pragma unroll
      for (int v = 0; v < kVector; ++v) value.at[v] = narrow<T>(sum[o][v]);
      *reinterpret_cast<Vector<T, kVector>*>(to + (output + o) * params.out_slide) = value;
    }
  }
}

template <class T, int kVector>
void launch_tiles(const ForwardProblem& problem, const TilesPlan& plan, const SlidingParams<T, int>& params,
                  cudaStream_t stream) {
  const Axis &slide = plan.along_x ? problem.x : problem.y, &cross = plan.along_x ? problem.y : problem.x;
  const TileLayout layout(slide, cross, plan, sizeof(T));
  const int64_t chunks = ceil_div(problem.channels / kVector, plan.chunk);
  const int64_t slide_tiles = ceil_div(ceil_div(slide.out, kTileOutputs), plan.groups),
                cross_tiles = ceil_div(cross.out, plan.lines);
  TileItems items{};
  items.chunk = Divider<uint32_t>(plan.chunk), items.chunks = Divider<uint32_t>(chunks);
  items.groups = Divider<uint32_t>(plan.groups), items.taps = Divider<uint32_t>(params.taps);
  items.slide_tiles = Divider<uint32_t>(slide_tiles), items.cross_tiles = Divider<uint32_t>(cross_tiles);
  items.pixels = Divider<uint32_t>(layout.pixels), items.all_pixels = int(layout.lines * layout.pixels);
  items.tiles = uint32_t(problem.batch * slide_tiles * cross_tiles), items.tiles_a_block = uint32_t(plan.loops);
  items.members = plan.groups * plan.lines, items.lines = plan.lines, items.channels = int(problem.channels);
  items.tap_bytes = int(layout.tap_bytes);
  items.group_pitch = int(layout.group_pitch), items.line_pitch = int(layout.line_pitch);
  items.copy_bytes = run_bytes<T>(problem.in, problem.channels, plan.chunk * kVector);
  items.copies = Divider<uint32_t>(ceil_div(plan.chunk * kVector * int64_t(sizeof(T)), items.copy_bytes));
  const int64_t grid = ceil_div(items.tiles, plan.loops) * chunks;
  sliding_tiles<T, kVector><<<unsigned(grid), unsigned(plan.threads), layout.bytes, stream>>>(params, items);
}

}  // namespace customops::cuda::depthwise
