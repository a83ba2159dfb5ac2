#!/bin/bash
# Runs git on a project without reading the project's git configuration: git.sh PROJECT ARGUMENT...
#
# A configuration can name programs (core.fsmonitor, filters, hooks, gpg.program, ext:: remotes), and no list of switches
# covers all of them. So git sees a repository made here: the project's refs, index and objects, and a configuration of
# ours. What it changes is lost. Exit status 128 if PROJECT is not the top of a git checkout.
set -euo pipefail

project=$(realpath "$1")
shift
unset "${!GIT_@}"

repository=$project/.git
if [[ -f $repository ]]; then # a worktree, or a submodule
  read -r line <"$repository"
  repository=${line#gitdir: }
  [[ $repository == /* ]] || repository=$project/$repository
fi
common=$repository
if [[ -f $repository/commondir ]]; then
  read -r common <"$repository/commondir"
  [[ $common == /* ]] || common=$repository/$common
fi
if [[ ! -f $repository/HEAD || ! -d $common/objects ]]; then
  echo "error: $project is not the top of a git checkout" >&2
  exit 128
fi

view=$(mktemp -d)
trap 'rm -rf "$view"' EXIT
mkdir -p "$view/objects/info" "$view/refs" "$view/info"
realpath "$common/objects" >"$view/objects/info/alternates"
for file in "$repository"/{HEAD,index,sharedindex.*} "$common"/{packed-refs,shallow,info/exclude}; do
  if [[ -f $file && ! -L $file ]]; then cp "$file" "$view/${file#"$common/"}" 2>/dev/null || cp "$file" "$view/"; fi
done
for folder in refs reftable; do
  if [[ -d $common/$folder ]]; then cp -rP "$common/$folder" "$view/"; fi
done
version=0
for key in objectFormat refStorage; do
  value=$(git config --file "$common/config" --no-includes "extensions.$key" || true)
  if [[ $value =~ ^[a-z0-9]+$ ]]; then
    git config --file "$view/config" "extensions.$key" "$value"
    version=1
  fi
done
git config --file "$view/config" core.repositoryFormatVersion "$version"
git config --file "$view/config" core.bare false
export GIT_DIR=$view GIT_WORK_TREE=$project GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0
cd "$project"
git -c core.quotePath=false -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"
