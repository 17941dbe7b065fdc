# src/plan/NAME.csv is compiled in as the zero-terminated text fact_NAME: an array of bytes, because
# C only promises string literals of 4095.
file(GLOB facts CONFIGURE_DEPENDS src/plan/*.csv)
set(text "/* Made from the CSV files of src/plan. */\n")
foreach(file ${facts})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND text "extern const char fact_${name}[];\nconst char fact_${name}[] = {${bytes}0};\n")
endforeach()
file(CONFIGURE OUTPUT facts.c CONTENT "${text}" @ONLY)
list(APPEND sources ${CMAKE_BINARY_DIR}/facts.c)
