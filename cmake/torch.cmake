# LibTorch: TORCH_DIR (environment or cache; CUDA builds too), or the wheel in .venv that `make setup` installs.
set(TORCH_DIR "$ENV{TORCH_DIR}" CACHE PATH "A LibTorch installation; empty takes the wheel in .venv")
if(NOT TORCH_DIR)
  execute_process(
    COMMAND ${CMAKE_SOURCE_DIR}/.venv/bin/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'] + '/torch')"
    OUTPUT_VARIABLE torch_root OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "no LibTorch: run `make setup`, or set TORCH_DIR to a LibTorch folder")
  endif()
else()
  set(torch_root ${TORCH_DIR})
endif()
list(APPEND CMAKE_PREFIX_PATH ${torch_root} ${torch_root}/share/cmake)
find_package(Torch REQUIRED)
add_library(tributary_torch INTERFACE)
target_link_libraries(tributary_torch INTERFACE ${TORCH_LIBRARIES})
# One OpenMP runtime in the process: LibTorch's own where it brings one.
find_package(OpenMP REQUIRED COMPONENTS CXX)
file(GLOB torch_gomp ${torch_root}/lib/libgomp*.so*)
if(torch_gomp)
  list(GET torch_gomp 0 torch_gomp)
  target_link_libraries(tributary_torch INTERFACE ${torch_gomp})
else()
  target_link_libraries(tributary_torch INTERFACE OpenMP::OpenMP_CXX)
endif()
# Its headers are not ours to warn about.
foreach(dir ${TORCH_INCLUDE_DIRS})
  target_include_directories(tributary_torch SYSTEM INTERFACE ${dir})
endforeach()
