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
    struct loader_config c = { .batch = 4, .whole = 4, .forever = true };
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
    CHECK(loader_open(perm, d, &(struct loader_config){ .batch = 6, .whole = 6 }, &l, &err));
    CHECK_STR(err.text, "the data has 5 training samples, too few for a batch of 6");
    CHECK(
        loader_open(perm, d, &(struct loader_config){ .batch = 1, .split = SPLIT_EVAL }, &l, &err));
    CHECK_STR(err.text, "the data has 0 held-out samples, too few for a batch of 1");
    CHECK(loader_open(perm, d, &(struct loader_config){ .batch = 0 }, &l, &err));
    CHECK(loader_open(perm, d, &(struct loader_config){ .batch = 2, .index = 6 }, &l, &err));
    CHECK_STR(err.text, "cannot start at sample 6 of an epoch of 5");
    dataset_close(d);
}

/* --- samples of similar length --- */

enum { LINES = 600, LONGEST = 60 };

/* Line i of two files begins with its number in four digits and has 4 to LONGEST letters. */
static struct dataset *lines_of_lengths(struct arena *perm, u64 seed)
{
    struct rng_key     key    = { .seed = seed };
    struct str         folder = folder_new(perm);
    struct str         files[2];
    struct data_config c = { .kind = STR("lines"), .context = LONGEST };
    struct dataset    *d;
    struct err         err = { 0 };
    for (i64 f = 0; f < 2; f++) {
        char *text = NEW(perm, char, LINES / 2 * (LONGEST + 1) + 8), *to = text;
        for (i64 i = f * LINES / 2; i < (f + 1) * LINES / 2; i++) {
            i64 length = 4 + rng_u32(key, (u64)i) % (LONGEST - 3);
            to += sprintf(to, "%04d", (int)i);
            for (i64 k = 4; k < length; k++) *to++ = 'a';
            *to++ = '\n';
        }
        files[f] = folder_put(perm, folder, f ? "b.txt" : "a.txt", (struct str){ text, to - text });
        c.files[c.file_count++] = files[f];
    }
    if (dataset_open(os_real(), &c, perm, &d, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), LINES);
    return d;
}

/* The numbers of an epoch's samples and their lengths, from `index` on, in the order in which they come. */
static void take_epoch(struct arena *perm, struct dataset *d, struct loader_config c, i64 *number,
                       i64 *length)
{
    struct loader *l = open_loader(perm, d, c);
    for (i64 at = c.index; at < LINES;) {
        struct batch *b = loader_next(l);
        CHECK(b && b->epoch == c.epoch && b->index == at);
        for (i64 i = 0; i < b->count; i++, at++) {
            const i32 *x = (const i32 *)b->data[0] + i * LONGEST;
            number[at]   = 0;
            for (i64 k = 0; k < 4; k++) number[at] = number[at] * 10 + x[k] - 1 - '0';
            length[at] = ((const i32 *)b->data[1])[i];
        }
    }
    loader_close(l);
}

static f64 spread(const i64 *length, i64 step) /* mean over whole steps of longest less shortest */
{
    f64 sum = 0;
    for (i64 s = 0; s < LINES / step; s++) {
        i64 low = INT64_MAX, high = 0;
        for (i64 i = s * step; i < (s + 1) * step; i++) {
            low  = MIN(low, length[i]);
            high = MAX(high, length[i]);
        }
        sum += (f64)(high - low) / (f64)(LINES / step);
    }
    return sum;
}

TEST(samples_of_similar_length_share_a_step_and_come_once)
{
    struct dataset      *d = lines_of_lengths(perm, test_seed());
    struct loader_config c = {
        .batch = 16, .group = 16, .shuffle = true, .seed = 3, .forever = true
    };
    i64  a[LINES], b[LINES], length[LINES], plain[LINES];
    bool seen[LINES] = { 0 };
    take_epoch(perm, d, c, a, length);
    for (i64 i = 0; i < LINES; i++) {
        CHECK(!seen[a[i]]);
        seen[a[i]] = true;
    }
    c.epoch = 1;
    take_epoch(perm, d, c, b, plain);
    i64 again = 0, last = LINES / 16 * 16; /* the short step, which train.drop_last leaves out */
    for (i64 i = last; i < LINES; i++)
        for (i64 k = last; k < LINES; k++) again += a[i] == b[k];
    CHECK(again < LINES - last); /* is not always that of the longest */
    c.epoch = 0;
    c.group = 0;
    take_epoch(perm, d, c, b, plain);
    CHECK(memcmp(a, b, sizeof a) != 0);
    CHECK(spread(length, 16) < spread(plain, 16) / 10); /* 600 sorted by 57 lengths: 1 or 2 of 50 */
    bool rises = true;
    for (i64 s = 1; s < LINES / 16; s++) rises &= length[16 * s] >= length[16 * (s - 1)];
    CHECK(!rises); /* the steps are shuffled */
    dataset_close(d);
}

TEST(the_grouped_order_depends_on_seed_epoch_and_index_only)
{
    struct dataset      *d = lines_of_lengths(perm, test_seed());
    struct loader_config c = {
        .batch = 4, .group = 4, .shuffle = true, .seed = 3, .forever = true
    };
    i64 a[LINES], b[LINES], length[LINES];
    take_epoch(perm, d, c, a, length); /* more than two windows of 64 steps */
    c.batch = 2;
    take_epoch(perm, d, c, b, length);
    CHECK(!memcmp(a, b, sizeof a)); /* in micro-batches */
    c.index = 300;
    take_epoch(perm, d, c, b, length);
    CHECK(!memcmp(a, b, sizeof a)); /* from the middle */
    c.index = 0;
    c.epoch = 1;
    take_epoch(perm, d, c, b, length);
    CHECK(memcmp(a, b, sizeof a) != 0);
    c.epoch = 0;
    c.seed  = 4;
    take_epoch(perm, d, c, b, length);
    CHECK(memcmp(a, b, sizeof a) != 0);
    dataset_close(d);
}

TEST(data_without_lengths_cannot_be_grouped)
{
    struct dataset *d = numbers(perm, 10);
    struct loader  *l;
    struct err      err;
    CHECK_EQ(loader_open(perm, d,
                         &(struct loader_config){ .batch = 2, .group = 2, .shuffle = true }, &l,
                         &err),
             STATUS_USAGE);
    CHECK_STR(str_of(err.text),
              "train.shuffle=by_length needs data.kind=lines: the lengths of tokens samples are "
              "not known before they are read");
    dataset_close(d);
}
