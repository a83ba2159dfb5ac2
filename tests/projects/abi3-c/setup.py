from setuptools import Extension, setup

limited = [("Py_LIMITED_API", "0x030A0000")]
setup(ext_modules=[Extension("popcount", ["src/popcount.c"], define_macros=limited, py_limited_api=True)])
