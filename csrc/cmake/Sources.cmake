# The files and flags of the CMake build, by the rules of csrc/sources.py, which the other builds ask;
# tests/pipeline/test_sources.py compares the two. Sets customops_sources, customops_cuda_sources, customops_flags,
# customops_cuda_flags and customops_link_flags.
get_filename_component(csrc "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
set(again CONFIGURE_DEPENDS) # a new file is found without configuring again
if(CMAKE_SCRIPT_MODE_FILE)
  set(again "") # the test's `cmake -P` has nothing to configure and does not take the word
endif()

file(GLOB customops_sources ${again} "${csrc}/*.cpp")
file(GLOB_RECURSE customops_cpu_sources ${again} "${csrc}/cpu/*.cpp")
list(APPEND customops_sources ${customops_cpu_sources})
file(GLOB_RECURSE customops_cuda_sources ${again} "${csrc}/cuda/*.cu")

file(STRINGS "${csrc}/flags.txt" customops_flags REGEX "^-")
file(STRINGS "${csrc}/link_flags.txt" customops_link_flags REGEX "^-")
string(REPLACE "@csrc@" "${csrc}" customops_link_flags "${customops_link_flags}")

# nvcc takes some of the flags itself and hands others to the host's compiler.
set(customops_cuda_flags "-Xfatbin=-compress-all")
foreach(flag IN LISTS customops_flags)
  if(flag MATCHES "^-[fW]")
    list(APPEND customops_cuda_flags "-Xcompiler=${flag}")
  elseif(flag MATCHES "^-(std|O|D)")
    list(APPEND customops_cuda_flags "${flag}")
  endif()
endforeach()
