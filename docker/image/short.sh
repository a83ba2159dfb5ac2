#!/bin/bash
# Runs cibuildwheel without the list of its options, most of which our build does not use, unless V=1: short.sh COMMAND [ARGUMENT...]
#
# After a failure, cibuildwheel and the build frontend say only that they started what failed: that is left out, too.
set -euo pipefail

if [[ ${V:-} == 1 ]]; then exec "$@"; fi
frames='/^(TIP pass --env-dir|ERROR Backend subprocess exited|cibuildwheel: error: Command )|^env: .manylinux-interpreters.: No such file/d'
{ "$@" 2>&1 >&3 3>&- | sed -uE -e "$frames" >&2; } 3>&1 | sed -uE -e "$frames" -e '/^Build options:/,/^Cache folder:/d'
