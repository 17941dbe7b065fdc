/* search.c - the cut of a step that fits, its bill, and the ranking. */
#include "plan/search.h"
#include "ir/collective.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES_MAX = 1 << 14, PRICED_MAX = 128, PLAYS = 1000, PLAYS_MIN = 50 };
enum {
    EXACT_COMPILES = 24
}; /* of several ranks none after so many: each number of them is a program of its own */

static const f64 interval_max_s    = 1800;
static const f64 stall_least_s     = 0.05; /* of a save, however small */
static const f64 free_most         = 0.5;  /* of the bill that machines taken early may give away */
static const f64 manifest_requests = 3;    /* of a save, beside its parts: begin, end, manifest */
static const f64 never_times       = 100;  /* of work and starting: what takes longer never ends */
static const u64 seed              = 20;   /* of the plays: the same plan for the same question */

/* --- a step --- */

static enum dtype precision_of(const struct device *d, const struct plan_variant *v)
{
    return v->low ? d->target.low : DT_F32;
}

/* Of a single rank nothing is shared out, whatever was given. */
static bool may_share(const struct plan_given *g, const struct plan_row *r)
{
    if (!sharding_can(&r->sharding, ranks_on(r->device, r->gpus))) return false;
    if (r->gpus < 2) return true;
    if (g->has_shard && r->sharding.kind != g->sharding.kind) return false;
    return !g->has_copies || r->sharding.kind == SHARD_NONE ||
           r->sharding.copies == g->sharding.copies;
}

/* Every way to cut a step and to share out the state has the same passes over a micro-batch: they are timed once. */
static struct step_shape cut_shape(const struct plan_workload *job, const struct plan_variants *v,
                                   f64 gradient_part, const struct plan_row *r)
{
    return (struct step_shape){ .micro         = r->micro,
                                .accumulate    = r->accumulate,
                                .gpus          = r->gpus,
                                .gradient_part = gradient_part,
                                .load_sample_s = job->load_sample_s,
                                .model_flops   = v->model_flops };
}

static bool fits(const struct plan_workload *job, struct plan_row *r)
{
    r->memory_bytes =
        sharding_bytes(&r->sharding, ranks_on(r->device, r->gpus), job, r->variant, (f64)r->micro);
    return r->memory_bytes <= (f64)r->device->target.memory_bytes;
}

/* `copied`: the step of ranks that hold everything. */
static void cut_time(const struct plan_workload *job, const struct step_shape *shape,
                     const struct estimate *copied, struct plan_row *r)
{
    r->step = *copied;
    sharding_apply(&r->sharding, ranks_on(r->device, r->gpus), job, r->variant, r->device, shape,
                   &r->step);
    f64 sample_s = r->step.forward_s / (f64)(r->micro * r->accumulate);
    f64 eval_s   = sample_s * (f64)job->eval_samples * (f64)job->evals / (f64)r->gpus;
    r->work_s    = r->step.step_s * (f64)job->steps + eval_s;
}

bool plan_cut(const struct plan_workload *job, const struct plan_variants *v, f64 gradient_part,
              struct plan_row *r)
{
    if (!fits(job, r)) return false;
    struct step_shape shape  = cut_shape(job, v, gradient_part, r);
    struct estimate   copied = estimate_step(r->device, &r->variant->work, r->precision, &shape);
    cut_time(job, &shape, &copied, r);
    return true;
}

/* The fastest of the ways to share out the state that may be chosen, for one micro-batch; of equals the simplest. */
static bool best_sharding(const struct plan_workload *job, const struct plan_variants *v,
                          const struct plan_given *g, struct plan_row *r)
{
    struct step_shape shape = cut_shape(job, v, 1, r);
    struct estimate   copied;
    struct plan_row   best  = *r;
    bool              found = false, timed = false;
    for (i64 i = 0; i < SHARDINGS; i++) {
        struct plan_row now = *r;
        now.sharding        = shardings[i];
        if (!may_share(g, &now)) continue;
        if (!fits(job, &now)) {
            if (!found && (best.memory_bytes <= 0 || now.memory_bytes < best.memory_bytes))
                best = now;
            continue;
        }
        if (!timed) copied = estimate_step(r->device, &r->variant->work, r->precision, &shape);
        timed = true;
        cut_time(job, &shape, &copied, &now);
        if (found && now.work_s >= best.work_s) continue;
        best  = now;
        found = true;
    }
    *r = best;
    return found;
}

