# find_package(aten_stable) gives the target aten_stable::headers and
#   aten_stable_module(TARGET MODULE SOURCES...)
# which builds the Python module MODULE, such as theirs._C: in the build folder, lib_C.so and the _C.py in front of it.
# The torch of Python3_EXECUTABLE is compiled against. Its folder: -Daten_stable_DIR=$(python -m aten_stable cmake)
find_package(Python3 COMPONENTS Interpreter REQUIRED)
get_filename_component(aten_stable_PACKAGE "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

function(_aten_stable_run variable)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${aten_stable_PACKAGE}/.." "${Python3_EXECUTABLE}" -m aten_stable ${ARGN}
    WORKING_DIRECTORY "${aten_stable_PACKAGE}/.." # `-m` looks here first
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "aten_stable: `python -m aten_stable ${ARGN}` failed with ${Python3_EXECUTABLE}")
  endif()
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()

if(NOT TARGET aten_stable::headers)
  _aten_stable_run(aten_stable_TORCH torch)
  add_library(aten_stable::headers INTERFACE IMPORTED)
  # Before torch's own, and not as system folders, which come last.
  set_target_properties(aten_stable::headers PROPERTIES IMPORTED_NO_SYSTEM TRUE)
  target_include_directories(aten_stable::headers BEFORE INTERFACE
    "${aten_stable_PACKAGE}/include" "${aten_stable_TORCH}/include")
  target_compile_definitions(aten_stable::headers INTERFACE TORCH_TARGET_VERSION=0x020a000000000000)
  # As torch's BuildExtension has it: c10::Half has operators of its own.
  foreach(name HALF_OPERATORS HALF_CONVERSIONS BFLOAT16_CONVERSIONS HALF2_OPERATORS)
    target_compile_definitions(aten_stable::headers INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:__CUDA_NO_${name}__>)
  endforeach()
  target_compile_features(aten_stable::headers INTERFACE cxx_std_17)
  target_link_libraries(aten_stable::headers INTERFACE "${aten_stable_TORCH}/lib/libtorch_cpu.so" ${CMAKE_DL_LIBS})
endif()

function(aten_stable_module target module)
  string(REGEX REPLACE "^.*[.]" "" name "${module}")
  string(REPLACE "." "__" namespace "${module}")
  add_library(${target} SHARED ${ARGN})
  target_link_libraries(${target} PRIVATE aten_stable::headers)
  target_link_options(${target} PRIVATE
    "LINKER:--exclude-libs,ALL" "LINKER:--version-script=${aten_stable_PACKAGE}/exports.map")
  target_compile_definitions(${target} PRIVATE TORCH_EXTENSION_NAME=${name} ATEN_STABLE_NAMESPACE=${namespace})
  # Each process has its own torch loaded: no rpath.
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME "${name}" CXX_VISIBILITY_PRESET hidden SKIP_BUILD_RPATH TRUE INSTALL_RPATH "")
  _aten_stable_run(text face "${module}")
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${name}.py" CONTENT "${text}\n")
endfunction()
