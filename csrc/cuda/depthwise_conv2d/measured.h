// Which kernel was fastest where: written by benchmarks/fit_choice.py, which says how; not to be edited.
// From 12843 problems, each in one direction, on NVIDIA H100 80GB HBM3 with torch 2.11.0+cu130, NVIDIA H200 with
// torch 2.11.0+cu130.
#pragma once

#include <optional>

#include "takes.h"

namespace customops::cuda::depthwise {

struct Measured {
  Kernel kernel;
  bool copies_to_planes;
  const char* reason = "measured to be the fastest for sizes like these, on an H100 or H200";
};

inline std::optional<Measured> measured_rows(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 1030000) {
    if (double(problem.channels) < 200) return Measured{Kernel::kFwdSimple, false};
    if (double(problem.element_bytes()) < 3) return Measured{Kernel::kFwdCudnn, false};
    return Measured{Kernel::kFwdSimple, false};
  }
  if (double(outputs(problem)) < 134000) return Measured{Kernel::kFwdTorch, false};
  if (double(problem.x.out) < 255) return Measured{Kernel::kFwdDenseRows, false};
  if (double(problem.taps()) < 34) return std::nullopt;
  return Measured{Kernel::kFwdDenseRows, false};
}

inline std::optional<Measured> measured_fwd_nchw(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 13400000) {
    if (double(problem.x.dilation) < 2) {
      if (double(problem.x.taps) < 6) {
        if (double(problem.y.in) < 5) return Measured{Kernel::kFwdSimple, false};
        if (double(problem.channels) < 13) {
          if (double(problem.x.out) < 95) return std::nullopt;
          return Measured{Kernel::kFwdRows, false};
        }
        if (double(problem.y.out) < 6) return Measured{Kernel::kFwdTorch, false};
        return Measured{Kernel::kFwdCudnn, false};
      }
      if (double(outputs(problem)) < 43600) return std::nullopt;
      if (double(outputs(problem)) < 270000) return Measured{Kernel::kFwdTorch, false};
      return std::nullopt;
    }
    if (double(problem.channels) < 10) {
      if (double(problem.taps()) < 10) return std::nullopt;
      return Measured{Kernel::kFwdRows, false};
    }
    if (double(problem.y.in) < 160) {
      if (double(problem.element_bytes()) < 3) {
        if (double(problem.taps()) < 9) return std::nullopt;
        return Measured{Kernel::kFwdTorch, false};
      }
      if (double(outputs(problem)) < 150000) return std::nullopt;
      return Measured{Kernel::kFwdSimple, false};
    }
    return std::nullopt;
  }
  if (double(problem.y.taps) < 2) {
    if (double(problem.y.out) < 8) {
      if (double(problem.batch * problem.channels) < 8700) return Measured{Kernel::kFwdRows, false};
      return Measured{Kernel::kFwdSmall, false};
    }
    if (double(problem.x.in % 2) < 1) return Measured{Kernel::kFwdMma, false};
    return std::nullopt;
  }
  if (double(problem.y.out) < 5) return Measured{Kernel::kFwdTorch, false};
  if (double(problem.x.dilation) < 4) {
    if (double(problem.y.in) < 146) {
      if (double(problem.y.down) < 3) return std::nullopt;
      return Measured{Kernel::kFwdTorch, false};
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(problem.y.in) < 40) {
    if (double(problem.y.out) < 32) return std::nullopt;
    return Measured{Kernel::kFwdTorch, false};
  }
  return std::nullopt;
}

inline std::optional<Measured> measured_fwd_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 188000000) {
    if (double(outputs(problem)) * double(problem.taps()) < 454000) {
      if (double(problem.x.taps) < 2) return std::nullopt;
      return Measured{Kernel::kFwdSimple, false};
    }
    if (double(problem.x.taps) < 6) {
      if (double(outputs(problem)) * double(problem.taps()) < 550000) return Measured{Kernel::kFwdCudnn, false};
      if (double(problem.x.taps) < 3) return std::nullopt;
      if (double(problem.x.dilation) < 2) return Measured{Kernel::kFwdDirect, false};
      return std::nullopt;
    }
    if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 127000) {
      if (double(problem.taps()) < 190) return Measured{Kernel::kFwdSliding, false};
      return std::nullopt;
    }
    return std::nullopt;
  }
  if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2)
    return std::nullopt;
  if (double(problem.y.taps) < 50) {
    if (double(problem.x.taps) < 6) return Measured{Kernel::kFwdDirect, false};
    return std::nullopt;
  }
  return Measured{Kernel::kFwdLarge, true};
}

