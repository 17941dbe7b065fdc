/* batch.c - how many samples are computed at once, and how many times a step.
 *
 * auto needs no trial run: the plan of memory grows by the same bytes with every sample, so two plans
 * give the line, the budget a point on it, and another plan the proof. train.micro_batch=auto is the
 * whole step, and only where that does not fit the largest part of it that does. train.batch=auto
 * begins with the largest batch that fits and leaves the run a thousand steps, and halves it while a sample takes
 * hardly longer by the machine's rates: a batch beyond that costs memory, and learning, and gains nothing.
 *
 * The thousand: a run learns by its steps, and far fewer of them with as much data lose accuracy, whatever the
 * machine would gain (examples/images.yaml: 82 % after 705 steps, 64 % after 20; tests/cli/test_auto_batch.sh). How
 * far a batch may really grow is the noise of its gradients, which only the run itself can measure:
 * train.noise_scale. */
#include "train/train_int.h"
#include <math.h>

static const f64 pays = 1.02; /* a sample may take so much longer in half the batch */
enum {
    SAMPLE      = 8,    /* batch of the first plan */
    PLANS_MAX   = 16,   /* along the line */
    STEPS_MIN   = 1000, /* that auto leaves a run */
    EPOCHS      = 1,    /* of a run that does not say how many it has */
    BATCH_LEAST = 16,   /* below it, few samples make few steps anyway */
    PARTS_MAX =
        1024, /* micro-batches of a step that nobody asked for: beyond it the batch is a mistake */
};

struct plan {
    i64 bytes;
    f64 sample_s;
};

