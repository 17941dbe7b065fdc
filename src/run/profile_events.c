/* profile_events.c - the figures of a profile's events. */
#include "run/profile_events.h"
#include "run/memory_use.h"

static void emit_parts(const struct subscriber *to, const struct step_split *s)
{
    for (i64 i = 0; i < PART_LOOP_COUNT; i++)
        emit_profile_part(
            to, &(struct event_profile_part){ str_of(clock_part_name((enum part)i)), s->ns[i] });
}

static void emit_ops(const struct subscriber *to, const struct op_table *t)
{
    for (i64 i = 0; i < t->count; i++) {
        const struct op_row *r = &t->rows[i];
        emit_profile_op(to, &(struct event_profile_op){ .op           = r->op,
                                                        .shapes       = r->what,
                                                        .calls        = r->calls,
                                                        .seconds      = r->seconds,
                                                        .flops        = r->cost.flops,
                                                        .bytes        = r->cost.bytes,
                                                        .memory_bytes = r->memory_bytes,
                                                        .roof         = op_roof_share(r) });
    }
}

static void emit_memory(const struct subscriber *to, const struct program_set *set,
                        const struct program *p, struct arena scratch)
{
    if (!p || !p->instr_count) return;
    struct arena         lent    = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct memory_use    m       = memory_use_of(set, p, &scratch, lent);
    struct event_holder *holders = NEW(&scratch, struct event_holder, MAX(m.holder_count, 1));
    const struct node   *at      = &p->graph->nodes[p->instrs[m.peak].node];
    for (i64 i = 0; i < m.holder_count; i++)
        holders[i] = (struct event_holder){ m.holders[i].name, m.holders[i].bytes };
    emit_profile_memory(
        to, &(struct event_profile_memory){ .program          = p->graph->name,
                                            .persistent_bytes = m.persistent_bytes,
                                            .peak_bytes       = m.peak_bytes,
                                            .peak_instruction = m.peak,
                                            .use_bytes        = { m.bytes, p->instr_count },
                                            .holders          = { holders, m.holder_count },
                                            .peak_node        = at->name,
                                            .peak_op = op_text(&scratch, at->op, &at->at) });
}

void profile_emit(const struct subscriber *to, const struct profile *p, const struct target *t,
                  struct arena scratch)
{
    if (!p) return;
    struct step_split    split = profile_split(p);
    struct op_table      ops   = profile_table(p, t, &scratch);
    struct event_profile all   = { .steps   = profile_steps(p),
                                   .ns      = split_sum(&split),
                                   .device  = t->name,
                                   .profile = p,
                                   .target  = t };
    if (all.steps) all.ops = ops.count;
    for (i64 i = 0; i < ops.count; i++) all.ops_seconds += ops.rows[i].seconds;
    emit_profile(to, &all);
    if (!all.steps) return;
    emit_parts(to, &split);
    emit_ops(to, &ops);
    emit_memory(to, profile_set(p), profile_set(p)->programs[PROGRAM_TRAIN], scratch);
    emit_memory(to, profile_set(p), profile_set(p)->programs[PROGRAM_UPDATE], scratch);
}
