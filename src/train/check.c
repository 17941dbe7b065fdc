/* check.c - the facts that lint.c judges: what data, plan and machine make of the settings. */
#include "base/pool.h"
#include "train/cadence.h"
#include "train/train_int.h"
#include <math.h>

/* A program that does not exist costs nothing. */
f64 session_flops(const struct session *s, enum program_id id)
{
    const struct program *p = program_typical(s->set, id);
    return p ? program_cost(p, s->scratch).flops : 0;
}

f64 session_step_flops(const struct session *s)
{
    f64 later = (f64)(MAX(s->config.accumulate, 1) - 1);
    return session_flops(s, PROGRAM_TRAIN) + later * session_flops(s, PROGRAM_ADD) +
           session_flops(s, PROGRAM_UPDATE);
}

static f64 eval_flops(const struct session *s)
{
    i64 count = dataset_count(s->data, SPLIT_EVAL), whole = MAX(s->config.eval_batch, 1);
    return (f64)(count / whole) * session_flops(s, PROGRAM_EVAL) +
           session_flops(s, PROGRAM_EVAL_LAST);
}

/* Without recomputing, where a fixed policy does it. */
static void add_plain(struct session *s, struct lint_facts *f)
{
    struct compile_config plain = s->config;
    struct run_plan       plan;
    bool fixed = plain.recompute.kind == RECOMPUTE_ALL || plain.recompute.kind == RECOMPUTE_EVERY;
    plain.recompute.kind = RECOMPUTE_NONE;
    if (!fixed || plan_of(s, &plain, &plan, NULL)) return;
    f->plain_bytes = plan.bytes[PROGRAM_TRAIN];
    f->plain_flops = plan.flops[PROGRAM_TRAIN];
}

static void add_naive(const struct session *s, struct lint_facts *f)
{
    const struct program *p = program_typical(s->set, PROGRAM_TRAIN);
    for (i32 i = p->instr_count - 1; i >= 0; i--) {
        if (!str_ends(p->instrs[i].kernel, STR("_naive"))) continue;
        f->naive_count++;
        f->naive_op = str_of(op_info(p->graph->nodes[p->instrs[i].node].op)->name);
    }
}

/* A variance of one value is 0: the running one would shrink towards it with each such step, and evaluation, which
 * divides by it, would go wrong. PyTorch refuses it, too. A rank without a sample may: its statistics are dropped. */
enum status norms_check(const struct session *s, struct err *err)
{
    static const enum program_id ids[] = { PROGRAM_TRAIN, PROGRAM_TRAIN_LAST, PROGRAM_ADD,
                                           PROGRAM_ADD_LAST };
    for (i64 k = 0; k < COUNT_OF(ids); k++) {
        const struct program *p = s->set->programs[ids[k]];
        for (i32 i = 0; p && i < p->graph->node_count; i++) {
            const struct node *n = &p->graph->nodes[i];
            if (n->op != OP_BATCHNORM) continue;
            bool last = ids[k] == PROGRAM_TRAIN_LAST || ids[k] == PROGRAM_ADD_LAST;
            if (shape_rows(graph_type(p->graph, n->in[0]).shape) > 1) continue;
            if (last && s->ranks && !together_part(s, s->config.batch_last_all)) continue;
            return err_set(err, STATUS_USAGE,
                           "%.*s would see one value per channel%s, which has no variance: %s",
                           STR_ARG(n->name),
                           last ? " in the last batch of an epoch, of 1 sample" : "",
                           last ? "set train.drop_last=true, or another train.batch"
                                : "it needs a batch of at least 2 samples");
        }
    }
    return STATUS_OK;
}

/* For ever where nobody says that it may be taken away. */
static f64 machine_life_s(const struct settings *s)
{
    if (s->checkpoint.mtti_hours > 0) return 3600 * s->checkpoint.mtti_hours;
    return str_eq(s->run.market, STR("spot")) ? hazard_mean_s(hazard_prior) : INFINITY;
}

