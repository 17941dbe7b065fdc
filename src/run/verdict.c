/* verdict.c - the rules, in the order of verdict.def. Each says whether the evidence shows it, and then
 * how, what to set, and what that is worth. */
#include "run/verdict.h"
#include "base/digits.h"
#include <math.h>

static const f64 noise         = 0.02; /* of a measured time: less is none */
static const f64 eval_wanted   = 0.05; /* part of the run that evaluation may take */
static const f64 memory_wanted = 0.7;  /* part of the memory that may be taken */

const struct problem_row problems[PROBLEMS] = {
#define PROBLEM(name, bound, at, experiment, source, about)                                        \
    { #name, BOUND_##bound, at, EXPERIMENT_##experiment, source, about },
#include "run/verdict.def"
};

static const struct {
    const char *name;
    f64         at;
} bounds[] = {
    [BOUND_compute]   = { "compute", 0 },
    [BOUND_bandwidth] = { "memory bandwidth", 0 },
#define BOUND(name, at, source) [BOUND_##name] = { #name, at },
#include "run/verdict.def"
};

const char *bound_name(enum bound b) { return bounds[b].name; }

/* --- evidence ----------------------------------------------------------------------------------- */

static f64 total_s(const struct evidence *e) { return (f64)split_sum(&e->split) * 1e-9; }

static f64 part_of(const struct evidence *e, enum part p)
{
    i64 sum = split_sum(&e->split);
    return sum > 0 ? (f64)e->split.ns[p] / (f64)sum : 0;
}

static f64 computing(const struct evidence *e)
{
    return part_of(e, PART_compute) + part_of(e, PART_forward) + part_of(e, PART_backward);
}

/* Steps stand still for checkpoints (without any: for copies of the best weights), or take longer beside one. */
static f64 saving(const struct evidence *e)
{
    return e->saves ? fmax(part_of(e, PART_checkpoint), e->saving_s / total_s(e)) : 0;
}

static f64 part_of_bound(const struct evidence *e, enum bound b)
{
    switch (b) {
    case BOUND_data: return part_of(e, PART_input);
    case BOUND_launch: return part_of(e, PART_launch);
    case BOUND_communication:
        return part_of(e, PART_exchange) +
               (e->threads ? 0 : part_of(e, PART_copy)); /* in memory a copy is none */
    case BOUND_waiting: /* the slowest rank itself never waits: the others' figure counts */
        return fmax(part_of(e, PART_slowest), 1e-9 * (f64)e->waited_ns / total_s(e));
    case BOUND_checkpoint: return saving(e);
    case BOUND_evaluation: return part_of(e, PART_evaluation);
    case BOUND_bandwidth: return e->bandwidth_part;
    case BOUND_compute: return e->flops_part;
    }
    return NAN;
}

/* Then data come late because of it, and more workers would make it worse. */
static bool memory_is_short(const struct evidence *e)
{
    return e->load.seconds > 0 &&
           (e->load.swap_bytes_s >= problems[PROBLEM_swapping].at ||
            e->load.memory_free_bytes <
                (1 - problems[PROBLEM_too_many_workers].at) * e->load.memory_bytes);
}

static bool waits_for_data(const struct evidence *e, f64 at)
{
    return part_of(e, PART_input) >= at && !memory_is_short(e);
}

/* Reading is what takes the workers' time; where samples are mapped only the kernel can tell. */
static bool reading_binds(const struct evidence *e)
{
    if (e->read_s > 0) return e->read_s >= MAX(e->decode_s, e->augment_s);
    return e->load.seconds > 0 &&
           e->load.disk * (f64)e->load.core_count >= part_of(e, PART_input) / 2;
}

/* --- the rules ---------------------------------------------------------------------------------- */

typedef bool rule(const struct evidence *e, f64 at, struct problem *a, struct arena *perm);

/* Left alone the loader finds as many workers as bring samples in time. Where it did, only reading and
 * decoding less often is left. */
static void data_fix(const struct evidence *e, struct problem *a)
{
    a->fix  = e->workers_fixed ? STR("loader.workers=auto") : STR("loader.keep=on");
    a->gain = a->predicted = part_of(e, PART_input);
}

static rule check_slow_disk, check_slow_network, check_slow_augmentation, check_tiny_batch,
    check_fp32_where_bf16, check_checkpoint_too_often, check_evaluation_too_often,
    check_logging_every_step, check_one_slow_core, check_swapping, check_too_many_workers,
    check_oscillation;

static bool check_slow_disk(const struct evidence *e, f64 at, struct problem *a, struct arena *perm)
{
    if (!waits_for_data(e, at) || e->remote || !reading_binds(e)) return false;
    data_fix(e, a);
    a->text = str_fmt(
        perm, "steps wait for data %.0f %% of the time, and most of that is reading the disk",
        100 * a->gain);
    return true;
}

static bool check_slow_network(const struct evidence *e, f64 at, struct problem *a,
                               struct arena *perm)
{
    if (!waits_for_data(e, at) || !e->remote || !reading_binds(e)) return false;
    data_fix(e, a);
    a->text =
        str_fmt(perm, "steps wait for data %.0f %% of the time, and most of that is the network",
                100 * a->gain);
    return true;
}

static bool check_slow_augmentation(const struct evidence *e, f64 at, struct problem *a,
                                    struct arena *perm)
{
    if (!waits_for_data(e, at) || reading_binds(e) || !(e->decode_s + e->augment_s > 0))
        return false;
    data_fix(e, a);
    a->text = str_fmt(perm, "steps wait for data %.0f %% of the time, and most of that is %s",
                      100 * a->gain, e->decode_s > e->augment_s ? "decoding" : "augmenting");
    return true;
}

static bool check_tiny_batch(const struct evidence *e, f64 at, struct problem *a,
                             struct arena *perm)
{
    f64 fixed = part_of(e, PART_launch) + part_of(e, PART_update);
    f64 work  = fixed + computing(e);
    if (!(fixed > 0) || fixed < at * work || e->batch_fits < 2 * e->batch) return false;
    a->gain = a->predicted = fixed / 2; /* half of it for each sample of a batch twice as large */
    if (e->accumulate > 1 && e->accumulate % 2 == 0)
        a->fix = str_fmt(perm, "train.micro_batch=%lld", (long long)(2 * e->batch));
    else
        a->fix = str_fmt(perm, "train.batch=%lld train.lr_batch=%lld", (long long)(2 * e->batch),
                         (long long)e->batch);
    a->tried = a->fix;
    a->text  = str_fmt(
         perm,
         "%.0f %% of the steps' time does not depend on the batch (launches, optimiser), and "
          "memory allows %lld samples instead of %lld",
         100 * fixed / work, (long long)e->batch_fits, (long long)e->batch);
    return true;
}

static bool check_fp32_where_bf16(const struct evidence *e, f64 at, struct problem *a,
                                  struct arena *perm)
{
    f64 compute = computing(e);
    if (!(e->low_speedup >= at) || compute < 0.5)
        return false; /* else something else comes first */
    a->gain = a->predicted = compute * (1 - 1 / e->low_speedup);
    a->fix = a->tried = str_fmt(perm, "train.precision=%.*s", STR_ARG(e->low));
    a->text           = str_fmt(perm, "products in %.*s are %.1f times as fast on this machine",
                                STR_ARG(e->low), e->low_speedup);
    return true;
}

/* The machine is taken to be as old as the run has taken. */
static bool check_checkpoint_too_often(const struct evidence *e, f64 at, struct problem *a,
                                       struct arena *perm)
{
    f64 part = saving(e), total = total_s(e);
    if (e->saves_auto || part < at || e->saves < 2) return false;
    struct save_costs costs   = { .stall_s = part * total / (f64)e->saves };
    f64               every_s = total / (f64)e->saves,
        best_s                = hazard_save_due_s(e->hazard, &costs, total) - total;
    if (!(2 * every_s < best_s)) return false; /* it is about right, machines being what they are */
    a->gain      = part * (1 - every_s / best_s);
    a->predicted = part / 2;
    a->fix       = STR("checkpoint.every=auto");
    a->tried = str_fmt(perm, "checkpoint.every=%lld", (long long)MAX(2 * e->steps / e->saves, 1));
    a->text =
        str_fmt(perm,
                "%.0f %% of the time goes into %lld checkpoints, one in %s s; the work at risk "
                "justifies one in %s s",
                100 * part, (long long)e->saves, DIGITS(every_s), DIGITS(best_s));
    return true;
}

static bool check_evaluation_too_often(const struct evidence *e, f64 at, struct problem *a,
                                       struct arena *perm)
{
    f64 part = part_of(e, PART_evaluation);
    if (part < at || e->eval_count < 2) return false; /* one at the end must be */
    f64 times    = part / (1 - MIN(part, 0.99)) * (1 - eval_wanted) / eval_wanted;
    i64 every    = (i64)ceil((f64)MAX(e->eval_every, 1) * times);
    a->gain      = part * (1 - 1 / times);
    a->predicted = part / 2;
    a->fix       = str_fmt(perm, "train.eval_every=%lld", (long long)every);
    a->tried     = str_fmt(perm, "train.eval_every=%lld", (long long)MAX(2 * e->eval_every, 1));
    a->text = str_fmt(perm, "%.0f %% of the time goes into evaluating every %lld steps", 100 * part,
                      (long long)e->eval_every);
    return true;
}

static bool check_logging_every_step(const struct evidence *e, f64 at, struct problem *a,
                                     struct arena *perm)
{
    f64 part = part_of(e, PART_logging);
    if (part < at || !e->log_every) return false;
    a->gain = part;
    a->fix  = STR("train.log_every=0");
    a->text = str_fmt(
        perm, "%.0f %% of the time goes into logging every %s", 100 * part,
        e->log_every == 1 ? "step" : str_fmt(perm, "%lldth step", (long long)e->log_every).data);
    return true;
}

/* Without it all others work at their own speed; that must be more than it takes away. */
static bool check_one_slow_core(const struct evidence *e, f64 at, struct problem *a,
                                struct arena *perm)
{
    f64 n = (f64)e->threads, speed = e->load.core_slowest;
    if (!(e->load.seconds > 0) || !(speed < at) || e->threads < MAX(e->load.core_count, 2))
        return false;
    f64 gain = computing(e) * (1 - n * speed / (n - 1));
    if (!(gain > noise)) return false;
    a->gain = a->predicted = gain;
    a->fix = a->tried = str_fmt(perm, "train.threads=%lld", (long long)(e->threads - 1));
    a->text =
        str_fmt(perm, "core %lld runs at %.0f %% of the others' speed, and every step waits for it",
                (long long)e->load.core_index, 100 * speed);
    return true;
}

static struct str smaller_batch(const struct evidence *e, struct arena *perm)
{
    if (e->batch < 2) return STR("train.recompute=auto");
    return str_fmt(perm, "train.micro_batch=%lld", (long long)(e->batch / 2));
}

static bool loader_fills_memory(const struct evidence *e)
{
    f64 taken = e->load.memory_bytes - e->load.memory_free_bytes;
    return e->workers > 1 && (f64)e->workers * e->worker_bytes > taken / 2;
}

static bool check_swapping(const struct evidence *e, f64 at, struct problem *a, struct arena *perm)
{
    if (!(e->load.seconds > 0) || !(e->load.swap_bytes_s >= at) || loader_fills_memory(e))
        return false;
    a->gain = a->predicted = e->load.memory_stalled;
    a->fix = a->tried = smaller_batch(e, perm);
    a->text = str_fmt(perm, "%s MiB/s go to swap and back: the run does not fit in memory",
                      DIGITS(e->load.swap_bytes_s / 0x1p20));
    return true;
}

static bool check_too_many_workers(const struct evidence *e, f64 at, struct problem *a,
                                   struct arena *perm)
{
    f64 taken = e->load.memory_bytes - e->load.memory_free_bytes;
    if (!(e->load.seconds > 0) || !(taken > at * e->load.memory_bytes) || !loader_fills_memory(e))
        return false;
    f64 rest = taken - (f64)e->workers * e->worker_bytes;
    f64 room = MAX(memory_wanted * e->load.memory_bytes - rest, e->worker_bytes);
    i64 fits = MIN(MAX((i64)(room / e->worker_bytes), 1), e->workers - 1);
    a->gain = a->predicted = MAX(part_of(e, PART_input), e->load.memory_stalled);
    a->fix = a->tried = e->workers_fixed ? str_fmt(perm, "loader.workers=%lld", (long long)fits)
                                         : str_fmt(perm, "loader.memory_gib=%.2g", room / 0x1p30);
    a->text = str_fmt(perm, "%lld workers of %s MiB each, and %.0f %% of the memory is taken",
                      (long long)e->workers, DIGITS(e->worker_bytes / 0x1p20),
                      100 * taken / e->load.memory_bytes);
    return true;
}

/* Between steps it waits for data; what goes along with saving or evaluating has its own row. */
static bool check_oscillation(const struct evidence *e, f64 at, struct problem *a,
                              struct arena *perm)
{
    bool other = e->usage.with == RHYTHM_CHECKPOINT || e->usage.with == RHYTHM_EVALUATION;
    if (e->usage.shape != USAGE_OSCILLATING || e->usage.low < at || other) return false;
    a->gain = a->predicted = 1 - e->usage.mean / e->usage.p95;
    a->fix  = str_fmt(perm, "loader.prefetch=%lld", (long long)MIN(MAX(2 * e->prefetch, 4), 64));
    a->text = usage_text(&e->usage, perm);
    return true;
}

/* --- the verdict -------------------------------------------------------------------------------- */

static rule *const rules[PROBLEMS] = {
#define PROBLEM(name, bound, at, experiment, source, about) check_##name,
#include "run/verdict.def"
};

/* The largest part that is beyond its limit; else what the arithmetic itself is held up by. */
static void find_bound(struct verdict *v, const struct evidence *e)
{
    bool bandwidth = e->bandwidth_part > e->flops_part; /* NaN: compute */
    v->bound       = bandwidth ? BOUND_bandwidth : BOUND_compute;
    v->part        = part_of_bound(e, v->bound);
    f64 largest    = 0;
    for (i64 i = BOUND_bandwidth + 1; i < COUNT_OF(bounds); i++) {
        f64 part = part_of_bound(e, (enum bound)i);
        if (part < bounds[i].at || part <= largest) continue;
        largest = v->part = part;
        v->bound          = (enum bound)i;
    }
}

/* What happens between steps is left out where only these are tried. */
static f64 steps_part(const struct evidence *e)
{
    return 1 - part_of(e, PART_evaluation) - part_of(e, PART_checkpoint) - part_of(e, PART_logging);
}

static f64 worth(const struct problem *a) { return isnan(a->gain) ? 0 : a->gain; }

struct verdict verdict_of(const struct evidence *e, struct arena *perm)
{
    struct verdict v = { .slowest = e->waited_ns ? e->slowest : -1 };
    find_bound(&v, e);
    for (i64 i = 0; i < PROBLEMS; i++) {
        struct problem a = {
            .kind = (enum problem_kind)i, .gain = NAN, .predicted = NAN, .measured = NAN
        };
        if (!rules[i](e, problems[i].at, &a, perm) || a.gain < noise) continue;
        if (!verdict_tries_whole(a.kind)) a.predicted /= steps_part(e);
        i64 at = v.count++;
        for (; at > 0 && worth(&v.problem[at - 1]) < worth(&a); at--)
            v.problem[at] = v.problem[at - 1];
        v.problem[at] = a;
    }
    return v;
}

void verdict_confirm(struct problem *a, f64 before_s, f64 after_s)
{
    f64 fall     = 1 - after_s / before_s;
    a->measured  = fall;
    a->confirmed = fall > noise && !(fall < a->predicted / 2);
    if (isnan(a->gain)) a->gain = MAX(fall, 0);
    else if (a->predicted > 0) a->gain *= MIN(MAX(fall / a->predicted, 0), 1);
}

bool verdict_tries_whole(enum problem_kind a)
{
    return problems[a].bound == BOUND_evaluation || problems[a].bound == BOUND_checkpoint;
}

struct dollars problem_dollars(const struct problem *a, f64 usd_run, f64 runs_per_month)
{
    f64 run = a->gain * usd_run;
    return (struct dollars){ run, 12 * runs_per_month * run };
}

struct str verdict_text(const struct verdict *v, struct arena *perm)
{
    const char *name = bound_name(v->bound);
    if (isnan(v->part)) return str_fmt(perm, "%s bound", name);
    if (v->bound <= BOUND_bandwidth &&
        v->part > 1) /* convolutions that multiply less, sums in a cache */
        return str_fmt(perm, "%s bound, above the measured peak of this machine", name);
    if (v->bound <= BOUND_bandwidth)
        return str_fmt(perm, "%s bound, at %.0f %% of what this machine can do", name,
                       100 * v->part);
    if (v->bound == BOUND_waiting && v->slowest >= 0)
        return str_fmt(perm,
                       "%s bound: waiting for rank %d, the slowest, takes %.0f %% of the time",
                       name, v->slowest, 100 * v->part);
    return str_fmt(perm, "%s bound: it takes %.0f %% of the time", name, 100 * v->part);
}

static void add_dollars(struct textbuf *b, f64 usd, const char *per)
{
    if (isnan(usd)) return;
    if (usd < 0.01) textbuf_fmt(b, ", $%.2g %s", usd, per);
    else textbuf_fmt(b, usd < 100 ? ", $%.2f %s" : ", $%.0f %s", usd, per);
}

struct str problem_text(const struct problem *a, struct dollars d, struct arena *perm)
{
    const struct problem_row *row = &problems[a->kind];
    struct textbuf            b   = textbuf_new(perm);
    textbuf_fmt(&b, "%s: %.*s; %.*s", row->name, STR_ARG(a->text), STR_ARG(a->fix));
    if (!isnan(a->gain)) textbuf_fmt(&b, " saves %.0f %% of the run", 100 * a->gain);
    add_dollars(&b, d.run, "a run");
    add_dollars(&b, d.year, "a year");
    if (isnan(a->measured)) return textbuf_str(&b);
    if (row->experiment == EXPERIMENT_REPLAY) textbuf_fmt(&b, "; with batches from memory");
    else textbuf_fmt(&b, "; with %.*s", STR_ARG(a->tried));
    textbuf_fmt(&b, " a sample took %.0f %% %s: %s", 100 * fabs(a->measured),
                a->measured < 0 ? "longer" : "less", a->confirmed ? "confirmed" : "refuted");
    return textbuf_str(&b);
}
