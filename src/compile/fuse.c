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
 * computed in another order: results are the same to the bit.
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

/* Which pattern it is when a map follows this op. */
static u32 pattern_of(i32 op)
{
    const struct op_info *row = op_info(op);
    if (!(row->attrs & A_then)) return 0;
    if (op_is_map(op)) return FUSE_CHAIN;
    if (row->dtype_class == CLASS_LOW) return FUSE_EPILOGUE;
    return row->attrs & A_eps ? FUSE_BATCHNORM : FUSE_RESIDUAL; /* forward or backward */
}

static const struct value nobody = { .kind = VALUE_TEMP, .node = -1 };

struct fuser {
    struct graph *g;
    u32           patterns;
    i32          *now;   /* by value: what stands for it; itself at first */
    i32          *reads; /* by value: nodes that read it, and one for the host */
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

static bool has_room(const struct graph *g, const struct node *host, i32 map)
{
    u64 shared = op_attrs(host->op, &host->at) & op_info(map)->attrs & ~(u64)A_then;
    return host->at.then.count < THEN_MAX && !shared &&
           g->value_count + OP_OUT_MAX < GRAPH_VALUES_MAX;
}

/* The node gets its results anew, and behind them what its first was until now. */
static void keep_result(struct fuser *f, i32 index)
{
    struct graph *g     = f->g;
    i32           count = op_info(g->nodes[index].op)->out_count, old = g->nodes[index].out;
    i32           fresh = g->value_count;
    for (i32 i = 0; i <= count; i++) {
        graph_reserve(g);
        i32 from = old + i % count, to = g->value_count++;
        g->values[to] = g->values[from];
        f->reads[to]  = f->reads[from];
        f->now[to]    = to;
        if (i) f->now[from] = to;
    }
    for (i32 i = 0; i < count; i++) g->values[old + i] = nobody;
    f->reads[fresh + count]--;
    g->nodes[index].out          = fresh;
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

    struct value *result = &g->values[map->out], *stands = &g->values[running];
    stands->kind         = result->kind;
    stands->name         = result->name;
    result->kind         = VALUE_TEMP; /* and read by nobody: its node goes */
    result->name         = (struct str){ 0 };
    f->now[map->out]     = running;
    f->reads[running]    = f->reads[map->out];
}

static bool commutes(i32 op) { return op == OP_ADD || op == OP_MUL; }

/* Tries to have the map done by the node that makes its operand `at`. */
static bool try_operand(struct fuser *f, const struct node *map, i32 at)
{
    struct graph *g = f->g;
    i32 running = now(f, map->in[at]), made = source(f, running), index = g->values[made].node;
    if (index < 0 || g->nodes[index].out != made) return false;
    const struct node *host = &g->nodes[index];
    if (!(pattern_of(host->op) & f->patterns) || !has_room(g, host, map->op)) return false;
    if (!read_once(f, running) && (running != made || host->at.then.count)) return false;
    i32 operand = map->in_count == 2 ? source(f, map->in[1 - at]) : -1;
    if (operand >= 0 && (!there_at(g, operand, index) ||
                         type_bytes(g->values[operand].type) != type_bytes(g->values[made].type)))
        return false;
    take_over(f, index, map, running, operand);
    return true;
}

static void fuse_maps(struct fuser *f)
{
    for (i32 i = 0; i < f->g->node_count; i++) {
        const struct node map = f->g->nodes[i]; /* values, not nodes, may move */
        if (!op_is_map(map.op) || map.at.then.count) continue;
        if (!try_operand(f, &map, 0) && commutes(map.op)) try_operand(f, &map, 1);
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

void fuse(struct graph *g, u32 patterns, struct arena scratch)
{
    i32          values = g->value_count + g->node_count * OP_OUT_MAX + 1;
    struct fuser f      = { .g = g, .patterns = patterns };
    f.now               = NEW(&scratch, i32, values);
    f.reads             = NEW(&scratch, i32, values);
    count_reads(&f);
    fuse_maps(&f);
    for (i32 i = 0; i < g->node_count; i++) {
        struct node *n  = &g->nodes[i];
        i32         *in = NEW(g->perm, i32, MAX(n->in_count, 1)); /* copies of g share the old */
        for (i32 k = 0; k < n->in_count; k++) in[k] = now(&f, n->in[k]);
        n->in = in;
    }
    remove_dead(g, scratch);
}
