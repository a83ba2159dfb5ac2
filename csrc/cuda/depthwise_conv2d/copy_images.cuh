// Copies of images into shared memory: asynchronous, and planned once for all images of a batch.
#pragma once

#include "problem.cuh"

namespace customops::cuda::depthwise {

template <class T>
int row_vector(const void* base, int64_t width, int64_t also = 0) {
  return int(row_vector(sizeof(T), alignment_of(base), width, also));
}

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

// An address in shared memory: it takes a third of the instructions of a generic one.
__device__ inline unsigned shared_address(const void* at) { return unsigned(__cvta_generic_to_shared(at)); }

// From sm_80 on, a copy that needs no registers; complete for the issuing thread after wait_copies. Copies of 16 bytes
// can bypass the L1 cache, which is small where blocks take much shared memory.
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

// Copies the aligned 16 bytes that `from` lies in, without what is at `end` or after it.
template <class T>
__device__ void copy_aligned(unsigned shared, const T* from, const T* end) {
  from = reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(from) / kAccess * kAccess);
  if (end - from >= kAccess / int(sizeof(T))) return copy_async<kAccess, true>(shared, from);
#pragma unroll 1
  for (; from < end; ++from, shared += sizeof(T)) copy_async<sizeof(T)>(shared, from);
}

constexpr int kMaxStages = 4;

// Waits for all copies but those since the last `groups` calls of commit_copies.
__device__ inline void wait_copies(int groups) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  static_assert(kMaxStages == 4);
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

// Starts the copies of `count` elements from `start` on, in whole vectors: `start` is a multiple of a vector's
// elements, and the rest of the last vector is copied too, as far as `in` goes. It is aligned and has `elements`
// elements.
template <class T>
__device__ void copy_span(const T* in, int64_t start, int count, int64_t elements, T* to) {
  constexpr int kVector = kAccess / sizeof(T);
  const int vectors = (count + kVector - 1) / kVector;
#pragma unroll 2
  for (int i = int(threadIdx.x); i < vectors; i += int(blockDim.x)) {
    const int64_t at = start + i * kVector;
    if (at + kVector <= elements)
      copy_async<kAccess>(shared_address(to + i * kVector), in + at);
    else
      for (int v = 0; at + v < elements; ++v) to[i * kVector + v] = in[at + v];
  }
  commit_copies();
}

// Goes through `images` images, with room for `stages` of them in shared memory: load(stage) starts the copies of the
// next image, use(stage) computes the oldest one. For all threads of a block; sees what they wrote into shared memory
// before. meanwhile() is called once, while the first images are on their way. With kOneLoad, the machine code has
// `load` once instead of twice, for kernels that take no longer so.
template <bool kOneLoad = false, class Load, class Use, class Meanwhile>
__device__ void for_images(int images, int stages, const Load& load, const Use& use, const Meanwhile& meanwhile) {
  __syncthreads();
  for (int s = 0; !kOneLoad && s + 1 < stages; ++s) {
    if (s < images) load(s);
    commit_copies();
  }
  meanwhile();
#pragma unroll 1
  for (int n = kOneLoad ? 1 - stages : 0, stage = kOneLoad && stages > 1; n < images; ++n) {
    if (n >= 0) {  // before, nothing has been copied
      if (stages > 1) wait_copies(stages - 2);
      __syncthreads();
    }
    if (n + stages - 1 < images) load(stage == 0 ? stages - 1 : stage - 1);
    commit_copies();
    if (stages == 1) {
      wait_copies(0);
      __syncthreads();
    }
    if (n >= 0) use(stage);
    if (++stage == stages) stage = 0;
  }
}
template <bool kOneLoad = false, class Load, class Use>
__device__ void for_images(int images, int stages, const Load& load, const Use& use) {
  for_images<kOneLoad>(images, stages, load, use, [] {});
}

// What a thread copies into shared memory for each image of a batch. The offsets of its first kKept vectors stay in
// registers, so that the loop over the images has no index arithmetic. source(i, to, from) computes the offsets of
// vector i, in elements.
template <int kKept, class Source>
struct Loads {
  const Source source;
  const int all;
  int to[kKept], from[kKept];

