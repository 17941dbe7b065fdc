/* budget.c - a budget in FLOPs. */
#include "plan/budget.h"
#include <math.h>

enum { RESAMPLES = 200 };
static const f64 mfu_usual = 0.40; /* Llama 3 report: 38 to 43 % */
/* The laws were fitted to runs from 1.4e18 FLOPs on (Hoffmann's 245 points); a thousandth of that is the least
 * that they are asked for. */
static const f64 flops_least = 1e15, flops_fitted = 1.4e18;

static enum status find_machine(const struct catalogue *k, struct str name, struct arena scratch,
                                const struct machine **out, struct err *err)
{
    *out = NULL;
    if (!name.len)
        return err_set(err, STATUS_USAGE,
                       "hours and dollars of which machine? Give --machine NAME");
    for (i64 i = 0; i < k->machine_count && !*out; i++)
        if (machine_is_named(&k->machines[i], name)) *out = &k->machines[i];
    if (*out && (*out)->gpus) return STATUS_OK;
    struct str near = machine_nearest(k, name, scratch);
    bool       slip = !*out && near.len;
    return err_set(err, STATUS_USAGE,
                   "the catalogue has no machine %.*s with GPUs%s%.*s%s; `frugal prices` lists all",
                   (int)MIN(name.len, 60), name.data, slip ? " (did you mean " : "",
                   slip ? (int)near.len : 0, near.data ? near.data : "", slip ? "?)" : "");
}

static f64 usd_hour_of(const struct machine *m, bool spot)
{
    if (spot) return m->spot_usd_h;
    return isnan(m->own_usd_h) ? m->on_demand_usd_h : m->own_usd_h;
}

/* The digits of 1e21, 100h or $5000. */
static enum status read_text(struct str text, f64 *value, bool *dollars, bool *hours,
                             struct err *err)
{
    *dollars = str_starts(text, STR("$")), *hours = str_ends(text, STR("h"));
    if (str_f64(str_sub(text, *dollars, text.len - *hours), value) && *value > 0 &&
        !(*dollars && *hours))
        return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "\"%.*s\" is not a budget; write 1e21 (FLOPs), 100h or '$5000'",
                   (int)MIN(text.len, 40), text.data);
}

enum status budget_read(struct os *os, const struct budget_request *r, struct arena *perm,
                        struct budget *out, struct err *err)
{
    struct catalogue *k;
    bool              dollars, hours;
    f64               value;
    *out           = (struct budget){ 0 };
    enum status st = read_text(r->text, &value, &dollars, &hours, err);
    if (st) return st;
    if (!dollars && !hours) {
        out->flops = value;
        if (r->machine.len || r->prices.len || r->spot || !isnan(r->mfu))
            return err_set(err, STATUS_USAGE,
                           "%.*s is a number of FLOPs, for which no machine is needed: leave out "
                           "--machine, --mfu, --spot and --prices, or write '$%.*s' or %.*sh",
                           STR_ARG(r->text), STR_ARG(r->text), STR_ARG(r->text));
        return STATUS_OK;
    }
    st = catalogue_open(os, perm, r->prices, &k, err);
    if (!st) st = find_machine(k, r->machine, *perm, &out->machine, err);
    if (st) return st;
    const struct machine *m = out->machine;
    const struct gpu     *g = catalogue_gpu(k, m->gpu);
    f64 peak    = isnan(g->bf16_dense_tflops) ? g->fp16_dense_tflops : g->bf16_dense_tflops;
    out->mfu    = isnan(r->mfu) ? mfu_usual : r->mfu;
    out->usd_h  = usd_hour_of(m, r->spot);
    f64 flops_s = m->gpus * peak * 1e12 * out->mfu;
    out->hours  = dollars ? bill_hours(out->usd_h, value) : value;
    out->flops  = dollars ? budget_flops_dollars(value, out->usd_h, flops_s)
                          : budget_flops_hours(value, flops_s);
    if (!isnan(out->flops)) return STATUS_OK;
    return err_set(err, STATUS_NO,
                   "the catalogue has no such price for %.*s; see `frugal prices %.*s`",
                   STR_ARG(m->name), STR_ARG(m->name));
}

enum status budget_check(const struct budget_request *r, const struct budget *b, struct err *err)
{
    if (b->flops >= flops_least) return STATUS_OK;
    if (b->machine)
        return err_set(
            err, STATUS_USAGE,
            "%.*s buys %.3g FLOPs, too few for a scaling law: they were fitted from %.2g FLOPs on",
            STR_ARG(r->text), b->flops, flops_fitted);
    return err_set(
        err, STATUS_USAGE,
        "%.*s FLOPs are too few for a scaling law: they were fitted from %.2g FLOPs on; for "
        "dollars write '$%.*s', for hours %.*sh, with --machine",
        STR_ARG(r->text), flops_fitted, STR_ARG(r->text), STR_ARG(r->text));
}

enum status law_read(struct os *os, struct str path, struct arena *perm, struct fitted_law *out,
                     i64 *count, struct err *err)
{
    struct run_point *points;
    struct str        text;
    enum status       st = os_read_all(os, path, perm, &text, err);
    if (!st) st = law_points_read(path, text, perm, &points, count, err);
    if (!st) st = law_fit(points, *count, RESAMPLES, 1, *perm, out, err);
    if (!st) out->law.name = STR("your runs");
    return st;
}
