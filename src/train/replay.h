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

struct batch *
replay_next(struct replay *r); /* of those that were kept, in turn; NULL: not enough yet */
/* What the loader gave, NULL too: until there are enough, it is kept. */
void replay_keep(struct replay *r, const struct batch *b, const struct feeds *feeds,
                 struct arena *perm);

#endif
