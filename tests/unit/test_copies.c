/* Copies of weights in the low type, from update to update: the numbers are those of casts, and there are none where
 * they do not pay. */
#include "backend/backend.h"
#include "base/rng.h"
#include "compile/compile_int.h"
#include "harness.h"
#include "ir/build.h"

enum { BATCH = 4, CONTEXT = 16, WIDTH = 24, WORDS = 40, STEPS = 3 };

static enum status build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                         struct err *err)
{
    struct type ids   = type_of(DT_I32, shape_2(batch, CONTEXT));
    struct init init  = { INIT_NORMAL, 0.1 };
    i32         x     = graph_value(g, VALUE_INPUT, STR("x"), ids),
        y             = graph_value(g, VALUE_INPUT, STR("y"), ids);
    struct type words = type_of(DT_F32, shape_2(WORDS, WIDTH));
    i32         table = graph_param(g, STR("table"), words, init, true);
    i32         h     = build_embedding(g, STR("embed"), table, x), logits;
    (void)context, (void)mode;
    for (i32 i = 0; i < 3; i++) {
        struct str  name = str_fmt(g->perm, "h.%d.mix", i);
        struct type mix  = type_of(DT_F32, shape_2(WIDTH, WIDTH)),
                    bias = type_of(DT_F32, shape_1(WIDTH));
        i32 w            = graph_param(g, name, mix, init, true),
            b            = graph_param(g, str_cat(g->perm, name, STR(".bias")), bias, init, false);
        g->block         = i + 1;
        h = build_unary(g, OP_TANH, name, build_matmul(g, name, h, w, b, false, true));
    }
    g->block = 0;
    logits   = build_matmul(g, STR("head"), h, table, -1, false, true);
    i32 loss = build_sum(g, STR("loss"), build_xent(g, STR("xent"), logits, y, 0), 0, 2);
    if (loss >= 0) graph_output(g, loss, STR("loss"));
    return graph_status(g, err);
}

struct run {
    struct backend     *b;
    struct program_set *set;
};

static struct compile_config config_of(i64 accumulate)
{
    return (struct compile_config){ .optimiser  = OPTIMISER_ADAMW,
                                    .eps        = 1e-8,
                                    .decay      = 0.1,
                                    .clip       = 1,
                                    .precision  = DT_BF16,
                                    .batch      = BATCH,
                                    .eval_batch = BATCH,
                                    .accumulate = accumulate,
                                    .fuse       = FUSE_ALL };
}

