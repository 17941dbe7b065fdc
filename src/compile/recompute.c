/* recompute.c - trading time for memory: a forward value that the backward half reads need not be
 * kept; its node can run again just before it is needed (Chen et al., arXiv 1604.06174).
 *
 *   kept        a ── b ── c ── loss ── c' ── b' ── a'
 *   b dropped   a ── b ── c ── loss ── c' ── b ── b' ── a'
 *
 * Fixed policies drop everything inside a block of the model but what other blocks read. `auto`
 * drops single values, those first that give most bytes back for the time of their node, as few
 * as the budget asks; the fixed policies are among its candidates, and the cheapest that fits wins.
 * A node that writes state runs once; a random one gives the same bits again, being addressed. */
#include "compile/compile_int.h"
#include <stdlib.h>
#include <string.h>

struct rewriter {
    struct graph *g;
    struct node  *from;  /* the nodes as they were */
    const bool   *drop;  /* by value */
    i32          *again; /* by value: its second coming, or -1 */
    i32           forward;
};

static bool is_forward(const struct rewriter *r, i32 value)
{
    i32 node = r->g->values[value].node;
    return node >= 0 && node < r->forward;
}

static i32 second(struct rewriter *r, i32 value);

/* Appends a copy of the node that made `value`, its inputs recomputed where they were dropped. */
static void run_again(struct rewriter *r, i32 value)
{
    struct graph         *g  = r->g;
    const struct node    *n  = &r->from[g->values[value].node];
    const struct op_info *op = op_info(n->op);
    struct node new          = *n;
    new.in                   = NEW(g->perm, i32, MAX(n->in_count, 1));
    for (i32 i = 0; i < n->in_count; i++) new.in[i] = second(r, n->in[i]);
    new.name = str_cat(g->perm, n->name, STR("*"));
    graph_reserve(g);
    new.out = g->value_count;
    for (i32 i = 0; i < op->out_count; i++) {
        graph_reserve(g);
        struct value v              = { .type = g->values[n->out + i].type,
                                        .kind = VALUE_TEMP,
                                        .node = g->node_count };
        r->again[n->out + i]        = g->value_count;
        g->values[g->value_count++] = v;
    }
    graph_reserve(g);
    g->nodes[g->node_count++] = new;
}

/* The value that stands for `value` in the backward half. A view follows what it shows. */
static i32 second(struct rewriter *r, i32 value)
{
    if (!is_forward(r, value)) return value;
    const struct node *n    = &r->from[r->g->values[value].node];
    bool               view = op_is_view(n->op);
    if (view ? second(r, n->in[0]) == n->in[0] : !r->drop[value]) return value;
    if (r->again[value] < 0) run_again(r, value);
    return r->again[value];
}

/* Every node anew: the forward ones as they are, then each backward one after what it needs. */
static void rewrite(struct graph *g, const bool *drop, struct arena scratch)
{
    struct rewriter r     = { .g = g, .drop = drop, .forward = g->forward_count };
    i32             nodes = g->node_count;
    r.from                = NEW(&scratch, struct node, nodes + 1);
    r.again               = NEW(&scratch, i32, g->value_count + 1);
    memcpy(r.from, g->nodes, (size_t)nodes * sizeof *r.from);
    for (i32 i = 0; i < g->value_count; i++) r.again[i] = -1;
    g->node_count = g->forward_count;
    for (i32 i = r.forward; i < nodes; i++) {
        struct node n  = r.from[i];
        i32        *in = NEW(g->perm, i32, MAX(n.in_count, 1));
        for (i32 k = 0; k < n.in_count; k++) in[k] = second(&r, n.in[k]);
        n.in = in;
        graph_reserve(g);
        for (i32 k = 0; k < op_info(n.op)->out_count; k++)
            g->values[n.out + k].node = g->node_count;
        g->nodes[g->node_count++] = n;
    }
}

/* --- which --- */

static f64 node_seconds(const struct graph *g, const struct node *n, const struct target *t,
                        struct arena scratch)
{
    struct sig  s     = graph_sig(g, n, &scratch);
    struct cost c     = op_info(n->op)->cost(&s);
    f64         flops = t->flops_s[DT_F32] > 0 ? t->flops_s[DT_F32] : 100e9; /* two common cores */
    f64         bytes = t->bandwidth_bytes_s > 0 ? t->bandwidth_bytes_s : 20e9;
    return MAX(c.flops / flops, c.bytes / bytes);
}

static bool may_drop(const struct graph *g, i32 value)
{
    const struct value *v = &g->values[value];
    if (v->kind != VALUE_TEMP || v->node < 0 || v->node >= g->forward_count) return false;
    return !op_is_view(g->nodes[v->node].op) &&
           op_info(g->nodes[v->node].op)->effect != EFFECT_STATE;
}

/* Everything made inside the chosen blocks, but for what the forward half reads outside. */
static void drop_blocks(const struct graph *g, i64 every, bool *drop)
{
    for (i32 v = 0; v < g->value_count; v++) {
        drop[v] = may_drop(g, v) && g->nodes[g->values[v].node].block &&
                  (g->nodes[g->values[v].node].block - 1) % every == 0;
    }
    for (i32 i = 0; i < g->forward_count; i++) {
        for (i32 k = 0; k < g->nodes[i].in_count; k++) {
            i32 v = graph_viewed(g, g->nodes[i].in[k]);
            if (drop[v] && g->nodes[g->values[v].node].block != g->nodes[i].block) drop[v] = false;
        }
    }
}

struct trial { /* what a choice of dropped values comes to */
    i64 bytes;
    f64 seconds; /* of a step, by the cost rules */
};

