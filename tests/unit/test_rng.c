#include "base/rng.h"
#include "harness.h"

/* Random123 1.14, tests/kat_vectors, philox4x32 with 10 rounds. */
TEST(philox_gives_the_published_words)
{
    static const struct {
        u32 counter[4], key[2], out[4];
    } rows[] = {
        { { 0 }, { 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        u32 out[4];
        rng_philox(rows[i].counter, rows[i].key, out);
        CHECK(!memcmp(out, rows[i].out, sizeof out));
    }
}

/* Checkpoints and other backends rely on the packing: these words may never change. */
TEST(the_packing_is_stable)
{
    struct rng_key key = { 42, str_hash(STR("dense1.w")), ((u64)7 << 32) + 3, ((u64)1 << 32) + 5 };
    u64            k   = rng_philox_key(key);
    u32            out[4], same[4];
    rng_block(key, ((u64)9 << 32) + 2, out);
    rng_philox((u32[4]){ 2, 9, 5, 3 }, (u32[2]){ (u32)k, (u32)(k >> 32) }, same);
    CHECK(!memcmp(out, same, sizeof out));
    CHECK_EQ(k, 0x448842c124a37e4fu);
    CHECK_EQ(out[0], 0xc156d7e9u);
    CHECK_EQ(rng_permute(42, 7, 123, 60000), 47892);
}

struct block {
    u32 words[4];
};

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(struct block)); }

TEST(no_two_addresses_share_their_words)
{
    u64           seed  = test_seed();
    i64           count = 0;
    struct block *all   = NEW(perm, struct block, 6 * 10000);
    for (u64 i = 0; i < 10000; i++) {
        struct rng_key key = { seed, 1, 1, 1 };
        rng_block((struct rng_key){ seed + 1 + i, 1, 1, 1 }, 1, all[count++].words);
        rng_block((struct rng_key){ seed, 2 + i, 1, 1 }, 1, all[count++].words);
        rng_block((struct rng_key){ seed, 1, 2 + i, 1 }, 1, all[count++].words);
        rng_block((struct rng_key){ seed, 1, 1, 2 + i }, 1, all[count++].words);
        rng_block((struct rng_key){ seed, 1, (2 + i) << 32, (2 + i) << 32 }, 1, all[count++].words);
        rng_block(key, i, all[count++].words);
    }
    qsort(all, (size_t)count, sizeof *all, by_bytes);
    for (i64 i = 1; i < count; i++) CHECK(by_bytes(&all[i - 1], &all[i]));
}

/* Moments within six standard errors: a false alarm once in 5e8 runs. */
TEST(uniform_and_normal_have_their_moments)
{
    struct rng_key key   = { .seed = test_seed(), .name = 1 };
    i64            count = 1 << 18;
    f64            sum = 0, square = 0, normal_sum = 0, normal_square = 0, tail = 0, pair = 0;
    for (i64 i = 0; i < count; i++) {
        f64 u = rng_uniform(key, (u64)i), z = rng_normal(key, (u64)i);
        CHECK(u >= 0 && u < 1);
        sum += u;
        square += u * u;
        normal_sum += z;
        normal_square += z * z;
        tail += fabs(z) > 1.959963985; /* 5 % of a normal */
        if (i & 1) pair += z * rng_normal(key, (u64)i - 1);
    }
    f64 n = (f64)count;
    CHECK_NEAR(sum / n, 0.5, 6 * sqrt(1.0 / 12 / n));
    CHECK_NEAR(square / n, 1.0 / 3, 6 * sqrt(4.0 / 45 / n));
    CHECK_NEAR(normal_sum / n, 0, 6 * sqrt(1 / n));
    CHECK_NEAR(normal_square / n, 1, 6 * sqrt(2 / n));
    CHECK_NEAR(tail / n, 0.05, 6 * sqrt(0.05 * 0.95 / n));
    CHECK_NEAR(pair / (n / 2), 0, 6 * sqrt(2 / n));
}

/* The library's functions are within 1 ulp each, the angle it is given within another, ours within
 * a few: of the radius 2e-15. */
