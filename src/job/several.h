/* several.h - the processes that a launcher has started to train one run together, as commands see them. */
#ifndef JOB_SEVERAL_H
#define JOB_SEVERAL_H
#include "base/os.h"

struct ranks;

/* Meets the others; *out is NULL where this process is alone. */
enum status several_open(struct os *os, struct arena *perm, struct ranks **out, struct err *err);
void        several_limit(struct ranks *r, f64 join_s); /* of every wait from now on */
/* Is it for this process to print? r NULL: by what the launcher says of it. */
bool several_speaks(struct os *os, const struct ranks *r);
/* What is wrong at one of them is wrong for all, and so is a setting that differs (`changed`: KEY=VALUE a line). */
enum status several_agree(struct ranks *r, enum status st, struct err *err);
enum status several_same(struct ranks *r, struct str changed, struct err *err);
void        several_close(struct ranks *r); /* NULL too */

#endif
