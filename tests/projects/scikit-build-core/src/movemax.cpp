// movemax(values, width): the largest of every `width` neighbouring values, in one pass whatever the width.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <concepts>
#include <deque>
#include <span>
#include <stdexcept>

namespace py = pybind11;

namespace {

// Keeps the positions of values that may still become the largest, in falling order of value.
template <std::totally_ordered T>
void slide(std::span<const T> values, std::span<T> result, std::size_t width) {
  std::deque<std::size_t> candidates;
  for (std::size_t i = 0; i < values.size(); ++i) {
    while (!candidates.empty() && values[candidates.back()] <= values[i]) candidates.pop_back();
    candidates.push_back(i);
    if (candidates.front() + width == i) candidates.pop_front();
    if (i + 1 >= width) result[i + 1 - width] = values[candidates.front()];
  }
}

using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

Array movemax(const Array& values, std::size_t width) {
  if (values.ndim() != 1) throw std::invalid_argument("movemax: values must have one dimension");
  const std::size_t size = std::size_t(values.size());
  if (width < 1 || width > size)
    throw std::invalid_argument("movemax: width must be between 1 and the number of values");
  Array result(py::ssize_t(size - width + 1));
  slide<double>({values.data(), size}, {result.mutable_data(), size - width + 1}, width);
  return result;
}

}  // namespace

PYBIND11_MODULE(_core, m) { m.def("movemax", &movemax, py::arg("values"), py::arg("width")); }