  __device__ Loads(const Source& source, int all) : source(source), all(all) {
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      if (const int at = threadIdx.x + i * blockDim.x; at < all)
        source(at, to[i], from[i]);
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
        if (from[i] >= 0) copy_async<bytes, Source::kPastL1>(shared + to[i] * unsigned(sizeof(T)), image + from[i]);
    }
  }
  template <int kMaxBytes = 16, class T>
  __device__ void issue_bytes(int bytes, T* patch, const T* image) const {
    if (kMaxBytes == 16 && bytes == 16)
      issue<kMaxBytes>(patch, image);
    else if (bytes == 8)
      issue<8>(patch, image);
    else if (bytes == 4)
      issue<4>(patch, image);
    else if constexpr (sizeof(T) == 2) {
      issue<2>(patch, image);
      return issue_rest_singly(patch, image);
    }
    // Vectors of several elements beyond kKept are rare, and not worth a loop for every width.
#pragma unroll 1
    for (int at = threadIdx.x + kKept * blockDim.x; at < all; at += blockDim.x) {
      int to_offset, from_offset;
      source(at, to_offset, from_offset);
      if (from_offset < 0) continue;
      const unsigned shared = shared_address(patch + to_offset);
      if (kMaxBytes == 16 && bytes == 16)
        copy_async<kMaxBytes, Source::kPastL1>(shared, image + from_offset);
      else if (bytes == 8)
        copy_async<8>(shared, image + from_offset);
      else
        copy_async<4>(shared, image + from_offset);
    }
  }
  // Copies the aligned vectors of 16 bytes that contain the source's elements, without what is at `end`, where an
  // allocation may end, or after it.
  template <class T>
  __device__ void issue_aligned(T* patch, const T* image, const T* end) const {
    const unsigned shared = shared_address(patch);
    const auto copy = [&](int to, int from) { copy_aligned(shared + to * unsigned(sizeof(T)), image + from, end); };
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      if (from[i] >= 0) copy(to[i], from[i]);
#pragma unroll 1
    for (int at = threadIdx.x + kKept * blockDim.x; at < all; at += blockDim.x) {
      int to_offset, from_offset;
      source(at, to_offset, from_offset);
      if (from_offset >= 0) copy(to_offset, from_offset);
    }
  }
  // The elements beyond kKept, where a vector is one 16-bit element: several are under way before the first is waited
  // for.
  template <class T>
  __device__ void issue_rest_singly(T* patch, const T* image) const {
    constexpr int kAtOnce = 4;
#pragma unroll 1
    for (int at = threadIdx.x + kKept * blockDim.x; at < all; at += kAtOnce * blockDim.x) {
      int to_offset[kAtOnce];
      T value[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        int from_offset = -1;
        if (const int next = at + i * int(blockDim.x); next < all) source(next, to_offset[i], from_offset);
        if (from_offset < 0)
          to_offset[i] = -1;
        else
          value[i] = image[from_offset];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (to_offset[i] >= 0) patch[to_offset[i]] = value[i];
    }
  }
};

// n / d and n % d for n below 2^22, by way of float32: a few instructions, where an integer division has dozens.
struct Quotient {
  int divisor;
  float inverse;

  __device__ explicit Quotient(int d) : divisor(d), inverse(1.0f / float(d)) {}
  __device__ int divmod(int& n) const {  // replaces n by n / d, returns n % d
    int quotient = int(float(n) * inverse), r = n - quotient * divisor;
    if (r < 0) quotient -= 1, r += divisor;
    if (r >= divisor) quotient += 1, r -= divisor;
    n = quotient;
    return r;
  }
};

// Part of some planes in shared memory: `rows` rows of `pitch` elements a plane, the first of them the pixel (y0, x0),
// which may lie outside the image; what lies outside is left alone. `vector` elements divide everything along x.
struct PlanesSource {
  static constexpr bool kPastL1 = false;  // rows that lie in one line of the cache are read by several copies
  int y0, x0, rows, pitch, h, w, y_lo, x_lo, vector;
  Quotient height, vectors;

  __device__ PlanesSource(int y0, int x0, int rows, int columns, int pitch, int h, int w, int vector)
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
    const int x = x_lo + vectors.divmod(i) * vector, y = y_lo + height.divmod(i), plane = i;
    to = (plane * rows + y - y0) * pitch + x - x0;
    from = (plane * h + y) * w + x;
  }
};

