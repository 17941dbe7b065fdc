# cmake --install: the library, its header and pkg-config file, and the program.

if(TARGET frugal)
    install(TARGETS frugal ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET frugal_program)
    install(TARGETS frugal_program)
endif()
