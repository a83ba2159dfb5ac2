#error "aten_stable: <ATen/core/DistributionsHelper.h> is not covered: draw with uniform_(), normal_() or random_() of a tensor, or with <random>"
