// What the CUDA kernels of depthwise_conv2d share: the sum that they compute, and the way of images into shared memory.
//
// Forward and grad_input are one sum, a correlation of each plane with the taps of its channel,
//   out[o] = bias + sum_k w[k] in[(o * down - pad + k * dilation) / up],  where up divides that, and a pixel is there;
// grad_input exchanges up and down and flips the taps. grad_weight has the image in the place of `in`, the gradient in
// the place of the taps, and sums over the batch.
#pragma once

#include <numeric>

#include "../depthwise_conv2d.h"
#include "pointwise.cuh"

namespace customops::cuda {

// In flatten_copy.cu: fills `out` from an input of its shape and of any strides.
void copy_strided(const char* op, const Tensor& from, Tensor& out);

namespace depthwise {

constexpr int kWarp = 32;
constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;  // so that sums of a few don't overflow

struct Line {
  int64_t in, out, taps, up, down, pad, dilation;
};

// A weight or a bias: of the images' dtype, or float32 for 16-bit images, which is rounded to their dtype on reading.
template <class T>
struct Parameters {
  const void* data = nullptr;  // or none
  bool float32 = false;

  Parameters() = default;
  explicit Parameters(const Tensor* t)
      : data(t ? t->data_ptr() : nullptr), float32(t && t->scalar_type() == ScalarType::Float) {}
  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ acc_t<T> operator[](int64_t i) const { return widen(narrowed(i)); }
  __device__ T narrowed(int64_t i) const {
    T value;
    visit([&](const auto& element) { value = element(i); });
    return value;
  }
  // f(element) with the function element(i): for many elements at once, whose loads then don't wait for each other.
  template <class F>
  __device__ void visit(const F& f) const {
    if constexpr (sizeof(T) == 2)
      if (float32) return f([&](int64_t i) { return narrow<T>(static_cast<const float*>(data)[i]); });
    f([&](int64_t i) { return static_cast<const T*>(data)[i]; });
  }
};

struct Correlation {
  int64_t batch, channels;
  Line y, x;
  bool channels_last, flipped;
  const Tensor *weight, *bias;  // bias: null for none
  const void* in;
  void* out;
};

inline bool small(const Line& a) {
  return std::max({a.in * a.up, a.out * a.down, a.taps * a.dilation, a.up, a.down, std::abs(a.pad)}) < kMost;
}

inline bool stride_1(const Line& a) { return a.up == 1 && a.down == 1 && a.dilation == 1 && small(a); }

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Channels that a thread of the kernels for channels_last images takes.
constexpr int channel_lanes(int64_t taps) { return taps == 3 ? 4 : (taps == 5 ? 2 : 1); }

// Whether channels_last images are copied into planes. Large kernels are bound by multiply-adds, so that this is cheap
// beside them. So it is where a thread's channels don't divide the channels and there is much to do: the kernel that
// takes any number of them needs three times as long (128x58x28x28 pixels, H200). Not for what has no kernel in planes.
inline bool worth_transposing(const Line& y, const Line& x, int64_t batch, int64_t channels) {
  constexpr int64_t kMuch = 1 << 18;  // outputs
  const bool dense = stride_1(y) && stride_1(x);
  if (dense && y.taps * x.taps > 49) return true;
  const auto strided = [](const Line& a) {
    return a.up * a.down == 2 && (a.pad - (a.taps - 1) / 2) % a.up == 0 && a.dilation == 1 && small(a);
  };
  return (dense || (strided(y) && strided(x))) && y.taps == x.taps && channels % channel_lanes(x.taps) != 0 &&
         batch * channels * y.out * x.out >= kMuch;
}

// How `taps` taps lie over outputs from a multiple of up on, where pad = (taps - 1) / 2 modulo up. All is constant, and
// so is which tap meets which pixel.
template <int up, int down, int taps>
struct Reach {
  static constexpr int kUp = up, kDown = down, kTaps = taps, kSame = (taps - 1) / 2;
  static constexpr int kPhase = kSame % up;

