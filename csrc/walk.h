// The geometry of an elementwise op: a dense output in memory order beside inputs of any strides.
//
// Dimensions are sorted so that the output's innermost one comes first, and neighbours that every input steps over
// evenly are merged. A contiguous (or channels_last) call is then one long row, and only truly strided inputs pay for
// index arithmetic.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "check.h"

namespace customops {

constexpr int kMaxDims = 64;  // dimensions of size 1 do not count, so 2^63 elements need no more

// Strides of a contiguous tensor of these sizes.
inline std::vector<int64_t> contiguous_strides(IntHeaderOnlyArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
  return strides;
}

template <size_t kInputs>
struct Walk {
  int dims = 0;
  std::array<int64_t, kMaxDims> size;
  std::array<std::array<int64_t, kMaxDims>, kInputs> stride;  // in elements

  Walk() = default;
  // The output must be dense (new_like of allocate.h makes such), have at least one element and the inputs' shape.
  Walk(IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef out_strides,
       const std::array<const Tensor*, kInputs>& inputs) {
    bool same = true;
    for (const Tensor* t : inputs) {
      auto strides = t->strides();
      same = same && std::equal(strides.begin(), strides.end(), out_strides.begin());
    }
    if (same) {  // the common case: nothing to sort
      push(inputs[0]->numel());
      for (auto& s : stride) s[0] = 1;
      return;
    }
    std::array<int, kMaxDims> order;
    int count = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] != 1) order[count++] = int(d);
    std::sort(order.begin(), order.begin() + count, [&](int a, int b) { return out_strides[a] < out_strides[b]; });
    for (int i = 0; i < count; ++i) {
      const int d = order[i];
      bool merge = dims > 0;
      for (size_t k = 0; k < kInputs; ++k)
        merge = merge && inputs[k]->strides()[d] == stride[k][dims - 1] * size[dims - 1];
      if (merge) {
        size[dims - 1] *= sizes[d];
        continue;
      }
      push(sizes[d]);
      for (size_t k = 0; k < kInputs; ++k) stride[k][dims - 1] = inputs[k]->strides()[d];
    }
    if (dims == 0) {  // every size is 1
      push(1);
      for (auto& s : stride) s[0] = 1;
    }
  }

  bool flat() const { return dims == 1 && stride[0][0] == 1; }

  // Where element `index` of input k lies, counting in memory order over dimensions first_dim and up.
  int64_t offset(size_t k, int64_t index, int first_dim) const {
    int64_t offset = 0;
    for (int d = first_dim; d < dims; ++d, index /= size[d - 1]) offset += index % size[d] * stride[k][d];
    return offset;
  }

 private:
  void push(int64_t n) { size[dims++] = n; }
};

}  // namespace customops
