#!/bin/bash
# Adds manylinux tag, build record and SBOM to a wheel, and checks it: repair-wheel.sh WHEEL OUTPUT_FOLDER. cibuildwheel
# runs it as its repair command.
#
# MANYLINUX is the tag to reach, or `auto` for the oldest one that the compiler's output allows. torch's libraries stay
# outside the wheel: the user's torch has them. `--patcher none` makes auditwheel fail rather than rewrite a library.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
auditwheel repair --plat "${MANYLINUX:-manylinux_2_28_x86_64}" --only-plat --patcher none \
  --exclude 'libtorch*.so' --exclude 'libc10*.so' --wheel-dir "$2" "$1"
python "$here/record.py" "$2"/*.whl
python "$here/check_wheel.py" "$2"/*.whl
