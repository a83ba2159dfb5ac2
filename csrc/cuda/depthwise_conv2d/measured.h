// Which kernel was fastest where: written by benchmarks/fit_choice.py, which says how; not to be edited.
// From 9201 problems, each in one direction, on NVIDIA H200 with torch 2.11.0+cu130.
#pragma once

#include <optional>

#include "takes.h"

namespace customops::cuda::depthwise {

struct Measured {
  Kernel kernel;
  bool copies_to_planes;
  const char* reason = "measured to be the fastest for sizes like these, on an H200";
};

inline std::optional<Measured> measured_fwd_nchw(const Problem& problem) {
  if (double(outputs(problem)) < 320000) {
    if (double(outputs(problem)) * double(problem.taps()) < 993000) {
      if (double(problem.y.taps) < 2) return Measured{Kernel::kFwdSimple, false};
      if (double(problem.x.down) < 3) return Measured{Kernel::kFwdCudnn, false};
      return std::nullopt;
    }
    if (double(problem.x.taps) < 2) return std::nullopt;
    if (double(problem.x.out) < 280) return Measured{Kernel::kFwdTorch, false};
    return Measured{Kernel::kFwdRows, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 15400000) {
    if (double(problem.x.dilation) < 2) {
      if (double(problem.element_bytes()) < 6) {
        if (double(problem.x.taps) < 3) return Measured{Kernel::kFwdSliding, false};
        if (double(outputs(problem)) < 410000) return Measured{Kernel::kFwdTorch, false};
        return Measured{Kernel::kFwdCudnn, false};
      }
      return Measured{Kernel::kFwdTorch, false};
    }
    if (double(problem.channels) < 100) return std::nullopt;
    if (double(problem.element_bytes()) < 3) return Measured{Kernel::kFwdTorch, false};
    return Measured{Kernel::kFwdSimple, false};
  }
  if (double(problem.channels) < 626) {
    if (double(problem.y.out) < 28) {
      if (double(problem.y.in) < 34) return std::nullopt;
      return Measured{Kernel::kFwdSliding, false};
    }
    if (double(problem.y.taps) < 3) {
      if (double(problem.x.in % 2) < 1) return Measured{Kernel::kFwdMma, false};
      return std::nullopt;
    }
    if (double(problem.x.dilation) < 4) return std::nullopt;
    return Measured{Kernel::kFwdTorch, false};
  }
  if (double(problem.element_bytes()) < 3) {
    if (double(problem.x.out) < 30) return std::nullopt;
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(problem.x.taps) < 4) {
    if (double(problem.x.in) < 20) return std::nullopt;
    return Measured{Kernel::kFwdSimple, false};
  }
  return Measured{Kernel::kFwdRows, false};
}

inline std::optional<Measured> measured_fwd_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 196650000) {
    if (double(outputs(problem)) * double(problem.taps()) < 540000) {
      if (double(problem.x.taps) < 2) return std::nullopt;
      return Measured{Kernel::kFwdSimple, false};
    }
    if (double(problem.y.taps) < 51) {
      if (double(problem.x.taps) < 6) {
        if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 117000)
          return Measured{Kernel::kFwdCudnn, false};
        if (double(problem.x.out) < 4) return Measured{Kernel::kFwdCudnn, false};
        return Measured{Kernel::kFwdDirect, false};
      }
      if (double(problem.channels) < 5) return Measured{Kernel::kFwdSliding, false};
      return std::nullopt;
    }
    return Measured{Kernel::kFwdSliding, true};
  }
  if (double(outputs(problem)) < 400000) return Measured{Kernel::kFwdSliding, true};
  if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2)
    return std::nullopt;
  if (double(problem.y.taps) < 8) return Measured{Kernel::kFwdDirect, false};
  return Measured{Kernel::kFwdLarge, true};
}

