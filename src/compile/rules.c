/* rules.c - what must hold after each pass, beyond what graph_verify asks of any graph.
 *
 * A rule looks at the result alone and does not repeat the pass: it says what later passes, the
 * layout and the host rely on. A broken one is a fault of ours and ends the compilation. Each is
 * linear in the graph, but for names. tests/unit/test_passes.c breaks a graph for every one. */
#include "compile/compile_int.h"
#include "ir/collective.h"

static bool is_trained(const struct value *v) { return v->kind == VALUE_PARAM && !v->frozen; }
static bool is_product(const struct node *n) { return op_info(n->op)->dtype_class == CLASS_LOW; }
static bool has_effect(const struct node *n) { return op_info(n->op)->effect == EFFECT_STATE; }

/* A model is parameters, buffers, inputs, outputs and what lies between. */
enum status rule_build(const struct graph *g, const struct pass_input *in, struct arena scratch,
                       struct err *err)
{
    (void)in, (void)scratch;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        if (v->kind == VALUE_GRAD || v->kind == VALUE_STATE)
            return err_set(err, STATUS_WORLD, "%.*s is not a value that a model makes",
                           STR_ARG(v->name));
    }
    if (!g->forward_count) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "%d nodes are marked as forward ones", g->forward_count);
}

enum status rule_freeze(const struct graph *g, const struct pass_input *in, struct arena scratch,
                        struct err *err)
{
    (void)scratch;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        if (v->kind == VALUE_PARAM && !v->frozen && str_glob(in->config->freeze, v->name))
            return err_set(err, STATUS_WORLD, "%.*s is not frozen", STR_ARG(v->name));
    }
    return STATUS_OK;
}

/* A hidden matrix is trained, and nothing but products reads it, as their second operand. */
enum status rule_hidden(const struct graph *g, const struct pass_input *in, struct arena scratch,
                        struct err *err)
{
    (void)in, (void)scratch;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        if (v->hidden && (!is_trained(v) || v->type.shape.rank < 2))
            return err_set(err, STATUS_WORLD, "%.*s is hidden, and not a trained matrix",
                           STR_ARG(v->name));
    }
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (i32 k = 0; k < n->in_count; k++) {
            if (!g->values[n->in[k]].hidden || (is_product(n) && k == 1)) continue;
            return err_set(err, STATUS_WORLD, "%.*s reads hidden %.*s otherwise than as its weight",
                           STR_ARG(n->name), STR_ARG(g->values[n->in[k]].name));
        }
    }
    return STATUS_OK;
}

/* A table whose rows are trained alone is trained, and one lookup reads it, with room for all its ids. */
enum status rule_tables(const struct graph *g, const struct pass_input *in, struct arena scratch,
                        struct err *err)
{
    i32 *read = NEW(&scratch, i32, g->value_count + 1);
    (void)in;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (i32 k = 0; k < n->in_count; k++) {
            const struct value *v = &g->values[n->in[k]];
            i64 ids = n->op == OP_EMBEDDING ? shape_count(g->values[n->in[1]].type.shape) : 0;
            if (!v->sparse_rows || (n->op == OP_EMBEDDING && !k && !read[n->in[k]]++ &&
                                    MIN(ids, v->type.shape.dim[0]) <= v->sparse_rows))
                continue;
            return err_set(err, STATUS_WORLD, "%.*s reads the table %.*s otherwise than by rows",
                           STR_ARG(n->name), STR_ARG(v->name));
        }
    }
    for (i32 i = 0; i < g->value_count; i++)
        if (g->values[i].sparse_rows && (!is_trained(&g->values[i]) || !read[i]))
            return err_set(err, STATUS_WORLD, "%.*s is not a trained table",
                           STR_ARG(g->values[i].name));
    return STATUS_OK;
}

/* Every trained parameter, and nothing else, has a gradient of its type, made in the backward half; of a table whose
 * rows are trained alone it is rows and their index. */
