// Classes that py::class_ binds: settings with members, stages that derive from one another, and a chain of them.
#pragma once
#include <torch/extension.h>

#include <memory>
#include <string>
#include <vector>

struct Settings {
  int64_t width = 3;
  float scale = 0.5;
  std::string name = "plain";
  at::Tensor weight;
  std::vector<int64_t> sizes;
};

class Stage {
 public:
  virtual ~Stage() { ++gone(); }
  virtual at::Tensor run(const at::Tensor& x) { return x + 1; }
  static int& gone() {
    static int count = 0;
    return count;
  }
};

class Scaled : public Stage {
 public:
  Scaled(int64_t shift, double scale) : shift_(shift), scale_(scale) {}
  explicit Scaled(const at::Tensor& x) : Scaled(x.numel(), x.sum().item<double>()) {}
  at::Tensor run(const at::Tensor& x) override {
    ++calls;
    auto y = x * scale_ + shift_;
    return next ? next->run(y) : y;
  }
  int64_t shift() const { return shift_; }
  void set_shift(int64_t shift) {
    if (shift < 0) throw std::invalid_argument("shift must not be negative");
    shift_ = shift;
  }
  Settings& settings() { return settings_; }
  const Settings& copied() const { return settings_; }
  std::shared_ptr<Stage> next;
  int calls = 0;

 private:
  int64_t shift_;
  double scale_;
  Settings settings_;
};

inline at::Tensor apply_settings(const Settings& settings, const at::Tensor& x, std::shared_ptr<Stage> stage) {
  const auto y = x * settings.scale * settings.width;
  return stage ? stage->run(y) : y;
}
inline std::vector<Settings> settings_of(const std::vector<int64_t>& widths) {
  std::vector<Settings> all(widths.size());
  for (size_t i = 0; i < all.size(); ++i) all[i].width = widths[i];
  return all;
}
inline int64_t total_width(const std::vector<Settings>& all, const Settings* more) {
  int64_t total = more->width;
  for (const Settings& one : all) total += one.width;
  return total;
}

inline void bind_stages(py::module& m) {
  py::class_<Settings>(m, "Settings", "What a stage is told")
      .def(py::init<>())
      .def_readwrite("width", &Settings::width)
      .def_readwrite("scale", &Settings::scale)
      .def_readwrite("name", &Settings::name)
      .def_readwrite("weight", &Settings::weight)
      .def_readwrite("sizes", &Settings::sizes)
      .def_property_readonly("area", [](const Settings& self) { return self.width * self.width; })
      .def("__repr__", [](const Settings& self) { return "<Settings " + self.name + ">"; });
  py::class_<Stage, std::shared_ptr<Stage>>(m, "Stage")
      .def(py::init<>())
      .def("run", &Stage::run, py::arg("x"))
      .def_static("gone", [] { return Stage::gone(); });
  py::class_<Scaled, Stage, std::shared_ptr<Scaled>>(m, "Scaled")
      .def(py::init<int64_t, double>(), py::arg("shift"), py::arg("scale") = 1.5)
      .def(py::init([](const at::Tensor& x) { return std::make_shared<Scaled>(x); }))
      .def("twice", [](Scaled& self, const at::Tensor& x) { return self.run(self.run(x)); }, "Runs it twice")
      .def("settings", &Scaled::settings, py::return_value_policy::reference_internal)
      .def("copied", &Scaled::copied)
      .def("__call__", &Scaled::run)
      .def("__len__", &Scaled::shift)
      .def_property("shift", &Scaled::shift, &Scaled::set_shift)
      .def_readonly("calls", &Scaled::calls)
      .def_readwrite("next", &Scaled::next);
  m.def("apply_settings", &apply_settings, py::arg("settings"), py::arg("x"), py::arg("stage") = py::none());
  m.def("settings_of", &settings_of);
  m.def("total_width", &total_width);
}
