/* cmd_plan.c - frugal plan WHAT: what training it would cost, where, and how. */
#include "cli/plan.h"
#include "run/ledger.h"
#include <math.h>

enum status command_plan(struct cli *c, struct err *err);

enum { SCRATCH_GIB = 64, RECORDED = 5 }; /* rows the ledger is told of */

void note(struct question *q, struct str text) { plan_note(&q->notes, text); }

static enum status limits_of(const struct request *r, struct plan_limits *out, struct err *err)
{
    f64         runs;
    enum status st = plan_number(r, FLAG_INDEX_deadline, 3600, &out->deadline_s, err);
    if (!st) st = plan_number(r, FLAG_INDEX_budget, 1, &out->budget_usd, err);
    if (!st) st = plan_number(r, FLAG_INDEX_runs, 1, &runs, err);
    if (!st) out->runs = isnan(runs) ? 1 : MAX((i64)runs, 1);
    return st;
}

static enum status devices_of(struct cli *c, struct question *q, struct err *err)
{
    struct plan_where where = { .cloud    = c->request->value[FLAG_INDEX_on],
                                .prices   = c->request->value[FLAG_INDEX_prices],
                                .here     = q->ours,
                                .usd_hour = q->usd_hour };
    return plan_devices_open(&q->devices, c->os, &where, &q->notes, c->perm, err);
}

static enum status time_kernels(struct cli *c, struct arena scratch, struct err *err)
{
    struct str  path;
    i64         count;
    enum status st = plan_calibrate(c->os, c->perm, scratch, &count, &path, err);
    if (!st)
        say_message(c->say, "%lld kernels timed; rates written to %.*s\n", (long long)count,
                    STR_ARG(path));
    return st;
}

static void learn(struct cli *c, struct question *q)
{
    struct plan_learner of = { .ledger       = ledger_path(c->os, q->ledger, c->perm),
                               .catalogue    = q->devices.catalogue,
                               .devices      = q->devices.items,
                               .device_count = q->devices.count,
                               .limits       = &q->limits,
                               .workload     = &q->workload,
                               .loads        = q->ours,
                               .settings     = q->settings };
    plan_learn(c->os, &of, &q->notes, c->perm);
}

/* An hour of this machine has no price, so it cannot be ranked; how long it takes can be told. */
static void tell_unpriced(struct cli *c, struct question *q, const struct plan_variants *v,
                          struct arena scratch)
{
    struct plan_result *r = NEW(c->perm, struct plan_result, 1);
    for (i64 i = q->devices.rented_count; i < q->devices.count && isnan(q->usd_hour); i++) {
        struct device *d    = &q->devices.items[i];
        d->usd_h[PRICE_OWN] = 0;
        plan_search(&q->workload, v, d, 1, q->devices.catalogue, &q->limits, r, scratch);
        d->usd_h[PRICE_OWN] = NAN;
        if (!r->count) continue;
        struct plan_row *row = &r->rows[0];
        note(q,
             str_fmt(c->perm,
                     "%.*s: %.3g h in %s, not ranked: set train.usd_hour to the price of an hour",
                     STR_ARG(d->name), row->hours, precision_text(row->precision)));
        row->bill.total = NAN;
        plan_record(c, q, row);
    }
}

static enum status answer(struct cli *c, struct question *q, struct arena scratch, struct err *err)
{
    struct plan_variants *v  = NEW(c->perm, struct plan_variants, 1);
    struct plan_result   *r  = NEW(c->perm, struct plan_result, 1);
    enum status           st = plan_compile(c->perm, &q->workload, v, scratch, err);
    if (st) return st;
    i64 ranked = isnan(q->usd_hour) ? q->devices.rented_count : q->devices.count;
    plan_search(&q->workload, v, q->devices.items, ranked, q->devices.catalogue, &q->limits, r,
                scratch);
    tell_unpriced(c, q, v, scratch);
    if (r->count) plan_show(c, q, v, r);
    i64 ours = plan_first_trained(q, r);
    for (i64 i = 0; i < MIN(r->count, RECORDED); i++) plan_record(c, q, &r->rows[i]);
    if (ours >= RECORDED) plan_record(c, q, &r->rows[ours]);
    if (r->count && c->request->flags & FLAG_scale_model) return plan_scale(c, q, scratch, err);
    return r->count ? STATUS_OK : plan_none(c, q, r, err);
}

static enum status plan(struct cli *c, struct question *q, struct arena scratch, struct err *err)
{
    enum status st = limits_of(c->request, &q->limits, err);
    if (!st) st = plan_ask(c, q, err);
    if (!st) st = devices_of(c, q, err);
    if (!st) st = plan_where(c, q, err);
    if (st) return st;
    learn(c, q);
    return answer(c, q, scratch, err);
}

enum status command_plan(struct cli *c, struct err *err)
{
    struct question *q       = NEW(c->perm, struct question, 1);
    struct arena     scratch = arena_open((i64)SCRATCH_GIB << 30);
    enum status      st      = STATUS_OK;
    q->depth_part = q->width_part = 1;
    if (!scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    st = plan_flags(c->request, err);
    if (!st && c->request->flags & FLAG_models) plan_models(c);
    else if (!st && c->request->flags & FLAG_calibrate) st = time_kernels(c, scratch, err);
    else if (!st) st = plan(c, q, scratch, err);
    plan_devices_close(&q->devices);
    arena_close(&scratch);
    return st;
}
