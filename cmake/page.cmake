# cmake -DOUTPUT=FILE -DCOMMAND=... -P page.cmake: what the command prints becomes FILE.
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE text RESULT_VARIABLE status)
if(status OR text STREQUAL "")
    message(FATAL_ERROR "${COMMAND} gave no page (exit ${status})")
endif()
file(WRITE ${OUTPUT} "${text}")
