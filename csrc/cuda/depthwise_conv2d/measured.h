// Which kernel was fastest where: written by benchmarks/fit_choice.py, which says how; not to be edited.
// From 12693 problems, each in one direction, on NVIDIA H100 80GB HBM3 with torch 2.11.0+cu130, NVIDIA H200 with
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
  if (double(outputs(problem)) < 409000) {
    if (double(outputs(problem)) * double(problem.taps()) < 995000) {
      if (double(problem.y.taps) < 2) return Measured{Kernel::kFwdSimple, false};
      if (double(outputs(problem)) < 104500) {
        if (double(problem.channels) < 22) return std::nullopt;
        return Measured{Kernel::kFwdCudnn, false};
      }
      if (double(problem.x.out) < 17) return Measured{Kernel::kFwdCudnn, false};
      return Measured{Kernel::kFwdTorch, false};
    }
    if (double(problem.x.taps) < 2) return std::nullopt;
    if (double(outputs(problem)) < 330000) return Measured{Kernel::kFwdTorch, false};
    if (double(outputs(problem)) < 392000) return Measured{Kernel::kFwdCudnn, false};
    return Measured{Kernel::kFwdTorch, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 13400000) {
    if (double(problem.x.dilation) < 2) {
      if (double(problem.x.taps) < 3) return Measured{Kernel::kFwdSliding, false};
      if (double(problem.element_bytes()) < 6) return Measured{Kernel::kFwdCudnn, false};
      return Measured{Kernel::kFwdSimple, false};
    }
    if (double(problem.channels) < 100) return std::nullopt;
    if (double(problem.element_bytes()) < 3) return Measured{Kernel::kFwdTorch, false};
    return Measured{Kernel::kFwdSimple, false};
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
    if (double(problem.y.in) < 99) return std::nullopt;
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(problem.y.out) < 40) return Measured{Kernel::kFwdTorch, false};
  return std::nullopt;
}

inline std::optional<Measured> measured_fwd_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 188000000) {
    if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 3) {
      if (double(problem.y.taps) < 51) {
        if (double(problem.x.taps) < 6) {
          if (double(problem.x.taps) < 3) {
            if (double(problem.channels) < 3) return Measured{Kernel::kFwdSliding, false};
            return std::nullopt;
          }
          if (double(outputs(problem)) * double(problem.taps()) < 625000) return Measured{Kernel::kFwdSimple, false};
          return Measured{Kernel::kFwdDirect, false};
        }
        if (double(problem.channels) < 5) return Measured{Kernel::kFwdSliding, false};
        return std::nullopt;
      }
      return Measured{Kernel::kFwdSliding, true};
    }
    if (double(problem.x.out) < 4) {
      if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 600000) return std::nullopt;
      return Measured{Kernel::kFwdCudnn, false};
    }
    if (double(outputs(problem)) * double(problem.taps()) < 600000) {
      if (double(outputs(problem)) * double(problem.taps()) < 190000) return std::nullopt;
      return Measured{Kernel::kFwdSimple, false};
    }
    if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 96000)
      return Measured{Kernel::kFwdSliding, false};
    return std::nullopt;
  }
  if (double(outputs(problem)) < 450000) return Measured{Kernel::kFwdSliding, true};
  if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2)
    return std::nullopt;
  if (double(problem.y.taps) < 28) return Measured{Kernel::kFwdDirect, false};
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
    if (double(problem.batch * problem.channels) < 178) {
      if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 60000)
        return Measured{Kernel::kFwdCudnn, false};
      if (double(problem.taps()) < 5) return std::nullopt;
      return Measured{Kernel::kFwdSimple, false};
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 19868000) {
    if (double(problem.y.taps) < 7) {
      if (double(problem.taps()) < 3) return Measured{Kernel::kFwdCudnn, false};
      if (double(problem.y.taps) < 3) {
        if (double(outputs(problem)) * double(problem.taps()) < 2080000) return Measured{Kernel::kFwdSimple, false};
        return std::nullopt;
      }
      return Measured{Kernel::kFwdDirect, false};
    }
    if (double(problem.y.taps) < 8) return Measured{Kernel::kFwdCudnn, false};
    return std::nullopt;
  }
  if (double(problem.taps()) < 4) return Measured{Kernel::kFwdCudnn, false};
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nchw(const Problem& problem) {
  if (double(problem.batch * problem.channels) < 67) {
    if (double(problem.x.out) < 31) {
      if (double(problem.channels) < 35) return Measured{Kernel::kWgradSliding, false};
      return Measured{Kernel::kWgradTorch, false};
    }
    return Measured{Kernel::kWgradSliding, false};
  }
  if (double(outputs(problem)) < 61300) {
    if (double(problem.channels) < 69) return Measured{Kernel::kWgradSliding, false};
    if (double(problem.x.out) < 6) return Measured{Kernel::kWgradCorrelation, false};
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(problem.x.out) < 7) {
    if (double(problem.taps()) < 4) return Measured{Kernel::kWgradTorch, false};
    if (double(problem.batch * problem.channels) < 60000) {
      if (double(problem.x.in % 2) < 1) return Measured{Kernel::kWgradPlanes, false};
      return std::nullopt;
    }
    return Measured{Kernel::kWgradPlanes, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 1770000) {
    if (double(problem.channels) < 140) {
      if (double(problem.x.down) < 3) return Measured{Kernel::kWgradSliding, false};
      return Measured{Kernel::kWgradTorch, false};
    }
    if (double(problem.element_bytes()) < 3) return Measured{Kernel::kWgradSliding, false};
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(problem.x.in) < 9) {
    if (double(outputs(problem)) < 530000) return Measured{Kernel::kWgradSmall, false};
    return std::nullopt;
  }
  if (double(outputs(problem)) < 86500) return Measured{Kernel::kWgradTorch, false};
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 52980000) {
    if (double(problem.y.taps) < 3) return std::nullopt;
    if (double(problem.y.in) < 300) {
      if (double(problem.taps()) < 50) {
        if (double(problem.y.taps) < 6) {
          if (double(problem.x.dilation) < 2) return Measured{Kernel::kWgradDirect, false};
          return std::nullopt;
        }
        if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) <
            3)
          return std::nullopt;
        return Measured{Kernel::kWgradSliding, false};
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
