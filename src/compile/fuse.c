/* fuse.c - fewer passes over memory: a map that alone reads what a node makes is done by that node,
 * before it stores.
 *
 *     %5 = matmul(%0, %1, %2)                 %6 = matmul(%0, %1, %2) {then=relu}
 *     %6 = relu(%5)
 *
 * Which nodes can carry maps and which ops are maps is the table's to say (A_then in ops.def). Views
 * on the way do not matter, because a map does not look at shapes. Where others read the node's
 * result too, it is kept as one more result: the gradient of gelu reads the product that gelu had.
 * A map of two operands needs its second when the node runs, so it must be made before. Nothing is
 * computed in another order: results are bit-exact.
 *
 * The pass runs on what is left after recomputation was decided, which knows best one op at a time. */
#include "compile/compile_int.h"
#include <string.h>

static const char *const names[] = {
#define FUSION(id, name, what) name,
    FUSIONS(FUSION)
#undef FUSION
};

bool fusion_find(struct str name, u32 *bits)
{
    for (i64 i = 0; i < COUNT_OF(names); i++) {
        if (!str_eq(name, str_of(names[i]))) continue;
        *bits |= 1u << i;
        return true;
    }
    return false;
}

u32 fusion_of(i32 op)
{
    const struct op_info *row = op_info(op);
    if (!(row->attrs & A_then)) return 0;
    if (op_is_map(op)) return FUSE_CHAIN;
    if (row->dtype_class == CLASS_LOW) return FUSE_EPILOGUE;
    return row->attrs & A_eps ? FUSE_BATCHNORM : FUSE_RESIDUAL; /* forward or backward */
}

/* What no node makes: it has no memory. */
static const struct value nobody = { .kind = VALUE_TEMP, .node = -1 };

struct fuser {
    struct graph *g;
    u32           patterns;
    bool          tables; /* their gradients, too */
    i32          *now;    /* by value: what stands for it; itself at first */
    i32          *reads;  /* by value: nodes that read it, and one for the host */
};

static i32 now(const struct fuser *f, i32 value)
{
    while (f->now[value] != value) value = f->now[value];
    return value;
}

/* Views and all: what `value` shows, through what stands for it now. */
static i32 source(const struct fuser *f, i32 value)
{
    const struct graph *g = f->g;
    value                 = now(f, value);
    while (g->values[value].node >= 0 && op_is_view(g->nodes[g->values[value].node].op))
        value = now(f, g->nodes[g->values[value].node].in[0]);
    return value;
}

/* Is everything from the node's result to `value` read once? Then nobody misses it. */
static bool read_once(const struct fuser *f, i32 value)
{
    for (;;) {
        const struct value *v = &f->g->values[value];
        if (f->reads[value] != 1) return false;
        if (!op_is_view(f->g->nodes[v->node].op)) return true;
        value = now(f, f->g->nodes[v->node].in[0]);
    }
}

/* Is its number the same whenever it is read from node `index` on? */
static bool there_at(const struct graph *g, i32 value, i32 index)
{
    const struct value *v = &g->values[value];
    return v->node >= 0 ? v->node < index : v->kind == VALUE_PARAM || v->kind == VALUE_INPUT;
}

static bool has_values(const struct graph *g)
{
    return g->value_count + OP_OUT_MAX < GRAPH_VALUES_MAX;
}

static bool has_room(const struct graph *g, const struct node *host, i32 map)
{
    u64 shared = op_attrs(host->op, &host->at) & op_info(map)->attrs & ~(u64)A_then;
    return host->at.then.count < THEN_MAX && !shared && has_values(g);
}

/* A new value, the last, made by node `index`: it is what `old` was. */
static void stand_for(struct fuser *f, i32 old, i32 index)
{
    struct graph *g = f->g;
    graph_reserve(g);
    i32 fresh             = g->value_count++;
    g->values[fresh]      = g->values[old];
    g->values[fresh].node = index;
    f->reads[fresh]       = f->reads[old];
    f->now[fresh]         = fresh;
    f->now[old]           = fresh;
    g->values[old]        = nobody;
}

