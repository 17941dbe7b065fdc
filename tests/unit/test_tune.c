/* test_tune.c - which settings win: the policy on a machine whose true costs are known, with noise. The command:
 * tests/cli/test_tune.sh. */
#include "base/rng.h"
#include "harness.h"
#include "train/tune.h"
#include <math.h>
#include <string.h>

/* A sample takes so long with these words; 0: it cannot run. */
struct cost {
    const char *words;
    f64         seconds;
};

struct machine {
    const struct cost *costs;
    f64                noise; /* a measurement takes up to so much longer */
    u64                seed;
    i64                measured;
    enum status        ends; /* what the third measurement comes to; OK: nothing special */
};

static f64 true_seconds(const struct machine *m, struct str words)
{
    const struct cost *c = m->costs;
    while (c->words && !str_eq(str_of(c->words), words)) c++;
    CHECK(c->words);
    return c->words ? c->seconds : 1;
}

static enum status measure(void *context, const struct tune_value *v, f64 *seconds, struct err *err)
{
    struct machine *m = context;
    f64             s = true_seconds(m, v->words);
    if (++m->measured == 3 && m->ends) return err_set(err, m->ends, "that is the end");
    if (s == 0) return err_set(err, STATUS_NO, "no memory for it");
    *seconds =
        s * (1 + m->noise * rng_uniform((struct rng_key){ .seed = m->seed }, (u64)m->measured));
    return STATUS_OK;
}

static struct tune_lever lever_of(const struct cost *costs)
{
    struct tune_lever l = { .name = "lever" };
    for (; costs->words; costs++)
        l.values[l.count++] = (struct tune_value){ .words = str_of(costs->words) };
    return l;
}

TEST(the_fastest_wins_through_noise)
{
    static const struct cost costs[] = { { "a", 1.0 }, { "b", 0.9 }, { "c", 0.8 },
                                         { "d", 2.0 }, { "e", 0 },   { NULL, 0 } };
    u64                      seed    = test_seed();
    for (i64 turn = 0; turn < 100; turn++) {
        struct machine    m = { .costs = costs, .noise = 0.1, .seed = seed + (u64)turn };
        struct tune_lever l = lever_of(costs);
        CHECK_EQ(tune_try(&l, measure, &m, NULL), STATUS_OK);
        CHECK_EQ(
            l.won,
            2); /* 0.8 to 0.88 is below 0.9 to 0.99 in most rounds, and the median is of three */
        CHECK(l.values[3].behind && l.values[3].rounds == 1);
        CHECK(isnan(tune_noise(&l.values[3])) && tune_noise(&l.values[2]) > 0);
        CHECK_STR(l.values[4].why_not, "no memory for it");
        CHECK(isnan(tune_seconds(&l.values[4])));
        CHECK_EQ(m.measured, 3 * 3 + 1 + 1);
    }
}

TEST(what_is_no_faster_than_the_noise_does_not_win)
{
    static const struct cost costs[] = { { "a", 1.0 }, { "b", 0.985 }, { NULL, 0 } };
    struct machine           m       = { .costs = costs };
    struct tune_lever        l       = lever_of(costs);
    CHECK_EQ(tune_try(&l, measure, &m, NULL), STATUS_OK);
    CHECK_EQ(l.won, 0); /* 1.5 % */
    static const f64 was[] = { 1.0, 0.95, 1.3 }, now[] = { 0.97, 0.96, 0.98 };
    memcpy(l.values[0].seconds, was, sizeof was);
    memcpy(l.values[1].seconds, now, sizeof now);
    CHECK_EQ(tune_seconds(&l.values[0]), 1.0);
    CHECK_NEAR(tune_noise(&l.values[0]), 0.35, 1e-15);
}

TEST(a_run_that_does_not_fit_is_replaced_by_one_that_does)
{
    static const struct cost costs[] = { { "a", 0 }, { "b", 2 }, { "c", 0 }, { NULL, 0 } };
    struct machine           m       = { .costs = costs };
    struct tune_lever        l       = lever_of(costs);
    CHECK_EQ(tune_try(&l, measure, &m, NULL), STATUS_OK);
    CHECK_EQ(l.won, 1);
}

TEST(a_signal_ends_the_search)
{
    static const struct cost costs[] = { { "a", 1 }, { "b", 2 }, { NULL, 0 } };
    struct machine           m       = { .costs = costs, .ends = STATUS_INTERRUPTED };
    struct tune_lever        l       = lever_of(costs);
    struct err               err     = { 0 };
    CHECK_EQ(tune_try(&l, measure, &m, &err), STATUS_INTERRUPTED);
    CHECK_STR(err.text, "that is the end");
    CHECK_EQ(m.measured, 3);
}

static const struct tune_lever *find(const struct tune_lever *l, i64 count, const char *name)
{
    for (i64 i = 0; i < count; i++)
        if (!strcmp(l[i].name, name)) return &l[i];
    return NULL;
}

TEST(a_steps_samples_stay_as_many)
{
    struct tune_lever        levers[TUNE_LEVERS_MAX];
    struct tune_facts        f     = { .cores = 6, .threads = 6, .batch = 24, .accumulate = 2 };
    i64                      count = tune_levers(&f, levers, perm);
    const struct tune_lever *l     = find(levers, count, "micro-batch");
    CHECK(l && l->count > 4 && l->digits);
    CHECK_STR(str_z(perm, l->values[0].words), "train.micro_batch=24");
    for (i64 i = 0; l && i < l->count; i++) {
        long long micro;
        CHECK_EQ(sscanf(str_z(perm, l->values[i].words), "train.micro_batch=%lld", &micro), 1);
        CHECK(micro > 0 && 48 % micro == 0);
        for (i64 k = 0; k < i; k++) CHECK(!str_eq(l->values[i].words, l->values[k].words));
    }
    l = find(levers, count, "threads");
    CHECK(l && l->count == 3 && !l->digits); /* 6, 3, 1 */
}

TEST(the_loader_is_a_lever_where_samples_are_loaded)
{
    struct tune_lever levers[TUNE_LEVERS_MAX];
    struct tune_facts f = { .cores = 2, .threads = 2, .batch = 8, .accumulate = 1, .loads = true };
    i64               count    = tune_levers(&f, levers, perm);
    const struct tune_lever *l = find(levers, count, "loader");
    CHECK(l && !l->digits); /* batches do not depend on it */
    CHECK_EQ(l->count, 5);
    CHECK_STR(l->values[0].words, ""); /* as it is */
    CHECK_STR(l->values[1].words, "loader.workers=auto");
    CHECK_STR(l->values[4].words, "loader.workers=4");
    f.loads = false;
    count   = tune_levers(&f, levers, perm);
    CHECK(!find(levers, count, "loader"));
}

TEST(levers_that_would_change_more_are_left_out)
{
    struct tune_lever levers[TUNE_LEVERS_MAX];
    struct tune_facts f     = { .gpus       = 1,
                                .cores      = 8,
                                .threads    = 8,
                                .batch      = 8,
                                .accumulate = 1,
                                .batch_norm = true,
                                .wide       = true };
    i64               count = tune_levers(&f, levers, perm);
    CHECK(!find(levers, count, "micro-batch")); /* the statistics are of a micro-batch */
    CHECK(!find(levers, count, "threads"));     /* the GPU works */
    CHECK(!find(levers, count, "precision"));   /* f64 was asked for */
    CHECK_EQ(count, 1);
}
