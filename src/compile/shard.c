/* shard.c - what makes the updates of several ranks one.
 *
 *     none    all_reduce of all gradients; each rank then updates everything
 *     state   (ZeRO-1, Rajbhandari et al. 2020) reduce_scatter of each group; a rank holds the optimiser's state of its
 *             part of it and updates that; all_gather of the parameters
 *     all     (ZeRO-3) a rank has its parts of the sums already (deal.c), and updates its parts of the parameters
 *
 * With copies (train.shard_over=machine; FSDP's HYBRID_SHARD) state and all are of the ranks of a machine, which have
 * their parts of the sums over these; all_reduce adds up the parts of all machines, 1 / places of the gradients on the
 * network, once a step.
 *
 * The sum stands at the head of the update and not behind each gradient, so that a step of many micro-batches is
 * summed once. Every rank has divided its loss by the rows of the whole step already: a sum is all that is left to do.
 * Hidden matrices (of Muon) stay whole on every rank, as do tables of which a step's rows are trained. With state and
 * all, each matrix is updated by one rank, which alone has its momentum and sends the result to all: the products of an
 * update are then shared too. The cut is ranks_owner's (collective.h). */
#include "compile/compile_int.h"
#include "ir/build.h"
#include "ir/collective.h"

i32 shard_places(const struct compile_config *c)
{
    return c->places ? c->places : MAX(c->ranks, 1);
}

i32 shard_place(const struct compile_config *c) { return c->places ? c->place : c->rank; }

bool shard_has_copies(const struct compile_config *c)
{
    return c->shard != SHARD_NONE && shard_places(c) > 1 && shard_places(c) < c->ranks;
}

struct attrs over_all(const struct compile_config *c)
{
    return (struct attrs){ .ranks = c->ranks };
}

struct attrs over_machine(const struct compile_config *c)
{
    return (struct attrs){ .ranks = shard_places(c),
                           .over  = shard_has_copies(c) ? OVER_MACHINE : OVER_ALL };
}

struct attrs over_copies(const struct compile_config *c)
{
    return (struct attrs){ .ranks = c->ranks / shard_places(c), .over = OVER_COPIES };
}

i32 shard_parts(const struct compile_config *c)
{
    return c->shard == SHARD_STATE ? shard_places(c) : 1;
}

i32 shard_owners(const struct compile_config *c)
{
    return c->shard != SHARD_NONE ? shard_places(c) : 1;
}

void shard_matrix(struct graph *g, const struct compile_config *c, i32 matrix, i32 owner)
{
    struct attrs at = over_machine(c);
    at.start        = owner;
    if (g->err.status) return;
    graph_op(g, OP_RANK_BROADCAST, str_cat(g->perm, g->values[matrix].name, STR(".all")), &matrix,
             1, &at);
}

static void reduce_tables(struct graph *g, const struct graph *train, const struct attrs *at)
{
    for (i32 i = 0; i < train->value_count && !g->err.status; i++) {
        const struct value *p = &train->values[i];
        if (p->kind != VALUE_PARAM || !p->sparse_rows) continue;
        i32 in[] = { table_rows(g, p), table_index(g, p) };
        graph_op(g, OP_ROWS_REDUCE, str_cat(g->perm, p->name, STR(".sum")), in, 2, at);
    }
}

/* Statistics of batch norms are of each rank's part; those of one rank go to all, as DDP's broadcast_buffers does. The
 * last has a sample of every batch, however short: what a rank without one has made of its statistics (deal.c) goes. */
static void share_buffers(struct graph *g, const struct graph *train,
                          const struct compile_config *c)
{
    struct attrs at = over_all(c);
    at.start        = c->ranks - 1;
    for (i32 i = 0; i < train->value_count && !g->err.status; i++) {
        const struct value *b = &train->values[i];
        if (b->kind != VALUE_BUFFER) continue;
        i32 own = graph_value(g, VALUE_BUFFER, b->name, b->type);
        graph_op(g, OP_RANK_BROADCAST, str_cat(g->perm, b->name, STR(".shared")), &own, 1, &at);
    }
}

static void sum_copies(struct graph *g, const struct compile_config *c, i32 part, struct str name)
{
    struct attrs at = over_copies(c);
    if (part < 0 || !shard_has_copies(c)) return;
    graph_op(g, OP_ALL_REDUCE, str_cat(g->perm, name, STR(".copies")), &part, 1, &at);
}

/* Hidden matrices are summed whole everywhere, the other groups dealt out. */
static void reduce_groups(struct graph *g, const struct compile_config *c,
                          const struct graph *train, struct room room)
{
    struct attrs all = over_all(c), machine = over_machine(c);
    for (enum group which = GROUP_HIDDEN; which < GROUP_FROZEN && !g->err.status; which++) {
        if (!group_count(train, which, which + 1, room)) continue;
        i32        grads = group_range(g, VALUE_GRAD, "grads", train, which, room);
        struct str name = g->values[grads].name, sum = str_cat(g->perm, name, STR(".sum"));
        if (which == GROUP_HIDDEN) graph_op(g, OP_ALL_REDUCE, sum, &grads, 1, &all);
        else sum_copies(g, c, graph_op(g, OP_REDUCE_SCATTER, sum, &grads, 1, &machine), name);
    }
}

