#include "base/rng.h"
#include "data/order.h"
#include "harness.h"

/* Some shards, empty ones among them. */
static i64 *shards_of(struct arena *perm, u64 seed, i64 shards)
{
    i64 *begin = NEW(perm, i64, shards + 1);
    for (i64 i = 0; i < shards; i++)
        begin[i + 1] = begin[i] + rng_u32((struct rng_key){ .seed = seed }, (u64)i) % 9;
    begin[shards] = MAX(begin[shards], 1);
    return begin;
}

TEST(every_sample_comes_once_an_epoch_wherever_shards_and_blocks_end)
{
    u64 seed = test_seed();
    for (u64 round = 0; round < 200; round++) {
        struct arena   turn   = scratch;
        struct rng_key key    = { .seed = seed, .step = round };
        i64            shards = 1 + rng_u32(key, 0) % 40, block = 1 + rng_u32(key, 1) % 70;
        i64           *begin = shards_of(&turn, seed + round, shards);
        i64            all = begin[shards], count = 1 + rng_u32(key, 2) % all;
        bool          *seen = NEW(&turn, bool, all);
        struct order  *o    = order_new(&turn, begin, shards, block);
        for (i64 i = 0; i < count; i++) {
            i64 n = order_at(o, count, seed, (i64)round, i);
            CHECK(n >= 0 && n < count && !seen[n]);
            seen[n] = true;
        }
        order_release(o);
    }
}

TEST(the_order_does_not_depend_on_what_was_asked_before)
{
    u64           seed  = test_seed();
    i64          *begin = shards_of(perm, seed, 30);
    i64           count = begin[30];
    struct order *a = order_new(perm, begin, 30, 16), *b = order_new(perm, begin, 30, 16);
    for (i64 i = 0; i < 100; i++) {
        struct rng_key key   = { .seed = seed, .step = (u64)i };
        i64            epoch = rng_u32(key, 0) % 5, index = (i64)(rng_u32(key, 1) % (u32)count);
        i64            n     = order_at(a, count, seed, epoch, index);
        struct order  *fresh = order_new(&scratch, begin, 30, 16);
        CHECK_EQ(order_at(fresh, count, seed, epoch, index), n);
        CHECK_EQ(order_at(b, count, seed, epoch, index), n);
        order_release(fresh);
    }
    order_release(a);
    order_release(b);
}

TEST(a_block_needs_few_shards_and_epochs_differ)
{
    enum { SHARDS = 50, EACH = 20, BLOCK = 100 };
    u64 seed = test_seed();
    i64 begin[SHARDS + 1], same = 0;
    for (i64 i = 0; i <= SHARDS; i++) begin[i] = i * EACH;
    struct order *o = order_new(perm, begin, SHARDS, BLOCK);
    for (i64 block = 0; block < SHARDS * EACH / BLOCK; block++) {
        bool used[SHARDS] = { 0 };
        i64  count        = 0;
        for (i64 i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
            i64 n = order_at(o, SHARDS * EACH, seed, 0, i);
            count += !used[n / EACH];
            used[n / EACH] = true;
            same += n == order_at(o, SHARDS * EACH, seed, 1, i);
        }
        CHECK_EQ(count, BLOCK / EACH);
    }
    CHECK(same < 60); /* of 1,000; about one is expected by chance */
    i64 index;
    CHECK(order_shard(o, SHARDS * EACH, seed, 0, SHARDS, &index) == -1);
    for (i64 turn = 0; turn < SHARDS; turn++) {
        CHECK(order_shard(o, SHARDS * EACH, seed, 0, turn, &index) >= 0);
        CHECK_EQ(index, turn * EACH);
        CHECK_EQ(order_turn(o, SHARDS * EACH, seed, 0, index + EACH - 1), turn);
    }
    order_release(o);
}
