// The rules of choose.h. Sizes in them were measured on a Zen 5 and a Xeon with AVX-512.
#include "choose.h"

#include <algorithm>
#include <numeric>

#include "../../stable.h"
#include "axis.h"

namespace customops::cpu {
namespace {

constexpr const char* kKernelNames[] = {"fwd_planes", "fwd_pixels", "fwd_rows",
                                        "fwd_tiles",  "wgrad_rows", "wgrad_tiles"};
constexpr int64_t kTinyPlane = 32;          // pixels
constexpr int64_t kRowsBytes = 64 << 10;    // of the rows under a window, of images that are read in place
constexpr int64_t kMergedBytes = 32 << 10;  // of a row of float32, at most
constexpr int64_t kMergedChannels = 32;     // of those that lie side by side in a buffer, about
constexpr int64_t kFewestRows = 16;
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

// Whether a row fills most of the registers that it takes.
bool fills_registers(int64_t width, int64_t lanes, int64_t element) {
  return 2 * (ceil_div(width, lanes) * lanes) <= (element == 2 ? 3 : 5) * width;
}

// Whether pixels are best read in place. Higher windows read a row too often: its pixels evict each other from the L1
// cache, and 16-bit numbers are widened each time. The baseline has no code for higher or wider windows. Wide windows
// pay for pixels of several registers, at stride 1.
bool reads_in_place(const Problem& problem, Direction direction, const Machine& machine, bool bf16) {
  const int64_t taps_high = taps_of(problem.y, direction), taps_wide = taps_of(problem.x, direction);
  const int64_t width = direction == Direction::fwd ? problem.x.in : problem.x.out;
  const bool widened = !bf16 && element_bytes(problem.dtype) == 2;
  const int64_t bytes = taps_high * width * problem.channels * element_bytes(problem.dtype);
  const bool rows_fit_cache = !widened && register_bytes(machine.capability) > kOldestBytes && bytes <= kRowsBytes;
  const bool many_channels = problem.x.stride == 1 && problem.channels > lanes_of(problem, machine) &&
                             register_bytes(machine.capability) > kOldestBytes;
  return problem.channels_last && (taps_wide <= 7 || many_channels) && (taps_high <= 5 || rows_fit_cache);
}

Choice choose_fwd_or_dgrad(const Problem& problem, Direction direction, const Machine& machine) {
  const int64_t lanes = lanes_of(problem, machine), width = direction == Direction::fwd ? problem.x.out : problem.x.in;
  if (has_planes_kernel(problem) && fills_registers(width, lanes, element_bytes(problem.dtype)))
    return {Kernel::fwd_planes, false, "contiguous, 3x3 or 5x5 at stride 1, rows fill registers"};
  if (few_channels(problem, lanes) && !has_tiny_planes(problem))
    return {Kernel::fwd_tiles, false, "few channels: a register holds neighbouring pixels"};
  const bool bf16 = problem.dtype == ScalarType::BFloat16 && machine.capability == Capability::avx512_bf16;
  if (reads_in_place(problem, direction, machine, bf16))
    return {Kernel::fwd_pixels, bf16, "channels_last and a small window: pixels are read in place"};
  if (problem.channels_last) return {Kernel::fwd_rows, bf16, "channels_last and a large window: rows are buffered"};
  return {Kernel::fwd_rows, bf16, "contiguous: rows are transposed, so that a register holds channels"};
}

// Whether each output of an axis is a multiple of the pixel at the same place.
bool is_scale(const ConvAxis& a) { return a.taps == 1 && a.stride == 1 && a.pad == 0 && a.out == a.in; }

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

Machine this_machine() { return {capability(), torch::stable::get_num_threads()}; }

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
  if (few_channels(problem, lanes_of(problem, machine)))
    return {Kernel::wgrad_tiles, false, "few channels: a register holds neighbouring pixels"};
  return {Kernel::wgrad_rows, false, "a register holds channels"};
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
