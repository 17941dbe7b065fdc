/* job.c - the compilations that a search is fed with. */
#include "plan/job.h"

enum { ALIGN_BYTES = 256, BATCH_MAX = 64 }; /* samples that are compiled for: lines go on */

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

/* A machine without kernels of its own: workspaces are left out, which is some MB. */
static enum status compile_for(struct arena *perm, const struct plan_job *job, void *context,
                               const struct plan_variant *v, struct step_work *out,
                               struct arena scratch, struct err *err)
{
    struct target         bare = { .align_bytes = ALIGN_BYTES, .fusions_off = FUSE_RESIDUAL };
    struct compile_config c    = job->config;
    i64                   high = MIN(MAX(job->batch_total, 2), BATCH_MAX), low = MAX(high / 8, 1);
    c.recompute  = v->recompute;
    c.precision  = v->low ? DT_BF16 : DT_F32;
    c.accumulate = 2;
    return step_work_of(perm, &bare, &c, job->build, context, low, high, out, scratch, err);
}

enum status plan_compile(struct arena *perm, const struct plan_job *job, struct plan_variants *out,
                         struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; !st && i < PLAN_VARIANTS; i++) {
        struct plan_variant *v = &out->all[i];
        struct step_work     more;
        *v = variants[i];
        st = compile_for(perm, job, job->context, v, &v->work, scratch, err);
        if (st || !job->deeper) continue;
        st = compile_for(perm, job, job->deeper, v, &more, scratch, err);
        if (!st)
            v->work = step_work_deeper(perm, &v->work, job->depth[0], &more, job->depth[1],
                                       job->depth[2]);
    }
    if (!st)
        out->model_flops = work_cost(&out->all[0].work.train, 1).flops -
                           work_cost(&out->all[0].work.train, 0).flops;
    return st;
}
