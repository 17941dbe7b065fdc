/* test_curves.c - what stopping is worth: the rules replayed over 64 recorded runs that went to their
 * ends (tests/golden/curves.jsonl, recorded by tests/tools/record_curves.sh). Prints the share of the
 * dollars that each rule saves, and the regret: how much worse what it kept is than what the full
 * price would have bought. docs/decisions/stopping.md has the table. */
#include "base/json.h"
#include "base/os.h"
#include "harness.h"
#include "train/asha.h"
#include "train/train_int.h"

enum { CURVES = 64, EVALS_MAX = 40 };

struct curve {
    struct str set, schedule;
    bool       gpt;
    i64        count;
    f64        step[EVALS_MAX], loss[EVALS_MAX], value[EVALS_MAX]; /* value: of the metric */
    f64        dollars; /* of the whole run, at the price in examples/fashion.yaml */
};

static f64 numbers(const struct json *list, f64 *to)
{
    i64 n = 0;
    for (const struct json *v = list->first; v; v = v->next, n++)
        if (!json_f64(v, &to[n])) to[n] = NAN;
    return (f64)n;
}

static struct curve *curves_read(struct arena *perm)
{
    struct str    text, line;
    struct err    err    = { 0 };
    struct curve *curves = NEW(perm, struct curve, CURVES);
    i64           count  = 0;
    CHECK_EQ(os_read_all(os_real(), STR("tests/golden/curves.jsonl"), perm, &text, &err),
             STATUS_OK);
    for (; str_cut(&text, '\n', &line); count++) {
        struct json  *v;
        struct curve *c = &curves[count];
        CHECK(count < CURVES);
        CHECK_EQ(json_parse(perm, line, &v, &err), STATUS_OK);
        struct json *accuracy = json_get(v, STR("accuracy"));
        CHECK(json_f64(json_get(v, STR("seconds")), &c->dollars));
        c->dollars *= 0.103 / 3600;
        c->set      = json_get(v, STR("set"))->text;
        c->schedule = str_sub(c->set, str_find(c->set, '_') + 1, c->set.len);
        c->gpt      = !accuracy;
        c->count    = (i64)numbers(json_get(v, STR("step")), c->step);
        CHECK_EQ(numbers(json_get(v, STR("loss")), c->loss), (f64)c->count);
        CHECK_EQ(numbers(accuracy ? accuracy : json_get(v, STR("loss")), c->value), (f64)c->count);
    }
    CHECK_EQ(count, CURVES);
    return curves;
}

static f64 last_step(const struct curve *c) { return c->step[c->count - 1]; }
static f64 cost(const struct curve *c, f64 step) { return c->dollars * step / last_step(c); }
static f64 falling(const struct curve *c, i64 i) { return c->gpt ? c->loss[i] : 1 - c->value[i]; }

/* The best until an evaluation, as something that falls. */
static f64 best_until(const struct curve *c, i64 count)
{
    f64 best = INFINITY;
    for (i64 i = 0; i < count; i++) best = fmin(best, falling(c, i));
    return best;
}

static struct stop_config config_for(const struct curve *c)
{
    return (struct stop_config){ .metric      = c->gpt ? STR("loss") : STR("accuracy"),
                                 .target      = NAN,
                                 .max_seconds = NAN,
                                 .max_dollars = NAN,
                                 .usd_hour    = 0.103,
                                 .steps_max   = (i64)last_step(c) };
}

/* Evaluations until the policy ends the run; c->count: it does not. */
static i64 replay(const struct curve *c, const struct stop_config *config, enum stop_reason *why)
{
    struct learning_rates rate = { .lr         = 1,
                                   .schedule   = c->schedule,
                                   .decay_part = 0.2,
                                   .lr_end     = c->gpt ? 0.1 : 0,
                                   .warmup     = c->gpt ? 30 : 0 };
    i64                   end  = (i64)last_step(c);
    struct stop           s;
    stop_init(&s, config);
    *why = STOP_END;
    for (i64 i = 0; i < c->count; i++) {
        i64              step = (i64)c->step[i];
        f64              fall = schedule_lr(&rate, step, end) - schedule_lr(&rate, end - 1, end);
        struct stop_eval e    = { .step      = step,
                                  .elapsed_s = c->step[i],
                                  .loss      = c->loss[i],
                                  .value     = c->value[i],
                                  .fall      = MAX(fall, 0) };
        e.target_reached =
            metric_falls(config->metric) ? e.value <= config->target : e.value >= config->target;
        if (stop_at_eval(&s, &e) == STOP_NOW) {
            *why = s.reason;
            return i + 1;
        }
    }
    return c->count;
}

