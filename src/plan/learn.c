/* learn.c - what a plan takes from the user's ledger instead of what it would assume: how long spot
 * machines lived, how quick steps were, what starting, saving and loading took. Each is told. */
#include "plan/learn.h"
#include "base/digits.h"
#include "base/pool.h"
#include "plan/lessons.h"
#include "run/report.h"
#include <math.h>
#include <unistd.h>

static const f64 pace_told = 0.01; /* less than this from 1 is not worth a line */

struct learning {
    const struct plan_learner *of;
    struct plan_notes         *notes;
    struct arena              *perm; /* of what is told */
    struct arena               rows; /* of the ledger, until all is learned */
    i64                        now_wall_ns;
};

enum { ROWS_GIB = 8 }; /* address space */

void plan_note(struct plan_notes *n, struct str text)
{
    if (n->count < COUNT_OF(n->text)) n->text[n->count++] = text;
}

static void name_rates(const struct plan_learner *p, struct arena *perm)
{
    for (i64 i = 0; i < p->device_count; i++) {
        struct device *d = &p->devices[i], *last = i ? d - 1 : NULL;
        bool           same = last && last->rates == d->rates;
        d->rates_key = same ? last->rates_key : lesson_rates_key(rates_print(d->rates, perm), perm);
    }
}

static void learn_lives(struct learning *g, struct ledger *l)
{
    struct lifetime *lives;
    struct arena     here  = g->rows;
    i64              count = 0;
    if (report_lifetimes(l, STR(""), g->now_wall_ns, &here, &lives, &count, NULL) || !count) return;
    g->of->limits->spot = hazard_fit(lives, count);
    plan_note(
        g->notes,
        str_fmt(
            g->perm,
            "spot machines last %.3g h on average: from %lld of them in your ledger, and the prior",
            hazard_mean_s(g->of->limits->spot) / 3600, (long long)count));
}

/* Of machines that were used before: they differ more than a mean of all can say. */
static void learn_own_life(struct learning *g, struct device *d, struct ledger *l,
                           const struct lessons *all)
{
    struct lifetime *lives;
    struct arena     here  = g->rows;
    i64              count = 0;
    if (!d->row) return;
    struct str machine =
        str_fmt(g->perm, "%.*s/%.*s", STR_ARG(d->row->provider), STR_ARG(d->row->name));
    if (!lessons_ran_on(all, machine)) return;
    if (report_lifetimes(l, machine, g->now_wall_ns, &here, &lives, &count, NULL) || !count) return;
    d->spot = hazard_fit(lives, count);
    plan_note(
        g->notes,
        str_fmt(g->perm,
                "spot %.*s last %.3g h on average: from %lld of them in your ledger, and the prior",
                STR_ARG(machine), hazard_mean_s(d->spot) / 3600, (long long)count));
}

/* What the machines' network gave to the ranks of earlier runs, instead of a part of its data sheet's rate. */
static void learn_network(struct learning *g, struct device *d, const struct lessons *all)
{
    if (!d->row) return;
    struct str machine =
        str_fmt(g->perm, "%.*s/%.*s", STR_ARG(d->row->provider), STR_ARG(d->row->name));
    struct lesson net = lesson_net_bytes_s(all, machine);
    if (!net.runs) return;
    plan_note(g->notes,
              str_fmt(g->perm,
                      "between machines %.*s send %s GB/s, from %lld runs of several ranks in your "
                      "ledger, instead of %s",
                      STR_ARG(machine), DIGITS(net.value / 1e9), (long long)net.runs,
                      DIGITS(d->network.net_bytes_s / 1e9)));
    d->network.net_bytes_s = net.value;
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
static void tell_device(struct learning *g, i64 at, const struct lessons *all)
{
    static const enum dtype types[] = { DT_F32, DT_BF16, DT_F16 };
    const struct device    *d       = &g->of->devices[at];
    for (i64 i = 0; i < at; i++)
        if (str_eq(g->of->devices[i].model, d->model)) return;
    for (i64 i = 0; i < COUNT_OF(types); i++) {
        enum dtype t = types[i];
        if (d->pace_runs[t] && fabs(d->pace[t] - 1) >= pace_told)
            plan_note(g->notes,
                      str_fmt(g->perm, "steps on %.*s in %s: learned from %lld runs: x %.2f",
                              STR_ARG(d->model), precision_text(t), (long long)d->pace_runs[t],
                              d->pace[t]));
    }
    struct lesson start = lesson_start_s(all, d->model);
    if (start.runs)
        plan_note(g->notes,
                  str_fmt(g->perm, "starting on %.*s takes %s s, from %lld runs, instead of warm_s",
                          STR_ARG(d->model), DIGITS(start.value), (long long)start.runs));
    struct lesson stall = lesson_stall_bytes_s(all, d->model);
    if (stall.runs)
        plan_note(
            g->notes,
            str_fmt(g->perm,
                    "a save on %.*s pauses training for %.3g s per GB, from %lld saves, instead of "
                    "copy_gb_s",
                    STR_ARG(d->model), 1e9 / stall.value, (long long)stall.runs));
}

/* Cores load side by side, so what this machine's took together a single one would take so many times. */
static void learn_loading(struct learning *g, const struct lessons *all)
{
    char          host[256] = { 0 };
    struct lesson kept = { NAN, 0 }, load = { NAN, 0 };
    gethostname(host, sizeof host - 1);
    if (all) load = lesson_load_s(all, str_of(host), g->of->settings, &kept);
    if (load.runs) {
        g->of->workload->load_sample_s = load.value * pool_machine_threads();
        plan_note(
            g->notes,
            str_fmt(g->perm,
                    "loading: %s samples per second here, from %lld runs that waited for data",
                    DIGITS(1 / load.value), (long long)load.runs));
    } else if (kept.runs) {
        plan_note(g->notes,
                  str_fmt(g->perm,
                          "load_s 0: loading kept up with %s samples per second here, in %lld runs",
                          DIGITS(1 / kept.value), (long long)kept.runs));
    } else {
        plan_note(g->notes,
                  STR("load_s 0: the loading speed of this data was not measured; `frugal doctor` "
                      "with the run "
                      "file measures it"));
    }
}

void plan_learn(struct os *os, const struct plan_learner *p, struct plan_notes *notes,
                struct arena *perm)
{
    struct arena    rows = arena_open((i64)ROWS_GIB << 30);
    struct learning g    = { p, notes, perm, rows, os->wall_ns(os) };
    struct ledger  *l;
    struct lessons *all = NULL;
    struct os_stat  there;
    name_rates(p, perm);
    bool any = rows.begin && p->ledger.len && !os->stat(os, p->ledger, &there, NULL);
    if (any && !ledger_open(os, p->ledger, &g.rows, &l, NULL)) {
        learn_lives(&g, l);
        if (lessons_read(l, p->catalogue, &g.rows, &all, NULL)) all = NULL;
        for (i64 i = 0; all && i < p->device_count; i++) learn_own_life(&g, &p->devices[i], l, all);
        ledger_close(l);
    }
    for (i64 i = 0; all && i < p->device_count; i++) {
        learn_device(&p->devices[i], all);
        learn_network(&g, &p->devices[i], all);
        tell_device(&g, i, all);
    }
    if (p->loads) learn_loading(&g, all);
    if (rows.begin) arena_close(&rows);
}
