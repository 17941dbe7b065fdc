/* test_stop.c - the stopping policy alone, on made-up curves: every rule, its edge, and its words. */
#include "base/rng.h"
#include "harness.h"
#include "run/stop.h"

static struct stop_config endless(void)
{
    return (struct stop_config){ .metric      = STR("loss"),
                                 .target      = NAN,
                                 .max_seconds = NAN,
                                 .max_dollars = NAN,
                                 .usd_hour    = NAN,
                                 .spike       = 8 };
}

static enum stop_action eval_at(struct stop *s, i64 step, f64 value)
{
    bool reached =
        metric_falls(s->config.metric) ? value <= s->config.target : value >= s->config.target;
    struct stop_eval e = { .step           = step,
                           .elapsed_s      = (f64)step,
                           .eval_s         = 2,
                           .loss           = value,
                           .value          = value,
                           .target_reached = reached };
    return stop_at_eval(s, &e);
}

TEST(without_a_rule_nothing_ends_a_run_but_its_steps)
{
    struct stop_config c = endless();
    struct stop        s;
    stop_init(&s, &c);
    for (i64 step = 1; step < 2000; step++) {
        CHECK_EQ(stop_step(&s, step, (f64)step, 1e9 * (f64)(step % 7)), STOP_GO_ON);
        if (step % 10 == 0) CHECK_EQ(eval_at(&s, step, (f64)step), STOP_GO_ON);
    }
    stop_end(&s, STOP_END, 2000);
    CHECK_EQ(s.reason, STOP_END);
    CHECK_STR(s.text, "all 2000 steps are done");
    CHECK(isnan(stop_saved_s(&s, 2000, 2000)));
}

TEST(the_target_ends_a_run_and_what_is_left_is_saved)
{
    struct stop_config c = endless();
    struct stop        s;
    c.metric    = STR("accuracy");
    c.target    = 0.9;
    c.steps_max = 400;
    stop_init(&s, &c);
    CHECK_EQ(eval_at(&s, 50, 0.8), STOP_GO_ON);
    CHECK_EQ(eval_at(&s, 100, 0.91), STOP_NOW);
    CHECK_STR(stop_reason_name(s.reason), "target");
    CHECK_STR(s.text, "the target 0.9 is reached: accuracy 0.91 after step 100");
    CHECK_EQ(stop_saved_s(&s, 100, 60), 180.0); /* 300 steps more at 0.6 s */
    s.config.steps_max = 0;
    CHECK(isnan(stop_saved_s(&s, 100, 60))); /* nobody planned an end */
    s.config.limit_s = 100;
    CHECK_NEAR(stop_saved_s(&s, 100, 60), 40, 1e-12);
    s.begin_s          = 20; /* the start is not paid again: 40 s for 80 steps */
    s.begin_step       = 20;
    s.config.steps_max = 120;
    CHECK_NEAR(stop_saved_s(&s, 100, 60), 10, 1e-12);
}

TEST(patience_counts_evaluations_since_the_best)
{
    static const f64   losses[] = { 2, 1.5, 1.6, 1.49, 1.7, 1.495, 1.48 };
    struct stop_config c        = endless();
    struct stop        s;
    c.patience = 3;
    stop_init(&s, &c);
    for (i64 i = 0; i < COUNT_OF(losses); i++)
        CHECK_EQ(eval_at(&s, i + 1, losses[i]), STOP_GO_ON); /* 1.49 and 1.48 came in time */
    CHECK_EQ(s.best_step, 7);
    c.min_improvement = 0.02; /* now they are no better than 1.5 */
    stop_init(&s, &c);
    for (i64 i = 0; i < 4; i++) CHECK_EQ(eval_at(&s, i + 1, losses[i]), STOP_GO_ON);
    CHECK_EQ(eval_at(&s, 5, losses[4]), STOP_NOW);
    CHECK_EQ(s.reason, STOP_PATIENCE);
    CHECK_STR(s.text, "3 evaluations in a row were no better than loss 1.5 after step 2");
    c.patience = 1;
    stop_init(&s, &c);
    for (i64 i = 0; i < 3; i++) eval_at(&s, i + 1, losses[i]);
    CHECK_STR(s.text, "1 evaluation was no better than loss 1.5 after step 2");
}

