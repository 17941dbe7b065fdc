/* loader_int.h - what both kinds of loader share: which samples make which batch. */
#ifndef DATA_LOADER_INT_H
#define DATA_LOADER_INT_H
#include "data/data_int.h"

struct course {
    struct dataset      *dataset;
    struct loader_config config;
    i64                  count; /* samples of an epoch */
};

/* Samples of the batch that begins at `index`; 0 where the epoch has no further batch. */
i64 course_batch(const struct course *c, i64 index);
/* Of the data set: which sample stands at `index` of the epoch. */
i64 course_number(const struct course *c, i64 epoch, i64 index);
/* Sets all of b but its data. */
void course_describe(const struct course *c, i64 epoch, i64 index, struct batch *b);

#endif