/* The smallest above `last` that divides `whole`; 0: there is none. Beyond the root they are the quotients by those
 * below, so that a step may have any number of samples. */
static i64 next_divisor(i64 whole, i64 last)
{
    i64 d = last + 1;
    for (; d <= whole / d; d++)
        if (whole % d == 0) return d;
    for (i64 q = whole / d; q; q--)
        if (whole % q == 0) return whole / q;
    return 0;
}

/* The fastest micro-batch that fits: one that divides what a GPU gets of a step, or that which was given. Where none
 * does, `r` has the memory that the smallest needs. */
static bool best_cut(const struct plan_workload *job, const struct plan_variants *v,
                     const struct plan_given *g, struct plan_row *r)
{
    i64             each  = job->batch_total / r->gpus;
    struct plan_row best  = *r;
    bool            found = false;
    for (i64 parts = 1; parts; parts = next_divisor(each, parts)) {
        struct plan_row now = *r;
        now.memory_bytes    = 0;
        now.micro           = each / parts;
        now.accumulate      = parts;
        if (g->micro && now.micro != g->micro) continue;
        if (!best_sharding(job, v, g, &now)) {
            if (!found) best = now;
            continue;
        }
        if (found && now.work_s >= best.work_s) continue;
        best  = now;
        found = true;
    }
    *r = best;
    return found;
}

/* --- a bill --- */

static i64 rounds_of(const struct plan_row *r, i64 runs)
{
    return (runs + r->side_by_side - 1) / r->side_by_side;
}

/* One spot machine dies young. Of several a lost one is replaced while the others stay, so their ages
 * mix and something happens n times as often at any time. */
static struct hazard hazard_of(const struct plan_row *r, const struct plan_limits *l)
{
    struct hazard prior = hazard_of_mean(3600 * assumed_spot_mean_h, hazard_prior.shape);
    struct hazard given = hazard_of_mean(3600 * l->given.spot_mean_h, hazard_prior.shape);
    struct hazard spot  = l->given.spot_mean_h > 0      ? given
                          : r->device->spot.scale_s > 0 ? r->device->spot
                          : l->spot.scale_s > 0         ? l->spot
                                                        : prior;
    f64           gpus  = (f64)(r->machines * r->device->units);
    if (r->price != PRICE_SPOT) return (struct hazard){ 1, 3600 * assumed_fault_h / gpus };
    if (r->machines == 1) return spot;
    return (struct hazard){ 1, hazard_mean_s(spot) / (f64)r->machines };
}

static struct risk_job risk_of(const struct plan_row *r, const struct plan_limits *l)
{
    f64             saved = r->variant->work.saved_bytes, copy = r->device->copy_bytes_s;
    f64             rate = copy > 0 ? copy : r->device->target.bandwidth_bytes_s / 2;
    f64             net = r->device->network.net_bytes_s, upload = 1e9 * assumed_upload_gb_s;
    f64             up   = net > 0 ? MIN(upload, net) : upload;
    f64             boot = r->device->boot_s > 0 ? r->device->boot_s : assumed_boot_s;
    f64             warm = r->device->warm_s > 0 ? r->device->warm_s : assumed_warm_s;
    struct risk_job j    = { .work_s     = r->work_s,
                             .start_s    = (r->device->row ? boot : 0) + warm + saved / up,
                             .wait_s     = r->price == PRICE_SPOT ? assumed_spot_wait_s : 0,
                             .interval_s = l->given.save_every_s };
    f64             stall =
        sharding_saved_bytes(&r->sharding, ranks_on(r->device, r->gpus), &r->variant->work) / rate;
    j.save = (struct save_costs){ .stall_s        = MAX(stall, stall_least_s),
                                  .persist_s      = saved / up,
                                  .interval_max_s = interval_max_s };
    /* Of several machines only the one that is taken may be free: left out. */
    if (r->price == PRICE_SPOT && r->machines == 1 && r->device->billing.free_interrupted_s > 0)
        j.free_s = r->device->billing.free_interrupted_s;
    return j;
}

