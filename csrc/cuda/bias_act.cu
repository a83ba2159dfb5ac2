// bias_act and its backward passes over dense memory, seen as [outer][channels][inner]. Each input is read once and
// each output written once, 16 bytes an access. No element costs a division to find its channel. Two kernels:
//   rows     long rows of one channel: a block takes a piece of a row;
//   columns  short rows, channels_last at the extreme: a thread steps through memory by a multiple of channels * inner
//            elements, so that it meets the same channels, and keeps their values of b, all the way.
// The gradient of b is summed on the way: every block leaves its sums in a workspace, and a second kernel adds them in
// a fixed order, so that results repeat to the bit.
#include <numeric>

#include "../bias_act.h"
#include "pointwise.cuh"

namespace customops::cuda {

constexpr int64_t kLongRow = 512;     // elements: from here on a row fills at least half a block
constexpr int64_t kMaxBlocks = 4096;  // of `columns` with sums: several waves on the largest GPU
constexpr int64_t kMinSummed = 32;    // elements that share an entry of the workspace, at least: 4 % of the traffic

// Functions of the activations for float32 and float64.
struct Libdevice {
#define CUSTOMOPS_FUNCTION(name)                                              \
  static __device__ __forceinline__ float name(float x) { return ::name(x); } \
  static __device__ __forceinline__ double name(double x) { return ::name(x); }
  CUSTOMOPS_FUNCTION(exp)
  CUSTOMOPS_FUNCTION(expm1)
  CUSTOMOPS_FUNCTION(log1p)
  CUSTOMOPS_FUNCTION(tanh)
#undef CUSTOMOPS_FUNCTION
  template <class A>
  static __device__ __forceinline__ A divide(A x, A y) {
    return x / y;
  }
};

// For 16-bit dtypes: to 2^-14, where float16 has 11 bits; beyond |x| = 87, quotients that bfloat16 just holds become 0.
// A series near 0, where the other formula would cancel.
struct Approximate {
  static __device__ __forceinline__ float exp(float x) { return __expf(x); }
  static __device__ __forceinline__ float divide(float x, float y) { return __fdividef(x, y); }
  static __device__ __forceinline__ float expm1(float x) {
    const float series = x * (1 + x * (1 / 2.f + x * (1 / 6.f + x * (1 / 24.f))));
    return fabsf(x) < 0.25f ? series : __expf(x) - 1;
  }
  static __device__ __forceinline__ float log1p(float x) {  // for x >= 0
    const float series = x * (1 - x * (1 / 2.f - x * (1 / 3.f - x * (1 / 4.f))));
    return x < 0.0625f ? series : __logf(1 + x);
  }
  static __device__ __forceinline__ float tanh(float x) {
    const float square = x * x, series = x * (1 - square * (1 / 3.f - square * (2 / 15.f)));
    return fabsf(x) < 0.25f ? series : 1 - __fdividef(2, 1 + __expf(2 * x));
  }
};

template <class T>
using Functions = std::conditional_t<sizeof(T) == 2, Approximate, Libdevice>;

// Stands for every curved activation in float64, where one kernel switches between them when it runs: with a kernel for
// each, float64 took a quarter of this file's machine code.
struct AnyCurved {
  static constexpr bool kCurved = true;
};

template <class Act, class T>
using Compiled = std::conditional_t<Act::kCurved && std::is_same_v<T, double>, AnyCurved, Act>;

// What bias_act_element takes and gives.
template <int order, class A>
struct Element {
  A in[order + 1], bias, out[kBiasActOutputs<order>];
};

template <int order>
__device__ __noinline__ Element<order, double> curved_element(BiasActSetting::Act act,
                                                              const BiasActScalars<double>& scalars,
                                                              Element<order, double> e) {
  const auto compute = [&](auto act) {
    bias_act_element<order, decltype(act), Libdevice>(scalars, e.in, e.bias, e.out);
  };
  switch (act) {
    case BiasActSetting::leaky: __builtin_unreachable();
    case BiasActSetting::tanh: compute(Tanh()); break;
    case BiasActSetting::sigmoid: compute(Sigmoid()); break;
    case BiasActSetting::elu: compute(Elu()); break;
    case BiasActSetting::softplus: compute(Softplus()); break;
    case BiasActSetting::swish: compute(Swish()); break;
  }
  return e;
}

template <int order, class T>
struct Operands {
  BiasActScalars<acc_t<T>> scalars;
  BiasActSetting::Act act;
  int64_t n, channels, inner;
  const T* in[order + 1];  // the last may be null: see BiasActProblem
  T* out[kBiasActOutputs<order>];
  const T* bias;   // null for none
  acc_t<T>* sums;  // the workspace; null for none
};

// Vectors of each input that a thread has in flight: some 64 bytes together, half of that where the activation needs
// registers and code for more than moving data.
template <int order, class Act, class T>
constexpr int kVectors = (order == 0 ? 4 : 2) / (Act::kCurved && sizeof(T) != 4 ? 2 : 1);
// `columns` keeps b and sums in registers beside them.
template <int order, class Act, class T>
constexpr int kColumnVectors = std::max(1, kVectors<order, Act, T> / 2);

// The outputs for n elements, in the type of tensors; in `bias_grad`, what b's gradient gets of each.
template <int order, class Act, class T, int n>
__device__ __forceinline__ void compute(const Operands<order, T>& o, const Vector<T, n> (&x)[order + 1],
                                        const acc_t<T> (&bias)[n], Vector<T, n> (&y)[kBiasActOutputs<order>],
                                        acc_t<T> (&bias_grad)[n]) {
  using A = acc_t<T>;
#pragma unroll
  for (int v = 0; v < n; ++v) {
    Element<order, A> e;
    e.bias = bias[v];
#pragma unroll
    for (int k = 0; k <= order; ++k) e.in[k] = widen(x[k].at[v]);
    if constexpr (std::is_same_v<Act, AnyCurved>)
      e = curved_element(o.act, o.scalars, e);
    else
      bias_act_element<order, Act, Functions<T>>(o.scalars, e.in, e.bias, e.out);
#pragma unroll
    for (int k = 0; k < kBiasActOutputs<order>; ++k) y[k].at[v] = narrow<T>(e.out[k]);
    bias_grad[v] = e.out[kBiasActOutputs<order> - 1];
  }
}

template <int order, class T, int n>
__device__ __forceinline__ void load(const Operands<order, T>& o, int64_t i, Vector<T, n> (&x)[order + 1]) {
#pragma unroll
  for (int k = 0; k <= order; ++k)
    if (k < order || o.in[k] != nullptr) x[k] = *reinterpret_cast<const Vector<T, n>*>(o.in[k] + i);
}

template <int order, class T, int n>
__device__ __forceinline__ void store(const Operands<order, T>& o, int64_t i,
                                      const Vector<T, n> (&y)[kBiasActOutputs<order>]) {
#pragma unroll
  for (int k = 0; k < kBiasActOutputs<order>; ++k) *reinterpret_cast<Vector<T, n>*>(o.out[k] + i) = y[k];
}

// The sum over a block, in thread 0; always added in the same order.
template <class A>
__device__ A block_sum(A value) {
  __shared__ A warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  if (threadIdx.x == 0)
    for (A part : warps) value += part;
  return value;
}

// Block (row, piece) of `pieces` a row; leaves one sum. A row may start and end anywhere: what its aligned vectors
// leave over at both ends, fewer than two vectors' worth, is done one element a thread.
template <int order, class Act, class T>
__global__ void __launch_bounds__(kThreads) rows(const __grid_constant__ Operands<order, T> o, unsigned pieces) {
  using A = acc_t<T>;
  constexpr int kVector = kAccess / sizeof(T), kUnroll = kVectors<order, Act, T>;
  const unsigned row = blockIdx.x / pieces, piece = blockIdx.x - row * pieces;
  const A b = o.bias ? widen(o.bias[row % unsigned(o.channels)]) : A(0);
  A bias[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) bias[v] = b;
  const int64_t begin = row * o.inner + piece * int64_t(kThreads * kVector * kUnroll);
  const int64_t end = min(begin + kThreads * kVector * kUnroll, (row + int64_t(1)) * o.inner);
  const int64_t first = (begin + kVector - 1) / kVector * kVector, last = end / kVector * kVector;
  A sum = 0;
  Vector<T, kVector> x[kUnroll][order + 1] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = first + (u * kThreads + int(threadIdx.x)) * kVector;
    if (i < last) load(o, i, x[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = first + (u * kThreads + int(threadIdx.x)) * kVector;
    if (i < last) {
      Vector<T, kVector> y[kBiasActOutputs<order>];
      A part[kVector];
      compute<order, Act>(o, x[u], bias, y, part);
      store(o, i, y);
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum += part[v];
    }
  }
  const int64_t head = min(first, end), tail = max(last, head);
  int64_t i = begin + threadIdx.x;
  if (i >= head) i += tail - head;
  if (i < end) {
    Vector<T, 1> one[order + 1] = {}, y[kBiasActOutputs<order>];
    A part[1];
    load(o, i, one);
    compute<order, Act>(o, one, {b}, y, part);
    store(o, i, y);
    sum += part[0];
  }
  if (order > 0 && o.sums != nullptr) {  // the op itself has no sums
    sum = block_sum(sum);
    if (threadIdx.x == 0) o.sums[blockIdx.x] = sum;
  }
}

// A period is a multiple of channels * inner elements and of the vector. Where it fits a block it is one `tile`,
// otherwise several; a block takes one tile of `each` periods in turn. It leaves `width` sums: one for each element of
// channels * inner if the period is one tile, one for each element of the period if not.
struct Columns {
  int64_t period, tiles, each, width;
};

template <int order, class Act, class T>
__global__ void __launch_bounds__(kThreads) columns(const __grid_constant__ Operands<order, T> o, Columns c) {
  using A = acc_t<T>;
  constexpr int kVector = kAccess / sizeof(T), kUnroll = kColumnVectors<order, Act, T>;
  __shared__ A shared[kThreads * kVector];
  const int64_t slab = blockIdx.x / c.tiles, tile = blockIdx.x - slab * c.tiles;
  const int64_t column = (tile * kThreads + threadIdx.x) * kVector;
  const bool inside = column < c.period;
  A bias[kVector] = {}, sum[kVector] = {};
  if (inside && o.bias != nullptr) {
    const uint64_t row = uint64_t(column) / uint64_t(o.inner);
    int64_t at = column - row * o.inner, channel = row % uint64_t(o.channels);
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      bias[v] = widen(o.bias[channel]);
      if (++at == o.inner) {
        at = 0;
        if (++channel == o.channels) channel = 0;
      }
    }
  }
  const int64_t end = inside ? min(o.n, (slab + 1) * c.each * c.period) : 0;
  int64_t cut = end;  // where a vector starts that the end of the tensor cuts off
#pragma unroll 1
  for (int64_t i = slab * c.each * c.period + column; i < end; i += kUnroll * c.period) {
    Vector<T, kVector> x[kUnroll][order + 1] = {};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u * c.period + kVector <= end) load(o, i + u * c.period, x[u]);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t j = i + u * c.period;
      if (j + kVector <= end) {
        Vector<T, kVector> y[kBiasActOutputs<order>];
        A part[kVector];
        compute<order, Act>(o, x[u], bias, y, part);
        store(o, j, y);
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] += part[v];
      } else if (j < end) {
        cut = j;
      }
    }
  }
  A* const to = o.sums + slab * c.width;
  A* const slot = c.tiles > 1 && o.sums != nullptr ? to + column : shared + threadIdx.x * kVector;
  if (order > 0 && (inside || c.tiles == 1))