/* The node gets its results anew, and behind them what its first was until now. */
static void keep_result(struct fuser *f, i32 index)
{
    struct graph *g   = f->g;
    i32           old = g->nodes[index].out, count = op_info(g->nodes[index].op)->out_count;
    graph_reserve(g);
    i32 first = g->value_count++;
    g->values[first] =
        (struct value){ .kind = VALUE_TEMP, .type = g->values[old].type, .node = index };
    f->reads[first] = 1;
    f->now[first]   = first;
    for (i32 i = 1; i <= count; i++) stand_for(f, old + i % count, index);
    f->reads[first + count]--;
    g->nodes[index].out          = first;
    g->nodes[index].at.then.keep = true;
}

/* Node `index` takes over the map that reads `running`; `operand` is the map's second, or -1. */
static void take_over(struct fuser *f, i32 index, const struct node *map, i32 running, i32 operand)
{
    struct graph *g = f->g;
    if (f->reads[running] > 1) {
        keep_result(f, index);
        running = g->nodes[index].out;
    }
    struct node *host = &g->nodes[index];
    i32         *in   = NEW(g->perm, i32, host->in_count + 1);
    memcpy(in, host->in, (size_t)host->in_count * sizeof *in);
    host->in = in;
    if (operand >= 0) in[host->in_count++] = operand;
    host->at.then.op[host->at.then.count++] = map->op;
    attrs_copy(&host->at, &map->at, op_info(map->op)->attrs & ~(u64)A_then);

    g->values[running].kind = g->values[map->out].kind;
    g->values[running].name = g->values[map->out].name;
    g->values[map->out]     = nobody;
    f->now[map->out]        = running;
    f->reads[running]       = f->reads[map->out];
}

static bool commutes(i32 op) { return op == OP_ADD || op == OP_MUL; }

/* Tries to have the map done by the node that makes its operand `at`. */
static bool try_operand(struct fuser *f, const struct node *map, i32 at)
{
    struct graph *g = f->g;
    i32 running = now(f, map->in[at]), made = source(f, running), index = g->values[made].node;
    if (index < 0 || g->nodes[index].out != made) return false;
    const struct node *host = &g->nodes[index];
    if (!(fusion_of(host->op) & f->patterns) || !has_room(g, host, map->op)) return false;
    if (!read_once(f, running) && (running != made || host->at.then.count)) return false;
    i32 operand = map->in_count == 2 ? source(f, map->in[1 - at]) : -1;
    if (operand >= 0 && (!there_at(g, operand, index) ||
                         type_bytes(g->values[operand].type) != type_bytes(g->values[made].type)))
        return false;
    take_over(f, index, map, running, operand);
    return true;
}

/* A table's gradient as its rows' is added to what the head gave it: where that lies, and only to the rows that were
 * read. */
static bool try_table(struct fuser *f, const struct node *add, i32 at)
{
    struct graph *g    = f->g;
    i32           rows = now(f, add->in[at]), other = now(f, add->in[1 - at]);
    i32           index = g->values[rows].node;
    if (index < 0 || g->nodes[index].op != OP_EMBEDDING_GRAD || f->reads[rows] != 1) return false;
    struct node *host = &g->nodes[index];
    if (host->in_count != 2 || !there_at(g, other, index) ||
        !type_eq(g->values[other].type, g->values[rows].type))
        return false;
    i32 *in = NEW(g->perm, i32, 3);
    memcpy(in, host->in, 2 * sizeof *in);
    in[2]                = other;
    host->in             = in;
    host->in_count       = 3;
    g->values[rows].kind = g->values[add->out].kind;
    g->values[rows].name = g->values[add->out].name;
    g->values[add->out]  = nobody;
    f->now[add->out]     = rows;
    f->reads[rows]       = f->reads[add->out];
    return true;
}

