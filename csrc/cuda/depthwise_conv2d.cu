// depthwise_conv2d: each channel of an image convolved with taps of its own; forward, dgrad and wgrad. Reads image or
// gradient once, but for the edges of tiles, and writes the result once. Bound by memory up to 5x5 taps, by
// multiply-adds beyond.
//
// depthwise_conv2d/choose.h has the rules by which a kernel is chosen; each kernel is in a file of its name there.
#include <cstdlib>
#include <optional>
#include <string>

#include "../depthwise_conv2d.h"
#include "depthwise_conv2d/benchmark.cuh"
#include "depthwise_conv2d/known_choices.cuh"
#include "depthwise_conv2d/problem.cuh"
#include "depthwise_conv2d/torch_conv.h"
#include "device.h"
#include "launch.h"

namespace customops::cuda {

// In flatten_copy.cu: fills `out` from an input of its shape and of any strides.
void copy_strided(const char* op, const Tensor& from, Tensor& out);

namespace depthwise {
namespace {

__global__ void probe() {}

void launch_forward(Kernel kernel, const ForwardProblem& problem, cudaStream_t stream) {
  switch (kernel) {
    case Kernel::kFwdSmall: return launch_fwd_small(problem, stream);
    case Kernel::kFwdMma: return launch_fwd_mma(problem, stream);
    case Kernel::kFwdPlanes: return launch_fwd_planes(problem, stream);
    case Kernel::kFwdLarge: return launch_fwd_large(problem, stream);
    case Kernel::kFwdPixels: return launch_fwd_pixels(problem, stream);
    case Kernel::kFwdDirect: return launch_fwd_direct(problem, stream);
    case Kernel::kFwdChannels: return launch_fwd_channels(problem, stream);
    case Kernel::kFwdColumns: return launch_fwd_columns(problem, stream);
    case Kernel::kFwdMmaLines: return launch_fwd_mma_lines(problem, stream);
    case Kernel::kFwdMmaPixels: return launch_fwd_mma_pixels(problem, stream);
    case Kernel::kFwdDenseRows: return launch_fwd_dense_rows(problem, stream);
    case Kernel::kFwdRows: return launch_fwd_rows(problem, stream);
    case Kernel::kFwdRuns: return launch_fwd_runs(problem, stream);
    case Kernel::kFwdWholePlanes: return launch_fwd_whole_planes(problem, stream);
    case Kernel::kFwdScale: return launch_fwd_scale(problem, stream);
    case Kernel::kFwdSimple: return launch_fwd_simple(problem, stream);
    case Kernel::kFwdSliding: return launch_fwd_sliding(problem, stream);
    default: fail_choice(kernel);
  }
}

void launch_wgrad(Kernel kernel, const WgradProblem& problem, cudaStream_t stream) {
  switch (kernel) {
    case Kernel::kWgradSmall: return launch_wgrad_small(problem, stream);
    case Kernel::kWgradMmaPlanes: return launch_wgrad_mma_planes(problem, stream);
    case Kernel::kWgradMmaPixels: return launch_wgrad_mma_pixels(problem, stream);
    case Kernel::kWgradMmaWindows: return launch_wgrad_mma_windows(problem, stream);
    case Kernel::kWgradMmaLines: return launch_wgrad_mma_lines(problem, stream);
    case Kernel::kWgradPlanes: return launch_wgrad_planes(problem, stream);
    case Kernel::kWgradWholePlanes: return launch_wgrad_whole_planes(problem, stream);
    case Kernel::kWgradPixels: return launch_wgrad_pixels(problem, stream);
    case Kernel::kWgradDirect: return launch_wgrad_direct(problem, stream);
    case Kernel::kWgradLarge: return launch_wgrad_large(problem, stream);
    case Kernel::kWgradRows: return launch_wgrad_rows(problem, stream);
    case Kernel::kWgradCorrelation: return launch_wgrad_correlation(problem, stream);
    case Kernel::kWgradPoints: return launch_wgrad_points(problem, stream);
    case Kernel::kWgradScale: return launch_wgrad_scale(problem, stream);
    case Kernel::kWgradSliding: return launch_wgrad_sliding(problem, stream);
    default: fail_choice(kernel);
  }
}

#ifdef CUSTOMOPS_FORCE_KERNEL  // for benchmarks/candidates.py alone
void force(Choice& choice, const Problem& problem) {
  const char* wanted = std::getenv("CUSTOMOPS_FORCE_KERNEL");
  if (!wanted || !*wanted) return;
  std::string name = wanted;
  const bool planes = name.rfind("planes:", 0) == 0;
  if (planes) name = name.substr(7);
  if (planes && !problem.channels_last) fail("forced: not channels_last");
  for (int i = 0; i < kKernels; ++i)
    if (name == name_of(Kernel(i))) {
      if (!takes(Kernel(i), planes ? as_planes(problem) : problem, current_gpu())) fail("forced: does not take it");
      choice = {Kernel(i), planes, "forced"};
      return;
    }
  fail("forced: no such kernel ", name);
}
#else
void force(Choice&, const Problem&) {}
#endif

Tensor copy_to_planes(const char* op, const Tensor& image) {
  Tensor planes = empty_image(image, image.size(0), image.size(1), image.size(2), image.size(3), false);
  copy_strided(op, image, planes);
  return planes;
}

void drop_unmet_taps(DepthwiseConv2d& conv, bool dgrad) {
  const MetWindow met = met_window(conv.batch, conv.channels, conv.y, conv.x, conv.channels_last, dgrad);
  if (met.y.taps == conv.y.taps && met.x.taps == conv.x.taps) return;
  Tensor rows = torch::stable::narrow(conv.weight, 2, met.first_y, met.y.taps);
  conv.weight = dense(torch::stable::narrow(rows, 3, met.first_x, met.x.taps));
  conv.y = met.y, conv.x = met.x;
}

// By `kernel` into `out`, or by one of torch's into a tensor that it makes.
Tensor run_kernel(const char* op, Kernel kernel, const DepthwiseConv2d& conv, const ForwardProblem& problem,
                  const Tensor& out) {
  if (kernel == Kernel::kFwdTorch)
    return problem.flipped ? torch_gradient(conv, Gradient::kOfImage) : torch_forward(conv);
  if (kernel == Kernel::kFwdCudnn) return problem.flipped ? cudnn_dgrad(conv) : cudnn_forward(conv);
  launch(op, out, [&](cudaStream_t stream) { launch_forward(kernel, problem, stream); });
  return out;
}

// The same for channels_last images by a kernel that takes contiguous ones.
void run_on_planes(const char* op, Kernel kernel, DepthwiseConv2d conv, ForwardProblem problem, Tensor& out) {
  conv.channels_last = false;
  Tensor &planes_in = problem.flipped ? conv.out : conv.in, &planes_out = problem.flipped ? conv.in : conv.out;
  planes_in = copy_to_planes(op, planes_in);
  planes_out = empty_image(out, conv.batch, conv.channels, out.size(2), out.size(3), false);
  problem = {as_planes(problem),   problem.weight,       problem.bias,
             problem.float32_bias, planes_in.data_ptr(), planes_out.data_ptr()};
  copy_strided(op, run_kernel(op, kernel, conv, problem, planes_out), out);
}

bool is_float32(const Tensor& t) { return t.scalar_type() == ScalarType::Float; }

void run_forward(const char* op, DepthwiseConv2d conv, bool flipped, const Tensor& in, Tensor& result) {
  Tensor out = result;
  if (out.numel() == 0) return;
  const torch::stable::accelerator::DeviceGuard guard(out.get_device_index());
  drop_unmet_taps(conv, flipped);
  const ForwardProblem problem{
      simplified({conv.batch, conv.channels, flipped ? dgrad_axis(conv.y) : forward_axis(conv.y),
                  flipped ? dgrad_axis(conv.x) : forward_axis(conv.x), conv.channels_last, flipped,
                  dtype_of(in.scalar_type()), is_float32(conv.weight), alignment_of(in.data_ptr()),
                  alignment_of(out.data_ptr()), conv.bias.has_value()}),
      conv.weight.data_ptr(),
      conv.bias ? conv.bias->data_ptr() : nullptr,
      conv.bias && is_float32(*conv.bias),
      in.data_ptr(),
      out.data_ptr()};
  const auto run = [&](const Choice& choice) {
    if (choice.copies_to_planes) return run_on_planes(op, choice.kernel, conv, problem, result = out);
    result = run_kernel(op, choice.kernel, conv, problem, out);
  };
  Choice choice = known_choice(problem, false);
  force(choice, problem);
  if (benchmark_enabled())
    choice = fastest(problem, false, choice, current_gpu(), current_stream(out.get_device_index()), run);
  run(choice);
}

void run_wgrad(const char* op, DepthwiseConv2d& conv) {
  const torch::stable::accelerator::DeviceGuard guard(conv.in.get_device_index());
  const WgradProblem problem{
      simplified({conv.batch, conv.channels, forward_axis(conv.y), forward_axis(conv.x), conv.channels_last, false,
                  dtype_of(conv.in.scalar_type()), is_float32(conv.weight), alignment_of(conv.in.data_ptr()),
                  alignment_of(conv.out.data_ptr())}),
      conv.in.data_ptr(), conv.out.data_ptr(), conv.weight.data_ptr()};
  const Tensor out = conv.weight;
  const auto run = [&](const Choice& choice) {
    if (choice.kernel == Kernel::kWgradTorch) {
      conv.weight = torch_gradient(conv, Gradient::kOfWeight);
      return;
    }
    conv.weight = out;
    Tensor in = conv.in, grad = conv.out;
    WgradProblem taken = problem;
    if (choice.copies_to_planes) {
      in = copy_to_planes(op, in), grad = copy_to_planes(op, grad);
      taken = {as_planes(problem), in.data_ptr(), grad.data_ptr(), problem.out};
    }
    launch(op, conv.in, [&](cudaStream_t stream) { launch_wgrad(choice.kernel, taken, stream); });
  };
  Choice choice = known_choice(problem, true);
  force(choice, problem);
  if (benchmark_enabled())
    choice = fastest(problem, true, choice, current_gpu(), current_stream(conv.in.get_device_index()), run);
  run(choice);
}

}  // namespace

Memory::Memory(int64_t bytes) {
  int device = 0;
  cudaGetDevice(&device);
  const int64_t step = 1;
  AtenTensorHandle tensor;
  try {
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, &bytes, &step, aoti_torch_dtype_uint8(),
                                                           aoti_torch_device_type_cuda(), device, &tensor));
  } catch (const TorchError& error) {
    throw no_memory(std::to_string(bytes) + " bytes to work in", "cuda:" + std::to_string(device), error);
  }
  tensor_ = tensor;
}

