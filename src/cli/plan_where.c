/* plan_where.c - which of the catalogue's machines a plan may choose: --machine, --region, --gpus, --spot and
 * --on-demand. What leaves nothing, or contradicts itself, is an error that says which. */
#include "cli/plan.h"
#include <math.h>

/* us is all of us-east-1 and so on, and a row of us stands for each of them; some clouds have one price. */
static bool is_in(const struct machine *m, struct str region)
{
    struct str a = m->region, b = region;
    if (str_eq(a, b) || str_eq(a, STR("any"))) return true;
    if (a.len > b.len) return str_starts(a, b) && a.data[b.len] == '-';
    return str_starts(b, a) && b.len > a.len && b.data[a.len] == '-';
}

static enum status nothing_left(struct cli *c, const struct question *q, bool named, bool in_region,
                                struct err *err)
{
    const struct request *r       = c->request;
    struct str            machine = r->value[FLAG_INDEX_machine];
    struct str            near    = machine_nearest(q->devices.catalogue, machine, *c->perm);
    if (r->flags & FLAG_machine && !named)
        return err_set(err, STATUS_USAGE,
                       "the catalogue has no machine %.*s%s%.*s%s; `frugal prices` lists all",
                       (int)MIN(machine.len, 60), machine.data, near.len ? " (did you mean " : "",
                       STR_ARG(near), near.len ? "?)" : "");
    if (r->flags & FLAG_region && !in_region)
        return err_set(err, STATUS_USAGE,
                       "--region %.*s: the catalogue has no price there%s; `frugal prices import` "
                       "adds regions",
                       (int)MIN(r->value[FLAG_INDEX_region].len, 40),
                       r->value[FLAG_INDEX_region].data,
                       r->flags & FLAG_machine ? " of that machine" : "");
    return err_set(err, STATUS_USAGE,
                   "--gpus %lld: no such machine has GPUs that can work together",
                   (long long)q->limits.given.gpus);
}

static bool has_gpus(const struct device *d, i64 gpus)
{
    return !gpus || (d->row->gpus && (gpus <= d->units || d->network.net_bytes_s > 0));
}

enum status plan_where(struct cli *c, struct question *q, struct err *err)
{
    const struct request *r     = c->request;
    bool                  named = false, in_region = false;
    const u64 limits = FLAG_machine | FLAG_region | FLAG_gpus | FLAG_spot | FLAG_on_demand;
    i64       kept = 0, gpus = q->limits.given.gpus;
    if (!(r->flags & limits)) return STATUS_OK;
    if (gpus && q->workload.batch_total % gpus)
        return err_set(err, STATUS_USAGE,
                       "--gpus %lld does not divide the %lld samples of a step evenly",
                       (long long)gpus, (long long)q->workload.batch_total);
    for (i64 i = 0; i < q->devices.rented_count; i++) {
        const struct device *d = &q->devices.items[i];
        if (r->flags & FLAG_machine && !machine_is_named(d->row, r->value[FLAG_INDEX_machine]))
            continue;
        named = true;
        if (r->flags & FLAG_region && !is_in(d->row, r->value[FLAG_INDEX_region])) continue;
        in_region = true;
        if (has_gpus(d, gpus)) q->devices.items[kept++] = *d;
    }
    q->devices.count = q->devices.rented_count = kept;
    return kept ? STATUS_OK : nothing_left(c, q, named, in_region, err);
}