#pragma unroll
    for (int v = 0; v < kVector; ++v) slot[v] = sum[v];
#pragma unroll 1
  for (int64_t j = cut; j < end; ++j) {
    const A b = o.bias ? widen(o.bias[uint64_t(j) / uint64_t(o.inner) % uint64_t(o.channels)]) : A(0);
    Vector<T, 1> one[order + 1] = {}, y[kBiasActOutputs<order>];
    A part[1];
    load(o, j, one);
    compute<order, Act>(o, one, {b}, y, part);
    store(o, j, y);
    if (order > 0) slot[j - cut] += part[0];
  }
  if (order == 0 || o.sums == nullptr || c.tiles > 1) return;
  // The period holds channels * inner several times: fold it in half until once.
  __syncthreads();
  const int width = int(c.width);
  for (int times = int(c.period) / width; times > 1;) {
    const int half = (times + 1) / 2;
    for (int k = threadIdx.x; k < (times - half) * width; k += kThreads) shared[k] += shared[k + half * width];
    __syncthreads();
    times = half;
  }
  for (int k = threadIdx.x; k < width; k += kThreads) to[k] = shared[k];
}

// db[c] = sum over a and b of sums[a][c][b]: one block a channel.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_up(const acc_t<T>* sums, T* db, int64_t channels, int64_t outer, int64_t inner) {
  acc_t<T> sum = 0;
  int64_t a = threadIdx.x / inner, b = threadIdx.x % inner;
  const int64_t a_step = kThreads / inner, b_step = kThreads % inner;
