/* plan.c - what the run would take if its programs were compiled otherwise. */
#include "train/train_int.h"

static const f64 begin_s = 2e-6; /* of an instruction: handing it to all threads, about */

enum status plan_of(struct session *s, const struct compile_config *config, struct run_plan *out,
                    struct err *err)
{
    struct arena        scratch = s->scratch;
    struct arena        perm    = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct target       target  = s->target;
    struct program_set *set;
    target.memory_bytes = 0;    /* any size, to know it */
    target.seconds      = NULL; /* by rates: no kernel is tried out for what is thrown away */
    *out                = (struct run_plan){ 0 };
    enum status st = compile(&perm, &target, config, model_build, s->model, &set, scratch, err);
    for (i32 id = 0; !st && id < PROGRAM_COUNT; id++) {
        struct program *p = set->programs[id];
        if (!p) continue;
        out->bytes[id] = p->bytes;
        if (p->rows && set->row_share > 0)
            st = compile_rows(&perm, set, (enum program_id)id,
                              (i64)((f64)p->rows * set->row_share + 0.5), &p, scratch, err);
        if (st) break;
        out->flops[id]   = program_cost(p, scratch).flops;
        out->seconds[id] = begin_s * p->instr_count + program_seconds(p, &target, scratch);
    }
    return st;
}

f64 program_seconds(const struct program *p, const struct target *t, struct arena scratch)
{
    f64 sum = 0;
    for (i32 i = 0; i < p->instr_count; i++)
        sum += target_seconds(t, p->graph, &p->graph->nodes[p->instrs[i].node], scratch);
    return sum;
}
