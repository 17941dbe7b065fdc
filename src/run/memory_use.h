/* memory_use.h - what a program's plan holds at each instruction, and whose bytes make the peak: from the
 * lifetimes that the layout was made from, so it is exact before anything runs. */
#ifndef RUN_MEMORY_USE_H
#define RUN_MEMORY_USE_H
#include "ir/program.h"

struct memory_holder {
    struct str name; /* of the node that made it; "workspace of …" */
    i64        bytes;
};

struct memory_use {
    i64  persistent_bytes; /* parameters, gradients, …: there all the time */
    i64 *bytes; /* by instruction: these and the temporaries that live then, shared bytes once */
    i32  peak;  /* the instruction with the most; the first of several */
    i64  peak_bytes;
    struct memory_holder *holders; /* temporaries at the peak, the largest first */
    i64                   holder_count;
};

struct memory_use memory_use_of(const struct program_set *set, const struct program *p,
                                struct arena *perm, struct arena scratch);

#endif
