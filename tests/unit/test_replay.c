/* Batches kept and given again, in their order, whatever becomes of the loader's memory. */
#include "harness.h"
#include "train/replay.h"

static struct batch batch_of(f32 *data, i64 index)
{
    for (i64 i = 0; i < 2; i++) data[i] = (f32)(10 * index + i);
    return (struct batch){ .index = index, .count = 2, .data = { data } };
}

TEST(kept_batches_come_again_in_turn)
{
    struct replay r     = { .wanted = 3 };
    struct feeds  feeds = { .feed = { { .name = STR("x") } }, .count = 1 };
    f32           data[2];
    CHECK(type_parse(STR("f32[1]"), &feeds.feed[0].type));
    for (i64 i = 0; i < 3; i++) {
        struct batch b = batch_of(data, i);
        CHECK(!replay_next(&r));
        replay_keep(&r, &b, &feeds, perm);
    }
    for (i64 i = 0; i < 7; i++) {
        struct batch *b = replay_next(&r);
        CHECK_EQ(b->index, i % 3);
        CHECK_EQ(((f32 *)b->data[0])[1], (f32)(10 * (i % 3) + 1));
        replay_keep(&r, b, &feeds, perm); /* there are enough */
    }
    CHECK_EQ(r.count, 3);
}

TEST(nothing_is_kept_where_nobody_asks)
{
    struct replay r     = { 0 };
    struct feeds  feeds = { 0 };
    struct batch  b     = { .count = 1 };
    replay_keep(&r, &b, &feeds, perm);
    replay_keep(&r, NULL, &feeds, perm);
    CHECK_EQ(r.count, 0);
    CHECK(!replay_next(&r));
}
