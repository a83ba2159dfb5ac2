#!/bin/bash
# Builds CPython into /opt/python/cp311-cp311, where cibuildwheel expects it, unless the base image has one there (PyPA's
# has). Usage: install-python.sh LOCK FOLDER; FOLDER holds the tarball that LOCK names.
set -euo pipefail

prefix=/opt/python/cp311-cp311
if [[ ! -x $prefix/bin/python ]]; then
  read -r sha256 _ _ _ path <<<"$(grep -v '^#' "$1")"
  tarball=$2/$(basename "$path")
  echo "$sha256  $tarball" | sha256sum --check --quiet
  tar -xzf "$tarball" -C /tmp
  cd /tmp/Python-3.11.*/
  # No test modules, no static library: the interpreter only runs build tools and tests.
  ./configure --quiet --prefix="$prefix" --without-static-libpython --disable-test-modules --with-ensurepip=install \
    CFLAGS="-g0 -O2" >/dev/null
  make --silent -j"$(nproc)" >/dev/null
  make --silent install >/dev/null
  ln -s python3 "$prefix/bin/python"
  ln -sf pip3 "$prefix/bin/pip"
  find "$prefix" -name __pycache__ -prune -exec rm -rf {} +
  rm -rf /tmp/Python-3.11.*
fi
# cibuildwheel's helpers hard-code this path.
[[ -e /opt/python/cp39-cp39 ]] || ln -s cp311-cp311 /opt/python/cp39-cp39
"$prefix/bin/python" -VV
