// bias_act: y = clip(act(x + b along dim) * gain, -clamp, clamp), and its derivatives: all that is not a loop.
//
// One element function serves three orders: 0 is the op, 1 its backward, 2 the backward of that. They need the
// activation's value, slope and curvature. Most activations give the last two as functions of their own value, which a
// backward then takes from y and leaves x to be freed.
#pragma once

#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "allocate.h"
#include "dispatch.h"
#include "select.h"

#ifdef __CUDACC__
#define CUSTOMOPS_BOTH __host__ __device__ __forceinline__
#else
#define CUSTOMOPS_BOTH inline CUSTOMOPS_INLINED
#endif

namespace customops {

template <class A>
struct BiasActScalars {
  A alpha, gain, inverse_gain, clamp;
  bool clamped, from_y;
};

// A number that is not above zero: M's exp need not look for one that overflows.
template <class A>
struct NotAbove0 {
  A x;
  CUSTOMOPS_BOTH operator A() const { return x; }
};

// An activation has value(z), slope(r) and curve(r) = slope'(r). r is the value where kOfValue, z elsewhere; M has the
// device's functions. Products are computed before they are chosen from: a compiler that may not skip a floating-point
// trap could not vectorise it the other way round.

// z or alpha * z: linear (alpha 1), relu (alpha 0) and lrelu. r counts by its sign only.
struct Leaky {
  static constexpr bool kOfValue = false, kCurved = false;
  template <class M, class A>
  static CUSTOMOPS_BOTH A value(const BiasActScalars<A>& s, A z) {
    const A scaled = s.alpha * z, negative = s.alpha != A(0) ? scaled : A(0);  // relu(-inf) is 0, not 0 * -inf
    return CUSTOMOPS_SELECT(z < A(0), negative, z);
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A slope(const BiasActScalars<A>& s, A r) {
    return r > A(0) ? A(1) : s.alpha;
  }
};

struct Tanh {
  static constexpr bool kOfValue = true, kCurved = true;
  template <class M, class A>
  static CUSTOMOPS_BOTH A value(const BiasActScalars<A>&, A z) {
    return M::tanh(z);
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A slope(const BiasActScalars<A>&, A r) {
    const A slope = A(1) - r * r;
    return CUSTOMOPS_SELECT(slope < A(0), A(0), slope);  // y was rounded, so r may lie beyond 1
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A curve(const BiasActScalars<A>&, A r) {
    return A(-2) * r;
  }
};

struct Sigmoid {
  static constexpr bool kOfValue = true, kCurved = true;
  template <class M, class A>
  static CUSTOMOPS_BOTH A value(const BiasActScalars<A>&, A z) {
    return M::divide(A(1), A(1) + M::exp(-z));
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A slope(const BiasActScalars<A>&, A r) {
    const A slope = r * (A(1) - r);
    return CUSTOMOPS_SELECT(slope < A(0), A(0), slope);
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A curve(const BiasActScalars<A>&, A r) {
    return A(1) - A(2) * r;
  }
};

// z or alpha * (exp(z) - 1): elu (alpha 1) and selu, whose outer factor goes into the gain.
struct Elu {
  static constexpr bool kOfValue = true, kCurved = true;
  template <class M, class A>
  static CUSTOMOPS_BOTH A value(const BiasActScalars<A>& s, A z) {
    const A below = s.alpha * M::expm1(z);
    return CUSTOMOPS_SELECT(z < A(0), below, z);
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A slope(const BiasActScalars<A>& s, A r) {
    const A below = r + s.alpha, positive = CUSTOMOPS_SELECT(below < A(0), A(0), below);
    return r > A(0) ? A(1) : positive;
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A curve(const BiasActScalars<A>&, A r) {
    return r < A(0) ? A(1) : A(0);  // 0 at 0, as torch has it
  }
};

struct Softplus {
  static constexpr bool kOfValue = true, kCurved = true;
  template <class M, class A>
  static CUSTOMOPS_BOTH A value(const BiasActScalars<A>&, A z) {
    const A positive = CUSTOMOPS_SELECT(z < A(0), A(0), z), negative = -std::fabs(z);
    return positive + M::log1p(M::exp(NotAbove0<A>{negative}));
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A slope(const BiasActScalars<A>&, A r) {
    return -M::expm1(-r);
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A curve(const BiasActScalars<A>&, A r) {
    return M::exp(-r);
  }
};

// z * sigmoid(z), also called silu. It has a minimum, so z does not follow from its value.
struct Swish {
  static constexpr bool kOfValue = false, kCurved = true;
  template <class M, class A>
  static CUSTOMOPS_BOTH A value(const BiasActScalars<A>&, A z) {
    return M::divide(z, A(1) + M::exp(-z));
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A slope(const BiasActScalars<A>&, A z) {
    const A s = M::divide(A(1), A(1) + M::exp(-z));
    return s * (A(1) + z * (A(1) - s));
  }
  template <class M, class A>
  static CUSTOMOPS_BOTH A curve(const BiasActScalars<A>&, A z) {
    const A s = M::divide(A(1), A(1) + M::exp(-z));
    return s * (A(1) - s) * (A(2) + z * (A(1) - A(2) * s));
  }
};

template <int order>
constexpr int kBiasActOutputs = order == 2 ? 2 : 1;

// One element of
//   order 0: x -> y
//   order 1: grad, x or y -> gradient of x
//   order 2: what order 1's output gets as gradient, grad, x or y -> gradients of grad and of x or y
// What b gets is the sum of the last output over all dimensions but one.
template <int order, class Act, class M, class A>
CUSTOMOPS_BOTH void bias_act_element(const BiasActScalars<A>& s, const A (&in)[order + 1], A b,
                                     A (&out)[kBiasActOutputs<order>]) {
  if constexpr (order == 0) {
    const A y = Act::template value<M>(s, in[0] + b) * s.gain;
    const A below = CUSTOMOPS_SELECT(y > s.clamp, s.clamp, y);  // a NaN compares false and stays
    out[0] = CUSTOMOPS_SELECT(below < -s.clamp, -s.clamp, below);
  } else {
    A r;
    bool keep = true;
    if (s.from_y) {
      r = in[order] * s.inverse_gain;
    } else {
      r = in[order] + b;
      if (Act::kOfValue || s.clamped) {
        const A value = Act::template value<M>(s, r), y = value * s.gain;
        keep = !s.clamped || (y <= s.clamp && y >= -s.clamp);  // as torch.clamp: its edges belong to the inside
        if (Act::kOfValue) r = value;
      }
    }
    const A slope = Act::template slope<M>(s, r), first = in[0] * (s.gain * slope);
    out[0] = keep ? first : A(0);
    if constexpr (order == 2) {
      const A curve = Act::template curve<M>(s, r), both = in[0] * in[1] * curve;
      // In y, slope(y / gain) * gain has the derivative curve; in x, slope(value(z)) has curve * slope.
      const A of_z = both * (Act::kOfValue ? s.gain * slope : s.gain), second = s.from_y ? both : of_z;
      out[1] = keep ? second : A(0);
    }
  }
}

struct BiasActSetting {
  enum Act { leaky, tanh, sigmoid, elu, softplus, swish } act;
  double alpha, gain, clamp;  // clamp: infinity for none
  bool clamped;

  BiasActSetting(const std::string& name, double alpha, double gain, double clamp, ScalarType dtype)
      : alpha(alpha),
        gain(gain),
        clamp(clamp < 0 ? std::numeric_limits<double>::infinity() : clamp),
        clamped(!(clamp < 0)) {
    check_fits("bias_act", "alpha", alpha, dtype);
    check_fits("bias_act", "gain", gain, dtype);
    check_fits("bias_act", "clamp", this->clamp, dtype);
    if (std::isnan(clamp)) fail("bias_act: clamp must be a number, got nan");
    if (name == "linear") {
      act = leaky, this->alpha = 1;
    } else if (name == "relu") {
      act = leaky, this->alpha = 0;
    } else if (name == "lrelu") {
      act = leaky;
    } else if (name == "tanh") {
      act = tanh;
    } else if (name == "sigmoid") {
      act = sigmoid;
    } else if (name == "elu") {
      act = elu, this->alpha = 1;
    } else if (name == "selu") {  // its two constants: https://arxiv.org/abs/1706.02515, equation 14
      act = elu, this->alpha = 1.6732632423543772, this->gain *= 1.0507009873554805;
    } else if (name == "softplus") {
      act = softplus;
    } else if (name == "swish") {
      act = swish;
    } else {
      fail("bias_act: act must be linear, relu, lrelu, tanh, sigmoid, elu, selu, softplus or swish, got ", name);
    }
  }

  template <class A>
  BiasActScalars<A> scalars(bool from_y) const {
    return {A(alpha), A(gain), A(1 / gain), A(clamp), clamped, from_y};
  }

  // f(Act()); an order-2 call is for curved activations only.
  template <int order, class F>
  void visit(const F& f) const {
    switch (act) {
      case leaky:
        if constexpr (order < 2) f(Leaky());
        return;
      case tanh: return f(Tanh());
      case sigmoid: return f(Sigmoid());
      case elu: return f(Elu());
      case softplus: return f(Softplus());
      case swish: return f(Swish());
    }
  }
};

// Tensors of one memory layout, seen as [outer][channels][inner]: b has one value a channel.
struct BiasActProblem {
  BiasActSetting setting;
  bool from_y;
  int64_t channels, inner;
  std::vector<Tensor> in;  // as many as bias_act_element takes, or without the last where the slope is constant
  std::vector<Tensor> out;
  std::optional<Tensor> b, db;

  int64_t numel() const { return out[0].numel(); }
};

inline void check_bias(const Tensor& x, const Tensor& b, int64_t dim) {
  if (b.scalar_type() != x.scalar_type())
    fail("bias_act: b must have the dtype of x, ", to_string(x.scalar_type()), ", got ", to_string(b.scalar_type()));
  if (b.is_cpu() != x.is_cpu() || b.get_device_index() != x.get_device_index())
    fail("bias_act: b must be on the device of x, ", device_name(x), ", got ", device_name(b));
  if (b.dim() != 1 || b.size(0) != x.size(dim))
    fail("bias_act: b must have shape (C,) with C = ", x.size(dim), ", the size of x along dim ", dim, ", got ",
         to_string(b.sizes()));
}

inline int64_t bias_dim(const Tensor& x, int64_t dim) {
  const int64_t dims = x.dim();
  if (dim < -dims || dim >= dims)
    fail("bias_act: dim must be from ", -dims, " to ", dims - 1, " for x of shape ", to_string(x.sizes()), ", got ",
         dim);
  return dim < 0 ? dim + dims : dim;
}

// t where it lies in memory like `out`, otherwise a copy that does. `usable` may require more, such as alignment.
template <class F>
Tensor laid_out_like(const Tensor& t, const Tensor& out, const F& usable) {
  auto sizes = t.sizes(), strides = t.strides(), expected = out.strides();
  bool same = usable(t);
  for (size_t d = 0; d < sizes.size(); ++d) same = same && (sizes[d] == 1 || strides[d] == expected[d]);
  if (same || t.numel() == 0) return t;
  Tensor copy = empty_strided(t, sizes, expected);
  torch::stable::copy_(copy, t);
  return copy;
}

// The ops of one device. Device::run<order>(problem) has the loops, Device::usable(t) says whether they can read t.
template <class Device>
struct BiasActOps {
  // `in` is what bias_act_element takes; the last says how the outputs are laid out.
  template <int order>
  static BiasActProblem solve(std::vector<Tensor> in, bool from_y, const std::optional<Tensor>& b, bool sum,
                              int64_t dim, const BiasActSetting& setting) {
    const Tensor& like = in.back();
    BiasActProblem p{setting, from_y, 1, 0, {}, {}, {}, {}};
    for (int k = 0; k < kBiasActOutputs<order>; ++k) p.out.push_back(new_like(like));
    const Tensor& out = p.out[0];
    p.inner = out.numel();
    if (b || sum) {
      dim = bias_dim(like, dim);
      if (b) check_bias(like, *b, dim);
      if (b) p.b = dense(*b);
      if (like.size(dim) > 1 && out.numel() > 0) p.channels = like.size(dim), p.inner = out.stride(dim);
    }
    if (sum) {
      const int64_t channels = like.size(dim);
      p.db =
          out.numel() ? torch::stable::new_empty(like, {&channels, 1}) : torch::stable::new_zeros(like, {&channels, 1});
    }
    if (out.numel() == 0) return p;
    for (const Tensor& t : in) p.in.push_back(laid_out_like(t, out, Device::usable));
    Device::template run<order>(p);
    return p;
  }

  static Tensor forward(const Tensor& x, std::optional<Tensor> b, int64_t dim, std::string act, double alpha,
                        double gain, double clamp) {
    check_dtype("bias_act", "x", x);
    return solve<0>({x}, false, b, false, dim, {act, alpha, gain, clamp, x.scalar_type()}).out[0];
  }

  static std::tuple<Tensor, Tensor> backward(const Tensor& grad, std::optional<Tensor> x, std::optional<Tensor> b,
                                             std::optional<Tensor> y, int64_t dim, std::string act, double alpha,
                                             double gain, double clamp, bool sum) {
    check_dtype("bias_act", "grad", grad);
    std::vector<Tensor> in{grad};
    if (x || y) in.push_back(x ? *x : *y);
    for (const Tensor& t : in) check_same("bias_act", "grad", grad, x ? "x" : "y", t);
    const BiasActSetting setting(act, alpha, gain, clamp, grad.scalar_type());
    if (in.size() == 1 && (act != "linear" || setting.clamped)) fail("bias_act: ", act, " needs x or y for its slope");
    const BiasActProblem p = solve<1>(in, !x && y, b, sum, dim, setting);
    return {p.out[0], p.db ? *p.db : nothing(grad)};
  }

  static std::tuple<Tensor, Tensor, Tensor> double_backward(const Tensor& grad2, const Tensor& grad,
                                                            std::optional<Tensor> x, std::optional<Tensor> b,
                                                            std::optional<Tensor> y, int64_t dim, std::string act,
                                                            double alpha, double gain, double clamp, bool sum) {
    check_dtype("bias_act", "grad", grad);
    const BiasActSetting setting(act, alpha, gain, clamp, grad.scalar_type());
    if (setting.act == BiasActSetting::leaky) fail("bias_act: ", act, " has no curvature");
    if (!x && !y) fail("bias_act: ", act, " needs x or y for its slope");
    const std::vector<Tensor> in{grad2, grad, x ? *x : *y};
    check_same("bias_act", "grad", grad, "grad2", grad2);
    check_same("bias_act", "grad", grad, x ? "x" : "y", in[2]);
    const BiasActProblem p = solve<2>(in, !x, b, sum, dim, setting);
    return {p.out[0], p.out[1], p.db ? *p.db : nothing(grad)};
  }

  static Tensor nothing(const Tensor& like) {
    const int64_t none = 0;
    return torch::stable::new_empty(like, {&none, 1});
  }
};

}  // namespace customops
