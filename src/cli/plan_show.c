/* plan_show.c - the ranked table, why the first is first, and what would change it. */
#include "cli/plan.h"
#include <math.h>

enum { SHOWN = 10, OPS_SHOWN = 5, SCRATCH_BYTES = 16 << 20 };

static const f64 efficiency_good = 0.8; /* below it a remedy is named */

static struct str hours_text(struct arena *perm, f64 hours)
{
    if (hours < 1) return str_fmt(perm, "%.1f min", hours * 60);
    return str_fmt(perm, hours < 100 ? "%.1f h" : "%.0f h", hours);
}

/* "4 x aws p5.48xlarge", "2 of 8 GPUs of aws p5.48xlarge" */
static struct str where(struct arena *perm, const struct plan_row *r)
{
    i64 all = r->machines * r->device->units;
    if (r->gpus * r->side_by_side < all)
        return str_fmt(perm, "%.*s (%lld of %lld GPUs)", STR_ARG(r->device->name),
                       (long long)(r->gpus * r->side_by_side), (long long)all);
    if (r->machines > 1)
        return str_fmt(perm, "%lld x %.*s", (long long)r->machines, STR_ARG(r->device->name));
    return r->device->name;
}

/* Of its price; NaN: it is the user's own, or has no date. */
static f64 price_age_days(struct cli *c, const struct plan_row *r)
{
    const struct machine *m = r->device->row;
    if (!m || m->fact.as_of_day == DAY_UNKNOWN) return NAN;
    return (f64)(day_today(c->os) - m->fact.as_of_day);
}

static bool is_old(struct cli *c, const struct plan_row *r)
{
    return r->device->row && !(price_age_days(c, r) <= PRICE_OLD_DAYS);
}

static struct str ms_text(struct arena *perm, f64 seconds)
{
    return str_fmt(perm, seconds < 10 ? "%.4g" : "%.0f", seconds * 1e3);
}

static struct str cut_text(struct arena *perm, const struct plan_row *r)
{
    return r->gpus > 1
               ? str_fmt(perm, "%lld x %lld x %lld", (long long)r->micro, (long long)r->accumulate,
                         (long long)r->gpus)
               : str_fmt(perm, "%lld x %lld", (long long)r->micro, (long long)r->accumulate);
}

static void show_row(struct cli *c, i64 rank, const struct plan_row *r)
{
    struct arena s   = *c->perm;
    struct str   mfu = isnan(r->step.mfu) ? STR("-") : str_fmt(&s, "%.0f %%", 100 * r->step.mfu);
    struct str   odds =
        isnan(r->in_time) ? STR("-") : str_fmt(&s, "%.0f %%", floor(100 * r->in_time));
    say_result(
        c->say,
        "%3lld %10.*s %9.*s %6.1f %6.*s  %9s%s %-30.*s %-5s %-12.*s %-7s%s %8.*s %8.*s %5.*s  %s\n",
        (long long)rank, STR_ARG(text_dollars(&s, r->bill.total)),
        STR_ARG(hours_text(&s, r->hours)), r->outcome.interruptions, STR_ARG(odds),
        price_name(r->price), is_old(c, r) ? "*" : " ", STR_ARG(where(&s, r)),
        precision_text(r->precision), STR_ARG(cut_text(&s, r)), recompute_text(r->variant),
        r->sharded ? "+" : " ", STR_ARG(text_bytes(&s, r->memory_bytes)),
        STR_ARG(ms_text(&s, r->step.step_s)), STR_ARG(mfu), estimate_bound(&r->step));
}