/* Of one run's checkpoints; nothing where the provider keeps none, or nobody knows at what price. */
static void price_checkpoints(struct plan_row *r, const struct catalogue *c, f64 seconds)
{
    const struct device  *d     = r->device;
    const struct storage *s     = d->row ? catalogue_storage(c, d->row->provider, STR("")) : NULL;
    f64                   bytes = r->variant->work.saved_bytes, runs = (f64)r->side_by_side;
    f64                   saves = floor(r->work_s / r->outcome.interval_s);
    if (!s) return;
    struct store_price price = store_price_of(s);
    f64                puts  = saves * (ceil(bytes / (1e6 * assumed_part_mb)) + manifest_requests);
    f64                kept  = bill_storage_usd(&price, assumed_keep * bytes, seconds / 86400);
    f64                asked = bill_put_usd(&price, puts);
    r->bill.storage          = kept > 0 ? kept * runs : 0;
    r->bill.requests         = asked > 0 ? asked * runs : 0;
}

/* Rounds of runs side by side, on all machines; whole units of the provider's clock. */
static void bill(struct plan_row *r, const struct catalogue *c, i64 runs, f64 starting_s)
{
    i64                        rounds = rounds_of(r, runs);
    const struct risk_outcome *o      = &r->outcome;
    f64                        rate   = bill_estimate_usd(r->device->usd_h[r->price],
                                                          (f64)(r->machines * rounds)); /* of a second */
    f64                        billed = billed_seconds(&r->device->billing, o->billed_s, false);
    f64 scale        = o->up_s > 0 ? billed / o->up_s : 0; /* what was given away, and rounded up */
    r->hours         = o->wall_s * (f64)rounds / 3600;
    r->billed_h      = billed * (f64)rounds / 3600;
    r->bill.useful   = rate * scale * r->work_s;
    r->bill.starting = rate * scale * MIN(starting_s, o->up_s - r->work_s);
    r->bill.lost     = MAX(rate * billed - r->bill.useful - r->bill.starting, 0);
    price_checkpoints(r, c, o->wall_s * (f64)rounds);
    r->bill.requests *= (f64)rounds;
    r->bill.total =
        r->bill.useful + r->bill.lost + r->bill.starting + r->bill.storage + r->bill.requests;
}

static void price(struct plan_row *r, const struct catalogue *c, const struct plan_limits *l,
                  struct arena scratch)
{
    struct survival s = survival_of_law(hazard_of(r, l));
    struct risk_job j = risk_of(r, l);
    r->outcome        = risk_expect(&j, &s, scratch);
    bill(r, c, l->runs, (1 + r->outcome.interruptions) * survival_lived_s(&s, j.start_s));
    r->in_time = NAN;
}

/* Many spot machines, or a large state: one of them is gone before anything was saved. */
static bool ends(const struct plan_row *r, const struct plan_limits *l)
{
    struct risk_job j = risk_of(r, l);
    return r->outcome.wall_s < never_times * (r->work_s + j.start_s + j.wait_s);
}

static void play(struct plan_row *r, const struct plan_limits *l, struct arena scratch)
{
    struct survival s          = survival_of_law(hazard_of(r, l));
    struct risk_job j          = risk_of(r, l);
    f64             deadline_s = l->deadline_s / (f64)rounds_of(r, l->runs);
    i64 plays = PLAYS / (1 + (i64)r->outcome.interruptions / 20); /* longer ones vary less */
    if (l->deadline_s > 0)
        r->in_time = risk_play(&j, &s, deadline_s, MAX(plays, PLAYS_MIN), seed, scratch).in_time;
}

