/* level.c - see level.h. */
#include "support/level.h"
#include <stdio.h>
#include <stdlib.h>

#define VARIABLE "FRUGAL_VECTORS"

static enum isa callers_cap = ISA_AMX;

const char *level_begin(void)
{
    static char reason[160];
    const char *wanted = getenv("CHECK_LEVEL");
    enum isa    level;
    ASSERT(kernel_isa_cap(&callers_cap, NULL) == STATUS_OK);
    if (!wanted) return NULL;
    ASSERT(isa_find(str_of(wanted), &level));
    if (level <= kernel_isa()) {
        callers_cap = level;
        level_restore();
        return NULL;
    }
    bool capped = callers_cap < processor_isa();
    snprintf(reason, sizeof reason, "%s: not run, %s %s%s", wanted,
             capped ? VARIABLE " is" : "this processor has", isa_word(kernel_isa()),
             level == ISA_AMX && kernel_isa() == ISA_AVX512BF16 ? "; its tiles in software are"
                                                                : "");
    return reason;
}

void level_set(enum isa cap) { setenv(VARIABLE, isa_word(cap), 1); }

void level_restore(void) { level_set(callers_cap); }
