// A project with numbers of any kind and random generators in its signatures, and a dictionary of its own.
#include <torch/csrc/utils/tensor_flatten.h>
#include <torch/extension.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "stages.h"

at::Tensor scale(const at::Tensor& x, const at::Scalar& by, c10::optional<at::Scalar> shift) {
  auto y = by.isIntegral(/*includeBool=*/false) ? x * by.toLong() : x * by;
  return shift.has_value() ? y + *shift : y;
}
std::vector<at::Tensor> counted(const at::Tensor& x, const at::Tensor& mask) {
  auto y = x.clone();
  y += mask;
  return {x + mask, mask + x, y, x + true, mask + mask, at::add(x, mask, 2), x * mask};
}
at::Scalar largest(const at::Tensor& x) { return x.max().item(); }
std::tuple<at::Tensor, at::Scalar> halves(const at::Tensor& x, at::Scalar step) { return {x / 2, step.toDouble() / 2}; }

std::vector<at::Tensor> draw(at::IntArrayRef sizes, c10::optional<at::Generator> generator) {
  auto x = at::rand(sizes, generator, at::kDouble);
  auto y = at::empty(sizes, at::kFloat).normal_(1, 0.5, generator);
  auto z = at::bernoulli(x, generator);
  auto order = at::randperm(5, generator, at::kLong);
  return {x,
          y,
          z,
          order,
          at::empty(sizes, at::kLong).random_(0, 100, generator),
          at::rrelu(y - 1, 0.1, 0.3, true, generator)};
}
at::Tensor dropped(const at::Tensor& x, double p, at::Generator generator) {
  return x * at::empty_like(x).bernoulli_(1 - p, generator) / (1 - p);
}
int64_t reseed(at::Generator generator, int64_t seed) {
  generator.set_current_seed(static_cast<uint64_t>(seed));
  return static_cast<int64_t>(generator.current_seed());
}
at::Tensor of_torch(const at::Tensor& x) {
  return at::empty_like(x).uniform_(0, 1, at::detail::getDefaultCPUGenerator());
}

std::vector<at::Tensor> grouped(const std::vector<at::Tensor>& all) {
  c10::Dict<std::string, at::Tensor> by_size;
  for (const auto& t : all) {
    const std::string key = std::to_string(t.numel());
    if (by_size.contains(key))
      by_size.insert_or_assign(key, by_size.at(key) + t.sum());
    else
      by_size.insert(key, t.sum());
  }
  c10::Dict<std::string, at::Tensor> same = by_size;
  same.erase("1");
  std::vector<at::Tensor> sums;
  for (const auto& entry : by_size) sums.push_back(entry.value() + static_cast<double>(entry.key().size()));
  return sums;
}

// Dictionaries of Python's, a list of bools, and a tensor by its pointer.
std::map<std::string, at::Tensor> sums(const std::map<std::string, at::Tensor>& all, const at::Tensor* more) {
  std::map<std::string, at::Tensor> found;
  for (const auto& [key, value] : all) found[key + "!"] = value.sum() + *more;
  return found;
}
std::tuple<std::map<int, std::vector<double>>, std::vector<bool>> positives(
    const std::unordered_map<int64_t, std::vector<double>>& rows) {
  std::map<int, std::vector<double>> kept;
  std::vector<bool> any;
  for (const auto& [key, row] : rows)
    for (const double value : row)
      if (value > 0) kept[static_cast<int>(key)].push_back(value);
  for (int key = 0; key < 3; ++key) any.push_back(kept.count(key) != 0);
  return {kept, any};
}
std::unordered_map<std::string, std::string> turned(std::map<std::string, std::string> texts) {
  return {texts.begin(), texts.end()};
}
std::vector<at::Tensor> flat(std::vector<at::Tensor> all) {
  const at::Tensor row = torch::utils::flatten_dense_tensors(all);
  auto parts = torch::utils::unflatten_dense_tensors(row * 2, all);
  parts.push_back(row);
  return parts;
}

// Waits until another thread of Python has written to x.
bool wait(const at::Tensor& x) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const volatile float* seen = x.data_ptr<float>();
  while (*seen == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return *seen != 0;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale", &scale, py::arg("x"), py::arg("by") = 2, py::arg("shift") = py::none());
  m.def("counted", &counted);
  m.def("largest", &largest);
  m.def("halves", &halves, py::arg("x"), py::arg("step") = 0.5);
  m.def("draw", &draw, py::arg("sizes"), py::arg("generator") = py::none());
  m.def("dropped", &dropped);
  m.def("reseed", &reseed);
  m.def("of_torch", &of_torch);
  m.def("grouped", &grouped);
  m.def("sums", &sums);
  m.def("positives", &positives);
  m.def("turned", &turned);
  m.def("flat", &flat);
  bind_stages(m);
  m.def("wait", &wait, py::call_guard<py::gil_scoped_release>());
}
