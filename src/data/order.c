/* order.c - shards permuted, samples permuted inside blocks. */
#include "data/order.h"
#include "base/rng.h"
#include <pthread.h>

enum { TABLES = 2 }; /* this epoch's and the next one's: the loader works ahead */

struct table {
    u64  seed;
    i64  epoch, count;
    i64  shards; /* that have one of the first `count` samples; 0: not made */
    i64 *shard;  /* [turn] */
    i64 *begin;  /* [turn]: index of its first sample in the epoch, before blocks are permuted */
};

struct order {
    const i64      *begin;
    i64             shards, block;
    pthread_mutex_t lock; /* of the tables */
    struct table    table[TABLES];
    i64             next; /* to be made anew */
};

struct order *order_new(struct arena *perm, const i64 *begin, i64 shards, i64 block)
{
    ASSERT(block >= 1);
    struct order *o = NEW(perm, struct order, 1);
    *o              = (struct order){ .begin = begin, .shards = shards, .block = block };
    for (i64 i = 0; i < TABLES; i++) {
        o->table[i].shard = NEW(perm, i64, shards);
        o->table[i].begin = NEW(perm, i64, shards);
    }
    pthread_mutex_init(&o->lock, NULL);
    return o;
}

void order_release(struct order *o) { pthread_mutex_destroy(&o->lock); }

i64 last_at_most(const i64 *begin, i64 count, i64 value)
{
    i64 low = 0, high = count;
    while (high - low > 1) {
        i64 middle = low + (high - low) / 2;
        if (begin[middle] <= value) low = middle;
        else high = middle;
    }
    return low;
}

static const struct table *table_of(struct order *o, i64 count, u64 seed, i64 epoch)
{
    for (i64 i = 0; i < TABLES; i++) {
        const struct table *t = &o->table[i];
        if (t->shards && t->seed == seed && t->epoch == epoch && t->count == count) return t;
    }
    struct table *t  = &o->table[o->next];
    i64           at = 0;
    o->next          = (o->next + 1) % TABLES;
    t->seed          = seed;
    t->epoch         = epoch;
    t->count         = count;
    t->shards        = last_at_most(o->begin, o->shards, count - 1) + 1;
    for (i64 turn = 0; turn < t->shards; turn++) {
        i64 s          = rng_permute(seed, (u64)epoch, turn, t->shards);
        t->shard[turn] = s;
        t->begin[turn] = at;
        at += MIN(o->begin[s + 1], count) - o->begin[s];
    }
    ASSERT(at == count);
    return t;
}

i64 order_at(struct order *o, i64 count, u64 seed, i64 epoch, i64 index)
{
    ASSERT(count >= 1 && count <= o->begin[o->shards]);
    ASSERT(index >= 0 && index < count);
    i64 block = index / o->block, first = block * o->block;
    u64 own   = rng_mix(seed ^ rng_mix((u64)block + 1)); /* each block is permuted differently */
    i64 place = first + rng_permute(own, (u64)epoch, index - first, MIN(o->block, count - first));
    pthread_mutex_lock(&o->lock);
    const struct table *t    = table_of(o, count, seed, epoch);
    i64                 turn = last_at_most(t->begin, t->shards, place);
    i64                 n    = o->begin[t->shard[turn]] + place - t->begin[turn];
    pthread_mutex_unlock(&o->lock);
    return n;
}

i64 order_shard(struct order *o, i64 count, u64 seed, i64 epoch, i64 turn, i64 *index)
{
    pthread_mutex_lock(&o->lock);
    const struct table *t = table_of(o, count, seed, epoch);
    i64                 s = turn < t->shards ? t->shard[turn] : -1;
    if (s >= 0) *index = t->begin[turn];
    pthread_mutex_unlock(&o->lock);
    return s;
}

i64 order_turn(struct order *o, i64 count, u64 seed, i64 epoch, i64 index)
{
    pthread_mutex_lock(&o->lock);
    const struct table *t    = table_of(o, count, seed, epoch);
    i64                 turn = last_at_most(t->begin, t->shards, index);
    pthread_mutex_unlock(&o->lock);
    return turn;
}
