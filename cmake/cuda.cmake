# The CUDA module frugal_cuda.so: kernels by nvcc, all else by the C compiler. It is loaded at run
# time and shares no symbol with the program, so it carries its own copy of base and ir.
#
# nvcc is called by rules of our own: that needs no CMake that knows this CUDA, and the same file
# builds for every architecture in one go.

set(FRUGAL_CUDA AUTO CACHE STRING "AUTO, ON or OFF")
set(FRUGAL_CUDA_ARCHS "80;90a;100" CACHE STRING "GPU architectures to build for")
find_program(NVCC nvcc HINTS /usr/local/cuda/bin)
if(FRUGAL_CUDA STREQUAL "OFF" OR FRUGAL_SANITIZE OR NOT TARGET frugal)
    return()
endif()
if(NOT NVCC)
    if(FRUGAL_CUDA STREQUAL "ON")
        message(FATAL_ERROR "FRUGAL_CUDA=ON, but nvcc was not found")
    endif()
    message(STATUS "cuda: not built, no nvcc")
    return()
endif()
get_filename_component(cuda_home ${NVCC} REALPATH)
get_filename_component(cuda_home ${cuda_home} DIRECTORY)
get_filename_component(cuda_home ${cuda_home} DIRECTORY)
find_path(CUDA_INCLUDE cublasLt.h HINTS ${cuda_home}/include ${cuda_home}/targets/x86_64-linux/include)
find_library(CUBLASLT cublasLt HINTS ${cuda_home}/lib64 ${cuda_home}/targets/x86_64-linux/lib)
find_library(CUDART cudart_static HINTS ${cuda_home}/lib64 ${cuda_home}/targets/x86_64-linux/lib)
if(NOT CUDA_INCLUDE OR NOT CUBLASLT OR NOT CUDART)
    message(STATUS "cuda: not built, nvcc is there but cuBLASLt or the runtime is not")
    return()
endif()

set(gencode "")
foreach(arch ${FRUGAL_CUDA_ARCHS})
    list(APPEND gencode -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
file(GLOB kernels CONFIGURE_DEPENDS src/backend/cuda/module/*.cu)
set(sm90a "")
if("90a" IN_LIST FRUGAL_CUDA_ARCHS)
    set(sm90a -DFRUGAL_SM90A)
endif()
set(objects "")
foreach(file ${kernels})
    cmake_path(GET file STEM name)
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${file} DEPFILE ${object}.d VERBATIM
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda
        COMMAND ${NVCC} -std=c++17 -O3 -lineinfo --threads 2 ${gencode} -I${CMAKE_SOURCE_DIR}/src
                -D_Noreturn= -D_Static_assert=static_assert ${sm90a} -Werror all-warnings
                -Xcompiler -fPIC,-Wall,-Wextra,-fvisibility=hidden
                -MD -MF ${object}.d -c ${file} -o ${object})
    list(APPEND objects ${object})
endforeach()

file(GLOB module_sources CONFIGURE_DEPENDS src/backend/cuda/module/*.c)
file(GLOB lower_sources CONFIGURE_DEPENDS src/base/*.c src/ir/*.c src/backend/cuda/tuning.c)
# cuDNN is loaded at run time: only its header is needed here.
find_path(CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDA_INCLUDE})
if(NOT CUDNN_INCLUDE)
    message(STATUS "cuda: without cuDNN, no cudnn_graph.h")
    list(FILTER module_sources EXCLUDE REGEX "/(dnn|sdpa|conv)\\.c$")
endif()
add_library(frugal_cuda MODULE ${module_sources} ${lower_sources} ${objects})
set_target_properties(frugal_cuda PROPERTIES PREFIX "" POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_include_directories(frugal_cuda SYSTEM PRIVATE ${CUDA_INCLUDE})
if(CUDNN_INCLUDE)
    target_include_directories(frugal_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE})
    target_compile_definitions(frugal_cuda PRIVATE FRUGAL_HAVE_CUDNN=1)
endif()
target_link_libraries(frugal_cuda PRIVATE frugal_flags ${CUBLASLT} ${CUDART} stdc++ m pthread rt
                                          ${CMAKE_DL_LIBS})
install(TARGETS frugal_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/frugal)
