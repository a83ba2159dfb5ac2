// flatten_copy: the elements of x in row-major order, as a new 1-D tensor. Reads x once, writes the copy once.
//
// The seven parts of an ATen kernel, in their order: (1) the schema stands in library.cpp, the method variant in
// customops/flatten_copy.py; (2) the dispatch key is named at the bottom of this file; then, below, (3) error checking,
// (4) allocation of the output, (5) dispatch over dtypes, (6) parallelisation, (7) data access and the computation.
#include "../allocate.h"
#include "../dispatch.h"
#include "simd.h"
#include "strided.h"

namespace customops::cpu {
namespace {

constexpr int64_t kBlock = 2048;  // elements a step: large enough to hide the index arithmetic of a strided row
constexpr int64_t kTile = 16;     // rows written side by side: one cache line of float32 in the other direction
constexpr int64_t kTileColumns = 64;
constexpr int64_t kStrip = 64 * kTileColumns;  // columns a work item takes, so that few long rows keep all threads busy

template <class T>
void copy(const Walk<1>& walk, const T* x, T* out, int64_t begin, int64_t end) {
  if (walk.flat()) return void(std::memcpy(out + begin, x + begin, (end - begin) * sizeof(T)));
  for (; begin < end; begin += kBlock) {
    const int64_t n = std::min(kBlock, end - begin);
    const T* from = read(walk, 0, x, begin, n, out + begin);
    if (from != out + begin) std::memcpy(out + begin, from, n * sizeof(T));
  }
}

// Transposed or channels_last input: what is contiguous in x are the columns of the output's rows. Reading along a row
// would touch a cache line for every element, so a tile is read column by column and written row by row, through the
// stack: the rows of the output may lie a power of two apart and evict each other from the cache.
struct TransposeTiles {
  int64_t rows, columns, step, strips, groups, items;  // items = matrices (the outer dimensions) x groups x strips

  TransposeTiles(const Walk<1>& walk, int64_t n)
      : rows(walk.size[1]),
        columns(walk.size[0]),
        step(walk.stride[0][0]),
        strips((columns + kStrip - 1) / kStrip),
        groups((rows + kTile - 1) / kTile),
        items(n / rows / columns * groups * strips) {}
};

template <class T>
void copy_transposed(const Walk<1>& walk, const TransposeTiles& t, const T* x, T* out, int64_t first, int64_t last) {
  alignas(64) T tile[kTile][kTileColumns];
  for (int64_t item = first; item < last; ++item) {
    const int64_t strip = item % t.strips, row = item / t.strips % t.groups * kTile,
                  matrix = item / t.strips / t.groups;
    const T* from = x + walk.offset(0, matrix, 2) + row;
    T* to = out + (matrix * t.rows + row) * t.columns;
    const int64_t height = std::min(kTile, t.rows - row), end = std::min(t.columns, (strip + 1) * kStrip);
    for (int64_t column = strip * kStrip; column < end; column += kTileColumns) {
      const int64_t width = std::min(kTileColumns, end - column);
      for (int64_t c = 0; c < width; ++c)
        for (int64_t r = 0; r < height; ++r) tile[r][c] = from[(column + c) * t.step + r];
      for (int64_t r = 0; r < height; ++r) std::memcpy(to + r * t.columns + column, tile[r], width * sizeof(T));
    }
  }
}

}  // namespace

Tensor flatten_copy(const Tensor& x) {
  check_dtype("flatten_copy", "x", x);  // (3)
  const int64_t n = x.numel(), one = 1;
  Tensor out = empty_strided(x, {&n, 1}, {&one, 1});  // (4)
  if (n == 0) return out;
  const Walk<1> walk(x.sizes(), contiguous_strides(x.sizes()), {&x});
  dispatch(x.scalar_type(), [&](auto zero) {  // (5)
    using T = decltype(zero);
    const T* from = x.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    if (walk.dims > 1 && walk.stride[0][1] == 1 && walk.stride[0][0] >= kTile) {
      const TransposeTiles tiles(walk, n);
      parallel(tiles.items, kGrain / (kTile * std::min(tiles.columns, kStrip)),
               [&](int64_t begin, int64_t end) {                      // (6)
                 copy_transposed(walk, tiles, from, to, begin, end);  // (7)
               });
    } else {
      parallel(n, kGrain,
               [&](int64_t begin, int64_t end) { run_simd([&](auto) { copy(walk, from, to, begin, end); }); });
    }
  });
  return out;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("flatten_copy", CUSTOMOPS_BOX("flatten_copy", &customops::cpu::flatten_copy));
  m.impl("_flatten_copy", CUSTOMOPS_BOX("flatten_copy", &customops::cpu::flatten_copy));
}
