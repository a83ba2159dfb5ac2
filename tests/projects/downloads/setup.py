from urllib.request import urlopen

from setuptools import Extension, setup

with urlopen("https://headers.example.com/tables-1.2.h") as answer, open("tables.h", "wb") as file:
    file.write(answer.read())
setup(ext_modules=[Extension("downloads", ["downloads.c"])], py_modules=[])
