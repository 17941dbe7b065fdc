/* test_loader.c - batches in an order that depends on (seed, epoch, index) only. */
#include "base/rng.h"
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"

/* `count` samples of one token each, sample i holding token i. */
static struct dataset *numbers(struct arena *perm, i64 count)
{
    u16 *t = NEW(perm, u16, count + 1);
    for (i64 i = 0; i <= count; i++) t[i] = (u16)i;
    struct data_config c = { .context = 1 };
    struct dataset    *d;
    struct str         bytes = { (char *)t, 2 * (count + 1) };
    c.path                   = folder_put(perm, folder_new(perm), "numbers.bin", bytes);
    CHECK(!dataset_open(os_real(), &c, perm, &d, NULL));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), count);
    return d;
}

static struct loader *open_loader(struct arena *perm, struct dataset *d, struct loader_config c)
{
    struct loader *l;
    struct err     err;
    CHECK(!loader_open(perm, d, &c, &l, &err));
    return l;
}

TEST(loader_gives_each_sample_once_and_a_short_last_batch)
{
    struct dataset *d    = numbers(perm, 10);
    struct loader  *l    = open_loader(perm, d, (struct loader_config){ .batch = 4 });
    i64             seen = 0;
    for (i64 i = 0; i < 3; i++) {
        struct batch *b = loader_next(l);
        CHECK(b != NULL);
        CHECK_EQ(b->epoch, 0);
        CHECK_EQ(b->index, 4 * i);
        CHECK_EQ(b->count, i == 2 ? 2 : 4);
        CHECK_EQ(b->ends_epoch, i == 2);
        for (i64 k = 0; k < b->count; k++) CHECK_EQ(((i32 *)b->data[0])[k], seen++);
    }
    CHECK(loader_next(l) == NULL);
    CHECK(loader_next(l) == NULL);
    loader_close(l);
    dataset_close(d);
}

TEST(loader_drops_the_short_batch_and_goes_on_for_ever)
{
    struct dataset      *d = numbers(perm, 10);
    struct loader_config c = { .batch = 4, .drop_last = true, .forever = true };
    struct loader       *l = open_loader(perm, d, c);
    for (i64 i = 0; i < 50; i++) {
        struct batch *b = loader_next(l);
        CHECK_EQ(b->epoch, i / 2);
        CHECK_EQ(b->index, i % 2 * 4);
        CHECK_EQ(b->count, 4);
        CHECK_EQ(b->ends_epoch, i % 2 == 1);
    }
    loader_close(l);
    dataset_close(d);
}

TEST(loader_shuffles_by_seed_and_epoch)
{
    enum { COUNT = 1000 };
    u64                  seed  = test_seed();
    struct dataset      *d     = numbers(perm, COUNT);
    struct loader_config c     = { .batch = 64, .shuffle = true, .forever = true, .seed = seed };
    struct loader       *l     = open_loader(perm, d, c);
    i64                  moved = 0;
    for (i64 epoch = 0; epoch < 3; epoch++) {
        bool seen[COUNT] = { false };
        for (bool last = false; !last;) {
            struct batch *b = loader_next(l);
            CHECK_EQ(b->epoch, epoch);
            for (i64 k = 0; k < b->count; k++) {
                i32 token = ((i32 *)b->data[0])[k];
                CHECK_EQ(token, rng_permute(seed, (u64)epoch, b->index + k, COUNT));
                CHECK(!seen[token]);
                seen[token] = true;
                moved += token != b->index + k;
            }
            last = b->ends_epoch;
        }
        for (i64 i = 0; i < COUNT; i++) CHECK(seen[i]);
    }
    CHECK(moved > COUNT); /* 3000 samples, of which chance leaves about 3 in their place */
    loader_close(l);
    dataset_close(d);
}

TEST(loader_starts_anywhere_with_the_same_samples)
{
    enum { COUNT = 97, BATCH = 8, BATCHES = 40 };
    u64                  seed  = test_seed();
    struct dataset      *d     = numbers(perm, COUNT);
    struct loader_config c     = { .batch = BATCH, .shuffle = true, .forever = true, .seed = seed };
    struct loader       *whole = open_loader(perm, d, c);
    for (i64 i = 0; i < BATCHES; i++) {
        struct batch *b     = loader_next(whole);
        c.epoch             = b->epoch;
        c.index             = b->index;
        struct loader *part = open_loader(perm, d, c);
        struct batch  *same = loader_next(part);
        CHECK_EQ(same->epoch, b->epoch);
        CHECK_EQ(same->index, b->index);
        CHECK_EQ(same->count, b->count);
        CHECK_EQ(same->ends_epoch, b->ends_epoch);
        for (i64 k = 0; k < b->count; k++)
            CHECK_EQ(((i32 *)same->data[0])[k], ((i32 *)b->data[0])[k]);
        loader_close(part);
    }
    c.epoch             = 2;
    c.index             = COUNT; /* the end of an epoch is the beginning of the next */
    struct loader *next = open_loader(perm, d, c);
    CHECK_EQ(loader_next(next)->epoch, 3);
    loader_close(next);
    loader_close(whole);
    dataset_close(d);
}

TEST(loader_closes_at_any_moment)
{
    u64             seed = test_seed();
    struct dataset *d    = numbers(perm, 50);
    for (u64 i = 0; i < 300; i++) {
        struct arena         memory = scratch;
        struct loader_config c      = { .batch = 7, .forever = i % 2, .shuffle = true };
        struct loader       *l      = open_loader(&memory, d, c);
        i64                  reads  = rng_u32((struct rng_key){ .seed = seed }, i) % 12;
        for (i64 k = 0; k < reads; k++) loader_next(l);
        loader_close(l);
    }
    loader_close(NULL);
    dataset_close(d);
}

TEST(loader_asks_for_no_memory_after_it_is_open)
{
    struct dataset *d = numbers(perm, 64);
    struct loader  *l = open_loader(perm, d, (struct loader_config){ .batch = 8, .forever = true });
    loader_next(l);
    i64 calls = arena_system_calls();
    for (i64 i = 0; i < 100; i++) loader_next(l);
    CHECK_EQ(arena_system_calls(), calls);
    loader_close(l);
    dataset_close(d);
}

TEST(loader_refuses_with_numbers)
{
    struct dataset *d = numbers(perm, 5);
    struct loader  *l;
    struct err      err;
    CHECK(loader_open(perm, d, &(struct loader_config){ .batch = 6, .drop_last = true }, &l, &err));
    CHECK_STR(err.text, "the data has 5 training samples, which make no batch of 6");
    CHECK(
        loader_open(perm, d, &(struct loader_config){ .batch = 1, .split = SPLIT_EVAL }, &l, &err));
    CHECK_STR(err.text, "the data has 0 held-out samples, which make no batch of 1");
    CHECK(loader_open(perm, d, &(struct loader_config){ .batch = 0 }, &l, &err));
    CHECK(loader_open(perm, d, &(struct loader_config){ .batch = 2, .index = 6 }, &l, &err));
    CHECK_STR(err.text, "cannot start at sample 6 of an epoch of 5");
    dataset_close(d);
}
