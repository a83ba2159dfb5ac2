#!/bin/bash
# Builds, repairs and checks the wheel of a project: build-wheel.sh [PROJECT [OUTPUT]], by default /project and its dist/.
#
# The image starts this script (`docker run -v "$PWD":/project customops-build:cpu`); ENGINE=host calls it with the tools
# of a virtual environment on the PATH. The project is copied first, so that a build leaves no files in it.
set -euo pipefail

project=$(realpath "${1:-/project}")
output=$(realpath -m "${2:-$project/dist}")
here=$(dirname "$(realpath "$0")")

if [[ ! -f $project/pyproject.toml && ! -f $project/setup.py ]]; then
  echo "error: $project holds no project: mount one with -v \"\$PWD\":/project" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Under `make reproduce`, libfaketime adds days to the times that stat says: a copy would have them twice, and Meson refuses sources
# that are newer than now.
NO_FAKE_STAT=1 bash "$here/stage-source.sh" "$project" "$work/source"
(cd "$work/source" && find . -path ./.git -prune -o -type f -print0 | xargs -0 sha256sum) >"$work/staged"
facts=$(bash "$here/source-facts.sh" "$project" "$work/source")
while IFS= read -r fact; do export "${fact?}"; done <<<"$facts"

export BUILD_ENVIRONMENT=${BUILD_ENVIRONMENT:-$work/environment} BUILD_SOURCE=$work/source
cd "$work/source"
python "$here/build_project.py" "$work/source" "$work/built"
# The commit is that of the files of before. An unpacked archive names none, and often holds files that its build writes anew.
if [[ -n $SOURCE_COMMIT ]] && ! sha256sum --check --quiet "$work/staged" >&2; then
  echo "error: the staged sources changed during the build: run it again" >&2
  exit 1
fi
bash "$here/repair-wheel.sh" "$work"/built/*.whl "$work/repaired"

# The owner of the project owns the wheel, even if a container runs this as root.
deliver() {
  partial=$(mktemp "$output/.$(basename "$1").XXXXXX.partial")
  cp "$1" "$partial"
  chmod 644 "$partial"
  if [[ $(id -u) == 0 ]]; then chown "$(stat -c %u:%g "$project")" "$partial"; fi
  mv "$partial" "$output/$(basename "$1")"
}
if [[ ! -d $output ]]; then
  mkdir "$output"
  if [[ $(id -u) == 0 ]]; then chown "$(stat -c %u:%g "$project")" "$output"; fi
fi
for wheel in "$work"/repaired/*.whl; do
  python "$here/provenance.py" "$wheel"
  deliver "$wheel"
  deliver "$wheel.provenance.json"
  echo "built $output/$(basename "$wheel")"
done
