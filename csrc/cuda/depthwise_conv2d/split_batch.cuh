// How depthwise_conv2d's work is divided among the blocks of a grid, and how the partial sums of wgrad are added.
#pragma once

#include "../device.h"
#include "copy_images.cuh"

namespace customops::cuda::depthwise {

constexpr int64_t kSector = 32;          // bytes that memory is read by
constexpr int64_t kWantedBlocks = 1024;  // of kernels without stages; fixed, so that results depend on shapes alone

// Vectors of channels that a block of a channels_last image takes: 16 vectors or 32 channels, but at least 64 bytes of
// each pixel. With more, tiles have so few pixels that most of what is read is their edge. The number moves up or down
// where it then divides the channels and makes whole sectors of memory. If none does: all of up to 32 vectors (144
// bytes at once took two thirds of the time of three times 48), or else what divides the channels. Pixels in shared
// memory stay aligned for 16 bytes.
inline int64_t channel_chunk(int64_t vectors, int64_t lanes, int64_t bytes) {
  constexpr int64_t kMany = 32;
  const int64_t target = std::max(std::min<int64_t>(16, 32 / lanes), 64 / bytes);
  const int64_t unit = std::max<int64_t>(kAccess / bytes, 1);
  if (vectors <= target) return round_up(vectors, unit);
  const auto even = [&](int64_t chunk) { return vectors % chunk == 0 && chunk * bytes % kSector == 0; };
  for (int64_t chunk = target; 2 * chunk > target; chunk -= unit)
    if (even(chunk)) return chunk;
  for (int64_t chunk = target + unit; chunk <= std::min(2 * target, kMany); chunk += unit)
    if (even(chunk)) return chunk;
  if (vectors <= kMany) return round_up(vectors, unit);
  for (int64_t chunk = target; 2 * chunk > target; chunk -= unit)
    if (vectors % chunk == 0) return chunk;
  return target;
}

// The same where tiles are copied shifted (copy_images.cuh): as even as possible, up to 32 channels.
inline int64_t shifted_chunk(int64_t vectors, int64_t lanes) {
  const int64_t most = 32 / lanes;
  return round_up(ceil_div(vectors, ceil_div(vectors, most)), 8 / lanes);
}

// How many of image_tiles_x by image_tiles_y threads' tiles such a block takes. `pixels(x, y)` is what it reads for so
// many, 0 where that is too much. The best choice does much work for what it reads, and gives every member of the block
// its share.
template <class Pixels>
std::pair<int64_t, int64_t> tiles_of_block(int64_t image_tiles_x, int64_t image_tiles_y, int64_t members,
                                           const Pixels& pixels) {
  std::pair<int64_t, int64_t> best{1, 1};
  double best_score = 0;
  for (int64_t x = 1; x <= std::min<int64_t>(image_tiles_x, 14); ++x)
    for (int64_t y = 1; y <= std::min<int64_t>(image_tiles_y, 14) && x * y <= 2 * members; ++y) {
      const int64_t read = pixels(x, y);
      if (read == 0) break;
      const int64_t rounds = ceil_div(x * y, members), threads = std::min(members, x * y);
      const double busy = double(image_tiles_x * image_tiles_y) /
                          double(ceil_div(image_tiles_x, x) * ceil_div(image_tiles_y, y) * rounds * threads);
      const double score = busy * std::sqrt(double(x * y) / double(read)) * (2 * threads < members ? 0.7 : 1.0);
      if (score > best_score) best_score = score, best = {x, y};
    }
  return best;
}

// A block goes through `images` images of the batch; `stages` of them are in shared memory at a time.
struct BatchSplit {
  int images, stages;
};

// What one block of a kernel takes.
struct BlockNeeds {
  int64_t an_image;  // so many blocks for each image
  int64_t threads, registers, stage_bytes, other_bytes;
  bool past_l1 = false;
  int64_t max_images = kMaxIndex;  // of a split; at least the 65535th part of the batch
};

// The model: time = (waves of blocks + an idle end) * (images of a block + the cost of its start, in images). A block's
// start takes as long as `start` bytes; an image reads and writes `image_bytes`. The numbers fit times measured on an
// H200, where the choices are up to 1.3 times as fast.
inline BatchSplit split_batch(int64_t batch, const BlockNeeds& block, int64_t image_bytes, const Gpu& gpu,
                              double start) {
  // Below sm_80 copies are not asynchronous, so that more stages gain nothing.
  const int64_t max_stages = gpu.capability >= 80 ? kMaxStages : 2;
  constexpr int64_t kBytesInFlight =
      40 << 10;  // bytes on their way into a multiprocessor that hide the memory's latency
  constexpr double kIdleEnd = 0.1, kLastWave = 0.4;  // of a wave; what the last one takes however small it is
  const int64_t by_registers = std::max<int64_t>(65536 / (block.registers * block.threads), 1);
  const auto bytes = [&](int64_t stages) { return stages * block.stage_bytes + block.other_bytes + 1024; };
  const int64_t shared = block.past_l1 ? gpu.shared_a_multiprocessor
                                       : gpu.shared_a_multiprocessor / 8 * 7;  // the rest of it is the L1 cache
  // While one image is computed others come, unless as many blocks as registers allow have room for one each only.
  int64_t stages = 1;
  while (stages < max_stages && (stages == 1 || by_registers * (stages - 1) * block.stage_bytes < kBytesInFlight) &&
         by_registers * bytes(stages + 1) <= shared)
    ++stages;
  // Few blocks lose less at their start, many leave less of the GPU idle in the end.
  const int64_t by_shared = (gpu.shared_a_multiprocessor - (2 << 10)) / bytes(stages);
  const int64_t at_once = gpu.multiprocessors * std::clamp<int64_t>(by_shared, 1, by_registers);
  const double start_images = start * double(block.an_image) / double(image_bytes);
  const int64_t fewest = ceil_div(batch, block.max_images), most = std::min<int64_t>(batch, 65535);
  int64_t images = batch;
  double best = 0;
  for (int64_t waves = 1; waves <= 32; ++waves) {
    const int64_t splits = std::clamp(waves * at_once / block.an_image, fewest, most);
    const int64_t each = ceil_div(batch, splits), blocks = ceil_div(batch, each) * block.an_image;
    const double full = double(blocks / at_once), last = double(blocks % at_once) / double(at_once);
    const double partial = last > 0 ? kLastWave + (1 - kLastWave) * last : 0;
    const double time = (full + partial + kIdleEnd) * (double(each) + start_images);
    if (best == 0 || time < best) best = time, images = each;
  }
  return {int(images), int(std::min(stages, images))};
}

inline BatchSplit split_batch(const ForwardProblem& problem, int64_t element_bytes, const BlockNeeds& block) {
  const int64_t bytes =
      (problem.y.in * problem.x.in + problem.y.out * problem.x.out) * problem.channels * element_bytes;
  return split_batch(problem.batch, block, bytes, current_gpu(), 40e3);
}

// Sums depend on how the batch is split: always as is best for an H200, so that they depend on shapes alone.
inline BatchSplit split_batch(const WgradProblem& problem, int64_t element_bytes, const BlockNeeds& block) {
  const int64_t bytes =
      (problem.y.in * problem.x.in + problem.y.out * problem.x.out) * problem.channels * element_bytes;
  return split_batch(problem.batch, block, bytes, kH200, 130e3);
}

// Allows a block that much shared memory beyond the default; false if the GPU has less. Asks for all there is, because
// another thread may launch the same kernel with more.
template <auto kernel>
bool allow_shared(int64_t bytes) {
  if (bytes <= 48 << 10) return true;
  return bytes <= once_a_device([](int) {
           const int most = device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>();
           if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) == cudaSuccess)
             return most;
           cudaGetLastError();  // the caller fails with the op's name
           return 0;
         });
}