/* train.shard=all: of the others each rank has its part of its machine's sum already (deal.c). */
static void reduce_dealt(struct graph *g, const struct pass_input *in, struct room room)
{
    const struct compile_config *c     = in->config;
    const struct graph          *train = in->train;
    struct attrs                 all   = over_all(c);
    for (enum group which = GROUP_HIDDEN; which < GROUP_FROZEN && !g->err.status; which++) {
        bool left = which == GROUP_HIDDEN || (shard_has_copies(c) && !copies_summed_early(in));
        if (!left || !group_count(train, which, which + 1, room)) continue;
        i32 grads = group_range(g, VALUE_GRAD, "grads", train, which, room);
        if (which != GROUP_HIDDEN) sum_copies(g, c, grads, g->values[grads].name);
        else graph_op(g, OP_ALL_REDUCE, STR("grads/hidden.sum"), &grads, 1, &all);
    }
}

enum status shard_gradients(struct graph *g, const struct pass_input *in, struct err *err)
{
    const struct compile_config *c     = in->config;
    const struct graph          *train = in->train;
    struct attrs                 at    = over_all(c);
    struct room                  room  = { in->target->align_bytes, shard_parts(c) };
    i32                          amax  = graph_find(train, STR("fp8.amax"));
    if (deals(c)) reduce_dealt(g, in, room);
    else if (room.parts > 1) reduce_groups(g, c, train, room);
    else {
        bool early = sums_early(in, train); /* then only the small ones are left */
        bool none  = early && !group_count(train, GROUP_REST, GROUP_FROZEN, room);
        i32  grads = none    ? -1
                     : early ? group_range(g, VALUE_GRAD, "grads", train, GROUP_REST, room)
                             : gradients_of(g, train, room);
        if (!none) graph_op(g, OP_ALL_REDUCE, STR("grads.sum"), &grads, 1, &at);
    }
    reduce_tables(g, train, &at);
    share_buffers(g, train, c);
    if (amax >= 0) { /* the scales of the next steps must be the same everywhere */
        i32 state  = graph_value(g, VALUE_STATE, STR("fp8.amax"), train->values[amax].type);
        at.largest = 1;
        graph_op(g, OP_ALL_REDUCE, STR("fp8.amax.largest"), &state, 1, &at);
    }
    return graph_status(g, err);
}

i32 shard_gradient(const struct graph *g, struct str range)
{
    for (i32 i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == OP_REDUCE_SCATTER && str_eq(g->values[g->nodes[i].in[0]].name, range))
            return g->nodes[i].out;
    return -1;
}

/* Each rank that shares a state has a number of its own: as many of it as there are ranks are scattered, and what
 * arrives is the sum. Copies have the same one. */
static i32 sum_of_ranks(struct graph *g, const struct compile_config *c, i32 one)
{
    struct attrs at  = over_machine(c);
    i32          all = build_broadcast(g, STR("norm.each"), one, 0, shape_1(at.ranks));
    if (all >= 0) all = build_reshape(g, STR("norm.flat"), all, shape_1(at.ranks));
    return graph_op(g, OP_REDUCE_SCATTER, STR("norm.sum"), &all, 1, &at);
}

i32 shard_square(struct graph *g, const struct compile_config *c, const struct graph *train,
                 struct room room)
{
    i32 sum = -1, whole = -1;
    for (enum group which = GROUP_HIDDEN; which < GROUP_FROZEN && !g->err.status; which++) {
        if (!group_count(train, which, which + 1, room)) continue;
        i32        grads = group_range(g, VALUE_GRAD, "grads", train, which, room);
        struct str name  = g->values[grads].name;
        bool       here  = which == GROUP_HIDDEN || deals(c);
        i32        part  = here ? grads : shard_gradient(g, name);
        i32       *to    = which == GROUP_HIDDEN ? &whole : &sum,
            one = graph_op(g, OP_SUMSQ, str_cat(g->perm, name, STR(".norm")), &part, 1, NULL);
        *to     = *to < 0 ? one
                          : build_binary(g, OP_ADD, str_cat(g->perm, name, STR(".norm+")), *to, one);
    }
    if (sum >= 0) sum = sum_of_ranks(g, c, sum);
    if (sum < 0 || whole < 0) return sum < 0 ? whole : sum;
    return build_binary(g, OP_ADD, STR("norm+"), sum, whole);
}

void shard_gather(struct graph *g, const struct compile_config *c, const struct graph *train,
                  struct room room)
{
    struct attrs at = over_machine(c);
    for (enum group which = GROUP_DECAY; which < GROUP_FROZEN && !g->err.status; which++) {
        if (!group_count(train, which, which + 1, room)) continue;
        i32 params = group_range(g, VALUE_PARAM, "params", train, which, room);
        graph_op(g, OP_ALL_GATHER, str_cat(g->perm, g->values[params].name, STR(".all")), &params,
                 1, &at);
    }
}
