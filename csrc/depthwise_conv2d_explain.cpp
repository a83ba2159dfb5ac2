// Says which kernel depthwise_conv2d would choose, and why, on a CPU or on any GPU: python -m customops explain.
// The choices are pure functions of sizes and of the machine, so that no GPU is needed.

#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "cpu/depthwise_conv2d/choose.h"
#include "cuda/depthwise_conv2d/choose.h"
#include "depthwise_conv2d.h"

namespace customops {
namespace {

// As in the schema: N, C, H, W, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right,
// dilation_h, dilation_w, channels_last.
using Numbers = std::vector<int64_t>;

ScalarType dtype_named(const std::string& name) {
  for (const ScalarType dtype : {ScalarType::Float, ScalarType::Double, ScalarType::Half, ScalarType::BFloat16})
    if (to_string(dtype) == "torch." + name) return dtype;
  fail("explain: dtype must be float32, float64, float16 or bfloat16, got ", name);
}

// "cuda" is an H200; "cuda:90,132,233472,232448" names the capability, the multiprocessors, and the bytes of shared
// memory of a multiprocessor and of a block.
cuda::depthwise::Gpu gpu_of(const std::string& device) {
  if (device == "cuda") return cuda::depthwise::kH200;
  const std::string prefix = "cuda:";
  std::array<int32_t, 4> values{};
  const char *at = device.data() + prefix.size(), *const end = device.data() + device.size();
  bool good = device.compare(0, prefix.size(), prefix) == 0;
  for (size_t i = 0; good && i < values.size(); ++i) {
    if (i > 0) good = at != end && *at++ == ',';
    const auto [rest, error] = std::from_chars(at, end, values[i]);
    good = good && error == std::errc() && values[i] > 0;
    at = rest;
  }
  if (!good || at != end) fail("explain: device must be cpu, cuda or cuda: and four positive numbers, got ", device);
  return {values[0], values[1], values[2], values[3]};
}

// No memory holds more, and sums and products of sizes fit into 64 bits.
void check_elements(const char* name, std::initializer_list<int64_t> sizes) {
  double elements = 1;
  for (const int64_t size : sizes) elements *= double(size);
  if (elements > double(int64_t(1) << 56)) fail("explain: the ", name, " must have at most 2^56 elements");
}

void check_sizes(const Numbers& n) {
  constexpr const char* kNames[] = {"N", "C", "H", "W", "kernel_h", "kernel_w"};
  if (n.size() != 15) fail("explain: problem must have 15 numbers, got ", n.size());
  for (const int i : {0, 1, 2, 3, 4, 5})
    if (n[i] < 1) fail("explain: ", kNames[i], " must be at least 1, got ", n[i]);
  for (const int i : {4, 5})
    if (n[i] > int64_t(1) << 31) fail("explain: ", kNames[i], " must be at most 2^31, got ", n[i]);
  if (n[14] != 0 && n[14] != 1) fail("explain: channels_last must be 0 or 1, got ", n[14]);
  check_elements("image", {n[0], n[1], n[2], n[3]});
  check_elements("kernel", {n[1], n[4], n[5]});
}

std::string explain_cuda(const std::string& direction, const std::string& device, const Numbers& n,
                         const ConvAxis& all_y, const ConvAxis& all_x, ScalarType dtype) {
  using namespace cuda::depthwise;
  const bool dgrad = direction == "dgrad", wgrad = direction == "wgrad", channels_last = n[14] != 0 && n[1] > 1;
  const auto [y, x, first_y, first_x] =
      wgrad ? MetWindow{all_y, all_x, 0, 0} : met_window(n[0], n[1], all_y, all_x, channels_last, dgrad);
  const Gpu gpu = gpu_of(device);
  const Problem problem =
      simplified({n[0], n[1], dgrad ? dgrad_axis(y) : forward_axis(y), dgrad ? dgrad_axis(x) : forward_axis(x),
                  channels_last, dgrad, dtype_of(dtype), false, 16, 16});
  const Choice choice = wgrad ? choose_wgrad(problem, gpu) : choose_forward(problem, gpu);
  std::string text = name_of(choice.kernel);
  if (choice.copies_to_planes) text += " after a copy into contiguous images";
  text += std::string(": ") + choice.reason;
  if (y.taps < all_y.taps || x.taps < all_x.taps)
    text += "; only " + std::to_string(y.taps) + "x" + std::to_string(x.taps) + " of the taps meet a pixel";
  return text;
}

std::string explain(std::string direction, std::string device, Numbers n, std::string dtype_name) {
  const bool wgrad = direction == "wgrad";
  if (!wgrad && direction != "fwd" && direction != "dgrad")
    fail("explain: direction must be fwd, dgrad or wgrad, got ", direction);
  check_sizes(n);
  const ScalarType dtype = dtype_named(dtype_name);
  const ConvAxis y = make_conv_axis("y", n[2], n[4], n[6], n[8], n[9], n[12]);
  const ConvAxis x = make_conv_axis("x", n[3], n[5], n[7], n[10], n[11], n[13]);
  check_elements("output", {n[0], n[1], y.out, x.out});
  if (device == "cpu")
    return cpu::explain_depthwise_conv2d_cpu(direction, {n[0], n[1], y, x, n[14] != 0 && n[1] > 1, dtype},
                                             cpu::this_machine());
  return explain_cuda(direction, device, n, y, x, dtype);
}

}  // namespace
}  // namespace customops

STABLE_TORCH_LIBRARY_IMPL(customops, CompositeExplicitAutograd, m) {
  m.impl("_depthwise_conv2d_explain", CUSTOMOPS_BOX("depthwise_conv2d_explain", &customops::explain));
}
