#!/bin/bash
# Copies a project without what builds and tools leave in it: stage-source.sh PROJECT DESTINATION
set -euo pipefail

rm -rf "$2"
mkdir -p "$2"
tar -C "$1" --exclude-vcs --exclude=./.cache --exclude=./build --exclude=./dist --exclude='*.egg-info' --exclude='*.so' \
  --exclude=__pycache__ -cf - . | tar -C "$2" --no-same-owner -xf -
