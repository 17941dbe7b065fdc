/* plan_learn.c - what a plan takes from the user's ledger instead of what it would assume: how long spot
 * machines lived, how quick steps were, what starting, saving and loading took. Each is told. */
#include "base/pool.h"
#include "cli/plan.h"
#include "plan/lessons.h"
#include "run/report.h"
#include <math.h>
#include <unistd.h>

static const f64 pace_told = 0.01; /* less than this from 1 is not worth a line */

static void name_rates(struct question *q, struct arena *perm)
{
    for (i64 i = 0; i < q->device_count; i++) {
        struct device *d = &q->devices[i], *last = i ? d - 1 : NULL;
        bool           same = last && last->rates == d->rates;
        d->rates_key = same ? last->rates_key : lesson_rates_key(rates_print(d->rates, perm), perm);
    }
}

static void learn_lives(struct cli *c, struct question *q, struct ledger *l)
{
    struct lifetime *lives;
    i64              count = 0, now = c->os->wall_ns(c->os);
    if (report_lifetimes(l, STR(""), now, c->perm, &lives, &count, NULL) || !count) return;
    q->limits.spot = hazard_fit(lives, count);
    note(
        q,
        str_fmt(
            c->perm,
            "spot machines last %.3g h on average: from %lld of them in your ledger, and the prior",
            hazard_mean_s(q->limits.spot) / 3600, (long long)count));
}

/* Of machines that were used before: they differ more than a mean of all can say. */
static void learn_own_life(struct cli *c, struct question *q, struct device *d, struct ledger *l,
                           const struct lessons *all)
{
    struct lifetime *lives;
    i64              count = 0, now = c->os->wall_ns(c->os);
    if (!d->row) return;
    struct str machine =
        str_fmt(c->perm, "%.*s/%.*s", STR_ARG(d->row->provider), STR_ARG(d->row->name));
    if (!lessons_ran_on(all, machine)) return;
    if (report_lifetimes(l, machine, now, c->perm, &lives, &count, NULL) || !count) return;
    d->spot = hazard_fit(lives, count);
    note(q, str_fmt(
                c->perm,
                "spot %.*s last %.3g h on average: from %lld of them in your ledger, and the prior",
                STR_ARG(machine), hazard_mean_s(d->spot) / 3600, (long long)count));
}

static void learn_pace(struct device *d, enum dtype t, const struct lessons *all)
{
    struct lesson p = lesson_pace(all, d->model, str_of(precision_text(t)), d->rates_key);
    d->pace[t]      = p.runs ? p.value : 0;
    d->pace_runs[t] = p.runs;
}

static void learn_device(struct device *d, const struct lessons *all)
{
    struct lesson start = lesson_start_s(all, d->model), boot = lesson_boot_s(all);
    struct lesson stall = lesson_stall_bytes_s(all, d->model);
    learn_pace(d, DT_F32, all);
    learn_pace(d, DT_BF16, all);
    learn_pace(d, DT_F16, all);
    if (start.runs) d->warm_s = start.value;
    if (boot.runs) d->boot_s = boot.value;
    if (stall.runs) d->copy_bytes_s = stall.value;
}

/* Once for each kind of device. */
static void tell_device(struct cli *c, struct question *q, i64 at, const struct lessons *all)
{
    static const enum dtype types[] = { DT_F32, DT_BF16, DT_F16 };
    const struct device    *d       = &q->devices[at];
    for (i64 i = 0; i < at; i++)
        if (str_eq(q->devices[i].model, d->model)) return;
    for (i64 i = 0; i < COUNT_OF(types); i++) {
        enum dtype t = types[i];
        if (d->pace_runs[t] && fabs(d->pace[t] - 1) >= pace_told)
            note(q, str_fmt(c->perm, "steps on %.*s in %s: learned from %lld runs: x %.2f",
                            STR_ARG(d->model), precision_text(t), (long long)d->pace_runs[t],
                            d->pace[t]));
    }
    struct lesson start = lesson_start_s(all, d->model);
    if (start.runs)
        note(q, str_fmt(c->perm, "starting on %.*s takes %.3g s, from %lld runs, instead of warm_s",
                        STR_ARG(d->model), start.value, (long long)start.runs));
    struct lesson stall = lesson_stall_bytes_s(all, d->model);
    if (stall.runs)
        note(q, str_fmt(
                    c->perm,
                    "a save on %.*s pauses training for %.3g s per GB, from %lld saves, instead of "
                    "copy_gb_s",
                    STR_ARG(d->model), 1e9 / stall.value, (long long)stall.runs));
}

/* Cores load side by side, so what this machine's took together a single one would take so many times. */
static void learn_loading(struct cli *c, struct question *q, const struct lessons *all)
{
    char          host[256] = { 0 };
    struct lesson kept = { NAN, 0 }, load = { NAN, 0 };
    gethostname(host, sizeof host - 1);
    if (all) load = lesson_load_s(all, str_of(host), q->settings, &kept);
    if (load.runs) {
        q->workload.load_sample_s = load.value * pool_machine_threads();
        note(q,
             str_fmt(c->perm,
                     "loading: %.3g samples per second here, from %lld runs that waited for data",
                     1 / load.value, (long long)load.runs));
    } else if (kept.runs) {
        note(q, str_fmt(c->perm,
                        "load_s 0: loading kept up with %.3g samples per second here, in %lld runs",
                        1 / kept.value, (long long)kept.runs));
    } else {
        note(q, STR("load_s 0: the loading speed of this data was not measured; `frugal doctor` "
                    "with the run "
                    "file measures it"));
    }
}

void plan_learn(struct cli *c, struct question *q)
{
    struct str      path = ledger_path(c->os, q->ledger, c->perm);
    struct ledger  *l;
    struct lessons *all = NULL;
    struct os_stat  there;
    name_rates(q, c->perm);
    bool any = path.len && !c->os->stat(c->os, path, &there, NULL);
    if (any && !ledger_open(c->os, path, c->perm, &l, NULL)) {
        learn_lives(c, q, l);
        if (lessons_read(l, q->catalogue, c->perm, &all, NULL)) all = NULL;
        for (i64 i = 0; all && i < q->device_count; i++)
            learn_own_life(c, q, &q->devices[i], l, all);
        ledger_close(l);
    }
    for (i64 i = 0; all && i < q->device_count; i++) {
        learn_device(&q->devices[i], all);
        tell_device(c, q, i, all);
    }
    if (q->ours) learn_loading(c, q, all);
}
