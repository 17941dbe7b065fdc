/* test_risk.c - expected time, bill and odds against a simulation that only knows what happens. */
#include "base/rng.h"
#include "harness.h"
#include "plan/risk.h"

static const f64 hour = 3600;

/* A job and a law as they come: hours of work, minutes of start, seconds of stall. */
static struct risk_job random_job(struct rng_key key)
{
    struct risk_job j     = { .work_s = hour * (5 + 60 * rng_uniform(key, 0)) };
    j.start_s             = 60 + 540 * rng_uniform(key, 1);
    j.save.stall_s        = 1 + 60 * rng_uniform(key, 2);
    j.save.persist_s      = 100 * rng_uniform(key, 3);
    j.save.interval_max_s = 1800;
    if (rng_uniform(key, 4) < 0.5) j.interval_s = 120 + 1700 * rng_uniform(key, 5);
    return j;
}

static struct hazard random_law(struct rng_key key)
{
    return hazard_of_mean(hour * (0.75 + 8 * rng_uniform(key, 6)),
                          0.55 + 0.6 * rng_uniform(key, 7));
}

/* Event by event: work until the save is due, stall, and it is safe a while later. */
struct run {
    f64 up_s, billed_s, interruptions;
};

static bool live(const struct risk_job *j, struct hazard law, f64 life, f64 *left, f64 *up)
{
    f64 age = j->start_s, done = 0, safe = 0;
    struct {
        f64 at, work;
    } pending = { INFINITY, 0 };
    for (;;) {
        f64 due = j->interval_s > 0 ? age + j->interval_s : hazard_save_due_s(law, &j->save, age);
        f64 end = age + (*left - done);
        if (end <= due && end <= life) return *up += end, true;
        if (pending.at <= MIN(due + j->save.stall_s, life)) safe = pending.work;
        if (life < due + j->save.stall_s) break;
        done += due - age;
        age          = due + j->save.stall_s;
        f64 at       = age + j->save.persist_s;
        pending.at   = at;
        pending.work = done;
    }
    *left -= safe;
    *up += life;
    return false;
}

static struct run simulate(const struct risk_job *j, struct hazard law, i64 runs, u64 seed)
{
    struct run sum = { 0 };
    for (i64 i = 0; i < runs; i++) {
        struct rng_key key  = { .seed = seed, .name = 1, .step = (u64)i };
        f64            left = j->work_s;
        for (u64 n = 0;; n++) {
            f64  life = hazard_age_s(law, 1 - rng_uniform(key, n)), up = 0;
            bool done = live(j, law, life, &left, &up);
            sum.up_s += up / (f64)runs;
            if (done || up >= j->free_s) sum.billed_s += up / (f64)runs;
            if (done) break;
            sum.interruptions += 1 / (f64)runs;
        }
    }
    return sum;
}

/* 2 % of the overhead is what is promised. 20,000 runs leave the simulation itself an error of about
 * 0.5 % of it (one run's overhead varies by some 60 %), so that a failure is one of ours. */
TEST(the_expected_overhead_is_that_of_a_simulation)
{
    u64 seed = test_seed();
    for (u64 i = 0; i < 6; i++) {
        struct rng_key      key  = { .seed = seed, .step = i };
        struct risk_job     j    = random_job(key);
        struct hazard       law  = random_law(key);
        struct survival     s    = survival_of_law(law);
        struct run          seen = simulate(&j, law, 20000, seed + i);
        struct risk_outcome o    = risk_expect(&j, &s, scratch);
        CHECK_NEAR(o.up_s - j.work_s, seen.up_s - j.work_s, 0.02 * (seen.up_s - j.work_s));
        CHECK_NEAR(o.interruptions, seen.interruptions, 0.02 * seen.interruptions + 0.01);
    }
}

TEST(what_is_free_is_not_billed)
{
    u64 seed = test_seed();
    for (u64 i = 0; i < 3; i++) {
        struct rng_key  key      = { .seed = seed, .step = i };
        struct risk_job j        = random_job(key);
        struct hazard   law      = random_law(key);
        struct survival s        = survival_of_law(law);
        j.free_s                 = hour;
        struct run          seen = simulate(&j, law, 10000, seed + i);
        struct risk_outcome o    = risk_expect(&j, &s, scratch);
        CHECK(o.billed_s < o.up_s);
        CHECK_NEAR(o.billed_s, seen.billed_s, 0.01 * seen.billed_s); /* four standard errors */
    }
}

