/* The pure parts of a run: the learning rate of a step, the area under the ROC curve, and whether a
 * target is met. */
#include "base/rng.h"
#include "harness.h"
#include "train/train_int.h"

static struct learning_rates rate(const char *schedule, f64 lr_end, i64 warmup)
{
    return (struct learning_rates){
        .lr = 0.5, .schedule = str_of(schedule), .lr_end = lr_end, .warmup = warmup
    };
}

/* The rates are a few products of numbers near 1, so a few roundings of 2^-53 apart. */
static const f64 rounding = 1e-15;

TEST(warm_up_climbs_in_equal_steps_to_the_full_rate)
{
    const char *schedules[] = { "constant", "linear", "cosine" };
    for (i64 k = 0; k < COUNT_OF(schedules); k++) {
        struct learning_rates c = rate(schedules[k], 0.1, 4);
        for (i64 step = 0; step < 4; step++)
            CHECK_NEAR(schedule_lr(&c, step, 20), 0.5 * (f64)(step + 1) / 4, rounding);
        CHECK_NEAR(schedule_lr(&c, 4, 20), 0.5, rounding);  /* and begins to fall from there */
        CHECK_NEAR(schedule_lr(&c, 2, 3), 0.375, rounding); /* a run shorter than the warm-up */
    }
}

TEST(a_constant_rate_stays)
{
    struct learning_rates c = rate("constant", 0.1, 0);
    for (i64 step = 0; step < 12; step++) CHECK_EQ(schedule_lr(&c, step, 10), 0.5);
}

TEST(an_open_ended_run_does_not_decay)
{
    struct learning_rates linear = rate("linear", 0, 2), cosine = rate("cosine", 0, 2);
    CHECK_EQ(schedule_lr(&linear, 1000000, 0), 0.5);
    CHECK_EQ(schedule_lr(&cosine, 1000000, 0), 0.5);
}

TEST(linear_and_cosine_end_at_their_fraction)
{
    struct learning_rates linear = rate("linear", 0.1, 10), cosine = rate("cosine", 0.1, 10);
    CHECK_NEAR(schedule_lr(&linear, 60, 110), 0.5 * 0.55, rounding); /* half way */
    CHECK_NEAR(schedule_lr(&cosine, 60, 110), 0.5 * 0.55, rounding);
    CHECK_NEAR(schedule_lr(&linear, 35, 110), 0.5 * 0.775, rounding); /* a quarter */
    CHECK_NEAR(schedule_lr(&cosine, 35, 110), 0.5 * (0.1 + 0.45 * (1 + sqrt(0.5))), rounding);
    for (i64 step = 110; step < 115; step++) { /* and stay there, should a run be prolonged */
        CHECK_NEAR(schedule_lr(&linear, step, 110), 0.05, rounding);
        CHECK_NEAR(schedule_lr(&cosine, step, 110), 0.05, rounding);
    }
    f64 before = 1;
    for (i64 step = 10; step <= 110; step++) {
        f64 now = schedule_lr(&cosine, step, 110);
        CHECK(now < before);
        before = now;
    }
}

/* Every (positive, negative) pair by itself. All counts are whole or halves below 2^53: exact. */
static f64 auc_by_pairs(const struct scored *s, i64 count)
{
    f64 won = 0, pairs = 0;
    for (i64 i = 0; i < count; i++)
        for (i64 k = 0; k < count; k++) {
            if (!s[i].positive || s[k].positive) continue;
            won += s[i].score > s[k].score ? 1 : s[i].score == s[k].score ? 0.5 : 0;
            pairs++;
        }
    return won / pairs;
}