#pragma unroll 4
  for (int64_t k = threadIdx.x; k < outer * inner; k += kThreads) {
    sum += sums[(a * channels + blockIdx.x) * inner + b];
    a += a_step;
    b += b_step;
    if (b >= inner) b -= inner, ++a;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) db[blockIdx.x] = narrow<T>(sum);
}

// How `columns` divides n elements. Not static: nvcc names a source's internal symbols after its first external
// function, and where there is none after its own process id, which would end up in the wheel.
Columns columns_of(int64_t n, int64_t width, int64_t vector, int64_t unroll, bool summed) {
  const int64_t block = kThreads * vector;
  int64_t period = width / std::gcd(width, vector) * vector;
  if (period <= block) period *= block / period;
  const int64_t tiles = (period + block - 1) / block, periods = (n + period - 1) / period;
  int64_t each = unroll;
  if (summed) {
    const int64_t slabs = std::max<int64_t>(1, kMaxBlocks / tiles), repeats = tiles == 1 ? period / width : 1;
    each = std::max({each, (periods + slabs - 1) / slabs, kMinSummed / repeats});
    each = (each + unroll - 1) / unroll * unroll;
  }
  return {period, tiles, each, tiles == 1 ? width : period};
}

struct BiasAct {
  static bool usable(const Tensor& t) { return aligned(static_cast<const char*>(t.const_data_ptr())); }

