// Sizes and strides of a tensor of any number of dimensions, for kernels: TensorInfo and IndexToOffset.
#pragma once

#include "cuda.h"

namespace at {
namespace cuda::detail {
using native::canUse32BitIndexMath;

inline namespace ATEN_STABLE_VERSION {
constexpr int kMostDimensions = 25;
#define MAX_TENSORINFO_DIMS 25

template <class T, class Index>
struct TensorInfo {
  TensorInfo() = default;
  TensorInfo(T* data, int dims, const Index* sizes, const Index* strides) : data(data), dims(dims) {
    TORCH_CHECK(dims < kMostDimensions, "CUDA Tensors cannot have more than 25 dimensions");
    std::copy_n(sizes, dims, this->sizes);
    std::copy_n(strides, dims, this->strides);
  }
  void reduceDim(int dim) { sizes[dim] = 1; }
  // Neighbours that lie in memory as one dimension become one, but for `exclude`, whose new place is returned.
  int collapseDims(const int exclude = -1) {
    int made = 0, place = -1;
    bool joinable = false;
    for (int d = 0; d < dims; ++d) {
      if (sizes[d] == 1 && d != exclude) continue;
      if (joinable && d != exclude && strides[made - 1] == sizes[d] * strides[d]) {
        sizes[made - 1] *= sizes[d];
        strides[made - 1] = strides[d];
        continue;
      }
      if (d == exclude) place = made;
      sizes[made] = sizes[d], strides[made] = strides[d];
      joinable = d != exclude;
      ++made;
    }
    if (made == 0) sizes[0] = 1, strides[0] = 1, made = 1;
    dims = made;
    return place;
  }
  C10_HOST_DEVICE bool isContiguous() const { return dims == 1 && strides[0] == 1; }

  T* data = nullptr;
  Index sizes[kMostDimensions] = {};
  Index strides[kMostDimensions] = {};
  int dims = 0;
};

// Of the element with this index, counted along the last dimension first. Dims: how many, or -1 for info's; -2:
// contiguous.
template <class T, class Index, int Dims>
struct IndexToOffset {
  static C10_HOST_DEVICE Index get(Index index, const TensorInfo<T, Index>& info) {
    if constexpr (Dims == -2) return index;
    Index offset = 0;
    const int dims = Dims == -1 ? info.dims : Dims;
    for (int d = dims - 1; d > 0; --d) {
      offset += index % info.sizes[d] * info.strides[d];
      index /= info.sizes[d];
    }
    return offset + index * info.strides[0];
  }
};

template <class T, class Index>
TensorInfo<T, Index> getTensorInfo(const Tensor& t) {
  Index sizes[kMostDimensions], strides[kMostDimensions];
  const int dims = static_cast<int>(t.dim());
  TORCH_CHECK(dims < kMostDimensions, "CUDA Tensors cannot have more than 25 dimensions");
  for (int d = 0; d < dims; ++d) {
    sizes[d] = static_cast<Index>(t.size(d));
    strides[d] = static_cast<Index>(t.stride(d));
  }
  return {t.data_ptr<std::remove_const_t<T>>(), dims, sizes, strides};
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace cuda::detail
}  // namespace at