static struct graph *copy_of(const struct graph *g, struct arena *perm)
{
    struct graph *c = NEW(perm, struct graph, 1);
    *c              = *g;
    c->perm         = perm;
    c->values       = NEW(perm, struct value, g->values_max);
    c->nodes        = NEW(perm, struct node, g->nodes_max);
    memcpy(c->values, g->values, (size_t)g->value_count * sizeof *c->values);
    memcpy(c->nodes, g->nodes, (size_t)g->node_count * sizeof *c->nodes);
    return c;
}

static struct trial try_out(const struct graph *g, const bool *drop, const struct target *t,
                            struct plan *p, struct arena scratch)
{
    struct arena  room  = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct graph *c     = copy_of(g, &room);
    struct trial  trial = { 0 };
    rewrite(c, drop, scratch);
    for (i32 i = 0; i < c->node_count; i++)
        trial.seconds += node_seconds(c, &c->nodes[i], t, scratch);
    trial.bytes = program_peak(c, t, p, scratch);
    return trial;
}

struct candidate {
    i32 value;
    f64 seconds_per_byte;
};

static int cheaper_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->seconds_per_byte != y->seconds_per_byte)
        return x->seconds_per_byte > y->seconds_per_byte ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Values the backward half reads, cheapest to make again for their size first. */
static i64 candidates(const struct graph *g, const struct target *t, struct candidate *out,
                      struct arena scratch)
{
    bool *read  = NEW(&scratch, bool, g->value_count + 1);
    i64   count = 0;
    for (i32 i = g->forward_count; i < g->node_count; i++) {
        for (i32 k = 0; k < g->nodes[i].in_count; k++)
            read[graph_viewed(g, g->nodes[i].in[k])] = true;
    }
    for (i32 v = 0; v < g->value_count; v++) {
        if (!read[v] || !may_drop(g, v)) continue;
        f64 s        = node_seconds(g, &g->nodes[g->values[v].node], t, scratch);
        out[count++] = (struct candidate){ v, s / (f64)type_bytes(g->values[v].type) };
    }
    qsort(out, (size_t)count, sizeof *out, cheaper_first);
    return count;
}

static void drop_first(const struct candidate *list, i64 count, bool *drop, i32 values)
{
    memset(drop, 0, (size_t)values * sizeof *drop);
    for (i64 i = 0; i < count; i++) drop[list[i].value] = true;
}

struct choice {
    bool        *drop;
    struct trial trial;
    bool         found;
};

static void consider(struct choice *best, const bool *drop, struct trial t, i64 budget, i32 values)
{
    if (t.bytes > budget || (best->found && t.seconds >= best->trial.seconds)) return;
    memcpy(best->drop, drop, (size_t)values * sizeof *drop);
    best->trial = t;
    best->found = true;
}

/* As few of the cheapest values as fit, found by halving: dropping more never takes more memory
 * but for what packing wastes, so each trial is judged by its own figure. */
static void consider_values(struct choice *best, const struct graph *g, const struct target *t,
                            struct plan *p, i64 budget, struct arena scratch)
{
    struct candidate *list  = NEW(&scratch, struct candidate, g->value_count + 1);
    bool             *drop  = NEW(&scratch, bool, g->value_count + 1);
    i64               count = candidates(g, t, list, scratch), low = 0, high = count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        drop_first(list, middle, drop, g->value_count);
        struct trial trial = try_out(g, drop, t, p, scratch);
        consider(best, drop, trial, budget, g->value_count);
        if (trial.bytes <= budget) high = middle;
        else low = middle + 1;
    }
    drop_first(list, low, drop, g->value_count);
    consider(best, drop, try_out(g, drop, t, p, scratch), budget, g->value_count);
}

static enum status choose(const struct graph *g, const struct recompute_config *c,
                          const struct target *t, struct plan *p, struct choice *best,
                          struct arena scratch, struct err *err)
{
    i64   budget = c->memory_bytes ? c->memory_bytes : t->memory_bytes;
    bool *drop   = NEW(&scratch, bool, g->value_count + 1);
    if (!budget) return STATUS_OK; /* nothing known, nothing to fit */
    consider(best, drop, try_out(g, drop, t, p, scratch), budget, g->value_count);
    if (best->found) return STATUS_OK;
    struct trial all = { 0 };
    for (i64 every = 1; every <= 4; every++) {
        drop_blocks(g, every, drop);
        struct trial trial = try_out(g, drop, t, p, scratch);
        if (every == 1) all = trial;
        consider(best, drop, trial, budget, g->value_count);
    }
    consider_values(best, g, t, p, budget, scratch);
    if (best->found) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "the run needs at least %.2f GiB with everything recomputed, and "
                   "%.2f GiB are allowed: a smaller train.batch or model fits",
                   (f64)all.bytes / 0x1p30, (f64)budget / 0x1p30);
}

enum status recompute(struct graph *g, const struct recompute_config *c,
                      const struct target *target, struct plan *p, struct arena scratch,
                      struct err *err)
{
    struct choice best = { .drop = NEW(&scratch, bool, g->value_count + 1) };
    enum status   st   = STATUS_OK;
    switch (c->kind) {
    case RECOMPUTE_NONE: return STATUS_OK;
    case RECOMPUTE_ALL: drop_blocks(g, 1, best.drop); break;
    case RECOMPUTE_EVERY: drop_blocks(g, MAX(c->every, 1), best.drop); break;
    case RECOMPUTE_AUTO: st = choose(g, c, target, p, &best, scratch, err); break;
    }
    if (!st) rewrite(g, best.drop, scratch);
    return st;
}