/* NaN: frugal finds it, or a step's time is not known. */
static f64 save_every_s(const struct settings *s, f64 step_s)
{
    struct cadence c;
    if (!s->checkpoint.every.len || cadence_parse(s->checkpoint.every, &c, NULL) ||
        c.unit == EVERY_AUTO)
        return NAN;
    return c.unit == EVERY_STEPS ? c.value * step_s : c.value;
}

struct lint_facts facts_of(struct session *s, const struct limits *limits)
{
    struct lint_facts f = { .settings      = s->settings,
                            .train_samples = dataset_count(s->data, SPLIT_TRAIN),
                            .eval_samples  = dataset_count(s->data, SPLIT_EVAL),
                            .binary        = dataset_is_binary(s->data),
                            .epoch_steps   = limits->epoch_steps,
                            .steps         = limits->steps,
                            .warmup        = limits->rates.warmup,
                            .lr            = limits->rates.lr,
                            .optimiser     = optimiser_name(s->config.optimiser),
                            .precision     = s->precision.dtype,
                            .low           = s->target.low,
                            .loss_scaled   = s->settings->train.loss_scale > 1,
                            .memory_bytes  = s->target.memory_bytes,
                            .train_bytes   = s->set->programs[PROGRAM_TRAIN]->bytes,
                            .flops         = session_flops(s, PROGRAM_TRAIN),
                            .step_flops    = session_step_flops(s),
                            .eval_flops    = eval_flops(s),
                            .cores         = pool_machine_threads(),
                            .gpu           = s->target.bus_id.len > 0,
                            .low_speedup   = NAN,
                            .disk_remote   = os_disk_is_remote(s->settings->checkpoint.dir),
                            .mtti_s        = machine_life_s(s->settings),
                            .save_every_s  = save_every_s(s->settings, NAN),
                            .load_s        = NAN,
                            .compute_s     = NAN };
    add_plain(s, &f);
    add_naive(s, &f);
    return f;
}

/* The least of a few turns, as kernels are timed: what disturbs only adds. */
static f64 least_load_s(struct session *s, struct loader *loader)
{
    enum { READY = 16, TURNS = 8, BATCHES = 8 }; /* READY: batches that may lie there already */
    static const i64 enough_ns = 200000000;
    i64              least = INT64_MAX, start = clock_now(s->clock), now = start;
    for (i32 i = 0; i < READY; i++) (void)loader_next(loader);
    for (i32 turn = 0; turn < TURNS && now - start < enough_ns; turn++) {
        i64 begin = clock_now(s->clock);
        for (i32 i = 0; i < BATCHES; i++) (void)loader_next(loader);
        now   = clock_now(s->clock);
        least = MIN(least, now - begin);
    }
    return (f64)least * 1e-9 / BATCHES;
}

/* The same step compiled for narrower numbers. */
static void add_low_speedup(struct session *s, struct lint_facts *f)
{
    struct compile_config low = s->config;
    struct run_plan       now, then;
    low.precision = f->low;
    if (f->precision != DT_F32 || f->low == DT_F32) return;
    if (s->backend->table->rate) s->backend->table->rate(s->backend, &s->target);
    if (plan_of(s, &s->config, &now, NULL) || plan_of(s, &low, &then, NULL)) return;
    f->low_speedup = now.seconds[PROGRAM_TRAIN] / then.seconds[PROGRAM_TRAIN];
}

void facts_measure(struct session *s, struct loader *loader, struct lint_facts *f)
{
    bool known = s->target.seconds || s->target.flops_s[DT_F32] > 0;
    if (!known) return;                      /* of what a step takes */
    if (loader_stats(loader).stages) return; /* what it can is found out while it runs */
    f->load_s    = least_load_s(s, loader);
    f->compute_s = program_seconds(program_typical(s->set, PROGRAM_TRAIN), &s->target, s->scratch);
    f->save_every_s =
        save_every_s(s->settings, MAX(f->load_s, f->compute_s) * (f64)MAX(s->config.accumulate, 1));
    add_low_speedup(s, f);
}
