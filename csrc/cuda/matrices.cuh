// Tensor cores' instructions for matrices of 16-bit numbers in shared memory, with sums in float32; sm_80 and newer.
#pragma once

#include "elements.cuh"

namespace customops::cuda {

// Four matrices of 8x8; lane i has the address of row i % 8 of matrix i / 8. A lane gets two neighbours of a row, or,
// `transposed`, of a column.
template <bool transposed = false>
__device__ void load_matrices(uint32_t (&to)[4], unsigned from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
#endif
}

// Two of them: lanes 0 to 15 have the addresses.
template <bool transposed = false>
__device__ void load_matrices(uint32_t (&to)[2], unsigned from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(from)
                 : "memory");
#endif
}

// sum += a * b: 16x16 by 16x8.
template <class T>
__device__ void multiply_16(float (&sum)[4], const uint32_t* a, const uint32_t* b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, c10::Half>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// 16x8 by 8x8.
template <class T>
__device__ void multiply_8(float (&sum)[4], const uint32_t* a, const uint32_t* b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, c10::Half>)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}

// 16x32 by 32x8, where at most two of every four neighbours in a row of the first matrix are not zero: `a` has two of
// each four. metadata: their positions, two bits each, ascending; lower half: of row lane / 4, upper half: lane / 4
// + 8. Lanes 4n have those of columns 0 to 15, lanes 4n + 1 those of 16 to 31.
template <class T>
__device__ void multiply_sparse_32(float (&sum)[4], const uint32_t* a, const uint32_t* b, uint32_t metadata) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// From CUDA 12.5 on ptxas can be told that positions ascend; without that, later GPUs may be slow.
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5)
#define CUSTOMOPS_SPARSE "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32."
#else
#define CUSTOMOPS_SPARSE "mma.sp.sync.aligned.m16n8k32.row.col.f32."
#endif
  if constexpr (std::is_same_v<T, c10::Half>)
    asm volatile(
        CUSTOMOPS_SPARSE "f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata));
  else
    asm volatile(CUSTOMOPS_SPARSE
                 "bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0;"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
                   "r"(metadata));
#undef CUSTOMOPS_SPARSE
#endif
}

// Two numbers rounded to 16 bits, the first in the lower half.
template <class Two>
__device__ Two round_two(float low, float high) {
  if constexpr (std::is_same_v<Two, __half2>)
    return __floats2half2_rn(low, high);
  else
    return __floats2bfloat162_rn(low, high);
}
template <class Two>
__device__ uint32_t bits_of(Two two) {
  uint32_t bits;
  memcpy(&bits, &two, sizeof bits);
  return bits;
}

// Transposes a matrix of 8x8: a lane gives two neighbours of a row, and gets two of a column.
__device__ inline uint32_t transpose_matrix(uint32_t two) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(two));
#endif
  return two;
}

}  // namespace customops::cuda
