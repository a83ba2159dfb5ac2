#!/bin/bash
# Runs the op tests on this machine's GPUs, with its own torch: test-gpu.sh [--sanitize] [PYTHON [DIST [TESTS]]]
#
# Requires one wheel in DIST, the folder TESTS, and a PYTHON with torch, pytest, hypothesis and SciPy. Installs the wheel
# into a temporary folder, so that nothing on the machine changes. --sanitize runs every tool of compute-sanitizer (or those
# that TOOLS names) on our kernels, over every test, or every ONE_IN-th, in four processes if Python has pytest-xdist.
set -euo pipefail

sanitize=false
if [[ ${1:-} == --sanitize ]]; then sanitize=true; shift; fi
python=${1:-python3}
# Absolute, because the tests run elsewhere; a link is kept, because a virtual environment's python is one.
python=$(command -v "$python") ||
  { echo "error: there is no interpreter ${1:-python3}: name one that has torch: make PYTHON=path/to/python ..." >&2; exit 1; }
[[ $python == /* ]] || python=$PWD/$python
shopt -s nullglob
wheels=("${2:-dist}"/customops-*"_$(uname -m)".whl)
tests=$(realpath "${3:-tests}")
if ((${#wheels[@]} != 1)); then
  echo "error: ${2:-dist} must hold exactly one wheel of customops, found ${#wheels[@]}: make wheel VARIANT=cuda" >&2
  exit 1
fi
"$python" -c 'import hypothesis, pytest, scipy, torch' 2>/dev/null ||
  { echo "error: $python lacks what the tests need: pip install torch pytest hypothesis scipy" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip install --quiet --no-index --no-deps --disable-pip-version-check --root-user-action=ignore \
  --target="$work/site" "${wheels[0]}"
cp -r "$tests" "$work/tests"
rm -rf "$work/tests/pipeline" "$work/tests/ways" "$work/tests/site"  # those test the source tree, and other builds
cd "$work"
export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
echo "testing $(basename "${wheels[0]}")"
"$python" -m customops | sed '/^build record/,$d'

suite=("$python" -m pytest -p no:cacheprovider -q tests --device=cuda)
if ! $sanitize; then
  "${suite[@]}"
  exit
fi
suite+=(--one-in="${ONE_IN:-1}")
if "$python" -c 'import xdist' 2>/dev/null; then suite+=(--numprocesses=4); fi
# memcheck detects an access beyond a tensor's end only if each tensor is its own allocation, but graphs require torch's
# cache. The tools check our kernels only; initcheck must also see what torch's kernels write.
for tool in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
  echo "==> compute-sanitizer --tool=$tool"
  tests="not huge and not compiled" environment=() ours=(--kernel-name kernel_substring=customops)
  if [[ $tool == memcheck ]]; then tests+=" and not graph" environment=(PYTORCH_NO_CUDA_MEMORY_CACHING=1); fi
  if [[ $tool == initcheck ]]; then ours=(); fi
  env "${environment[@]}" compute-sanitizer --tool="$tool" "${ours[@]}" \
    --target-processes=all --show-backtrace=no --error-exitcode=99 "${suite[@]}" -m "$tests" ||
    { status=$?; echo "error: $tool found errors, or tests failed (exit status $status)" >&2; exit 1; }
done
