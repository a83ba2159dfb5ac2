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

inline std::optional<Measured> measured_fwd_nchw(const Problem& p) {
  if (double(outputs(p)) < 410000) {
    if (double(outputs(p)) < 71000) {
      if (double(p.x.taps) < 20) {
        if (double(outputs(p)) * double(p.taps()) < 560000) {
          return std::nullopt;
        }
        return Measured{Kernel::kFwdCudnn, false};
      }
      return Measured{Kernel::kFwdTorch, false};
    }
    if (double(p.x.in) < 6) {
      return Measured{Kernel::kFwdCudnn, false};
    }
    return Measured{Kernel::kFwdTorch, false};
  }
  if (double(outputs(p)) * double(p.taps()) < 11600000) {
    if (double(outputs(p)) * double(p.taps()) < 1600000) {
      return Measured{Kernel::kFwdTorch, false};
    }
    if (double(p.channels) < 120) {
      return Measured{Kernel::kFwdPlanes, false};
    }
    if (double(p.y.dilation) < 2) {
      if (double(p.element_bytes()) < 3) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      return Measured{Kernel::kFwdRows, false};
    }
    return Measured{Kernel::kFwdTorch, false};
  }
  if (double(p.x.out) < 1000) {
    if (double(p.channels) < 1530) {
      if (double(p.x.dilation) < 4) {
        if (double(p.channels) < 25) {
          return Measured{Kernel::kFwdMma, false};
        }
        return std::nullopt;
      }
      if (double(p.y.out) < 32) {
        return std::nullopt;
      }
      return Measured{Kernel::kFwdTorch, false};
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(p.element_bytes()) < 3) {
    return Measured{Kernel::kFwdCudnn, false};
  }
  return Measured{Kernel::kFwdRows, false};
}

inline std::optional<Measured> measured_fwd_nhwc(const Problem& p) {
  if (double(outputs(p)) * double(p.taps()) < 544000) {
    if (double(p.x.out) < 5) {
      return std::nullopt;
    }
    return Measured{Kernel::kFwdSimple, false};
  }
  if (double(outputs(p)) * double(p.taps()) < 66000000) {
    if (double(p.taps()) < 50) {
      if (double(outputs(p)) < 34000) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      if (double(p.x.out) < 4) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      if (double(p.y.taps) < 3) {
        return std::nullopt;
      }
      return Measured{Kernel::kFwdDirect, false};
    }
    return Measured{Kernel::kFwdMma, true};
  }
  if (double(p.channels % 8 != 0) + double(p.channels % 4 != 0) + double(p.channels % 2 != 0) < 2) {
    if (double(p.taps()) < 700) {
      return std::nullopt;
    }
    return Measured{Kernel::kFwdSmall, true};
  }
  if (double(p.y.taps) < 50) {
    return Measured{Kernel::kFwdDirect, false};
  }
  return Measured{Kernel::kFwdLarge, true};
}

inline std::optional<Measured> measured_dgrad_nchw(const Problem& p) {
  if (double(outputs(p)) * double(p.taps()) < 2970000) {
    if (double(outputs(p)) < 75000) {
      return std::nullopt;
    }
    if (double(outputs(p)) < 800000) {
      if (double(p.y.taps) < 6) {
        return Measured{Kernel::kFwdTorch, false};
      }
      return std::nullopt;
    }
    return Measured{Kernel::kFwdSliding, false};
  }
  if (double(outputs(p)) < 310000) {
    if (double(p.y.taps) < 2) {
      return Measured{Kernel::kFwdRows, false};
    }
    return std::nullopt;
  }
  if (double(outputs(p)) * double(p.taps()) < 5700000) {
    if (double(p.channels) < 370) {
      return Measured{Kernel::kFwdPlanes, false};
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(p.x.in) < 1100) {
    if (double(p.channels) < 4) {
      return Measured{Kernel::kFwdMma, false};
    }
    if (double(p.x.in) < 287) {
      return std::nullopt;
    }
    return Measured{Kernel::kFwdCudnn, false};
  }
  if (double(p.element_bytes()) < 3) {
    return std::nullopt;
  }
  return Measured{Kernel::kFwdRows, false};
}

inline std::optional<Measured> measured_dgrad_nhwc(const Problem& p) {
  if (double(outputs(p)) * double(p.taps()) < 1215000) {
    if (double(p.x.in) < 156) {
      if (double(p.y.in) < 20) {
        if (double(p.taps()) < 2) {
          return Measured{Kernel::kFwdSimple, false};
        }
        return Measured{Kernel::kFwdCudnn, false};
      }
      return std::nullopt;
    }
    return std::nullopt;
  }
  if (double(outputs(p)) * double(p.taps()) < 38000000) {
    if (double(p.taps()) < 4) {
      if (double(p.batch * p.channels * p.y.in * p.x.in) < 1260000) {
        return Measured{Kernel::kFwdCudnn, false};
      }
      return std::nullopt;
    }
    if (double(outputs(p)) < 98000) {
      if (double(p.y.taps) < 6) {
        return Measured{Kernel::kFwdDirect, false};
      }
      return Measured{Kernel::kFwdCudnn, false};
    }
    if (double(p.y.taps) < 3) {
      return std::nullopt;
    }
    if (double(p.y.taps) < 6) {
      return Measured{Kernel::kFwdDirect, false};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

inline std::optional<Measured> measured_wgrad_nchw(const Problem& p) {
  if (double(outputs(p)) < 51600) {
    if (double(p.channels) < 36) {
      return Measured{Kernel::kWgradSliding, false};
    }
    if (double(p.y.out) < 11) {
      return std::nullopt;
    }
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(outputs(p)) * double(p.taps()) < 1480000) {
    if (double(p.channels) < 200) {
      if (double(p.y.down) < 4) {
        return Measured{Kernel::kWgradSliding, false};
      }
      return Measured{Kernel::kWgradTorch, false};
    }
    return Measured{Kernel::kWgradTorch, false};
  }
  if (double(p.batch * p.channels) < 81) {
    return Measured{Kernel::kWgradSliding, false};
  }
  if (double(p.x.out) < 7) {
    if (double(p.channels % 8 != 0) + double(p.channels % 4 != 0) + double(p.channels % 2 != 0) < 1) {
      return Measured{Kernel::kWgradPlanes, false};
    }
    return std::nullopt;
  }
  if (double(outputs(p)) * double(p.taps()) < 2150000) {
    if (double(p.channels % 8 != 0) + double(p.channels % 4 != 0) + double(p.channels % 2 != 0) < 2) {
      return Measured{Kernel::kWgradTorch, false};
    }
    return std::nullopt;
  }
  if (double(p.x.down) < 3) {
    return std::nullopt;
  }
  return Measured{Kernel::kWgradSliding, false};
}

inline std::optional<Measured> measured_wgrad_nhwc(const Problem& p) {
  if (double(outputs(p)) * double(p.taps()) < 53400000) {
    if (double(p.y.taps) < 3) {
      return std::nullopt;
    }
    if (double(p.taps()) < 50) {
      if (double(p.batch * p.channels) < 26) {
        return Measured{Kernel::kWgradSliding, true};
      }
      if (double(outputs(p)) < 87000) {
        if (double(p.x.out) < 9) {
          return Measured{Kernel::kWgradSliding, false};
        }
        return std::nullopt;
      }
      if (double(p.y.taps) < 6) {
        return Measured{Kernel::kWgradDirect, false};
      }
      return std::nullopt;
    }
    return Measured{Kernel::kWgradSliding, false};
  }
  if (double(p.batch * p.channels * p.y.in * p.x.in) < 4500000) {
    if (double(p.x.in) < 9) {
      return Measured{Kernel::kWgradSmall, true};
    }
    return std::nullopt;
  }
  if (double(p.batch * p.channels) < 2046) {
    return Measured{Kernel::kWgradMmaPlanes, true};
  }
  if (double(p.channels % 8 != 0) + double(p.channels % 4 != 0) + double(p.channels % 2 != 0) < 2) {
    return std::nullopt;
  }
  if (double(p.y.taps) < 6) {
    return Measured{Kernel::kWgradDirect, false};
  }
  return Measured{Kernel::kWgradPlanes, true};
}

}  // namespace customops::cuda::depthwise
