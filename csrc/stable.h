// LibTorch's stable interface, which other files include from here: the functions in its headers have to check torch's
// error codes with the macro below, so it stands between the header that defines torch's own and those that use it.
#pragma once

#include <torch/csrc/stable/macros.h>
#include <torch/headeronly/util/shim_utils.h>

#include "errors.h"

// Torch's own gives no text in a library for torch 2.10. Both names quote `call` as it is written.
#define CUSTOMOPS_CHECK(call, text)   \
  if ((call) != TORCH_SUCCESS) {      \
    ::customops::fail_in_torch(text); \
  }
#undef TORCH_ERROR_CODE_CHECK
#define TORCH_ERROR_CODE_CHECK(call) CUSTOMOPS_CHECK(call, #call)
#undef STABLE_TORCH_ERROR_CODE_CHECK
#define STABLE_TORCH_ERROR_CODE_CHECK(call) CUSTOMOPS_CHECK(call, #call)

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
