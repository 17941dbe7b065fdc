/* test_cadence.c - the schedule of checkpoints against the best that any schedule can do. */
#include "base/rng.h"
#include "harness.h"
#include "train/cadence.h"
#include "train/checkpoint_schedule.h"

enum { GRID = 4000, WAITS = 360 };

/* What a long run gets done on a machine before it is lost, in seconds of work that a checkpoint on
 * the disk holds (renewal reward): the sum of work * P(the machine is still there when it is
 * persisted). The schedule begins at age `from_s`. */
static f64 done_s(struct cadence_facts c, f64 from_s, f64 end_s)
{
    f64 sum = 0;
    for (f64 age = from_s; age < end_s;) {
        c.age_s  = age;
        f64 work = fmin(cadence_seconds((struct cadence){ EVERY_AUTO, 0 }, &c), end_s - age);
        age += work + c.stall_s;
        sum += work * hazard_survival(c.hazard, age + c.persist_s);
    }
    return sum;
}

/* The most that any schedule on a grid of `grid_s` gets, by dynamic programming from the end. */
static f64 best_s(struct cadence_facts c, f64 from_s, f64 grid_s)
{
    static f64 value[GRID + 1];
    memset(value, 0, sizeof value);
    for (i64 i = GRID - 1; i >= 0; i--) {
        for (i64 w = 1; w <= WAITS; w++) {
            f64 work = (f64)w * grid_s - c.stall_s;
            f64 gain =
                work * hazard_survival(c.hazard, from_s + (f64)(i + w) * grid_s + c.persist_s);
            if (work >= c.persist_s && i + w <= GRID)
                value[i] = fmax(value[i], gain + value[i + w]);
        }
    }
    return value[0];
}

/* Costs and machines drawn at random. What may be lost is what the grid hides (half a step of it)
 * and what the formula leaves out (first order in stall over mean): 1 % held for 800 draws. */
TEST(no_schedule_does_much_better)
{
    u64 seed = test_seed();
    for (u64 round = 0; round < 4; round++) {
        struct rng_key       key    = { .seed = seed, .sample = round };
        f64                  mean_s = 3600 * exp(rng_uniform(key, 0) * 2.5); /* 1 to 12 h */
        f64                  stall  = 0.5 * exp(rng_uniform(key, 1) * 3);    /* 0.5 to 10 s */
        f64                  from_s = 60 + 3000 * rng_uniform(key, 2);
        struct cadence_facts c      = { hazard_of_mean(mean_s, 0.7), stall, 0, 0, 0 };
        f64                  grid_s = fmin(sqrt(2 * stall * mean_s) / 12, 30);
        f64                  end_s  = from_s + GRID * grid_s;
        f64                  ours   = done_s(c, from_s, end_s);
        f64                  best   = best_s(c, from_s, grid_s);
        if (!(ours > 0.99 * best)) printf("\n  mean %g stall %g age %g", mean_s, stall, from_s);
        CHECK(ours > 0.99 * best);
        CHECK(best > 0.9 * done_s(c, from_s, end_s)); /* or the reference is none */
    }
}

TEST(the_first_comes_early_and_none_too_late)
{
    struct cadence       automatic = { EVERY_AUTO, 0 };
    struct cadence_facts f         = { hazard_prior, NAN, NAN, 60, 0 };
    CHECK(cadence_seconds(automatic, &f) <= 10);
    f.stall_s =
        0.1; /* it failed: nobody knows how long it takes, and the next ones come later and later */
    f.failed = 1;
    CHECK_NEAR(cadence_seconds(automatic, &f), 10, 1e-6);
    f.failed = 1000;
    CHECK_NEAR(cadence_seconds(automatic, &f), 1800, 1e-6);
    f.persist_s = 0;
    f.stall_s   = 1e4;
    f.age_s     = 1e6;
    CHECK_NEAR(cadence_seconds(automatic, &f), 1800, 1e-6);
    f.persist_s = 90;
    f.stall_s   = 1e-3;
    f.age_s     = 60;
    CHECK_NEAR(cadence_seconds(automatic, &f), 90, 1e-6);
    CHECK_EQ(cadence_seconds((struct cadence){ EVERY_SECONDS, 7 }, &f), 7);
    CHECK(isinf(cadence_seconds((struct cadence){ EVERY_STEPS, 7 }, &f)));
}