/* --- patience --------------------------------------------------------------------------------- */

struct patience {
    f64 paid, full, regret, worst; /* regret: of the loss of the best weights, which are kept */
    i64 runs, stopped;
};

enum group { GROUP_OVERFIT, GROUP_CONSTANT, GROUP_FALLING };

static enum group group_of(const struct curve *c)
{
    if (str_starts(c->set, STR("overfit"))) return GROUP_OVERFIT;
    return str_eq(c->schedule, STR("constant")) ? GROUP_CONSTANT : GROUP_FALLING;
}

/* By the loss. */
static struct patience patience_of(const struct curve *curves, i64 patience, enum group group)
{
    struct patience p = { 0 };
    for (i64 i = 0; i < CURVES; i++) {
        const struct curve *c       = &curves[i];
        struct stop_config  config  = config_for(c);
        struct curve        by_loss = *c;
        enum stop_reason    why;
        if (group_of(c) != group) continue;
        memcpy(by_loss.value, c->loss, sizeof c->loss);
        config.metric   = STR("loss");
        config.patience = patience;
        by_loss.gpt     = true;
        i64 n           = replay(&by_loss, &config, &why);
        f64 lost        = best_until(&by_loss, n) / best_until(&by_loss, c->count) - 1;
        p.runs++;
        p.stopped += why == STOP_PATIENCE;
        p.paid += cost(c, c->step[n - 1]);
        p.full += cost(c, last_step(c));
        p.regret += lost;
        p.worst = fmax(p.worst, lost);
    }
    p.regret /= (f64)p.runs;
    return p;
}

/* Patience pays where runs pass their best. Where the rate falls at the end, the end is the best part
 * of the run, and impatience is dear: help and docs say so. */
TEST(patience_saves_where_runs_pass_their_best)
{
    static const char *const names[] = { "overfitted runs", "constant rate", "falling rate" };
    const struct curve      *curves  = curves_read(perm);
    for (enum group g = GROUP_OVERFIT; g <= GROUP_FALLING; g++)
        for (i64 patience = 3; patience <= 7; patience += 2) {
            struct patience p = patience_of(curves, patience, g);
            printf("\n  %-15s patience %lld: %lld of %lld stopped, $%.4f of $%.4f saved (%.0f %%), "
                   "regret %.1f %% mean, %.1f %% worst",
                   names[g], (long long)patience, (long long)p.stopped, (long long)p.runs,
                   p.full - p.paid, p.full, 100 * (1 - p.paid / p.full), 100 * p.regret,
                   100 * p.worst);
            if (g == GROUP_OVERFIT && patience == 5)
                CHECK(1 - p.paid / p.full > 0.3 && p.regret < 0.02);
            if (patience == 7) CHECK(p.regret < 0.01);
        }
    printf("\n  ");
}

/* --- forecast --------------------------------------------------------------------------------- */

struct tally {
    i64 reach, wrong; /* runs that would reach their target; of those stopped by a forecast */
    i64 miss, right;
    f64 paid, full; /* of those that miss */
};

/* Targets close to where the runs of this set end: the hardest ones there are. */
static void forecast_one(const struct curve *c, f64 y, struct tally *t)
{
    struct stop_config config = config_for(c);
    enum stop_reason   why;
    config.target   = c->gpt ? y : 1 - y;
    config.forecast = 0.95;
    i64  n          = replay(c, &config, &why);
    bool reaches    = best_until(c, c->count) <= y;
    if (reaches) {
        t->reach++;
        t->wrong += why == STOP_FORECAST;
        return;
    }
    t->miss++;
    t->right += why == STOP_FORECAST;
    t->paid += cost(c, c->step[n - 1]);
    t->full += cost(c, last_step(c));
}

