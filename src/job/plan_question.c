/* plan_question.c - a plan of `frugal plan`, from the top to the bottom. */
#include "job/plan_question.h"
#include "base/digits.h"
#include "run/ledger.h"
#include <math.h>

enum { RECORDED = 5 }; /* rows that the ledger keeps, for the report to compare */

static enum status open_devices(struct plan_question *q, struct err *err)
{
    struct plan_where where = { .cloud    = q->request->cloud,
                                .prices   = q->request->prices,
                                .here     = q->ours,
                                .usd_hour = q->usd_hour };
    return plan_devices_open(&q->devices, q->os, &where, &q->notes, q->perm, err);
}

static void learn(struct plan_question *q)
{
    struct plan_learner of = { .ledger       = ledger_path(q->os, q->ledger, q->perm),
                               .catalogue    = q->devices.catalogue,
                               .devices      = q->devices.items,
                               .device_count = q->devices.count,
                               .limits       = &q->limits,
                               .workload     = &q->workload,
                               .loads        = q->ours,
                               .settings     = q->settings };
    plan_learn(q->os, &of, &q->notes, q->perm);
}

/* An hour of this machine has no price, so it cannot be ranked; how long it takes can be told. */
static void note_unpriced(struct plan_question *q, struct arena scratch)
{
    struct plan_result *r = NEW(q->perm, struct plan_result, 1);
    for (i64 i = q->devices.rented_count; i < q->devices.count && isnan(q->usd_hour); i++) {
        struct device *d    = &q->devices.items[i];
        d->usd_h[PRICE_OWN] = 0;
        plan_search(&q->workload, q->variants, d, 1, q->devices.catalogue, &q->limits, r, scratch);
        d->usd_h[PRICE_OWN] = NAN;
        if (!r->count) continue;
        struct plan_row *row = &r->rows[0];
        plan_note(&q->notes,
                  str_fmt(q->perm,
                          "%.*s: %s h in %s, not ranked: set train.usd_hour to the price of an "
                          "hour",
                          STR_ARG(d->name), DIGITS(row->hours), precision_text(row->precision)));
        row->bill.total = NAN;
        plan_record(q, row);
    }
}

/* The machines that can be ranked: this one where an hour of it has a price. */
static i64 ranked_devices(const struct plan_question *q)
{
    return isnan(q->usd_hour) ? q->devices.rented_count : q->devices.count;
}

static enum status search(struct plan_question *q, struct arena scratch, struct err *err)
{
    q->variants    = NEW(q->perm, struct plan_variants, 1);
    q->result      = NEW(q->perm, struct plan_result, 1);
    enum status st = plan_compile(q->perm, &q->workload, q->variants, scratch, err);
    if (st) return st;
    plan_search(&q->workload, q->variants, q->devices.items, ranked_devices(q),
                q->devices.catalogue, &q->limits, q->result, scratch);
    note_unpriced(q, scratch);
    return STATUS_OK;
}

static void record(const struct plan_question *q)
{
    i64 ours = plan_first_trained(q);
    for (i64 i = 0; i < MIN(q->result->count, RECORDED); i++) plan_record(q, &q->result->rows[i]);
    if (ours >= RECORDED) plan_record(q, &q->result->rows[ours]);
}

enum status plan_open(struct plan_question *q, struct os *os, const struct plan_request *r,
                      struct arena *perm, struct arena scratch, struct err *err)
{
    *q             = (struct plan_question){ .os         = os,
                                             .perm       = perm,
                                             .request    = r,
                                             .depth_part = 1,
                                             .width_part = 1,
                                             .limits     = { .deadline_s = r->deadline_s,
                                                             .budget_usd = r->budget_usd,
                                                             .runs       = MAX(r->runs, 1) } };
    enum status st = plan_ask(q, err);
    if (!st) st = open_devices(q, err);
    if (!st) st = plan_where(q, err);
    if (st) return st;
    learn(q);
    st = search(q, scratch, err);
    if (!st) record(q);
    return st;
}

void plan_close(struct plan_question *q) { plan_devices_close(&q->devices); }

static const struct {
    f64 depth, width;
} parts[PLAN_SMALLER_COUNT] = { { 1, 1 },   { 0.75, 1 }, { 1, 0.75 },
                                { 0.5, 1 }, { 1, 0.5 },  { 0.5, 0.5 } };

enum status plan_smaller(const struct plan_question *asked, i64 index, struct plan_smaller *out,
                         struct arena scratch, struct err *err)
{
    struct plan_question q   = *asked;
    struct plan_result  *r   = NEW(q.perm, struct plan_result, 1);
    q.depth_part             = parts[index].depth;
    q.width_part             = parts[index].width;
    q.variants               = NEW(q.perm, struct plan_variants, 1);
    enum status st           = plan_ask(&q, err);
    q.workload.load_sample_s = asked->workload.load_sample_s; /* as learned */
    if (!st) st = plan_compile(q.perm, &q.workload, q.variants, scratch, err);
    if (st) return st;
    plan_search(&q.workload, q.variants, q.devices.items, ranked_devices(&q), q.devices.catalogue,
                &q.limits, r, scratch);
    *out = (struct plan_smaller){ .depth_part = q.depth_part,
                                  .width_part = q.width_part,
                                  .parameters = q.variants->parameters,
                                  .found      = r->count > 0,
                                  .row        = r->rows[0] };
    return STATUS_OK;
}
