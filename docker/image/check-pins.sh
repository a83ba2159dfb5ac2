#!/bin/bash
# Fails an image build if a tool has another version than the Dockerfile pins.
# Usage: check-pins.sh TOOL VERSION [TOOL VERSION ...]; `any` accepts every version.
set -euo pipefail

while (($#)); do
  case $1 in
    gcc | aarch64-linux-gnu-g++) found=$("$1" -dumpfullversion) ;;
    python) found=$(python -c 'import platform; print(platform.python_version())') ;;
    torch) found=$(python -c 'from importlib.metadata import version; print(version("torch"))') ;;
    nvcc12 | nvcc13) found=$("/opt/cuda${1#nvcc}/bin/nvcc" --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p') ;;
    *) echo "check-pins.sh: unknown tool $1" >&2; exit 2 ;;
  esac
  if [[ $2 != any && $2 != "$found" ]]; then
    echo "error: the Dockerfile pins $1 $2, the image holds $1 $found: change the pin and run \`make lock\`" >&2
    exit 1
  fi
  echo "$1 $found"
  shift 2
done
