/* plan_reasons.c - what the rows of a plan say besides their price: whether frugal can carry them out, how old the
 * price is, and what would be cheaper still. */
#include "ir/collective.h"
#include "job/plan_question.h"
#include <math.h>

static const f64 efficiency_good = 0.8; /* below it a remedy is named */

/* Architectures that our CUDA module is built for (cmake/cuda.cmake): 80 to 90, and 100. */
static bool is_built_for(struct str gpu)
{
    static const char *const others[] = { "V100-16", "V100-32", "T4-16", "RTX5090-32" };
    for (i64 i = 0; i < COUNT_OF(others); i++)
        if (str_eq(gpu, str_of(others[i]))) return false;
    return true;
}

bool plan_has_gpu(const struct plan_row *r)
{
    return r->device->row ? r->device->row->gpu.len > 0 : r->device->target.gpus > 0;
}

const char *plan_cannot(const struct plan_question *q, const struct plan_row *r)
{
    if (q->stand_in) return "this model";
    if (r->gpus > RANKS_MAX) return "more than 1,024 ranks";
    if (r->device->row && !is_built_for(r->device->row->gpu)) return "this kind of GPU";
    return NULL;
}

i64 plan_first_trained(const struct plan_question *q)
{
    for (i64 i = 0; i < q->result->count && q->ours; i++)
        if (!plan_cannot(q, &q->result->rows[i])) return i;
    return -1;
}

/* NaN: it is the user's own, or has no date. */
f64 plan_price_age_days(const struct plan_question *q, const struct plan_row *r)
{
    const struct machine *m = r->device->row;
    return m ? price_age_days(m, r->price, day_today(q->os)) : NAN;
}

bool plan_price_is_old(const struct plan_question *q, const struct plan_row *r)
{
    const struct machine *m = r->device->row;
    return m && price_is_old(m, r->price, day_today(q->os));
}

f64 plan_row_usd_hour(const struct plan_row *r)
{
    return bill_estimate_usd(r->device->usd_h[r->price], 3600 * (f64)r->machines);
}

bool plan_is_held_up(const struct plan_row *r) { return r->step.efficiency < efficiency_good; }

/* False: it does not fit. */
static bool price(const struct plan_question *q, const struct plan_workload *of, f64 gradient_part,
                  struct plan_row *row, struct arena scratch)
{
    return plan_price(of, q->variants, q->devices.catalogue, &q->limits, gradient_part, row,
                      scratch);
}

bool plan_spot(const struct plan_question *q, const struct plan_row *r, struct plan_spot *out,
               struct arena scratch)
{
    struct plan_row sure = *r;
    out->discount = bill_discount(r->device->usd_h[PRICE_SPOT], r->device->usd_h[PRICE_ON_DEMAND]);
    sure.price    = PRICE_ON_DEMAND;
    if (isnan(out->discount) || !price(q, &q->workload, 1, &sure, scratch)) return false;
    out->pays_from = risk_break_even(&r->outcome, &sure.outcome);
    return true;
}

struct plan_remedies plan_remedies(const struct plan_question *q, const struct plan_row *r,
                                   struct arena scratch)
{
    struct plan_remedies out  = { NAN, NAN, NAN, NAN };
    struct plan_row      half = *r, fewer = *r, more = *r;
    struct plan_workload longer = q->workload;
    if (!r->sharding.kind && price(q, &q->workload, 0.5, &half, scratch))
        out.short_gradients_usd = half.bill.total;
    longer.batch_total *= 4;
    longer.steps = (longer.steps + 3) / 4;
    if (price(q, &longer, 1, &more, scratch)) out.larger_batch_usd = more.bill.total;
    i64 units = r->device->units;
    fewer.gpus /= 2;
    fewer.machines = (fewer.gpus * r->side_by_side + units - 1) / units;
    if (r->gpus % 2 == 0 && price(q, &q->workload, 1, &fewer, scratch)) {
        out.fewer_usd = fewer.bill.total;
        out.fewer_h   = fewer.hours;
    }
    return out;
}

bool plan_mix(const struct plan_question *q, const struct plan_row *r, struct plan_mix *out,
              struct arena scratch)
{
    f64 spot = r->device->usd_h[PRICE_SPOT], list = r->device->usd_h[PRICE_ON_DEMAND];
    if (isnan(q->limits.deadline_s) || !(spot >= 0) || !(list >= 0) || q->limits.runs > 1)
        return false;
    struct risk_mixed m = plan_mixed(r, &q->limits, scratch);
    out->usd            = (f64)r->machines *
               (bill_estimate_usd(spot, m.spot_s) + bill_estimate_usd(list, m.on_demand_s));
    out->in_time = m.in_time;
    return true;
}

/* Keeps the longest, in their order; so many are in `out`. */
static i64 add_part(struct plan_op_part *out, i64 count, i64 most, const char *name, f64 part)
{
    i64 at = MIN(count, most - 1);
    if (!(part > 0) || (count == most && out[at].part >= part)) return count;
    for (; at > 0 && out[at - 1].part < part; at--) out[at] = out[at - 1];
    out[at] = (struct plan_op_part){ name, part };
    return MIN(count + 1, most);
}

/* Ops by the rates, then by what was learned of their pace: with what nothing hides they are the whole step. */
i64 plan_ops(const struct plan_row *r, struct plan_op_part *out, i64 most)
{
    struct op_time         ops[OP_COUNT];
    const struct estimate *e      = &r->step;
    struct step_shape      shape  = { .micro = r->micro, .accumulate = r->accumulate };
    i64                    places = sharding_places(&r->sharding, ranks_on(r->device, r->gpus));
    i64 count = estimate_ops(r->device, &r->variant->work, &shape, 1 / (f64)places, ops), n = 0;
    f64 all = 0, alone = (e->forward_s + e->backward_s + e->update_s) / e->step_s;
    for (i64 i = 0; i < count; i++) all += ops[i].seconds;
    for (i64 i = 0; i < count; i++)
        n = add_part(out, n, most, op_info(ops[i].op)->name, alone * ops[i].seconds / all);
    n = add_part(out, n, most, "communication", e->exposed_s / e->step_s);
    return add_part(out, n, most, "loading", e->load_s / e->step_s);
}