static void json_row(struct cli *c, const struct question *q, i64 rank, const struct plan_row *r)
{
    struct arena   s = *c->perm;
    struct textbuf b = event_begin(&s, "plan");
    event_i64(&b, "rank", rank);
    event_str(&b, "machine", r->device->name);
    event_i64(&b, "machines", r->machines);
    event_str(&b, "market", str_of(price_name(r->price)));
    event_f64(&b, "usd_hour", r->device->usd_h[r->price]);
    event_f64(&b, "price_age_days", price_age_days(c, r));
    event_i64(&b, "gpus", r->device->row && r->device->row->gpus ? r->gpus : 0);
    event_i64(&b, "runs_side_by_side", r->side_by_side);
    event_str(&b, "precision", str_of(precision_text(r->precision)));
    event_str(&b, "recompute", str_of(recompute_text(r->variant)));
    event_bool(&b, "sharded", r->sharded);
    event_i64(&b, "batch", r->micro);
    event_i64(&b, "accumulate", r->accumulate);
    event_i64(&b, "steps", q->workload.steps);
    event_f64(&b, "memory_bytes", r->memory_bytes);
    event_i64(&b, "memory_bytes_usable", r->device->target.memory_bytes);
    event_f64(&b, "step_s", r->step.step_s);
    event_f64(&b, "mfu", r->step.mfu);
    event_f64(&b, "efficiency", r->step.efficiency);
    event_f64(&b, "communication_s", r->step.comm_s);
    event_f64(&b, "communication_exposed_s", r->step.exposed_s);
    event_str(&b, "bound_by", str_of(estimate_bound(&r->step)));
    event_bool(&b, "ops_guessed", r->step.guessed);
    event_f64(&b, "work_s", r->work_s);
    event_f64(&b, "hours", r->hours);
    event_f64(&b, "interruptions", r->outcome.interruptions);
    event_f64(&b, "save_every_s", r->outcome.interval_s);
    event_f64(&b, "in_time", r->in_time);
    event_f64(&b, "usd", r->bill.total);
    event_f64(&b, "usd_useful", r->bill.useful);
    event_f64(&b, "usd_lost", r->bill.lost);
    event_f64(&b, "usd_starting", r->bill.starting);
    event_f64(&b, "usd_storage", r->bill.storage);
    event_f64(&b, "usd_requests", r->bill.requests);
    event_f64(&b, "pace_learned",
              r->device->pace_runs[r->precision] ? r->device->pace[r->precision] : NAN);
    event_i64(&b, "pace_runs", r->device->pace_runs[r->precision]);
    event_bool(&b, "memory_exact", r->exact);
    event_str(&b, "assumed", r->device->assumed);
    event_end(&b, c->say);
}

static void show_ops(struct cli *c, const struct plan_row *r)
{
    struct op_time    ops[OP_COUNT];
    struct arena      s     = *c->perm;
    struct step_shape shape = { .micro = r->micro, .accumulate = r->accumulate };
    i64               count = estimate_ops(r->device, &r->variant->work, &shape, ops);
    f64               all   = 0;
    struct textbuf    b     = textbuf_new(&s);
    for (i64 i = 0; i < count; i++) all += ops[i].seconds;
    for (i64 i = 0; i < MIN(count, OPS_SHOWN); i++)
        textbuf_fmt(&b, "%s%s %.0f %%", i ? ", " : "", op_info(ops[i].op)->name,
                    100 * ops[i].seconds / all);
    say_result(c->say, "  A step of %.*s ms: %.*s.\n", STR_ARG(ms_text(&s, r->step.step_s)),
               STR_ARG(textbuf_str(&b)));
}

static void show_spot(struct cli *c, const struct question *q, const struct plan_variants *v,
                      const struct plan_row *r)
{
    struct arena    s = *c->perm, scratch = arena_part(&s, SCRATCH_BYTES);
    struct plan_row sure = *r;
    f64 off    = bill_discount(r->device->usd_h[PRICE_SPOT], r->device->usd_h[PRICE_ON_DEMAND]);
    sure.price = PRICE_ON_DEMAND;
    if (isnan(off) ||
        !plan_price(&q->workload, v, q->devices.catalogue, &q->limits, 1, &sure, scratch))
        return;
    f64        pays = risk_break_even(&r->outcome, &sure.outcome);
    struct str from = pays > 0
                          ? str_fmt(&s, "from %.1f %% off", 100 * pays)
                          : STR("even without a discount (machines taken away early are free)");
    say_result(c->say, "  Spot is %.0f %% off here and is cheaper %.*s.", 100 * off, STR_ARG(from));
    if (r->outcome.interval_s < r->work_s)
        say_result(c->say, " A save every %.0f s.", r->outcome.interval_s);
    say_result(c->say, "\n");
}