TEST(forecasts_stop_runs_that_miss_and_hardly_any_other)
{
    const struct curve *curves = curves_read(perm);
    struct tally        t      = { 0 };
    for (i64 i = 0; i < CURVES; i++)
        for (i64 k = 0; k < CURVES; k++) {
            if (!str_eq(curves[i].set, curves[k].set)) continue;
            f64 end = best_until(&curves[k], curves[k].count);
            forecast_one(&curves[i], end * 0.98, &t);
            forecast_one(&curves[i], end * 1.005, &t);
        }
    printf("\n  %lld runs with targets they reach: %lld stopped wrongly (%.1f %%)\n  %lld with "
           "targets "
           "they miss: %lld stopped, $%.3f of $%.3f saved (%.0f %%)\n  ",
           (long long)t.reach, (long long)t.wrong, 100.0 * (f64)t.wrong / (f64)t.reach,
           (long long)t.miss, (long long)t.right, t.full - t.paid, t.full,
           100 * (1 - t.paid / t.full));
    CHECK((f64)t.wrong < 0.02 * (f64)t.reach); /* at 95 % asked for */
    CHECK(1 - t.paid / t.full > 0.25);
}

/* --- successive halving ----------------------------------------------------------------------- */

struct halving {
    f64 paid, full;
    f64 chosen, best; /* final values */
};

struct worker {
    i64 trial; /* -1: idle */
    f64 ready; /* in steps of the clock; every run is as fast as the others */
};

/* The evaluation at which a rung ends: the first one at or after its part of the run. */
static i64 eval_of(const struct curve *c, f64 part)
{
    i64 i = 0;
    while (c->step[i] < part * last_step(c)) i++;
    return i;
}

static struct halving halve(const struct curve *c, i64 count, i64 eta, i64 workers,
                            struct arena scratch)
{
    struct asha   *a     = asha_new(&scratch, count, eta, 0.05);
    f64           *at    = NEW(&scratch, f64, count); /* steps done */
    i64           *order = NEW(&scratch, i64, count);
    struct worker  w[8];
    struct halving h   = { .best = INFINITY };
    f64            now = 0;
    for (i64 i = 0; i < workers; i++) w[i].trial = -1;
    for (struct worker *next;;) {
        next = NULL;
        for (i64 i = 0; i < workers; i++) {
            if (w[i].trial < 0 && (w[i].trial = asha_next(a)) >= 0) {
                const struct curve *t  = &c[w[i].trial];
                f64                 to = t->step[eval_of(t, a->part[a->trials[w[i].trial].rung])];
                w[i].ready             = now + to - at[w[i].trial];
                h.paid += cost(t, to) - cost(t, at[w[i].trial]);
                at[w[i].trial] = to;
            }
            if (w[i].trial >= 0 && (!next || w[i].ready < next->ready)) next = &w[i];
        }
        if (!next) break;
        now = next->ready;
        asha_report(a, next->trial,
                    falling(&c[next->trial],
                            eval_of(&c[next->trial], a->part[a->trials[next->trial].rung])));
        next->trial = -1;
    }
    for (i64 i = 0; i < count; i++) {
        h.full += cost(&c[i], last_step(&c[i]));
        h.best = fmin(h.best, falling(&c[i], c[i].count - 1));
    }
    asha_ranking(a, order);
    h.chosen = falling(&c[order[0]], c[order[0]].count - 1);
    return h;
}

TEST(halving_finds_nearly_the_best_for_a_fraction_of_the_price)
{
    const struct curve *curves = curves_read(perm);
    for (i64 from = 0, to; from < CURVES; from = to) {
        for (to = from; to < CURVES && str_eq(curves[to].set, curves[from].set);) to++;
        if (to - from < 16) continue;
        for (i64 eta = 2; eta <= 4; eta++) {
            for (i64 workers = 1; workers <= 4; workers += 3) {
                struct halving h     = halve(curves + from, to - from, eta, workers, scratch);
                f64            saved = 1 - h.paid / h.full, regret = h.chosen / h.best - 1;
                printf("\n  %-18.*s eta %lld, %lld at once: $%.4f of $%.4f saved (%.0f %%), chosen "
                       "%.4f, "
                       "best %.4f, regret %.1f %%",
                       STR_ARG(curves[from].set), (long long)eta, (long long)workers,
                       h.full - h.paid, h.full, 100 * saved, h.chosen, h.best, 100 * regret);
                CHECK(saved > (workers == 1 ? 0.6 : 0.5));
                CHECK(regret < (eta == 4 ? 0.1 : 0.05));
            }
        }
    }
    printf("\n  ");
}
