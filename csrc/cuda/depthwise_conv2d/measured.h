// Which kernel was fastest where: written by benchmarks/fit_choice.py, which says how; not to be edited.
// From 6555 problems, each in one direction, on NVIDIA H200 with torch 2.11.0+cu130.
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
  if (double(outputs(problem)) < 410000) {
    if (double(outputs(problem)) < 71000) {
      if (double(problem.x.taps) < 20) {
        if (double(outputs(problem)) * double(problem.taps()) < 560000) {
          return std::nullopt;
        }
        return Measured{Kernel::kFwdCudnn, false};
      }
      return Measured{Kernel::kFwdTorch, false};
    }
    if (double(problem.x.in) < 6) {
      return Measured{Kernel::kFwdCudnn, false};
    }
    return Measured{Kernel::kFwdTorch, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 11600000) {
    if (double(outputs(problem)) * double(problem.taps()) < 1600000) {
      return Measured{Kernel::kFwdTorch, false};
    }
    if (double(problem.channels) < 120) {
      return Measured{Kernel::kFwdPlanes, false};
    }
    if (double(problem.y.dilation) < 2) {
      if (double(problem.element_bytes()) < 3) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      return Measured{Kernel::kFwdRows, false};
    }
    return Measured{Kernel::kFwdTorch, false};
  }
  if (double(problem.x.out) < 1000) {
    if (double(problem.channels) < 1530) {
      if (double(problem.x.dilation) < 4) {
        if (double(problem.channels) < 25) {
          return Measured{Kernel::kFwdMma, false};
        }
        return std::nullopt;
      }
      if (double(problem.y.out) < 32) {
        return std::nullopt;
      }
      return Measured{Kernel::kFwdTorch, false};
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(problem.element_bytes()) < 3) {
    return Measured{Kernel::kFwdCudnn, false};
  }
  return Measured{Kernel::kFwdRows, false};
}

inline std::optional<Measured> measured_fwd_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 544000) {
    if (double(problem.x.out) < 5) {
      return std::nullopt;
    }
    return Measured{Kernel::kFwdSimple, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 66000000) {
    if (double(problem.taps()) < 50) {
      if (double(outputs(problem)) < 34000) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      if (double(problem.x.out) < 4) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      if (double(problem.y.taps) < 3) {
        return std::nullopt;
      }
      return Measured{Kernel::kFwdDirect, false};
    }
    return Measured{Kernel::kFwdMma, true};
  }
  if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2) {
    if (double(problem.taps()) < 700) {
      return std::nullopt;
    }
    return Measured{Kernel::kFwdSmall, true};
  }
  if (double(problem.y.taps) < 50) {
    return Measured{Kernel::kFwdDirect, false};
  }
  return Measured{Kernel::kFwdLarge, true};
}

inline std::optional<Measured> measured_dgrad_nchw(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 2970000) {
    if (double(outputs(problem)) < 75000) {
      return std::nullopt;
    }
    if (double(outputs(problem)) < 800000) {
      if (double(problem.y.taps) < 6) {
        return Measured{Kernel::kFwdTorch, false};
      }
      return std::nullopt;
    }
    return Measured{Kernel::kFwdSliding, false};
  }
  if (double(outputs(problem)) < 310000) {
    if (double(problem.y.taps) < 2) {
      return Measured{Kernel::kFwdRows, false};
    }
    return std::nullopt;
  }
  if (double(outputs(problem)) * double(problem.taps()) < 5700000) {
    if (double(problem.channels) < 370) {
      return Measured{Kernel::kFwdPlanes, false};
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(problem.x.in) < 1100) {
    if (double(problem.channels) < 4) {
      return Measured{Kernel::kFwdMma, false};
    }
    if (double(problem.x.in) < 287) {
      return std::nullopt;
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(problem.element_bytes()) < 3) {
    return std::nullopt;
  }
  return Measured{Kernel::kFwdRows, false};
}

inline std::optional<Measured> measured_dgrad_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 1215000) {
    if (double(problem.x.in) < 156) {
      if (double(problem.y.in) < 20) {
        if (double(problem.taps()) < 2) {
          return Measured{Kernel::kFwdSimple, false};
        }
        return Measured{Kernel::kFwdCudnn, false};
      }
      return std::nullopt;
    }
    return std::nullopt;
  }
  if (double(outputs(problem)) * double(problem.taps()) < 38000000) {
    if (double(problem.taps()) < 4) {
      if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 1260000) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      return std::nullopt;
    }
    if (double(outputs(problem)) < 98000) {
      if (double(problem.y.taps) < 6) {
        return Measured{Kernel::kFwdDirect, false};
      }
      return Measured{Kernel::kFwdCudnn, false};
    }
    if (double(problem.y.taps) < 3) {
      return std::nullopt;
    }
    if (double(problem.y.taps) < 6) {
      return Measured{Kernel::kFwdDirect, false};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nchw(const Problem& problem) {
  if (double(outputs(problem)) < 51600) {
    if (double(problem.channels) < 36) {
      return Measured{Kernel::kWgradSliding, false};
    }
    if (double(problem.y.out) < 11) {
      return std::nullopt;
    }
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(outputs(problem)) * double(problem.taps()) < 1480000) {
    if (double(problem.channels) < 200) {
      if (double(problem.y.down) < 4) {
        return Measured{Kernel::kWgradSliding, false};
      }
      return Measured{Kernel::kWgradTorch, false};
    }
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(problem.batch * problem.channels) < 81) {
    return Measured{Kernel::kWgradSliding, false};
  }
  if (double(problem.x.out) < 7) {
    if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 1) {
      return Measured{Kernel::kWgradPlanes, false};
    }
    return std::nullopt;
  }
  if (double(outputs(problem)) * double(problem.taps()) < 2150000) {
    if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2) {
      return Measured{Kernel::kWgradTorch, false};
    }
    return std::nullopt;
  }
  if (double(problem.x.down) < 3) {
    return std::nullopt;
  }
  return Measured{Kernel::kWgradSliding, false};
}

inline std::optional<Measured> measured_wgrad_nhwc(const Problem& problem) {
  if (double(outputs(problem)) * double(problem.taps()) < 53400000) {
    if (double(problem.y.taps) < 3) {
      return std::nullopt;
    }
    if (double(problem.taps()) < 50) {
      if (double(problem.batch * problem.channels) < 26) {
        return Measured{Kernel::kWgradSliding, true};
      }
      if (double(outputs(problem)) < 87000) {
        if (double(problem.x.out) < 9) {
          return Measured{Kernel::kWgradSliding, false};
        }
        return std::nullopt;
      }
      if (double(problem.y.taps) < 6) {
        return Measured{Kernel::kWgradDirect, false};
      }
      return std::nullopt;
    }
    return Measured{Kernel::kWgradSliding, false};
  }
  if (double(problem.batch * problem.channels * problem.y.in * problem.x.in) < 4500000) {
    if (double(problem.x.in) < 9) {
      return Measured{Kernel::kWgradSmall, true};
    }
    return std::nullopt;
  }
  if (double(problem.batch * problem.channels) < 2046) {
    return Measured{Kernel::kWgradMmaPlanes, true};
  }
  if (double(problem.channels % 8 != 0) + double(problem.channels % 4 != 0) + double(problem.channels % 2 != 0) < 2) {
    return std::nullopt;
  }
  if (double(problem.y.taps) < 6) {
    return Measured{Kernel::kWgradDirect, false};
  }
  return Measured{Kernel::kWgradPlanes, true};
}

}  // namespace customops::cuda::depthwise
