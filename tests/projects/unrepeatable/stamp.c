#include <Python.h>

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "unrepeatable", "built " STAMP " in " WHERE, -1, NULL};

PyMODINIT_FUNC PyInit_unrepeatable(void) { return PyModule_Create(&definition); }
