/* The loss of a language model in parts: the same loss and gradients as taken whole, and less memory. */
#include "backend/backend.h"
#include "base/rng.h"
#include "compile/compile_int.h"
#include "harness.h"
#include "ir/build.h"
#include <math.h>

enum { BATCH = 4, CONTEXT = 32, WIDTH = 12, WORDS = 60 };

struct shown { /* what a case varies */
    u64  seed;
    bool cap, tied, looks; /* somebody else reads the logits */
    f64  smoothing;
};

static enum status build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                         struct err *err)
{
    const struct shown *s    = context;
    struct type         ids  = type_of(DT_I32, shape_2(batch, CONTEXT));
    struct init         init = { INIT_NORMAL, 0.1 };
    i32                 x    = graph_value(g, VALUE_INPUT, STR("x"), ids),
        y                    = graph_value(g, VALUE_INPUT, STR("y"), ids);
    struct type words        = type_of(DT_F64, shape_2(WORDS, WIDTH));
    i32         table        = graph_param(g, STR("table"), words, init, true);
    i32         head         = s->tied ? table : graph_param(g, STR("head"), words, init, true);
    i32 mix = graph_param(g, STR("mix"), type_of(DT_F64, shape_2(WIDTH, WIDTH)), init, true);
    i32 h = build_matmul(g, STR("mix"), build_embedding(g, STR("embed"), table, x), mix, -1, false,
                         true);
    i32 logits = build_matmul(g, STR("head"), build_unary(g, OP_TANH, STR("tanh"), h), head, -1,
                              false, true);
    (void)mode;
    if (s->cap) logits = build_softcap(g, STR("cap"), logits, 2);
    if (s->looks) graph_output(g, logits, STR("logits"));
    i32 loss = build_sum(g, STR("loss"), build_xent(g, STR("xent"), logits, y, s->smoothing), 0, 2);
    if (loss >= 0) graph_output(g, loss, STR("loss"));
    return graph_status(g, err);
}

struct run {
    struct backend     *b;
    struct program_set *set;
    i32                 joined; /* nodes that take loss and gradient at once */
};

static void put_numbers(struct run *r, u64 seed, struct arena scratch)
{
    for (i32 i = 0; i < r->set->persistent_count; i++) {
        const struct persistent *t     = &r->set->persistents[i];
        i64                      count = shape_count(t->type.shape);
        struct rng_key           key   = { .seed = seed, .name = str_hash(t->name) };
        f64                     *v     = NEW(&scratch, f64, count + 1);
        i32                     *ids   = (i32 *)v;
        for (i64 k = 0; k < count; k++) {
            if (t->type.dtype == DT_F64) v[k] = rng_normal(key, (u64)k);
            else
                ids[k] = (i32)(rng_u32(key, (u64)k) % WORDS) -
                         (k == 3 && str_eq(t->name, STR("y"))) * WORDS;
        }
        if (t->kind == VALUE_PARAM || t->kind == VALUE_INPUT || str_eq(t->name, STR("loss_seed")))
            r->b->table->put(r->b, t->offset, v, type_bytes(t->type));
    }
}

static struct run run_with(struct shown *s, u32 fuse, i64 part_bytes, struct arena *perm,
                           struct arena scratch)
{
    struct run            r      = { 0 };
    struct err            err    = { 0 };
    struct target         target = { 0 };
    struct compile_config c      = { .optimiser = OPTIMISER_SGD, .batch = BATCH, .fuse = fuse };
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_REFERENCE, &r.b, &err), STATUS_OK);
    r.b->table->describe(r.b, &target);
    target.loss_part_bytes = part_bytes;
    if (compile(perm, &target, &c, build, s, &r.set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    struct program *train = r.set->programs[PROGRAM_TRAIN];
    CHECK_EQ(r.b->table->alloc(r.b, r.set->arena_bytes, &err), STATUS_OK);
    put_numbers(&r, s->seed, scratch);
    CHECK_EQ(r.b->table->prepare(r.b, train, perm, &err), STATUS_OK);
    r.b->table->run(r.b, train);
    for (i32 i = 0; i < train->graph->node_count; i++)
        r.joined += train->graph->nodes[i].op == OP_XENT_BOTH;
    return r;
}

/* Sums in another order: rounding of f64, some hundred terms. */
static void check_alike(const struct run *a, const struct run *b, struct arena scratch)
{
    i32 compared = 0;
    for (i32 i = 0; i < a->set->persistent_count; i++) {
        const struct persistent *t = &a->set->persistents[i],
                                *o = program_set_find(b->set, t->name);
        i64 count                  = shape_count(t->type.shape);
        if (t->kind != VALUE_GRAD && t->kind != VALUE_OUTPUT) continue;
        f64 *x = NEW(&scratch, f64, count), *y = NEW(&scratch, f64, count);
        a->b->table->get(a->b, t->offset, x, type_bytes(t->type));
        b->b->table->get(b->b, o->offset, y, type_bytes(t->type));
        for (i64 k = 0; k < count; k++) CHECK(fabs(x[k] - y[k]) <= 1e-13 * (1 + fabs(x[k])));
        compared++;
    }
    CHECK(compared >= 3);
}

/* The gradient of a table that is the head too: its rows are added where the head's lies. */
static void check_table(const struct run *r, bool tied)
{
    const struct program *p     = r->set->programs[PROGRAM_TRAIN];
    i32                   found = 0;
    for (i32 i = 0; i < p->graph->node_count; i++) {
        const struct node *n = &p->graph->nodes[i];
        if (n->op != OP_EMBEDDING_GRAD) continue;
        CHECK_EQ(n->in_count, tied ? 3 : 2);
        if (tied) CHECK_EQ(p->offset[n->out], p->offset[n->in[2]]);
        found++;
    }
    CHECK_EQ(found, 1);
}

TEST(a_loss_in_parts_is_the_loss)
{
    i64 whole = BATCH * CONTEXT * WORDS * (i64)sizeof(f64);
    u64 seed  = test_seed();
    for (i32 i = 0; i < 8; i++) {
        struct shown s     = { rng_mix(seed + (u64)i), i & 1, i & 2, false, i & 4 ? 0.1 : 0 };
        struct arena room  = *perm;
        struct run   plain = run_with(&s, 0, whole, &room, scratch);
        CHECK_EQ(plain.joined, 0);
        for (i32 parts = 1; parts <= 8; parts *= 2) {
            struct run r = run_with(&s, FUSE_ALL, whole / parts, &room, scratch);
            CHECK_EQ(r.joined, parts);
            check_alike(&plain, &r, scratch);
            check_table(&r, s.tied);
            if (parts > 2) CHECK(r.set->arena_bytes < plain.set->arena_bytes);
            r.b->table->close(r.b);
        }
        plain.b->table->close(plain.b);
    }
}

TEST(logits_that_others_read_stay_whole)
{
    struct shown s = { test_seed(), true, true, true, 0 };
    struct run   r = run_with(&s, FUSE_ALL, 1 << 20, perm, scratch);
    CHECK_EQ(r.joined, 0);
    r.b->table->close(r.b);
}

/* However little may be there at a time: one list of them has room for so many. */
TEST(there_are_64_parts_at_most)
{
    struct shown s = { test_seed(), true, true, false, 0 };
    struct run   r = run_with(&s, FUSE_ALL, 1, perm, scratch);
    CHECK_EQ(r.joined, 64);
    r.b->table->close(r.b);
}
