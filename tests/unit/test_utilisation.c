/* Shapes of utilisation, told apart from samples of made-up minutes, and the near misses of each. */
#include "harness.h"
#include "run/utilisation.h"

static const i64 sample_ns = 200000000, second_ns = 1000000000;

/* So long with `high` for the first `part` of each period, and `low` for the rest of it. */
static struct usage wave(struct arena *perm, f64 seconds, f64 period_s, f64 part, f64 high, f64 low)
{
    struct utilisation *w = utilisation_new(perm);
    for (i64 at = 1; (f64)at < seconds * 1e9; at += sample_ns) {
        f64 place = fmod((f64)at * 1e-9, period_s) / period_s;
        utilisation_add(w, at, place < part ? high : low);
    }
    return utilisation_usage(w);
}

TEST(each_shape_is_named)
{
    CHECK_EQ(wave(perm, 60, 2, 0.5, 0.97, 0.93).shape, USAGE_STEADY_HIGH);
    CHECK_EQ(wave(perm, 60, 2, 0.5, 0.31, 0.25).shape, USAGE_STEADY_LOW);
    CHECK_EQ(wave(perm, 60, 2, 0.5, 0.95, 0).shape, USAGE_OSCILLATING);
    CHECK_EQ(wave(perm, 60, 30, 0.6, 0.95, 0.01).shape, USAGE_DEAD_GAPS);
    CHECK_EQ(wave(perm, 60, 2, 0.5, 0.9, 0.55).shape, USAGE_MIXED);
}

TEST(near_misses_are_not)
{
    CHECK_EQ(wave(perm, 60, 2, 0.5, 0.95, 0.25).shape, USAGE_MIXED);  /* never in the low tail */
    CHECK_EQ(wave(perm, 60, 2, 0.9, 0.95, 0).shape, USAGE_MIXED);     /* there for a tenth */
    CHECK_EQ(wave(perm, 60, 40, 0.9, 0.95, 0.04).shape, USAGE_MIXED); /* four seconds are no gap */
    CHECK_EQ(wave(perm, 60, 30, 0.6, 0.95, 0.06).shape, USAGE_MIXED); /* not dead, and too slow */
    CHECK_EQ(wave(perm, 60, 2, 0.5, 0.55, 0.45).shape, USAGE_MIXED);  /* not that low */
    CHECK_EQ(wave(perm, 60, 2, 0.5, 0.95, 0.68).shape, USAGE_MIXED);  /* not that high */
}

TEST(nothing_is_said_of_a_few_seconds)
{
    CHECK_EQ(wave(perm, 9, 2, 0.5, 0.95, 0).shape, USAGE_UNKNOWN);
    CHECK_STR(usage_name(USAGE_UNKNOWN), "");
}

TEST(the_period_is_found_whatever_lies_between_samples)
{
    struct utilisation *w = utilisation_new(perm);
    CHECK_NEAR(wave(perm, 60, 3, 0.5, 1, 0).lag_s, 3, 0.25); /* within about a sample */
    for (i64 at = 1, i = 0; at < 60 * second_ns; at += sample_ns / 2 + (i++ % 7) * sample_ns / 4)
        utilisation_add(w, at, fmod((f64)at * 1e-9, 5) < 2.5);
    CHECK_NEAR(utilisation_usage(w).lag_s, 5, 0.5);
    CHECK(isnan(wave(perm, 60, 2, 0.5, 0.9, 0.9).lag_s));
}

TEST(statistics_go_by_time_not_by_samples)
{
    struct utilisation *w  = utilisation_new(perm);
    i64                 at = 1;
    utilisation_add(w, at, 0);
    for (i64 i = 0; i < 40; i++)
        utilisation_add(w, at += second_ns / 10, 0.1); /* 4 s in 40 samples */
    for (i64 i = 0; i < 6; i++) utilisation_add(w, at += 2 * second_ns, 0.9); /* 12 s in 6 */
    CHECK_NEAR(utilisation_usage(w).mean, 0.7, 1e-9);
    CHECK_NEAR(utilisation_usage(w).low, 0.25, 1e-9);
}

TEST(what_a_rhythm_goes_along_with)
{
    for (enum rhythm r = RHYTHM_STEP; r < RHYTHMS; r++) {
        struct utilisation *w = utilisation_new(perm);
        for (i64 at = 1, i = 0; at < 60 * second_ns; at += sample_ns, i++) {
            if (i % 10 == 0) utilisation_mark(w, r, at);
            if (i % 73 == 0)
                utilisation_mark(w, r == RHYTHM_STEP ? RHYTHM_EVALUATION : RHYTHM_STEP, at);
            utilisation_add(w, at, i % 10 < 5 ? 0.95 : 0.05 * (f64)(i % 2));
        }
        CHECK_EQ(utilisation_usage(w).shape, USAGE_OSCILLATING);
        CHECK_EQ(utilisation_usage(w).with, r);
    }
}

TEST(gaps_go_along_with_what_began_in_them)
{
    struct utilisation *w = utilisation_new(perm);
    for (i64 at = 1; at < 60 * second_ns; at += sample_ns) {
        i64 in = at % (20 * second_ns);
        if (in < sample_ns) utilisation_mark(w, RHYTHM_CHECKPOINT, at + 10 * second_ns);
        utilisation_mark(w, RHYTHM_STEP, at);
        utilisation_add(w, at, in > 10 * second_ns && in < 17 * second_ns ? 0 : 0.9);
    }
    struct usage u = utilisation_usage(w);
    CHECK_EQ(u.shape, USAGE_DEAD_GAPS);
    CHECK_EQ(u.gap_count, 3);
    CHECK_NEAR(u.gap_s, 7, 0.5);
    CHECK_EQ(u.with, RHYTHM_CHECKPOINT);
    CHECK(strstr(usage_text(&u, perm).data, "with the checkpoints"));
}

TEST(the_worst_minute_is_remembered)
{
    struct utilisation *w = utilisation_new(perm);
    for (i64 at = 1; at < 240 * second_ns; at += sample_ns) {
        bool ill = at > 60 * second_ns && at < 121 * second_ns;
        utilisation_add(w, at, ill ? 0.9 * (f64)(at / second_ns % 2) : 0.9);
    }
    CHECK_EQ(utilisation_usage(w).shape, USAGE_STEADY_HIGH);
    CHECK_EQ(utilisation_worst(w).shape, USAGE_OSCILLATING);
    CHECK_EQ(utilisation_worst_minute(w).shape, USAGE_OSCILLATING);
}

TEST(any_samples_give_some_answer)
{
    u64 seed = test_seed();
    for (i64 turn = 0; turn < 50; turn++) {
        struct utilisation *w  = utilisation_new(perm);
        i64                 at = 1;
        for (i64 i = 0; i < 1500; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            at += (i64)(seed >> 34) % (2 * second_ns);
            utilisation_add(w, at, seed % 11 ? (f64)(seed >> 40 & 1023) / 1000 : NAN);
        }
        struct usage u = utilisation_usage(w);
        CHECK(u.p5 <= u.mean + 1e-9 && u.mean <= u.p95 + 1e-9 + 0.05);
        CHECK(u.mean >= 0 && u.mean <= 1 && u.seconds <= 60.001);
    }
}
