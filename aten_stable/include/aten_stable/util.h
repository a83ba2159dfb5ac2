// The small helpers of c10 and ATen that sources lean on: irange, DimVector, MaybeOwned, checks of arguments, device
// guards for any device.
#pragma once

#include <iterator>

#include "numeric.h"
#include "ops.h"

namespace c10 {
inline namespace ATEN_STABLE_VERSION {

template <class T>
class Range {
 public:
  struct iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;
    T value;
    T operator*() const { return value; }
    iterator& operator++() { return ++value, *this; }
    iterator operator++(int) {
      const iterator old = *this;
      return ++value, old;
    }
    bool operator==(const iterator& other) const { return value == other.value; }
    bool operator!=(const iterator& other) const { return value != other.value; }
  };
  Range(T begin, T end) : begin_{begin}, end_{end < begin ? begin : end} {}
  iterator begin() const { return begin_; }
  iterator end() const { return end_; }

 private:
  iterator begin_, end_;
};
template <class A, class B>
Range<B> irange(A begin, B end) {
  return {static_cast<B>(begin), end};
}
template <class T>
Range<T> irange(T end) {
  return {T(), end};
}

// c10 keeps the first N in place: an allocation is all that differs.
template <class T, unsigned N = 0>
class SmallVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  SmallVector(const HeaderOnlyArrayRef<T>& all) : std::vector<T>(all.begin(), all.end()) {}
  template <class I>
  void append(I begin, I end) {
    this->insert(this->end(), begin, end);
  }
  T pop_back_val() {
    T last = std::move(this->back());
    this->pop_back();
    return last;
  }
};

template <class T>
class MaybeOwned {
 public:
  static MaybeOwned borrowed(const T& t) { return MaybeOwned(t); }
  template <class... Args>
  static MaybeOwned owned(std::in_place_t, Args&&... args) {
    return MaybeOwned(T(std::forward<Args>(args)...));
  }
  static MaybeOwned owned(T t) { return MaybeOwned(std::move(t)); }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  explicit MaybeOwned(T t) : value_(std::move(t)) {}
  T value_;
};

template <class C>
int64_t multiply_integers(const C& list) {
  return std::accumulate(list.begin(), list.end(), int64_t(1), std::multiplies<>());
}
template <class I>
int64_t multiply_integers(I begin, I end) {
  return std::accumulate(begin, end, int64_t(1), std::multiplies<>());
}
template <class C>
int64_t sum_integers(const C& list) {
  return std::accumulate(list.begin(), list.end(), int64_t(0));
}
inline size_t hash_combine(size_t seed, size_t value) { return seed * 1099511628211u ^ value; }
// Of several values; another number than c10's.
template <class... T>
size_t get_hash(const T&... values) {
  size_t all = 14695981039346656037u;
  ((all = hash_combine(all, std::hash<T>()(values))), ...);
  return all;
}
template <class T>
struct hash : std::hash<T> {};

