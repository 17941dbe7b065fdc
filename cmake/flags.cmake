# How every file is compiled, and what the files made for one kind of processor add to it.

add_library(frugal_flags INTERFACE)
target_include_directories(frugal_flags INTERFACE ${CMAKE_SOURCE_DIR}/src
                                                  ${CMAKE_SOURCE_DIR}/include)
target_compile_definitions(frugal_flags INTERFACE _GNU_SOURCE FRUGAL_VERSION="${PROJECT_VERSION}")
# No contraction and no errno: a product and a sum round twice wherever we do not ask for an fma,
# so the same source gives the same bits on every machine.
target_compile_options(frugal_flags INTERFACE
    -std=c11 -fno-math-errno -ffp-contract=off -Wall -Wextra -Wpedantic -Wconversion -Wshadow
    -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= # __FILE__ counts from the top of the repository
    # ASSERT(!"what may not be"), and enum { LIMIT = 3 } in a sum of floats
    $<$<C_COMPILER_ID:Clang>:-Wno-string-conversion> $<$<C_COMPILER_ID:Clang>:-Wno-enum-float-conversion>)
if(FRUGAL_WERROR)
    target_compile_options(frugal_flags INTERFACE -Werror)
endif()
if(FRUGAL_SANITIZE)
    # -O1: the stacks that the sanitizers print stay readable.
    set(CMAKE_C_FLAGS_RELEASE "-O1 -g")
    set(sanitize -fsanitize=${FRUGAL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(frugal_flags INTERFACE ${sanitize})
    target_link_options(frugal_flags INTERFACE ${sanitize})
endif()

# Files NAME_avx2.c and so on are compiled for that processor; all others run anywhere, and ask the
# processor before they call them. A level that the compiler does not know is left out, and on other
# processors than x86 all of them; FRUGAL_X86, FRUGAL_AVX512BF16 and FRUGAL_AMX say what is there.
include(CheckCCompilerFlag)
set(flags_avx2 -mavx2 -mfma -mf16c)
set(flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
                 -mprefer-vector-width=512)
set(flags_avx512bf16 ${flags_avx512} -mavx512bf16)
set(flags_amx ${flags_avx512bf16} -mamx-tile -mamx-bf16)

set(cpu_kinds)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(cpu_kinds avx2 avx512)
    target_compile_definitions(frugal_flags INTERFACE FRUGAL_X86=1)
    check_c_compiler_flag("-mavx512bf16" has_avx512bf16)
    check_c_compiler_flag("-mamx-bf16" has_amx)
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND CMAKE_C_COMPILER_VERSION MATCHES "^16\\.")
        set(has_avx512bf16 OFF) # clang 16.0.6 crashes on those products
    endif()
    if(has_avx512bf16)
        list(APPEND cpu_kinds avx512bf16)
        target_compile_definitions(frugal_flags INTERFACE FRUGAL_AVX512BF16=1)
    endif()
    if(has_avx512bf16 AND has_amx)
        list(APPEND cpu_kinds amx)
        target_compile_definitions(frugal_flags INTERFACE FRUGAL_AMX=1)
    endif()
endif()

# Kernels that are written once for several levels: a row FAMILY(kernels_NAME, LEVEL) of kernels.def is
# a file NAME_LEVEL.c that includes fast/NAME_impl.h. Appends the files to a list.
function(frugal_kernel_files list_name)
    set(rows_of ${CMAKE_SOURCE_DIR}/src/backend/cpu/kernels.def)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rows_of})
    file(STRINGS ${rows_of} rows REGEX "^FAMILY(_THEN)?\\(")
    foreach(row ${rows})
        if(NOT row MATCHES "\\(kernels_([a-z0-9_]+), ([a-z0-9]+)\\)$")
            message(FATAL_ERROR "kernels.def: expected FAMILY(kernels_NAME, LEVEL), not ${row}")
        endif()
        set(name ${CMAKE_MATCH_1})
        set(level ${CMAKE_MATCH_2})
        if(level STREQUAL any OR level IN_LIST cpu_kinds)
            set(file ${CMAKE_BINARY_DIR}/kernels/${name}_${level}.c)
            file(CONFIGURE OUTPUT ${file} CONTENT "#include \"backend/cpu/fast/${name}_impl.h\"\n")
            list(APPEND ${list_name} ${file})
        endif()
    endforeach()
    set(${list_name} ${${list_name}} PARENT_SCOPE)
endfunction()

function(frugal_cpu_flags list_name)
    foreach(kind avx2 avx512 avx512bf16 amx)
        set(files ${${list_name}})
        list(FILTER files INCLUDE REGEX "_${kind}\\.c$")
        if(kind IN_LIST cpu_kinds)
            set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${flags_${kind}}")
        else()
            list(FILTER ${list_name} EXCLUDE REGEX "_${kind}\\.c$")
        endif()
    endforeach()
    set(${list_name} ${${list_name}} PARENT_SCOPE)
endfunction()