  // Input pixels under the windows of n outputs.
  __host__ __device__ static constexpr int span(int n) { return (taps - 1 - kPhase + (n - 1) * down) / up + 1; }
  // The tap by which pixel i of these counts for output o, or -1.
  __host__ __device__ static constexpr int tap(int i, int o) {
    const int k = i * up + kPhase - o * down;
    return k < taps ? k : -1;
  }
};

// A pixel's elements as far as one access takes them: 4, 2 or 1, whatever divides the rows and the base.
template <class T>
int row_vector(const void* base, int64_t width, int64_t also = 0) {
  for (int v = 4; v > 1; v /= 2)
    if (width % v == 0 && also % v == 0 && reinterpret_cast<uintptr_t>(base) % (v * sizeof(T)) == 0) return v;
  return 1;
}

// An address in shared memory: a third of the instructions of one that may lie anywhere.
__device__ inline unsigned shared_address(const void* at) { return unsigned(__cvta_generic_to_shared(at)); }

// Copies that need no registers on their way, from sm_80 on; done after wait_copies, in the issuing thread's eyes.
// Those of 16 bytes can go past the L1 cache, which is small beside much shared memory.
template <int bytes, bool past_l1 = false>
__device__ void copy_async(unsigned shared, const void* global) {
  static_assert(bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (bytes >= 4) {
    if constexpr (past_l1 && bytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(global), "n"(bytes) : "memory");
    return;
  }
#endif
  *static_cast<Bits<bytes>*>(__cvta_shared_to_generic(shared)) = *static_cast<const Bits<bytes>*>(global);
}

constexpr int kMostStages = 4;

// Waits for all copies but those since the last `groups` calls of commit_copies.
__device__ inline void wait_copies(int groups) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  static_assert(kMostStages == 4);
  if (groups <= 0)
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  else if (groups == 1)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 2;" ::: "memory");
#endif
}

__device__ inline void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Goes through `images` images, with room for `stages` of them in shared memory: bring(stage) asks for the next one,
// use(stage) has the oldest. All threads of a block; what they wrote into shared memory before is there.
template <class Bring, class Use>
__device__ void for_images(int images, int stages, const Bring& bring, const Use& use) {
  __syncthreads();
  for (int s = 0; s + 1 < stages; ++s) {
    if (s < images) bring(s);
    commit_copies();
  }
  for (int n = 0, stage = 0; n < images; ++n) {
    if (stages > 1) wait_copies(stages - 2);
    __syncthreads();
    if (n + stages - 1 < images) bring(stage == 0 ? stages - 1 : stage - 1);
    commit_copies();
    if (stages == 1) {
      wait_copies(0);
      __syncthreads();
    }
    use(stage);
    if (++stage == stages) stage = 0;
  }
}

inline Tensor in_planes(const char* op, const Tensor& image) {
  Tensor planes = empty_image(image, image.size(0), image.size(1), image.size(2), image.size(3), false);
  copy_strided(op, image, planes);
  return planes;
}

// What a thread brings into shared memory for one image, again and again for the images of a batch: so that the loop
// over them has no index arithmetic, the places of the first kKept vectors are kept in registers. `Place` is called as
// place(i, to, from), with the number of a vector, and gives its offsets in elements.
template <int kKept, class Place>
struct Loads {
  const Place place;
  const int all;
  int to[kKept], from[kKept];

