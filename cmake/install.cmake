# cmake --install: the program with its manual page and completions; the library, its header and
# its pkg-config file.

if(TARGET frugal AND NOT FRUGAL_STATIC) # a program for other systems, not a library for their compilers
    install(TARGETS frugal ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    if(TARGET frugal_shared)
        install(TARGETS frugal_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
    install(FILES include/frugal.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} OPTIONAL)
    get_property(pc_libraries GLOBAL PROPERTY FRUGAL_LINKED)
    file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    configure_file(cmake/frugal.pc.in frugal.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/frugal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(TARGET frugal_program)
    # The program writes its own pages, from the table that its parser reads.
    set(pages "")
    set(emulator "") # where it is built for another processor
    if(CMAKE_CROSSCOMPILING_EMULATOR)
        set(emulator "${CMAKE_CROSSCOMPILING_EMULATOR};")
    endif()
    function(frugal_page file folder rename)
        add_custom_command(OUTPUT ${file} DEPENDS frugal_program VERBATIM
            COMMAND ${CMAKE_COMMAND} -DOUTPUT=${file} "-DCOMMAND=${emulator}$<TARGET_FILE:frugal_program>;help;${ARGN}"
                    -P ${CMAKE_SOURCE_DIR}/cmake/page.cmake)
        install(FILES ${CMAKE_BINARY_DIR}/${file} DESTINATION ${folder} RENAME ${rename})
        set(pages ${pages} ${file} PARENT_SCOPE)
    endfunction()
    frugal_page(frugal.1    ${CMAKE_INSTALL_MANDIR}/man1                          frugal.1    --man)
    frugal_page(frugal.bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions  frugal      --completions bash)
    frugal_page(frugal.zsh  ${CMAKE_INSTALL_DATADIR}/zsh/site-functions           _frugal     --completions zsh)
    frugal_page(frugal.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d    frugal.fish --completions fish)
    add_custom_target(frugal_pages ALL DEPENDS ${pages})
    install(TARGETS frugal_program)
endif()