static void show_reason(struct cli *c, const struct question *q, const struct plan_variants *v,
                        const struct plan_result *p)
{
    const struct plan_row *r = &p->rows[0];
    struct arena           s = *c->perm;
    say_result(c->say, "\n");
    say_heading(c->say, "Why the first");
    say_result(
        c->say,
        "  %.*s = %.*s of work + %.*s starting + %.*s lost to saves and interruptions + %.*s "
        "storage + %.*s requests.\n",
        STR_ARG(text_dollars(&s, r->bill.total)), STR_ARG(text_dollars(&s, r->bill.useful)),
        STR_ARG(text_dollars(&s, r->bill.starting)), STR_ARG(text_dollars(&s, r->bill.lost)),
        STR_ARG(text_dollars(&s, r->bill.storage)), STR_ARG(text_dollars(&s, r->bill.requests)));
    show_ops(c, r);
    if (r->price == PRICE_SPOT) show_spot(c, q, v, r);
    if (p->count > 1) {
        const struct plan_row *next = &p->rows[1];
        f64                    more = next->bill.total - r->bill.total;
        f64                    less = r->hours - next->hours;
        say_result(c->say, "  The next, %.*s %s, costs %.*s more and finishes %.*s %s.\n",
                   STR_ARG(where(&s, next)), price_name(next->price),
                   STR_ARG(text_dollars(&s, more)), STR_ARG(hours_text(&s, fabs(less))),
                   less > 0 ? "earlier" : "later");
    }
    if (q->ours && r->gpus == 1) {
        struct str words[PLAN_WORDS_MAX];
        i64        count = plan_words(r, &s, words);
        say_result(c->say, "  frugal train %.*s", STR_ARG(q->run_file));
        for (i64 i = 0; i < count; i++) say_result(c->say, " %.*s", STR_ARG(words[i]));
        say_result(c->say, "\n");
    }
    if (r->gpus > 1)
        say_result(c->say, "  %s, which frugal does not support yet: %s.\n",
                   r->sharded ? "Sharded over its GPUs" : "A copy on each GPU",
                   r->sharded ? "use FSDP or ZeRO-3"
                              : "use torchrun or mpirun with another trainer");
}

/* Where links hold GPUs up: what would help, in dollars. */
static void show_remedies(struct cli *c, const struct question *q, const struct plan_variants *v,
                          const struct plan_row *r)
{
    struct arena         s = *c->perm, scratch = arena_part(&s, SCRATCH_BYTES);
    struct plan_row      half = *r, fewer = *r, more = *r;
    struct plan_workload longer = q->workload;
    say_result(c->say, "  %.*s: scaling efficiency on %lld GPUs: %.0f %%.", STR_ARG(where(&s, r)),
               (long long)r->gpus, 100 * r->step.efficiency);
    if (!r->sharded &&
        plan_price(&q->workload, v, q->devices.catalogue, &q->limits, 0.5, &half, scratch))
        say_result(c->say, " Gradients sent as bf16: %.*s.",
                   STR_ARG(text_dollars(&s, half.bill.total)));
    longer.batch_total *= 4;
    longer.steps = (longer.steps + 3) / 4;
    if (plan_price(&longer, v, q->devices.catalogue, &q->limits, 1, &more, scratch))
        say_result(c->say, " A four times larger batch, a quarter of the steps: %.*s.",
                   STR_ARG(text_dollars(&s, more.bill.total)));
    fewer.gpus /= 2;
    fewer.machines = MAX(1, fewer.machines / 2);
    if (plan_price(&q->workload, v, q->devices.catalogue, &q->limits, 1, &fewer, scratch))
        say_result(c->say, " Half the GPUs: %.*s in %.*s.",
                   STR_ARG(text_dollars(&s, fewer.bill.total)),
                   STR_ARG(hours_text(&s, fewer.hours)));
    say_result(c->say, "\n");
}