  __device__ Loads(const Place& place, int all) : place(place), all(all) {
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      if (const int at = threadIdx.x + i * blockDim.x; at < all)
        place(at, to[i], from[i]);
      else
        from[i] = -1;
  }
  template <int bytes, class T>
  __device__ void issue(T* patch, const T* image) const {
    if constexpr (bytes < 4) {  // not asynchronous: all that a thread reads is under way before the first is waited for
      T value[kKept];
#pragma unroll
      for (int i = 0; i < kKept; ++i)
        if (from[i] >= 0) value[i] = image[from[i]];
#pragma unroll
      for (int i = 0; i < kKept; ++i)
        if (from[i] >= 0) patch[to[i]] = value[i];
    } else {
      const unsigned shared = shared_address(patch);
#pragma unroll
      for (int i = 0; i < kKept; ++i)
        if (from[i] >= 0) copy_async<bytes, Place::kPastL1>(shared + to[i] * unsigned(sizeof(T)), image + from[i]);
    }
  }
  template <int kMostBytes = 16, class T>
  __device__ void issue_bytes(int bytes, T* patch, const T* image) const {
    if (kMostBytes == 16 && bytes == 16)
      issue<kMostBytes>(patch, image);
    else if (bytes == 8)
      issue<8>(patch, image);
    else if (bytes == 4)
      issue<4>(patch, image);
    else if constexpr (sizeof(T) == 2)
      issue<2>(patch, image);
    // What is too much for the registers: rare, and not worth a loop for every width.
#pragma unroll 1
    for (int at = threadIdx.x + kKept * blockDim.x; at < all; at += blockDim.x) {
      int to_rest, from_rest;
      place(at, to_rest, from_rest);
      if (from_rest < 0) continue;
      const unsigned shared = shared_address(patch + to_rest);
      if (kMostBytes == 16 && bytes == 16)
        copy_async<kMostBytes, Place::kPastL1>(shared, image + from_rest);
      else if (bytes == 8)
        copy_async<8>(shared, image + from_rest);
      else if (bytes == 4)
        copy_async<4>(shared, image + from_rest);
      else
        copy_async<2>(shared, image + from_rest);
    }
  }
};

// n / d and n % d for n below 2^22, by way of float32: a few instructions, where an integer division has dozens.
struct Quotient {
  int divisor;
  float inverse;

  __device__ explicit Quotient(int d) : divisor(d), inverse(1.0f / float(d)) {}
  __device__ int split(int& n) const {  // replaces n by n / d, returns n % d
    int q = int(float(n) * inverse), r = n - q * divisor;
    if (r < 0) q -= 1, r += divisor;
    if (r >= divisor) q += 1, r -= divisor;
    n = q;
    return r;
  }
};

// Part of some planes in shared memory: `rows` rows of `pitch` elements a plane, the first of them the pixel (y0, x0),
// which may lie outside the image; what lies outside is left alone. `vector` elements divide everything along x.
struct PlanesPlace {
  static constexpr bool kPastL1 = false;  // rows that lie in one line of the cache are read by several copies
  int y0, x0, rows, pitch, h, w, y_lo, x_lo, vector;
  Quotient height, vectors;

  __device__ PlanesPlace(int y0, int x0, int rows, int columns, int pitch, int h, int w, int vector)
      : y0(y0),
        x0(x0),
        rows(rows),
        pitch(pitch),
        h(h),
        w(w),
        y_lo(max(y0, 0)),
        x_lo(max(x0, 0)),
        vector(vector),
        height(max(min(y0 + rows, h) - y_lo, 0)),
        vectors(max((min(x0 + columns, w) - x_lo) / vector, 0)) {}
  __device__ int all(int planes) const { return planes * height.divisor * vectors.divisor; }
  __device__ void operator()(int i, int& to, int& from) const {
    const int x = x_lo + vectors.split(i) * vector, y = y_lo + height.split(i), plane = i;
    to = (plane * rows + y - y0) * pitch + x - x0;
    from = (plane * h + y) * w + x;
  }
};

// Brings rows of whole planes, or all columns of some rows of one plane, into shared memory: a run in memory, so that a
// thread's vectors lie at constant distances, and one copy is a handful of instructions. place() says where they go;
// all threads of a block of kBlock. Does nothing below sm_80, where no kernel that uses it is launched.
template <int kBlock, class T, class Place>
struct Run {
  static constexpr int kKept = 8;
  const Place& place;
  int vectors, first;  // of this thread: the number of vectors, the place of the first in memory
  unsigned to[kKept];

