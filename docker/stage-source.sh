#!/bin/bash
# Copies a project without what builds and tools leave in it: stage-source.sh PROJECT DESTINATION
# Modes are set to 755 and 644, so that neither the umask of a checkout nor that of a build shows in a wheel.
set -euo pipefail

rm -rf "$2"
mkdir -p "$2"
tar -C "$1" --exclude-vcs --exclude=./.cache --exclude=./.venv --exclude=./build --exclude=./dist \
  --exclude='*.egg-info' --exclude='*.so' --exclude=__pycache__ --mode='u=rwX,go=rX' -cf - . | tar -C "$2" --no-same-owner -pxf -
