from setuptools import Extension, setup

setup(ext_modules=[Extension("broken", ["broken.cpp"])], py_modules=[])