bool plan_price(const struct plan_workload *job, const struct plan_variants *v,
                const struct catalogue *c, const struct plan_limits *limits, f64 gradient_part,
                struct plan_row *row, struct arena scratch)
{
    if (row->gpus > job->batch_total || job->batch_total % row->gpus) return false;
    bool fits = gradient_part < 1 ? plan_cut(job, v, gradient_part, row)
                                  : best_cut(job, v, &limits->given, row);
    if (!fits) return false;
    price(row, c, limits, scratch);
    return ends(row, limits);
}

struct risk_mixed plan_mixed(const struct plan_row *row, const struct plan_limits *limits,
                             struct arena scratch)
{
    struct plan_row r = *row;
    r.price           = PRICE_SPOT;
    struct survival s = survival_of_law(hazard_of(&r, limits));
    struct risk_job j = risk_of(&r, limits);
    return risk_play_mixed(&j, &s, limits->deadline_s, PLAYS_MIN, seed, scratch);
}

/* --- all ways --- */

struct ranked {
    f64             usd; /* the bill is never less */
    struct plan_row row;
};

struct candidates {
    const struct plan_workload *job;
    const struct plan_variants *v;
    const struct plan_limits   *limits;
    struct plan_result         *out;
    struct ranked              *ranked;
    i64                         count;
};

static f64 least_usd(const struct plan_row *r, i64 runs)
{
    bool gifts = r->price == PRICE_SPOT && r->machines == 1;
    f64  all_s = r->work_s * (f64)(r->machines * rounds_of(r, runs));
    return bill_estimate_usd(r->device->usd_h[r->price], all_s) * (gifts ? free_most : 1);
}

static bool is_given(const struct plan_given *g, const struct plan_row *r)
{
    if (g->has_precision && r->precision != g->precision) return false;
    return !g->has_recompute || r->variant->recompute.kind == g->recompute;
}

static f64 fill(const struct plan_row *r) /* of a GPU's memory; above 1: too large */
{
    return r->memory_bytes / (f64)r->device->target.memory_bytes;
}

/* One that does not fit: remembered if it is nearer to that than all before. */
static void note_large(struct plan_result *out, const struct plan_row *r)
{
    if (!(r->memory_bytes > 0)) return;
    if (out->nearest_short == SHORT_MEMORY && fill(r) >= fill(&out->nearest)) return;
    out->nearest       = *r;
    out->nearest_short = SHORT_MEMORY;
}

/* The best precision, recomputing and sharding of this many GPUs. */
static bool best_way(struct candidates *k, const struct device *d, i64 machines, i64 gpus,
                     struct plan_row *best)
{
    bool found = false;
    i64  side  = MIN(k->limits->runs, machines * d->units / gpus);
    for (i64 i = 0; i < PLAN_VARIANTS; i++) {
        const struct plan_variant *v = &k->v->of[plan_kind_of(&d->target)][i];
        struct plan_row            r = { .device       = d,
                                         .machines     = machines,
                                         .gpus         = gpus,
                                         .side_by_side = side,
                                         .variant      = v,
                                         .precision    = precision_of(d, v) };
        if (v->low && r.precision == DT_F32) continue; /* nothing is gained by it here */
        if (!is_given(&k->limits->given, &r)) continue;
        k->out->considered++;
        if (!best_cut(k->job, k->v, &k->limits->given, &r)) {
            note_large(k->out, &r);
            continue;
        }
        if (found && r.work_s >= best->work_s) continue;
        *best = r;
        found = true;
    }
    return found;
}

/* A row for each market. */
static void add_way(struct candidates *k, const struct device *d, i64 machines, i64 gpus)
{
    struct plan_row best    = { 0 };
    u32             markets = k->limits->given.markets;
    i64             tried   = k->out->considered;
    if (!best_way(k, d, machines, gpus, &best)) {
        *(k->out->considered > tried ? &k->out->too_large : &k->out->unable) += 1;
        return;
    }
    for (i32 p = 0; p < PRICE_COUNT && k->count < CANDIDATES_MAX; p++) {
        best.price = (enum price)p;
        if (p == PRICE_RESERVED_1Y || p == PRICE_RESERVED_3Y || !(d->usd_h[p] >= 0)) continue;
        if (markets && !(markets >> p & 1)) continue;
        k->ranked[k->count++] = (struct ranked){ least_usd(&best, k->limits->runs), best };
    }
}

