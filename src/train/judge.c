/* judge.c - what is known of a run while it goes on and when it has ended, for run/verdict.h to judge. */
#include "train/checkpoint_schedule.h"
#include <math.h>

/* Rates are measured for runs of which that is less than a hundredth. */
static const i64 rated_after_ns = 5000000000;

/* It takes a tenth of a second, and more where others use the cores too. */
static const f64 rating_s = 0.5;

struct lookout *judge_begin(struct session *s)
{
    struct lookout_config c = { .os     = s->os,
                                .bus_id = s->target.bus_id,
                                .cores  = MAX(s->target.threads, 1) };
    struct lookout       *l = lookout_new(s->perm, &c);
    lookout_start(l, NULL); /* without its thread it sees the beginning and the end */
    return l;
}

static struct cost step_cost(const struct session *s)
{
    static const enum program_id ids[]   = { PROGRAM_TRAIN, PROGRAM_ADD, PROGRAM_UPDATE };
    f64                          times[] = { 1, (f64)(MAX(s->config.accumulate, 1) - 1), 1 };
    struct cost                  sum     = { 0 };
    for (i64 i = 0; i < COUNT_OF(ids); i++) {
        const struct program *p = program_typical(s->set, ids[i]);
        struct cost           c = p ? program_cost(p, s->scratch) : (struct cost){ 0 };
        sum.flops += times[i] * c.flops;
        sum.bytes += times[i] * c.bytes;
    }
    return sum;
}

void judge_rate(struct session *s, struct judged_rates *r, const struct stop *stop)
{
    struct step_split split = clock_split(s->clock);
    if (r->known || split_sum(&split) < rated_after_ns || !stop_save_fits(stop, rating_s)) return;
    r->target = s->target;
    if (s->backend->table->rate) s->backend->table->rate(s->backend, &r->target);
    r->known = true;
}

f64 peak_measured(const struct session *s, const struct judged_rates *r)
{
    f64 peak = r->known ? r->target.flops_s[s->precision.dtype] : 0;
    return peak > 0 ? peak : NAN;
}

static void add_rates(struct session *s, const struct judged_rates *rates, struct evidence *e)
{
    enum dtype now = s->precision.dtype, low = s->target.low;
    i64 ns = e->split.ns[PART_compute] + e->split.ns[PART_forward] + e->split.ns[PART_backward] +
             e->split.ns[PART_update];
    e->flops_part = e->bandwidth_part = e->low_speedup = NAN;
    if (!rates->known || !ns) return;
    const struct target *t     = &rates->target;
    struct cost          c     = step_cost(s);
    f64                  per_s = (f64)e->steps / ((f64)ns * 1e-9);
    if (t->flops_s[now] > 0) e->flops_part = c.flops * per_s / t->flops_s[now];
    if (t->bandwidth_bytes_s > 0) e->bandwidth_part = c.bytes * per_s / t->bandwidth_bytes_s;
    if (now == DT_F32 && low != DT_F32 && t->flops_s[now] > 0) {
        e->low_speedup = t->flops_s[low] / t->flops_s[now];
        e->low         = precision_name(low);
    }
}

/* What does not grow with the batch is counted as if it did: so many fit in any case. */
static i64 batch_that_fits(const struct session *s)
{
    f64 times = (f64)s->target.memory_bytes / (f64)MAX(s->set->arena_bytes, 1);
    return (i64)MIN((f64)s->config.batch * times, (f64)dataset_count(s->data, SPLIT_TRAIN));
}

static bool is_remote(struct str path)
{
    return str_starts(path, STR("http://")) || str_starts(path, STR("https://")) ||
           str_starts(path, STR("s3://")) || str_starts(path, STR("gs://"));
}

/* What the process holds beside the plan's memory is the loader's, but for little. */
static void add_loader(const struct session *s, const struct loader_stats *stats,
                       struct evidence *e)
{
    e->remote = is_remote(s->settings->data.path);
    f64 arena_bytes =
        s->target.bus_id.len ? 0 : (f64)s->set->arena_bytes; /* on a GPU it is not here */
    e->read_s    = (f64)stats->stage[STAGE_READ].busy_ns * 1e-9;
    e->decode_s  = (f64)stats->stage[STAGE_DECODE].busy_ns * 1e-9;
    e->augment_s = (f64)stats->stage[STAGE_AUGMENT].busy_ns * 1e-9;
    for (i64 i = 0; i < STAGE_COUNT; i++) e->workers = MAX(e->workers, stats->stage[i].workers);
    for (i64 i = 0; i < s->settings->loader.workers_count; i++)
        e->workers_fixed |= s->settings->loader.workers[i] > 0;
    e->prefetch = stats->prefetch;
    if (e->workers) e->worker_bytes = MAX(e->load.own_bytes - arena_bytes, 0) / (f64)e->workers;
}

struct evidence judge_run(struct session *s, struct lookout_seen seen,
                          const struct judged_rates *rates, const struct saving *v,
                          const struct loader_stats *loaded, struct judged_counts counts)
{
    const struct train_config *t = &s->settings->train;
    struct evidence            e = { .split      = clock_split(s->clock),
                                     .steps      = counts.steps,
                                     .batch      = s->config.batch,
                                     .accumulate = MAX(s->config.accumulate, 1),
                                     .batch_fits = batch_that_fits(s),
                                     .saves      = v->figures.count,
                                     .saves_auto = v->cadence.unit == EVERY_AUTO,
                                     .saving_s   = v->figures.total_s,
                                     .hazard     = v->facts.hazard,
                                     .eval_count = counts.evaluations,
                                     .eval_every = t->eval_every ? t->eval_every : counts.epoch_steps,
                                     .log_every = t->log_every,
                                     .threads   = s->target.bus_id.len ? 0 : s->target.threads,
                                     .load      = seen.load,
                                     .usage     = seen.usage };
    e.split.ns[PART_fill]        = 0; /* start-up, and no sign of slow data */
    add_rates(s, rates, &e);
    add_loader(s, loaded, &e);
    return e;
}