inline std::optional<Measured> measured_dgrad_nchw(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 2970000) {
    if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 420000) {
      if (double(outputs(problem)) < 75000) return std::nullopt;
      if (double(problem.y.taps) < 6) {
        if (double(problem.x.out) < 2000) return Measured{Kernel::kFwdTorch, false};
        return Measured{Kernel::kFwdSimple, false};
      }
      return std::nullopt;
    }
    return std::nullopt;
  }
  if (double(outputs(problem)) * double(problem.taps()) < 3361000) {
    if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 120000)
      return Measured{Kernel::kFwdRows, false};
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(outputs(problem)) < 131000) return Measured{Kernel::kFwdRows, false};
  if (double(problem.batch * problem.channels) < 33) return Measured{Kernel::kFwdRows, false};
  return std::nullopt;
}

inline std::optional<Measured> measured_dgrad_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 38000000) {
    if (double(outputs(problem)) * double(problem.taps()) < 1230000) {
      if (double(problem.x.in) < 156) {
        if (double(problem.y.out) < 30) return Measured{Kernel::kFwdCudnn, false};
        return std::nullopt;
      }
      return std::nullopt;
    }
    if (double(outputs(problem)) < 97500) {
      if (double(outputs(problem)) * double(problem.taps()) < 4000000) return Measured{Kernel::kFwdCudnn, false};
      return std::nullopt;
    }
    if (double(problem.taps()) < 4) {
      if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 1400000)
        return Measured{Kernel::kFwdCudnn, false};
      return std::nullopt;
    }
    if (double(problem.y.taps) < 3) return std::nullopt;
    if (double(problem.y.taps) < 6) return Measured{Kernel::kFwdDirect, false};
    return std::nullopt;
  }
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nchw(const Problem& problem) {
  if (double(outputs(problem)) < 61300) {
    if (double(problem.channels) < 15) return Measured{Kernel::kWgradSliding, false};
    if (double(problem.y.out) < 5) return std::nullopt;
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(problem.batch * problem.channels) < 50) return Measured{Kernel::kWgradSliding, false};
  if (double(outputs(problem)) * double(problem.taps()) < 1540000) {
    if (double(problem.channels) < 171) {
      if (double(problem.y.out) < 60) {
        if (double(problem.taps()) < 9) return std::nullopt;
        return Measured{Kernel::kWgradSliding, false};
      }
      return Measured{Kernel::kWgradTorch, false};
    }
    if (double(outputs(problem)) * double(problem.taps()) < 500000) return Measured{Kernel::kWgradTorch, false};
    if (double(problem.y.out) < 6) return std::nullopt;
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(problem.x.out) < 7) {
    if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 1)
      return Measured{Kernel::kWgradPlanes, false};
    if (double(problem.channels) < 16) return Measured{Kernel::kWgradSliding, false};
    return std::nullopt;
  }
  if (double(outputs(problem)) * double(problem.taps()) < 1865000) {
    if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 1)
      return Measured{Kernel::kWgradTorch, false};
    return std::nullopt;
  }
  if (double(problem.x.in) < 9) return Measured{Kernel::kWgradSmall, false};
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 59000000) {
    if (double(problem.y.taps) < 3) return std::nullopt;
    if (double(problem.taps()) < 50) {
      if (double(problem.y.taps) < 15) {
        if (double(problem.y.taps) < 6) {
          if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 93000) return std::nullopt;
          return Measured{Kernel::kWgradDirect, false};
        }
        if (double(problem.batch * problem.channels) < 43) return Measured{Kernel::kWgradSliding, true};
        return std::nullopt;
      }
      return Measured{Kernel::kWgradSliding, true};
    }
    return Measured{Kernel::kWgradSliding, false};
  }
  if (double(problem.y.out) < 90) {
    if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 4500000) {
      if (double(problem.x.out) < 9) return Measured{Kernel::kWgradSmall, true};
      return std::nullopt;
    }
    if (double(problem.batch * problem.channels) < 2046) return Measured{Kernel::kWgradMmaPlanes, true};
    if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2)
      return std::nullopt;
    if (double(problem.y.taps) < 6) return Measured{Kernel::kWgradDirect, false};
    return Measured{Kernel::kWgradPlanes, true};
  }
  if (double(problem.y.taps) < 18) return Measured{Kernel::kWgradDirect, false};
  return Measured{Kernel::kWgradSliding, true};
}

}  // namespace customops::cuda::depthwise