Memory::~Memory() {
  if (tensor_ != nullptr) aoti_torch_delete_tensor_object(static_cast<AtenTensorHandle>(tensor_));
}

void* Memory::data() const {
  void* data;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(static_cast<AtenTensorHandle>(tensor_), &data));
  return data;
}

void fail_choice(Kernel kernel) {
  fail("depthwise_conv2d: internal error: ", name_of(kernel), " was chosen and cannot run; please report it");
}

void fail_size(const WgradProblem& problem) {
  fail("_depthwise_conv2d_grad_weight: ", problem.channels, " channels of ", problem.taps(),
       " taps are too many for CUDA");
}

Gpu current_gpu() {
  const int capability = once_a_device([](int) {
    cudaFuncAttributes of{};
    return cudaFuncGetAttributes(&of, probe) == cudaSuccess ? of.ptxVersion : 1;
  });
  return {capability, device_attribute<cudaDevAttrMultiProcessorCount>(),
          device_attribute<cudaDevAttrMaxSharedMemoryPerMultiprocessor>(),
          device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>(), torch_kernels_enabled()};
}

}  // namespace depthwise

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t stride_h,
                        int64_t stride_w, int64_t pad_top, int64_t pad_bottom, int64_t pad_left, int64_t pad_right,
                        int64_t dilation_h, int64_t dilation_w) {
  DepthwiseConv2d conv = prepare_depthwise_conv2d(x, weight, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left,
                                                  pad_right, dilation_h, dilation_w);
  depthwise::run_forward("depthwise_conv2d", conv, false, conv.in, conv.out);
  return conv.out;
}

