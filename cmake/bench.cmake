# bench/NAME.c: a program bench_NAME, built when asked for: cmake --build build --target bench_NAME; in our own checks
# always, so that none stops compiling unseen.

if(NOT TARGET frugal)
    return()
endif()
set(when EXCLUDE_FROM_ALL)
if(FRUGAL_WERROR AND JPEG_LIBRARY AND NOT FRUGAL_SANITIZE)
    set(when)
endif()
file(GLOB benches CONFIGURE_DEPENDS bench/*.c)
foreach(file ${benches})
    get_filename_component(name ${file} NAME_WE)
    if(name STREQUAL photos AND NOT JPEG_LIBRARY)
        continue()
    endif()
    add_executable(bench_${name} ${when} ${file})
    target_link_libraries(bench_${name} PRIVATE $<TARGET_NAME_IF_EXISTS:frugal_cli> frugal)
endforeach()
