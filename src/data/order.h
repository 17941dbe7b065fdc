/* order.h - the order of samples that lie in shards, as a pure function of (seed, epoch, index).
 *
 *     shards       0 1 2 3 4 5
 *     permuted     4 0 3 | 5 2 1 ...     their samples, one behind the other, cut into blocks
 *     in a block   every sample of it, permuted
 *
 * What a block needs lies in few shards, so a cache that holds two blocks fetches each shard once an
 * epoch. The table behind it (where each shard begins in this epoch) is made once an epoch and kept for
 * two of them; an answer is a search in it. Any thread may ask. */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H
#include "base/arena.h"

struct order; /* opaque, lives in perm */

/* begin[0..shards]: the number of each shard's first sample, and of the one behind the last; kept.
 * block >= 1: samples. */
struct order *order_new(struct arena *perm, const i64 *begin, i64 shards, i64 block);
void          order_release(struct order *o);
/* Of the first `count` samples, which stands at `index` of that epoch? */
i64 order_at(struct order *o, i64 count, u64 seed, i64 epoch, i64 index);
/* The shard that comes `turn`-th in that epoch (-1: there are not so many), and where it begins. */
i64 order_shard(struct order *o, i64 count, u64 seed, i64 epoch, i64 turn, i64 *index);

/* The turn of the shard that has that index, before blocks are permuted. */
i64 order_turn(struct order *o, i64 count, u64 seed, i64 epoch, i64 index);
/* The last of begin[0..count), which rise, that is at most `value`. */
i64 last_at_most(const i64 *begin, i64 count, i64 value);

#endif
