// upfirdn2d: zero-stuffed, padded, filtered, thinned out images, in one pass. Reads x once and writes y once, but for
// the rows that neighbouring strips share.
//
// Work goes in tiles: a strip of output rows by a block of columns (and channels), whose rows stay in the L2 cache. A
// ring buffer keeps the input rows that the filter spans: as they are for a 2-D filter; already filtered along x for a
// separable one, whose image between the two passes never exists. Rows are stored phase by phase: D = down/gcd rows of
// every D-th pixel, P = up/gcd rows of every P-th output. Every tap is then one multiply-add over two contiguous rows,
// for any up and down; and as pixels of a channels_last image are C neighbours, so it is for both memory formats.
#include "../upfirdn2d.h"

#include <numeric>
#include <optional>
#include <vector>

#include "simd.h"
#include "strided.h"

namespace customops::cpu {
namespace {

constexpr int64_t kTile = 2048;    // elements of a tile's row: 8 kB of float32, so that a dozen rows fit into L2
constexpr int64_t kChannels = 64;  // of a tile, at most: 4 cache lines
constexpr int64_t kRows = 32;      // of a strip, at least: it reads again what the filter spans

template <class A>
struct Term {
  const A* row;
  A factor;
};

// out = sum of factor * row; four rows at a time, so that out goes through the registers once for four.
template <class A>
void combine(const Term<A>* terms, int64_t count, A* __restrict out, int64_t n) {
  if (count < 4) std::fill(out, out + n, A(0));
  for (bool first = true; count >= 4; terms += 4, count -= 4, first = false) {
    const A *a = terms[0].row, *b = terms[1].row, *c = terms[2].row, *d = terms[3].row;
    const A fa = terms[0].factor, fb = terms[1].factor, fc = terms[2].factor, fd = terms[3].factor;
    if (first) {
      CUSTOMOPS_TWO_A_TURN
      for (int64_t i = 0; i < n; ++i) out[i] = fa * a[i] + fb * b[i] + (fc * c[i] + fd * d[i]);
    } else {
      CUSTOMOPS_TWO_A_TURN
      for (int64_t i = 0; i < n; ++i) out[i] += fa * a[i] + fb * b[i] + (fc * c[i] + fd * d[i]);
    }
  }
  for (; count > 0; ++terms, --count) {
    const A* a = terms->row;
    const A fa = terms->factor;
    CUSTOMOPS_TWO_A_TURN
    for (int64_t i = 0; i < n; ++i) out[i] += fa * a[i];
  }
}

// phases[m][s] = line[s*count + m] for pixels of `unit` elements, and back. Two phases have a loop of their own, which
// the compiler turns into shuffles.
template <class A>
void split(const A* line, int64_t count, int64_t length, int64_t unit, A* __restrict phases) {
  if (count == 2 && unit == 1) {
    A* __restrict odd = phases + length;
    for (int64_t s = 0; s < length; ++s) phases[s] = line[2 * s], odd[s] = line[2 * s + 1];
  } else {
    for (int64_t m = 0; m < count; ++m)
      for (int64_t s = 0; s < length; ++s)
        for (int64_t c = 0; c < unit; ++c) phases[(m * length + s) * unit + c] = line[(s * count + m) * unit + c];
  }
}

template <class A>
void weave(const A* phases, int64_t count, int64_t length, int64_t unit, A* __restrict line) {
  if (count == 2 && unit == 1) {
    const A* odd = phases + length;
    for (int64_t s = 0; s < length; ++s) line[2 * s] = phases[s], line[2 * s + 1] = odd[s];
  } else {
    for (int64_t m = 0; m < count; ++m)
      for (int64_t s = 0; s < length; ++s)
        for (int64_t c = 0; c < unit; ++c) line[(s * count + m) * unit + c] = phases[(m * length + s) * unit + c];
  }
}

// `pixels` pixels of `unit` elements, `step` apart in the image, contiguous in the tile.
template <class I, class T>
void load(I isa, const T* in, int64_t pixels, int64_t step, int64_t unit, acc_t<T>* out) {
  if (step == unit) unit *= pixels, pixels = 1;
  for (; pixels > 0; --pixels, in += step, out += unit) {
    if constexpr (std::is_same_v<T, acc_t<T>>)
      std::memcpy(out, in, unit * sizeof(T));
    else
      widen(isa, in, out, unit);
  }
}

template <class I, class T>
void store(I isa, const acc_t<T>* in, int64_t pixels, int64_t step, int64_t unit, T* out) {
  if (step == unit) unit *= pixels, pixels = 1;
  for (; pixels > 0; --pixels, in += unit, out += step) {
    if constexpr (std::is_same_v<T, acc_t<T>>)
      std::memcpy(out, in, unit * sizeof(T));
    else
      narrow(isa, in, out, unit);
  }
}

// How the image is cut, and where the taps of an output pixel lie in a row that is stored phase by phase.
struct Plan {
  const Upfirdn2d& problem;
  int64_t planes, pixel;            // images in memory; elements from one pixel to the next
  int64_t in_phases, out_phases;    // D, P
  int64_t chunk, chunks;            // channels of a tile
  int64_t periods, block, blocks;   // P outputs and D inputs are a period: in a row, in a tile
  int64_t rows, strips;             // output rows of a tile
  int64_t first = 0, span = 0;      // period of the first pixel of period 0's windows; periods that windows add
  int64_t ring, slot;               // input rows that are kept; elements of one
  std::vector<Axis::Window> phase;  // of the outputs of period 0