TEST(patience_knows_which_way_is_better)
{
    struct stop_config c = endless();
    struct stop        s;
    c.metric   = STR("auc");
    c.patience = 2;
    stop_init(&s, &c);
    CHECK_EQ(eval_at(&s, 1, 0.6), STOP_GO_ON);
    CHECK_EQ(eval_at(&s, 2, 0.7), STOP_GO_ON);
    CHECK(stop_improved(&s));
    CHECK_EQ(eval_at(&s, 3, 0.69), STOP_GO_ON);
    CHECK(!stop_improved(&s));
    CHECK_EQ(eval_at(&s, 4, 0.7), STOP_NOW); /* as good is not better */
}

TEST(the_last_evaluation_of_a_run_is_not_judged_for_patience)
{
    struct stop_config c = endless();
    struct stop        s;
    c.patience  = 1;
    c.steps_max = 2;
    stop_init(&s, &c);
    CHECK_EQ(eval_at(&s, 1, 1), STOP_GO_ON);
    CHECK_EQ(eval_at(&s, 2, 2), STOP_GO_ON);
    CHECK_EQ(s.reason, STOP_NONE);
}

/* Steps of a second, evaluations of two. */
TEST(a_budget_leaves_room_for_the_last_evaluation)
{
    struct stop_config c = endless();
    struct stop        s;
    c.max_seconds = 10;
    stop_init(&s, &c);
    for (i64 step = 1; step <= 4; step++) CHECK_EQ(stop_step(&s, step, (f64)step, 1), STOP_GO_ON);
    CHECK_EQ(eval_at(&s, 4, 1), STOP_GO_ON);
    CHECK_EQ(stop_step(&s, 5, 7, 1), STOP_NOW); /* it took 3 s: 7 + 2 + 3 are too much */
    CHECK_STR(s.text, "the 10 s of train.max_seconds are used up, except 2 s reserved for the "
                      "last evaluation and "
                      "the last save");

    c.max_dollars = 0.001;
    stop_init(&s, &c);
    s.config.limit_s = 3.6; /* of a machine at $1 an hour */
    CHECK_EQ(stop_step(&s, 1, 1, 1), STOP_GO_ON);
    CHECK_EQ(stop_step(&s, 2, 2, 1), STOP_GO_ON);
    CHECK_EQ(stop_step(&s, 3, 3, 1), STOP_NOW);
    CHECK_EQ(s.reason, STOP_BUDGET);
    CHECK_STR(s.text, "the $0.001 of train.max_dollars are spent");
}

/* Steps of a second. */
TEST(a_budget_leaves_room_for_the_last_save)
{
    struct stop_config c = endless();
    struct stop        s;
    c.max_seconds = 10;
    stop_init(&s, &c);
    s.config.save_s = 4;
    for (i64 step = 1; step <= 5; step++) CHECK_EQ(stop_step(&s, step, (f64)step, 1), STOP_GO_ON);
    CHECK_EQ(stop_step(&s, 6, 6, 1), STOP_NOW); /* 6 + 4 + 1 are too much */
}

/* Seven of ten are gone and two are kept back: a save of half a second, which may take twice that, is done by then. */
TEST(a_save_that_would_delay_the_last_one_does_not_fit)
{
    struct stop_config c = endless();
    struct stop        s;
    c.max_seconds = 10;
    stop_init(&s, &c);
    s.config.save_s = 2;
    CHECK_EQ(stop_step(&s, 1, 7, 1), STOP_GO_ON);
    CHECK(stop_save_fits(&s, 0.5));
    CHECK(!stop_save_fits(&s, 0.6));
    c.max_seconds = NAN;
    stop_init(&s, &c);
    CHECK_EQ(stop_step(&s, 1, 7, 1), STOP_GO_ON);
    CHECK(stop_save_fits(&s, 1e9));
}

