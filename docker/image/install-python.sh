#!/bin/bash
# Builds CPython into /opt/python/cp311-cp311, where cibuildwheel expects it, unless the base image has one there (PyPA's
# has). Usage: install-python.sh LOCK FOLDER [PREFIX]; FOLDER holds the tarball that LOCK names, PREFIX is for another CPython.
set -euo pipefail

prefix=${3:-/opt/python/cp311-cp311}
if [[ ! -x $prefix/bin/python ]]; then
  read -r sha256 _ _ _ path <<<"$(grep -v '^#' "$1")"
  tarball=$2/$(basename "$path")
  echo "$sha256  $tarball" | sha256sum --check --quiet
  source=$(mktemp -d)
  tar -xf "$tarball" -C "$source" --strip-components=1
  cd "$source"
  # No test modules, no static library: the interpreter only runs build tools and tests.
  ./configure --quiet --prefix="$prefix" --without-static-libpython --disable-test-modules --with-ensurepip=install \
    CFLAGS="-g0 -O2" >/dev/null
  sed -i '/compileall\.py/s/-Wi .*/-c pass \\/' Makefile  # no bytecode yet: it would hold times, and be compiled three times over
  make --silent -j"$(nproc)" >/dev/null
  make --silent install >/dev/null
  [[ -e $prefix/bin/python ]] || ln -s python3 "$prefix/bin/python"
  ln -sf pip3 "$prefix/bin/pip"
  find "$prefix" -name __pycache__ -prune -exec rm -rf {} +
  # No Python writes any later (PYTHONDONTWRITEBYTECODE), and without it each import of torch takes a second more.
  "$prefix/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$prefix/lib"
  cd / && rm -rf "$source"
fi
# cibuildwheel's helpers hard-code this path.
[[ -e /opt/python/cp39-cp39 ]] || ln -s cp311-cp311 /opt/python/cp39-cp39
"$prefix/bin/python" -VV
