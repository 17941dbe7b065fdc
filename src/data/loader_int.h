/* loader_int.h - what both kinds of loader share: which samples make which batch. */
#ifndef DATA_LOADER_INT_H
#define DATA_LOADER_INT_H
#include "data/data_int.h"

struct course {
    struct dataset      *dataset;
    struct loader_config config;
    i64                  count;  /* samples of an epoch */
    struct window       *window; /* group.c's, where samples are grouped by length; else NULL */
};

/* Samples of the batch that begins at `index`; 0 where the epoch has no further batch. */
i64 course_batch(const struct course *c, i64 index);
/* Of the data set: which sample stands at `index` of the epoch. */
i64 course_number(const struct course *c, i64 epoch, i64 index);
/* The same before samples are grouped by length. */
i64 course_shuffled(const struct course *c, i64 epoch, i64 index);
/* group.c: one thread asks. */
struct window *window_new(struct arena *perm, const struct course *c);
i64            window_number(const struct course *c, i64 epoch, i64 index);
i64            course_most(const struct course *c); /* samples of a batch, of this rank, at most */
/* Sets all of b but its data. */
void course_describe(const struct course *c, i64 epoch, i64 index, struct batch *b);

#endif