/* None was made yet: it is kept back what one is expected to take, unless that is most of the cap. */
TEST(an_evaluation_that_does_not_fit_is_left_out)
{
    struct stop_config c = endless();
    struct stop        s;
    c.max_seconds = 10;
    stop_init(&s, &c);
    s.config.eval_s = 3;
    for (i64 step = 1; step <= 6; step++) CHECK_EQ(stop_step(&s, step, (f64)step, 1), STOP_GO_ON);
    CHECK_EQ(stop_step(&s, 7, 7, 1), STOP_NOW);
    CHECK(stop_eval_fits(&s, 7));
    CHECK(!stop_eval_fits(&s, 7.1));

    stop_init(&s, &c);
    s.config.eval_s = 6;
    for (i64 step = 1; step <= 9; step++) CHECK_EQ(stop_step(&s, step, (f64)step, 1), STOP_GO_ON);
    CHECK_EQ(stop_step(&s, 10, 10, 1), STOP_NOW);
    CHECK(!stop_eval_fits(&s, 10));
}

TEST(no_number_ends_a_run_or_sends_it_back)
{
    struct stop_config c = endless();
    struct stop        s;
    stop_init(&s, &c);
    CHECK_EQ(stop_step(&s, 1, 1, NAN), STOP_NOW);
    CHECK_EQ(s.reason, STOP_DIVERGED);
    CHECK(strstr(s.text, "the loss is not a number after step 1: a lower train.lr"));
    c.rollbacks = 2;
    stop_init(&s, &c);
    CHECK_EQ(stop_step(&s, 5, 1, INFINITY), STOP_ROLL_BACK);
    CHECK_EQ(s.reason, STOP_NONE);
    CHECK_STR(s.text, "the loss is infinite after step 5");
    CHECK_EQ(eval_at(&s, 9, NAN), STOP_ROLL_BACK); /* an evaluation may be the first to see it */
    CHECK_EQ(stop_step(&s, 7, 3, NAN), STOP_NOW);
    CHECK(strstr(s.text, "going back 2 times did not help"));
    CHECK_EQ(s.rollbacks, 2);
}

static f64 noisy(struct rng_key key, i64 step, f64 mean, f64 deviation)
{
    return mean + deviation * rng_normal(key, (u64)step);
}

/* Feeds `count` steps of normal losses; the first action that is not to go on, or that. */
static enum stop_action feed(struct stop *s, struct rng_key key, i64 *step, i64 count, f64 mean,
                             f64 deviation)
{
    for (i64 i = 0; i < count; i++) {
        ++*step;
        enum stop_action a = stop_step(s, *step, (f64)*step, noisy(key, *step, mean, deviation));
        if (a) return a;
    }
    return STOP_GO_ON;
}

TEST(a_jump_that_stays_sends_a_run_back_and_one_bad_batch_does_not)
{
    struct rng_key     key  = { .seed = test_seed() };
    struct stop_config c    = endless();
    i64                step = 0;
    struct stop        s;
    c.rollbacks = 1;
    stop_init(&s, &c);
    CHECK_EQ(feed(&s, key, &step, 100, 3, 0.1), STOP_GO_ON);
    CHECK_EQ(feed(&s, key, &step, 100, 1, 0.1), STOP_GO_ON); /* learned 2 */
    CHECK_EQ(feed(&s, key, &step, 4, 9, 0.1), STOP_GO_ON);   /* four bad batches */
    CHECK_EQ(feed(&s, key, &step, 50, 1, 0.1), STOP_GO_ON);
    CHECK_EQ(feed(&s, key, &step, 4, 9, 0.1), STOP_GO_ON);
    CHECK_EQ(feed(&s, key, &step, 1, 9, 0.1), STOP_ROLL_BACK); /* the fifth in a row */
    CHECK(strstr(s.text, "jumped up and stayed there after step"));
    stop_rolled_back(&s, 150);
    CHECK_EQ(feed(&s, key, &step, 100, 1, 0.1), STOP_GO_ON);
    CHECK_EQ(feed(&s, key, &step, 5, 9, 0.1), STOP_NOW); /* only one was allowed */
}