struct chooser {
    struct session       *s;
    struct compile_config config;
    i64                   total;   /* samples of a step that the batch must divide; 0: any */
    i64                   most;    /* samples that a step may have */
    i64                   samples; /* there are */
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

/* The largest divisor of at most `at_most`, in a bounded time: of a huge number one may be missed. */
static i64 divisor(i64 of, i64 at_most)
{
    enum { TRIES = 1 << 20 };
    i64 parts = of / at_most + (of % at_most != 0);
    for (i64 k = parts; k - parts < TRIES && k <= of; k++)
        if (of % k == 0) return of / k;
    for (i64 d = MIN(at_most, TRIES); d > 1; d--)
        if (of % d == 0) return d;
    return 1;
}

/* The largest batch of at most `batch` that may be asked for: a divisor of the step. */
static i64 allowed(const struct chooser *c, i64 batch)
{
    batch = MAX(MIN(batch, c->most), 1);
    return c->total ? divisor(c->total, batch) : batch;
}

bool tables_exceed(const struct program_set *set, i64 bytes)
{
    return set &&
           program_set_table_bytes(set, VALUE_PARAM) + program_set_table_bytes(set, VALUE_STATE) >
               bytes;
}

/* Not even one sample fits, which takes so many bytes. Where that is because of tables, compile says it better. */
static enum status none_fits(const struct chooser *c, i64 bytes, struct err *err)
{
    struct session     *s       = c->s;
    struct arena        scratch = s->scratch;
    struct arena        perm    = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct program_set *set;
    enum status         st =
        compile(&perm, &s->target, &c->config, model_build, s->model, &set, scratch, err);
    if (st && tables_exceed(set, s->target.memory_bytes)) return st;
    return err_set(
        err, STATUS_USAGE,
        "even one sample at a time needs %.3g GiB, and %.3g GiB are allowed: try %sa smaller "
        "model or a shorter data.context",
        (f64)bytes / 0x1p30, (f64)s->target.memory_bytes / 0x1p30,
        c->config.recompute.kind == RECOMPUTE_NONE ? "train.recompute=auto, " : "");
}

/* The largest batch that fits, within a sixty-fourth: along the line to where the budget lies, and
 * again from there, because packing and workspaces bend the line; by halving where it leads astray. */
static enum status largest(struct chooser *c, i64 *fits, struct err *err)
{
    i64         budget = c->s->target.memory_bytes, low = 0, high = c->most + 1;
    i64         at = MIN(SAMPLE, c->most);
    struct plan plan, twice;
    if (!c->total && !plan_for(c, c->most, &plan, NULL) && plan.bytes <= budget) {
        *fits = c->most;
        return STATUS_OK;
    }
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
    return none_fits(c, plan.bytes, err);
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

/* The largest that fits, in c->config.batch. */
static enum status choose_largest(struct chooser *c, i64 *batch, struct err *err)
{
    enum status st = largest(c, batch, err);
    if (st && c->config.recompute.kind == RECOMPUTE_AUTO) { /* kept whole it does not fit */
        c->config.recompute.kind = RECOMPUTE_ALL;
        st                       = largest(c, batch, err);
    }
    if (!st) *batch = allowed(c, *batch);
    return st;
}

/* Added to the reason of a number that another start may not find again. */
static void say_measured(struct session *s, const char *key)
{
    if (s->settings->train.deterministic)
        s->batch_reason =
            str_fmt(s->perm,
                    "%.*s; free memory and measured speed decide, so another start may "
                    "choose differently: %s=%lld repeats this run bit-exact",
                    STR_ARG(s->batch_reason), key, (long long)s->config.batch);
}

static f64 samples_of_run(const struct train_config *t, i64 train)
{
    return (f64)train * (f64)(t->epochs ? t->epochs : EPOCHS);
}

/* Samples of a step with which the run still has its thousand steps; a power of two. */
static i64 batch_that_learns(const struct train_config *t, i64 train)
{
    f64 all   = samples_of_run(t, train);
    i64 batch = BATCH_LEAST;
    while (2 * (f64)batch * STEPS_MIN <= all) batch *= 2;
    return MIN(batch, train);
}

/* Why auto took it: what fits, what learns, what pays. */
static struct str batch_why(const struct chooser *c, i64 fits, i64 batch)
{
    struct session            *s   = c->s;
    const struct train_config *t   = &s->settings->train;
    struct str                 why = STR("all samples");
    const char *what = !t->steps ? "the run" : t->epochs > 1 ? "train.epochs" : "an epoch";
    if (fits < c->most)
        why = str_fmt(s->perm, "the largest that fits %.3g GiB",
                      (f64)s->target.memory_bytes / 0x1p30);
    else if (c->most < c->samples && samples_of_run(t, c->samples) < (f64)c->most * STEPS_MIN)
        why = str_fmt(s->perm, "auto's choice where %s has fewer than %d steps", what, STEPS_MIN);
    else if (c->most < c->samples)
        why = str_fmt(s->perm, "the largest power of two that leaves %s %d steps", what, STEPS_MIN);
    if (batch < fits)
        why = str_fmt(s->perm, "%lld, %.*s, would gain less than %.0f %% a sample", (long long)fits,
                      STR_ARG(why), 100 * (pays - 1));
    if (s->settings->train.noise_scale) return why;
    return str_fmt(s->perm, "%.*s; train.noise_scale=true measures what learning gains from it",
                   STR_ARG(why));
}

/* train.batch=auto */
static enum status choose_batch(struct chooser *c, struct err *err)
{
    struct session *s    = c->s;
    i64             most = 0, batch;
    if (s->backend->table->rate) s->backend->table->rate(s->backend, &s->target);
    enum status st    = choose_largest(c, &most, err);
    bool        rated = s->target.flops_s[DT_F32] > 0;          /* else nobody knows what pays */
    bool        least = most == c->most && most <= BATCH_LEAST; /* the data alone decides */
    batch             = most;
    if (!st && rated && !least) st = smallest_that_pays(c, &batch, err);
    if (st) return st;
    if (s->settings->train.noise_scale && batch > 1) batch -= batch % 2; /* it is halved */
    s->config.batch = batch;
    s->batch_reason = batch_why(c, most, batch);
    if (!least) say_measured(s, "train.batch");
    return STATUS_OK;
}

/* What was asked for, without looking at the machine. */
static enum status check(const struct train_config *t, struct err *err)
{
    i64 batch = t->batch, micro = t->micro_batch;
    if (!batch && micro)
        return err_set(err, STATUS_USAGE,
                       "train.batch=auto chooses the micro-batch: leave "
                       "out train.micro_batch=%lld, "
                       "or set train.batch to a number",
                       (long long)micro);
    if (!micro || batch % micro == 0) return STATUS_OK;
    i64 less = divisor(batch, MIN(micro, batch)),
        more = batch / divisor(batch, MAX(batch / micro, 1));
    return err_set(err, STATUS_USAGE,
                   "train.micro_batch=%lld does not divide train.batch=%lld: %lld and %lld do",
                   (long long)micro, (long long)batch, (long long)less, (long long)more);
}

/* A step never goes over the end of an epoch. */
static void accumulate(struct session *s, i64 batch, i64 train)
{
    i64 n                = MAX(batch / s->config.batch, 1);
    s->config.accumulate = MIN(n, train / s->config.batch + 1);
}

/* train.batch is of all ranks, train.micro_batch of each. */
static enum status resolve_together(struct session *s, i64 train, struct err *err)
{
    const struct train_config *t = &s->settings->train;
    if (!t->batch)
        return err_set(
            err, STATUS_USAGE,
            "train.batch=auto measures one rank, and this run has %d: set train.batch to "
            "the samples of a step of all ranks",
            s->ranks->count);
    if (t->noise_scale)
        return err_set(err, STATUS_USAGE, "train.noise_scale=true needs one rank, and there are %d",
                       s->ranks->count);
    i64 n = s->ranks->count, most = MIN(t->micro_batch, INT64_MAX / n) * n;
    i64 at_once = t->micro_batch ? divisor(t->batch, MIN(most, t->batch)) : t->batch;
    if (at_once < n && t->batch >= n)
        return err_set(err, STATUS_USAGE,
                       "train.batch=%lld has no equal micro-batches of %lld to %lld samples, for "
                       "%lld ranks with train.micro_batch=%lld: a multiple of %lld has, or leave "
                       "out train.micro_batch",
                       (long long)t->batch, (long long)n, (long long)most, (long long)n,
                       (long long)t->micro_batch, (long long)most);
    s->batch_all    = MIN(at_once, train);
    s->config.batch = s->batch_all;
    if (t->micro_batch) accumulate(s, t->batch, train);
    return STATUS_OK;
}

enum status batch_resolve(struct session *s, struct err *err)
{
    const struct train_config *t     = &s->settings->train;
    i64                        train = dataset_count(s->data, SPLIT_TRAIN);
    enum status                st    = check(t, err);
    s->config.batch                  = MIN(t->micro_batch ? t->micro_batch : t->batch, train);
    s->config.accumulate             = 1;
    if (!st && s->ranks) return resolve_together(s, train, err);
    if (!st && !t->batch)
        return choose_batch(&(struct chooser){ .s       = s,
                                               .config  = s->config,
                                               .most    = batch_that_learns(t, train),
                                               .samples = train },
                            err);
    if (!st && t->micro_batch) accumulate(s, t->batch, train);
    return st;
}

enum status batch_shrink(struct session *s, struct err *err)
{
    const struct train_config *t     = &s->settings->train;
    i64                        train = dataset_count(s->data, SPLIT_TRAIN), micro = 0;
    struct chooser             c = { .s = s, .config = s->config, .total = t->batch };
    if (!t->batch || t->micro_batch || s->ranks) return err_set(err, STATUS_NO, "as set");
    c.most              = MIN(t->noise_scale ? t->batch / 2 : t->batch, train);
    c.config.accumulate = 2; /* with the program that adds gradients */
    c.config.batch_last = c.config.eval_batch = c.config.eval_batch_last = 0; /* of before */
    enum status st = choose_largest(&c, &micro, err);
    if (!st && micro >= s->config.batch)
        st = err_set(err, STATUS_NO, "it is not the reason the run does not fit");
    if (!st && c.most / micro > PARTS_MAX)
        st = err_set(err, STATUS_NO, "a step would take too long");
    if (st) return st;
    s->config.batch = micro;
    accumulate(s, t->batch, train);
    s->batch_reason = str_fmt(s->perm, "the largest part of train.batch=%lld that fits %.3g GiB",
                              (long long)t->batch, (f64)s->target.memory_bytes / 0x1p30);
    say_measured(s, "train.micro_batch");
    return STATUS_OK;
}
