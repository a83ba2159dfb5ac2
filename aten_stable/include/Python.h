// What a library of operators declares to be importable: an empty module. Nothing here refers to CPython: Python imports
// the file in front of the library, and that loads it. The rest of Python's C API would need a wheel for each Python.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct PyObject;
struct PyMethodDef {
  template <class... T>
  PyMethodDef(T...) {
    static_assert(sizeof...(T) == 99,
                  "aten_stable: PyMethodDef is not covered: bind the functions with PYBIND11_MODULE or TORCH_LIBRARY");
  }
};
struct PyModuleDef {
  int m_base;
  const char *m_name, *m_doc;
  std::intptr_t m_size;
  PyMethodDef* m_methods;
  void *m_slots, *m_traverse, *m_clear, *m_free;
};
#define PyModuleDef_HEAD_INIT 0
#define PyModule_Create(definition) ((void)(definition), static_cast<PyObject*>(nullptr))
#define PyMODINIT_FUNC extern "C" PyObject*
