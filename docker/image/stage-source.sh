#!/bin/bash
# Copies the sources of a project: stage-source.sh PROJECT DESTINATION
#
# In a git checkout: tracked files, and untracked files that git does not ignore. Elsewhere: everything except the output of
# builds and tools; in a source distribution (it has PKG-INFO), build/ and *.egg-info are sources: setuptools reads there which
# data files belong to a package. Sets modes to 755 and 644, so that a umask cannot change a wheel.
set -euo pipefail

project=$(realpath "$1")
git() { bash "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/git.sh" "$project" "$@"; }

list() {
  if git rev-parse 2>/dev/null; then
    git ls-files -z --cached --others --exclude-standard --exclude=/dist/ | while IFS= read -r -d '' file; do
      if [[ -f $project/$file || -L $project/$file ]]; then printf '%s\0' "$file"; fi
    done
  else
    outputs=(-o -path ./build -o -name '*.egg-info')
    if [[ -f $project/PKG-INFO ]]; then outputs=(); fi
    (cd "$project" && find . \( -name .git -o -path ./.cache -o -path ./.venv -o -path ./dist -o -name __pycache__ \
      "${outputs[@]}" \) -prune -o \( -type f -o -type l \) ! -name '*.so' -printf '%P\0')
  fi | LC_ALL=C sort -z
}

rm -rf "$2"
mkdir -p "$2"
list | tar -C "$project" --null --no-recursion --files-from=- --mode='u=rwX,go=rX' -cf - |
  tar -C "$2" --no-same-owner -pxf -
find "$2" -type d -exec chmod 755 {} +
bash "$(dirname "$(realpath "$0")")/stage-git.sh" "$project" "$2"
