/* plan_where.c - which of the catalogue's machines a plan may choose: --machine, --region, --gpus, --spot and
 * --on-demand. What leaves nothing, or contradicts itself, is an error that says which. */
#include "job/plan_question.h"

/* A machine of another cloud than --on, one that cannot be priced, or none at all. */
static enum status not_named(const struct plan_question *q, struct err *err)
{
    const struct catalogue *c     = q->devices.catalogue;
    struct str              asked = q->request->machine, cloud = q->request->cloud;
    const struct machine   *m = NULL;
    for (i64 i = 0; i < c->machine_count && !(m && str_eq(m->provider, cloud)); i++)
        if (machine_is_named(&c->machines[i], asked)) m = &c->machines[i];
    if (m && cloud.len && !str_eq(m->provider, cloud))
        return err_set(err, STATUS_USAGE, "%.*s has no machine %.*s: it is a machine of %.*s",
                       STR_ARG(cloud), STR_ARG(m->name), STR_ARG(m->provider));
    if (m)
        return err_set(err, STATUS_USAGE, "%.*s %.*s cannot be priced: %s", STR_ARG(m->provider),
                       STR_ARG(m->name), "its rates or memory are not known");
    struct str near = machine_nearest(c, asked, *q->perm);
    return err_set(err, STATUS_USAGE,
                   "the catalogue has no machine %.*s%s%.*s%s; `frugal prices` lists all",
                   (int)MIN(asked.len, 60), asked.data, near.len ? " (did you mean " : "",
                   STR_ARG(near), near.len ? "?)" : "");
}

/* named: the first machine of the request's name, of any region */
static enum status nothing_left(const struct plan_question *q, const struct machine *named,
                                bool in_region, struct err *err)
{
    const struct plan_request *r = q->request;
    if (r->machine.len && !named) return not_named(q, err);
    if (r->region.len && !in_region)
        return region_refuse(q->devices.catalogue, r->region,
                             r->machine.len ? named->provider : r->cloud, err);
    return err_set(err, STATUS_USAGE,
                   "--gpus %lld: none of the chosen machines has as many GPUs, or a network for "
                   "several of them",
                   (long long)q->limits.given.gpus);
}

static bool has_gpus(const struct device *d, i64 gpus)
{
    return !gpus || (d->row->gpus && (gpus <= d->units || d->network.net_bytes_s > 0));
}

/* The samples of a step are shared by the GPUs, and each takes its part in whole micro-batches. */
static enum status check_shares(const struct plan_question *q, struct err *err)
{
    const struct plan_given *g = &q->limits.given;
    i64 all = q->workload.batch_total, gpus = MAX(g->gpus, 1), micro = g->micro;
    if ((f64)all > PLAN_BATCH_MAX)
        return err_set(err, STATUS_USAGE, "train.batch=%lld: steps of up to %g samples are planned",
                       (long long)all, PLAN_BATCH_MAX);
    if (all % gpus)
        return err_set(err, STATUS_USAGE,
                       "--gpus %lld does not divide the %lld samples of a step evenly",
                       (long long)gpus, (long long)all);
    if (!micro || all / gpus % micro == 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.micro_batch=%lld does not divide the %lld samples of a step%s evenly",
                   (long long)micro, (long long)(all / gpus), gpus > 1 ? " on each GPU" : "");
}

/* GPUs are priced with bf16 where they have it; train.precision=fp16 asks for the other. */
static void use_fp16(struct plan_question *q)
{
    const struct plan_given *g = &q->limits.given;
    for (i64 i = 0; i < q->devices.count && g->has_precision && g->precision == DT_F16; i++)
        if (q->devices.items[i].peak_flops_s[DT_F16] > 0) q->devices.items[i].target.low = DT_F16;
}

enum status plan_where(struct plan_question *q, struct err *err)
{
    const struct plan_request *r         = q->request;
    const struct machine      *named     = NULL;
    bool                       in_region = false, known = !r->region.len;
    i64                        kept = 0, gpus = q->limits.given.gpus;
    enum status                st = check_shares(q, err);
    use_fp16(q);
    if (st || !(r->machine.len || r->region.len || gpus || r->spot || r->on_demand)) return st;
    for (i64 i = 0; i < q->devices.rented_count && !known;
         i++) { /* a price of "any" is of no region */
        const struct machine *m = q->devices.items[i].row;
        known                   = machine_is_in(m, r->region) && !str_eq(m->region, STR("any"));
    }
    for (i64 i = 0; i < q->devices.rented_count; i++) {
        const struct device *d = &q->devices.items[i];
        if (r->machine.len && !machine_is_named(d->row, r->machine)) continue;
        if (!named) named = d->row;
        if (!known || (r->region.len && !machine_is_in(d->row, r->region))) continue;
        in_region = true;
        if (has_gpus(d, gpus)) q->devices.items[kept++] = *d;
    }
    q->devices.count = q->devices.rented_count = kept;
    return kept ? STATUS_OK : nothing_left(q, named, in_region, err);
}