// Copies whole planes, or whole rows of one plane, into shared memory. They are one run in memory: a thread's vectors
// are a constant distance apart, so that a copy takes a handful of instructions. source() makes the PlanesSource with
// their offsets. For all threads of a block of kBlock. Not for GPUs below sm_80, where no kernel uses it.
// kSingly: 16-bit elements that have no asynchronous copy, because rows are odd, are read several at a time; that takes
// registers.
template <int kBlock, class T, class Source, bool kSingly = false>
struct Run {
  static constexpr int kKept = 8;
  const Source& source;
  int vectors, first;  // of this thread: the number of vectors, the source of the first in memory
  unsigned to[kKept];

  __device__ Run(const Source& source, int planes) : source(source) {
    const PlanesSource places = source();
    int unused;
    places(0, unused, first);
    first += int(threadIdx.x) * places.vector;
    vectors = (places.all(planes) - int(threadIdx.x) + kBlock - 1) / kBlock;
#pragma unroll
    for (int i = 0; i < kKept; ++i) to[i] = place_of(places, i);
  }
  __device__ static unsigned place_of(const PlanesSource& places, int i) {
    int at, unused;
    places(threadIdx.x + i * kBlock, at, unused);
    return at * unsigned(sizeof(T));
  }
  // `from` is where this thread's first vector lies.
  template <int bytes>
  __device__ void issue(unsigned patch, const char* from) const {
    if constexpr (bytes == 2 && kSingly) return issue_singly(patch, from);
#pragma unroll
    for (int half = 0; half < kKept; half += kKept / 2)
      if (half == 0 || half < vectors)
#pragma unroll
        for (int i = half; i < half + kKept / 2; ++i) copy<bytes>(i, patch + to[i], from + i * kBlock * bytes);
    if (kKept < vectors) {
      const PlanesSource places = source();
#pragma unroll 1
      for (int i = kKept; i < vectors; ++i) copy<bytes>(i, patch + place_of(places, i), from + i * kBlock * bytes);
    }
  }
  __device__ void issue_singly(unsigned patch, const char* from) const {
    constexpr int kAtOnce = kKept / 2;
    const auto copy_some = [&](int first, const auto& place) {
      Bits<2> value[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i < vectors) value[i] = *reinterpret_cast<const Bits<2>*>(from + (first + i) * kBlock * 2);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i < vectors) *static_cast<Bits<2>*>(__cvta_shared_to_generic(patch + place(first + i))) = value[i];
    };
#pragma unroll
    for (int first = 0; first < kKept; first += kAtOnce) copy_some(first, [&](int i) { return to[i]; });
    if (kKept < vectors) {
      const PlanesSource places = source();
#pragma unroll 1
      for (int first = kKept; first < vectors; first += kAtOnce)
        copy_some(first, [&](int i) { return place_of(places, i); });
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

// Shifted copies: where a pixel's channels do not start at a multiple of 16 bytes, the aligned vectors that contain
// them are copied. Such a pixel has room for one more vector in shared memory, and its first channel lies address % 16
// bytes after the start of that room.
template <class T>
constexpr int kAccessElements = kAccess / int(sizeof(T));

// How many elements after a block's last channel the copies go on: the first vector may start so many before its first.
template <class T, bool kShifted>
constexpr int kShiftedMore = kShifted ? kAccessElements<T> - 1 : 0;

// An address by its element, modulo 2^32: only the remainder by a vector's elements is used.
template <class T>
__device__ unsigned element_of(const T* image, int64_t offset) {
  return unsigned(reinterpret_cast<uintptr_t>(image) / sizeof(T) + offset);
}
template <class T>
__device__ int shift_of(unsigned element) {
  return int(element % kAccessElements<T>);
}

struct PixelsSource {
  static constexpr bool kPastL1 = true;
  const PixelsTile& tile;
  int y0, x0, h, w, channels, all_channels;  // channels: from this tile's first on

  __device__ int all() const { return tile.rows * tile.columns * int(tile.vectors.divisor); }
  __device__ void operator()(int i, int& to, int& from) const {
    uint32_t rest = i;
    const int v = int(tile.vectors.divmod(rest)) * tile.vector;
    const int column = int(tile.divided_columns.divmod(rest)), row = int(rest), y = y0 + row, x = x0 + column;
    to = (row * tile.columns + column) * tile.pixel + v;
    from = unsigned(y) < unsigned(h) && unsigned(x) < unsigned(w) && v < channels ? (y * w + x) * all_channels + v : -1;
  }
};

// All threads of the block; bytes is a multiple of 16.
__device__ inline void clear(void* shared, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) static_cast<uint4*>(shared)[i] = uint4{};
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

}  // namespace customops::cuda::depthwise
