// Which kernel computes a problem on the CPU. Every rule of that is in choose.cpp; launchers do as they are told.
#pragma once

#include <string>

#include "../../depthwise_conv2d.h"
#include "../simd.h"

namespace customops::cpu {

// What wgrad_pixels reads of image and gradient while it sums several rows of outputs, at most: it stays in the L1
// cache.
constexpr int64_t kSeveralRowsBytes = 25 << 10;
constexpr int64_t kSeveralRowsPixel = 128;  // bytes of a pixel's channels that it sums at a time, at least
constexpr int64_t kSetPeriod = 4 << 10;     // bytes: pixels at multiples of it share a set of the L1 cache

// Shapes, format and dtype of the images: no tensors.
struct Problem {
  int64_t batch, channels;
  ConvAxis y, x;
  bool channels_last;
  ScalarType dtype;
  int64_t stacked = 1;  // images or pixels that are channels of one, see stacked()
};

struct Machine {
  Capability capability;
  int64_t threads;
};

enum class Direction { fwd, dgrad, wgrad };

// In the order of kKernelNames in choose.cpp: the names of the files.
enum class Kernel {
  fwd_planes,
  fwd_pixels,
  fwd_rows,
  fwd_tiles,
  fwd_scale,
  wgrad_rows,
  wgrad_tiles,
  wgrad_pixels,
  wgrad_scale
};

struct Choice {
  Kernel kernel;
  bool bf16;            // whether instructions that add two products multiply bfloat16, in place or in buffers
  std::string reason;   // of one line, for people
  int64_t stacked = 1;  // images or pixels to take for channels of one, which share a weight
};

Machine this_machine();

// The same problem, of which so many contiguous images are one of more channels. Or, of channels_last images under a
// column of taps, each row is one pixel of more channels; `count` is its width. Both lie so in memory.
Problem stacked(const Problem& problem, int64_t count);

// The same problem with fewer cases: images one pixel wide become one pixel high, and images that are only multiplied
// (1x1 taps) get longer rows.
Problem simplified(const Problem& problem);

// Pure functions of a simplified problem and of the machine. Dgrad has the kernels of the forward pass.
Choice choose_fwd(const Problem& problem, const Machine& machine);
Choice choose_dgrad(const Problem& problem, const Machine& machine);
Choice choose_wgrad(const Problem& problem, const Machine& machine);
Choice choose(Direction direction, const Problem& problem, const Machine& machine);

// "<kernel>: <reason>". direction: fwd, dgrad or wgrad.
std::string explain_depthwise_conv2d_cpu(const std::string& direction, const Problem& problem, const Machine& machine);

// How many rows of outputs wgrad_pixels sums in registers before the next channels, in tiles that are high enough.
// by_pairs: by wgrad_pairs_loops.h; then an even number, unless it is all of them.
int64_t rows_at_once(const Problem& problem, bool by_pairs);

// After how many elements of channels_last images, in whole registers, the channels are the same.
int64_t flat_period(int64_t channels, int64_t lanes);

// Lanes of a register of the arithmetic's type.
int64_t lanes_of(const Problem& problem, const Machine& machine);

}  // namespace customops::cpu
