// at::CUDAGeneratorImpl, as far as kernels that draw need it: a seed and an offset for curand's Philox, and the
// generator ahead by what they draw. Python is asked for them (_face.py), so that they are those of torch.manual_seed:
// the quick way by a call of its function, otherwise by an operator.
#pragma once

#include <mutex>
#include <new>

#include "cuda.h"
#include "factories.h"
#include "python.h"

namespace aten_stable __attribute__((visibility("hidden"))) {
  inline namespace ATEN_STABLE_VERSION {

  using Drawn = std::tuple<int64_t, int64_t>;  // seed, offset
  inline Drawn draw(int64_t generator, int64_t device, int64_t increment) {
    if (python.philox == nullptr)
      return ATEN_STABLE_BRIDGE(ATEN_STABLE_TENSORS(int64_t, int64_t), "philox", generator, device, increment);
    const WithLock lock;
    const Owned on(python.PyLong_FromLongLong(device)), by(python.PyLong_FromLongLong(increment));
    const Owned both(python.PyObject_CallFunctionObjArgs(
        python.philox, generator != 0 ? reinterpret_cast<Object*>(generator) : python._Py_NoneStruct, on.get(),
        by.get(), static_cast<Object*>(nullptr)));
    if (!both) throw PythonError::take();
    const auto number = [&](Size i) { return python.PyLong_AsLongLong(python.PyTuple_GetItem(both.get(), i)); };
    return {number(0), number(1)};
  }

  }  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

// For the module in front of the library: the function of its that draws.
extern "C" __attribute__((visibility("default"), used)) inline void aten_stable_philox(void* function) {
  ::aten_stable::python.philox = ::aten_stable::shared(static_cast<::aten_stable::Object*>(function));
}

namespace at {
inline namespace ATEN_STABLE_VERSION {

struct PhiloxCudaState {
  uint64_t seed_ = 0, offset_ = 0;
};

class CUDAGeneratorImpl {
 public:
  explicit CUDAGeneratorImpl(Generator generator) : generator_(std::move(generator)) {}
  // Each thread draws up to `increment` numbers. A CUDA graph cannot capture it.
  PhiloxCudaState philox_cuda_state(uint64_t increment) const {
    const bool is_ours = generator_.address() == 0 && generator_.device_index() == -1;  // a given one knows its device
    const int64_t device = is_ours ? c10::cuda::current_device() : generator_.device_index();
    const auto [seed, offset] = ::aten_stable::draw(generator_.address(), device, static_cast<int64_t>(increment));
    return {static_cast<uint64_t>(seed), static_cast<uint64_t>(offset)};
  }
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t increment) const {
    const PhiloxCudaState state = philox_cuda_state(increment);
    return {state.seed_, state.offset_};
  }
  uint64_t current_seed() const { return philox_cuda_state(0).seed_; }
  std::mutex mutex_;

 private:
  Generator generator_;
};

// The pointer is good until the thread asks again, and as long as the generator is held.
template <class T>
T* check_generator(const std::optional<Generator>& generator) {
  static_assert(std::is_same_v<T, CUDAGeneratorImpl>,
                "aten_stable: at::CPUGeneratorImpl is not covered: draw with random_(), uniform_() or normal_() of a "
                "tensor, which take the generator");
  TORCH_CHECK(generator && generator->defined(), "Expected Generator but received nullopt");
  // Outlives Python: it must hold no object of it. Nothing is destroyed, for which threads would need glibc 2.18.
  alignas(T) static thread_local unsigned char kept[sizeof(T)];
  return new (kept) T(generator->borrowed());
}
template <class T>
T* get_generator_or_default(const std::optional<Generator>& generator, const Generator& otherwise) {
  return check_generator<T>(generator && generator->defined() ? generator : otherwise);
}

}  // namespace ATEN_STABLE_VERSION

namespace cuda {
namespace detail {
inline Generator getDefaultCUDAGenerator(c10::DeviceIndex device = -1) { return Generator(0, device); }
}  // namespace detail
namespace philox {
__host__ __device__ inline std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState state) {
  return {state.seed_, state.offset_};
}
}  // namespace philox
}  // namespace cuda
}  // namespace at
