// What kernels of torch's own share: sums of warps and blocks, loads of several elements at once, a grid's size.
#pragma once

#include <library_types.h>

#include "atomics.h"
#include "device.h"

#ifdef __CUDACC__
namespace at::native::cuda_utils {
inline namespace ATEN_STABLE_VERSION {
constexpr int kCUDABlockReduceNumThreads = 512;
constexpr int kCUDABlockReduceMaxThreads() { return 32 * 32; }

// Where a thread is in its block.
struct Block1D {
  static __forceinline__ __device__ int Tid() { return threadIdx.x; }
  static __forceinline__ __device__ int Warps() { return blockDim.x / C10_WARP_SIZE; }
};
struct Block2D {
  static __forceinline__ __device__ int Tid() { return threadIdx.x + threadIdx.y * blockDim.x; }
  static __forceinline__ __device__ int Warps() { return blockDim.x * blockDim.y / C10_WARP_SIZE; }
};

// The result of each is the first lane's.
template <class T, class Op>
__inline__ __device__ T WarpReduce(T value, const Op& op) {
#pragma unroll
  for (int offset = C10_WARP_SIZE >> 1; offset > 0; offset >>= 1)
    value = op.combine(value, op.warp_shfl_down(value, offset));
  return value;
}
template <class T>
struct SumOfTwo {
  __device__ T combine(T a, T b) const { return a + b; }
  __device__ T warp_shfl_down(T value, int offset) const { return WARP_SHFL_DOWN(value, offset); }
};
template <class T>
struct LargerOfTwo {
  __device__ T combine(T a, T b) const { return aten_stable_keeps(a, b, true) ? a : b; }
  __device__ T warp_shfl_down(T value, int offset) const { return WARP_SHFL_DOWN(value, offset); }
};
template <class T>
__inline__ __device__ T WarpReduceSum(T value) {
  return WarpReduce(value, SumOfTwo<T>());
}
template <class T>
__inline__ __device__ T WarpReduceMax(T value) {
  return WarpReduce(value, LargerOfTwo<T>());
}

// `shared` has room for a value of each warp. The result is the first thread's.
template <class T, class Op, class B = Block1D>
__inline__ __device__ T BlockReduce(T value, const Op& op, const T& identity, T* shared) {
  const int lane = B::Tid() % C10_WARP_SIZE, warp = B::Tid() / C10_WARP_SIZE;
  value = WarpReduce(value, op);
  __syncthreads();  // whoever used `shared` before has read it
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = B::Tid() < B::Warps() ? shared[lane] : identity;
  return warp == 0 ? WarpReduce(value, op) : value;
}
template <class T, class B = Block1D>
__inline__ __device__ T BlockReduceSum(T value, T* shared) {
  return BlockReduce<T, SumOfTwo<T>, B>(value, SumOfTwo<T>(), T(0), shared);
}
template <class T, class B = Block1D>
__inline__ __device__ T BlockReduceMax(T value, T* shared) {
  return BlockReduce<T, LargerOfTwo<T>, B>(value, LargerOfTwo<T>(), T(std::numeric_limits<T>::lowest()), shared);
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace at::native::cuda_utils
#endif

namespace at::native::memory {
inline namespace ATEN_STABLE_VERSION {
// Loaded and stored at once.
template <class T, int count>
struct alignas(sizeof(T) * count) aligned_vector {
  T val[count];
};
template <int count, class T>
C10_HOST_DEVICE aligned_vector<T, count> load_vector(const T* base, uint32_t index) {
  return reinterpret_cast<const aligned_vector<T, count>*>(base)[index];
}
// How many elements of T, up to 8, are aligned there.
template <class T>
int can_vectorize_up_to(const char* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (const int count : {8, 4, 2})
    if (address % (sizeof(T) * static_cast<size_t>(count)) == 0) return count;
  return 1;
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace at::native::memory

namespace at::cuda {
inline namespace ATEN_STABLE_VERSION {
#define AT_APPLY_THREADS_PER_BLOCK 512
template <int step = 1>
bool getApplyGrid(uint64_t elements, dim3& grid, c10::DeviceIndex device, int threads = AT_APPLY_THREADS_PER_BLOCK) {
  if (device == -1) return false;
  const uint64_t each = static_cast<uint64_t>(threads) * step,
                 most = static_cast<uint64_t>(getDeviceProperties(device)->maxGridSize[0]);
  grid = dim3(static_cast<unsigned>(std::min((elements + each - 1) / each, most)));
  return true;
}
inline dim3 getApplyBlock(int threads = AT_APPLY_THREADS_PER_BLOCK) { return dim3(static_cast<unsigned>(threads)); }

// Memory of torch's for Thrust: thrust::cuda::par(allocator).
class ThrustAllocator {
 public:
  using value_type = char;
  char* allocate(std::ptrdiff_t bytes) {
    return static_cast<char*>(c10::cuda::CUDACachingAllocator::raw_alloc(static_cast<size_t>(bytes)));
  }
  void deallocate(char* at, size_t) { c10::cuda::CUDACachingAllocator::raw_delete(at); }
};

inline cudaDataType ScalarTypeToCudaDataType(c10::ScalarType type) {
  switch (type) {
#define X(name, code) \
  case c10::ScalarType::name: return code;
    // clang-format off
X(Byte, CUDA_R_8U) X(Char, CUDA_R_8I) X(Short, CUDA_R_16I) X(Int, CUDA_R_32I) X(Long, CUDA_R_64I) X(Half, CUDA_R_16F)
X(BFloat16, CUDA_R_16BF) X(Float, CUDA_R_32F) X(Double, CUDA_R_64F) X(ComplexHalf, CUDA_C_16F)
X(ComplexFloat, CUDA_C_32F) X(ComplexDouble, CUDA_C_64F) X(Float8_e4m3fn, CUDA_R_8F_E4M3)
X(Float8_e5m2, CUDA_R_8F_E5M2)
    // clang-format on
#undef X
                default
        : TORCH_INTERNAL_ASSERT(false, "Cannot convert ScalarType ", c10::toString(type), " to cudaDataType.");
  }
}
template <class T>
cudaDataType getCudaDataType() {
  return ScalarTypeToCudaDataType(c10::CppTypeToScalarType<T>::value);
}
}  // namespace ATEN_STABLE_VERSION
}  // namespace at::cuda
