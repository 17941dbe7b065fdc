# The libraries we use where they are: each is AUTO (used if found), ON (an error if not) or OFF.
# Found, it gives FRUGAL_HAVE_X=1 and its name for the loader, FRUGAL_X_SONAME.
#
# Small ones are linked. The heavy ones would make every start of the program slower, so they are
# loaded at first use, and only their headers are needed here: docs/decisions/libraries_at_start.md.

add_library(frugal_libraries INTERFACE)
option(FRUGAL_STATIC "Link SQLite, libjpeg and libpng from their archives, for a program that runs on other systems" OFF)

function(frugal_library name how header library)
    set(FRUGAL_${name} AUTO CACHE STRING "AUTO, ON or OFF")
    set_property(CACHE FRUGAL_${name} PROPERTY STRINGS AUTO ON OFF)
    if(FRUGAL_${name} STREQUAL "OFF")
        message(STATUS "${name}: off")
        return()
    endif()
    set(wanted ${library})
    if(FRUGAL_STATIC AND how STREQUAL "linked")
        set(wanted lib${library}.a)
    endif()
    find_path(${name}_INCLUDE ${header})
    find_library(${name}_LIBRARY ${wanted})
    mark_as_advanced(${name}_INCLUDE ${name}_LIBRARY)
    if(NOT ${name}_INCLUDE OR NOT ${name}_LIBRARY)
        if(FRUGAL_${name} STREQUAL "ON")
            message(FATAL_ERROR "FRUGAL_${name}=ON, but ${header} or lib${library} was not found")
        endif()
        message(STATUS "${name}: not found")
        return()
    endif()
    message(STATUS "${name}: ${${name}_LIBRARY}, ${how}")
    target_compile_definitions(frugal_libraries INTERFACE FRUGAL_HAVE_${name}=1)
    target_include_directories(frugal_libraries SYSTEM INTERFACE ${${name}_INCLUDE})
    if(wanted STREQUAL library)
        frugal_soname(${${name}_LIBRARY} soname)
    else()
        set(soname ${wanted})
    endif()
    target_compile_definitions(frugal_libraries INTERFACE FRUGAL_${name}_SONAME="${soname}")
    if(how STREQUAL "linked")
        target_link_libraries(frugal_libraries INTERFACE ${${name}_LIBRARY})
        set_property(GLOBAL APPEND_STRING PROPERTY FRUGAL_LINKED "-l${library} ") # for frugal.pc
    endif()
endfunction()

# The name under which the loader knows the library, which has the version of its interface.
function(frugal_soname library result)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE text ERROR_QUIET)
    if(NOT text MATCHES "SONAME +([^ \n]+)")
        message(FATAL_ERROR "${library} has no SONAME; is it a shared library?")
    endif()
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

#              name      how                   header     library
frugal_library(SQLITE    linked                sqlite3.h  sqlite3)
frugal_library(CURL      "loaded at first use" curl/curl.h curl)
frugal_library(JPEG      linked                jpeglib.h  jpeg)
frugal_library(PNG       linked                png.h      png)
frugal_library(MICROHTTPD "loaded at first use" microhttpd.h microhttpd)
if(FRUGAL_STATIC AND PNG_LIBRARY)
    find_library(Z_LIBRARY libz.a)
    target_link_libraries(frugal_libraries INTERFACE ${Z_LIBRARY})
endif()
