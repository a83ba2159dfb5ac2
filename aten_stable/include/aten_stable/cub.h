// <ATen/cuda/cub.cuh>: CUB itself. What torch has beside it, with memory of its own, is an error that says what to
// write.
#pragma once

#include <cub/cub.cuh>

#include "cuda.h"

namespace at::cuda::cub {
inline namespace ATEN_STABLE_VERSION {
#define X(name, instead)                                                                 \
  template <class... Args>                                                               \
  void name(Args&&...) {                                                                 \
    static_assert(::aten_stable::never<Args...>,                                         \
                  "aten_stable: at::cuda::cub::" #name " is not covered: write " instead \
                  ", with memory of c10::cuda::CUDACachingAllocator::raw_alloc");        \
  }
// clang-format off
X(radix_sort_pairs, "::cub::DeviceRadixSort::SortPairs") X(radix_sort_keys, "::cub::DeviceRadixSort::SortKeys")
X(segmented_sort_pairs, "::cub::DeviceSegmentedRadixSort::SortPairs")
X(inclusive_scan, "::cub::DeviceScan::InclusiveScan") X(exclusive_scan, "::cub::DeviceScan::ExclusiveScan")
X(exclusive_sum_in_common_type, "::cub::DeviceScan::ExclusiveSum")
X(inclusive_sum_truncating, "::cub::DeviceScan::InclusiveSum")
X(unique, "::cub::DeviceSelect::Unique") X(run_length_encode, "::cub::DeviceRunLengthEncode::Encode")
X(reduce, "::cub::DeviceReduce::Reduce")
// clang-format on
#undef X
}  // namespace ATEN_STABLE_VERSION
}  // namespace at::cuda::cub