TEST(a_loss_far_above_the_first_is_lost_even_as_a_number)
{
    struct stop_config c = endless();
    struct stop        s;
    c.rollbacks = 3;
    stop_init(&s, &c);
    CHECK_EQ(stop_step(&s, 1, 1, 2.3), STOP_GO_ON);
    CHECK_EQ(eval_at(&s, 1, 10.1), STOP_GO_ON); /* 4 * 2.3 + 1 */
    CHECK_EQ(eval_at(&s, 1, 10.3), STOP_ROLL_BACK);
    for (i64 step = 2; step < 6; step++) CHECK_EQ(stop_step(&s, step, 2, 1e9), STOP_GO_ON);
    CHECK_EQ(stop_step(&s, 6, 2, 1e9), STOP_ROLL_BACK);
    s.config.rollbacks = 0; /* who asked for none gets none */
    CHECK_EQ(eval_at(&s, 1, 10.3), STOP_GO_ON);
}

/* Late in a run the loss is near 0 and ripples pass any multiple of its deviation. */
TEST(a_ripple_that_costs_little_of_what_was_learned_is_no_jump)
{
    struct rng_key     key  = { .seed = test_seed() };
    struct stop_config c    = endless();
    i64                step = 0;
    struct stop        s;
    c.rollbacks = 1;
    stop_init(&s, &c);
    CHECK_EQ(feed(&s, key, &step, 100, 2.3, 0.1), STOP_GO_ON);
    CHECK_EQ(feed(&s, key, &step, 500, 0.001, 1e-5), STOP_GO_ON);
    CHECK_EQ(feed(&s, key, &step, 50, 0.3, 1e-5), STOP_GO_ON); /* thousands of deviations */
    CHECK_EQ(feed(&s, key, &step, STOP_WINDOW, 0.001, 1e-5), STOP_GO_ON);
    CHECK_EQ(feed(&s, key, &step, 50, 0.7, 1e-5), STOP_ROLL_BACK); /* 30 % of 2.3 */
}

/* A power law in noise of `noise` is known at its end from the first half. */
static struct forecast power_law(u64 seed, f64 noise, f64 target)
{
    struct rng_key key = { .seed = seed };
    f64            x[20], y[20];
    for (i64 i = 0; i < 20; i++) {
        x[i] = (f64)(i + 1) * 50;
        y[i] = 1.5 + 20 * pow(x[i], -0.7) + noise * rng_normal(key, (u64)i);
    }
    return forecast_curve(x, y, 20, 2000, target);
}

TEST(a_forecast_finds_the_end_of_a_power_law)
{
    u64 seed = test_seed();
    f64 end  = 1.5 + 20 * pow(2000, -0.7);                /* 1.5977 */
    CHECK_NEAR(power_law(seed, 0, end).value, end, 1e-9); /* 0.7 is on the grid of exponents */
    for (u64 i = 0; i < 20; i++) {
        /* The floor and the exponent trade against one another; 0.1 is a third of what is still
         * to be learned after the last point (1.659), far more than the noise of 0.01 moves it. */
        struct forecast far = power_law(seed + i, 0.01, end - 0.2);
        CHECK_NEAR(far.value, end, 0.1);
        CHECK(far.reach < 0.05);
        CHECK(power_law(seed + i, 0.01, end + 0.2).reach > 0.95);
    }
}

