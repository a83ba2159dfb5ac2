// The rules of choose.h. Sizes in them were measured on a Zen 5 and a Xeon with AVX-512.
#include "choose.h"

#include <algorithm>
#include <numeric>

#include "../../stable.h"
#include "axis.h"

namespace customops::cpu {
namespace {

constexpr const char* kKernelNames[] = {"fwd_planes", "fwd_pixels",  "fwd_rows",     "fwd_tiles",  "fwd_scale",
                                        "wgrad_rows", "wgrad_tiles", "wgrad_pixels", "wgrad_scale"};
constexpr int64_t kTinyPlane = 32;          // pixels
constexpr int64_t kMaxStacked = 64;         // images, unless all are stacked
constexpr int64_t kPixelsPerTap = 4;        // of all images, at least, for each tap of a stack
constexpr int64_t kNarrowRow = 4;           // registers
constexpr int64_t kStackedBytes = 1 << 20;  // of the rows under a window, of one register of channels
constexpr int64_t kWideWindow = 11;    // taps of a row, at least, where bfloat16 pixels that share a set are buffered
constexpr int64_t kFewestInPlace = 5;  // channels of bfloat16, of registers of 16, that are read in place at a stride
constexpr int64_t kRowsBytes = 64 << 10;    // of the rows under a window wider than 7 taps that is read in place
constexpr int64_t kShortRow = 12;           // pixels
constexpr int64_t kMergedBytes = 32 << 10;  // of a row of float32, at most
constexpr int64_t kMergedChannels = 32;     // of those that lie side by side in a buffer, about
constexpr int64_t kFewestRows = 16;
constexpr int64_t kFewestRowsHigh = 6;          // pixels of a column, at least, where rows are treated as pixels
constexpr int64_t kTallImage = 256;             // rows, and elements of a narrow row
constexpr int64_t kRowWeightBytes = 2 << 20;    // of such a row's weights, which are copied for each of its pixels
constexpr int64_t kWeightOfRow = 64 << 10;      // of these, in bytes, for each row of outputs
constexpr int64_t kWeightOfBf16Row = 22 << 10;  // the same where bfloat16 is multiplied
constexpr int64_t kFewProducts = 6;             // of a pixel, at a stride of 1
constexpr int64_t kSeveralRowsTaps = 16;        // of a window, at most
constexpr int64_t kColumnBytes = 64 << 10;      // of the rows under a column of taps that wgrad reads in place
constexpr int64_t kNearColumnBytes = 24 << 10;  // of the rows under a column of taps: they stay in the L1 cache
constexpr int64_t kFlatProducts = 48;           // pixels of a plane, at least: each plane has a part of a register
constexpr int64_t kMaxPeriod = 1024;            // elements
constexpr int64_t kFewestPeriods = 16;          // of all images
constexpr int64_t kLargePlane = 384;   // pixels, at least, of planes that are not transposed for few taps; or half
constexpr int64_t kTilePixels = 4096;  // of a tile of one channel
constexpr int64_t kFewTaps = 6;        // of such planes, with what is computed between rows
constexpr int64_t kFewTapsHigh = 11;   // the same for one column of taps: nothing is computed between rows
// Bytes of a register of an instruction set that has fewer specialised loops (kOldest).
constexpr int64_t kOldestBytes = kOldest<Capability::baseline> ? 16 : 0;

int64_t element_bytes(ScalarType dtype) { return dtype == ScalarType::Double ? 8 : dtype == ScalarType::Float ? 4 : 2; }
int64_t sum_bytes(ScalarType dtype) { return dtype == ScalarType::Double ? 8 : 4; }

int64_t register_bytes(Capability capability) {
  return capability >= Capability::avx512 ? 64 : capability == Capability::avx2 ? 32 : 16;
}

// Whether channels are so few that a register holds neighbouring pixels instead.
bool few_channels(const Problem& problem, int64_t lanes) {
  // Four pixels of 3 channels fill 3 registers of 4 lanes.
  return 2 * problem.channels <= lanes || (problem.channels_last && lanes == 4 && problem.channels == 3);
}

// Whether contiguous planes are so small that starting on each costs more than its sums. The planes of a register's
// channels are then transposed at once.
bool has_tiny_planes(const Problem& problem) {
  const int64_t pixels = std::max(problem.y.in * problem.x.in, problem.y.out * problem.x.out);
  return !problem.channels_last && problem.channels > 2 && pixels <= kTinyPlane;
}

int64_t registers_of(int64_t channels, int64_t images, int64_t lanes) { return ceil_div(channels, lanes) * images; }

// Whether each output of an axis is a multiple of the pixel at the same place.
bool is_scale(const ConvAxis& a) { return a.taps == 1 && a.stride == 1 && a.pad == 0 && a.out == a.in; }

// Whether contiguous planes are only multiplied, and so large that they are best read as flat arrays.
bool has_flat_planes(const Problem& problem, int64_t fewest_pixels) {
  const int64_t pixels = problem.y.in * problem.x.in;
  return !problem.channels_last && is_scale(problem.y) && is_scale(problem.x) && pixels >= fewest_pixels;
}

// Whether channels_last images are only multiplied, and so large that they are best read as one flat array: a copy of
// the weight for each place of a register stays in the L1 cache, and costs little.
bool has_flat_pixels(const Problem& problem, int64_t lanes) {
  const int64_t period = flat_period(problem.channels, lanes);
  return problem.channels_last && is_scale(problem.y) && is_scale(problem.x) && period <= kMaxPeriod &&
         problem.batch * problem.y.in * problem.x.in * problem.channels >= kFewestPeriods * period;
}

// How many contiguous images to take for one of more channels, so that the channels fill registers best. Each image of
// a stack has a copy of the weight, which must cost little beside the pixels.
int64_t images_to_stack(const Problem& problem, int64_t lanes) {
  if (problem.channels_last || problem.channels % lanes == 0) return 1;
  const int64_t pixels = problem.batch * std::max(problem.y.in * problem.x.in, problem.y.out * problem.x.out);
  const int64_t most = std::min(problem.batch, pixels / (kPixelsPerTap * problem.y.taps * problem.x.taps));
  const int64_t alone = registers_of(problem.channels, problem.batch, lanes);
  int64_t best = 1, least = alone;
  const auto consider = [&](int64_t images) {
    if (problem.batch % images != 0) return;
    const int64_t registers = registers_of(problem.channels * images, problem.batch / images, lanes);
    if (registers < least) best = images, least = registers;
  };
  for (int64_t images = 2; images <= std::min(most, kMaxStacked); ++images) consider(images);
  if (most > kMaxStacked) consider(problem.batch);
  return 6 * least <= 5 * alone ? best : 1;
}

// The most taps that an output sums along an axis.
int64_t taps_of(const ConvAxis& a, Direction direction) {
  const auto [first, last] = taps_met(a);
  return direction == Direction::dgrad ? ceil_div(last - first, a.stride / std::gcd(a.stride, a.dilation))
                                       : last - first;
}

// Whether fwd_planes has code for the problem.
bool has_planes_kernel(const Problem& problem) {
  const auto plain = [](const ConvAxis& a) { return a.stride == 1 && a.dilation == 1; };
  const int64_t taps = problem.x.taps;
  return !problem.channels_last && plain(problem.y) && plain(problem.x) && problem.y.taps == taps &&
         (taps == 3 || taps == 5);
}

// Whether a row fills most of the registers that it takes. Channels that are not few would fill the half of one better.
bool fills_registers(const Problem& problem, int64_t width, int64_t lanes) {
  const bool half = 2 * width <= lanes && !few_channels(problem, lanes);
  return !half && 2 * (ceil_div(width, lanes) * lanes) <= (element_bytes(problem.dtype) == 2 ? 3 : 5) * width;
}

// Whether registers of channels of several images pay, for contiguous images whose channels are few. The alternative,
// registers of neighbouring pixels, wastes lanes at the ends of rows, and gathers pixels at a stride: the more of that,
// the fewer lanes must be filled by channels.
bool stacking_pays(const Problem& problem, int64_t images, int64_t lanes) {
  const int64_t planes = problem.batch * problem.channels;
  const int64_t filled = lanes * registers_of(problem.channels * images, problem.batch / images, lanes);
  const int64_t width = std::max(problem.x.in, problem.x.out), high = std::min(problem.y.taps, problem.y.in);
  if (problem.channels_last || high * width * lanes * sum_bytes(problem.dtype) > kStackedBytes) return false;
  const bool of_16_bits = element_bytes(problem.dtype) == 2;
  if (problem.x.stride > 2) return 8 * planes >= 3 * filled;
  if (problem.x.stride == 2 && width <= (of_16_bits ? 8 : 2) * lanes) return 2 * planes >= filled;
  if (problem.x.stride == 2 || width <= kNarrowRow * lanes) return 4 * planes >= 3 * filled;
  return of_16_bits && 16 * planes >= 15 * filled;
}

// Whether wgrad on ARM takes fewer instructions with registers of neighbouring pixels, though a register may hold the
// channels too: counted in float32, whose loops load neighbours by twos (kOwnLoads).
bool pixels_pay_on_arm(const Problem& problem, int64_t lanes) {
  const int64_t width = std::max(problem.x.in, problem.x.out), stride = problem.x.stride;
  if (!CUSTOMOPS_NEON || problem.dtype != ScalarType::Float || problem.channels > lanes || problem.x.taps < 3)
    return false;
  return stride == 1 ? problem.channels_last || width > kNarrowRow * lanes
                     : stride == 2 && width > 2 * kNarrowRow * lanes;
}

// Whether contiguous planes at stride 1 have so few taps that transposing costs more than what registers of
// neighbouring pixels waste: these are not aligned, and also compute what lies between rows. Small planes do not pay
// for starting on each; 16-bit ones of several tiles, and long rows, were slower under taps side by side. Measured on
// x86.
bool has_few_taps(const Problem& problem, Direction direction) {
  const auto plain = [](const ConvAxis& a) { return a.stride == 1 && a.dilation == 1; };
  if (CUSTOMOPS_NEON || problem.channels_last || problem.dtype == ScalarType::Double || !plain(problem.y) ||
      !plain(problem.x))
    return false;
  const bool fwd = direction == Direction::fwd, float32 = problem.dtype == ScalarType::Float;
  const int64_t width = fwd ? problem.x.out : problem.x.in, pixels = width * (fwd ? problem.y.out : problem.y.in);
  const int64_t high = taps_of(problem.y, direction), wide = taps_of(problem.x, direction);
  if (2 * high > problem.y.in + problem.y.out) return false;  // mostly padding, which fwd_rows leaves out
  if (wide == 1) return high <= kFewTapsHigh && (float32 ? 2 : 1) * pixels >= kLargePlane;
  return high * wide * (width + wide - 1) <= kFewTaps * width && pixels >= kLargePlane &&
         (float32 ? width : pixels) <= kTilePixels;
}

// Whether fwd_pixels has the loops of fwd_strided_loops.h for the problem: they read few pixels at a time, so that
// these do not evict each other from the L1 cache.
bool reads_by_fours(const Problem& problem, Direction direction, const Machine& machine, bool bf16) {
  const ConvAxis& x = problem.x;
  const bool three_at_two = x.stride == 2 && x.dilation == 1 && x.taps == 3 && taps_of(x, Direction::fwd) == 3;
  const bool little_padding = x.out > 2 && x.pad <= 1 && 2 * (x.out - 1) + 2 - x.pad <= x.in;
  return direction == Direction::fwd && problem.channels_last && register_bytes(machine.capability) == 64 &&
         (bf16 || problem.dtype == ScalarType::Float) && three_at_two && little_padding &&
         problem.channels >= 4 * lanes_of(problem, machine);
}

// Whether pixels are best read in place. 16-bit numbers are widened each time, too often for high windows; the baseline
// has no code for higher or wider ones. Windows both high and wide read long rows best from a buffer, and so do high
// ones, or wide ones of bfloat16, whose pixels evict each other from the L1 cache. Wide windows pay for pixels of
// several registers, at stride 1; forward also flat ones.
bool reads_in_place(const Problem& problem, Direction direction, const Machine& machine, bool bf16) {
  const int64_t taps_high = taps_of(problem.y, direction), taps_wide = taps_of(problem.x, direction);
  const int64_t width = direction == Direction::fwd ? problem.x.in : problem.x.out;
  const bool widened = !bf16 && element_bytes(problem.dtype) == 2;
  const int64_t bytes = taps_high * width * problem.channels * element_bytes(problem.dtype);
  const bool may_be_high = !widened && register_bytes(machine.capability) > kOldestBytes &&
                           (taps_wide <= 7 || width < kShortRow || bytes <= kRowsBytes);
  const int64_t lanes = lanes_of(problem, machine);
  const bool many_channels = problem.x.stride == 1 && problem.channels > lanes;
  const bool flat = direction == Direction::fwd && taps_high <= 3 && problem.x.dilation == 1;
  // One row of pairs of taps, most of which read padding: zeros are best in a buffer.
  const bool mostly_padding = bf16 && problem.stacked == 1 && taps_high == 1 && taps_wide > std::max<int64_t>(width, 7);
  const bool may_be_wide = (many_channels || flat) && register_bytes(machine.capability) > kOldestBytes;
  const bool share_set = register_bytes(machine.capability) == 64 &&  // measured there
                         problem.channels * element_bytes(problem.dtype) % kSetPeriod == 0;
  const bool widened_share_set = problem.channels * sum_bytes(problem.dtype) % kSetPeriod == 0;
  // Columns of a stride or of a large dilation are more lines than the few sets of such pixels hold. Under three rows
  // at a stride, buffers were slower.
  const bool strided = problem.x.stride > 1 && taps_high >= 5, dilated = problem.x.dilation > 3 && taps_high >= 3;
  const bool few_sets = register_bytes(machine.capability) == 64 && direction == Direction::fwd &&
                        (strided || dilated) &&
                        problem.channels * element_bytes(problem.dtype) % (kSetPeriod / (strided ? 4 : 2)) == 0;
  const bool evicted = width >= kShortRow && !reads_by_fours(problem, direction, machine, bf16) &&
                       (few_sets || (widened_share_set && taps_high >= 5) ||
                        (share_set && (taps_high >= 3 || (bf16 && taps_wide >= kWideWindow))));
  return problem.channels_last && (taps_wide <= 7 || may_be_wide) && (taps_high <= 5 || may_be_high) && !evicted &&
         !mostly_padding;
}

// Whether forward best reads pixels of few channels in place, at a stride along rows. fwd_tiles would gather pixels by
// phase and widen them, which takes longer than to multiply registers of bfloat16 that are a third full; single rows or
// columns of taps were slower so. Registers must end within the tensor: only its last row is copied (fwd_pixels), and
// the row before it ends a row and a pixel ahead of the end.
bool reads_few_in_place(const Problem& problem, Direction direction, const Machine& machine, bool bf16) {
  const bool line = taps_of(problem.y, direction) == 1 || taps_of(problem.x, direction) == 1;
  return bf16 && direction == Direction::fwd && problem.x.stride > 1 && !line && problem.channels >= kFewestInPlace &&
         (problem.x.in + 1) * problem.channels >= lanes_of(problem, machine) &&
         reads_in_place(problem, direction, machine, true);
}

// Whether wgrad best reads the rows under a column of taps in place. They are read again for every row of outputs,
// which pays if they stay near, if a stride steps over them or if 16-bit numbers take half the room. Measured on x86.
bool multiplies_columns_in_place(const Problem& problem) {
  const int64_t rows = std::min(problem.y.taps, problem.y.in);
  const int64_t bytes = rows * problem.x.in * problem.channels * element_bytes(problem.dtype);
  return !CUSTOMOPS_NEON && problem.x.taps == 1 && problem.y.taps > 1 &&
         (bytes <= kColumnBytes || problem.y.stride > 1 || element_bytes(problem.dtype) == 2);
}

// Whether wgrad at stride 1 along rows has so few taps that each pixel is best read in place. Measured on x86.
bool has_few_products(const Problem& problem) {
  const int64_t high = problem.y.taps, wide = problem.x.taps, stride = problem.y.stride;
  return !CUSTOMOPS_NEON && high <= 2 * stride && high * wide <= kFewProducts * stride && problem.x.out >= 2 * wide;
}

// Whether wgrad adds two products of bfloat16 numbers by one instruction (wgrad_pairs_loops.h).
bool multiplies_pairs(const Problem& problem, const Machine& machine) {
  const auto has_code = [](const ConvAxis& a) { return a.taps == 3 && a.dilation == 1; };
  return problem.dtype == ScalarType::BFloat16 && machine.capability == Capability::avx512_bf16 &&
         problem.channels_last && problem.channels >= 32 && has_code(problem.y) && has_code(problem.x) &&
         problem.x.stride <= 2 && problem.y.out > 1;
}

// Whether wgrad best treats each row of channels_last images as one pixel of more channels, under a column of taps: if
// channels leave a sixth of their registers empty (a quarter, at a stride), or if the rows under a window of wider
// numbers than 16 bits would be read again from beyond the L1 cache for each row of outputs. Low images have few
// outputs for each sum, two taps few products, and rows that share a set of the L1 cache evict each other. Measured on
// x86.
bool sums_rows_as_pixels(const Problem& problem, const Machine& machine) {
  const int64_t lanes = lanes_of(problem, machine), width = problem.x.in, row = width * problem.channels;
  const int64_t bytes = element_bytes(problem.dtype), filled = lanes * registers_of(problem.channels, width, lanes);
  if (CUSTOMOPS_NEON || !problem.channels_last || !is_scale(problem.x) || width == 1 || problem.y.taps == 1 ||
      problem.y.out < kFewestRowsHigh || row < lanes || row * bytes % kSetPeriod == 0 ||
      register_bytes(machine.capability) <= kOldestBytes)
    return false;
  if (problem.y.stride == 1 ? 6 * row <= 5 * filled : 4 * row <= 3 * filled) return true;
  const bool far = std::min(problem.y.taps, problem.y.in) * row * bytes > kNearColumnBytes;
  return far && problem.y.stride == 1 && bytes > 2 && problem.y.taps > 2 &&
         problem.batch * problem.y.out >= 5 * problem.y.taps;
}

// Whether image and gradient stay in the L1 cache, for as many channels as wgrad_pixels sums at a time.
bool has_small_images(const Problem& problem) {
  const int64_t pixels = problem.y.in * problem.x.in + problem.y.out * problem.x.out;
  return pixels * std::min(problem.channels * element_bytes(problem.dtype), kSeveralRowsPixel) <= kSeveralRowsBytes;
}

// Whether wgrad_pixels sums as many rows of outputs at once as stay in the L1 cache, which may be the only one. Of many
// channels, it then sums some at a time: larger images, and more taps unless they are more than outputs, were slower
// so. Measured on x86.
bool sums_rows_at_once(const Problem& problem) {
  const int64_t high = problem.y.taps, wide = problem.x.taps;
  const bool has_code = !CUSTOMOPS_NEON && (wide == 2 || wide == 3 || wide == 5) &&
                        (problem.dtype == ScalarType::Float || problem.dtype == ScalarType::BFloat16);
  const bool many = problem.channels * element_bytes(problem.dtype) >= 2 * kSeveralRowsPixel;
  return has_code && wide >= problem.x.stride &&
         (!many || (has_small_images(problem) && (high * wide <= kSeveralRowsTaps || problem.x.out < wide)));
}

// Whether wgrad best reads pixels in place, because so few taps meet each that a buffer does not pay. Larger windows
// and rows shorter than theirs have too many sums for their pixels.
bool multiplies_in_place(const Problem& problem, const Machine& machine) {
  if (!problem.channels_last || register_bytes(machine.capability) <= kOldestBytes) return false;
  // AVX2 has 16, too few for the sums of 5x5 taps. On ARM these take fewer instructions from a buffer.
  const bool few_registers = machine.capability < Capability::avx512;
  const bool small = has_small_images(problem) && sums_rows_at_once(problem);
  const bool float32 = problem.dtype == ScalarType::Float;
  // Where a register holds more than a pixel, rows in a buffer pay less: so do they for bfloat16, not for wider
  // numbers.
  const bool narrow = problem.dtype == ScalarType::BFloat16 && problem.channels < lanes_of(problem, machine);
  const bool few =
      has_few_products(problem) || ((narrow || (small && float32)) && problem.y.taps <= 3 && problem.x.taps <= 3);
  const bool small_windows = (problem.x.stride > 1 || few) && problem.y.taps <= (few_registers ? 3 : 5) &&
                             problem.x.taps <= 5 && (small || problem.x.out >= problem.x.taps);
  return small_windows || multiplies_columns_in_place(problem);
}

// Whether each row of channels_last images is best treated as one pixel of more channels, under a column of taps:
// registers are filled, and one load of a pixel serves several taps. Low images have few outputs for each weight, tall
// and narrow ones too few channels for the threads, and what mostly meets padding is better left out by rows. Gradients
// at a stride near the number of taps, and dilated taps, which are not side by side, were slower. So were large weights
// that serve few rows of outputs: of bfloat16 images, too, weights are float32. Measured on x86.
bool treats_rows_as_pixels(const Problem& problem, Direction direction, int64_t lanes, bool bf16) {
  const ConvAxis& y = problem.y;
  const int64_t channels = problem.x.in * problem.channels;
  const bool fwd = direction == Direction::fwd;
  const bool low = std::min(y.in, y.out) < kFewestRowsHigh;
  const bool tall = y.in > kTallImage && channels < kTallImage;
  if (CUSTOMOPS_NEON || !problem.channels_last || !is_scale(problem.x) || y.taps == 1 || low || tall ||
      y.taps > 2 * y.in || channels < lanes)
    return false;
  if (y.dilation > 1 && (bf16 || y.stride > 1 || !(fwd || few_channels(problem, lanes)))) return false;
  const int64_t weight_bytes = channels * y.taps * sum_bytes(problem.dtype);
  const bool for_few = weight_bytes > (bf16 ? kWeightOfBf16Row : kWeightOfRow) * (fwd ? y.out : y.in);
  return weight_bytes <= kRowWeightBytes && !for_few && (fwd || y.stride == 1 || 2 * y.stride <= y.taps);
}

Choice choose_fwd_or_dgrad(const Problem& problem, Direction direction, const Machine& machine) {
  const int64_t lanes = lanes_of(problem, machine), width = direction == Direction::fwd ? problem.x.out : problem.x.in;
  const int64_t images = images_to_stack(problem, lanes);
  const bool has_bf16 = problem.dtype == ScalarType::BFloat16 && machine.capability == Capability::avx512_bf16;
  const bool few = few_channels(problem, lanes) && !has_tiny_planes(problem) &&
                   !reads_few_in_place(problem, direction, machine, has_bf16);
  // Sums must not depend on how many images there are: fwd_tiles has no code for bfloat16, and does not split dilated
  // rows, as fwd_rows does.
  const bool split = direction == Direction::fwd && problem.x.dilation > 1 && problem.x.taps > 2;
  const bool bf16 = has_bf16 && !few;
  if (has_flat_planes(problem, 2 * lanes))
    return {Kernel::fwd_scale, false, "contiguous, one tap: planes are flat arrays"};
  if (has_flat_pixels(problem, lanes))
    return {Kernel::fwd_scale, false, "channels_last, one tap: images are one flat array"};
  if (has_planes_kernel(problem) && fills_registers(problem, width, lanes))
    return {Kernel::fwd_planes, false, "contiguous, 3x3 or 5x5 at stride 1, rows fill registers"};
  if (problem.x.in > 1 && treats_rows_as_pixels(problem, direction, lanes, bf16) &&
      reads_in_place(stacked(problem, problem.x.in), direction, machine, bf16))
    return {Kernel::fwd_pixels, bf16,
            "channels_last, a column of taps: rows are read in place, as pixels of more channels", problem.x.in};
  if (few && (split || !stacking_pays(problem, images, lanes)))
    return {Kernel::fwd_tiles, false, "few channels: a register holds neighbouring pixels"};
  if (!few && !bf16 && has_few_taps(problem, direction))
    return {Kernel::fwd_tiles, false, "contiguous, few taps: a register holds neighbouring pixels"};
  if (reads_by_fours(problem, direction, machine, bf16) && reads_in_place(problem, direction, machine, bf16))
    return {Kernel::fwd_pixels, bf16, "channels_last, three taps at a stride of 2: pixels are read in place"};
  if (reads_in_place(problem, direction, machine, bf16))
    return {Kernel::fwd_pixels, bf16, "channels_last and a small window: pixels are read in place"};
  if (problem.channels_last) return {Kernel::fwd_rows, bf16, "channels_last and a large window: rows are buffered"};
  const std::string which = images > 1 ? " of " + std::to_string(images) + " images" : "";
  return {Kernel::fwd_rows, bf16, "contiguous: rows are transposed, so that a register holds channels" + which, images};
}

// The largest divisor of n up to `most`, which is 1 or more.
int64_t largest_divisor(int64_t n, int64_t most) {
  if (n <= most) return n;
  int64_t largest = 1;
  for (int64_t d = 1; d <= most && d * d <= n; ++d)
    if (n % d == 0) largest = std::max(n / d <= most ? n / d : d, largest);
  return largest;
}

// Rows of an image that is only multiplied lie side by side as one longer row, because each row costs a start. How many
// depends on the size alone: the order of wgrad's sums follows from it. Enough rows are left for the threads.
void merge_rows(Problem& problem) {
  const int64_t images = problem.batch * (problem.channels_last ? 1 : problem.channels);
  const int64_t longest = kMergedBytes / 4 / std::min(problem.channels, kMergedChannels);
  const int64_t most = std::min(longest / problem.x.in, images * problem.y.in / kFewestRows);
  const int64_t merged = largest_divisor(problem.y.in, std::max<int64_t>(most, 1));
  problem.y.in = problem.y.out /= merged;
  problem.x.in = problem.x.out *= merged;
}

}  // namespace

int64_t rows_at_once(const Problem& problem, bool by_pairs) {
  if (!by_pairs && !sums_rows_at_once(problem)) return 1;
  const int64_t pixel = problem.channels * element_bytes(problem.dtype);
  const int64_t row = problem.y.stride * problem.x.in + problem.x.out;
  const int64_t bytes = row * (pixel < 2 * kSeveralRowsPixel ? pixel : kSeveralRowsPixel);
  const int64_t rows = std::clamp<int64_t>(kSeveralRowsBytes / bytes, by_pairs ? 2 : 1, problem.y.out);
  return by_pairs && rows < problem.y.out ? rows / 2 * 2 : rows;
}

Problem stacked(const Problem& problem, int64_t count) {
  Problem fewer = problem;
  if (!problem.channels_last) {
    fewer.batch /= count;
  } else if (count > 1) {
    std::swap(fewer.y, fewer.x);
    fewer.y.in = fewer.y.out = 1;
  }
  fewer.channels *= count;
  fewer.stacked *= count;
  return fewer;
}

Machine this_machine() { return {capability(), torch::stable::get_num_threads()}; }

int64_t flat_period(int64_t channels, int64_t lanes) { return std::lcm(channels, lanes); }

int64_t lanes_of(const Problem& problem, const Machine& machine) {
  return register_bytes(machine.capability) / sum_bytes(problem.dtype);
}

Problem simplified(const Problem& problem) {
  Problem simple = problem;
  if (is_scale(problem.y) && is_scale(problem.x)) merge_rows(simple);
  if (simple.x.in == 1 && simple.x.out == 1 && simple.x.taps == 1) std::swap(simple.y, simple.x);
  return simple;
}

Choice choose_fwd(const Problem& problem, const Machine& machine) {
  return choose_fwd_or_dgrad(problem, Direction::fwd, machine);
}

Choice choose_dgrad(const Problem& problem, const Machine& machine) {
  return choose_fwd_or_dgrad(problem, Direction::dgrad, machine);
}

Choice choose_wgrad(const Problem& problem, const Machine& machine) {
  const int64_t lanes = lanes_of(problem, machine), images = images_to_stack(problem, lanes);
  if (has_flat_planes(problem, kFlatProducts))
    return {Kernel::wgrad_scale, false, "contiguous, one tap: planes are flat arrays"};
  if (pixels_pay_on_arm(problem, lanes) || (few_channels(problem, lanes) && !stacking_pays(problem, images, lanes)))
    return {Kernel::wgrad_tiles, false, "few channels: a register holds neighbouring pixels"};
  if (sums_rows_as_pixels(problem, machine))
    return {Kernel::wgrad_pixels, false,
            "channels_last, a column of taps: rows are read in place, as pixels of more channels", problem.x.in};
  if (multiplies_pairs(problem, machine))
    return {Kernel::wgrad_pixels, true, "channels_last, 3x3 taps: pixels are read in place, two rows at a time"};
  if (multiplies_in_place(problem, machine))
    return {Kernel::wgrad_pixels, false, "channels_last, few taps meet a pixel: pixels are read in place"};
  const std::string which = images > 1 ? " of " + std::to_string(images) + " images" : "";
  return {Kernel::wgrad_rows, false, "a register holds channels" + which, images};
}

Choice choose(Direction direction, const Problem& problem, const Machine& machine) {
  switch (direction) {
    case Direction::fwd: return choose_fwd(problem, machine);
    case Direction::dgrad: return choose_dgrad(problem, machine);
    default: return choose_wgrad(problem, machine);
  }
}

std::string explain_depthwise_conv2d_cpu(const std::string& direction, const Problem& problem, const Machine& machine) {
  const bool fwd = direction == "fwd", dgrad = direction == "dgrad";
  if (!fwd && !dgrad && direction != "wgrad")
    fail("depthwise_conv2d: direction must be fwd, dgrad or wgrad, got ", direction);
  const Direction number = fwd ? Direction::fwd : dgrad ? Direction::dgrad : Direction::wgrad;
  const Choice choice = choose(number, simplified(problem), machine);
  return std::string(kKernelNames[int(choice.kernel)]) + ": " + choice.reason;
}

}  // namespace customops::cpu
