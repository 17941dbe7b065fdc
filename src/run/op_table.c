/* op_table.c - grouping and sorting. Grouping looks each row up in turn: programs have some hundred. */
#include "run/op_table.h"
#include <math.h>
#include <stdlib.h>

struct op_table op_table_new(struct arena *perm, i64 rows_max)
{
    return (struct op_table){ .rows = NEW(perm, struct op_row, MAX(rows_max, 1)) };
}

/* "f32[8,256,384] f32[1152,384] -> f32[8,256,1152]" */
static struct str types_text(struct arena *perm, const struct graph *g, const struct node *n)
{
    struct textbuf b = textbuf_new(perm);
    for (i32 i = 0; i < n->in_count + node_results(n); i++) {
        i32          value = i >= n->in_count ? n->out + i - n->in_count : n->in[i];
        char         text[128];
        struct arena lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
        struct str   type = type_text(&lent, g->values[value].type);
        textbuf_fmt(&b, "%s%.*s",
                    i == n->in_count ? (i ? " -> " : "-> ")
                    : i              ? " "
                                     : "",
                    STR_ARG(type));
    }
    return textbuf_str(&b);
}

static f64 roof_of(const struct target *t, const struct sig *sig, struct cost cost)
{
    bool low  = op_info(sig->op)->dtype_class == CLASS_LOW;
    f64  rate = t->flops_s[low ? sig->in[0].dtype : DT_F32];
    f64  work = rate > 0 ? cost.flops / rate : 0, copy = t->copy_s ? t->copy_s(t, cost.bytes) : 0;
    if (copy > 0) return MAX(work, copy);
    return MAX(work, t->bandwidth_bytes_s > 0 ? cost.bytes / t->bandwidth_bytes_s : 0);
}

static struct op_row row_of(const struct program *p, i32 i, const struct target *target,
                            enum op_grouping by, struct arena *perm)
{
    const struct instr *ins     = &p->instrs[i];
    const struct node  *n       = &p->graph->nodes[ins->node];
    struct arena        scratch = *perm;
    struct sig          sig     = graph_sig(p->graph, n, &scratch);
    struct op_row       r       = { .cost = op_cost(&sig), .memory_bytes = ins->work_bytes };
    r.roof_s = roof_of(target, &sig, r.cost); /* sig's memory is lent until here */
    if (str_eq(ins->kernel, STR(KERNEL_JOINED)))
        r.roof_s = 0, r.cost = (struct cost){ 0 }; /* done on the way, by another */
    for (i32 k = 0; k < node_results(n); k++)
        r.memory_bytes += type_bytes(graph_type(p->graph, n->out + k));
    r.op      = op_text(perm, n->op, &n->at);
    r.what    = by == OPS_BY_KERNEL ? ins->kernel : types_text(perm, p->graph, n);
    i64 colon = by == OPS_BY_KERNEL ? str_find(r.what, ':') : -1;
    if (colon >= 0) r.what.len = colon; /* of a product without its algorithm */
    if (by == OPS_EACH)
        r.what = str_fmt(perm, "%.*s %.*s %.*s", STR_ARG(ins->kernel), STR_ARG(n->name),
                         STR_ARG(r.what));
    return r;
}

void op_table_add(struct op_table *t, const struct program *p, const struct target *target,
                  const f64 *seconds, i64 calls, enum op_grouping by, struct arena *perm)
{
    i64 before = by == OPS_EACH ? t->count : 0;
    for (i32 i = 0; i < p->instr_count; i++) {
        struct op_row r  = row_of(p, i, target, by, perm);
        i64           at = by == OPS_EACH ? before + i : 0;
        while (at < t->count && !(str_eq(t->rows[at].op, r.op) && str_eq(t->rows[at].what, r.what)))
            at++;
        if (at == t->count) t->rows[t->count++] = (struct op_row){ .op = r.op, .what = r.what };
        struct op_row *to = &t->rows[at];
        to->calls += calls;
        to->seconds += seconds[i];
        to->roof_s += r.roof_s * (f64)calls;
        to->cost.flops += r.cost.flops * (f64)calls;
        to->cost.bytes += r.cost.bytes * (f64)calls;
        to->memory_bytes = MAX(to->memory_bytes, r.memory_bytes);
    }
}

f64 op_roof_share(const struct op_row *r)
{
    bool known =
        r->roof_s > 0 && r->seconds > 0; /* what another's kernel does takes no time of its own */
    return known ? r->roof_s / r->seconds : NAN;
}

/* The key by which the largest comes first. */
static f64 key_of(const struct op_row *r, enum op_sort by)
{
    switch (by) {
    case OPS_TIME: return r->seconds;
    case OPS_CALLS: return (f64)r->calls;
    case OPS_FLOPS: return r->cost.flops;
    case OPS_BYTES: return r->cost.bytes;
    case OPS_MEMORY: return (f64)r->memory_bytes;
    case OPS_ROOF:
        return isnan(op_roof_share(r)) ? -INFINITY : -op_roof_share(r); /* not known: last */
    }
    ASSERT(!"an order without a key");
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct op_row *x = a, *y = b;
    if (x->key != y->key) return (x->key < y->key) - (x->key > y->key);
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

void op_table_sort(struct op_table *t, enum op_sort by)
{
    for (i64 i = 0; i < t->count; i++) t->rows[i].key = key_of(&t->rows[i], by);
    qsort(t->rows, (size_t)t->count, sizeof *t->rows, by_key);
}

enum op_sort op_sort_of(struct str name)
{
    static const char *const names[] = { "time", "calls", "flops", "bytes", "memory", "roof" };
    for (i64 i = 0; i < (i64)(sizeof names / sizeof *names); i++)
        if (str_eq(name, str_of(names[i]))) return (enum op_sort)i;
    return OPS_TIME;
}
