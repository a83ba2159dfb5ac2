#include <Python.h>

static PyObject* total(PyObject*, PyObject* value) {
  long sum = 0;
  for (Py_ssize_t i = 0; i < PyList_Size(value); ++i) sum += PyLong_AsLong(PyList_GetItem(value, i));
  return PyErr_Occurred() ? nullptr : PyLong_FromLong(sum);
}

static PyMethodDef methods[] = {{"total", total, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_sum", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__sum() { return PyModule_Create(&definition); }
