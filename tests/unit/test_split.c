/* test_split.c - parts sum to the wall clock; quantiles are within 1 % of the truth. */
#include "base/rng.h"
#include "harness.h"
#include "run/quantiles.h"
#include "run/split.h"

TEST(every_nanosecond_lies_in_one_part)
{
    struct rng_key    r   = { .seed = test_seed() };
    i64               now = 12345, begin = now, true_ns[PART_COUNT] = { 0 };
    enum part         part = PART_other;
    struct step_split s;
    split_begin(&s, now);
    for (i64 i = 0; i < 10000; i++) {
        i64       passed = rng_u32(r, (u64)(2 * i)) % 1000;
        enum part next   = (enum part)(rng_u32(r, (u64)(2 * i + 1)) % PART_COUNT);
        now += passed;
        true_ns[part] += passed;
        CHECK_EQ(split_enter(&s, next, now), part);
        part = next;
        CHECK_EQ(split_sum(&s), now - begin);
    }
    for (i64 i = 0; i < PART_COUNT; i++) CHECK_EQ(s.ns[i], true_ns[i]);
}

TEST(what_is_moved_is_neither_lost_nor_made)
{
    struct step_split s, before;
    split_begin(&s, 0);
    split_enter(&s, PART_compute, 10);
    split_enter(&s, PART_other, 110);
    before = s;
    split_move(&s, PART_compute, PART_forward, 30);
    split_move(&s, PART_compute, PART_backward, 1000); /* a device's clock may run ahead of ours */
    CHECK_EQ(s.ns[PART_forward], 30);
    CHECK_EQ(s.ns[PART_backward], 70);
    CHECK_EQ(s.ns[PART_compute], 0);
    CHECK_EQ(split_sum(&s), 110);
    struct step_split d = split_since(&s, &before);
    CHECK_EQ(split_sum(&d), 0);
    CHECK_EQ(d.ns[PART_compute], -100);
}

TEST(parts_have_names)
{
    CHECK_STR(split_name(PART_input), "input");
    CHECK_STR(split_help(PART_update), "clipping and the optimiser");
}

static int by_value(const void *a, const void *b)
{
    i64 x = *(const i64 *)a, y = *(const i64 *)b;
    return (x > y) - (x < y);
}

/* Log-uniform over the whole range, so that every bucket is met. */
TEST(quantiles_are_within_a_hundredth)
{
    enum { COUNT = 20001 };
    static const f64  parts[] = { 0, 0.01, 0.5, 0.95, 0.99, 1 };
    struct rng_key    r       = { .seed = test_seed() };
    struct quantiles *q       = NEW(perm, struct quantiles, 1);
    i64              *all = NEW(perm, i64, COUNT), sum = 0;
    CHECK(isnan(quantiles_at(q, 0.5)));
    CHECK(isnan(quantiles_per_s(q)));
    for (i64 i = 0; i < COUNT; i++) {
        all[i] = (i64)(1e3 * pow(10, 11.9 * rng_uniform(r, (u64)i)));
        sum += all[i];
        quantiles_add(q, all[i]);
    }
    qsort(all, COUNT, sizeof *all, by_value);
    for (i64 i = 0; i < (i64)(sizeof parts / sizeof *parts); i++) {
        f64 truth = (f64)all[MAX((i64)ceil(parts[i] * COUNT), 1) - 1] * 1e-9;
        CHECK_NEAR(quantiles_at(q, parts[i]), truth, 0.01 * truth); /* the header's promise */
    }
    CHECK_EQ(q->sum_ns, sum);
    CHECK_EQ(q->min_ns, all[0]);
    CHECK_EQ(q->max_ns, all[COUNT - 1]);
}

TEST(quantiles_bear_what_is_out_of_range)
{
    struct quantiles *q = NEW(perm, struct quantiles, 1);
    quantiles_add(q, 0);
    CHECK_EQ(quantiles_at(q, 0.5), 0);
    quantiles_add(q, INT64_MAX / 2);
    CHECK_EQ(q->bucket[QUANTILES_BUCKETS - 1], 1);
    CHECK_EQ(q->max_ns, INT64_MAX / 2);
}
