#!/bin/bash
# Gives staged sources a repository of their own: stage-git.sh PROJECT STAGED [COMMIT]
#
# For projects whose version comes from git (setuptools-scm, hatch-vcs, versioneer, ...): the commit with its history and the
# tags in it, under a configuration of ours. Does nothing for other projects, and where there is no commit.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
project=$(realpath "$1")
staged=$(realpath "$2")
git() { bash "$here/git.sh" "$project" "$@"; }
# Neither the user's configuration nor variables such as GIT_DIR.
own() { env -i PATH="$PATH" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git -C "$staged" "$@"; }

tools='setuptools[-_]scm|hatch[-_]vcs|versioneer|versioningit|dunamai|dynamic-versioning|\bpbr\b|provider *= *"scm"|source *= *"scm"'
grep -qsE "$tools" "$staged"/{pyproject.toml,setup.py,setup.cfg} || exit 0
commit=$(git rev-parse --verify --quiet "${3:-HEAD}^{commit}" 2>/dev/null) || exit 0

own init --quiet --template=
if [[ $(git rev-parse --is-shallow-repository) == true ]]; then
  echo "warning: $project is a shallow clone: a version that counts commits since a tag is wrong without them" >&2
  git rev-list --max-parents=0 "$commit" >"$staged/.git/shallow"
fi
tags=$(git for-each-ref --merged "$commit" --format='%(objectname) %(refname)' refs/tags)
{ echo "$commit"; cut -d ' ' -f 1 <<<"$tags"; } | grep . | git pack-objects --revs --quiet --stdout |
  own index-pack --stdin >/dev/null
while read -r object name; do
  [[ -z $name ]] || own update-ref "$name" "$object"
done <<<"$tags"
own update-ref refs/heads/main "$commit"
own symbolic-ref HEAD refs/heads/main
own read-tree HEAD
