#!/bin/bash
# Adds manylinux tag, build record and SBOM to a wheel, and checks it: repair-wheel.sh WHEEL OUTPUT_FOLDER. cibuildwheel
# runs it as its repair command. BUILD_SOURCE is the project, whose table says which policy holds.
#
# MANYLINUX is the tag to reach, or `auto` for the oldest one that the compiler's output allows. torch's libraries and CUDA's
# stay outside the wheel: the user's torch has them. By the strict policy `--patcher none` makes auditwheel fail rather than
# rewrite a library.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
read -r policy aten platform megabytes <<<"$(python "$here/project.py" "$BUILD_SOURCE" --values policy aten manylinux max-megabytes)"
platform=${MANYLINUX:-$platform}
machine=${CUSTOMOPS_TARGET:-$(uname -m)}
[[ $platform == auto || $platform == *_"$machine" ]] || platform+=_$machine
options=(--plat "$platform" --only-plat --wheel-dir "$2")
if [[ $policy == strict ]]; then options+=(--patcher none); fi
for library in torch c10 shm cudart cublas cublasLt cusparse cusolver curand cufft cudnn nvrtc nvJitLink nccl cupti cuda; do
  options+=(--exclude "lib$library*.so*")
done

others=()  # what a wheel of ours would not hold
if [[ $aten == stable ]]; then
  options+=(--exclude libgomp.so.1)  # torch's own, which is loaded already
  others+=(--any-files)
fi

fail() {  # in the file of BUILD_ERROR, it is the last line that make prints
  if [[ -n ${BUILD_ERROR:-} ]]; then echo "$1" >"$BUILD_ERROR"; else echo "error: $1" >&2; fi
  exit 1
}

auditwheel() {  # its policies are those of the machine that it runs on
  python -c 'import platform, sys
machine = sys.argv.pop(1)
platform.machine = lambda: machine
from auditwheel.main import main
sys.exit(main())' "$machine" "$@"
}

said=$(auditwheel repair "${options[@]}" "$1" 2>&1) ||
  # auditwheel cannot tell the tag of a library that needs no libc at all: it runs on the oldest.
  if [[ $platform == auto && $said == *"detect libc"* ]]; then
    said=$(auditwheel repair "${options[@]}" --plat "manylinux_2_$([[ $machine == x86_64 ]] && echo 5 || echo 17)_$machine" "$1" 2>&1)
  else
    false
  fi || {
  line=$(grep -E 'error: |Error|ValueError' <<<"$said" | tail -n 1)
  fail "$(basename "$1") cannot become $platform: ${line:-$said}; manylinux = \"auto\" in [tool.customops-build] takes what it allows"
}
python "$here/record.py" --policy "$policy" "$2"/*.whl
python "$here/check_wheel.py" --policy "$policy" --max-megabytes "$megabytes" "${others[@]}" "$2"/*.whl ||
  fail "$(basename "$1") does not pass the check of policy $policy: the lines above say what to do"
