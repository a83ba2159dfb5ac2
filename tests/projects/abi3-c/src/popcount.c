// popcount.bits(data): the number of set bits in a bytes object.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *bits(PyObject *module, PyObject *data) {
  char *bytes;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0) return NULL;
  long long count = 0;
  for (Py_ssize_t i = 0; i < size; ++i) count += __builtin_popcount((unsigned char)bytes[i]);
  return PyLong_FromLongLong(count);
}

static PyMethodDef methods[] = {{"bits", bits, METH_O, "Number of set bits."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "popcount", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_popcount(void) { return PyModuleDef_Init(&definition); }