TEST(auc_is_the_share_of_pairs_in_order)
{
    struct rng_key key = { .seed = test_seed() };
    struct scored  s[60];
    u64            at = 0;
    for (i32 round = 0; round < 300; round++) {
        i64 count = 2 + (i64)(rng_u32(key, at++) % 59), levels = 1 + rng_u32(key, at++) % 30;
        for (i64 i = 0; i < count; i++) {
            f32 level = (f32)(rng_u32(key, at++) % levels); /* few levels: many ties */
            s[i]      = (struct scored){ level - 7, i < 2 ? i : rng_u32(key, at++) % 3 == 0 };
        }
        f64 expected = auc_by_pairs(s, count);
        CHECK_EQ(auc(s, count), expected);
    }
}

TEST(auc_knows_its_ends)
{
    struct scored right[] = { { -1, false }, { 0, false }, { 1, true }, { 2, true } };
    struct scored wrong[] = { { 3, false }, { 1, true } };
    struct scored even[]  = { { 1, false }, { 1, true }, { 1, false } };
    struct scored far[]   = { { -INFINITY, false }, { INFINITY, true } };
    CHECK_EQ(auc(right, 4), 1.0);
    CHECK_EQ(auc(wrong, 2), 0.0);
    CHECK_EQ(auc(even, 3), 0.5);
    CHECK_EQ(auc(far, 2), 1.0);
}

TEST(auc_of_one_class_or_with_a_nan_is_not_known)
{
    struct scored positive[] = { { 1, true }, { 2, true } }, negative[] = { { 1, false } };
    CHECK(isnan(auc(positive, 2)));
    CHECK(isnan(auc(negative, 1)));
    CHECK(isnan(auc(negative, 0)));
    for (i64 at = 0; at < 5; at++) { /* a NaN has no place in the order, wherever it stands */
        struct scored s[] = { { 1, true }, { 2, false }, { 3, true }, { 4, false }, { 5, true } };
        s[at].score       = NAN;
        CHECK(isnan(auc(s, 5)));
    }
}

static struct train_eval evaluated(f64 loss, const char *metric, f64 value)
{
    struct train_eval e = { .loss = loss, .metric_count = 1 };
    e.metrics[0]        = (struct event_metric){ str_of(metric), value };
    return e;
}

TEST(a_target_is_met_from_its_own_side)
{
    struct train_eval e = evaluated(0.25, "accuracy", 0.9), p = evaluated(2, "perplexity", 7.4);
    CHECK(target_met(STR("accuracy"), 0.9, &e) && !target_met(STR("accuracy"), 0.91, &e));
    CHECK(target_met(STR("loss"), 0.25, &e) && !target_met(STR("loss"), 0.24, &e));
    CHECK(target_met(STR("perplexity"), 7.5, &p) && !target_met(STR("perplexity"), 7.3, &p));
}

TEST(no_target_an_unknown_metric_and_a_nan_are_never_met)
{
    struct train_eval e = evaluated(NAN, "auc", NAN);
    CHECK(!target_met(STR("auc"), NAN, &e));
    CHECK(!target_met(STR("auc"), 0, &e));
    CHECK(!target_met(STR("loss"), 100, &e));
    CHECK(!target_met(STR("accuracy"), 0, &e));
}

TEST(wsd_stays_then_falls_and_step_drops)
{
    struct learning_rates wsd = {
        .lr = 0.5, .warmup = 10, .schedule = STR("wsd"), .decay_part = 0.25
    };
    struct learning_rates step = { .lr = 0.5, .schedule = STR("step"), .warmup = 10 };
    CHECK_EQ(schedule_lr(&wsd, 10, 110), 0.5);
    CHECK_EQ(schedule_lr(&wsd, 84, 110), 0.5);
    CHECK_NEAR(schedule_lr(&wsd, 85, 110), 0.5, 1e-12);
    CHECK_NEAR(schedule_lr(&wsd, 97, 110), 0.5 * 13 / 25,
               1e-12); /* 13 of the last 25 steps are left */
    CHECK_NEAR(schedule_lr(&wsd, 110, 110), 0, 1e-12);
    CHECK_NEAR(schedule_lr(&step, 109, 310), 0.5, 1e-12);
    CHECK_NEAR(schedule_lr(&step, 110, 310), 0.05, 1e-12);
    CHECK_NEAR(schedule_lr(&step, 209, 310), 0.05, 1e-12);
    CHECK_NEAR(schedule_lr(&step, 210, 310), 0.005, 1e-12);
    CHECK_NEAR(schedule_lr(&step, 400, 310), 0.005, 1e-12); /* prolonged */
    CHECK_EQ(schedule_lr(&step, 1000, 0), 0.5);             /* no end, no third of it */
}

