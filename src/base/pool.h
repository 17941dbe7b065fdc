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

#endif
