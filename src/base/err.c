/* err.c - writing the one sentence; and the end of the process when the fault is ours. */
#include "base/err.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status err_set(struct err *err, enum status status, const char *format, ...)
{
    ASSERT(status != STATUS_OK);
    if (!err) return status;
    char    text[sizeof err->text]; /* the arguments may quote err->text */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = ' '; /* names from outside may hold them */
    memcpy(err->text, text, sizeof text);
    err->status = status;
    err->cause  = CAUSE_OTHER;
    return status;
}

_Noreturn void assert_failed(const char *condition, const char *file, int line)
{
    /* tidy: talk, the process ends here and nobody is left to say it */
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort(); /* tidy: talk, the same */
}
