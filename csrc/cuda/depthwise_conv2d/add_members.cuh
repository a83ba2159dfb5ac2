// How the kernels of wgrad whose threads go through the outputs of a channel add up their sums: those of a block in
// shared memory, those of a cluster's blocks in its first block; those of other blocks are partial sums
// (split_batch.cuh). The order is fixed.
#pragma once

#include "split_batch.cuh"

namespace customops::cuda::depthwise {

// Members whose sums a thread adds up with one wait for memory.
constexpr int64_t kAddedAtOnce = 8;
constexpr int64_t kMostInCluster = 8;  // blocks

// In how many parts the sums of so many members are added.
inline int parts_of_members(int64_t members, int64_t threads, int64_t block_sums) {
  return members > 2 * kAddedAtOnce ? int(std::min(threads / block_sums, ceil_div(members, kAddedAtOnce))) : 1;
}

// The sums of the threads with a channel in common, which lie as (sums, members, channels) in shared memory, added up
// in a fixed order: write(i, channel of the block, total). With many members, threads add parts of them first.
template <int kSums, class Params, class A, class Write>
__device__ void add_members(const Params& params, A* sums, const Write& write) {
  const int width = int(params.width.divisor), members = params.members;
  const auto add = [&](uint32_t k, int first, int step, int end, const auto& use) {
    uint32_t i = k;
    const int c = int(params.width.divmod(i));
    A* const at = sums + int(i) * members * width + c;
    A total = 0;
#pragma unroll 8
    for (int m = first; m < end; m += step) total += at[m * width];
    use(int(i), c, at, total);
  };
  const int parts = params.parts;
  if (parts > 1) {
    uint32_t part = threadIdx.x;
    const uint32_t k = params.sums.divmod(part);
    if (int(part) < parts)
      add(k, int(part), parts, members, [&](int, int, A* at, A total) { at[int(part) * width] = total; });
    __syncthreads();
  }
  for (uint32_t k = threadIdx.x; k < kSums * width; k += blockDim.x)
    add(k, 0, 1, parts > 1 ? parts : members, [&](int i, int c, A*, A total) { write(i, c, total); });
}

// The same for all blocks that share the channels, as far as they are a cluster (params.cluster): its first block adds
// up the others' totals, which they write into its shared memory, behind its own sums. Called by all threads of a
// block, after arrive_in_cluster().
template <int kSums, class Params, class A, class Write>
__device__ void add_block(const Params& params, A* sums, const Write& write) {
  __syncthreads();
  if (!params.cluster) return add_members<kSums>(params, sums, write);
  const int width = int(params.width.divisor);
  A* const totals = sums + kSums * params.members * width;
  wait_for_cluster();
  add_members<kSums>(params, sums, [&](int i, int c, A total) {
    store_in_cluster(totals + (int(blockIdx.y) * kSums + i) * width + c, 0, total);
  });
  arrive_in_cluster();
  if (blockIdx.y > 0) return;
  wait_for_cluster();
  for (uint32_t k = threadIdx.x; k < kSums * width; k += blockDim.x) {
    uint32_t i = k;
    const int c = int(params.width.divmod(i));
    A total = 0;
#pragma unroll 4
    for (int block = 0; block < int(gridDim.y); ++block) total += totals[block * kSums * width + k];
    write(int(i), c, total);
  }
}

}  // namespace customops::cuda::depthwise
