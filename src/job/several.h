/* several.h - the processes that a launcher has started to train one run together, as commands see them. */
#ifndef JOB_SEVERAL_H
#define JOB_SEVERAL_H
#include "base/os.h"

struct ranks;

/* As the launcher says; 0 of 1 where there is none. */
struct several {
    i32  rank, count;
    bool meets; /* it does no more than start the rank: meet.h */
};
struct several several_announced(struct os *os);
/* Meets the others, and waits join_s at most, now and later; *out is NULL where this process is alone. */
enum status several_open(struct os *os, f64 join_s, struct arena *perm, struct ranks **out,
                         struct err *err);
/* Is it for this process to print? r NULL: by what the launcher says of it. */
bool several_speaks(struct os *os, const struct ranks *r);
/* What is wrong at one of them is wrong for all, and so is another version of frugal, and a setting that differs
 * (`changed`: KEY=VALUE a line). */
enum status several_agree(struct ranks *r, enum status st, struct err *err);
enum status several_same(struct ranks *r, struct str changed, struct err *err);
void        several_close(struct ranks *r); /* NULL too */

#endif
