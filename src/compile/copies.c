/* copies.c - weights in the low type that stay from one update to the next.
 *
 *     before    train   weight f32 ── cast ── products             update   adamw(weight, ..)
 *     after     train   copies/weight bf16 ── products             update   adamw(weight, .., copies)
 *
 * The optimiser has a weight in its registers: to write it down in bf16 as well is a third of what a cast in the next
 * step reads and writes, and of several micro-batches each would cast again. The copies of all weights with decay are
 * one tensor, "adam.copies", laid out as these are (layout.c). Nobody else has a use for it: checkpoints are without.
 * Whoever changes weights otherwise runs the update with a step of 0, which makes the copies anew and changes nothing
 * (session_renew_copies). Evaluations cast for themselves.
 *
 * A cast that recomputation would drop holds no memory where a copy does: so copies are made only where nothing is
 * dropped (compile.c). */
#include "compile/compile_int.h"

#define COPIES "adam.copies"

bool may_keep_copies(const struct compile_config *c, const struct target *target)
{
    enum recompute_kind kind = c->recompute.kind;
    return target->copies && c->precision == DT_BF16 && c->optimiser == OPTIMISER_ADAMW &&
           c->ranks < 1 && !c->stochastic && c->fp8 == FP8_OFF && !c->frozen_low &&
           (kind == RECOMPUTE_NONE || kind == RECOMPUTE_AUTO);
}

struct str copy_source(const struct value *v)
{
    struct str tail = v->name, head;
    if (v->kind != VALUE_CACHE || !str_cut(&tail, '/', &head) || !str_eq(head, STR(COPIES)))
        return (struct str){ 0 };
    return tail;
}

static bool has_copy(const struct graph *g, const struct node *n)
{
    const struct value *from = &g->values[n->in[0]], *to = &g->values[n->out];
    return n->op == OP_CAST && n->in_count == 1 && from->kind == VALUE_PARAM &&
           group_of(from) == GROUP_DECAY && from->type.dtype == DT_F32 && to->kind == VALUE_TEMP &&
           to->type.dtype == DT_BF16;
}

enum status read_copies(struct graph *g, struct arena scratch, struct err *err)
{
    i32 *now = NEW(&scratch, i32, g->value_count + 1), count = g->value_count;
    for (i32 v = 0; v < count; v++) now[v] = v;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (!has_copy(g, n)) continue;
        struct str name = str_cat(g->perm, STR(COPIES "/"), g->values[n->in[0]].name);
        now[n->out]     = graph_value(g, VALUE_CACHE, name, g->values[n->out].type);
    }
    for (i32 i = 0; i < g->node_count && !g->err.status; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++)
            if (g->nodes[i].in[k] < count) g->nodes[i].in[k] = now[g->nodes[i].in[k]];
    if (!g->err.status) remove_dead(g, scratch);
    return graph_status(g, err);
}

i32 copies_range(struct graph *g, const struct graph *train, i64 count)
{
    for (i32 i = 0; i < train->value_count; i++)
        if (copy_source(&train->values[i]).len)
            return graph_value(g, VALUE_CACHE, STR(COPIES "/decay"),
                               type_of(DT_BF16, shape_1(count)));
    return -1;
}