TEST(normal_is_what_the_c_library_gives)
{
    struct rng_key key = { .seed = test_seed(), .name = 2 };
    for (u64 i = 0; i < 1 << 18; i++) {
        u32 words[4];
        rng_block(key, i / 4, words);
        const u32 *pair   = words + (i % 4 & 2);
        f64        radius = sqrt(-2 * log((pair[0] + 0.5) * 0x1p-32)),
            angle         = 6.283185307179586477 * (pair[1] * 0x1p-32);
        CHECK_NEAR(rng_normal(key, i), radius * (i & 1 ? sin(angle) : cos(angle)), 2e-15 * radius);
    }
}

TEST(bulk_gives_the_numbers_of_single_calls)
{
    struct rng_key key = { test_seed(), 1, 2, 3 };
    f32           *out = NEW(perm, f32, 610);
    for (u64 first = 0; first < 9; first++) {
        for (i64 count = 0; count < 600; count += 1 + count / 8) {
            u64 from = first + ((u64)1 << 34) - 4; /* across the upper half of the block number */
            for (i64 i = 0; i < 610; i++) out[i] = -1;
            rng_fill_uniform(key, from, count, out);
            for (i64 i = 0; i < count; i++)
                CHECK_EQ((f64)out[i], floor(rng_uniform(key, from + (u64)i) * 0x1p24) * 0x1p-24);
            CHECK_EQ(out[count], -1.0f);
            rng_fill_normal(key, from, count, 0.02, out);
            for (i64 i = 0; i < count; i++)
                CHECK_EQ(out[i], (f32)(0.02 * rng_normal(key, from + (u64)i)));
            CHECK_EQ(out[count], -1.0f);
            rng_fill_around_zero(key, from, count, 0.02, out);
            for (i64 i = 0; i < count; i++)
                CHECK_EQ(out[i], (f32)(0.02 * (2 * rng_uniform(key, from + (u64)i) - 1)));
            CHECK_EQ(out[count], -1.0f);
        }
    }
}

static void check_permutation(struct arena scratch, u64 seed, u64 epoch, i64 count)
{
    u8 *seen = NEW(&scratch, u8, count);
    for (i64 i = 0; i < count; i++) {
        i64 j = rng_permute(seed, epoch, i, count);
        CHECK(j >= 0 && j < count);
        CHECK(!seen[j]++);
    }
}

TEST(every_count_gives_a_permutation)
{
    u64 seed = test_seed();
    for (i64 count = 1; count <= 1100; count++) check_permutation(scratch, seed, 1, count);
    for (u64 epoch = 0; epoch < 200; epoch++) check_permutation(scratch, seed, epoch, 7);
    for (int bits = 11; bits < 17; bits++)
        for (i64 off = -1; off <= 1; off++)
            check_permutation(scratch, seed, 3, ((i64)1 << bits) + off);
    check_permutation(scratch, seed, 2, 60000);
    i64 large = rng_permute(seed, 1, INT64_MAX - 1, INT64_MAX);
    CHECK(large >= 0 && large < INT64_MAX);
}

/* Each index falls into each tenth of the set equally often over the epochs (chi squared with 9
 * degrees of freedom: above 70 once in 1e11), and neighbours are not neighbours again. */
TEST(epochs_are_mixed_well)
{
    u64 seed = test_seed();
    for (i64 index = 0; index < 1000; index += 111) {
        f64 tenths[10] = { 0 }, chi = 0;
        i64 close = 0;
        for (u64 epoch = 0; epoch < 2000; epoch++) {
            i64 j = rng_permute(seed, epoch, index, 1000);
            i64 k = rng_permute(seed, epoch, (index + 1) % 1000, 1000);
            tenths[j / 100]++;
            close += k == (j + 1) % 1000;
        }
        for (int t = 0; t < 10; t++) chi += (tenths[t] - 200) * (tenths[t] - 200) / 200;
        CHECK(chi < 70);
        CHECK(close < 20); /* two expected */
    }
}

TEST(a_small_set_meets_all_its_orders)
{
    u64  seed     = test_seed();
    bool seen[64] = { 0 };
    int  orders   = 0;
    for (u64 epoch = 0; epoch < 1000; epoch++) {
        i64 code = 0;
        for (i64 i = 0; i < 3; i++) code = code * 4 + rng_permute(seed, epoch, i, 3);
        orders += !seen[code];
        seen[code] = true;
    }
    CHECK_EQ(orders, 6);
}
