/* pool.h - our threads: one parallel loop over numbered blocks of work.
 *
 * The caller cuts the work into blocks that depend on the shape only, never on the number of
 * threads; each block writes its own memory. So any thread count gives the same bits.
 * The calling thread works too; pool_run returns when all blocks are done. Workers spin for a few
 * tens of microseconds before they sleep, because a training step asks hundreds of times. */
#ifndef BASE_POOL_H
#define BASE_POOL_H
#include "base/arena.h"
#include "base/types.h"

struct pool;

typedef void pool_fn(void *context, i64 block, i32 worker); /* worker in [0, pool_threads) */

struct pool *pool_open(struct arena *perm, i32 threads); /* threads >= 1, the caller included; has
                                                            fewer where the system refuses some,
                                                            and never more than 1024 */
void         pool_close(struct pool *p);
i32          pool_threads(const struct pool *p);
void         pool_run(struct pool *p, i64 blocks, pool_fn *fn, void *context); /* not from inside
                                                                                  a block */

i32 pool_machine_threads(void); /* cores this process may use: affinity and cgroup quota */

/* Processes that share a machine's cores ask for the two apart: a quota is of all of them, an affinity mask of each. */
enum { POOL_CORES_MAX = 8192 };
struct pool_cores {
    u64 word[POOL_CORES_MAX / 64]; /* bit i: core i */
};
void pool_cores_of(i64 pid, struct pool_cores *out); /* what it may use; 0: this process. Where that
                                                        cannot be asked: all cores */
i64  pool_cores_count(const struct pool_cores *c);
i64  pool_machine_quota(void); /* of the cgroup, in whole cores, rounded up; INT64_MAX: none */

#endif
