// The launcher of the kernels for the gradient of depthwise_conv2d's weight.
#pragma once

#include "choose.h"

namespace customops::cpu {

// `weight` is computed from the image and the output's gradient. Kernels: wgrad_rows and wgrad_tiles.
void wgrad(const Problem& problem, const Choice& choice, const Tensor& image, const Tensor& grad, const Tensor& weight);

}  // namespace customops::cpu
