/* test_clock.c - every nanosecond lies in one part, and the views agree; quantiles are within 1 % of the truth. */
#include "base/rng.h"
#include "harness.h"
#include "run/clock.h"

static i64 now_ns;

static i64 fake_now(struct os *os)
{
    (void)os;
    return now_ns;
}

static struct clock *clock_at(struct arena *perm, i64 at_ns)
{
    struct os *os = NEW(perm, struct os, 1);
    *os           = *os_real();
    os->now_ns    = fake_now;
    now_ns        = at_ns;
    return clock_new(perm, os);
}

static void enter_at(struct clock *c, enum part part, i64 at_ns)
{
    now_ns = at_ns;
    CHECK_EQ(clock_enter(c, part), at_ns);
}

static i64 sum_of(const struct step_split *s)
{
    i64 sum = 0;
    for (i64 i = 0; i < PART_COUNT; i++) sum += s->ns[i];
    return sum;
}

/* The sum of the terms is that of the parts, less what is nobody's. */
TEST(every_nanosecond_lies_in_one_part_and_one_term)
{
    struct rng_key r     = { .seed = test_seed() };
    i64            begin = 12345, true_ns[PART_COUNT] = { 0 }, terms[TERM_COUNT];
    enum part      part = PART_start;
    struct clock  *c    = clock_at(perm, begin);
    for (i64 i = 0; i < 10000; i++) {
        i64       passed = rng_u32(r, (u64)(2 * i)) % 1000;
        enum part next   = (enum part)(rng_u32(r, (u64)(2 * i + 1)) % (u32)PART_COUNT);
        true_ns[part] += passed;
        if (i % 7 == 0) clock_redo(c, i % 3 == 0);
        enter_at(c, next, now_ns + passed);
        part                = next;
        struct step_split s = clock_split(c);
        CHECK_EQ(sum_of(&s), now_ns - begin);
        CHECK_EQ(clock_terms(c, terms), now_ns - begin - true_ns[PART_paused]);
    }
    for (i64 i = 0; i < PART_COUNT; i++) CHECK_EQ(clock_part_ns(c, (enum part)i), true_ns[i]);
    CHECK_EQ(clock_waited_ns(c), true_ns[PART_input] + true_ns[PART_fill]);
    CHECK_EQ(terms[TERM_evaluation], true_ns[PART_evaluation]);
    CHECK(terms[TERM_redone] > 0);
}

TEST(what_is_moved_is_neither_lost_nor_made)
{
    struct clock *c = clock_at(perm, 0);
    enter_at(c, PART_compute, 10);
    enter_at(c, PART_other, 110);
    struct step_split before = clock_split(c);
    clock_move(c, PART_compute, PART_forward, 30);
    clock_move(c, PART_compute, PART_backward, 1000); /* a device's clock may run ahead of ours */
    struct step_split s = clock_split(c), d = split_since(&s, &before);
    CHECK_EQ(s.ns[PART_forward], 30);
    CHECK_EQ(s.ns[PART_backward], 70);
    CHECK_EQ(s.ns[PART_compute], 0);
    CHECK_EQ(split_sum(&s), 100); /* the start is not the loop's */
    CHECK_EQ(split_sum(&d), 0);
    CHECK_EQ(d.ns[PART_compute], -100);
}

TEST(a_stopped_clock_says_the_same_for_ever)
{
    struct clock *c = clock_at(perm, 0);
    i64           terms[TERM_COUNT];
    enter_at(c, PART_compute, 10);
    now_ns = 25;
    CHECK_EQ(clock_terms(c, terms), 25);
    clock_stop(c);
    enter_at(c, PART_evaluation, 100);
    enter_at(c, PART_other, 200);
    CHECK_EQ(clock_terms(c, terms), 25);
    CHECK_EQ(terms[TERM_compute], 15);
    CHECK_EQ(clock_part_ns(c, PART_evaluation), 0);
    CHECK_EQ(clock_now(c), 200); /* deadlines go on */
}

TEST(only_steps_that_end_are_timed)
{
    struct clock *c = clock_at(perm, 0);
    now_ns          = 5;
    CHECK_EQ(clock_step_begin(c, 0), 5);
    now_ns = 25;
    CHECK_EQ(clock_step_end(c), 20);
    now_ns = 30;
    clock_step_begin(c, 1); /* left unfinished */
    now_ns = 90;
    clock_step_begin(c, 1);
    now_ns = 100;
    CHECK_EQ(clock_step_end(c), 10);
    CHECK_EQ(clock_step_times(c)->count, 2);
    CHECK_EQ(clock_step_times(c)->sum_ns, 30);
}

TEST(a_deadline_passes_once_and_a_stopwatch_runs_on)
{
    struct os os       = *os_real();
    os.now_ns          = fake_now;
    now_ns             = 1000;
    struct deadline  d = deadline_in(&os, 50);
    struct stopwatch w = stopwatch_start(&os);
    CHECK_EQ(d.at_ns, 1050);
    CHECK_EQ(deadline_left_ns(&d), 50);
    now_ns = 1049;
    CHECK_EQ(deadline_left_ns(&d), 1);
    now_ns = 1050;
    CHECK_EQ(deadline_left_ns(&d), 0);
    now_ns = 3000001000;
    CHECK_EQ(deadline_left_ns(&d), 0);
    CHECK_EQ(stopwatch_s(&w), 3);
    CHECK_EQ(moment_now(&os), now_ns);
}

TEST(parts_have_names_and_terms)
{
    CHECK_STR(clock_part_name(PART_input), "input");
    CHECK_STR(clock_part_help(PART_update), "clipping and the optimiser");
    CHECK_EQ(clock_part_term(PART_fill), TERM_loading);
    for (i64 i = 0; i < PART_COUNT; i++) CHECK(clock_part_help((enum part)i)[0]);
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