/* M e^(R/M) (e^((tau + delta) / M) - 1) W / tau, and the first start; ours has one stall less, and
 * the grid's own error. */
static f64 closed_form(f64 m, const struct risk_job *j)
{
    f64 tau  = j->interval_s,
        each = m * exp(j->start_s / m) * (exp((tau + j->save.stall_s) / m) - 1);
    return each * j->work_s / tau + m * (exp(j->start_s / m) - 1);
}

TEST(the_exponential_law_has_a_closed_form)
{
    f64             m = 2 * hour, r = 400, tau = 600, delta = 20;
    struct survival s = survival_of_law((struct hazard){ 1, m });
    struct risk_job j = { .work_s = 400 * hour, .start_s = r, .interval_s = tau };
    j.save.stall_s    = delta;
    f64 exact         = closed_form(m, &j);
    f64 ours          = risk_expect(&j, &s, scratch).up_s;
    CHECK_NEAR(ours - j.work_s, exact - j.work_s, 0.003 * (exact - j.work_s));
}

TEST(many_saves_are_taken_together)
{
    f64             m = 3 * hour, r = 300, tau = 20, delta = 0.05;
    struct survival s = survival_of_law((struct hazard){ 1, m });
    struct risk_job j = { .work_s = 50 * hour, .start_s = r, .interval_s = tau };
    j.save.stall_s    = delta;
    f64 exact         = closed_form(m, &j);
    CHECK_NEAR(risk_expect(&j, &s, scratch).up_s - j.work_s, exact - j.work_s,
               0.01 * (exact - j.work_s));
}

TEST(nothing_happens_to_what_never_dies)
{
    struct survival     s = survival_of_law((struct hazard){ 1, INFINITY });
    struct risk_job     j = { .work_s = 10 * hour, .start_s = 60 };
    struct risk_outcome o = risk_expect(&j, &s, scratch);
    CHECK_NEAR(o.up_s, 10 * hour + 60, 1e-6);
    CHECK_EQ(o.interruptions, 0);
}

/* Daly 2006, equation 37, agrees with the exact optimum to a second; the expectation is flat there,
 * hence 3 %. */
TEST(the_best_interval_is_daly_s)
{
    f64             m = 3 * hour, delta = 60, x = delta / (2 * m);
    f64             daly = sqrt(2 * delta * m) * (1 + sqrt(x) / 3 + x / 9) - delta;
    struct survival s    = survival_of_law((struct hazard){ 1, m });
    struct risk_job j    = { .work_s = 300 * hour, .start_s = 300 };
    j.save.stall_s       = delta;
    CHECK_NEAR(risk_best_interval_s(&j, &s, scratch), daly, 0.03 * daly);
}

/* Where the hazard falls with age, saves that follow it beat the best fixed interval. */
TEST(saves_that_follow_the_hazard_are_no_worse_than_fixed_ones)
{
    u64 seed = test_seed();
    for (u64 i = 0; i < 5; i++) {
        struct rng_key  key   = { .seed = seed, .step = i };
        struct hazard   law   = hazard_of_mean(hour * (1 + 5 * rng_uniform(key, 0)), 0.65);
        struct survival s     = survival_of_law(law);
        struct risk_job j     = { .work_s = 40 * hour, .start_s = 300 };
        j.save.stall_s        = 5;
        struct risk_job fixed = j;
        fixed.interval_s      = risk_best_interval_s(&j, &s, scratch);
        f64 ours              = risk_expect(&j, &s, scratch).up_s - j.work_s;
        f64 best              = risk_expect(&fixed, &s, scratch).up_s - j.work_s;
        CHECK(ours < 1.01 * best);
    }
}

/* The table of break-even discounts: start 300 s, stall 1 s, a mean life of 1.75 h: 6.3 %. */
TEST(the_discount_at_which_spot_begins_to_pay)
{
    struct survival spot  = survival_of_law((struct hazard){ 1, 1.75 * hour });
    struct survival sure  = survival_of_law((struct hazard){ 1, INFINITY });
    struct risk_job j     = { .work_s = 500 * hour, .start_s = 300 };
    j.save.stall_s        = 1;
    j.interval_s          = risk_best_interval_s(&j, &spot, scratch);
    struct risk_outcome a = risk_expect(&j, &spot, scratch), b = risk_expect(&j, &sure, scratch);
    b.billed_s = j.work_s;
    CHECK_NEAR(risk_break_even(&a, &b), 0.063, 0.0015);
}