  explicit Plan(const Upfirdn2d& problem)
      : problem(problem),
        planes(problem.channels_last ? problem.batch : problem.batch * problem.channels),
        pixel(problem.channels_last ? problem.channels : 1) {
    const int64_t common = std::gcd(problem.x.up, problem.x.down);
    in_phases = problem.x.down / common;
    out_phases = problem.x.up / common;
    if (out_phases >= problem.x.out)
      out_phases = problem.x.out, in_phases = 1;  // one period: memory must not grow with up
    chunks = (pixel + kChannels - 1) / kChannels;
    chunk = ((pixel + chunks - 1) / chunks + 15) / 16 * 16;
    if (chunks == 1) chunk = pixel;
    periods = (problem.x.out + out_phases - 1) / out_phases;
    const int64_t most = std::max<int64_t>(kTile / (chunk * std::max(in_phases, out_phases)), 8);
    blocks = (periods + most - 1) / most;
    block = (periods + blocks - 1) / blocks;
    const int64_t wanted = 4 * torch::stable::get_num_threads() / std::max<int64_t>(planes * chunks * blocks, 1);
    strips = std::max<int64_t>(std::min(wanted, problem.y.out / kRows), 1);
    rows = (problem.y.out + strips - 1) / strips;
    int64_t last = 0;
    for (int64_t r = 0; r < out_phases; ++r) {
      phase.push_back(problem.x.window(r));
      const auto& w = phase.back();
      first = r == 0 ? floor_div(w.pixel, in_phases) : std::min(first, floor_div(w.pixel, in_phases));
      last = std::max(r == 0 ? first : last, floor_div(w.pixel + std::max<int64_t>(w.count, 1) - 1, in_phases));
    }
    span = last - first;
    ring = (problem.y.taps + problem.y.up - 1) / problem.y.up;
    slot = (problem.filter.separable ? out_phases * block : in_phases * (block + span)) * chunk;
  }

  int64_t items() const { return planes * chunks * blocks * strips; }
};

template <class T>
struct Tiles {
  using A = acc_t<T>;
  const Plan& plan;
  const T* in;
  T* out;
  std::vector<A> taps_x, taps_y, taps;  // in the order of z; gain is in taps_y, or in taps
  std::vector<A> rows, line, phases, result;
  std::vector<Term<A>> terms;

  Tiles(const Plan& plan, const T* in, T* out) : plan(plan), in(in), out(out) {
    const Upfirdn2d& problem = plan.problem;
    const Filter& f = problem.filter;
    const auto at = [&](const float* from, int64_t stride, int64_t k, int64_t count) {
      return from == nullptr ? A(1) : A(from[(f.reversed ? count - 1 - k : k) * stride]);
    };
    if (f.separable) {
      for (int64_t k = 0; k < problem.x.taps; ++k) taps_x.push_back(at(f.data, f.stride_x, k, problem.x.taps));
      for (A tap : taps_x) taps_y.push_back(tap * A(problem.gain));
    } else {
      for (int64_t ky = 0; ky < problem.y.taps; ++ky)
        for (int64_t kx = 0; kx < problem.x.taps; ++kx) {
          const float* row = f.data ? f.data + (f.reversed ? problem.y.taps - 1 - ky : ky) * f.stride_y : nullptr;
          taps.push_back(at(row, f.stride_x, kx, problem.x.taps) * A(problem.gain));
        }
    }
    rows.resize(plan.ring * plan.slot);
    line.resize(std::max(plan.out_phases * plan.block, plan.in_phases * (plan.block + plan.span)) * plan.chunk);
    phases.resize(line.size());
    result.resize(plan.out_phases * plan.block * plan.chunk);
    terms.resize((problem.y.taps / problem.y.up + 1) * (problem.x.taps / problem.x.up + 1));
  }

  // Terms of output phase r from one row of input, which is stored phase by phase; `tap` is the row of the filter.
  Term<A>* add_terms(Term<A>* term, int64_t r, const A* row, const A* tap, int64_t length, int64_t unit) const {
    const auto& w = plan.phase[r];
    for (int64_t j = 0; j < w.count; ++j) {
      const int64_t m = floor_mod(w.pixel + j, plan.in_phases), t = floor_div(w.pixel + j, plan.in_phases);
      *term++ = {row + (m * length + t - plan.first) * unit, tap[w.tap + j * plan.problem.x.up]};
    }
    return term;
  }