  __device__ Run(const Place& place, int planes) : place(place) {
    const PlanesPlace places = place();
    int unused;
    places(0, unused, first);
    first += int(threadIdx.x) * places.vector;
    vectors = (places.all(planes) - int(threadIdx.x) + kBlock - 1) / kBlock;
#pragma unroll
    for (int i = 0; i < kKept; ++i) to[i] = place_of(places, i);
  }
  __device__ static unsigned place_of(const PlanesPlace& places, int i) {
    int at, unused;
    places(threadIdx.x + i * kBlock, at, unused);
    return at * unsigned(sizeof(T));
  }
  // `from` is where this thread's first vector lies.
  template <int bytes>
  __device__ void issue(unsigned patch, const char* from) const {
#pragma unroll
    for (int half = 0; half < kKept; half += kKept / 2)
      if (half == 0 || half < vectors)
#pragma unroll
        for (int i = half; i < half + kKept / 2; ++i) copy<bytes>(i, patch + to[i], from + i * kBlock * bytes);
    if (kKept < vectors) {
      const PlanesPlace places = place();
#pragma unroll 1
      for (int i = kKept; i < vectors; ++i) copy<bytes>(i, patch + place_of(places, i), from + i * kBlock * bytes);
    }
  }
  // A comparison and a copy: of an `if` around a copy, the compiler makes eight instructions.
  template <int bytes>
  __device__ void copy(int i, unsigned to, const char* from) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (bytes == 2) {
      if (i < vectors) copy_async<2>(to, from);
    } else
      asm volatile("{.reg .pred p; setp.lt.s32 p, %0, %1; @p cp.async.ca.shared.global [%2], [%3], %4;}" ::"r"(i),
                   "r"(vectors), "r"(to), "l"(from), "n"(bytes)
                   : "memory");
#endif
  }
  __device__ void issue(int vector, unsigned patch, const T* from) const {
    if (vector == 4)
      issue<4 * sizeof(T)>(patch, reinterpret_cast<const char*>(from));
    else if (vector == 2)
      issue<2 * sizeof(T)>(patch, reinterpret_cast<const char*>(from));
    else
      issue<sizeof(T)>(patch, reinterpret_cast<const char*>(from));
  }
};

// The same for channels_last images: tiles of rows x columns pixels, with some of the channels of each.
struct PixelsTile {
  int rows, columns, pixel, vector;  // pixel: elements of one in shared memory; vector: elements that divide it
  Divider<uint32_t> vectors, divided_columns;

  PixelsTile() = default;
  PixelsTile(int64_t rows, int64_t columns, int64_t pixel, int64_t vector)
      : rows(int(rows)),
        columns(int(columns)),
        pixel(int(pixel)),
        vector(int(vector)),
        vectors(pixel / vector),
        divided_columns(columns) {}
  int64_t elements() const { return int64_t(rows) * columns * pixel; }
};

struct PixelsPlace {
  static constexpr bool kPastL1 = true;
  const PixelsTile& tile;
  int y0, x0, h, w, channels, all_channels;  // channels: from this tile's first on