/* Only who says that the machine may be taken away gets the life of a spot machine. */
TEST(a_machine_that_is_not_spot_is_not_assumed_to_die_in_hours)
{
    struct settings s = {
        .checkpoint = { .dir = STR("kept"), .every = STR("auto"), .mtti_hours = NAN },
        .spot       = { .cloud = STR("auto") }
    };
    struct saving v;
    struct err    err;
    CHECK_EQ(saving_init(&v, &s, &err), STATUS_OK);
    CHECK_NEAR(hazard_mean_s(v.facts.hazard), 720 * 3600.0, 1);
    s.run.market = STR("on-demand");
    CHECK_EQ(saving_init(&v, &s, &err), STATUS_OK);
    CHECK_NEAR(hazard_mean_s(v.facts.hazard), 720 * 3600.0, 1);
    s.run.market = STR("spot");
    CHECK_EQ(saving_init(&v, &s, &err), STATUS_OK);
    CHECK_NEAR(hazard_mean_s(v.facts.hazard), hazard_mean_s(hazard_prior), 1);
    s.run.market   = STR("none");
    s.spot.grace_s = 30;
    CHECK_EQ(saving_init(&v, &s, &err), STATUS_OK);
    CHECK_NEAR(hazard_mean_s(v.facts.hazard), hazard_mean_s(hazard_prior), 1);
    s.checkpoint.mtti_hours = 24;
    CHECK_EQ(saving_init(&v, &s, &err), STATUS_OK);
    CHECK_NEAR(hazard_mean_s(v.facts.hazard), 24 * 3600.0, 1);
}

TEST(the_reason_has_the_figures)
{
    struct cadence_facts f = { hazard_prior, 0.25, 1.5, 7200, 0 };
    struct str           s = cadence_reason(perm, &f);
    CHECK(strstr(s.data, "pauses the run for 0.25 s") != NULL);
    CHECK(strstr(s.data, "complete after 1.5 s") != NULL);
    CHECK(strstr(s.data, "last 3 h on average (this one has been up for 2 h)") != NULL);
}

TEST(every_is_read_in_steps_or_time)
{
    static const struct {
        const char       *text;
        enum cadence_unit unit;
        f64               value;
    } good[] = { { "auto", EVERY_AUTO, 0 },           { "500", EVERY_STEPS, 500 },
                 { " 500 steps ", EVERY_STEPS, 500 }, { "1 step", EVERY_STEPS, 1 },
                 { "10min", EVERY_SECONDS, 600 },     { "10 m", EVERY_SECONDS, 600 },
                 { "1.5h", EVERY_SECONDS, 5400 },     { "0.2s", EVERY_SECONDS, 0.2 } };
    static const char *const bad[] = { "",       "often", "0",       "-3",   "1.5",
                                       "5 days", "min",   "1e9999s", "autos" };
    struct cadence           e;
    struct err               err;
    for (i64 i = 0; i < COUNT_OF(good); i++) {
        CHECK_EQ(cadence_parse(str_of(good[i].text), &e, &err), STATUS_OK);
        CHECK_EQ(e.unit, good[i].unit);
        CHECK_NEAR(e.value, good[i].value, 1e-9);
    }
    for (i64 i = 0; i < COUNT_OF(bad); i++) {
        CHECK_EQ(cadence_parse(str_of(bad[i]), &e, &err), STATUS_USAGE);
        CHECK(strstr(err.text, "checkpoint.every") != NULL);
    }
}