static struct run open_run(struct compile_config c, bool copies, i64 memory_bytes,
                           struct arena *perm, struct arena scratch)
{
    struct run    r      = { 0 };
    struct err    err    = { 0 };
    struct target target = { 0 };
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_REFERENCE, &r.b, &err), STATUS_OK);
    r.b->table->describe(r.b, &target);
    target.copies       = copies;
    target.memory_bytes = memory_bytes;
    if (compile(perm, &target, &c, build, NULL, &r.set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return r;
}

static void put(const struct run *r, const char *name, const void *data, i64 bytes)
{
    r->b->table->put(r->b, program_set_find(r->set, str_of(name))->offset, data, bytes);
}

/* Weights, ids and scalars by their names. */
static void put_numbers(const struct run *r, u64 seed, enum value_kind kind, struct arena scratch)
{
    for (i32 i = 0; i < r->set->persistent_count; i++) {
        const struct persistent *t     = &r->set->persistents[i];
        i64                      count = shape_count(t->type.shape);
        struct rng_key           key   = { .seed = seed, .name = str_hash(t->name) };
        f32                     *v     = NEW(&scratch, f32, count + 1);
        i32                     *ids   = (i32 *)v;
        if (t->kind != kind) continue;
        for (i64 k = 0; k < count; k++) {
            if (t->type.dtype == DT_F32) v[k] = (f32)(0.3 * rng_normal(key, (u64)k));
            else ids[k] = (i32)(rng_u32(key, (u64)k) % WORDS);
        }
        r->b->table->put(r->b, t->offset, v, type_bytes(t->type));
    }
}

static void run_update(const struct run *r, f32 step)
{
    f32 hyper[4] = { 0.01f, 0.9f, 0.99f, step };
    put(r, "hyper", hyper, sizeof hyper);
    r->b->table->run(r->b, r->set->programs[PROGRAM_UPDATE]);
}

/* Some steps; in the middle the host puts other weights, and has the copies made anew. */
static void train(const struct run *r, u64 seed, i64 accumulate, struct arena *perm,
                  struct arena scratch)
{
    struct err err = { 0 };
    f32        one = 1.0f / (BATCH * CONTEXT);
    CHECK_EQ(r->b->table->alloc(r->b, r->set->arena_bytes, &err), STATUS_OK);
    for (i32 i = 0; i < PROGRAM_COUNT; i++)
        if (r->set->programs[i])
            CHECK_EQ(r->b->table->prepare(r->b, r->set->programs[i], perm, &err), STATUS_OK);
    r->b->table->put(r->b, 0, NULL, r->set->persistent_bytes);
    put(r, "loss_seed", &one, sizeof one);
    for (i32 step = 0; step < STEPS; step++) {
        if (step != 1) {
            put_numbers(r, seed + (u64)step, VALUE_PARAM, scratch);
            run_update(r, 0);
        }
        for (i64 k = 0; k < accumulate; k++) {
            put_numbers(r, seed + (u64)(step * accumulate + k), VALUE_INPUT, scratch);
            r->b->table->run(r->b, r->set->programs[k ? PROGRAM_ADD : PROGRAM_TRAIN]);
        }
        run_update(r, (f32)(step + 1));
    }
    r->b->table->run(r->b, r->set->programs[PROGRAM_EVAL]);
}

static i32 casts_of(const struct run *r, enum program_id id)
{
    const struct graph *g     = r->set->programs[id]->graph;
    i32                 count = 0;
    for (i32 i = 0; i < g->node_count; i++)
        count += g->nodes[i].op == OP_CAST && g->values[g->nodes[i].in[0]].kind == VALUE_PARAM;
    return count;
}

static bool has_copies(const struct run *r)
{
    return program_set_find(r->set, STR("adam.copies")) != NULL;
}

TEST(copies_of_weights_give_the_bits_of_casts)
{
    u64 seed = test_seed();
    for (i64 accumulate = 1; accumulate <= 2; accumulate++) {
        struct run plain = open_run(config_of(accumulate), false, 0, perm, scratch),
                   r     = open_run(config_of(accumulate), true, 0, perm, scratch);
        CHECK(has_copies(&r) && !has_copies(&plain));
        CHECK_EQ(casts_of(&plain, PROGRAM_TRAIN), 4);
        CHECK_EQ(casts_of(&r, PROGRAM_TRAIN), 0);
        CHECK_EQ(casts_of(&r, PROGRAM_EVAL), 4);
        train(&plain, seed, accumulate, perm, scratch);
        train(&r, seed, accumulate, perm, scratch);
        for (i32 i = 0; i < plain.set->persistent_count; i++) {
            const struct persistent *t     = &plain.set->persistents[i];
            i64                      bytes = type_bytes(t->type);
            u8 *x = arena_take(perm, bytes, 1, 64), *y = arena_take(perm, bytes, 1, 64);
            plain.b->table->get(plain.b, t->offset, x, bytes);
            r.b->table->get(r.b, program_set_find(r.set, t->name)->offset, y, bytes);
            CHECK_STR(((struct str){ (char *)x, bytes }), ((struct str){ (char *)y, bytes }));
        }
        plain.b->table->close(plain.b);
        r.b->table->close(r.b);
    }
}

TEST(the_backend_says_that_the_host_changed_weights)
{
    struct run r   = open_run(config_of(1), true, 0, perm, scratch);
    struct err err = { 0 };
    CHECK_EQ(r.b->table->alloc(r.b, r.set->arena_bytes, &err), STATUS_OK);
    const struct persistent *w = program_set_find(r.set, STR("table"));
    r.b->weights_end           = w->offset + type_bytes(w->type);
    put(&r, "loss_seed", &(f32){ 1 }, sizeof(f32));
    CHECK(!r.b->weights_changed);
    put(&r, "table", &(f32){ 1 }, sizeof(f32));
    CHECK(r.b->weights_changed);
    r.b->table->close(r.b);
}

TEST(casts_stay_where_copies_would_not_pay)
{
    struct compile_config c[6];
    for (i32 i = 0; i < COUNT_OF(c); i++) c[i] = config_of(1);
    c[0].recompute.kind = RECOMPUTE_ALL;
    c[1].optimiser      = OPTIMISER_SGD;
    c[2].precision      = DT_F16;
    c[2].scaling        = (struct scaling_config){ 65536, 2, 0.5, 2000 };
    c[3].ranks          = 1;
    c[4].stochastic     = true;
    c[5].frozen_low     = true;
    for (i32 i = 0; i < COUNT_OF(c); i++) {
        struct run r = open_run(c[i], true, 0, perm, scratch);
        CHECK(!has_copies(&r));
        CHECK(casts_of(&r, PROGRAM_TRAIN) > 0);
        r.b->table->close(r.b);
    }
}

/* With as much memory as is needed they are there; with a byte less casts are, which can be made again. */
TEST(copies_give_way_where_memory_is_short)
{
    struct compile_config c = config_of(1);
    c.recompute.kind        = RECOMPUTE_AUTO;
    struct run whole        = open_run(c, true, 0, perm, scratch);
    i64        bytes        = whole.set->arena_bytes;
    struct run fits         = open_run(c, true, bytes, perm, scratch),
               shorter      = open_run(c, true, bytes - 1, perm, scratch);
    CHECK(has_copies(&whole) && has_copies(&fits) && !has_copies(&shorter));
    CHECK(shorter.set->arena_bytes < bytes);
    whole.b->table->close(whole.b);
    fits.b->table->close(fits.b);
    shorter.b->table->close(shorter.b);
}
