#pragma once
#include <ATen/core/Tensor.h>

// y[i][j] = factors[i] * x[i][j]; x and factors are contiguous.
void rowscale_cpu(const at::Tensor& x, const at::Tensor& factors, at::Tensor& y);
void rowscale_cuda(const at::Tensor& x, const at::Tensor& factors, at::Tensor& y);