  template <int order>
  static void run(const BiasActProblem& p) {
    p.setting.visit<order>([&](auto act) {
      dispatch(p.out[0].scalar_type(), [&](auto zero) {
        using T = decltype(zero);
        typed<order, Compiled<decltype(act), T>, T>(p);
      });
    });
  }

  template <int order, class Act, class T>
  static void typed(const BiasActProblem& p) {
    using A = acc_t<T>;
    constexpr int kVector = kAccess / sizeof(T);
    Operands<order, T> o{
        p.setting.scalars<A>(p.from_y), p.setting.act, p.numel(), p.channels, p.inner, {}, {}, nullptr, nullptr};
    for (size_t k = 0; k < p.in.size(); ++k) o.in[k] = static_cast<const T*>(p.in[k].const_data_ptr());
    for (size_t k = 0; k < p.out.size(); ++k) o.out[k] = static_cast<T*>(p.out[k].mutable_data_ptr());
    if (p.b) o.bias = static_cast<const T*>(p.b->const_data_ptr());
    if (p.inner >= kLongRow || p.channels == 1) {
      const int64_t pieces = blocks(p.inner, kThreads * kVector * kVectors<order, Act, T>),
                    outer = o.n / p.inner / p.channels;
      run_and_add<T>(p, o.sums, outer, pieces, [&](cudaStream_t stream) {
        rows<order, Act><<<unsigned(outer * p.channels * pieces), kThreads, 0, stream>>>(o, unsigned(pieces));
      });
    } else {
      const Columns c = columns_of(o.n, p.channels * p.inner, kVector, kColumnVectors<order, Act, T>, p.db.has_value());
      const int64_t slabs = (o.n + c.each * c.period - 1) / (c.each * c.period);
      run_and_add<T>(p, o.sums, slabs * (c.width / (p.channels * p.inner)), p.inner, [&](cudaStream_t stream) {
        columns<order, Act><<<unsigned(slabs * c.tiles), kThreads, 0, stream>>>(o, c);
      });
    }
  }

  // Launches `kernel` and, if b's gradient is needed, the sum of the outer * channels * inner values that it leaves.
  template <class T, class F>
  static void run_and_add(const BiasActProblem& p, acc_t<T>*& sums, int64_t outer, int64_t inner, const F& kernel) {
    std::optional<Tensor> workspace;
    if (p.db) {
      const int64_t entries = outer * p.channels * inner;
      const ScalarType dtype = std::is_same_v<T, double> ? ScalarType::Double : ScalarType::Float;
      workspace = torch::stable::new_empty(p.out[0], {&entries, 1}, dtype);
      sums = static_cast<acc_t<T>*>(workspace->mutable_data_ptr());
    }
    launch("bias_act", p.out[0], [&](cudaStream_t stream) {
      kernel(stream);
      if (p.db)
        add_up<T><<<unsigned(p.channels), kThreads, 0, stream>>>(sums, static_cast<T*>(p.db->mutable_data_ptr()),
                                                                 p.channels, outer, inner);
    });
  }
};

using Ops = BiasActOps<BiasAct>;

}  // namespace customops::cuda

STABLE_TORCH_LIBRARY_IMPL(customops, CUDA, m) {
  m.impl("bias_act", CUSTOMOPS_BOX("bias_act", &customops::cuda::Ops::forward));
  m.impl("_bias_act", CUSTOMOPS_BOX("bias_act", &customops::cuda::Ops::forward));
  m.impl("_bias_act_backward", CUSTOMOPS_BOX("bias_act", &customops::cuda::Ops::backward));
  m.impl("_bias_act_double_backward", CUSTOMOPS_BOX("bias_act", &customops::cuda::Ops::double_backward));
}
