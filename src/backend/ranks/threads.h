/* threads.h - ranks that are threads of one process: the naive carrier, by which every program with collectives is
 * tested on one machine without MPI. */
#ifndef BACKEND_RANKS_THREADS_H
#define BACKEND_RANKS_THREADS_H
#include "backend/ranks/ranks.h"
#include "base/arena.h"

struct rank_threads; /* what they share; lives in perm */
struct rank_threads *rank_threads_new(struct arena *perm, i32 count);
/* As if they were on so many machines, rank i on machine i % machines, for train.shard_over=machine. */
struct rank_threads *rank_threads_on(struct arena *perm, i32 count, i32 machines);
struct ranks        *rank_threads_rank(struct rank_threads *t, i32 rank); /* each thread's own */
/* A rank that will not come any more: those that wait for it fail. */
void rank_threads_left(struct rank_threads *t, i32 rank);

#endif
