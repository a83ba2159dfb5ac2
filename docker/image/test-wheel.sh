#!/bin/bash
# The test stage: installs the one wheel of a folder and runs the op tests against it. test-wheel.sh DIST TESTS
#
# Runs in the test image, or with the python of a clean virtual environment first on the PATH. Fails if the tests
# would import the package from a source tree instead of the wheel.
set -euo pipefail

shopt -s nullglob
dist=$(realpath "$1")
tests=$(realpath "$2")
wheels=("$dist"/customops-*.whl)
if ((${#wheels[@]} != 1)); then
  echo "error: $1 must hold exactly one wheel of customops, found ${#wheels[@]}: run \`make clean wheel\`" >&2
  exit 1
fi
if [[ ${CUSTOMOPS_TEST_IMAGE:-} ]]; then  # set by the Dockerfiles
  for compiler in cc gcc c++ g++ clang nvcc; do
    if command -v "$compiler" >/dev/null; then echo "error: the test image holds a compiler, $compiler" >&2; exit 1; fi
  done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$tests" "$work/tests"
rm -rf "$work/tests/pipeline" "$work/tests/ways" "$work/tests/site"  # those test the source tree, and other builds
cd "$work"
python -m pip install --quiet --no-index --force-reinstall --no-deps --disable-pip-version-check \
  --root-user-action=ignore "${wheels[0]}"
python -m pip check --disable-pip-version-check
python - "${wheels[0]}" <<'PYTHON'
import pathlib, sys, sysconfig
import customops, torch
here = pathlib.Path(customops.__file__)
site = pathlib.Path(sysconfig.get_path("purelib"))
if site not in here.parents:
    sys.exit(f"error: customops was imported from {here}, not from the wheel in {site}")
print(f"testing {pathlib.Path(sys.argv[1]).name} with torch {torch.__version__}, Python {sys.version.split()[0]}")
PYTHON
# Idle OpenMP threads of one process must not spin on the cores of another.
OMP_WAIT_POLICY=passive python -m pytest -p no:cacheprovider -q --numprocesses=auto --maxprocesses=8 tests
