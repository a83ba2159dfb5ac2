// A project with torch::autograd::Function: double backward, saved numbers and lists, outputs without gradients,
// in-place, optional arguments, errors; and an operator with a kernel for Autograd that calls on to the one for CPUs.
#include <torch/extension.h>

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// scale * x ** n, of which each derivative is another of it.
class Power : public Function<Power> {
 public:
  static Variable forward(AutogradContext* ctx, Variable x, int64_t n, double scale) {
    TORCH_CHECK(n >= 0, "power: n must be at least 0, got ", n);
    ctx->save_for_backward({x});
    ctx->saved_data["n"] = n;
    ctx->saved_data["scale"] = scale;
    auto y = torch::full_like(x, scale);
    for (int64_t i = 0; i < n; ++i) y.mul_(x);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const auto x = ctx->get_saved_variables()[0];
    const auto n = ctx->saved_data["n"].toInt();
    if (n == 0) return {torch::zeros_like(x), Variable(), Variable()};
    return {grad_outputs[0] * Power::apply(x, n - 1, ctx->saved_data["scale"].toDouble() * static_cast<double>(n)),
            Variable(), Variable()};
  }
};

// The largest of each row and where it is.
struct RowMax : public Function<RowMax> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, std::optional<at::Tensor> shift) {
    auto [values, rows] = (shift ? x + *shift : x).max(1);
    ctx->mark_non_differentiable({rows});
    ctx->save_for_backward({rows, shift.value_or(at::Tensor())});
    ctx->saved_data["sizes"] = x.sizes();
    ctx->set_materialize_grads(false);
    return {values, rows};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    if (!grad_outputs[0].defined()) return {at::Tensor(), at::Tensor()};
    auto grad = at::zeros(ctx->saved_data["sizes"].toIntVector(), grad_outputs[0].options());
    grad = grad.scatter(1, saved[0].unsqueeze(1), grad_outputs[0].unsqueeze(1));
    at::Tensor of_shift;
    if (saved[1].defined() && ctx->needs_input_grad(1)) of_shift = grad.sum(0);
    return {ctx->needs_input_grad(0) ? grad : at::Tensor(), of_shift};
  }
};

struct Double_ : public Function<Double_> {
  static Variable forward(AutogradContext* ctx, Variable x) {
    x.mul_(2);
    ctx->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
};

struct Wrong : public Function<Wrong> {
  static Variable forward(AutogradContext*, Variable x, int64_t) { return x.clone(); }
  static variable_list backward(AutogradContext*, variable_list grads) {
    TORCH_CHECK_VALUE(grads[0].dim() == 1, "wrong: a gradient with ", grads[0].dim(), " dimensions");
    return {grads[0]};
  }
};

// What forward may return beside a new tensor: its input (0), a view of it (1), a leaf that requires a gradient (2),
// one that another variable is (3); 4: the input, changed.
struct Given : public Function<Given> {
  static Variable forward(AutogradContext* ctx, Variable x, int64_t what) {
    static const Variable kept = at::ones({2, 3});
    ctx->save_for_backward({x});
    if (what == 0) return x;
    if (what == 1) return x.select(0, 0);
    if (what == 2) return at::ones({2}).requires_grad_();
    if (what == 3) return kept;
    ctx->mark_dirty({x});
    x.add_(1);
    return what == 4 ? x : x.clone();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto x = ctx->get_saved_variables()[0];
    return {grads[0].sum().expand_as(x), Variable()};
  }
};

at::Tensor power(const at::Tensor& x, int64_t n, double scale) { return Power::apply(x, n, scale); }
std::vector<at::Tensor> row_max(const at::Tensor& x, std::optional<at::Tensor> shift) {
  return RowMax::apply(x, shift);
}
at::Tensor double_(at::Tensor x) { return Double_::apply(x); }
at::Tensor given(at::Tensor x, int64_t what) { return Given::apply(x, what); }
at::Tensor wrong(at::Tensor x) { return Wrong::apply(x, 1); }
bool grad_mode(const at::Tensor& x) {
  at::NoGradGuard guard;
  return (x * 2).requires_grad() || torch::GradMode::is_enabled();
}
at::Tensor slope(const at::Tensor& x) {
  at::AutoGradMode enable(true);
  auto leaf = x.detach().requires_grad_();
  return torch::autograd::grad({Power::apply(leaf, 3, 1.0).sum()}, {leaf})[0];
}

// As vision's operators have it. The namespace may be a macro: tests build this file twice for one process.
#define AS_TEXT(name) #name
#define NAMESPACE_AS_TEXT(name) AS_TEXT(name)
at::Tensor smooth(const at::Tensor& x, const at::Tensor& y, double weight) {
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow(NAMESPACE_AS_TEXT(aten_stable_functions) "::smooth", "")
                       .typed<decltype(smooth)>();
  return op.call(x, y, weight);
}
at::Tensor smooth_cpu(const at::Tensor& x, const at::Tensor& y, double weight) {
  TORCH_CHECK(x.sizes() == y.sizes(), "smooth: shapes differ");
  auto a = x.contiguous(), b = y.contiguous();
  auto out = at::empty_like(a);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smooth", [&] {
    for (int64_t i = 0; i < a.numel(); ++i)
      out.data_ptr<scalar_t>()[i] = a.data_ptr<scalar_t>()[i] + scalar_t(weight) * b.data_ptr<scalar_t>()[i];
  });
  return out;
}
class Smooth : public Function<Smooth> {
 public:
  static variable_list forward(AutogradContext* ctx, const Variable& x, const Variable& y, double weight) {
    ctx->saved_data["weight"] = weight;
    at::AutoDispatchBelowADInplaceOrView guard;
    return {smooth(x, y, weight)};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const double weight = ctx->saved_data["weight"].toDouble();
    return {grads[0], smooth(torch::zeros_like(grads[0]), grads[0], weight), Variable()};
  }
};
at::Tensor smooth_autograd(const at::Tensor& x, const at::Tensor& y, double weight) {
  return Smooth::apply(x, y, weight)[0];
}
TORCH_LIBRARY_FRAGMENT(aten_stable_functions, m) { m.def("smooth(Tensor x, Tensor y, float weight=0.5) -> Tensor"); }
TORCH_LIBRARY_IMPL(aten_stable_functions, CPU, m) { m.impl("smooth", TORCH_FN(smooth_cpu)); }
TORCH_LIBRARY_IMPL(aten_stable_functions, Autograd, m) { m.impl("smooth", TORCH_FN(smooth_autograd)); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("power", &power, py::arg("x"), py::arg("n") = 3, py::arg("scale") = 1.0);
  m.def("row_max", &row_max, py::arg("x"), py::arg("shift") = py::none());
  m.def("double_", &double_);
  m.def("given", &given);
  m.def("wrong", &wrong);
  m.def("grad_mode", &grad_mode);
  m.def("slope", &slope, py::call_guard<py::gil_scoped_release>());
}
