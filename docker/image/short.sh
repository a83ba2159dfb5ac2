#!/bin/bash
# Runs a build and shows `[n/N] file` where it prints a compiler's command, unless V=1: short.sh COMMAND [ARGUMENT...]
#
# torch's BuildExtension has ninja print every command. What ninja says of a failed command stays as it is. What cibuildwheel and
# the build frontend say after a failure is only that they started what failed.
set -euo pipefail

if [[ ${V:-} == 1 ]]; then exec "$@"; fi
frames='/^(TIP pass --env-dir|ERROR Backend subprocess exited|cibuildwheel: error: Command )|^env: .manylinux-interpreters.: No such file/d'
# ninja's status, then the file after -c; linking has no status, and setuptools prints its command.
{ "$@" 2>&1 >&3 3>&- | sed -uE -e "$frames" >&2; } 3>&1 | sed -uE -e "$frames" -e 's#^(\[[0-9]+/[0-9]+\]) .* -c (\S*/source/|/project/)?(\S+)( .*)?$#\1 \3#' \
  -e 's#^\S*(g\+\+|gcc|c\+\+|cc|clang|clang\+\+)(-[0-9.]+)? (.* )?-shared .*-o (\S+).*$#link \4#'
