/* test_hazard.c - the law of machines' lives: its integral, its fit, and when saves are due. */
#include "base/rng.h"
#include "harness.h"
#include "run/hazard.h"

static const f64 hour = 3600;

TEST(the_mean_is_the_mean)
{
    struct hazard h = hazard_of_mean(3 * hour, 0.7);
    CHECK_NEAR(hazard_mean_s(h), 3 * hour, 1e-6);
    CHECK_NEAR(hazard_mean_s(hazard_prior), 3 * hour,
               5); /* the prior's scale is a rounded figure */
    CHECK_NEAR(hazard_lived_s(h, 1e9), 3 * hour, 1e-6);
    CHECK_NEAR(hazard_survival(h, hazard_age_s(h, 0.3)), 0.3, 1e-12);
}

/* Against the sum of the survival over thin slices, which is right to about their width squared. */
TEST(the_integral_of_survival)
{
    u64 seed = test_seed();
    for (u64 i = 0; i < 20; i++) {
        struct rng_key key = { .seed = seed, .step = i };
        f64            age = 10 * hour * rng_uniform(key, 0), sum = 0;
        struct hazard  h = { 0.5 + rng_uniform(key, 1), hour * (0.5 + 5 * rng_uniform(key, 2)) };
        enum { SLICES = 20000 };
        for (i32 k = 0; k < SLICES; k++) { /* slices grow: the survival is steep at 0 */
            f64 from = age * pow((f64)k / SLICES, 3), to = age * pow((k + 1.0) / SLICES, 3);
            sum += (to - from) * hazard_survival(h, (from + to) / 2);
        }
        CHECK_NEAR(hazard_lived_s(h, age), sum, 1e-5 * sum);
    }
}

TEST(what_never_dies)
{
    struct hazard     h = { 1, INFINITY };
    struct save_costs c = { .stall_s = 5, .interval_max_s = 1800 };
    CHECK_EQ(hazard_survival(h, 1e9), 1);
    CHECK_EQ(hazard_lived_s(h, 1e9), 1e9);
    CHECK_EQ(hazard_save_due_s(h, &c, 100), 1900);
}

/* 1,600 lives, half of them cut short at random: the standard error of the shape is then 2.5 %, and that of the
 * mean, which follows from shape and scale, 6 % (300 fits by another program). More than six of each are allowed. */
TEST(the_fit_finds_a_law_through_censored_lives)
{
    enum { LIVES = 1600 };
    struct rng_key  key = { .seed = test_seed() };
    struct hazard   law = { 0.65, 2 * hour };
    struct lifetime lives[LIVES];
    for (u64 i = 0; i < LIVES; i++) {
        f64 life = hazard_age_s(law, 1 - rng_uniform(key, 2 * i));
        f64 left = 5 * hour * rng_uniform(key, 2 * i + 1);
        lives[i] = (struct lifetime){ MIN(life, left), life < left };
    }
    struct hazard h = hazard_fit(lives, LIVES);
    CHECK_NEAR(h.shape, law.shape, 0.2 * law.shape);
    CHECK_NEAR(hazard_mean_s(h), hazard_mean_s(law), 0.4 * hazard_mean_s(law));
}

/* The mean of the lives and of the prior, as of 42 machines; a shape between theirs moves it little. */
TEST(lives_of_one_length_outweigh_the_prior)
{
    struct lifetime lives[41] = { { 1159, false } };
    for (i64 i = 1; i < 41; i++) lives[i] = (struct lifetime){ 600, true };
    f64 mean = (40 * 600 + 2 * hazard_mean_s(hazard_prior)) / 42;
    CHECK_NEAR(hazard_mean_s(hazard_fit(lives, 41)), mean, 0.1 * mean);
    CHECK_NEAR(hazard_mean_s(hazard_fit(lives + 1, 40)), mean, 0.1 * mean);
}

TEST(few_lives_leave_the_prior)
{
    struct lifetime quiet = { 100 * hour, false };
    CHECK_NEAR(hazard_fit(NULL, 0).scale_s, hazard_prior.scale_s, 1e-6);
    CHECK_EQ(hazard_fit(&quiet, 1).shape, hazard_prior.shape);
    CHECK(hazard_mean_s(hazard_fit(&quiet, 1)) > hazard_mean_s(hazard_prior));
}

TEST(saves_are_young_s_where_the_hazard_stays)
{
    struct hazard     h = { 1, 10 * hour };
    struct save_costs c = { .stall_s = 5 };
    CHECK_NEAR(hazard_save_due_s(h, &c, 500) - 500, sqrt(2 * 5 * 10 * hour), 1e-6);
    c.landing = 0.75; /* half of the work at risk needs saves half as often */
    CHECK_NEAR(hazard_save_due_s(h, &c, 500) - 500, 2 * sqrt(2 * 5 * 10 * hour), 1e-6);
}

TEST(saves_grow_rarer_with_age_and_keep_their_bounds)
{
    struct save_costs c  = { .stall_s = 5, .persist_s = 160, .interval_max_s = 400 };
    f64               at = 300, before = 0;
    for (i32 i = 0; i < 200; i++) {
        f64 due = hazard_save_due_s(hazard_prior, &c, at);
        CHECK(due - at >= before - 1e-6);
        CHECK(due - at >= 160 - 1e-6);
        CHECK(due - at <= 400 + 1e-6);
        before = due - at;
        at     = due + c.stall_s;
    }
    CHECK_NEAR(before, 400, 1e-6);
}
