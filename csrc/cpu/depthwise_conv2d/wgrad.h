// The launchers of the kernels for the gradient of depthwise_conv2d's weight.
#pragma once

#include "choose.h"

namespace customops::cpu {

// `weight` is computed from the image and the output's gradient. wgrad_rows also runs wgrad_tiles.
void wgrad_rows(const Problem& problem, const Choice& choice, const Tensor& image, const Tensor& grad,
                const Tensor& weight);
void wgrad_pixels(const Problem& problem, const Choice& choice, const Tensor& image, const Tensor& grad,
                  const Tensor& weight);
void wgrad_scale(const Problem& problem, const Tensor& image, const Tensor& grad, const Tensor& weight);

}  // namespace customops::cpu