/* Under a deadline: spot where there is any, on-demand when behind. */
static void show_mixed(struct cli *c, const struct question *q, const struct plan_row *r)
{
    struct arena s = *c->perm, scratch = arena_part(&s, SCRATCH_BYTES);
    f64          spot = r->device->usd_h[PRICE_SPOT], list = r->device->usd_h[PRICE_ON_DEMAND];
    if (isnan(q->limits.deadline_s) || !(spot >= 0) || !(list >= 0) || q->limits.runs > 1) return;
    struct risk_mixed m   = plan_mixed(r, &q->limits, scratch);
    f64               usd = (f64)r->machines *
              (bill_estimate_usd(spot, m.spot_s) + bill_estimate_usd(list, m.on_demand_s));
    say_result(c->say,
               "  %.*s, spot while available and on-demand when late: %.*s, in time in %.0f %% "
               "of runs.\n",
               STR_ARG(where(&s, r)), STR_ARG(text_dollars(&s, usd)), 100 * m.in_time);
}

static void show_assumed(struct cli *c, const struct question *q, const struct plan_result *p)
{
    say_result(c->say, "\n");
    say_heading(c->say, "Assumed");
    for (i64 i = 0; i < q->notes.count; i++)
        say_result(c->say, "  %.*s\n", STR_ARG(q->notes.text[i]));
    if (p->rows[0].device->assumed.len)
        say_result(c->say, "  of %.*s: %.*s\n", STR_ARG(p->rows[0].device->name),
                   STR_ARG(p->rows[0].device->assumed));
    if (p->rows[0].step.guessed)
        say_result(c->say, "  half of the peak for ops that were not measured on such a machine\n");
    for (i64 i = 0; i < assumption_count; i++)
        say_result(c->say, "  %-16s %6g %-8s %s\n", assumptions[i].name, assumptions[i].value,
                   assumptions[i].unit, assumptions[i].why);
    say_result(c->say,
               "  `frugal help claims`: common figures about cost, ours, and why they differ\n");
}

static void json_rest(struct cli *c, const struct question *q)
{
    for (i64 i = 0; i < q->notes.count; i++) {
        struct arena   s = *c->perm;
        struct textbuf b = event_begin(&s, "note");
        event_str(&b, "text", q->notes.text[i]);
        event_end(&b, c->say);
    }
    for (i64 i = 0; i < assumption_count; i++) {
        struct arena   s = *c->perm;
        struct textbuf b = event_begin(&s, "assumption");
        event_str(&b, "name", str_of(assumptions[i].name));
        event_f64(&b, "value", assumptions[i].value);
        event_str(&b, "unit", str_of(assumptions[i].unit));
        event_str(&b, "why", str_of(assumptions[i].why));
        event_end(&b, c->say);
    }
}

void plan_show(struct cli *c, const struct question *q, const struct plan_variants *v,
               const struct plan_result *p)
{
    struct arena s = *c->perm;
    if (c->say->json) {
        for (i64 i = 0; i < p->count; i++) json_row(c, q, i + 1, &p->rows[i]);
        json_rest(c, q);
        return;
    }
    say_heading(c->say,
                str_z(&s, str_fmt(&s, "%.*s: %s parameters, %lld steps of %lld samples%s",
                                  STR_ARG(q->workload.name),
                                  str_z(&s, str_trim(text_si(&s, v->parameters))),
                                  (long long)q->workload.steps, (long long)q->workload.batch_total,
                                  q->limits.runs > 1 ? ", several runs" : "")));
    say_result(c->say, "%3s %10s %9s %6s %6s  %-10s %-30s %-5s %-12s %-8s %8s %8s %5s  %s\n", "",
               "dollars", "time", "taken", "in time", "market", "machine", "", "batch", "recompute",
               "memory", "step ms", "MFU", "bound by");
    for (i64 i = 0; i < MIN(p->count, SHOWN); i++) show_row(c, i + 1, &p->rows[i]);
    say_result(c->say,
               "    * a price older than %d days, or without a date: `frugal prices import` "
               "updates it\n",
               PRICE_OLD_DAYS);
    show_reason(c, q, v, p);
    show_mixed(c, q, &p->rows[0]);
    for (i64 i = 0, told = 0; i < MIN(p->count, SHOWN) && told < 2; i++) {
        if (p->rows[i].step.efficiency >= efficiency_good) continue;
        show_remedies(c, q, v, &p->rows[i]);
        told++;
    }
    show_assumed(c, q, p);
}