TEST(a_forecast_is_not_bent_by_one_bad_evaluation)
{
    f64 x[20], y[20];
    for (i64 i = 0; i < 20; i++) {
        x[i] = (f64)(i + 1) * 50;
        y[i] = 1.5 + 20 * pow(x[i], -0.7);
    }
    f64 value = forecast_curve(x, y, 20, 2000, 1).value;
    y[15] += 5;
    CHECK_NEAR(forecast_curve(x, y, 20, 2000, 1).value, value, 0.02); /* least squares: 0.5 off */
}

TEST(too_few_points_predict_nothing)
{
    f64 x[FORECAST_POINTS_MIN], y[FORECAST_POINTS_MIN];
    for (i64 i = 0; i < FORECAST_POINTS_MIN; i++) x[i] = y[i] = (f64)i + 1;
    CHECK(isnan(forecast_curve(x, y, FORECAST_POINTS_MIN - 1, 100, 1).reach));
    CHECK(!isnan(forecast_curve(x, y, FORECAST_POINTS_MIN, 100, 1).reach));
}

/* The step at which a run with this target stops by its forecast, or 0. *warned: at which that is said, or 0. */
static i64 forecast_says(f64 target, f64 confidence, f64 fall, i64 *warned)
{
    struct stop_config c = endless();
    struct stop        s;
    c.target    = target;
    c.forecast  = confidence;
    c.steps_max = 2000;
    stop_init(&s, &c);
    *warned = 0;
    for (i64 step = 50; step <= 2000; step += 50) {
        f64              value = 1.5 + 20 * pow((f64)step, -0.7);
        struct stop_eval e     = {
                .step = step, .elapsed_s = (f64)step, .loss = value, .value = value, .fall = fall
        };
        if (stop_at_eval(&s, &e)) {
            CHECK_EQ(s.reason, STOP_FORECAST);
            CHECK(strstr(s.text, "the forecast for step 2000, loss 1.5"));
            CHECK(!stop_warns(&s));
            return step;
        }
        if (!stop_warns(&s)) continue;
        CHECK(!*warned && strstr(s.text, "the forecast for step 2000, loss 1.5"));
        *warned = step;
    }
    return 0;
}

static i64 forecast_stops(f64 target, f64 confidence, f64 fall)
{
    i64 warned;
    return forecast_says(target, confidence, fall, &warned);
}

TEST(a_run_that_will_miss_its_target_ends_early_if_that_is_asked_for)
{
    CHECK_EQ(forecast_stops(1.55, 0.95, 0), 550); /* a quarter of the run, and the second no */
    CHECK_EQ(forecast_stops(1.55, 0, 0), 0);
    CHECK_EQ(forecast_stops(1.65, 0.95, 0), 0); /* 1.5977 at the end */
    CHECK_EQ(forecast_stops(1.55, 0.95, 1),
             0); /* the rate will fall: four times the steps, 1.537 */
    CHECK_EQ(forecast_stops(1.5, 0.95, 1), 550);
}

TEST(a_run_that_will_miss_its_target_says_so_once)
{
    i64 warned;
    CHECK(!forecast_says(1.55, 0, 0, &warned) && warned == 550);
    CHECK(!forecast_says(1.65, 0, 0, &warned) && !warned);
    CHECK(!forecast_says(1.55, 0, 1, &warned) && !warned);
}

TEST(a_long_run_thins_its_points)
{
    struct stop_config c = endless();
    struct stop        s;
    c.target    = 0.5; /* the floor is 1 */
    c.steps_max = 100000;
    stop_init(&s, &c);
    for (i64 step = 1; step <= 1000; step++)
        CHECK_EQ(eval_at(&s, step, 1 + 1 / (f64)step), STOP_GO_ON);
    CHECK(s.point_count > FORECAST_POINTS_MAX / 2 && s.point_count <= FORECAST_POINTS_MAX);
    for (i64 i = 1; i < s.point_count; i++) CHECK(s.x[i] > s.x[i - 1]);
    CHECK_NEAR(s.forecast.value, 1.00001, 1e-4);
    stop_rolled_back(&s, 500);
    CHECK(s.point_count && s.x[s.point_count - 1] <= 500);
}
