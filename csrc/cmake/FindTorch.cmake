# Finds what a library on the LibTorch stable ABI takes of torch: its headers and libtorch_cpu.
#
# Torch's own TorchConfig.cmake, that of a CUDA build, also requires the CUDA toolkit, cuDNN and whatever else torch was
# built with, even for CPU code. Looks where that file would be found: Torch_DIR, CMAKE_PREFIX_PATH. Defines the target
# Torch::cpu.
set(Torch_HINTS "")
foreach(folder IN LISTS Torch_DIR Torch_ROOT CMAKE_PREFIX_PATH)
  # Of share/cmake/Torch, of share/cmake (torch.utils.cmake_prefix_path), of an unpacked libtorch.
  list(APPEND Torch_HINTS "${folder}/../../.." "${folder}/../.." "${folder}")
endforeach()
find_path(Torch_INCLUDE_DIR torch/csrc/inductor/aoti_torch/c/shim.h HINTS ${Torch_HINTS} PATH_SUFFIXES include)
find_library(Torch_CPU_LIBRARY torch_cpu HINTS ${Torch_HINTS} PATH_SUFFIXES lib)

foreach(name IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(Torch_INCLUDE_DIR AND EXISTS "${Torch_INCLUDE_DIR}/${name}" AND NOT Torch_VERSION)
    file(STRINGS "${Torch_INCLUDE_DIR}/${name}" lines REGEX "define TORCH_VERSION_M(AJOR|INOR) [0-9]+")
    string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" Torch_VERSION "${lines}")
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Torch
  REQUIRED_VARS Torch_CPU_LIBRARY Torch_INCLUDE_DIR
  VERSION_VAR Torch_VERSION
  REASON_FAILURE_MESSAGE
    "name torch 2.10 or newer: -DCMAKE_PREFIX_PATH=\"$(python -c 'print(__import__(\"torch\").utils.cmake_prefix_path)')\", or the folder of an unpacked libtorch"
)
if(Torch_FOUND AND NOT TARGET Torch::cpu)
  add_library(Torch::cpu SHARED IMPORTED)
  set_target_properties(Torch::cpu PROPERTIES IMPORTED_LOCATION "${Torch_CPU_LIBRARY}"
                                              INTERFACE_INCLUDE_DIRECTORIES "${Torch_INCLUDE_DIR}")
endif()
mark_as_advanced(Torch_CPU_LIBRARY Torch_INCLUDE_DIR)