enum status rule_differentiate(const struct graph *g, const struct pass_input *in,
                               struct arena scratch, struct err *err)
{
    i32 trained = 0, grads = 0;
    (void)in;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v    = &g->values[i];
        struct arena        turn = scratch;
        grads += v->kind == VALUE_GRAD;
        if (!is_trained(v)) continue;
        trained += v->sparse_rows ? 2 : 1;
        i32 d = graph_find(g, str_cat(&turn, v->name, STR(".grad")));
        if (d < 0 || g->values[d].kind != VALUE_GRAD || g->values[d].node < g->forward_count ||
            g->values[d].sparse_rows != v->sparse_rows ||
            (!v->sparse_rows && !type_eq(g->values[d].type, v->type)))
            return err_set(err, STATUS_WORLD, "%.*s has no gradient", STR_ARG(v->name));
    }
    if (graph_find(g, STR("loss_seed")) < 0)
        return err_set(err, STATUS_WORLD, "there is no loss_seed");
    if (grads == trained) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "%d gradients belong to %d of trained parameters", grads,
                   trained);
}

/* Every node writes state, or makes something that persists or is read. */
enum status rule_remove_dead(const struct graph *g, const struct pass_input *in,
                             struct arena scratch, struct err *err)
{
    bool *read = NEW(&scratch, bool, g->value_count + 1);
    (void)in;
    for (i32 i = 0; i < g->node_count; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++) read[g->nodes[i].in[k]] = true;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n      = &g->nodes[i];
        bool               needed = has_effect(n);
        for (i32 k = 0; k < node_results(n); k++)
            needed |= read[n->out + k] || g->values[n->out + k].kind != VALUE_TEMP;
        if (!needed)
            return err_set(err, STATUS_WORLD, "nothing reads what %.*s makes", STR_ARG(n->name));
    }
    return STATUS_OK;
}

/* What persists is not low, but for frozen matrices and tables that are rounded at random, and products read low
 * numbers. */
enum status rule_precision(const struct graph *g, const struct pass_input *in, struct arena scratch,
                           struct err *err)
{
    enum dtype low = in->config->precision;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v   = &g->values[i];
        bool                may = (v->frozen && in->config->frozen_low) || v->table;
        if (v->kind != VALUE_TEMP && v->type.dtype == low && !may)
            return err_set(err, STATUS_WORLD, "%.*s persists in low precision", STR_ARG(v->name));
    }
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (is_product(n) && g->values[n->in[0]].type.dtype != low)
            return err_set(err, STATUS_WORLD, "%.*s is a product in full precision",
                           STR_ARG(n->name));
    }
    return rule_remove_dead(g, in, scratch, err);
}

/* Is operand k of a product, with its factor, what one quantise made in the format that it expects? */
static bool is_quantised(const struct graph *g, const struct node *n, i32 k)
{
    i32                made = g->values[n->in[k]].node;
    const struct node *q    = made < 0 ? NULL : &g->nodes[made];
    return q && q->op == OP_QUANTISE && n->in[k] <= q->out + 1 && n->in[2 + k] == q->out + 2 &&
           q->at.format == (n->at.format >> k & 1);
}

/* 8-bit products read what was cast for them, and each cast has a row of the state to itself. */
enum status rule_fp8(const struct graph *g, const struct pass_input *in, struct arena scratch,
                     struct err *err)
{
    i32   state = graph_find(g, STR("fp8.amax"));
    i64   rows  = state < 0 ? 0 : g->values[state].type.shape.dim[0];
    bool *taken = NEW(&scratch, bool, rows + 1);
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (n->op == OP_MATMUL_FP8 && !(is_quantised(g, n, 0) && is_quantised(g, n, 1)))
            return err_set(err, STATUS_WORLD, "%.*s reads what no cast made", STR_ARG(n->name));
        if (n->op != OP_QUANTISE) continue;
        if (n->in[1] != state || n->at.start < 0 || n->at.start >= rows || taken[n->at.start])
            return err_set(err, STATUS_WORLD, "%.*s has no row of the state to itself",
                           STR_ARG(n->name));
        taken[n->at.start] = true;
    }
    return rule_remove_dead(g, in, scratch, err);
}

/* Of a parameter, as it is or cast. */
static bool is_part(const struct graph *g, i32 value)
{
    i32 node = g->values[value].node;
    return g->values[value].dealt ||
           (node >= 0 && g->nodes[node].op == OP_CAST && g->values[g->nodes[node].in[0]].dealt);
}

/* As many ranks as those that it says it reaches. */
static bool is_over(const struct pass_input *in, const struct node *n)
{
    const struct compile_config *c = in->config;
    if (n->at.over == OVER_ALL) return n->at.ranks == c->ranks;
    struct attrs at = n->at.over == OVER_MACHINE ? over_machine(c) : over_copies(c);
    return shard_has_copies(c) && n->at.ranks == at.ranks;
}

