/* test_asha.c - successive halving alone: who goes on, who is out, and that it always ends. */
#include "base/rng.h"
#include "harness.h"
#include "train/asha.h"

TEST(rungs_are_parts_of_the_run)
{
    struct asha *nine = asha_new(perm, 9, 3, 1e-9), *ten = asha_new(perm, 10, 2, 0.2);
    CHECK_EQ(nine->rung_count, 3);
    CHECK_NEAR(nine->part[0], 1.0 / 9, 1e-15);
    CHECK_NEAR(nine->part[1], 1.0 / 3, 1e-15);
    CHECK_EQ(nine->part[2], 1.0);
    CHECK_EQ(nine->expected[0], 9);
    CHECK_EQ(nine->expected[1], 3);
    CHECK_EQ(nine->expected[2], 1);
    CHECK_EQ(ten->rung_count, 3); /* 1/8 would be before a fifth of the run */
    CHECK_EQ(ten->part[0], 0.25);
    CHECK_EQ(ten->expected[2], 2);
    CHECK_EQ(asha_new(perm, 1, 3, 0.1)->rung_count, 1);
    CHECK_EQ(asha_new(perm, 9, 3, 1.0 / 9)->rung_count, 3);
}

/* Values 0 to 8 in some order, one worker: as by hand. */
TEST(one_worker_runs_three_of_nine_on_and_one_to_the_end)
{
    static const f64 values[] = { 4, 7, 0, 3, 8, 1, 6, 2, 5 };
    struct asha     *a        = asha_new(perm, 9, 3, 0.1);
    i64              order[9], runs[3] = { 0 };
    for (i64 t; (t = asha_next(a)) >= 0;) {
        runs[a->trials[t].rung]++;
        asha_report(a, t, values[t]);
    }
    CHECK_EQ(runs[0], 9);
    CHECK_EQ(runs[1], 3);
    CHECK_EQ(runs[2], 1);
    asha_ranking(a, order);
    CHECK_EQ(order[0], 2);
    CHECK_EQ(order[1], 5);
    CHECK_EQ(order[8], 4);
    CHECK_EQ(a->trials[2].state, ASHA_DONE);
}

TEST(a_trial_is_out_as_soon_as_that_is_sure)
{
    struct asha *a = asha_new(perm, 4, 2, 0.5); /* 4 -> 2 */
    for (i64 i = 0; i < 4; i++) CHECK_EQ(asha_next(a), i);
    asha_report(a, 0, 3);
    asha_report(a, 1, 2);
    CHECK_EQ(asha_drop(a), -1); /* two places, two candidates */
    asha_report(a, 2, 1);
    CHECK_EQ(asha_drop(a), 0); /* the third best of three, for two places */
    CHECK_EQ(asha_drop(a), -1);
    CHECK_EQ(asha_next(a),
             2); /* one is still out there, but cannot push it from the second place */
    CHECK_EQ(asha_next(a), -1);
    asha_report(a, 3, 9);
    CHECK_EQ(asha_drop(a), 3);
    CHECK_EQ(asha_next(a), 1);
}

TEST(failed_trials_are_out_and_take_nobodys_place)
{
    struct asha *a    = asha_new(perm, 4, 2, 0.5);
    i64          done = 0;
    for (i64 t; (t = asha_next(a)) >= 0;) {
        asha_report(a, t, t == 2 ? 1 : t == 1 ? INFINITY : NAN);
        done += a->trials[t].state == ASHA_DONE;
        while (asha_drop(a) >= 0) {}
    }
    CHECK_EQ(done, 1); /* two places, and one trial that can have one */
    CHECK_EQ(a->trials[2].state, ASHA_DONE);
}

TEST(a_trial_that_ends_by_itself_keeps_its_place)
{
    struct asha *a = asha_new(perm, 4, 2, 0.5);
    i64          order[4], done = 0;
    for (i64 t; (t = asha_next(a)) >= 0;) {
        if (t == 3) asha_ended(a, t, 1); /* patience */
        else asha_report(a, t, (f64)t + 2);
        done += a->trials[t].state == ASHA_DONE;
    }
    CHECK_EQ(done, 2); /* with the one that ended there is one more place */
    asha_ranking(a, order);
    CHECK_EQ(order[0], 3);
    CHECK_EQ(order[1], 0);
}

struct worker {
    i64 trial; /* -1: idle */
    f64 ready; /* when it reports */
};

/* Random values and durations, any number of workers and trials: it comes to an end; whoever is the
 * best at every rung gets to the end; without guesses exactly the expected number does. */
static void check_random(struct arena *perm, struct rng_key key)
{
    u64           at      = 0;
    i64           count   = 1 + rng_u32(key, at++) % 40;
    i64           eta     = 2 + rng_u32(key, at++) % 4;
    i64           workers = 1 + rng_u32(key, at++) % 5;
    f64           now     = 0;
    struct asha  *a       = asha_new(perm, count, eta, 0.01);
    struct worker w[8];
    i64           runs = 0, done = 0;
    for (i64 i = 0; i < workers; i++) w[i].trial = -1;
    for (;;) {
        struct worker *next = NULL;
        for (i64 i = 0; i < workers; i++) {
            if (w[i].trial < 0 && (w[i].trial = asha_next(a)) >= 0) {
                w[i].ready = now + 0.1 + rng_uniform(key, at++);
                runs++;
            }
            if (w[i].trial >= 0 && (!next || w[i].ready < next->ready)) next = &w[i];
        }
        if (!next) break;
        now       = next->ready;
        f64 value = next->trial == 0 ? -1 : (f64)(rng_u32(key, at++) % 10); /* with ties */
        asha_report(a, next->trial, value);
        done += a->trials[next->trial].state == ASHA_DONE;
        next->trial = -1;
        while (asha_drop(a) >= 0) {}
    }
    CHECK_EQ(a->trials[0].state, ASHA_DONE);
    for (i64 i = 0; i < count; i++)
        CHECK(a->trials[i].state == ASHA_DONE || a->trials[i].state == ASHA_OUT);
    CHECK(done >= a->expected[a->rung_count - 1]);
    i64 least = 0;
    for (i64 k = 0; k < a->rung_count; k++) least += a->expected[k];
    CHECK(runs >= least);
    if (workers == 1) CHECK_EQ(runs, least);
}

TEST(it_ends_and_the_best_gets_there)
{
    u64 seed = test_seed();
    for (u64 i = 0; i < 2000; i++) {
        struct arena here = *perm;
        check_random(&here, (struct rng_key){ .seed = seed, .sample = i });
    }
}