  template <class I>
  void run(I isa, int64_t item) {
    const Upfirdn2d& problem = plan.problem;
    const int64_t strip = item % plan.strips, q0 = item / plan.strips % plan.blocks * plan.block;
    item /= plan.strips * plan.blocks;
    const int64_t c0 = item % plan.chunks * plan.chunk, plane = item / plan.chunks;
    const int64_t unit = std::min(plan.chunk, plan.pixel - c0), width = std::min(plan.block, plan.periods - q0);
    if (unit <= 0 || width <= 0) return;  // rounding chunk or block up may leave the last one empty
    const T* from = in + plane * problem.y.in * problem.x.in * plan.pixel + c0;
    T* to = out + (plane * problem.y.out * problem.x.out + q0 * plan.out_phases) * plan.pixel + c0;
    const int64_t pixels = std::min(width * plan.out_phases, problem.x.out - q0 * plan.out_phases);
    const int64_t end = std::min((strip + 1) * plan.rows, problem.y.out);
    for (int64_t oy = strip * plan.rows, next = 0; oy < end; ++oy) {
      const auto w = problem.y.window(oy);
      const int64_t begin = std::max<int64_t>(w.pixel, 0), stop = std::min(w.pixel + w.count, problem.y.in);
      for (next = std::max(next, begin); next < stop; ++next)
        read_row(isa, from + next * problem.x.in * plan.pixel, q0, width, unit, row_of(next));
      A* sum = result.data();
      const bool direct = std::is_same_v<T, A> && plan.out_phases == 1 && unit == plan.pixel;
      if (direct) sum = reinterpret_cast<A*>(to + oy * problem.x.out * plan.pixel);
      if (problem.filter.separable) {
        Term<A>* term = terms.data();
        for (int64_t i = begin; i < stop; ++i) *term++ = {row_of(i), taps_y[w.tap + (i - w.pixel) * problem.y.up]};
        combine(terms.data(), term - terms.data(), sum, plan.out_phases * width * unit);
      } else {
        for (int64_t r = 0; r < plan.out_phases; ++r) {
          Term<A>* term = terms.data();
          for (int64_t i = begin; i < stop; ++i) {
            const A* tap = taps.data() + (w.tap + (i - w.pixel) * problem.y.up) * problem.x.taps;
            term = add_terms(term, r, row_of(i), tap, width + plan.span, unit);
          }
          combine(terms.data(), term - terms.data(), sum + r * width * unit, width * unit);
        }
      }
      if (direct) continue;
      if (plan.out_phases > 1) weave(sum, plan.out_phases, width, unit, line.data()), sum = line.data();
      store(isa, sum, pixels, plan.pixel, unit, to + oy * problem.x.out * plan.pixel);
    }
  }

 private:
  A* row_of(int64_t i) { return rows.data() + i % plan.ring * plan.slot; }

  template <class I>
  void read_row(I isa, const T* row, int64_t q0, int64_t width, int64_t unit, A* slot) {
    const Upfirdn2d& problem = plan.problem;
    const int64_t length = width + plan.span, d = plan.in_phases;
    A* const split_row = problem.filter.separable ? phases.data() : slot;
    A* const whole = d > 1 ? line.data() : split_row;
    const int64_t begin = (q0 + plan.first) * d, end = begin + length * d;
    const int64_t left = std::clamp<int64_t>(0, begin, end), right = std::clamp(problem.x.in, left, end);
    std::fill(whole, whole + (left - begin) * unit, A(0));
    load(isa, row + left * plan.pixel, right - left, plan.pixel, unit, whole + (left - begin) * unit);
    std::fill(whole + (right - begin) * unit, whole + (end - begin) * unit, A(0));
    if (d > 1) split(whole, d, length, unit, split_row);
    if (!problem.filter.separable) return;
    for (int64_t r = 0; r < plan.out_phases; ++r) {
      Term<A>* term = add_terms(terms.data(), r, split_row, taps_x.data(), length, unit);
      combine(terms.data(), term - terms.data(), slot + r * width * unit, width * unit);
    }
  }
};

}  // namespace

Tensor upfirdn2d(const Tensor& x, const std::optional<Tensor>& f, int64_t up_x, int64_t up_y, int64_t down_x,
                 int64_t down_y, int64_t pad_x0, int64_t pad_x1, int64_t pad_y0, int64_t pad_y1, bool flip_filter,
                 double gain) {
  Upfirdn2d problem =
      prepare_upfirdn2d(x, f, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1, flip_filter, gain);
  if (problem.out.numel() == 0) return problem.out;
  const Plan plan(problem);
  dispatch(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = problem.in.const_data_ptr<T>();
    T* to = problem.out.mutable_data_ptr<T>();
    parallel(plan.items(), kGrain / (plan.rows * plan.block * plan.out_phases * plan.chunk),
             [&](int64_t begin, int64_t end) {
               Tiles<T> tiles(plan, from, to);
               run_simd([&](auto isa) {
                 for (int64_t item = begin; item < end; ++item) tiles.run(isa, item);
               });
             });
  });
  return problem.out;
}

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("upfirdn2d", CUSTOMOPS_BOX("upfirdn2d", &customops::cpu::upfirdn2d));
  m.impl("_upfirdn2d", CUSTOMOPS_BOX("upfirdn2d", &customops::cpu::upfirdn2d));
}
