/* join.c - which instructions of a program another's kernel may do: by who reads what, and where it lies. */
#include "backend/cuda/module/join.h"

struct span {
    i64 begin, end;
};

static struct span span_of(const struct program *p, i32 value)
{
    i64 at = p->offset[value];
    if (at < 0) return (struct span){ 0, 0 }; /* it has no memory */
    return (struct span){ at, at + type_bytes(p->graph->values[value].type) };
}

static bool meets(struct span a, struct span b) { return a.begin < b.end && b.begin < a.end; }

static const struct node *node_at(const struct program *p, i32 index)
{
    return &p->graph->nodes[p->instrs[index].node];
}

static bool writes(const struct program *p, i32 index, struct span s)
{
    const struct node  *n     = node_at(p, index);
    const struct instr *instr = &p->instrs[index];
    struct span         work  = { instr->work_offset, instr->work_offset + instr->work_bytes };
    bool                any   = instr->work_bytes && meets(work, s);
    for (i32 k = 0; k < node_results(n); k++) any |= meets(span_of(p, n->out + k), s);
    for (i32 k = 0; k < n->in_count && k < 5; k++)
        if (op_info(n->op)->writes >> k & 1) any |= meets(span_of(p, n->in[k]), s);
    return any;
}

static bool reads(const struct program *p, i32 index, struct span s)
{
    const struct node *n   = node_at(p, index);
    bool               any = false;
    for (i32 k = 0; k < n->in_count; k++) any |= meets(span_of(p, n->in[k]), s);
    return any;
}

/* Nodes that read a value, views of it or, for the host, keep it. */
static i32 readers(const struct program *p, i32 value, i32 *reader)
{
    const struct graph *g     = p->graph;
    i32                 count = g->values[value].kind != VALUE_TEMP;
    for (i32 i = 0; i < p->instr_count; i++) {
        const struct node *n = node_at(p, i);
        for (i32 k = 0; k < n->in_count; k++) {
            if (op_is_view(n->op) || graph_viewed(g, n->in[k]) != value) continue;
            count++;
            *reader = i;
        }
    }
    for (i32 v = 0; v < g->value_count; v++)
        if (v != value && g->values[v].kind != VALUE_TEMP && graph_viewed(g, v) == value) count++;
    return count;
}

i32 join_maker(const struct program *p, i32 index)
{
    i32 value = graph_viewed(p->graph, node_at(p, index)->in[0]);
    for (i32 i = index - 1; i >= 0; i--)
        if (node_at(p, i)->out == value && node_results(node_at(p, i))) return i;
    return -1;
}

i32 join_reader(const struct program *p, i32 index)
{
    i32 reader = -1;
    if (readers(p, node_at(p, index)->out, &reader) != 1 || reader < 0) return -1;
    return node_at(p, reader)->op == OP_SWIGLU ? reader : -1;
}

bool join_before(const struct program *p, i32 before, i32 index)
{
    const struct node *n      = node_at(p, before);
    i32                reader = -1;
    if (readers(p, n->out, &reader) != 1 || reader != index) return false;
    for (i32 k = 1; k < node_results(n); k++)
        if (readers(p, n->out + k, &reader)) return false;
    for (i32 k = 0; k < n->in_count; k++)
        for (i32 i = before + 1; i <= index; i++)
            if (writes(p, i, span_of(p, n->in[k]))) return false;
    return true;
}

bool join_gate(const struct program *p, i32 index, i32 gate, i32 before)
{
    struct span to = span_of(p, node_at(p, gate)->out);
    if (before >= 0 && reads(p, before, to)) return false;
    if (reads(p, index, to)) return false;
    for (i32 i = index + 1; i < gate; i++)
        if (reads(p, i, to) || writes(p, i, to)) return false;
    return true;
}
