#!/bin/bash
# Prints what the build record says about a source, as NAME=VALUE lines: source-facts.sh PROJECT STAGED
#
# STAGED is the copy that stage-source.sh made and that will be built. It is clean only if its files are exactly those of the
# commit, by git's own hash. SOURCE_DATE_EPOCH is the commit's time; without a commit it is zip's earliest, 1980-01-01.
# Variables that are already set, as in a container, keep their values. A folder inside another repository has no commit.
set -euo pipefail

project=$(realpath "$1")
staged=$(realpath "$2")
git() { bash "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/git.sh" "$project" "$@"; }

committed_files() { git ls-tree -r HEAD | sed -nE 's/^100[0-9]+ blob ([0-9a-f]+)\t/\1 /p' | LC_ALL=C sort; }
staged_files() {
  local paths
  paths=$(find "$staged" -path "$staged/.git" -prune -o -type f -print)
  paste -d ' ' <(git hash-object --no-filters --stdin-paths <<<"$paths") - <<<"${paths//"$staged/"/}" | LC_ALL=C sort
}

if [[ -z ${SOURCE_COMMIT:-} ]] && git rev-parse 2>/dev/null; then
  if SOURCE_COMMIT=$(git rev-parse --verify --quiet HEAD); then
    : "${SOURCE_DATE_EPOCH:=$(git log -1 --no-show-signature --format=%ct)}"
    SOURCE_DIRTY=1
    if committed=$(committed_files) && found=$(staged_files) && [[ $committed == "$found" ]]; then SOURCE_DIRTY=0; fi
  fi
fi
echo "SOURCE_COMMIT=${SOURCE_COMMIT:-}"
echo "SOURCE_DIRTY=${SOURCE_DIRTY:-1}"
echo "SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800}"