  __device__ int all() const { return tile.rows * tile.columns * int(tile.vectors.divisor); }
  __device__ void operator()(int i, int& to, int& from) const {
    uint32_t rest = i;
    const int v = int(tile.vectors.split(rest)) * tile.vector;
    const int column = int(tile.divided_columns.split(rest)), row = int(rest), y = y0 + row, x = x0 + column;
    to = (row * tile.columns + column) * tile.pixel + v;
    from = unsigned(y) < unsigned(h) && unsigned(x) < unsigned(w) && v < channels ? (y * w + x) * all_channels + v : -1;
  }
};

// Bytes that one access takes of runs that start at multiples of `first` and of `also` elements: 16 or fewer.
template <class T>
int run_bytes(const void* base, int64_t first, int64_t also) {
  int bytes = kAccess;
  while (bytes > int(sizeof(T)) && (first * sizeof(T) % bytes != 0 || also * sizeof(T) % bytes != 0 ||
                                    reinterpret_cast<uintptr_t>(base) % bytes != 0))
    bytes /= 2;
  return bytes;
}

// The elements that one access takes of channels_last images, and of tiles with `pixel` channels.
template <class T>
int channel_vector(const void* a, const void* b, int64_t channels, int64_t pixel) {
  return std::min(run_bytes<T>(a, channels, pixel), run_bytes<T>(b, channels, pixel)) / int(sizeof(T));
}

// Writes n elements from shared memory by `threads` threads.
template <class T>
__device__ void store_run(T* to, const T* from, int n, int bytes, int thread, int threads) {
  const auto store = [&](auto sample) {
    using V = decltype(sample);
    constexpr int kElements = sizeof(V) / sizeof(T);
#pragma unroll 4
    for (int i = thread; i < n / kElements; i += threads)
      reinterpret_cast<V*>(to)[i] = reinterpret_cast<const V*>(from)[i];
    if constexpr (kElements > 1)
      if (const int i = n / kElements * kElements + thread; i < n) to[i] = from[i];
  };
  if (bytes == 16)
    store(Bits<16>());
  else if (bytes == 8)
    store(Bits<8>());
  else if (bytes == 4)
    store(Bits<4>());
  else if constexpr (sizeof(T) == 2)
    store(Bits<2>());
}

constexpr int64_t kWantedBlocks = 1024;  // of kernels without stages; fixed, so that results depend on shapes alone

// Vectors of channels that a block of a channels_last image takes: 16 of them or 32 channels, but at least 64 bytes of
// each pixel. With more, tiles have so few pixels that much of what is read is their edge. Somewhat fewer or more where
// that leaves none over and makes whole sectors, which is what memory reads and writes. Where that cannot be, all of up
// to 32 (144 bytes in one piece took two thirds of the time of three times 48), or what leaves none over. Pixels in
// shared memory stay aligned for 16 bytes.
inline int64_t channel_chunk(int64_t vectors, int64_t lanes, int64_t bytes) {
  constexpr int64_t kSector = 32, kMany = 32;
  const int64_t wanted = std::max(std::min<int64_t>(16, 32 / lanes), 64 / bytes);
  const int64_t unit = std::max<int64_t>(kAccess / bytes, 1);
  if (vectors <= wanted) return round_up(vectors, unit);
  const auto even = [&](int64_t chunk) { return vectors % chunk == 0 && chunk * bytes % kSector == 0; };
  for (int64_t chunk = wanted; 2 * chunk > wanted; chunk -= unit)
    if (even(chunk)) return chunk;
  for (int64_t chunk = wanted + unit; chunk <= std::min(2 * wanted, kMany); chunk += unit)
    if (even(chunk)) return chunk;
  if (vectors <= kMany) return round_up(vectors, unit);
  for (int64_t chunk = wanted; 2 * chunk > wanted; chunk -= unit)
    if (vectors % chunk == 0) return chunk;
  return wanted;
}

// How many of all_x by all_y threads' tiles such a block takes. `pixels(x, y)` is what it reads for so many, 0 where
// that is too much: wanted is much work for what is read, shared evenly by the members.
template <class Pixels>
std::pair<int64_t, int64_t> tiles_of_block(int64_t all_x, int64_t all_y, int64_t members, const Pixels& pixels) {
  std::pair<int64_t, int64_t> best{1, 1};
  double best_score = 0;
  for (int64_t x = 1; x <= std::min<int64_t>(all_x, 14); ++x)
    for (int64_t y = 1; y <= std::min<int64_t>(all_y, 14) && x * y <= 2 * members; ++y) {
      const int64_t read = pixels(x, y);
      if (read == 0) break;
      const int64_t rounds = ceil_div(x * y, members), threads = std::min(members, x * y);
      const double busy = double(all_x * all_y) / double(ceil_div(all_x, x) * ceil_div(all_y, y) * rounds * threads);
      const double score = busy * std::sqrt(double(x * y) / double(read)) * (2 * threads < members ? 0.7 : 1.0);
      if (score > best_score) best_score = score, best = {x, y};
    }
  return best;
}

// How a batch is shared out: a block goes through `images` of it, `stages` of which are in shared memory at a time.
struct Split {
  int images, stages;
};

// What one block of a kernel takes.
struct BlockNeeds {
  int64_t an_image;  // so many blocks for each image
  int64_t threads, registers, stage_bytes, other_bytes;
  bool past_l1 = false;
  int64_t most_images = kMost;  // of a split; at least the 65535th part of the batch
};

struct Gpu {
  int64_t multiprocessors, shared, stages;  // bytes of a multiprocessor's shared memory; most stages
};
constexpr Gpu kH200{132, 228 << 10, kMostStages};

inline Gpu gpu() {
  // Below sm_80 copies are not asynchronous, so that more stages gain nothing.
  return {device_attribute<cudaDevAttrMultiProcessorCount>(),
          device_attribute<cudaDevAttrMaxSharedMemoryPerMultiprocessor>(),
          device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 8 ? kMostStages : 2};
}

// Time is modelled as (waves of blocks + an idle end) * (images of a block + what its start costs, in images), where
// `start` bytes take as long as a block's start, and `image_bytes` are read and written for an image. The numbers fit
// times measured on an H200: what is chosen makes up to 1.3 times the speed.
inline Split split_batch(int64_t batch, const BlockNeeds& block, int64_t image_bytes, const Gpu& gpu, double start) {
  constexpr int64_t kUnderWay = 40 << 10;  // bytes on their way into a multiprocessor that hide the memory's latency
  constexpr double kIdleEnd = 0.1, kLastWave = 0.4;  // of a wave; what the last one takes however small it is
  const int64_t by_registers = std::max<int64_t>(65536 / (block.registers * block.threads), 1);
  const auto bytes = [&](int64_t stages) { return stages * block.stage_bytes + block.other_bytes + 1024; };
  const int64_t shared = block.past_l1 ? gpu.shared : gpu.shared / 8 * 7;  // the rest of it is the L1 cache
  // While one image is computed others come, unless as many blocks as registers allow have room for one each only.
  int64_t stages = 1;
  while (stages < gpu.stages && (stages == 1 || by_registers * (stages - 1) * block.stage_bytes < kUnderWay) &&
         by_registers * bytes(stages + 1) <= shared)
    ++stages;
  // Few blocks lose less at their start, many leave less of the GPU idle in the end.
  const int64_t by_shared = (gpu.shared - (2 << 10)) / bytes(stages);
  const int64_t at_once = gpu.multiprocessors * std::clamp<int64_t>(by_shared, 1, by_registers);
  const double start_images = start * double(block.an_image) / double(image_bytes);
  const int64_t fewest = ceil_div(batch, block.most_images), most = std::min<int64_t>(batch, 65535);
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

inline Split split_batch(const Correlation& p, int64_t element_bytes, const BlockNeeds& block) {
  const int64_t bytes = (p.y.in * p.x.in + p.y.out * p.x.out) * p.channels * element_bytes;
  return split_batch(p.batch, block, bytes, gpu(), 40e3);
}

// All threads of the block; bytes is a multiple of 16.
__device__ inline void clear(void* shared, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) static_cast<uint4*>(shared)[i] = uint4{};
}

// Adds row i of a thread's window, kX outputs wide and `lanes` channels deep, to the sums of its kY rows of outputs.
template <class R, int kX, int kY, int lanes, int width, class A>
__device__ void add_row(int i, const A (&taps)[R::kTaps * R::kTaps][lanes], const A (&row)[width][lanes], int shift,
                        A (&sum)[kY][kX][lanes]) {
#pragma unroll
  for (int y = 0; y < kY; ++y)
    if (const int ky = R::tap(i, y); ky >= 0)
#pragma unroll
      for (int x = 0; x < kX; ++x)
#pragma unroll
        for (int j = 0; j < R::span(kX); ++j)
          if (const int kx = R::tap(j, x); kx >= 0)
#pragma unroll
            for (int v = 0; v < lanes; ++v) sum[y][x][v] += taps[ky * R::kTaps + kx][v] * row[j + shift][v];
}

// The other way round: adds products of row i with the gradient to the sums of the taps.
template <class R, int kX, int kY, int lanes, int width, class A>
__device__ void add_taps(int i, const A (&grad)[kY][kX][lanes], const A (&row)[width][lanes], int shift,
                         A (&sum)[R::kTaps * R::kTaps][lanes]) {
#pragma unroll
  for (int y = 0; y < kY; ++y)
    if (const int ky = R::tap(i, y); ky >= 0)
#pragma unroll
      for (int x = 0; x < kX; ++x)
#pragma unroll
        for (int j = 0; j < R::span(kX); ++j)
          if (const int kx = R::tap(j, x); kx >= 0)
#pragma unroll
            for (int v = 0; v < lanes; ++v) sum[ky * R::kTaps + kx][v] += grad[y][x][v] * row[j + shift][v];
}

// Lets a block have more shared memory than it gets without asking; false where the GPU has less. Always as much as
// there is: another thread may launch the same kernel with more.
template <auto kernel>
bool allow_shared(int64_t bytes) {
  if (bytes <= 48 << 10) return true;
  return bytes <= once_a_device([](int) {
           const int most = device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>();
           if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) == cudaSuccess)
             return most;
           cudaGetLastError();  // not launch()'s business: another kernel will do
           return 0;
         });
}

