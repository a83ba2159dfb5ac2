#pragma once
#include <ATen/ATen.h>

// limit * tanh(x / limit), elementwise.
at::Tensor softclip_forward(const at::Tensor& x, double limit);

// grad * (1 - (y / limit)^2), with y the result of the forward pass.
at::Tensor softclip_backward(const at::Tensor& grad, const at::Tensor& y, double limit);
