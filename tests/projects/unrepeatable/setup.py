import os
import time

from setuptools import Extension, setup

stamp = time.strftime("%b %d %Y", time.localtime()) + f" {time.time_ns()}"
macros = [("STAMP", f'"{stamp}"'), ("WHERE", f'"{os.path.abspath("stamp.c")}"')]
setup(ext_modules=[Extension("unrepeatable", ["stamp.c"], define_macros=macros)], py_modules=[])
