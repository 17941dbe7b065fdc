/* collective.h - how much of a tensor ranks exchange at a time, which is what a collective op needs as workspace. */
#ifndef IR_COLLECTIVE_H
#define IR_COLLECTIVE_H
#include "base/types.h"

enum { RANKS_MAX = 1024 };
enum { RANKS_CHUNK_BYTES = 4 << 20 }; /* beyond it nothing is gained: docs/decisions/ranks.md */

/* Which ranks a collective reaches. With copies of a sharded state in several machines (train.shard_over=machine), MACHINE:
 * those that share one of them; COPIES: those that hold the same part, one in each machine. */
enum ranks_over { OVER_ALL, OVER_MACHINE, OVER_COPIES, OVER_COUNT };

/* Where count elements are cut for `parts`: equal to one element. */
static inline i64 ranks_begin(i64 count, i32 parts, i32 part)
{
    return count / parts * part + count % parts * part / parts;
}

/* Elements of each rank's part, where `count` are dealt out in equal ones; the last may hold fewer. */
static inline i64 ranks_part(i64 count, i64 ranks) { return (count + ranks - 1) / ranks; }

/* Who has the tensor at [begin, begin + bytes) of a range of `all` bytes in which each is some rank's as a whole: the
 * rank in whose equal part its middle lies, so that what a rank has is one stretch of the range. */
static inline i32 ranks_owner(i64 begin, i64 bytes, i64 all, i32 ranks)
{
    return (i32)MIN((begin + bytes / 2) / MAX((all + ranks - 1) / ranks, 1), ranks - 1);
}

/* Of each rank this rank's part of a chunk, the largest that there is. */
static inline i64 ranks_work_bytes(i64 count, i64 item_bytes, i64 ranks)
{
    i64 chunk = MIN(count, RANKS_CHUNK_BYTES / item_bytes);
    return ranks > 1 ? (chunk + ranks - 1) / ranks * ranks * item_bytes : 0;
}

/* Of equal parts, cut into chunks inside of each: twice, for what is sent is put together first. */
static inline i64 ranks_scatter_chunk(i64 count, i64 item_bytes, i64 ranks)
{
    return MIN(ranks_part(count, ranks), MAX(RANKS_CHUNK_BYTES / item_bytes / ranks, 1));
}

#endif
