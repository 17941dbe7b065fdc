/* test_noise.c - the gradient noise scale of made-up gradients whose noise is known. */
#include "base/rng.h"
#include "harness.h"
#include "train/noise.h"
#include <math.h>

enum { NUMBERS = 200 };

/* The squared norm of the mean of `count` gradients true + noise, element e's noise of deviation
 * deviation[e]; sum gathers them. */
struct source {
    u64 seed, drawn;
    f64 truth[NUMBERS], deviation[NUMBERS], sum[NUMBERS];
};

static f64 mean_square(struct source *s, i64 from, i64 to)
{
    f64 square = 0;
    for (i64 e = 0; e < NUMBERS; e++) {
        if (!from) s->sum[e] = 0;
        for (i64 i = from; i < to; i++)
            s->sum[e] +=
                s->truth[e] +
                s->deviation[e] * rng_normal((struct rng_key){ .seed = s->seed }, s->drawn++);
        square += pow(s->sum[e] / (f64)to, 2);
    }
    return square;
}

/* 400 steps, of which the means remember a hundred: the estimate's own deviation is then about a
 * twentieth here, and five of them are allowed. */
TEST(the_scale_of_known_noise_is_found)
{
    struct source s      = { .seed = test_seed() };
    struct noise  n      = { 0 };
    f64           square = 0, trace = 0;
    for (i64 e = 0; e < NUMBERS; e++) {
        s.truth[e]     = e % 3 ? 0.1 : -0.2;
        s.deviation[e] = 0.2 + 0.01 * (f64)(e % 40);
        square += s.truth[e] * s.truth[e];
        trace += s.deviation[e] * s.deviation[e];
    }
    for (i32 step = 0; step < 400; step++) {
        f64 small = mean_square(&s, 0, 4), large = mean_square(&s, 4, 16);
        noise_add(&n, small, 4, large, 16);
    }
    CHECK_NEAR(noise_scale(&n), trace / square, 0.25 * trace / square);
}

/* Without noise the small batch's gradient is the large one's; with nothing else there is no end. */
TEST(the_ends_of_the_scale)
{
    struct noise none = { 0 }, all = { 0 };
    for (i32 step = 0; step < 50; step++) {
        noise_add(&none, 3 + 1e-9, 8, 3, 32);
        noise_add(&all, 4.0 / 8, 8, 4.0 / 32, 32); /* |G|^2 = 0 */
    }
    CHECK(noise_scale(&none) < 1e-7);
    CHECK(isnan(noise_scale(&all)));
    CHECK_STR(noise_absent(&none, perm), "");
    CHECK(str_starts(noise_absent(&all, perm), STR("the gradient of a step is nothing but noise")));
}

TEST(what_says_nothing_is_passed_over)
{
    struct noise n = { 0 };
    for (i32 step = 0; step < 100; step++) {
        noise_add(&n, 2, 8, 1, 8);
        noise_add(&n, INFINITY, 8, 1, 16);
        noise_add(&n, NAN, 8, 1, 16);
    }
    CHECK_EQ(n.steps, 0);
    CHECK(isnan(noise_scale(&n)));
    noise_add(&n, 2, 8, 1.5, 16);
    CHECK(isnan(noise_scale(&n))); /* one step is not enough */
    CHECK_STR(noise_absent(&n, perm), "1 step was measured, and it takes 20");
}

TEST(at_the_scale_itself_both_are_doubled)
{
    CHECK_EQ(noise_steps(100, 100), 2);
    CHECK_EQ(noise_data(100, 100), 2);
    CHECK_EQ(noise_steps(100, 25), 5);
    CHECK_EQ(noise_data(100, 25), 1.25);
    CHECK_EQ(noise_batch(100), 128);
    CHECK_EQ(noise_batch(85), 64);
    CHECK_EQ(noise_batch(0.01), 1);
}
