#!/bin/bash
# Prints, as NAME=VALUE lines, what the record says of a project's source: source-facts.sh PROJECT
#
# SOURCE_DATE_EPOCH is the commit's time unless it is set already; without a commit it is zip's earliest, 1980-01-01.
# Whoever starts a container may pass these in its environment; what is set already stays.
set -euo pipefail

if [[ -z ${SOURCE_COMMIT:-} ]] && SOURCE_COMMIT=$(git -C "$1" rev-parse --verify --quiet HEAD 2>/dev/null); then
  : "${SOURCE_DATE_EPOCH:=$(git -C "$1" log -1 --format=%ct)}"
  SOURCE_DIRTY=0
  [[ -z $(git -C "$1" status --porcelain 2>/dev/null | head -n 1) ]] || SOURCE_DIRTY=1
fi
echo "SOURCE_COMMIT=${SOURCE_COMMIT:-}"
echo "SOURCE_DIRTY=${SOURCE_DIRTY:-1}"
echo "SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800}"
