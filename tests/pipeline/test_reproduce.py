"""`make reproduce` on a small project: equal when it should be, and red when something of the build gets in.

Each case builds twice: through cibuildwheel and `docker run` where the image is there, on the host otherwise (with gcc).
"""

import os
import subprocess
import sys

import engine
import images
import pytest
import reproduce
from common import Failure

ENGINE = engine.choose("auto")[0]
if ENGINE != "host" and images.inspect(ENGINE, images.image_name("build", "cpu"), "{{.Id}}") is None:
    ENGINE = "host"
pytestmark = pytest.mark.skipif(
    ENGINE == "host" and sys.version_info[:2] != (3, 11), reason="on the host the locked tools need CPython 3.11"
)

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[tool.cibuildwheel]
build = "cp311-manylinux_x86_64"
build-frontend = { name = "build", args = ["--no-isolation"] }
repair-wheel-command = "bash /opt/customops/repair-wheel.sh {wheel} {dest_dir}"
"""
SETUP = """
import os, random, sys
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.bdist_wheel import bdist_wheel
%s

class Build(build_ext):
    def get_ext_filename(self, name):
        return name.replace(".", "/") + ".so"
    def get_export_symbols(self, ext):
        return []

class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]

setup(name="toy", version="1.0", packages=["toy"], cmdclass={"build_ext": Build, "bdist_wheel": Wheel},
      ext_modules=[Extension("toy.lib", ["lib.cpp"], language="c++", extra_compile_args=["-g0"] + DEFINES, extra_link_args=["-static-libstdc++", "-Wl,--exclude-libs,ALL", "-Wl,--strip-all"])])
"""
PLANTS = {
    # Meson refuses sources that are newer than now.
    "nothing": (
        "import time\nassert os.path.getmtime('lib.cpp') <= time.time(), 'a source of tomorrow'\nDEFINES = []",
        "int f(void) { return 1; }",
    ),
    "__DATE__": (
        "DEFINES = []\nos.environ.pop('SOURCE_DATE_EPOCH', None)  # with it, gcc itself fixes __DATE__",
        # In a container the date alone differs, by libfaketime; on a host only the time passes.
        f"const char* f(void) {{ return __DATE__ {'__TIME__' if ENGINE == 'host' else ''}; }}",
    ),
    "a random seed": ("DEFINES = [f'-DSEED={random.getrandbits(31)}']", "int f(void) { return SEED; }"),
    "the number of jobs": ("DEFINES = ['-DJOBS=' + os.environ.get('MAX_JOBS', '0')]", "int f(void) { return JOBS; }"),
    "the time zone": ("DEFINES = ['-DZONE=\"%s\"' % os.environ.get('TZ')]", "const char* f(void) { return ZONE; }"),
    "the build folder": ("DEFINES = ['-DDIR=\"%s\"' % os.getcwd()]", "const char* f(void) { return DIR; }"),
}  # fmt: skip
if ENGINE != "host":  # what only containers make different
    PLANTS["the host name"] = (
        "DEFINES = ['-DHOST=\"%s\"' % os.uname().nodename]",
        "const char* f(void) { return HOST; }",
    )
    PLANTS["the user"] = ("DEFINES = ['-DUSER=%d' % os.getuid()]", "int f(void) { return USER; }")


def own_cache(root, tmp_path):
    """A cache with the project's downloads and environments, and results of its own."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("debian", "venv", "wheels"):
        (root / ".cache" / name).mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(root / ".cache" / name)
    return cache


@pytest.mark.parametrize("second", [False, True])
def test_a_link_to_one_wheel_is_not_another(tmp_path, second):
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    (folders[not second] / "x.whl").write_bytes(b"wheel")
    (folders[second] / "x.whl").symlink_to(folders[not second] / "x.whl")
    with pytest.raises(Failure, match="not a file of its own"):
        reproduce.compare("host", "", *folders)


@pytest.mark.parametrize("plant", PLANTS)
def test_reproduce(root, tmp_path, lock_like_ours, plant):
    defines, code = PLANTS[plant]
    project = tmp_path / "toy"
    (project / "toy").mkdir(parents=True)
    (project / "toy/__init__.py").touch()
    (project / "pyproject.toml").write_text(PYPROJECT)
    (project / "setup.py").write_text(SETUP.replace("%s", defines, 1))
    lock_like_ours(project)
    (project / "lib.cpp").write_text("__attribute__((used)) static " + code + "\n")
    run = subprocess.run(
        [sys.executable, root / "docker/reproduce.py", "--engine", ENGINE, "--project", project],
        capture_output=True, text=True, check=False, env=os.environ | {"CUSTOMOPS_CACHE": str(own_cache(root, tmp_path))},
    )  # fmt: skip
    sums = [line.split()[0] for line in run.stdout.splitlines() if line.endswith(("  (first)", "  (second)"))]
    assert len(sums) == 2, run.stdout + run.stderr
    if plant == "nothing":
        assert sums[0] == sums[1]
        assert "gave the same bytes" in run.stdout
        assert run.returncode == 0
    else:
        assert sums[0] != sums[1]
        assert "toy/lib.so differs" in run.stdout
        assert run.stderr.splitlines()[-1] == "error: the two builds differ, see above"
        assert run.returncode == 1
