# bench/NAME.c: a program bench_NAME, built when asked for: cmake --build build --target bench_NAME.

if(NOT TARGET frugal)
    return()
endif()
file(GLOB benches CONFIGURE_DEPENDS bench/*.c)
foreach(file ${benches})
    get_filename_component(name ${file} NAME_WE)
    if(name STREQUAL photos AND NOT JPEG_LIBRARY)
        continue()
    endif()
    add_executable(bench_${name} EXCLUDE_FROM_ALL ${file})
    target_link_libraries(bench_${name} PRIVATE $<TARGET_NAME_IF_EXISTS:frugal_cli> frugal)
endforeach()
