/* replay.h - an experiment: the first batches of a run, kept in memory and given again and again. A run that
 * is no faster with them does not wait for its data. */
#ifndef TRAIN_REPLAY_H
#define TRAIN_REPLAY_H
#include "data/data.h"

enum { REPLAY_MAX = 64 };

struct replay {
    i64          wanted; /* batches, at most REPLAY_MAX; 0: none are replayed */
    struct batch kept[REPLAY_MAX];
    i64          count, next;
};

/* The loader's next batch until as many were kept; from then on those, in turn. */
struct batch *replay_next(struct replay *r, struct loader *l, const struct feeds *feeds, struct arena *perm);

#endif
