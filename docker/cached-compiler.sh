#!/bin/sh
# Stands for ccache in a build with CACHE=: `ccache COMPILER ARGUMENT...`. docker/build_cache.py mounts it over the image's own.
#
# Keeps a note of each compile in /cache/log: ccache's own counters, the milliseconds, the object, its hash, and its key in the cache.
real=/cache/ccache
case $1 in
  -* | "") exec "$real" "$@" ;;
esac
case $PWD in
  */CMakeFiles/CMakeScratch/* | */CMakeFiles/CMakeTmp*) exec "$@" ;; # CMake asks what the compiler can do: no object of the project
esac

# The image's name stands for the compilers in it; two of the same name differ by their path.
export CCACHE_COMPILERCHECK="$CCACHE_COMPILERCHECK $1 $NVCC_PREPEND_FLAGS $NVCC_APPEND_FLAGS"
case ${1##*/} in
  nvcc)
    # Preprocessed text is of one architecture only: let the contents of every header that the project has decide. Without a list of
    # dependencies ccache would preprocess.
    case " $* " in
      *" -MD "* | *" -MMD "* | *" --generate-dependencies-with-compile "*) export CCACHE_DEPEND=1 ;;
      *) exec "$@" ;;
    esac
    if [ -z "$CCACHE_EXTRAFILES" ] && [ -d "$CACHE_SOURCE" ]; then
      CCACHE_EXTRAFILES=$(find "$CACHE_SOURCE" -name .git -prune -o -type f \
        \( -name '*.h' -o -name '*.hh' -o -name '*.hpp' -o -name '*.cuh' -o -name '*.inl' -o -name '*.inc' -o -name '*.cu' \) -print |
        LC_ALL=C sort | tr '\n' ':')
      export CCACHE_EXTRAFILES="${CCACHE_EXTRAFILES%:}"
    fi
    ;;
esac

object="" previous="" seed=""
for word in "$@"; do
  if [ "$previous" = -o ]; then object=$word; fi
  case $word in
    *.c | *.cc | *.cpp | *.cxx | *.C) seed="$seed $word" ;;
  esac
  previous=$word
done
name=${object#"$PWD"/}
# What gcc puts into objects, but not into what is linked from them, would keep others from comparing them: random numbers, and with
# link-time optimisation also the folder of the build, before every path that a prefix map has made relative.
case "${1##*/} $* " in
  nvcc* | *" -frandom-seed="*) ;;
  *" -c "*) set -- "$@" "-frandom-seed=$(printf '%s' "$name$seed" | cksum | tr ' ' -)" ;;
esac
case "${1##*/} $* " in
  nvcc* | *" -g"*) ;;
  *" -flto"*" -c "* | *" -c "*" -flto"*) set -- "$@" -fdebug-prefix-map=/=/ ;;
esac
log=$(mktemp /cache/log/XXXXXXXXXX) || exec "$real" "$@"
trace=$(mktemp)
export CCACHE_STATSLOG="$log" CCACHE_LOGFILE="$trace"
start=$(date +%s%N)
"$real" "$@"
status=$?
printf 'took %s\nobject %s\nstatus %s\n' "$((($(date +%s%N) - start) / 1000000))" "$name" "$status" >>"$log"
sed -n 's/^.* Result key: \([0-9a-f]*\)$/key \1/p' "$trace" | tail -n 1 >>"$log"
if [ "$status" = 0 ] && [ -f "$object" ]; then
  printf 'sha256 %.64s\n' "$(sha256sum <"$object")" >>"$log"
fi
rm -f "$trace"
exit "$status"
