/* estimate.c - rows of work times rates, and what is hidden behind what. */
#include "plan/estimate.h"
#include <math.h>
#include <stdlib.h>

static const f64 guessed_most = 0.02; /* of a step: what is worth telling */

struct parts {
    f64 forward_s, backward_s;
    f64 begin_s, flops_s, bytes_s;
    f64 guessed_s; /* of ops that nobody measured */
};

static struct rate_time row_time(const struct device *d, const struct work_row *r, f64 samples,
                                 bool *known)
{
    struct cost      c = { r->fixed.flops + samples * r->sample.flops,
                           r->fixed.bytes + samples * r->sample.bytes };
    struct rate_time t = rates_time(d->rates, &d->target, r->op, r->dtype, c, known);
    t.begin_s *= r->count;
    return t;
}

static f64 seconds(struct rate_time t) { return t.begin_s + t.flops_s + t.bytes_s; }

static void add(struct parts *p, const struct device *d, const struct work *w, f64 samples,
                f64 times)
{
    for (i64 i = 0; i < w->count; i++) {
        bool             known = true;
        struct rate_time t     = row_time(d, &w->rows[i], samples, &known);
        *(w->rows[i].backward ? &p->backward_s : &p->forward_s) += times * seconds(t);
        if (!known) p->guessed_s += times * seconds(t);
        p->begin_s += times * t.begin_s;
        p->flops_s += times * t.flops_s;
        p->bytes_s += times * t.bytes_s;
    }
}

/* Later micro-batches run a program that adds; where none was compiled it costs what the first does. */
static const struct work *later(const struct step_work *w)
{
    return w->add.count ? &w->add : &w->train;
}

struct estimate estimate_step(const struct device *d, const struct step_work *w,
                              enum dtype precision, const struct step_shape *s)
{
    struct parts p = { 0 }, update = { 0 };
    f64          micro = (f64)s->micro, k = (f64)s->accumulate;
    f64          pace = d->pace[precision] > 0 ? d->pace[precision] : 1;
    add(&p, d, &w->train, micro, pace);
    add(&p, d, later(w), micro, pace * (k - 1));
    add(&update, d, &w->update, micro, pace);
    f64             sent = w->gradient_bytes * s->gradient_part;
    struct estimate e    = { .forward_s  = p.forward_s,
                             .backward_s = p.backward_s,
                             .update_s   = update.forward_s + update.backward_s,
                             .begin_s    = p.begin_s + update.begin_s,
                             .flops_s    = p.flops_s + update.flops_s,
                             .bytes_s    = p.bytes_s + update.bytes_s,
                             .update     = { update.begin_s, update.flops_s, update.bytes_s },
                             .comm_s     = network_all_reduce_s(&d->network, sent, s->gpus) };
    /* Gradients are sent while the last micro-batch still goes backward; the last bucket is alone. */
    f64 last       = network_all_reduce_s(&d->network, MIN(sent, 1e6 * assumed_bucket_mb), s->gpus);
    f64 alone      = e.forward_s + e.backward_s + e.update_s;
    e.exposed_s    = estimate_exposed_s(d, e.comm_s, p.backward_s / k, last);
    e.rates_s      = alone / pace;
    e.guessed      = p.guessed_s + update.guessed_s > guessed_most * alone;
    e.peak_flops_s = d->peak_flops_s[precision];
    estimate_sum(d, s, &e);
    return e;
}

f64 estimate_exposed_s(const struct device *d, f64 comm_s, f64 compute_s, f64 last_s)
{
    if (!d->target.gpus) return comm_s;
    f64 alone_s = MIN(MAX(comm_s - compute_s, last_s), comm_s);
    return alone_s + assumed_comm_part * (comm_s - alone_s);
}

void estimate_sum(const struct device *d, const struct step_shape *s, struct estimate *e)
{
    f64 samples   = (f64)(s->micro * s->accumulate);
    f64 alone     = e->forward_s + e->backward_s + e->update_s;
    e->load_s     = MAX(0, s->load_sample_s * samples / d->cores - alone - e->exposed_s);
    e->step_s     = alone + e->exposed_s + e->load_s;
    e->efficiency = alone / (alone + e->exposed_s);
    e->mfu        = s->model_flops * samples / (e->step_s * e->peak_flops_s);
}

static int longest_first(const void *a, const void *b)
{
    f64 x = ((const struct op_time *)a)->seconds, y = ((const struct op_time *)b)->seconds;
    return (x < y) - (x > y);
}

static void add_ops(struct op_time *out, const struct device *d, const struct work *w, f64 samples,
                    f64 times)
{
    for (i64 i = 0; i < w->count; i++) {
        i32 op = MIN(w->rows[i].op, OP_COUNT - 1);
        out[op].seconds += times * seconds(row_time(d, &w->rows[i], samples, NULL));
    }
}

i64 estimate_ops(const struct device *d, const struct step_work *w, const struct step_shape *s,
                 f64 update_part, struct op_time out[OP_COUNT])
{
    i64 count = 0;
    for (i32 op = 0; op < OP_COUNT; op++) out[op] = (struct op_time){ .op = op };
    add_ops(out, d, &w->train, (f64)s->micro, 1);
    add_ops(out, d, later(w), (f64)s->micro, (f64)(s->accumulate - 1));
    add_ops(out, d, &w->update, (f64)s->micro, update_part);
    qsort(out, OP_COUNT, sizeof *out, longest_first);
    while (count < OP_COUNT && out[count].seconds > 0) count++;
    return count;
}

const char *estimate_bound(const struct estimate *e)
{
    f64         most = e->flops_s;
    const char *what = "arithmetic";
    if (e->bytes_s > most) most = e->bytes_s, what = "memory bandwidth";
    if (e->begin_s > most) most = e->begin_s, what = "launches";
    if (e->exposed_s > most) most = e->exposed_s, what = "communication";
    if (e->load_s > most) what = "data loading";
    return what;
}
