# What the program and the CUDA module must agree on (structures, the order of ops, the layout of programs) is in the
# headers that both are compiled with: their hash is the text frugal_cuda_build of each, and src/backend/cuda/load.c
# compares the two.
file(GLOB shared CONFIGURE_DEPENDS src/base/*.h src/ir/*.h src/ir/*.def src/backend/*.h src/backend/cuda/*.h src/backend/ranks/ranks.h)
set(all "${PROJECT_VERSION}")
foreach(file ${shared})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(SHA256 ${file} hash)
    string(APPEND all " ${hash}")
endforeach()
string(SHA256 hash "${all}")
string(CONCAT text "/* Made from the headers that program and CUDA module share. */\n"
    "extern const char frugal_cuda_build[];\n"
    "__attribute__((visibility(\"default\"))) const char frugal_cuda_build[] = \"${hash}\";\n")
file(CONFIGURE OUTPUT shared.c CONTENT "${text}" @ONLY)
list(APPEND sources ${CMAKE_BINARY_DIR}/shared.c)
