/* workload.c - the compilations that a search is fed with. */
#include "plan/workload.h"
#include "plan/device.h"

enum { BATCH_MAX = 64 }; /* samples that are compiled for: lines go on */

static const struct plan_variant variants[PLAN_VARIANTS] = {
    { .low = false, .recompute = { .kind = RECOMPUTE_NONE } },
    { .low = false, .recompute = { .kind = RECOMPUTE_ALL } },
    { .low = true, .recompute = { .kind = RECOMPUTE_NONE } },
    { .low = true, .recompute = { .kind = RECOMPUTE_EVERY, .every = 2 } },
    { .low = true, .recompute = { .kind = RECOMPUTE_ALL } },
};

const char *recompute_text(const struct plan_variant *v)
{
    static const char *const words[] = {
        [RECOMPUTE_NONE] = "none", [RECOMPUTE_ALL] = "all", [RECOMPUTE_EVERY] = "every 2"
    };
    return words[v->recompute.kind];
}

const char *precision_text(enum dtype t)
{
    return t == DT_BF16 ? "bf16" : t == DT_F16 ? "fp16" : "fp32";
}

enum plan_kind plan_kind_of(const struct target *t) { return t->gpus ? PLAN_GPU : PLAN_CPU; }

static struct compile_config config_of(const struct plan_workload *job,
                                       const struct plan_variant  *v)
{
    struct compile_config c = job->config;
    c.recompute             = v->recompute;
    c.precision             = v->low ? DT_BF16 : DT_F32;
    c.accumulate            = 2;
    c.step_samples = job->batch_total; /* tables are sparse or dense for every micro-batch alike */
    return c;
}

/* A machine without kernels of its own: their workspaces are left out. */
static enum status compile_for(struct arena *perm, const struct plan_workload *job, void *context,
                               enum plan_kind kind, const struct plan_variant *v,
                               struct step_work *out, struct arena scratch, struct err *err)
{
    struct target         bare = kind == PLAN_GPU ? target_of_gpus() : target_of_cpus();
    struct compile_config c    = config_of(job, v);
    i64                   high = MIN(MAX(job->batch_total, 2), BATCH_MAX);
    /* Memory bends where a loss begins to be cut up: from there on up, the line is on the safe side. */
    i64 low = high / 2;
    return step_work_of(perm, &bare, &c, job->build, context, low, high, out, scratch, err);
}

static enum status compile_variant(struct arena *perm, const struct plan_workload *job,
                                   enum plan_kind kind, struct plan_variants *all, i64 index,
                                   struct arena scratch, struct err *err)
{
    struct plan_variant *v = &all->of[kind][index];
    struct step_work     more;
    *v             = variants[index];
    enum status st = compile_for(perm, job, job->context, kind, v, &v->work, scratch, err);
    all->compiles += 2;
    if (!st && job->deeper) {
        st = compile_for(perm, job, job->deeper, kind, v, &more, scratch, err);
        all->compiles += 2;
        if (!st)
            v->work = step_work_deeper(perm, &v->work, job->depth[0], &more, job->depth[1],
                                       job->depth[2]);
    }
    if (!st && job->parameters > 0)
        step_work_stand_for(&v->work, job->parameters, job->attention_part,
                            v->low && !job->config.frozen_low);
    return st;
}

enum status plan_compile(struct arena *perm, const struct plan_workload *job,
                         struct plan_variants *out, struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    *out           = (struct plan_variants){ 0 };
    for (i32 kind = 0; kind < PLAN_KINDS; kind++) {
        for (i64 i = 0; !st && i < PLAN_VARIANTS; i++)
            st = compile_variant(perm, job, (enum plan_kind)kind, out, i, scratch, err);
    }
    if (st) return st;
    const struct step_work *plain = &out->of[PLAN_CPU][0].work;
    out->parameters               = plain->parameters;
    out->model_flops = work_cost(&plain->train, 1).flops - work_cost(&plain->train, 0).flops;
    return STATUS_OK;
}

static bool same_ranks(struct plan_ranks a, struct plan_ranks b)
{
    return a.ranks == b.ranks && a.places == b.places && a.shard == b.shard;
}

/* As train/together.c does it: the first rank's part of every batch is the largest. GPUs have a queue for
 * collectives. */
static void use_ranks(struct compile_config *c, struct target *t, struct plan_ranks of)
{
    i64 eval           = (c->eval_batch + of.ranks - 1) / of.ranks;
    i64 last           = (c->eval_batch_last + of.ranks - 1) / of.ranks;
    c->ranks           = (i32)of.ranks;
    c->shard           = of.shard;
    c->places          = (i32)of.places;
    c->batch_last      = (c->batch_last + of.ranks - 1) / of.ranks;
    c->eval_batch      = eval;
    c->eval_batch_last = last;
    if (t->gpus) t->queues = 2;
}

i64 plan_exact_bytes(struct plan_exact *e, const struct plan_workload *job,
                     const struct plan_variant *v, const struct target *t, struct plan_ranks of,
                     i64 micro, i64 accumulate, struct arena scratch)
{
    struct plan_asked     now  = { v, t->work_bytes, of, micro, -1, accumulate > 1 };
    struct arena          sets = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct target         free = *t; /* of any memory: it is what is asked for */
    struct compile_config c    = config_of(job, v);
    struct program_set   *set;
    for (i64 i = 0; i < e->count; i++) {
        const struct plan_asked *old = &e->asked[i];
        if (old->variant == v && old->work_bytes == now.work_bytes && same_ranks(old->of, of) &&
            old->micro == micro && old->adds == now.adds)
            return old->bytes;
    }
    free.memory_bytes = 0;
    free.seconds      = NULL;
    if (v->low) c.precision = t->low;
    c.batch      = micro;
    c.accumulate = accumulate;
    if (job->others) job->others(job->others_context, &c);
    if (of.ranks > 1) use_ranks(&c, &free, of);
    e->compiles++;
    if (!compile(&sets, &free, &c, job->build, job->context, &set, scratch, NULL))
        now.bytes = set->arena_bytes;
    if (e->count < EXACT_MAX) e->asked[e->count++] = now;
    return now.bytes;
}
