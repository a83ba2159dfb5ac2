#!/bin/bash
# Prints, as NAME=VALUE lines, what the record says of a project's source: source-facts.sh PROJECT
#
# SOURCE_DATE_EPOCH is the commit's time unless it is set already; without a commit it is zip's earliest, 1980-01-01.
# Whoever starts a container may pass these in its environment; what is set already stays. A project that merely lies
# somewhere inside another repository has no commit of its own.
set -euo pipefail

project=$(realpath "$1")
git() { command git --no-optional-locks -C "$project" "$@" 2>/dev/null; }  # never writes to the project's .git

if [[ -z ${SOURCE_COMMIT:-} && $(git rev-parse --show-toplevel) == "$project" ]]; then
  SOURCE_COMMIT=$(git rev-parse --verify HEAD) || SOURCE_COMMIT=
  if [[ $SOURCE_COMMIT ]]; then
    : "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
    SOURCE_DIRTY=0
    [[ -z $(git status --porcelain) ]] || SOURCE_DIRTY=1
  fi
fi
echo "SOURCE_COMMIT=${SOURCE_COMMIT:-}"
echo "SOURCE_DIRTY=${SOURCE_DIRTY:-1}"
echo "SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800}"
