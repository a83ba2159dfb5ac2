// bias_act and its backward passes: a dense loop over blocks that stay in the L1 cache. Each input is read once and
// each output written once; the sums for b's gradient are taken from the block before it leaves the cache.
//
// The sums do not depend on the number of threads: the work is cut into pieces by its size alone, each piece is summed
// in float64, and the pieces are added in order.
#include "../bias_act.h"

#include "functions.h"
#include "pointwise.h"

namespace customops::cpu {

// Calls f(offset, length, channel) for the pieces of elements [begin, begin + n) that lie in one channel; with one
// element a channel, for those that run through the channels from `channel` on.
template <class F>
void for_runs(int64_t channels, int64_t inner, int64_t begin, int64_t n, const F& f) {
  const int64_t length = inner == 1 ? channels : inner;
  int64_t at = begin % length, channel = inner == 1 ? at : begin / inner % channels;
  for (int64_t i = 0; i < n;) {
    const int64_t run = std::min(n - i, length - at);
    f(i, run, channel);
    i += run;
    at = 0;
    channel = inner == 1 || channel + 1 == channels ? 0 : channel + 1;
  }
}

template <class A>
double sum(const A* x, int64_t n) {
  A lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) lanes[l] += x[i + l];
  double total = 0;
  for (; i < n; ++i) total += x[i];
  for (A lane : lanes) total += lane;
  return total;
}

template <class T>
struct BiasActOperands {
  BiasActScalars<acc_t<T>> scalars;
  int64_t channels, inner;
  int inputs, outputs;  // as many as bias_act_element has
  const T* in[3];       // the last may be null: see BiasActProblem
  T* out[2];
  const acc_t<T>* bias;  // null for none
};

// One block, widened to the type of the arithmetic.
template <class A>
struct Block {
  const BiasActScalars<A>& scalars;
  const A* const* in;
  A* const* out;
  const A* bias;
  int64_t n;
};

// What differs from one activation to the next: all else is compiled once.
template <class A>
using Elements = void(const Block<A>&);

// elements() computes whole multiples of so many, and leaves the rest to run_rest: a loop for remainders would more
// than double its code. Of float64, which mostly calls the C library for each element, it computes all.
template <class A>
constexpr int64_t kWhole = std::is_same_v<A, float> ? 16 : 1;

template <int order, class Act, class A>
void elements(const Block<A>& block) {
  run_simd([&](auto) {
    const int64_t n = block.n & -kWhole<A>;
    const A *const x0 = block.in[0], *const x1 = block.in[order > 0], *const x2 = block.in[order],
                   *const bias = block.bias;
    const std::true_type yes;
    const std::false_type no;
    // Constants, because a branch would keep it from vectorising. As parameters, pointers need no check for overlap.
    const auto loop = [&](auto from_y, auto clamped, A* __restrict y0, A* __restrict y1) {
      BiasActScalars<A> s = block.scalars;
      s.from_y = from_y, s.clamped = clamped;
      CUSTOMOPS_TWO_A_TURN
      for (int64_t i = 0; i < n; ++i) {
        A from[order + 1], to[kBiasActOutputs<order>];
        from[0] = x0[i];
        if constexpr (order > 0) from[1] = x1[i];
        if constexpr (order > 1) from[2] = x2[i];
        bias_act_element<order, Act, Functions>(s, from, bias[i], to);
        y0[i] = to[0];
        if constexpr (order > 1) y1[i] = to[1];
      }
    };
    A *const y0 = block.out[0], *const y1 = block.out[order == 2];
    if (order == 0 || (block.scalars.clamped && !block.scalars.from_y))
      loop(no, yes, y0, y1);
    else if (block.scalars.from_y)  // where a clamp hides nothing
      loop(yes, no, y0, y1);
    else
      loop(no, no, y0, y1);
  });
}

// The last elements of a block, which fill no vector: through one of our own.
template <class A>
[[gnu::noinline]] void run_rest(Elements<A>* act, const Block<A>& block, int inputs, int outputs) {
  const int64_t rest = block.n % kWhole<A>, whole = block.n - rest;
  A in[3][kWhole<A>] = {}, out[2][kWhole<A>];
  for (int k = 0; k < inputs; ++k) std::copy_n(block.in[k] + whole, rest, in[k]);
  const A* const x[] = {in[0], in[1], in[2]};
  A* const y[] = {out[0], out[1]};
  act({block.scalars, x, y, block.bias + whole, kWhole<A>});
  for (int k = 0; k < outputs; ++k) std::copy_n(out[k], rest, block.out[k] + whole);
}

// Adds n elements from `begin` on to the sums of their channels. Where they hold a channel several times, its terms are
// added up by themselves first: rounding errors of one long sum grow with its length. A function of its own for each
// instruction set, which all orders and dtypes of the same arithmetic share.
template <class I, class A>
void add_sums(I isa, int64_t channels, int64_t inner, int64_t begin, int64_t n, const A* terms, double* sums) {
  outline(isa, [=](auto) {
    const bool several = std::max(channels, inner) <= kBlock && 2 * channels * inner <= kBlock;
    double part[kBlock / 2];
    double* const to = several ? part : sums;
    if (several) std::fill_n(part, channels, 0.);
    for_runs(channels, inner, begin, n, [&](int64_t at, int64_t run, int64_t c) {
      const A* last = terms + at;
      if (inner > 1)
        to[c] += sum(last, run);
      else
        for (int64_t i = 0; i < run; ++i) to[c + i] += last[i];
    });
    for (int64_t c = 0; several && c < channels; ++c) sums[c] += part[c];
  });
}