TEST(kaplan_and_meier_see_what_was_seen)
{
    struct lifetime lives[] = { { 100, true }, { 50, false }, { 200, true }, { 300, false } };
    struct survival s       = survival_of_lives(perm, lives, 4);
    CHECK_EQ(survival_at(&s, 60), 1);
    CHECK_NEAR(survival_at(&s, 150), 2.0 / 3, 1e-12); /* three were at risk */
    CHECK_NEAR(survival_at(&s, 200), 1.0 / 3, 1e-12);
    CHECK(survival_at(&s, 1e5) < 1.0 / 3);
    CHECK_NEAR(survival_lived_s(&s, 150), 100 + 50 * 2.0 / 3, 1e-9);
    CHECK_EQ(survival_age_s(&s, 0.9), 100);
    CHECK_EQ(survival_age_s(&s, 0.5), 200);
    CHECK_NEAR(survival_at(&s, survival_age_s(&s, 0.1)), 0.1, 1e-9);
}

/* 500 lives: the estimate's expectation differs from the law's by their own chance, some 5 %. */
TEST(an_empirical_law_gives_what_its_source_does)
{
    enum { LIVES = 500 };
    struct rng_key  key = { .seed = test_seed() };
    struct hazard   law = { 0.7, 2 * hour };
    struct lifetime lives[LIVES];
    for (u64 i = 0; i < LIVES; i++)
        lives[i] = (struct lifetime){ hazard_age_s(law, 1 - rng_uniform(key, i)), true };
    struct survival seen = survival_of_lives(perm, lives, LIVES), true_one = survival_of_law(law);
    struct risk_job j = { .work_s = 30 * hour, .start_s = 300, .interval_s = 600 };
    j.save.stall_s    = 5;
    f64 a = risk_expect(&j, &seen, scratch).up_s, b = risk_expect(&j, &true_one, scratch).up_s;
    CHECK_NEAR(a - j.work_s, b - j.work_s, 0.25 * (b - j.work_s));
}

/* Four standard errors of 2,000 runs are 4.5 % of the odds; the mean is that of the expectation. */
TEST(the_odds_of_a_deadline)
{
    struct rng_key  key      = { .seed = test_seed() };
    struct risk_job j        = random_job(key);
    struct survival s        = survival_of_law(random_law(key));
    j.wait_s                 = 900;
    struct risk_outcome o    = risk_expect(&j, &s, scratch);
    struct risk_odds    odds = risk_play(&j, &s, o.wall_s, 2000, key.seed, scratch);
    struct risk_odds    soon = risk_play(&j, &s, j.work_s, 2000, key.seed, scratch);
    struct risk_odds    late = risk_play(&j, &s, odds.wall95_s, 2000, key.seed, scratch);
    CHECK(odds.in_time > 0.3 && odds.in_time < 0.9); /* the mean is near the middle */
    CHECK_EQ(soon.in_time, 0);                       /* not even undisturbed */
    CHECK_NEAR(late.in_time, 0.95, 0.01);
    CHECK_NEAR(odds.wall_s, o.wall_s, 0.03 * o.wall_s);
}

/* Uniform progress always finishes in time, and needs less on-demand the later that is. */
TEST(spot_and_on_demand_together_meet_the_deadline)
{
    struct rng_key  key     = { .seed = test_seed() };
    struct survival s       = survival_of_law(random_law(key));
    struct risk_job j       = { .work_s = 20 * hour, .start_s = 300, .wait_s = 3 * hour };
    j.save                  = (struct save_costs){ .stall_s = 5, .interval_max_s = 1800 };
    struct risk_mixed tight = risk_play_mixed(&j, &s, 23 * hour, 200, key.seed, scratch);
    struct risk_mixed easy  = risk_play_mixed(&j, &s, 80 * hour, 200, key.seed, scratch);
    CHECK_EQ(tight.in_time, 1);
    CHECK_EQ(easy.in_time, 1);
    CHECK(easy.on_demand_s < tight.on_demand_s);
    CHECK(tight.spot_s + tight.on_demand_s >= j.work_s);
    CHECK(tight.spot_s + tight.on_demand_s < 1.5 * j.work_s);
}