/* torch.optim.lr_scheduler.OneCycleLR(max_lr=0.5, total_steps=20, final_div_factor=0.25) */
TEST(one_cycle_climbs_and_falls_as_in_torch)
{
    static const f64      want[] = { 0.02,
                                     0.06583592135,
                                     0.18583592135,
                                     0.33416407865,
                                     0.45416407865,
                                     0.5,
                                     0.494734861558,
                                     0.47920346226,
                                     0.454184611318,
                                     0.42093285839,
                                     0.381115585215,
                                     0.336729396131,
                                     0.29,
                                     0.243270603869,
                                     0.198884414785,
                                     0.15906714161,
                                     0.125815388682,
                                     0.10079653774,
                                     0.0852651384418,
                                     0.08 };
    struct learning_rates c      = { .lr       = 0.5,
                                     .warmup   = 7, /* does not count */
                                     .schedule = STR("one_cycle"),
                                     .lr_end   = 0.16 };
    for (i64 i = 0; i < COUNT_OF(want); i++) CHECK_NEAR(schedule_lr(&c, i, 20), want[i], 1e-11);
    CHECK_NEAR(schedule_lr(&c, 20, 20), 0.08, rounding);
    CHECK_EQ(schedule_lr(&c, 5, 0), 0.5); /* no end to fall to */
}

TEST(other_units_become_steps_and_the_rate_follows_the_batch)
{
    struct pace         pace = { .epoch_steps = 40, .step_samples = 128, .step_rows = 1280 };
    struct train_config c    = {
           .lr = 0.1, .warmup = STR("2 epochs"), .optimiser = STR("sgd"), .lr_batch = 32
    };
    CHECK_EQ(schedule_resolve(&c, pace).warmup, 80);
    CHECK_NEAR(schedule_resolve(&c, pace).lr, 0.4, 1e-12);
    c.warmup    = STR("2e3 tokens");
    c.optimiser = STR("adamw");
    CHECK_EQ(schedule_resolve(&c, pace).warmup, 2);
    CHECK_NEAR(schedule_resolve(&c, pace).lr, 0.2, 1e-12);
    c.lr_batch = 0;
    CHECK_EQ(schedule_resolve(&c, pace).lr, 0.1);
    c.warmup = STR("10%");
    CHECK_EQ(schedule_resolve(&c, pace).warmup, 0); /* open-ended */
    pace.steps = 1009;
    CHECK_EQ(schedule_resolve(&c, pace).warmup, 100);
    c.warmup = STR("1_000");
    CHECK_EQ(schedule_resolve(&c, pace).warmup, 1000);
}

TEST(a_warm_up_that_is_none_is_a_sentence)
{
    static const char *const bad[]  = { "soon",  "-1",     "2.5", "101%", "%",
                                        "1 day", "epochs", "nan", "inf" };
    static const char *const good[] = { "0",     "100",     "100 steps", "5%",
                                        "0.5 %", "1 epoch", "0.5epochs", "1e6 tokens" };
    struct warmup            w;
    struct err               err;
    for (i64 i = 0; i < COUNT_OF(bad); i++) {
        CHECK_EQ(warmup_parse(str_of(bad[i]), &w, &err), STATUS_USAGE);
        CHECK(strstr(err.text, bad[i]) && strstr(err.text, "5%"));
    }
    for (i64 i = 0; i < COUNT_OF(good); i++)
        CHECK_EQ(warmup_parse(str_of(good[i]), &w, &err), STATUS_OK);
}
