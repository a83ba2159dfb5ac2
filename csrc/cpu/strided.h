// Walks a dense output in memory order beside inputs of any strides.
//
// Dimensions are sorted so that the output's innermost one comes first, and neighbours that every input steps over
// evenly are merged. A contiguous (or channels_last) call is then one long row, and only truly strided inputs pay for
// index arithmetic, once a row.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "../check.h"
#include "simd.h"

namespace customops::cpu {

constexpr int kMaxDims = 64;         // dimensions of size 1 do not count, so 2^63 elements need no more
constexpr int64_t kGrain = 1 << 15;  // elements that are worth a thread, as in ATen

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

  // The output must be dense (new_like makes such), have at least one element and the inputs' shape.
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

  // Elements [begin, begin + n) of input k, in the output's memory order, contiguous: a pointer into the input where
  // it already is, `buffer` otherwise.
  template <class T>
  const T* read(int k, const T* base, int64_t begin, int64_t n, T* buffer) const {
    const auto& step = stride[k];
    if (dims == 1 && step[0] == 1) return base + begin;
    std::array<int64_t, kMaxDims> index;
    int64_t rest = begin, offset = 0;
    for (int d = 0; d < dims; ++d) {
      index[d] = rest % size[d];
      rest /= size[d];
      offset += index[d] * step[d];
    }
    if (step[0] == 1 && index[0] + n <= size[0]) return base + offset;
    for (int64_t done = 0;;) {
      if (index[0] == 0 && dims > 1 && n - done >= size[0]) {  // whole rows: the usual case when rows are short
        const int64_t rows = std::min((n - done) / size[0], size[1] - index[1]);
        copy_rows(base + offset, step[0], step[1], size[0], rows, buffer + done);
        done += rows * size[0];
        offset += rows * step[1];
        index[1] += rows;
      } else {
        const int64_t run = std::min(n - done, size[0] - index[0]);
        copy_rows(base + offset, step[0], 0, run, 1, buffer + done);
        done += run;
        offset += run * step[0];
        index[0] += run;
      }
      if (done == n) return buffer;
      for (int d = 0; d + 1 < dims; ++d) {
        if (index[d] != size[d]) continue;
        offset += step[d + 1] - size[d] * step[d];
        index[d] = 0;
        ++index[d + 1];
      }
    }
  }

 private:
  // One loop nest for each kind of row, so that each is vectorised; `out` is a block of our own and aliases nothing.
  template <class T>
  static void copy_rows(const T* in, int64_t step, int64_t row_step, int64_t length, int64_t rows, T* __restrict out) {
    if (step == 1) {
      for (int64_t r = 0; r < rows; ++r, in += row_step, out += length)
        for (int64_t i = 0; i < length; ++i) out[i] = in[i];
    } else if (step == 0) {
      for (int64_t r = 0; r < rows; ++r, in += row_step, out += length) {
        const T value = *in;
        for (int64_t i = 0; i < length; ++i) out[i] = value;
      }
    } else {
      for (int64_t r = 0; r < rows; ++r, in += row_step, out += length)
        for (int64_t i = 0; i < length; ++i) out[i] = in[i * step];
    }
  }

  void push(int64_t n) { size[dims++] = n; }
};

// A new tensor like t. Its strides are t's where t is dense; torch decides otherwise, as its own elementwise ops do.
// The first branch goes straight to the allocator: the dispatcher costs a microsecond.
inline Tensor empty_strided(const Tensor& t, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides) {
  int32_t dtype;
  AtenTensorHandle out;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &dtype));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(sizes.size(), sizes.data(), strides.data(), dtype,
                                                         aoti_torch_device_type_cpu(), 0, &out));
  return Tensor(out);
}

inline Tensor new_like(const Tensor& t) {
  return t.is_contiguous() ? empty_strided(t, t.sizes(), t.strides()) : torch::stable::empty_like(t);
}

// f(begin, end) over [0, n), in pieces of at least `grain`, on torch's own threads.
template <class F>
void parallel(int64_t n, int64_t grain, const F& f) {
  capability();  // a bad CUSTOMOPS_CPU_CAPABILITY is reported here: a message thrown on torch's threads would get lost
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain) return f(int64_t(0), n);
  torch::stable::parallel_for(0, n, grain, f);
}

}  // namespace customops::cpu