inline std::optional<Measured> measured_dgrad_nchw(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 3212000) {
    if (double(problem.y.taps) < 6) {
      if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 340000)
        return Measured{Kernel::kFwdTorch, false};
      return Measured{Kernel::kFwdSliding, false};
    }
    return std::nullopt;
  }
  if (double(problem.x.out) < 290) {
    if (double(problem.y.taps) < 2) {
      if (double(problem.x.in % 2) < 1) return Measured{Kernel::kFwdMma, false};
      if (double(problem.batch * problem.channels) < 14000) return std::nullopt;
      return Measured{Kernel::kFwdSmall, false};
    }
    if (double(outputs(problem)) < 143200) return Measured{Kernel::kFwdCudnn, false};
    if (double(problem.y.taps) < 3) return Measured{Kernel::kFwdSliding, false};
    if (double(outputs(problem)) * double(problem.taps()) < 5670000) return Measured{Kernel::kFwdPlanes, false};
    return std::nullopt;
  }
  if (double(problem.x.out) < 700) return Measured{Kernel::kFwdRows, false};
  return std::nullopt;
}

inline std::optional<Measured> measured_dgrad_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 1230000) {
    if (double(problem.batch * problem.channels) < 126) {
      if (double(problem.y.taps) < 2) return Measured{Kernel::kFwdSimple, false};
      if (double(problem.y.dilation) < 2) return std::nullopt;
      return Measured{Kernel::kFwdSimple, false};
    }
    if (double(problem.y.in) < 20) return Measured{Kernel::kFwdCudnn, false};
    return Measured{Kernel::kFwdSimple, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 37950000) {
    if (double(outputs(problem)) < 97000) {
      if (double(problem.x.taps) < 8) {
        if (double(outputs(problem)) * double(problem.taps()) < 3000000) return Measured{Kernel::kFwdDirect, false};
        return Measured{Kernel::kFwdCudnn, false};
      }
      return std::nullopt;
    }
    if (double(problem.taps()) < 3) return Measured{Kernel::kFwdCudnn, false};
    if (double(problem.x.taps) < 6) {
      if (double(problem.x.taps) < 3) return std::nullopt;
      return Measured{Kernel::kFwdDirect, false};
    }
    if (double(problem.taps()) < 9) return Measured{Kernel::kFwdCudnn, false};
    return std::nullopt;
  }
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nchw(const Problem& problem) {
  if (double(outputs(problem)) < 61300) {
    if (double(problem.channels) < 30) return Measured{Kernel::kWgradSliding, false};
    if (double(problem.y.in) < 8) return std::nullopt;
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(problem.batch * problem.channels) < 67) return Measured{Kernel::kWgradSliding, false};
  if (double(problem.x.out) < 7) {
    if (double(problem.batch * problem.channels) < 60000) {
      if (double(problem.x.in % 2) < 1) return Measured{Kernel::kWgradPlanes, false};
      return std::nullopt;
    }
    return Measured{Kernel::kWgradPlanes, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 1770000) {
    if (double(problem.y.in) < 22) return Measured{Kernel::kWgradSliding, false};
    if (double(problem.y.in) < 35) return Measured{Kernel::kWgradTorch, false};
    return std::nullopt;
  }
  if (double(problem.x.in) < 9) {
    if (double(outputs(problem)) < 530000) return Measured{Kernel::kWgradSmall, false};
    return std::nullopt;
  }
  if (double(outputs(problem)) * double(problem.taps()) < 1870000) return Measured{Kernel::kWgradTorch, false};
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 52980000) {
    if (double(problem.y.in) < 300) {
      if (double(problem.y.taps) < 3) return std::nullopt;
      if (double(problem.taps()) < 50) {
        if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 75000)
          return Measured{Kernel::kWgradSliding, false};
        if (double(problem.y.taps) < 6) return Measured{Kernel::kWgradDirect, false};
        return std::nullopt;
      }
      if (double(outputs(problem)) < 150000) return Measured{Kernel::kWgradSmall, true};
      return Measured{Kernel::kWgradSliding, false};
    }
    return Measured{Kernel::kWgradSliding, true};
  }
  if (double(problem.y.out) < 90) {
    if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2) {
      if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 1520000)
        return Measured{Kernel::kWgradSmall, true};
      return std::nullopt;
    }
    if (double(problem.y.taps) < 6) return Measured{Kernel::kWgradDirect, false};
    if (double(problem.x.out) < 9) return Measured{Kernel::kWgradSmall, true};
    return Measured{Kernel::kWgradMmaPlanes, true};
  }
  if (double(problem.y.taps) < 18) {
    if (double(problem.taps()) < 13) return Measured{Kernel::kWgradDirect, false};
    return Measured{Kernel::kWgradSliding, false};
  }
  return Measured{Kernel::kWgradSliding, true};
}

}  // namespace customops::cuda::depthwise