static bool is_priced(const struct device *d, const struct plan_given *g)
{
    for (i32 p = 0; p < PRICE_COUNT; p++)
        if (d->usd_h[p] >= 0 && (!g->markets || g->markets >> p & 1)) return true;
    return false;
}

/* So many GPUs for a run, on as few machines as have them. */
static void add_gpus(struct candidates *k, const struct device *d, i64 gpus)
{
    i64 machines = (gpus + d->units - 1) / d->units;
    if (machines > 1 && !(d->network.net_bytes_s > 0)) return;
    if (k->job->batch_total % gpus == 0) add_way(k, d, machines, gpus);
}

/* One machine with 1, 2, 4 … of its GPUs for a run, then more and more whole ones. */
static void add_device(struct candidates *k, const struct device *d)
{
    if (!is_priced(d, &k->limits->given)) {
        k->out->no_price++;
        return;
    }
    if (k->limits->given.gpus) {
        add_gpus(k, d, k->limits->given.gpus);
        return;
    }
    for (i64 machines = 1; machines * d->units <= PLAN_GPUS_MAX; machines *= 2) {
        bool linked = d->network.net_bytes_s > 0; /* else nobody knows what they lose */
        if (machines > 1 && !linked) break;
        for (i64 gpus = 1; gpus <= machines * d->units; gpus *= 2) {
            bool whole = gpus > (machines - 1) * d->units; /* else fewer machines would do */
            if (machines > 1 && !whole) continue;
            k->out->too_few += gpus > k->job->batch_total;
            if (gpus > k->job->batch_total || k->job->batch_total % gpus) continue;
            add_way(k, d, machines, gpus);
        }
    }
}

static int by_least(const void *a, const void *b)
{
    f64 x = ((const struct ranked *)a)->usd, y = ((const struct ranked *)b)->usd;
    return (x > y) - (x < y);
}

static int by_total(const void *a, const void *b)
{
    const struct plan_row *x = a, *y = b;
    f64                    p = x->bill.total, q = y->bill.total;
    return p != q ? (p > q) - (p < q) : (x->hours > y->hours) - (x->hours < y->hours);
}

/* Of one machine at one price only the cheapest way is shown, and faster ones. */
static bool told_already(const struct plan_result *r, const struct plan_row *row)
{
    for (i64 i = 0; i < r->count; i++) {
        const struct plan_row *old = &r->rows[i];
        if (old->device == row->device && old->price == row->price && old->hours <= row->hours)
            return true;
    }
    return false;
}

/* Of what frugal itself would run: compiled as it would be. The line may have promised too much: then
 * the next smaller micro-batch is tried, unless one was given. False: not even one sample fits. */
static bool lay_out(const struct candidates *k, struct plan_row *r, struct arena scratch)
{
    const struct plan_workload *job  = k->job;
    i64                         each = r->micro * r->accumulate;
    if (job->deeper || r->gpus > RANKS_MAX) return true; /* another program's memory */
    if (r->gpus > 1 && k->out->exact.compiles >= EXACT_COMPILES) return true;
    struct ranks_at   at = ranks_on(r->device, r->gpus);
    struct plan_ranks of = { r->gpus, sharding_places(&r->sharding, at), r->sharding.kind };
    if (!of.shard) of.places = r->gpus;
    while (r->micro) {
        i64 bytes = plan_exact_bytes(&k->out->exact, job, r->variant, &r->device->target, of,
                                     r->micro, r->accumulate, scratch);
        r->exact  = bytes >= 0;
        if (!r->exact) return true;
        r->memory_bytes = (f64)bytes;
        if (bytes <= r->device->target.memory_bytes) return true;
        i64 parts     = k->limits->given.micro ? 0 : next_divisor(each, r->accumulate);
        r->micro      = parts ? each / parts : 0;
        r->accumulate = parts;
        if (parts && !plan_cut(job, k->v, 1, r)) return false;
    }
    return false;
}