/* How often a gradient is summed over the copies, where it was made. */
static i32 copies_sums(const struct graph *g, i32 grad)
{
    i32 count = 0;
    for (i32 i = g->values[grad].node + 1; i < g->node_count; i++)
        count += g->nodes[i].op == OP_ALL_REDUCE && g->nodes[i].in[0] == grad &&
                 g->nodes[i].at.over == OVER_COPIES;
    return count;
}

/* A part is read to be gathered and for nothing else; the gradient is a part of the ranks' sum. */
enum status rule_deal(const struct graph *g, const struct pass_input *in, struct arena scratch,
                      struct err *err)
{
    for (i32 i = 0; i < g->node_count; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++) {
            const struct node *n = &g->nodes[i];
            if (!is_part(g, n->in[k]) || (n->op == OP_CAST && g->values[n->in[k]].dealt) ||
                (n->op == OP_GATHER_PARTS && is_over(in, n)))
                continue;
            return err_set(err, STATUS_WORLD, "%.*s reads a part of a parameter", STR_ARG(n->name));
        }
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v    = &g->values[i];
        struct arena        turn = scratch;
        i32 d = v->dealt ? graph_find(g, str_cat(&turn, v->name, STR(".grad"))) : -1;
        if (d < 0) continue;
        i32 made = g->values[d].node;
        if (made < 0 || g->nodes[made].op != OP_REDUCE_SCATTER || !is_over(in, &g->nodes[made]) ||
            !type_eq(g->values[d].type, v->type) || copies_sums(g, d) != copies_summed_early(in))
            return err_set(err, STATUS_WORLD, "the gradient of %.*s is not summed over the ranks",
                           STR_ARG(v->name));
    }
    return rule_remove_dead(g, in, scratch, err);
}

/* No node makes a gradient; one adds to each. */
enum status rule_accumulate(const struct graph *g, const struct pass_input *in,
                            struct arena scratch, struct err *err)
{
    i32 *added = NEW(&scratch, i32, g->value_count + 1);
    (void)in;
    for (i32 i = 0; i < g->node_count; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++)
            if (has_effect(&g->nodes[i]) && op_writes(op_info(g->nodes[i].op), k))
                added[g->nodes[i].in[k]]++;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        if (v->kind != VALUE_GRAD || (v->node < 0 && added[i] == 1)) continue;
        return err_set(err, STATUS_WORLD, "%.*s is not added to once", STR_ARG(v->name));
    }
    return STATUS_OK;
}

/* --- the update --- */

struct written {
    i64  group[GROUP_COUNT]; /* how often all of it is */
    i64 *rows; /* by value of the training graph: of a hidden matrix, from the first on */
};

/* A range of parameters that an optimiser writes; false: it is none. */
static bool add_written(struct written *w, const struct graph *train, const struct value *v,
                        struct room room)
{
    struct range r = range_of(v->name);
    if (v->sparse_rows) {
        i32 table = graph_find(train, v->name);
        return table >= 0 && train->values[table].sparse_rows && ++w->rows[table] == 1;
    }
    if (r.group == GROUP_DECAY || r.group == GROUP_REST) {
        w->group[r.group]++;
        i64 all = group_count(train, r.group, r.group + 1, room);
        return shape_count(v->type.shape) == all / room.parts;
    }
    i32 p = r.group == GROUP_HIDDEN ? graph_find(train, r.param) : -1;
    if (p < 0 || !train->values[p].hidden || r.row != w->rows[p]) return false;
    w->rows[p] += v->type.shape.dim[0];
    return true;
}

/* No weight that has a copy is cast to its type. */
enum status rule_copies(const struct graph *g, const struct pass_input *in, struct arena scratch,
                        struct err *err)
{
    (void)in, (void)scratch;
    for (i32 i = 0; i < g->value_count; i++) {
        struct str source = copy_source(&g->values[i]);
        i32        weight = source.len ? graph_find(g, source) : -1;
        for (i32 k = 0; weight >= 0 && k < g->node_count; k++)
            if (g->nodes[k].op == OP_CAST && g->nodes[k].in[0] == weight &&
                type_eq(g->values[g->nodes[k].out].type, g->values[i].type))
                return err_set(err, STATUS_WORLD, "%.*s is cast beside its copy", STR_ARG(source));
    }
    return STATUS_OK;
}