// grad_weight goes through partial sums, one a split of the batch, added up in their order: the result does not depend
// on which block comes first.
struct WeightGradient {
  int64_t batch, channels;
  Line y, x;  // of the forward pass
  bool channels_last;
  Tensor in, grad, out;

  int64_t taps() const { return y.taps * x.taps; }
};

// Sums depend on how the batch is split: always as an H200 likes it, so that they depend on shapes alone.
inline Split split_batch(const WeightGradient& p, int64_t element_bytes, const BlockNeeds& block) {
  const int64_t bytes = (p.y.in * p.x.in + p.y.out * p.x.out) * p.channels * element_bytes;
  return split_batch(p.batch, block, bytes, kH200, 130e3);
}

// Memory for the partial sums: (splits, channels, taps) of acc_t<T>.
template <class T>
Tensor partial_sums(const WeightGradient& p, int64_t splits) {
  const int64_t n = splits * p.channels * p.taps() * int64_t(sizeof(acc_t<T>) / sizeof(T)), one = 1;
  return empty_strided(p.in, {&n, 1}, {&one, 1});
}

// 2^log_sums sums a block, each by as many threads as that leaves. O: T or float.
template <class O, class A>
__global__ void __launch_bounds__(kThreads) add_splits(const A* partial, O* out, int64_t n, int splits, int log_sums) {
  constexpr int kAtOnce = 8;  // loads that a thread waits for together: none of them is behind a branch
  __shared__ A sums[kThreads];
  const int a_block = 1 << log_sums, step = kThreads >> log_sums;
  const int64_t i = (int64_t(blockIdx.x) << log_sums) + (threadIdx.x & (a_block - 1)), from = min(i, n - 1);
  A sum = 0;
  for (int first = threadIdx.x >> log_sums; first < splits; first += kAtOnce * step) {
    A values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) values[k] = partial[min(first + k * step, splits - 1) * n + from];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (first + k * step < splits) sum += values[k];
  }
  for (int half = kThreads / 2; half >= a_block; half /= 2) {
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (int(threadIdx.x) < half) sum += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (int(threadIdx.x) < a_block && i < n) out[i] = narrow<O>(sum);
}

