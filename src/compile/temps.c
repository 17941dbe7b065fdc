/* temps.c - where temporaries lie: values that live at different times share bytes.
 *
 * 1. Views join their source, and a result joins an input that dies at its node where the table
 *    says it may (column `share`): a class of values is one piece of memory.
 * 2. Each class lives from its first write to its last read; a workspace for one instruction.
 * 3. Greatest first, each goes to the lowest place where it meets no other that lives at the same
 *    time (greedy by size; Pisarchyk and Lee, arXiv 2001.03288). */
#include "compile/compile_int.h"
#include <stdlib.h>

struct piece {
    i64 bytes;
    i32 first, last; /* node indices, both included */
    i64 offset;
    i32 owner; /* root value, or -1 - instruction for a workspace */
};

struct classes {
    i32  *parent;
    i32  *first, *last; /* by root */
    bool *placed;       /* by root: has a persistent member */
};

static i32 root(struct classes *c, i32 v)
{
    while (c->parent[v] != v) v = c->parent[v] = c->parent[c->parent[v]];
    return v;
}

static void join(struct classes *c, i32 a, i32 b)
{
    a = root(c, a);
    b = root(c, b);
    if (a == b) return;
    c->parent[b] = a;
    c->first[a]  = MIN(c->first[a], c->first[b]);
    c->last[a]   = MAX(c->last[a], c->last[b]);
    c->placed[a] |= c->placed[b];
}

static void lifetimes(struct classes *c, const struct graph *g)
{
    for (i32 i = 0; i < g->value_count; i++) {
        c->parent[i] = i;
        c->first[i] = c->last[i] = g->values[i].node;
        c->placed[i]             = g->values[i].kind != VALUE_TEMP;
    }
    for (i32 i = 0; i < g->node_count; i++) {
        for (i32 k = 0; k < g->nodes[i].in_count; k++) c->last[g->nodes[i].in[k]] = i;
    }
}

/* May result `out` of node `index` take over the memory of input `in`? The input must die here,
 * have no place of its own, and be exactly as large. */
static bool may_share(struct classes *c, const struct graph *g, i32 index, i32 out, i32 in)
{
    i32 ri = root(c, in), ro = root(c, out);
    return ri != ro && !c->placed[ri] && c->last[ri] == index && c->first[ro] == index &&
           g->values[in].node >= 0 &&
           type_bytes(g->values[in].type) == type_bytes(g->values[out].type);
}

static void share(struct classes *c, const struct graph *g)
{
    for (i32 i = 0; i < g->node_count; i++) {
        if (op_is_view(g->nodes[i].op)) join(c, g->nodes[i].in[0], g->nodes[i].out);
    }
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (op_is_view(n->op)) continue;
        for (i32 k = 0; k < node_inputs(n); k++) {
            if (!graph_may_share(g, n, k) || !may_share(c, g, i, n->out, n->in[k])) continue;
            join(c, n->out, n->in[k]);
            break;
        }
    }
}

static int larger_first(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first > y->first ? 1 : -1;
    return (x->owner > y->owner) - (x->owner < y->owner);
}

/* `low` holds the placed pieces by rising offset; the new one goes to the first gap that is free. */
static void place(struct piece **low, i64 count, struct piece *p, i64 base, i64 align)
{
    i64 at = base;
    for (i64 i = 0; i < count; i++) {
        const struct piece *q = low[i];
        if (q->first > p->last || q->last < p->first) continue;
        if (q->offset >= at + p->bytes) break;
        at = MAX(at, (q->offset + q->bytes + align - 1) / align * align);
    }
    p->offset = at;
    i64 i     = count;
    for (; i > 0 && low[i - 1]->offset > at; i--) low[i] = low[i - 1];
    low[i] = p;
}

static i64 collect_pieces(struct classes *c, struct program *p, const struct target *target,
                          struct piece *pieces)
{
    const struct graph *g     = p->graph;
    i64                 count = 0;
    for (i32 i = 0; i < g->value_count; i++) {
        if (root(c, i) != i || c->placed[i] || g->values[i].node < 0) continue;
        /* a class can only hold values of one size */
        pieces[count++] =
            (struct piece){ type_bytes(g->values[i].type), c->first[i], c->last[i], -1, i };
    }
    for (i32 i = 0; i < p->instr_count; i++) {
        struct instr *ins = &p->instrs[i];
        if (target->work_bytes)
            ins->work_bytes = target->work_bytes(target, g, &g->nodes[ins->node]);
        if (target->kernel_name)
            ins->kernel = str_of(target->kernel_name(target, g, &g->nodes[ins->node]));
        if (ins->work_bytes)
            pieces[count++] = (struct piece){ ins->work_bytes, ins->node, ins->node, -1, -1 - i };
    }
    return count;
}

static void write_offsets(struct classes *c, struct program *p, const struct piece *pieces,
                          i64 count, struct arena scratch)
{
    const struct graph *g  = p->graph;
    i64                *at = NEW(&scratch, i64, g->value_count + 1);
    for (i32 i = 0; i < g->value_count; i++) at[i] = -1;
    for (i32 i = 0; i < g->value_count; i++) {
        if (p->offset[i] >= 0) at[root(c, i)] = p->offset[i];
    }
    for (i64 i = 0; i < count; i++) {
        const struct piece *q = &pieces[i];
        if (q->owner >= 0) at[q->owner] = q->offset;
        else p->instrs[-1 - q->owner].work_offset = q->offset;
        p->bytes = MAX(p->bytes, q->offset + q->bytes);
    }
    for (i32 i = 0; i < g->value_count; i++) {
        p->offset[i] = at[root(c, i)];
        if (p->offset[i] >= 0)
            p->bytes = MAX(p->bytes, p->offset[i] + type_bytes(g->values[i].type));
    }
}

void place_temps(struct program *p, const struct target *target, i64 base, struct arena scratch)
{
    const struct graph *g = p->graph;
    struct classes      c = { 0 };
    c.parent              = NEW(&scratch, i32, g->value_count + 1);
    c.first               = NEW(&scratch, i32, g->value_count + 1);
    c.last                = NEW(&scratch, i32, g->value_count + 1);
    c.placed              = NEW(&scratch, bool, g->value_count + 1);
    lifetimes(&c, g);
    share(&c, g);
    struct piece  *pieces = NEW(&scratch, struct piece, g->value_count + p->instr_count + 1);
    struct piece **low    = NEW(&scratch, struct piece *, g->value_count + p->instr_count + 1);
    i64            count  = collect_pieces(&c, p, target, pieces);
    qsort(pieces, (size_t)count, sizeof *pieces, larger_first);
    for (i64 i = 0; i < count; i++) place(low, i, &pieces[i], base, target->align_bytes);
    write_offsets(&c, p, pieces, count, scratch);
}
