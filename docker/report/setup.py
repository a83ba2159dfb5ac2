"""Takes the readers of docker/image/ along, which are one with those of the wheel check; metadata: pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

READERS = ("archive", "elf", "fatbin", "loadable", "strict", "wheelfile")
IMAGE = Path(__file__).resolve().parents[1] / "image"


class WithReaders(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib, "wheel_report/image")
        self.mkpath(str(target))
        for name in READERS:
            self.copy_file(str(IMAGE / f"{name}.py"), str(target / f"{name}.py"))


setup(cmdclass={"build_py": WithReaders})
