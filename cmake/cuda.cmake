# The CUDA module frugal_cuda.so: kernels by nvcc, all else by the C compiler. It is loaded at run
# time and shares no symbol with the program, so it carries its own copy of base and ir.
#
# nvcc is called by rules of our own: that needs no CMake that knows this CUDA, and the same file
# builds for every architecture in one go.

set(FRUGAL_CUDA AUTO CACHE STRING "AUTO, ON or OFF")
set(FRUGAL_CUDA_ARCHS "80;90a;100" CACHE STRING "GPU architectures to build for; 80-virtual: code of sm_80 that the driver compiles for its GPU")
find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
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
    if(arch MATCHES "^(.+)-virtual$")
        list(APPEND gencode -gencode=arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
    else()
        list(APPEND gencode -gencode=arch=compute_${arch},code=sm_${arch})
    endif()
endforeach()
file(GLOB kernels CONFIGURE_DEPENDS src/backend/cuda/module/*.cu)
set(sm90a "")
if("90a" IN_LIST FRUGAL_CUDA_ARCHS)
    set(sm90a -DFRUGAL_SM90A)
endif()
set(nvcc_werror "")
if(FRUGAL_WERROR)
    set(nvcc_werror -Werror all-warnings)
endif()
# Same source, same bits, in whatever folder it is built: -frandom-seed replaces the process's number in names that nvcc makes up, and
# intermediate files have fixed names. Line numbers for profilers carry the folder's name, so that packages go without; for these, cudafe++
# is also told another path of the source, because a name of what no other file may see has a hash of the whole path in it.
option(FRUGAL_CUDA_LINES "Kernels know the lines of their source, for profilers" ON)
set(nvcc_lines "")
if(FRUGAL_CUDA_LINES)
    set(nvcc_lines -lineinfo)
endif()
set(FRUGAL_CUDA_OBJECTS "" CACHE PATH "kernels that another build of the same source for the same GPUs has compiled: its folder cuda")
set(objects "")
foreach(file ${kernels})
    get_filename_component(name ${file} NAME_WE)
    if(FRUGAL_CUDA_OBJECTS)
        list(APPEND objects ${FRUGAL_CUDA_OBJECTS}/${name}.o)
        continue()
    endif()
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    set(nvcc_path "")
    if(NOT FRUGAL_CUDA_LINES)
        set(nvcc_path -Xcudafe --orig_src_path_name=src/backend/cuda/module/${name}.cu)
    endif()
    set(depfile DEPFILE ${object}.d)
    if(CMAKE_VERSION VERSION_LESS 3.20) # which knows it for Ninja only
        set(depfile "")
    endif()
    add_custom_command(OUTPUT ${object} DEPENDS ${file} ${depfile} VERBATIM
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda/${name}
        COMMAND ${NVCC} -std=c++17 -O3 ${nvcc_lines} --threads 2 ${gencode} -I${CMAKE_SOURCE_DIR}/src
                -D_Noreturn= -D_Static_assert=static_assert ${sm90a} ${nvcc_werror}
                -frandom-seed=${name} ${nvcc_path} --keep --keep-dir ${CMAKE_BINARY_DIR}/cuda/${name}
                -Xcompiler -fPIC,-Wall,-Wextra,-fvisibility=hidden,-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=
                -MD -MF ${object}.d -c ${file} -o ${object}
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/cuda/${name})
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
add_library(frugal_cuda MODULE ${module_sources} ${lower_sources} ${CMAKE_BINARY_DIR}/shared.c ${objects})
set_target_properties(frugal_cuda PROPERTIES PREFIX "" POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_include_directories(frugal_cuda SYSTEM PRIVATE ${CUDA_INCLUDE})
if(CUDNN_INCLUDE)
    target_include_directories(frugal_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE})
    target_compile_definitions(frugal_cuda PRIVATE FRUGAL_HAVE_CUDNN=1)
endif()
# The module needs the shared libstdc++ before cuDNN, loaded later, brings it: otherwise cuDNN crashes in a
# stream's locale at its first convolution. It is asked for by file name and kept by force, because a linker
# whose default is --as-needed drops it, and a compiler that finds no libstdc++.so takes libstdc++.a, whose
# copy of the locale is the one that clashes. The test looks at a module that has nothing else in it.
add_library(frugal_stdcxx INTERFACE)
target_link_options(frugal_stdcxx INTERFACE -Wl,--as-needed)
target_link_libraries(frugal_stdcxx INTERFACE -Wl,--push-state,--no-as-needed -l:libstdc++.so.6 -Wl,--pop-state)
file(WRITE ${CMAKE_BINARY_DIR}/cuda/empty.c "extern const int nothing;\nconst int nothing = 0;\n")
add_library(frugal_cuda_empty MODULE ${CMAKE_BINARY_DIR}/cuda/empty.c)
target_link_libraries(frugal_cuda_empty PRIVATE frugal_stdcxx)

target_link_libraries(frugal_cuda PRIVATE frugal_flags ${CUBLASLT} ${CUDART} frugal_stdcxx m pthread rt
                                          ${CMAKE_DL_LIBS})
set(FRUGAL_CUDA_RUNPATH "" CACHE STRING "where the installed module looks for cuBLAS and cuDNN before the system does")
set_target_properties(frugal_cuda PROPERTIES INSTALL_RPATH "${FRUGAL_CUDA_RUNPATH}")
install(TARGETS frugal_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/frugal)
# Attention's kernels by themselves: their objects, because the module hides its symbols.
add_executable(bench_attention EXCLUDE_FROM_ALL bench/gpu/attention.c ${module_sources} ${lower_sources} ${CMAKE_BINARY_DIR}/shared.c ${objects})
target_include_directories(bench_attention SYSTEM PRIVATE ${CUDA_INCLUDE})
if(CUDNN_INCLUDE)
    target_include_directories(bench_attention SYSTEM PRIVATE ${CUDNN_INCLUDE})
    target_compile_definitions(bench_attention PRIVATE FRUGAL_HAVE_CUDNN=1)
endif()
target_link_libraries(bench_attention PRIVATE frugal_flags ${CUBLASLT} ${CUDART} frugal_stdcxx m pthread rt ${CMAKE_DL_LIBS})
