/* program.c - looking at programs: names, costs, and the check that the layout is sound. */
#include "ir/program.h"

struct type persistent_type(const struct persistent *t)
{
    return t->dealt ? type_of(t->type.dtype, t->whole) : t->type;
}

const struct persistent *program_set_find(const struct program_set *s, struct str name)
{
    for (i32 i = 0; i < s->persistent_count; i++) {
        if (str_eq(s->persistents[i].name, name)) return &s->persistents[i];
    }
    return NULL;
}

enum { ROW_STEPS = 32, ROW_UNIT = 32 }; /* ROW_UNIT: rows that fit kernels' tiles */

i64 program_row_step(const struct program *p)
{
    i64 step = (p->rows + ROW_STEPS - 1) / ROW_STEPS;
    return MAX(1, (step + ROW_UNIT - 1) / ROW_UNIT) * ROW_UNIT;
}

i64 program_capacity(const struct program *p, i64 rows)
{
    i64 step = program_row_step(p);
    return MIN(p->rows, (MAX(rows, 1) + step - 1) / step * step);
}

struct program *program_holding(struct program *largest, i64 rows)
{
    struct program *p        = largest;
    i64             capacity = program_capacity(largest, rows);
    while (p && p->rows > capacity) p = p->smaller;
    return p && p->rows == capacity ? p : NULL;
}

struct program *program_typical(const struct program_set *s, enum program_id id)
{
    struct program *p = s->programs[id];
    if (!p || !p->rows || s->row_share <= 0) return p;
    struct program *typical = program_holding(p, (i64)((f64)p->rows * s->row_share + 0.5));
    return typical ? typical : p;
}

i64 program_set_table_bytes(const struct program_set *s, enum value_kind kind)
{
    i64 bytes = 0;
    for (i32 i = 0; i < s->persistent_count; i++) {
        const struct persistent *p = &s->persistents[i];
        if (p->sparse_rows && p->kind == kind) bytes += type_bytes(p->type);
    }
    return bytes;
}

struct cost program_cost(const struct program *p, struct arena scratch)
{
    struct cost sum = { 0 };
    for (i32 i = 0; i < p->instr_count; i++) {
        struct arena       a = scratch;
        const struct node *n = &p->graph->nodes[p->instrs[i].node];
        struct sig         s = graph_sig(p->graph, n, &a);
        struct cost        c = op_cost(&s);
        sum.flops += c.flops;
        sum.bytes += c.bytes;
    }
    return sum;
}

static struct claim value_claim(const struct program *p, i32 v)
{
    const struct value *x    = &p->graph->values[v];
    bool                stay = x->kind != VALUE_TEMP;
    return (struct claim){ p->offset[v], p->offset[v] + type_bytes(x->type), x->node,
                           stay ? p->graph->node_count : x->node, v };
}

/* Views claim nothing, but reading one reads its source; a view that persists makes it stay. */
i64 program_claims(const struct program *p, struct claim *claims, struct arena scratch)
{
    const struct graph *g     = p->graph;
    i32                *index = NEW(&scratch, i32, g->value_count + 1);
    i64                 count = 0;
    for (i32 v = 0; v < g->value_count; v++) {
        index[v] = -1;
        if (p->offset[v] < 0 || graph_viewed(g, v) != v) continue;
        index[v]        = (i32)count;
        claims[count++] = value_claim(p, v);
    }
    for (i32 v = 0; v < g->value_count; v++) {
        i32 source = index[graph_viewed(g, v)];
        if (source >= 0 && p->offset[v] >= 0 && g->values[v].kind != VALUE_TEMP)
            claims[source].last = g->node_count;
    }
    for (i32 i = 0; i < g->node_count; i++) {
        for (i32 k = 0; k < g->nodes[i].in_count; k++) {
            i32 source = index[graph_viewed(g, g->nodes[i].in[k])];
            if (source >= 0) claims[source].last = MAX(claims[source].last, i);
        }
    }
    for (i32 i = 0; i < p->instr_count; i++) {
        const struct instr *w = &p->instrs[i];
        if (w->work_bytes)
            claims[count++] = (struct claim){ w->work_offset, w->work_offset + w->work_bytes,
                                              w->node, w->node, -1 };
    }
    return count;
}

/* b's producer may overwrite a if the table lets its first result take that input's memory. */
static bool shares(const struct graph *g, const struct claim *a, const struct claim *b)
{
    if (a->value < 0 || b->value < 0 || a->last != b->first || b->first < 0) return false;
    const struct node *n = &g->nodes[b->first];
    if (n->out != b->value) return false;
    for (i32 k = 0; k < node_inputs(n); k++) {
        if (graph_viewed(g, n->in[k]) == a->value && graph_may_share(g, n, k)) return true;
    }
    return false;
}

/* Two names for host-given memory (a range over parameters and a parameter) may overlap. */
static bool both_given(const struct graph *g, const struct claim *a, const struct claim *b)
{
    return a->value >= 0 && b->value >= 0 && a->first < 0 && b->first < 0 &&
           g->values[a->value].kind == g->values[b->value].kind;
}

/* What an instruction reads and writes has a place; all places end before p->bytes. */
static enum status verify_places(const struct program *p, const struct claim *claims, i64 count,
                                 struct err *err)
{
    const struct graph *g = p->graph;
    for (i64 i = 0; i < count; i++) {
        if (claims[i].end > p->bytes)
            return err_set(err, STATUS_WORLD, "%.*s: %%%d ends at byte %lld of %lld",
                           STR_ARG(g->name), claims[i].value, (long long)claims[i].end,
                           (long long)p->bytes);
    }
    for (i32 i = 0; i < p->instr_count; i++) {
        const struct node *n     = &g->nodes[p->instrs[i].node];
        bool               found = true;
        for (i32 k = 0; k < n->in_count; k++) found &= p->offset[n->in[k]] >= 0;
        for (i32 k = 0; k < node_results(n); k++) found &= p->offset[n->out + k] >= 0;
        if (!found)
            return err_set(err, STATUS_WORLD, "%.*s: an operand of %.*s has no place",
                           STR_ARG(g->name), STR_ARG(n->name));
    }
    return STATUS_OK;
}

enum status program_verify(const struct program *p, struct arena scratch, struct err *err)
{
    enum status st = graph_verify(p->graph, scratch, err);
    if (st) return st;
    const struct graph *g      = p->graph;
    struct claim       *claims = NEW(&scratch, struct claim, g->value_count + p->instr_count + 1);
    i64                 count  = program_claims(p, claims, scratch);
    st                         = verify_places(p, claims, count, err);
    if (st) return st;
    for (i64 i = 0; i < count; i++) {
        for (i64 j = i + 1; j < count; j++) {
            const struct claim *a = &claims[i], *b = &claims[j];
            if (a->begin >= b->end || b->begin >= a->end) continue;
            if (a->first > b->last || b->first > a->last) continue;
            if (shares(g, a, b) || shares(g, b, a) || both_given(g, a, b)) continue;
            return err_set(err, STATUS_WORLD,
                           "%.*s: values %%%d and %%%d share bytes while both "
                           "live",
                           STR_ARG(g->name), a->value, b->value);
        }
    }
    return STATUS_OK;
}
