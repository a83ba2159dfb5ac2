// What the kernels of wgrad share: the work is cut into parts by its size alone, and the parts are added in order, so
// that the result does not depend on the number of threads.
#pragma once

#include <cmath>

#include "plan.h"

namespace customops::cpu {

constexpr int64_t kParts = 64;           // tasks, about
constexpr int64_t kTilesPerPart = 64;    // at most: a part is summed in float32, parts are added in float64
constexpr int64_t kChannelsAtOnce = 64;  // whose parts are added
constexpr int64_t kPartOutputs = 256;    // of a channel, at least, if enough tasks are left: each part costs sums

struct WgradWork {
  int64_t tiles;               // of the rows of all images
  int64_t channel_tiles;       // of the channels of each
  int64_t channels;            // of the sums: those of the weight, or several times as many
  int64_t tile_outputs;        // of a channel, about
  int64_t tile_multiply_adds;  // about
  int64_t sets = 1;            // of sums that a part has: one, or one for each tile of channels
};

// From the image and channel of a tile to those of the tile that the same thread takes next.
struct TileStep {
  int64_t images = 0, channels = 0;

  // In elements, for images of so many.
  int64_t of(int64_t image) const { return images * image + channels; }
};

// From image n and channel `first` of a tile, in a part with images [begin, end). If the thread has no next tile, to
// what may lie outside of the tensor: this is for prefetches.
inline TileStep next_tile(int64_t n, int64_t begin, int64_t end, int64_t first, int64_t tile_channels,
                          int64_t channels) {
  if (n + 1 < end) return {1, 0};
  return first + tile_channels < channels ? TileStep{begin - n, tile_channels} : TileStep{1, -first};
}

// One tap without the padding: zeros times infinity would be NaN.
template <class T>
double one_tap(const Problem& problem, const T* image, const T* grad, int64_t c, int64_t tap) {
  const int64_t ky = tap / problem.x.taps, kx = tap % problem.x.taps,
                step = problem.channels_last ? problem.channels : 1;
  const auto row = [&](int64_t n, int64_t y, int64_t height, int64_t width) {
    return problem.channels_last ? (n * height + y) * width * problem.channels + c
                                 : ((n * problem.channels + c) * height + y) * width;
  };
  double sum = 0;
  for (int64_t n = 0; n < problem.batch; ++n)
    for (int64_t oy = 0; oy < problem.y.out; ++oy) {
      const int64_t iy = oy * problem.y.stride - problem.y.pad + ky * problem.y.dilation;
      if (iy < 0 || iy >= problem.y.in) continue;
      const T *const from = image + row(n, iy, problem.y.in, problem.x.in), *const g = grad + row(n, oy, problem.y.out,
                                                                                                  problem.x.out);
      for (int64_t ox = 0; ox < problem.x.out; ++ox) {
        const int64_t ix = ox * problem.x.stride - problem.x.pad + kx * problem.x.dilation;
        if (ix >= 0 && ix < problem.x.in) sum += double(g[ox * step]) * double(from[ix * step]);
      }
    }
  return sum;
}

// How many tiles a part has.
inline int64_t tiles_of_part(const WgradWork& work) {
  const int64_t items = work.tiles * work.channel_tiles;
  const int64_t wanted = std::min(ceil_div(kPartOutputs, work.tile_outputs), items / kFewestTiles);
  return std::clamp<int64_t>(std::max(items / kParts, wanted), 1, std::min(work.tiles, kTilesPerPart));
}

// weight = the sums of kernels that make(tiles, sums) returns, one a thread. A kernel's run(isa, item) takes the next
// `tiles` tiles of one tile of channels, and writes sums[item / channel_tiles][tap][channel], or
// sums[item][tap][channel] if a part has several sets. kBf16: by instructions for bfloat16.
template <class T, bool kBf16 = false, class MakeKernel>
void sum_parts(const Problem& problem, const WgradWork& work, const MakeKernel& make, const T* image, const T* grad,
               const Tensor& weight) {
  const int64_t part_tiles = tiles_of_part(work);
  const int64_t parts = ceil_div(work.tiles, part_tiles), kernel_taps = problem.y.taps * problem.x.taps;
  std::vector<double> sums(parts * work.sets * kernel_taps * work.channels);
  parallel(parts * work.channel_tiles, kGrain * 4 / (work.tile_multiply_adds * part_tiles),
           [&](int64_t begin, int64_t end) {
             auto kernel = make(part_tiles, sums.data());
             const auto run = [&](auto isa) {
               for (int64_t item = begin; item < end; ++item) kernel.run(isa, item);
             };
             if constexpr (kBf16)
               run_simd_bf16(run);
             else
               run_simd(run);
           });
  void* const out = weight.mutable_data_ptr();
  const bool float32 = weight.scalar_type() == ScalarType::Float;
  const auto write = [&](int64_t channel, int64_t tap, double sum) {
    if (!std::isfinite(sum)) sum = one_tap(problem, image, grad, channel, tap);
    const int64_t i = channel * kernel_taps + tap;
    if (float32)
      static_cast<float*>(out)[i] = float(sum);
    else
      static_cast<T*>(out)[i] = T(acc_t<T>(sum));
  };
  const int64_t terms = int64_t(sums.size()) / kernel_taps / problem.channels;
  parallel(problem.channels, kGrain / (terms * kernel_taps), [&](int64_t begin, int64_t end) {
    double sum[kChannelsAtOnce];
    for (int64_t c = begin; c < end; c += kChannelsAtOnce)
      for (int64_t tap = 0, count = std::min(kChannelsAtOnce, end - c); tap < kernel_taps; ++tap) {
        std::fill_n(sum, count, 0);
        for (const double* set = sums.data(); set != sums.data() + sums.size(); set += kernel_taps * work.channels)
          for (int64_t image = 0; image < work.channels; image += problem.channels) {  // of a stack
            const double* const from = set + tap * work.channels + image + c;
            for (int64_t i = 0; i < count; ++i) sum[i] += from[i];
          }
        for (int64_t i = 0; i < count; ++i) write(c + i, tap, sum[i]);
      }
  });
}

}  // namespace customops::cpu