static void fuse_maps(struct fuser *f)
{
    for (i32 i = 0; i < f->g->node_count; i++) {
        const struct node map = f->g->nodes[i]; /* values, not nodes, may move */
        if (!op_is_map(map.op) || map.at.then.count) continue;
        if (f->tables && map.op == OP_ADD && (try_table(f, &map, 1) || try_table(f, &map, 0)))
            continue;
        if (!try_operand(f, &map, 0) && commutes(map.op)) try_operand(f, &map, 1);
    }
}

/* --- a sum and the norm of it --- */

static i32 norm_of_sum(i32 op)
{
    return op == OP_LAYERNORM ? OP_ADD_LAYERNORM : op == OP_RMSNORM ? OP_ADD_RMSNORM : -1;
}

/* The node of the sum becomes that of the norm, which gives the sum as its last result. */
static void become_norm(struct fuser *f, i32 index, const struct node *norm)
{
    struct graph *g   = f->g;
    struct node   add = g->nodes[index], *n = &g->nodes[index];
    i32          *in = NEW(g->perm, i32, 1 + norm->in_count);
    in[0]            = add.in[0];
    memcpy(in + 1, norm->in, (size_t)norm->in_count * sizeof *in);
    in[1]       = add.in[1]; /* in place of the sum */
    *n          = *norm;
    n->op       = norm_of_sum(norm->op);
    n->in       = in;
    n->in_count = 1 + norm->in_count;
    n->out      = g->value_count;
    for (i32 i = 0; i < op_info(norm->op)->out_count; i++) stand_for(f, norm->out + i, index);
    stand_for(f, add.out, index);
}

static void fuse_norms(struct fuser *f)
{
    struct graph *g = f->g;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node norm = g->nodes[i];
        if (norm_of_sum(norm.op) < 0) continue;
        i32                index = g->values[now(f, norm.in[0])].node;
        const struct node *add   = &g->nodes[MAX(index, 0)];
        bool fits = index >= 0 && add->op == OP_ADD && !add->at.then.count && has_values(g) &&
                    type_eq(g->values[now(f, add->in[0])].type, g->values[now(f, add->in[1])].type);
        for (i32 k = 1; fits && k < norm.in_count; k++)
            fits = there_at(g, now(f, norm.in[k]), index);
        if (fits) become_norm(f, index, &norm);
    }
}

static void count_reads(struct fuser *f)
{
    const struct graph *g = f->g;
    for (i32 v = 0; v < g->value_count; v++) {
        f->now[v]   = v;
        f->reads[v] = g->values[v].kind != VALUE_TEMP;
    }
    for (i32 i = 0; i < g->node_count; i++) {
        for (i32 k = 0; k < g->nodes[i].in_count; k++) f->reads[g->nodes[i].in[k]]++;
    }
}

void fuse(struct graph *g, u32 patterns, const struct target *target, struct arena scratch)
{
    patterns &= ~target->fusions_off;
    bool loss = patterns & FUSE_LOSS && target->loss_part_bytes;
    if (loss) join_loss(g, target->loss_part_bytes, scratch);
    i32          values = g->value_count + g->node_count * OP_OUT_MAX + 1;
    struct fuser f      = { .g = g, .patterns = patterns, .tables = loss };
    f.now               = NEW(&scratch, i32, values);
    f.reads             = NEW(&scratch, i32, values);
    count_reads(&f);
    fuse_maps(&f);
    if (patterns & FUSE_RESIDUAL) fuse_norms(&f);
    for (i32 i = 0; i < g->node_count; i++) {
        struct node *n  = &g->nodes[i];
        i32         *in = NEW(g->perm, i32, MAX(n->in_count, 1)); /* copies of g share the old */
        for (i32 k = 0; k < n->in_count; k++) in[k] = now(&f, n->in[k]);
        n->in = in;
    }
    remove_dead(g, scratch);
}