Tensor depthwise_conv2d_grad_input(const Tensor& grad, const Tensor& weight, int64_t height, int64_t width,
                                   int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                   int64_t dilation_h, int64_t dilation_w, bool channels_last) {
  DepthwiseConv2d conv = prepare_depthwise_conv2d_grad_input(grad, weight, height, width, stride_h, stride_w, pad_top,
                                                             pad_left, dilation_h, dilation_w, channels_last);
  depthwise::run_forward("_depthwise_conv2d_grad_input", conv, true, conv.out, conv.in);
  return conv.in;
}

Tensor depthwise_conv2d_grad_weight(const Tensor& grad, const Tensor& x, int64_t kernel_h, int64_t kernel_w,
                                    int64_t stride_h, int64_t stride_w, int64_t pad_top, int64_t pad_left,
                                    int64_t dilation_h, int64_t dilation_w, bool float32) {
  DepthwiseConv2d conv = prepare_depthwise_conv2d_grad_weight(grad, x, kernel_h, kernel_w, stride_h, stride_w, pad_top,
                                                              pad_left, dilation_h, dilation_w, float32);
  if (conv.weight.numel() == 0) return conv.weight;
  if (conv.in.numel() == 0) return torch::stable::zero_(conv.weight);
  depthwise::run_wgrad("_depthwise_conv2d_grad_weight", conv);
  return conv.weight;
}

constexpr auto& depthwise_conv2d_gradients = gradients<depthwise_conv2d_grad_input, depthwise_conv2d_grad_weight>;

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("depthwise_conv2d", CUSTOMOPS_BOX("depthwise_conv2d", &customops::cuda::depthwise_conv2d));
  m.impl("_depthwise_conv2d", CUSTOMOPS_BOX("depthwise_conv2d", &customops::cuda::depthwise_conv2d));
  m.impl("_depthwise_conv2d_grad_input",
         CUSTOMOPS_BOX("_depthwise_conv2d_grad_input", &customops::cuda::depthwise_conv2d_grad_input));
  m.impl("_depthwise_conv2d_grad_weight",
         CUSTOMOPS_BOX("_depthwise_conv2d_grad_weight", &customops::cuda::depthwise_conv2d_grad_weight));
  m.impl("_depthwise_conv2d_gradients",
         CUSTOMOPS_BOX("_depthwise_conv2d_gradients", &customops::cuda::depthwise_conv2d_gradients));
}

STABLE_TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  if (customops::hook_enabled())
    m.impl("_mps_convolution",
           CUSTOMOPS_BOX("depthwise_conv2d", &customops::hooked<customops::cuda::depthwise_conv2d>));
}
