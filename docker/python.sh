#!/bin/sh
# Starts a script of docker/ as make does, if the interpreter can run it: python.sh PYTHON SCRIPT [ARGUMENT...]
#
# Replaces itself: the script's parent has to be make, whose death it watches.
if ! command -v "$1" >/dev/null; then
  echo "error: there is no interpreter $1: install Python 3.11 or newer, or name one: make PYTHON=path/to/python3.11 ..." >&2
  exit 1
fi
if ! "$1" -c "" 2>/dev/null; then
  echo "error: $1 is no Python interpreter that starts: name one: make PYTHON=path/to/python3.11 ..." >&2
  exit 1
fi
"$1" -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: '"$1"' is Python %d.%d, 3.11 or newer is needed: make PYTHON=python3.11 ..." % sys.version_info[:2])' || exit 1
exec "$@"