/* Every trained parameter is written once, and no other. */
enum status rule_update(const struct graph *g, const struct pass_input *in, struct arena scratch,
                        struct err *err)
{
    const struct graph *train = in->train;
    struct written      w     = { .rows = NEW(&scratch, i64, train->value_count + 1) };
    bool                steps = graph_find(train, STR("fp8.amax")) < 0;
    struct room         room  = { in->target->align_bytes, shard_parts(in->config) };
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        steps |= n->op == OP_FP8_ADVANCE;
        for (i32 k = 0; has_effect(n) && k < n->in_count; k++) {
            const struct value *v = &g->values[n->in[k]];
            if (v->kind != VALUE_PARAM || !op_writes(op_info(n->op), k)) continue;
            if (n->op == OP_ALL_GATHER) continue; /* what the other ranks have updated */
            if (n->op == OP_RANK_BROADCAST && n->at.start == shard_place(in->config)) continue;
            if (!add_written(&w, train, v, room))
                return err_set(err, STATUS_WORLD, "%.*s is not a range to update",
                               STR_ARG(v->name));
        }
    }
    for (i32 i = 0; i < train->value_count; i++) {
        const struct value *p = &train->values[i];
        if (!is_trained(p)) continue;
        i64 rows = p->sparse_rows ? 1 : p->type.shape.dim[0];
        if (p->hidden || p->sparse_rows ? w.rows[i] != rows : w.group[group_of(p)] != 1)
            return err_set(err, STATUS_WORLD, "%.*s is not updated once", STR_ARG(p->name));
    }
    return steps ? STATUS_OK : err_set(err, STATUS_WORLD, "fp8.amax is not advanced");
}

/* It looks at gradients and changes nothing. */
/* Every matrix's gradient is summed over the ranks, once, behind what makes it. */
enum status rule_early(const struct graph *g, const struct pass_input *in, struct arena scratch,
                       struct err *err)
{
    i32 *sums = NEW(&scratch, i32, g->value_count + 1);
    if (!sums_early(in, g)) return STATUS_OK;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (n->op != OP_ALL_REDUCE || n->at.over != OVER_ALL || !is_over(in, n)) continue;
        sums[n->in[0]] += g->values[n->in[0]].node < i ? 1 : 2;
    }
    for (i32 i = 0; i < g->value_count; i++)
        if (sums[i] != is_summed_early(g, &g->values[i]))
            return err_set(err, STATUS_WORLD, "%.*s is not summed over the ranks once",
                           STR_ARG(g->values[i].name));
    return STATUS_OK;
}

/* Elements of gradients that the update must sum over all ranks or over those of a machine, and of parts that it must
 * sum over the copies. */
struct sums {
    i64 whole, copies;
};

static struct sums sums_due(const struct pass_input *in)
{
    const struct graph *train = in->train;
    struct room         room  = { in->target->align_bytes, shard_parts(in->config) };
    enum group begin  = sums_early(in, train) ? GROUP_REST : GROUP_HIDDEN; /* early.c has these */
    bool       dealt  = deals(in->config);                                 /* deal.c has the rest */
    bool       copies = shard_has_copies(in->config) && !copies_summed_early(in);
    i64        parts  = group_count(train, GROUP_DECAY, GROUP_FROZEN, room) / room.parts;
    return (struct sums){ group_count(train, begin, dealt ? GROUP_DECAY : GROUP_FROZEN, room),
                          copies ? parts : 0 };
}

/* Every gradient is summed over all ranks, once, and every buffer comes from the last rank, which has a
 * sample of each batch. */
enum status rule_shard(const struct graph *g, const struct pass_input *in, struct arena scratch,
                       struct err *err)
{
    const struct graph *train  = in->train;
    struct sums         due    = sums_due(in);
    i64                 tables = 0, buffers = 0;
    (void)scratch;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node  *n = &g->nodes[i];
        const struct value *v = &g->values[n->in[0]];
        if (!is_over(in, n))
            return err_set(err, STATUS_WORLD, "%.*s is not over all ranks of its group",
                           STR_ARG(n->name));
        if (n->op == OP_ROWS_REDUCE) tables++;
        if (n->op == OP_RANK_BROADCAST && v->kind == VALUE_BUFFER)
            buffers += n->at.start == in->config->ranks - 1 ? 1 : 2;
        bool sum  = n->op == OP_ALL_REDUCE || n->op == OP_REDUCE_SCATTER;
        bool part = v->kind == VALUE_TEMP && v->node >= 0 && n->at.over == OVER_COPIES;
        if (!sum || (v->kind != VALUE_GRAD && !part)) continue;
        *(n->at.over == OVER_COPIES ? &due.copies : &due.whole) -= shape_count(v->type.shape);
    }
    for (i32 i = 0; i < train->value_count; i++) {
        tables -= train->values[i].kind == VALUE_PARAM && train->values[i].sparse_rows > 0;
        buffers -= train->values[i].kind == VALUE_BUFFER;
    }
    if (buffers) return err_set(err, STATUS_WORLD, "not every buffer is shared by the ranks once");
    if (!due.whole && !due.copies && !tables) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "not every gradient is summed over the ranks once");
}