template <class T>
void launch_add_splits(const WeightGradient& p, const Tensor& partial, int64_t splits, cudaStream_t stream) {
  const int64_t n = p.channels * p.taps();
  int log_sums = 8;  // kThreads sums, unless a thread would add up more than 8 splits
  while (log_sums > 3 && (splits << log_sums) > 8 * kThreads) --log_sums;
  const auto launch = [&](auto* out) {
    add_splits<<<blocks(n, 1 << log_sums), kThreads, 0, stream>>>(static_cast<const acc_t<T>*>(partial.data_ptr()), out,
                                                                  n, int(splits), log_sums);
  };
  if constexpr (sizeof(T) == 2)
    if (p.out.scalar_type() == ScalarType::Float) return launch(static_cast<float*>(p.out.data_ptr()));
  launch(static_cast<T*>(p.out.data_ptr()));
}

// Each returns false where it has no kernel for the case. `direct` and `pixels` take channels_last, the others planes.
bool launch_small(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_small_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool launch_planes(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_direct(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_pixels(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_large(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_large_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool launch_mma(const Correlation& p, ScalarType dtype, cudaStream_t stream);
bool launch_mma_grad_weight(const WeightGradient& p, cudaStream_t stream);
bool has_tensor_cores();  // that the two can use

}  // namespace depthwise
}  // namespace customops::cuda
