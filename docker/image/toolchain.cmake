# What CMake needs to know to compile for the machine of CUSTOMOPS_TARGET: target.py names this file to it.
# Compilers come from CC and CXX, programs and Python's headers from this machine, torch from the folder of the other machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "$ENV{CUSTOMOPS_TARGET}")
set(CMAKE_LIBRARY_ARCHITECTURE "$ENV{CUSTOMOPS_TARGET}-linux-gnu")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
if(NOT "$ENV{CUSTOMOPS_TARGET_SITE}" STREQUAL "")
  set(Torch_DIR "$ENV{CUSTOMOPS_TARGET_SITE}/torch/share/cmake/Torch" CACHE PATH "")
endif()
# pybind11 takes these before it asks the Python of this machine; SETUPTOOLS_EXT_SUFFIX is of target.py, too.
set(PYTHON_MODULE_EXTENSION "$ENV{SETUPTOOLS_EXT_SUFFIX}" CACHE INTERNAL "")
set(PYTHON_MODULE_DEBUG_POSTFIX "" CACHE INTERNAL "")