/* One that was priced and breaks a limit: a late one is remembered by its hours, a dear one by its dollars. */
static void note_beyond(struct plan_result *out, const struct plan_row *r, enum plan_short lacks)
{
    const struct plan_row *n = &out->nearest;
    bool near = lacks == SHORT_TIME ? r->hours < n->hours : r->bill.total < n->bill.total;
    if (out->nearest_short > lacks || (out->nearest_short == lacks && !near)) return;
    out->nearest       = *r;
    out->nearest_short = lacks;
}

static bool allowed(const struct plan_row *r, const struct plan_limits *l, struct plan_result *out)
{
    bool late = l->deadline_s > 0 && !(r->hours * 3600 <= l->deadline_s);
    bool dear = l->budget_usd > 0 && r->bill.total > l->budget_usd;
    out->too_late += late;
    out->too_dear += dear && !late;
    if (late || dear) note_beyond(out, r, late ? SHORT_TIME : SHORT_MONEY);
    return !late && !dear;
}

static f64 all_work_s(const struct plan_row *r, i64 runs)
{
    return r->work_s * (f64)rounds_of(r, runs);
}

/* The quickest of those that even undisturbed would be too late; of equals one that nobody takes away. */
static void note_late(struct candidates *k, const struct catalogue *c, struct arena scratch)
{
    const struct plan_row *best = NULL;
    i64                    runs = k->limits->runs;
    if (k->out->nearest_short >= SHORT_TIME) return;
    for (i64 i = 0; i < k->count; i++) {
        const struct plan_row *r    = &k->ranked[i].row;
        f64                    more = best ? all_work_s(r, runs) - all_work_s(best, runs) : -1;
        if (more < 0 || (more == 0 && best->price == PRICE_SPOT)) best = r;
    }
    if (!best) return;
    struct plan_row row = *best;
    price(&row, c, k->limits, scratch);
    if (ends(&row, k->limits)) note_beyond(k->out, &row, SHORT_TIME);
}

void plan_search(const struct plan_workload *job, const struct plan_variants *v,
                 const struct device *devices, i64 device_count, const struct catalogue *c,
                 const struct plan_limits *limits, struct plan_result *out, struct arena scratch)
{
    struct candidates k = { .job = job, .v = v, .limits = limits, .out = out };
    k.ranked            = NEW(&scratch, struct ranked, CANDIDATES_MAX);
    *out                = (struct plan_result){ .exact = out->exact };
    for (i64 i = 0; i < device_count; i++) add_device(&k, &devices[i]);
    qsort(k.ranked, (size_t)k.count, sizeof *k.ranked, by_least);
    struct plan_row *priced = NEW(&scratch, struct plan_row, PRICED_MAX);
    i64              count  = 0;
    for (i64 i = 0; i < k.count && count < PRICED_MAX; i++) {
        struct plan_row r = k.ranked[i].row;
        f64             s = r.work_s * (f64)rounds_of(&r, limits->runs);
        if (limits->deadline_s > 0 && s > limits->deadline_s) { /* even undisturbed */
            out->too_late++;
            continue;
        }
        if (!lay_out(&k, &r, scratch)) {
            out->too_large++;
            continue;
        }
        price(&r, c, limits, scratch);
        if (!ends(&r, limits)) out->never++;
        else if (allowed(&r, limits, out)) priced[count++] = r;
    }
    if (!count && out->too_late) note_late(&k, c, scratch);
    qsort(priced, (size_t)count, sizeof *priced, by_total);
    for (i64 i = 0; i < count && out->count < PLAN_ROWS_MAX; i++) {
        if (told_already(out, &priced[i])) continue;
        play(&priced[i], limits, scratch);
        out->rows[out->count++] = priced[i];
    }
}
