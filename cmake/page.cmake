# cmake -DOUTPUT=FILE -DCOMMAND=... -P page.cmake: what the command prints becomes FILE, unless it
# fails or prints nothing.
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE text RESULT_VARIABLE status)
if(status OR text STREQUAL "")
    message(WARNING "${COMMAND} gave no page (exit ${status})")
    file(REMOVE ${OUTPUT})
else()
    file(WRITE ${OUTPUT} "${text}")
endif()
