#!/bin/sh
# Stands for ccache where some objects of a project are wanted, and no wheel: docker/divided.py mounts it over the image's own.
#
# CACHE_PASS says what becomes of a compile. Its object is wanted if /cache/wanted names it.
#   list    nothing is compiled; what would be is noted
#   some    what is wanted is compiled, or found in the cache
#   look    everything is looked for in the cache, and nothing compiled
#   again   what is wanted is compiled, without the cache
# Every object that is left behind holds no more than a weak main(): the build goes on, links it, and may run what was linked.
wrapper=/cache/wrapper
compiles="" object="" dependencies="" previous=""
for word in "$@"; do
  case $word in
    -c | -dc | --compile | --device-c) compiles=1 ;;
  esac
  case $previous in
    -o) object=$word ;;
    -MF) dependencies=$word ;;
  esac
  previous=$word
done
if [ -z "$compiles" ] || [ -z "$object" ]; then exec "$wrapper" "$@"; fi
case $PWD in
  */CMakeFiles/CMakeScratch/* | */CMakeFiles/CMakeTmp*) exec "$@" ;;
esac
name=${object#"$PWD"/}
is_wanted() { grep -qxF -e "$name" /cache/wanted; }

case $CACHE_PASS in
  list)
    note=$(mktemp /cache/log/XXXXXXXXXX)
    printf 'took 0\nobject %s\nstatus 0\n' "$name" >"$note"
    ;;
  some)
    if is_wanted; then "$wrapper" "$@" || exit; fi
    ;;
  look)
    # Others wrote what is found: no file of more than 1 GB, no more than 8 GB of memory, nothing on the terminal. On a miss, the
    # "compiler" fails.
    (
      ulimit -f 2097152
      # shellcheck disable=SC3045  # dash has it
      ulimit -v 8388608
      CCACHE_READONLY=1 CCACHE_PREFIX=/bin/false "$wrapper" "$@"
    ) >/dev/null 2>&1 </dev/null
    ;;
  again)
    if is_wanted; then
      unset CCACHE_NODISABLE CCACHE_REMOTE_STORAGE
      CCACHE_DISABLE=1 "$wrapper" "$@" || exit
    fi
    ;;
esac

case ${1##*/} in
  nvcc) compiler=${CXX:-c++} ;;
  *) compiler=$1 ;;
esac
rm -f "$object"
# shellcheck disable=SC2086  # CXX may be several words
printf '__attribute__((weak)) int main(void) { return 0; }\n' | $compiler -x c -fPIC -c -o "$object" - || exit
if [ -n "$dependencies" ]; then printf '%s:\n' "$object" >"$dependencies"; fi
