#include <Python.h>

static PyObject* twice(PyObject*, PyObject* value) { return PyLong_FromLong(2 * PyLong_AsLong(value)); }

static PyMethodDef methods[] = {{"twice", twice, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_twice", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__twice() { return PyModule_Create(&definition); }
