/* alike.h - ranks that are not there, and say whatever this one says: to compile for many without starting them. */
#ifndef BACKEND_RANKS_ALIKE_H
#define BACKEND_RANKS_ALIKE_H
#include "backend/ranks/ranks.h"
#include "base/arena.h"

/* As if each had a machine of its own, but that train.shard_over=machine finds `machines` of them, which divide count. No
 * program runs on it. */
struct ranks *ranks_alike(struct arena *perm, i32 rank, i32 count, i32 machines);

#endif