// Launches a kernel over a grid of x by y blocks, with its parameters alone; fails with the op's name where the GPU has
// less shared memory than choose.h found.
template <auto kernel, class Params>
void launch_kernel(Kernel name, int64_t x, int64_t y, int64_t threads, int64_t shared_bytes, const Params& params,
                   cudaStream_t stream) {
  if (!allow_shared<kernel>(shared_bytes)) fail_choice(name);
  kernel<<<dim3(unsigned(x), unsigned(y)), unsigned(threads), shared_bytes, stream>>>(params);
}

// The blocks of a grid's column are one cluster of at most 8, from sm_90 on: they run at the same time, and write into
// each other's shared memory.
template <auto kernel, class Params>
void launch_clusters(Kernel name, int64_t x, int64_t y, int64_t threads, int64_t shared_bytes, const Params& params,
                     cudaStream_t stream) {
  if (!allow_shared<kernel>(shared_bytes)) fail_choice(name);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 1, cluster.val.clusterDim.y = unsigned(y), cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(x), unsigned(y)), config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = size_t(shared_bytes), config.stream = stream;
  config.attrs = &cluster, config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, params);
}

// A barrier of a cluster. No thread may write to another block before a first one: that block may not have started.
__device__ inline void arrive_in_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ inline void wait_for_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
// Writes a value to where `at` is in the shared memory of another block of the cluster.
template <class A>
__device__ void store_in_cluster(A* at, unsigned block, A value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(block));
  if constexpr (sizeof(A) == 4)
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
  else
    asm volatile("st.shared::cluster.f64 [%0], %1;" ::"r"(there), "d"(value) : "memory");
