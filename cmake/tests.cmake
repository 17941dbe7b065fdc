# tests/unit/test_*.c and tests/fuzz/fuzz_*.c: each becomes a program and a ctest of that name.
# They run in the top folder of the repository; tests/support/*.c is linked to all of them.

set(sanitizer_env
    FRUGAL_RUN_LEDGER=none # what tests do is not the user's runs
    ASAN_OPTIONS=abort_on_error=1:detect_leaks=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
    TSAN_OPTIONS=abort_on_error=1:second_deadlock_stack=1)

# Metadata services are sought on loopback, where nobody answers, and a connection to anywhere else ends
# the test (tests/guard). The sanitizers want to be loaded first, and an emulator cannot load what is built
# for another processor: those variants go without the guard.
set(network_env AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1 GCE_METADATA_HOST=127.0.0.1:1
    FRUGAL_SPOT_METADATA=http://127.0.0.1:1)
if(NOT FRUGAL_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    list(APPEND network_env LD_PRELOAD=${CMAKE_BINARY_DIR}/libloopback_only.so)
endif()

# Under an emulator (cmake/aarch64.cmake), those that tests/emulated.txt says to run.
set(emulated_tests)
if(CMAKE_CROSSCOMPILING)
    file(STRINGS tests/emulated.txt emulated_tests REGEX "^run ")
    list(TRANSFORM emulated_tests REPLACE "^run " "")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tests/emulated.txt)
endif()

function(frugal_test name label)
    if(name IN_LIST emulated_tests)
        set(label emulated)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT 1800
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} ENVIRONMENT "${sanitizer_env};${network_env}")
endfunction()

set(rules tidy test_tidy promises test_promises tour test_tour links test_links)
if(NOT FRUGAL_SANITIZE) # a reading of all files, in which no program of ours takes part
    list(APPEND rules format test_format)
endif()
foreach(name ${rules})
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/tidy/${name}.sh)
    frugal_test(${name} unit)
endforeach()

