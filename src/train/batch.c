/* batch.c - how many samples are computed at once, and how many times a step.
 *
 * train.batch=auto needs no trial run: the plan of memory grows by the same bytes with every
 * sample, so two plans give the line, the budget a point on it, and another plan the proof. From
 * the largest batch that fits it then halves while a sample takes hardly longer by the machine's
 * rates: a batch beyond that costs memory, and learning, and gains nothing. */
#include "train/train_int.h"
#include <math.h>

static const f64 pays = 1.02;        /* a sample may take so much longer in half the batch */
enum { SAMPLE = 8, PLANS_MAX = 16 }; /* batch of the first plan; plans along the line */

struct plan {
    i64 bytes;
    f64 sample_s;
};

struct chooser {
    struct session       *s;
    struct compile_config config;
    i64                   total; /* samples of a step that the batch must divide; 0: any */
    i64                   most;  /* samples there are, or of a step */
};

static enum status plan_for(struct chooser *c, i64 batch, struct plan *out, struct err *err)
{
    struct run_plan all;
    c->config.batch = batch;
    enum status st  = plan_of(c->s, &c->config, &all, err);
    bool one = c->config.accumulate <= 1; /* batch a step; of many nearly all add gradients */
    f64  s =
        one ? all.seconds[PROGRAM_TRAIN] + all.seconds[PROGRAM_UPDATE] : all.seconds[PROGRAM_ADD];
    *out = (struct plan){ .sample_s = s / (f64)batch };
    for (i32 id = 0; id < PROGRAM_COUNT; id++) out->bytes = MAX(out->bytes, all.bytes[id]);
    return st;
}

/* The largest batch of at most `batch` that may be asked for: a divisor of the step. */
static i64 allowed(const struct chooser *c, i64 batch)
{
    batch = MIN(batch, c->most);
    while (c->total && batch > 1 && c->total % batch) batch--;
    return MAX(batch, 1);
}

/* The largest batch that fits, within a sixty-fourth: along the line to where the budget lies, and
 * again from there, because packing and workspaces bend the line; by halving where it leads astray. */
static enum status largest(struct chooser *c, i64 *fits, struct err *err)
{
    i64         budget = c->s->target.memory_bytes, low = 0, high = c->most + 1;
    i64         at = MIN(SAMPLE, c->most);
    struct plan plan, twice;
    enum status st = plan_for(c, 2 * at, &twice, err);
    if (!st) st = plan_for(c, at, &plan, err);
    if (st) return st;
    f64 each = (f64)MAX((twice.bytes - plan.bytes) / at, 1);
    for (i32 i = 0; !st && i < PLANS_MAX && high - low > 1 + low / 64; i++) {
        i64  more = (i64)floor((f64)(budget - plan.bytes) / each);
        bool in   = at + more > low && at + more < high;
        at        = in ? at + more : low + (high - low) / 2;
        st        = plan_for(c, at, &plan, err);
        if (plan.bytes <= budget) low = at;
        else high = at;
    }
    *fits = MAX(low, 1);
    if (!st && !low) st = plan_for(c, 1, &plan, err);
    if (st || plan.bytes <= budget || low) return st;
    return err_set(err, STATUS_USAGE,
                   "train.batch=auto: even one sample at a time needs %.3g GiB, and %.3g GiB are "
                   "allowed: %sa smaller model or a shorter data.context fits",
                   (f64)plan.bytes / 0x1p30, (f64)budget / 0x1p30,
                   c->config.recompute.kind == RECOMPUTE_NONE ? "train.recompute=auto, " : "");
}

/* Half of it, and half again, while that hardly costs time. */
static enum status smallest_that_pays(struct chooser *c, i64 *batch, struct err *err)
{
    struct plan whole, half;
    enum status st = plan_for(c, *batch, &whole, err);
    while (!st && *batch > 1) {
        i64 next = allowed(c, *batch / 2);
        st       = plan_for(c, next, &half, err);
        if (half.sample_s > whole.sample_s * pays) break;
        *batch = next;
    }
    return st;
}

static enum status choose(struct chooser *c, struct err *err)
{
    struct session *s = c->s;
    i64             fits;
    if (s->backend->table->rate) s->backend->table->rate(s->backend, &s->target);
    enum status st = largest(c, &fits, err);
    if (st && c->config.recompute.kind == RECOMPUTE_AUTO) { /* kept whole it does not fit */
        c->config.recompute.kind = RECOMPUTE_ALL;
        st                       = largest(c, &fits, err);
    }
    i64  batch = st ? 0 : allowed(c, fits), most = batch;
    bool rated = s->target.flops_s[DT_F32] > 0; /* else nobody knows what pays */
    if (!st && rated) st = smallest_that_pays(c, &batch, err);
    if (st) return st;
    s->config.batch = batch;
    struct str largest =
        str_fmt(s->perm, "the largest that fits %.3g GiB", (f64)s->target.memory_bytes / 0x1p30);
    if (most == c->most) largest = c->total ? STR("a whole step") : STR("all samples there are");
    s->batch_reason = largest;
    if (batch < most)
        s->batch_reason = str_fmt(s->perm, "%lld, %.*s, would gain less than %.0f %% a sample",
                                  (long long)most, STR_ARG(largest), 100 * (pays - 1));
    return STATUS_OK;
}

/* What was asked for, without looking at the machine. */
static enum status check(const struct train_config *t, struct err *err)
{
    i64 total = t->batch_total, batch = t->batch, n = t->accumulate;
    if (!total) return STATUS_OK;
    if (n > 1 && (!batch || total % n || total / n != batch))
        return err_set(
            err, STATUS_USAGE,
            "train.accumulate=%lld does not go with train.batch_total=%lld: leave it out, it "
            "follows from train.batch",
            (long long)n, (long long)total);
    if (!batch || total % batch == 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.batch_total=%lld is no multiple of train.batch=%lld: %lld or %lld is, or "
                   "train.batch=auto finds one that divides it",
                   (long long)total, (long long)batch, (long long)MAX(total / batch, 1) * batch,
                   (long long)(total / batch + 1) * batch);
}

enum status batch_resolve(struct session *s, struct err *err)
{
    const struct train_config *t     = &s->settings->train;
    i64                        train = dataset_count(s->data, SPLIT_TRAIN);
    i64                        total = t->batch_total;
    s->config.batch                  = MIN(t->batch, train);
    enum status st                   = check(t, err);
    if (!st && !t->batch) {
        struct chooser c = { .s = s, .config = s->config, .total = total };
        c.most           = total ? MIN(total, train) : train;
        if (total) c.config.accumulate = 2; /* with the program that adds gradients */
        st = choose(&c, err);
    }
    if (st) return st;
    i64 n                = total ? MAX(total / s->config.batch, 1) : t->accumulate;
    s->config.accumulate = MIN(n, train / s->config.batch + 1); /* no step over epochs */
    return STATUS_OK;
}