#endif
}

// Lets the next kernel start (programmatic dependent launch) once all blocks of this one have started or ended. It has
// to call wait_for_last_kernel() before it reads results.
__device__ inline void start_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_last_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Memory for the partial sums: (splits, channels, taps) of acc_t<T>.
template <class T>
Memory partial_sums(const WgradProblem& problem, int64_t splits) {
  return Memory(splits * problem.channels * problem.taps() * int64_t(sizeof(acc_t<T>)));
}

// Adds up the partial sums of `splits` splits (add_splits.cu). early: the kernel before has start_next_kernel.
void launch_add_splits(const WgradProblem& problem, const Memory& partial, int64_t splits, cudaStream_t stream,
                       bool early = false);

// Where a block of wgrad writes its sums: partial sums of its split, or the gradient itself if there is one split.
template <class T>
struct WgradResult {
  acc_t<T>* partial;  // (splits, channels, taps), or none
  void* out;          // of T, or float
  bool float32;

  __device__ void write(int64_t split, int64_t sums, int64_t i, acc_t<T> total) const {
    if (partial != nullptr)
      partial[split * sums + i] = total;
    else if (sizeof(T) == 2 && float32)
      static_cast<float*>(out)[i] = float(total);
    else
      static_cast<T*>(out)[i] = narrow<T>(total);
  }
};

template <class T>
class WgradPartialSums {
 public:
  WgradPartialSums(const WgradProblem& problem, int64_t splits) : splits_(splits) {
    if (splits > 1) partial_ = partial_sums<T>(problem, splits);
    result_ = {splits > 1 ? static_cast<acc_t<T>*>(partial_.data()) : nullptr, problem.out, problem.float32_weight};
  }
  WgradResult<T> result() const { return result_; }
  void finish(const WgradProblem& problem, cudaStream_t stream, bool early = false) const {
    if (splits_ > 1) launch_add_splits(problem, partial_, splits_, stream, early);
  }

 private:
  int64_t splits_;
  Memory partial_;
  WgradResult<T> result_;
};

}  // namespace customops::cuda::depthwise