template <class... Parts>
std::string str(const Parts&... parts) {
  return ::aten_stable::text(parts...);
}
inline int64_t maybe_wrap_dim(int64_t dim, int64_t dims, bool wrap_scalar = true) {
  const int64_t last = dims > 0 ? dims : 1;
  TORCH_CHECK_INDEX(dims > 0 || wrap_scalar, "Dimension specified as ", dim, " but tensor has no dimensions");
  TORCH_CHECK_INDEX(dim >= -last && dim < last, "Dimension out of range (expected to be in range of [", -last, ", ",
                    last - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + last : dim;
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace c10

namespace at {
inline namespace ATEN_STABLE_VERSION {

using DimVector = c10::SmallVector<int64_t, 5>;
using c10::maybe_wrap_dim;

template <class T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
constexpr int64_t divup(int64_t a, int64_t b) { return (a + b - 1) / b; }
template <class T>
constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

inline c10::MaybeOwned<Tensor> borrow_from_optional_tensor(const std::optional<Tensor>& t) {
  return c10::MaybeOwned<Tensor>::owned(t.value_or(Tensor()));
}
inline c10::MaybeOwned<Tensor> Tensor::expect_contiguous(c10::MemoryFormat format) const {
  return c10::MaybeOwned<Tensor>::owned(contiguous(format));
}
inline c10::MaybeOwned<Tensor> expect_contiguous(const Tensor& t) { return t.expect_contiguous(); }

// The sizes that two tensors broadcast to.
inline DimVector infer_size_dimvector(c10::IntArrayRef a, c10::IntArrayRef b) {
  DimVector sizes(std::max(a.size(), b.size()));
  for (size_t back = 1; back <= sizes.size(); ++back) {
    const int64_t one = back <= a.size() ? a[a.size() - back] : 1, two = back <= b.size() ? b[b.size() - back] : 1;
    TORCH_CHECK(one == two || one == 1 || two == 1, "The size of tensor a (", one,
                ") must match the size of tensor b (", two, ") at non-singleton dimension ", sizes.size() - back);
    sizes[sizes.size() - back] = one == 1 ? two : one;
  }
  return sizes;
}
inline std::vector<int64_t> infer_size(c10::IntArrayRef a, c10::IntArrayRef b) { return infer_size_dimvector(a, b); }

inline std::optional<c10::Device> device_of(const Tensor& t) {
  return t.defined() ? std::optional(t.device()) : std::nullopt;
}

// For the CPU it does nothing.
class OptionalDeviceGuard {
 public:
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(std::optional<c10::Device> device) {
    if (device && !device->is_cpu() && !device->is_meta() && device->has_index()) guard_.emplace(device->index());
  }

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
};
class DeviceGuard : public OptionalDeviceGuard {
 public:
  explicit DeviceGuard(c10::Device device) : OptionalDeviceGuard(device) {}
};

// Do all elements, in their order and in memory, have indices below `most`?
inline bool indices_fit(const Tensor& t, int64_t most) {
  if (t.numel() == 0 || t.numel() >= most) return t.numel() == 0;
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return last < most;
}

using CheckedFrom = const char*;
struct TensorArg {
  TensorArg(const Tensor& t, const char* argument, int at) : tensor(t), name(argument), pos(at) {}
  const Tensor& tensor;
  const char* name;
  int pos;
  const Tensor* operator->() const { return &tensor; }
  const Tensor& operator*() const { return tensor; }
};
inline std::ostream& operator<<(std::ostream& out, const TensorArg& t) {
  return t.pos == 0 ? out << '\'' << t.name << '\'' : out << "argument #" << t.pos << " '" << t.name << '\'';
}
template <class F>
void check_all_same(c10::ArrayRef<TensorArg> tensors, const F& check) {
  const TensorArg* first = nullptr;
  for (const TensorArg& t : tensors) {
    if (!t->defined()) continue;
    if (first != nullptr) check(*first, t);
    first = first != nullptr ? first : &t;
  }
}
inline void checkSameType(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  TORCH_CHECK(a->scalar_type() == b->scalar_type(), "Expected tensor for ", a, " to have the same type as tensor for ",
              b, "; but type ", c10::toString(a->scalar_type()), " does not equal ", c10::toString(b->scalar_type()),
              " (while checking arguments for ", c, ")");
}
inline void checkSameGPU(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  for (const TensorArg* t : {&a, &b})
    TORCH_CHECK(!(*t)->is_cpu(), "Tensor for ", *t,
                " is on CPU, but expected it to be on GPU (while checking arguments for ", c, ")");
  TORCH_CHECK(a->get_device() == b->get_device(), "Expected tensor for ", a, " to have the same device as tensor for ",
              b, "; but device ", int(a->get_device()), " does not equal ", int(b->get_device()),
              " (while checking arguments for ", c, ")");
}
inline void checkSameSize(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  TORCH_CHECK(a->sizes() == b->sizes(), "Expected tensor for ", a, " to have same size as tensor for ", b, "; but ",
              a->sizes(), " does not equal ", b->sizes(), " (while checking arguments for ", c, ")");
}
inline void checkAllSameType(CheckedFrom c, c10::ArrayRef<TensorArg> tensors) {
  check_all_same(tensors, [c](const TensorArg& a, const TensorArg& b) { checkSameType(c, a, b); });
}
inline void checkAllSameGPU(CheckedFrom c, c10::ArrayRef<TensorArg> tensors) {
  check_all_same(tensors, [c](const TensorArg& a, const TensorArg& b) { checkSameGPU(c, a, b); });
}
inline void checkAllSameSize(CheckedFrom c, c10::ArrayRef<TensorArg> tensors) {
  check_all_same(tensors, [c](const TensorArg& a, const TensorArg& b) { checkSameSize(c, a, b); });
}
inline void checkDim(CheckedFrom c, const TensorArg& t, int64_t dim) {
  TORCH_CHECK(t->dim() == dim, "Expected ", dim, "-dimensional tensor, but got ", t->dim(), "-dimensional tensor for ",
              t, " (while checking arguments for ", c, ")");
}
inline void checkContiguous(CheckedFrom c, const TensorArg& t) {
  TORCH_CHECK(t->is_contiguous(), "Expected contiguous tensor, but got non-contiguous tensor for ", t,
              " (while checking arguments for ", c, ")");
}

namespace detail {
inline const Generator& getDefaultCPUGenerator() {
  static const Generator own(0);
  return own;
}
}  // namespace detail
class ATEN_STABLE_NO(
    "at::CPUGeneratorImpl is not covered: draw with random_(), uniform_() or normal_() of a tensor, "
    "which take the generator") CPUGeneratorImpl;

struct Context {
  bool hasCUDA() const { return ATEN_STABLE_BRIDGE(int64_t, "gpus") > 0; }
  Generator defaultGenerator(c10::Device device) const { return Generator(0, device.index()); }
  bool deterministicAlgorithms() const { return ATEN_STABLE_BRIDGE(bool, "deterministic", std::string()); }
  // torch raises or warns as its user has asked.
  void alertNotDeterministic(const char* caller) const {
    ATEN_STABLE_BRIDGE(bool, "deterministic", std::string(caller));
  }
};
inline Context& globalContext() {
  static Context one;
  return one;
}

}  // namespace ATEN_STABLE_VERSION
}  // namespace at

// What implements ATen's functions there is here the function itself.
namespace at::native {
using namespace at;
inline bool canUse32BitIndexMath(const Tensor& t, int64_t most = std::numeric_limits<int32_t>::max()) {
  return indices_fit(t, most);
}
}  // namespace at::native

namespace c10 {
inline namespace ATEN_STABLE_VERSION {
inline uint64_t Generator::current_seed() const {
  return static_cast<uint64_t>(ATEN_STABLE_BRIDGE(int64_t, "seed", address_, std::string("initial_seed"), int64_t(0)));
}
inline uint64_t Generator::seed() const {
  return static_cast<uint64_t>(ATEN_STABLE_BRIDGE(int64_t, "seed", address_, std::string("seed"), int64_t(0)));
}
inline void Generator::set_current_seed(uint64_t seed) const {
  ATEN_STABLE_BRIDGE(int64_t, "seed", address_, std::string("manual_seed"), static_cast<int64_t>(seed));
}
class ATEN_STABLE_NO("c10::InferenceMode is not covered: write torch.inference_mode() in Python") InferenceMode;
using at::DeviceGuard;
using at::DimVector;
using at::OptionalDeviceGuard;
}  // namespace ATEN_STABLE_VERSION
}  // namespace c10
