// distance(a, b, length): the shorter way from a to b on a ring of that length.
#include <Python.h>

static PyObject* distance(PyObject* module, PyObject* arguments) {
  (void)module;
  long long a, b, length;
  if (!PyArg_ParseTuple(arguments, "LLL:distance", &a, &b, &length)) return NULL;
  if (length <= 0) return PyErr_Format(PyExc_ValueError, "distance: length must be positive, got %lld", length);
  long long there = a % length, here = b % length;  // each within one length of zero, so that nothing overflows below
  if (there < 0) there += length;
  if (here < 0) here += length;
  const long long way = there > here ? there - here : here - there;
  return PyLong_FromLongLong(way < length - way ? way : length - way);
}

static PyMethodDef methods[] = {{"distance", distance, METH_VARARGS, "The shorter way from a to b."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_ringdist", .m_methods = methods};

PyMODINIT_FUNC PyInit__ringdist(void) { return PyModuleDef_Init(&definition); }
