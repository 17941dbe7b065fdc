/* test_scaling.c - laws of scaling: the published ones say what their papers say, budgets are kept,
 * and synthetic laws are recovered from their own points. */
#include "base/rng.h"
#include "harness.h"
#include "plan/scaling.h"

static struct law named(const char *name)
{
    struct law l;
    CHECK(law_find(str_of(name), &l));
    return l;
}

static f64 ratio(const struct law *l, f64 flops)
{
    struct sizing s = law_best(l, flops);
    return s.tokens / s.parameters;
}

/* Tokens a parameter at 1e18, 1e20 and 5.76e23 FLOPs. The tolerance is half of the last digit that
 * the tables of the papers give. */
TEST(published_laws_give_their_published_sizes)
{
    static const struct {
        const char *name;
        f64         ratio[3];
    } rows[] = { { "besiroglu", { 25.6, 22.8, 18.3 } },
                 { "hoffmann1", { 20, 20, 21 } },
                 { "hoffmann2", { 18, 20, 24 } },
                 { "hoffmann3", { 26, 40, 93 } },
                 { "hoffmann3-tex", { 19, 28, 59 } } };
    CHECK_EQ(law_count(), COUNT_OF(rows));
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        struct law l         = named(rows[i].name);
        f64        tolerance = i ? 0.55 : 0.051;
        CHECK_NEAR(ratio(&l, 1e18), rows[i].ratio[0], tolerance);
        CHECK_NEAR(ratio(&l, 1e20), rows[i].ratio[1], tolerance);
        CHECK_NEAR(ratio(&l, 5.76e23), rows[i].ratio[2], tolerance);
        CHECK(l.source.len);
    }
    struct law l = law_at(0);
    CHECK_NEAR(l.line_k, 0.04775, 5e-6);
    CHECK_NEAR(l.line_a, 0.5126, 5e-5);
    CHECK(!law_find(STR("moore"), &l));
}

TEST(every_law_spends_its_budget_and_no_more)
{
    for (i64 i = 0; i < law_count(); i++) {
        struct law l = law_at(i);
        for (f64 c = 1e17; c < 1e27; c *= 7) {
            struct sizing s = law_best(&l, c);
            CHECK_NEAR(6 * s.parameters * s.tokens / c, 1, 1e-12); /* rounding of three products */
            CHECK(isnan(s.loss) == isnan(l.e));
        }
    }
}

TEST(the_best_size_is_better_than_its_neighbours)
{
    struct law l = law_at(0);
    for (f64 c = 1e18; c < 1e26; c *= 10) {
        struct sizing best = law_best(&l, c);
        CHECK(best.loss < law_at_size(&l, c, best.parameters * 1.1).loss);
        CHECK(best.loss < law_at_size(&l, c, best.parameters / 1.1).loss);
        CHECK_NEAR(law_flops_for(&l, best.loss) / c, 1, 1e-9); /* of exponents near 1/0.36 */
    }
    CHECK(isnan(law_flops_for(&l, 1.8))); /* below E */
    struct law line = named("hoffmann1");
    CHECK(isnan(law_flops_for(&line, 3)));
}

TEST(hours_and_dollars_buy_flops)
{
    CHECK_NEAR(budget_flops_hours(10, 1e12), 3.6e16, 1);
    CHECK_NEAR(budget_flops_dollars(20, 2, 1e12), 3.6e16, 1);
    CHECK(isnan(budget_flops_dollars(20, NAN, 1e12)));
}

TEST(serving_more_makes_the_model_smaller)
{
    struct law     l     = law_at(0);
    struct sizing  alone = law_best(&l, 1e21), before = alone;
    struct serving s    = { 0, 1e-18, 1e-18 };
    struct sizing  same = law_best_served(&l, alone.loss, &s);
    CHECK_NEAR(same.parameters / alone.parameters, 1, 1e-5); /* a valley is flat: root of eps */
    for (s.tokens_served = 1e9; s.tokens_served < 1e15; s.tokens_served *= 10) {
        struct sizing now = law_best_served(&l, alone.loss, &s);
        CHECK(now.parameters < before.parameters);
        CHECK(now.tokens > before.tokens);
        CHECK_NEAR(law_loss(&l, now.parameters, now.tokens), alone.loss, 1e-9);
        before = now;
    }
    CHECK(isnan(law_best_served(&l, 1, &s).parameters));
}

static i64 draw_runs(const struct law *l, u64 seed, f64 noise, struct run_point *to)
{
    i64 count = 0;
    for (f64 n = 1e6; n < 2e9; n *= 4)
        for (f64 per = 3; per < 200; per *= 3, count++) {
            struct rng_key key = { .seed = seed, .step = 99 };
            f64            off = noise * rng_normal(key, (u64)count);
            to[count] = (struct run_point){ n, n * per, law_loss(l, n, n * per) * exp(off) };
        }
    return count;
}

