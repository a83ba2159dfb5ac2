"""Tests the wheel of dist/ and the sources in it, built in three ways: `make test-ways`.

The wheel's prebuilt library, the one that customops.jit compiles, and the one of csrc/CMakeLists.txt: first tests/ways,
then the whole op suite against the second and third (`make test` has run it against the first). Compiled files stay in
.cache/ways. Requires a C++ compiler on this machine.
"""

import argparse
import shutil

import children
import images
from common import CACHE, DIST, PIP_INSTALL, ROOT, Failure, environment, main_guard, virtual_environment


def run(tools, env, *arguments) -> None:
    children.run([tools / "python", *arguments], env=env, cwd=CACHE / "ways")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tests/ways and test_saved_results.py, without the op suite for each build; the baseline's instructions alone",
    )
    quick = parser.parse_args().quick
    wheels = images.own_wheels(DIST)
    if len(wheels) != 1:
        raise Failure(f"dist/ must hold one wheel of customops, found {len(wheels)}: make wheel")
    if shutil.which("c++") is None:
        raise Failure(
            "the just-in-time and CMake builds need a C++17 compiler, and c++ is not on the PATH: install g++"
        )
    tools = virtual_environment("ways")
    (CACHE / "ways").mkdir(exist_ok=True)
    env = environment(
        tools,
        CUSTOMOPS_JIT_CACHE=str(CACHE / "ways/jit"),
        CUSTOMOPS_WAYS_CMAKE=str(CACHE / "ways/cmake"),
        PYTHONDONTWRITEBYTECODE="1",
    )
    of_ways = env
    if quick:  # the wheel, too, runs the baseline's instructions: the builds are compared with it
        of_ways = env | {"CXX": "c++ -DCUSTOMOPS_ONLY_BASELINE", "CUSTOMOPS_CPU_CAPABILITY": "baseline"}
    run(tools, env, *PIP_INSTALL, "--no-deps", "--force-reinstall", wheels[0])
    pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    print("==> tests/ways: all builds agree; a just-in-time build survives kills", flush=True)
    run(tools, of_ways, *pytest, ROOT / "tests/ways")
    if quick:
        print("==> the one op test that needs the whole checkout, which the test stage does not see", flush=True)
        run(tools, env, *pytest, ROOT / "tests/test_saved_results.py")
        return
    suite = [path for path in sorted(ROOT.glob("tests/test_*.py")) if path.name != "test_cuda.py"]
    library = CACHE / "ways/cmake/customops/libcustomops.so"
    for way, more in (("jit", {}), ("cmake", {"CUSTOMOPS_LIBRARY": str(library)})):
        print(f"==> the op suite, with the library that {way} built", flush=True)
        run(tools, env | {"CUSTOMOPS_COMPILER": way} | more, *pytest, *suite)


if __name__ == "__main__":
    main_guard(main)