template <class T, class I>
void blocks(I isa, const BiasActOperands<T>& o, Elements<acc_t<T>>* act, int64_t begin, int64_t end, double* sums) {
  using A = acc_t<T>;
  constexpr bool kWide = std::is_same_v<T, A>;
  alignas(64) A wide[3][kBlock], result[2][kBlock], bias[kBlock] = {};
  const A* x[3];
  A* y[2];
  for (int k = 0; k < o.inputs; ++k)
    if (!kWide || !o.in[k]) std::fill_n(wide[k], kBlock, A(0));
  for (; begin < end; begin += kBlock) {
    const int64_t n = std::min(kBlock, end - begin);
    for (int k = 0; k < o.inputs; ++k) x[k] = o.in[k] ? widened(isa, o.in[k] + begin, n, wide[k]) : wide[k];
    for (int k = 0; k < o.outputs; ++k)
      if constexpr (kWide)
        y[k] = o.out[k] + begin;
      else
        y[k] = result[k];
    if (o.bias)
      for_runs(o.channels, o.inner, begin, n, [&](int64_t at, int64_t run, int64_t c) {
        if (o.inner == 1)
          std::copy_n(o.bias + c, run, bias + at);
        else
          std::fill_n(bias + at, run, o.bias[c]);
      });
    const Block<A> block{o.scalars, x, y, bias, kWide ? n : (n + kWhole<A> - 1) & -kWhole<A>};
    if (block.n >= kWhole<A>) act(block);
    if (block.n % kWhole<A>) run_rest(act, block, o.inputs, o.outputs);
    if (sums) add_sums(isa, o.channels, o.inner, begin, n, y[o.outputs - 1], sums);
    if constexpr (!kWide)
      for (int k = 0; k < o.outputs; ++k) narrow(isa, y[k], o.out[k] + begin, n);
  }
}

struct BiasAct {
  static bool usable(const Tensor&) { return true; }

  template <int order>
  static void run(const BiasActProblem& p) {
    dispatch(p.out[0].scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      p.setting.visit<order>([&](auto act) { typed<T>(p, order + 1, elements<order, decltype(act), acc_t<T>>); });
    });
  }

  template <class T>
  [[gnu::noinline]] static void typed(const BiasActProblem& p, int inputs, Elements<acc_t<T>>* act) {
    using A = acc_t<T>;
    const int outputs = int(p.out.size());
    std::vector<A> bias;
    if (const T* const b = p.b ? p.b->const_data_ptr<T>() : nullptr) bias.assign(b, b + p.channels);
    BiasActOperands<T> o{p.setting.scalars<A>(p.from_y), p.channels, p.inner, inputs, outputs, {}, {},
                         p.b ? bias.data() : nullptr};
    for (size_t k = 0; k < p.in.size(); ++k) o.in[k] = p.in[k].const_data_ptr<T>();
    for (size_t k = 0; k < p.out.size(); ++k) o.out[k] = static_cast<T*>(p.out[k].mutable_data_ptr());
    const int64_t n = p.numel();
    const auto work = [&](int64_t begin, int64_t end, double* sums) {
      run_simd([&](auto isa) { blocks(isa, o, act, begin, end, sums); });
    };
    if (!p.db) return parallel(n, kGrain, [&](int64_t begin, int64_t end) { work(begin, end, nullptr); });
    // At most 64 pieces, and never more sums than a fraction of the work itself.
    const int64_t least = std::max(kGrain, 16 * p.channels),
                  pieces = std::max<int64_t>(1, std::min<int64_t>(64, n / least));
    const int64_t each = (n + pieces - 1) / pieces;
    std::vector<double> sums(pieces * p.channels);
    parallel(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) work(i * each, std::min(n, (i + 1) * each), sums.data() + i * p.channels);
    });
    T* const db = static_cast<T*>(p.db->mutable_data_ptr());
    for (int64_t c = 0; c < p.channels; ++c) {
      double total = 0;
      for (int64_t i = 0; i < pieces; ++i) total += sums[i * p.channels + c];
      db[c] = T(A(total));
    }
  }
};

using Ops = BiasActOps<BiasAct>;

}  // namespace customops::cpu

STABLE_TORCH_LIBRARY_IMPL(customops, CPU, m) {
  m.impl("bias_act", CUSTOMOPS_BOX("bias_act", &customops::cpu::Ops::forward));
  m.impl("_bias_act", CUSTOMOPS_BOX("bias_act", &customops::cpu::Ops::forward));
  m.impl("_bias_act_backward", CUSTOMOPS_BOX("bias_act", &customops::cpu::Ops::backward));
  m.impl("_bias_act_double_backward", CUSTOMOPS_BOX("bias_act", &customops::cpu::Ops::double_backward));
}