enum status rule_square(const struct graph *g, const struct pass_input *in, struct arena scratch,
                        struct err *err)
{
    i32 out = graph_find(g, STR("grad_square"));
    (void)in, (void)scratch;
    if (out < 0 || g->values[out].node < 0)
        return err_set(err, STATUS_WORLD, "there is no grad_square");
    for (i32 i = 0; i < g->node_count; i++)
        if (has_effect(&g->nodes[i]))
            return err_set(err, STATUS_WORLD, "%.*s writes", STR_ARG(g->nodes[i].name));
    return STATUS_OK;
}

/* --- after the layout of what persists --- */

/* The backward half reads nothing that was dropped, and no buffer is written a second time. */
enum status rule_recompute(const struct graph *g, const struct pass_input *in, struct arena scratch,
                           struct err *err)
{
    (void)scratch;
    for (i32 i = g->forward_count; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (i32 k = 0; k < n->in_count; k++) {
            const struct value *v       = &g->values[n->in[k]];
            bool                forward = v->node >= 0 && v->node < g->forward_count;
            if (forward && in->drop[n->in[k]] && !op_is_view(g->nodes[v->node].op))
                return err_set(err, STATUS_WORLD, "%.*s reads %%%d, which is not kept",
                               STR_ARG(n->name), n->in[k]);
            if (has_effect(n) && op_writes(op_info(n->op), k) && v->kind == VALUE_BUFFER)
                return err_set(err, STATUS_WORLD, "%.*s writes %.*s again", STR_ARG(n->name),
                               STR_ARG(v->name));
        }
    }
    return STATUS_OK;
}

static i32 first_reader(const struct graph *g, i32 value)
{
    for (i32 i = g->values[value].node + 1; i < g->node_count; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++)
            if (graph_viewed(g, g->nodes[i].in[k]) == value && !op_is_view(g->nodes[i].op))
                return i;
    return g->node_count;
}

/* Where a gathered weight is first read, the next one of that half is on its way, and no other. */
enum status rule_ahead(const struct graph *g, const struct pass_input *in, struct arena scratch,
                       struct err *err)
{
    i32 *reader = NEW(&scratch, i32, g->node_count + 1);
    (void)in;
    for (i32 i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == OP_GATHER_PARTS) reader[i] = first_reader(g, g->nodes[i].out);
    for (i32 i = 0; i < g->node_count; i++) {
        i32 end = i < g->forward_count ? g->forward_count : g->node_count, ahead = 0, later = 0;
        for (i32 k = i + 1; reader[i] && k < end; k++) {
            if (!reader[k]) continue;
            if (k > reader[i]) later++;
            else if (reader[k] > reader[i]) ahead++; /* not for the same */
        }
        if (ahead > 1 || (!ahead && later))
            return err_set(err, STATUS_WORLD, "%.*s has %d gathered before it is read, not one",
                           STR_ARG(g->nodes[i].name), ahead);
    }
    return STATUS_OK;
}

/* Only what was asked for and the target can do is fused, and nothing is left over. */
enum status rule_fuse(const struct graph *g, const struct pass_input *in, struct arena scratch,
                      struct err *err)
{
    u32 allowed = in->config->fuse & ~in->target->fusions_off;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n    = &g->nodes[i];
        bool               norm = n->op == OP_ADD_LAYERNORM || n->op == OP_ADD_RMSNORM;
        if ((n->at.then.count && !(fusion_of(n->op) & allowed)) ||
            (norm && !(allowed & FUSE_RESIDUAL)))
            return err_set(err, STATUS_WORLD, "%.*s is fused, which is off", STR_ARG(n->name));
    }
    return rule_remove_dead(g, in, scratch, err);
}