/* Without noise the objective is 0 at the law itself. What is lost are digits: the numbers come from
 * differences of losses that share E, a hundredth to a tenth of L apart, so 1e-16 grows to 1e-7. */
TEST(a_synthetic_law_is_recovered_from_its_points)
{
    u64 seed = test_seed();
    for (u64 i = 0; i < 8; i++) {
        struct rng_key   key = { .seed = seed, .step = i };
        struct run_point points[256];
        struct law       l = law_of(0.5 + 2 * rng_uniform(key, 0), exp(4 + 3 * rng_uniform(key, 1)),
                                    exp(4 + 4 * rng_uniform(key, 2)), 0.25 + 0.25 * rng_uniform(key, 3),
                                    0.25 + 0.25 * rng_uniform(key, 4));
        i64              count = draw_runs(&l, seed + i, 0, points);
        struct fitted_law fit;
        struct err        err = { 0 };
        CHECK_EQ(law_fit(points, count, 0, 0, scratch, &fit, &err), STATUS_OK);
        CHECK_NEAR(fit.law.e / l.e, 1, 1e-6);
        CHECK_NEAR(fit.law.a / l.a, 1, 1e-5);
        CHECK_NEAR(fit.law.b / l.b, 1, 1e-5);
        CHECK_NEAR(fit.law.alpha / l.alpha, 1, 1e-6);
        CHECK_NEAR(fit.law.beta / l.beta, 1, 1e-6);
    }
}

TEST(outliers_move_a_fit_little_and_the_intervals_hold_it)
{
    struct law        l = law_of(1.7, 400, 1500, 0.34, 0.36);
    struct run_point  points[256];
    i64               count = draw_runs(&l, 5, 0.002, points);
    struct fitted_law fit, again;
    struct err        err = { 0 };
    points[3].loss *= 1.5;
    points[17].loss *= 1.3;
    CHECK_EQ(law_fit(points, count, 100, 7, scratch, &fit, &err), STATUS_OK);
    CHECK_EQ(law_fit(points, count, 100, 7, scratch, &again, &err), STATUS_OK);
    CHECK_EQ(fit.low.a, again.low.a); /* the same draws again */
    CHECK(fit.resamples >= 95);
    CHECK_NEAR(fit.law.alpha, 0.34, 0.03); /* least squares would be off by 0.1 and more */
    CHECK_NEAR(fit.law.beta, 0.36, 0.03);
    CHECK_NEAR(fit.law.e, 1.7, 0.05);
    CHECK(fit.low.alpha < fit.law.alpha && fit.law.alpha < fit.high.alpha);
    CHECK(fit.low.e < fit.law.e && fit.law.e < fit.high.e);
    draw_runs(&l, 5, 0, points);
    CHECK_EQ(law_fit(points, count, 100, 7, scratch, &again, &err), STATUS_OK);
    CHECK(again.high.alpha - again.low.alpha < 1e-3 * (fit.high.alpha - fit.low.alpha));
}

TEST(points_that_tell_no_law_are_refused)
{
    struct law        l = law_at(0);
    struct run_point  points[256];
    struct fitted_law fit;
    struct err        err   = { 0 };
    i64               count = draw_runs(&l, 1, 0, points);
    CHECK_EQ(law_fit(points, 4, 0, 0, scratch, &fit, &err), STATUS_NO);
    CHECK(strstr(err.text, "4 runs are too few to fit a law"));
    for (i64 i = 0; i < count; i++) points[i].parameters = 1e8;
    CHECK_EQ(law_fit(points, count, 0, 0, scratch, &fit, &err), STATUS_NO);
    CHECK(strstr(err.text, "several sizes"));
}

TEST(runs_are_read_from_a_table)
{
    struct run_point *p;
    i64               count;
    struct err        err = { 0 };
    CHECK_EQ(law_points_read(STR("r.csv"), STR("note,loss,params,tokens\na,3.5,1e6,2e7\n"), perm,
                             &p, &count, &err),
             STATUS_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(p[0].tokens, 2e7);
    CHECK_EQ(p[0].loss, 3.5);
    CHECK_EQ(law_points_read(STR("r.csv"), STR("params,train_flop,loss\n1e6,1.2e14,3\n"), perm, &p,
                             &count, &err),
             STATUS_OK);
    CHECK_NEAR(p[0].tokens, 2e7, 1e-6);
    CHECK_EQ(law_points_read(STR("r.csv"), STR("params,loss\n1,2\n"), perm, &p, &count, &err),
             STATUS_USAGE);
    CHECK_EQ(
        law_points_read(STR("r.csv"), STR("params,tokens,loss\n1,2,\n"), perm, &p, &count, &err),
        STATUS_USAGE);
    CHECK(strstr(err.text, "r.csv:2:"));
    CHECK_EQ(law_points_read(STR("r.csv"), STR(""), perm, &p, &count, &err), STATUS_USAGE);
}