add_library(loopback_only SHARED tests/guard/loopback_only.c)
set_target_properties(loopback_only PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_test(NAME test_loopback COMMAND tests/guard/test_loopback.sh $<TARGET_FILE:loopback_only>)
frugal_test(test_loopback unit)

if(NOT TARGET frugal_cli)
    return()
endif()

file(GLOB support CONFIGURE_DEPENDS tests/support/*.c)
if(support)
    add_library(frugal_test_support STATIC ${support})
    target_include_directories(frugal_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(frugal_test_support PUBLIC frugal_cli)
else()
    add_library(frugal_test_support INTERFACE)
    target_include_directories(frugal_test_support INTERFACE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(frugal_test_support INTERFACE frugal_cli)
endif()

# A driver's library of our own script, for test_nvml and test_problems.
add_library(fake_nvml MODULE tests/fake/nvml.c)
target_include_directories(fake_nvml PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(fake_nvml PRIVATE frugal_flags)

# The program on a machine with seeded faults, for tests/oracle/test_problems.py and tests/cli/test_profile.sh.
add_executable(frugal_seeded src/cli/main.c tests/fake/seeded.c)
target_link_libraries(frugal_seeded PRIVATE frugal_cli)
target_link_options(frugal_seeded PRIVATE -Wl,--wrap=thread_wait_until,--wrap=remote_file_read,--wrap=snapshot_copy,--wrap=backend_cuda_open)

file(GLOB units CONFIGURE_DEPENDS tests/unit/test_*.c)
foreach(file ${units})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE frugal_test_support)
    add_test(NAME ${name} COMMAND ${name})
    frugal_test(${name} unit)
endforeach()

# The processor in the place of a GPU.
target_link_options(test_ahead PRIVATE -Wl,--wrap=backend_cuda_open)

target_link_options(test_os PRIVATE -Wl,--wrap=renameat) # a disk that is full
target_link_options(test_room PRIVATE -Wl,--wrap=os_disk_free_bytes)

foreach(name test_nvml test_problems)
    target_compile_definitions(${name} PRIVATE FAKE_NVML="$<TARGET_FILE:fake_nvml>")
    add_dependencies(${name} fake_nvml)
endforeach()

if(CUDA_INCLUDE)
    target_include_directories(test_nccl SYSTEM PRIVATE ${CUDA_INCLUDE}) # nccl.h includes CUDA's
endif()

# CUDA modules that are not of this build.
add_library(fake_module MODULE tests/fake/module.c)
add_library(fake_module_old MODULE tests/fake/module.c)
target_compile_definitions(fake_module_old PRIVATE MODULE_OLD)
target_compile_definitions(test_cuda_load PRIVATE FAKE_MODULE="$<TARGET_FILE:fake_module>"
    FAKE_MODULE_OLD="$<TARGET_FILE:fake_module_old>")
add_dependencies(test_cuda_load fake_module fake_module_old)

# The kernels for AMX once more, with its tile instructions in software, and the tests that meet
# them: so they are tested on processors without it.
if(amx IN_LIST cpu_kinds)
    set(tiles ${sources})
    list(FILTER tiles INCLUDE REGEX "_amx\\.c$")
    add_library(frugal_soft_amx OBJECT ${tiles} tests/amx/processor.c)
    target_link_libraries(frugal_soft_amx PRIVATE frugal_flags)
    target_compile_options(frugal_soft_amx PRIVATE
        "SHELL:-include ${CMAKE_SOURCE_DIR}/tests/amx/soft.h")
    foreach(name test_fast test_kernels test_conv test_fuse test_levels)
        add_executable(${name}_amx tests/unit/${name}.c $<TARGET_OBJECTS:frugal_soft_amx>)
        target_link_libraries(${name}_amx PRIVATE frugal_test_support)
        add_test(NAME ${name}_amx COMMAND ${name}_amx)
        frugal_test(${name}_amx unit)
        set_property(TEST ${name}_amx APPEND PROPERTY ENVIRONMENT CHECK_LEVEL=amx)
    endforeach()
endif()

# The tests of what comes in forms for several processors, once more at each level of vectors; above
# the processor's own, and above the caller's FRUGAL_VECTORS, they are skipped by name. ./check runs
# those of `level`, with --long those of `long` too.
set(level_tests test_augment test_batchnorm test_conv test_cpu test_fast test_fuse test_images test_jpeg
    test_kernels test_levels test_muon test_resize test_storage test_vector_math)
foreach(level none avx2 avx512 avx512bf16 amx)
    set(label long)
    if(level MATCHES "^(none|avx2)$")
        set(label level)
    endif()
    foreach(name ${level_tests})
        add_test(NAME ${name}_level_${level} COMMAND ${name})
        frugal_test(${name}_level_${level} ${label})
        set_property(TEST ${name}_level_${level} APPEND PROPERTY ENVIRONMENT CHECK_LEVEL=${level})
    endforeach()
endforeach()

add_executable(fuzz_planted tests/fuzz/planted.c tests/fuzz/driver.c)
target_link_libraries(fuzz_planted PRIVATE frugal_test_support)
add_test(NAME test_fuzz_driver COMMAND tests/fuzz/test_driver.sh $<TARGET_FILE:fuzz_planted>)
frugal_test(test_fuzz_driver unit)

add_custom_target(fuzzers) # all of them
file(GLOB fuzzers CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(file ${fuzzers})
    get_filename_component(name ${file} NAME_WE)
    string(REPLACE "fuzz_" "" subject ${name})
    add_executable(${name} ${file} tests/fuzz/driver.c)
    target_link_libraries(${name} PRIVATE frugal_test_support)
    add_test(NAME ${name} COMMAND ${name} --corpus tests/fuzz/corpus/${subject}
                                          --crash ${CMAKE_BINARY_DIR}/${name}.crash)
    frugal_test(${name} fuzz)
    set_tests_properties(${name} PROPERTIES TIMEOUT 7200) # the driver keeps its own time
    add_dependencies(fuzzers ${name})
endforeach()

# Small programs that the tests in Python drive.
file(GLOB tools CONFIGURE_DEPENDS tests/tools/*.c)
foreach(file ${tools})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE frugal)
endforeach()

# Programs that show the library: each must build from the public header alone, run and exit 0.
file(GLOB shown CONFIGURE_DEPENDS examples/*.c)
foreach(file ${shown})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE frugal)
    add_test(NAME example_${name} COMMAND ${name})
    frugal_test(example_${name} unit)
endforeach()

# tests/gpu/NAME.c: programs for a machine with a GPU; both are tried on the processor too.
file(GLOB gpu_tests CONFIGURE_DEPENDS tests/gpu/*.c)
foreach(file ${gpu_tests})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE frugal_test_support)
endforeach()
add_test(NAME test_shapes COMMAND tests/gpu/test_shapes.sh $<TARGET_FILE:check_shapes>)
frugal_test(test_shapes unit)
add_test(NAME test_check_ops COMMAND check_ops --cpu 2)
frugal_test(test_check_ops unit)

# What only `./check --long` runs in a variant: work of one thread at a time, which the thread sanitizer makes thirty times
# slower; low precision and AMX in software with that of addresses; and without the optional libraries, what calls none of them.
set(software_amx test_fast_amx test_kernels_amx test_conv_amx test_fuse_amx test_levels_amx)
set(slow_tests)
if(FRUGAL_SANITIZE MATCHES address)
    set(slow_tests test_low_training ${software_amx})
elseif(FRUGAL_SANITIZE MATCHES thread)
    set(slow_tests test_low_training test_recompute test_search test_help test_playground test_ref test_cached test_check_ops
        test_ckpt_faults ${software_amx})
elseif(FRUGAL_SQLITE STREQUAL OFF AND FRUGAL_CURL STREQUAL OFF AND FRUGAL_JPEG STREQUAL OFF) # build-none; not a system that lacks them
    set(slow_tests test_ranks test_low_training test_kernels test_recompute test_fast test_fuse test_conv test_check_ops test_cached
        test_ref ${software_amx})
endif()
foreach(name ${slow_tests})
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES LABELS slow)
    endif()
endforeach()

# Whatever the linker's default is, the CUDA module brings libstdc++ (cmake/cuda.cmake says why).
if(TARGET frugal_cuda)
    add_test(NAME test_cuda_needs COMMAND tests/gpu/test_needs.sh ${CMAKE_OBJDUMP}
             $<TARGET_FILE:frugal_cuda> $<TARGET_FILE:frugal_cuda_empty>)
    frugal_test(test_cuda_needs unit)
    add_test(NAME test_cuda_module COMMAND tests/gpu/test_module.py $<TARGET_FILE:frugal_program>
             $<TARGET_FILE:frugal_cuda> "${FRUGAL_CUDA_ARCHS}")
    frugal_test(test_cuda_module unit)
    add_test(NAME test_cuda_stores COMMAND tests/gpu/test_stores.sh ${NVCC})
    frugal_test(test_cuda_stores unit)
endif()

# The longest begin first, so that none of them runs alone at the end while the other cores have nothing to do.
foreach(name test_low_training test_ranks test_ckpt_faults test_check_ops test_ref test_kernels test_recompute test_fuse test_fast test_cached)
    set_tests_properties(${name} PROPERTIES COST 100)
endforeach()
