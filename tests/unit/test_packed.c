/* test_packed.c - packed rows: a small network gives the same loss and gradients on padded sequences and on
 * packed ones, with dropout on, at every capacity and in micro-batches.
 *
 * On the reference kernels in f64: only the order of a few hundred additions differs, so results agree to
 * 1e-12 relative to their norm (a thousand roundings of 2^-53 are 1.1e-13). */
#include "backend/backend.h"
#include "base/rng.h"
#include "compile/compile.h"
#include "harness.h"
#include "ir/build.h"
#include <math.h>

enum { BATCH = 6, T = 64, WIDTH = 8, HEADS = 2, TOKENS = 11 };
static const f64 near_enough = 1e-12;

struct form {
    bool packed;
};

static i32 param(struct graph *g, const char *name, struct shape s)
{
    return graph_value(g, VALUE_PARAM, str_of(name), type_of(DT_F64, s));
}

/* Embeddings, dropout, rotation and attention; the sum of the squares of each sequence's first row. */
static enum status build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                         struct err *err)
{
    const struct form *f = context;
    i32 x    = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_I32, shape_2(batch, T)));
    i32 lens = graph_value(g, VALUE_INPUT, STR("lens"), type_of(DT_I32, shape_1(batch)));
    i32 wte = param(g, "wte", shape_2(TOKENS, WIDTH)), wpe = param(g, "wpe", shape_2(T, WIDTH));
    i32 w             = param(g, "w", shape_2(WIDTH, 3 * WIDTH)), y;
    struct seeing how = { .dropout = 0.3 };
    (void)mode;
    if (f->packed) {
        struct packed r = build_pack(g, STR("pack"), x, lens);
        y               = build_embedding(g, STR("wte"), wte, r.tokens);
        y               = build_binary(g, OP_ADD, STR("wpe"), y,
                                       build_embedding(g, STR("rows"), wpe, r.position));
        y               = build_dropout_packed(g, STR("drop"), y, 0.3, &r);
        y               = build_matmul(g, STR("w"), y, w, -1, false, false);
        i32 at          = build_reshape(g, STR("at"), r.position, shape_2(1, g->rows));
        y               = build_reshape(g, STR("one"), y, shape_3(1, g->rows, 3 * WIDTH));
        y               = build_rope(g, STR("rope"), y, at, 2 * HEADS, WIDTH / HEADS, 100,
                                     (struct rope_scaling){ 0 });
        y               = build_reshape(g, STR("many"), y, shape_2(g->rows, 3 * WIDTH));
        y               = build_attention_packed(g, STR("attn"), y, &r, HEADS, HEADS, how);
        y = build_embedding(g, STR("first"), y, build_slice(g, STR("of"), r.offsets, 0, 0, batch));
    } else {
        y = build_binary(g, OP_ADD, STR("wpe"), build_embedding(g, STR("wte"), wte, x), wpe);
        y = build_dropout(g, STR("drop"), y, 0.3);
        y = build_matmul(g, STR("w"), y, w, -1, false, false);
        y = build_rope(g, STR("rope"), y, -1, 2 * HEADS, WIDTH / HEADS, 100,
                       (struct rope_scaling){ 0 });
        y = build_attention(g, STR("attn"), y, lens, HEADS, HEADS, how);
        y = build_slice(g, STR("first"), y, 1, 0, 1);
    }
    y = build_binary(g, OP_MUL, STR("square"), y, y);
    y = y < 0 ? y : build_sum(g, STR("sum"), y, 0, graph_type(g, y).shape.rank);
    if (y >= 0) graph_output(g, y, STR("loss"));
    return graph_status(g, err);
}

struct run {
    struct backend     *b;
    struct program_set *set;
};

static void put(struct run *r, const char *name, const void *from, i64 bytes)
{
    const struct persistent *p = program_set_find(r->set, str_of(name));
    ASSERT(p);
    r->b->table->put(r->b, p->offset, from, bytes ? bytes : type_bytes(p->type));
}

/* The samples from `first` on of a batch that the seed gives; lengths from below 1 to above T. */
static i64 fill(struct run *r, u64 seed, i64 first, i64 batch)
{
    struct rng_key key = { .seed = seed, .name = 1 };
    i32            x[BATCH * T], lens[BATCH], rng[4] = { 5, 6, 7, (i32)first };
    i64            rows = 0;
    for (i64 b = 0; b < batch; b++) {
        lens[b] = (i32)(rng_u32(key, (u64)(first + b)) % (T + 3)) - 1;
        rows += MAX(1, MIN(T, lens[b]));
        for (i64 t = 0; t < T; t++)
            x[b * T + t] = (i32)(rng_u32(key, (u64)(99 + (first + b) * T + t)) % TOKENS);
        if (lens[b] < 1) lens[b] = 1; /* padded sequences of no length have no first row */
    }
    put(r, "x", x, batch * T * (i64)sizeof *x);
    put(r, "lens", lens, batch * (i64)sizeof *lens);
    put(r, "rng", rng, 0);
    return rows;
}

static struct run opened(struct form *f, i64 batch, u64 seed, struct arena *perm,
                         struct arena scratch)
{
    static const char *const params[] = { "wte", "wpe", "w" };
    struct compile_config    config   = { .batch = batch, .accumulate = 2 };
    struct run               r        = { 0 };
    struct err               err      = { 0 };
    struct target            target;
    f64                      one = 1;
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_REFERENCE, &r.b, &err), STATUS_OK);
    r.b->table->describe(r.b, &target);
    if (compile(perm, &target, &config, build, f, &r.set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(r.b->table->alloc(r.b, r.set->arena_bytes, &err), STATUS_OK);
    for (i32 i = 0; i < COUNT_OF(params); i++) {
        const struct persistent *p   = program_set_find(r.set, str_of(params[i]));
        struct rng_key           key = { .seed = seed, .name = (u64)i + 10 };
        f64                     *w   = NEW(&scratch, f64, shape_count(p->type.shape));
        for (i64 k = 0; k < shape_count(p->type.shape); k++) w[k] = rng_normal(key, (u64)k);
        put(&r, params[i], w, 0);
    }
    put(&r, "loss_seed", &one, 0);
    return r;
}

static void run_program(struct run *r, struct program *p, struct arena *perm)
{
    struct err err = { 0 };
    if (!p->prepared) CHECK_EQ(r->b->table->prepare(r->b, p, perm, &err), STATUS_OK);
    r->b->table->run(r->b, p);
}

enum { NUMBERS_MAX = 1024 };

/* Loss and all gradients, one after the other. */
static i64 results(struct run *r, f64 *to)
{
    static const char *const names[] = { "loss", "wte.grad", "wpe.grad", "w.grad" };
    i64                      count   = 0;
    for (i32 i = 0; i < COUNT_OF(names); i++) {
        const struct persistent *p = program_set_find(r->set, str_of(names[i]));
        r->b->table->get(r->b, p->offset, to + count, type_bytes(p->type));
        count += shape_count(p->type.shape);
    }
    ASSERT(count <= NUMBERS_MAX);
    return count;
}

/* From index `from` on: 1 leaves the loss out. */
static void check_same(const f64 *a, const f64 *b, i64 from, i64 count, const char *what)
{
    f64 off = 0, size = 0;
    for (i64 i = from; i < count; i++) {
        off += (a[i] - b[i]) * (a[i] - b[i]);
        size += a[i] * a[i];
    }
    if (!(size > 0 && sqrt(off / size) < near_enough))
        harness_fail(__FILE__, __LINE__, "%s: off by %.3g", what, sqrt(off / size));
}

TEST(packed_rows_give_what_padded_ones_give)
{
    u64        seed = test_seed();
    f64        a[NUMBERS_MAX], b[NUMBERS_MAX];
    struct run padded = opened(&(struct form){ false }, BATCH, seed, perm, scratch);
    struct run packed = opened(&(struct form){ true }, BATCH, seed, perm, scratch);
    fill(&padded, seed, 0, BATCH);
    fill(&packed, seed, 0, BATCH);
    run_program(&padded, padded.set->programs[PROGRAM_TRAIN], perm);
    run_program(&packed, packed.set->programs[PROGRAM_TRAIN], perm);
    i64 count = results(&padded, a);
    CHECK_EQ(results(&packed, b), count);
    check_same(a, b, 0, count, "packed");
    CHECK_EQ(padded.set->programs[PROGRAM_TRAIN]->rows, 0);
    CHECK_EQ(packed.set->programs[PROGRAM_TRAIN]->rows, BATCH * T);
    padded.b->table->close(padded.b);
    packed.b->table->close(packed.b);
}

TEST(every_capacity_gives_the_same)
{
    u64             seed = test_seed();
    f64             a[NUMBERS_MAX], b[NUMBERS_MAX];
    struct err      err  = { 0 };
    struct form     form = { true };
    struct run      r    = opened(&form, BATCH, seed, perm, scratch);
    struct program *all  = r.set->programs[PROGRAM_TRAIN], *p;
    i64             rows = fill(&r, seed, 0, BATCH);
    run_program(&r, all, perm);
    i64 count = results(&r, a), first = program_capacity(all, rows);
    for (i64 n = all->rows; n >= first; n -= program_row_step(all)) {
        CHECK_EQ(compile_holding(perm, r.set, PROGRAM_TRAIN, n, &p, scratch, &err), STATUS_OK);
        CHECK_EQ(p->rows, n);
        run_program(&r, p, perm);
        results(&r, b);
        check_same(a, b, 0, count, "a smaller capacity");
    }
    r.b->table->close(r.b);
}

TEST(micro_batches_add_up_to_the_same)
{
    u64             seed = test_seed();
    f64             a[NUMBERS_MAX], b[NUMBERS_MAX], loss = 0;
    struct err      err   = { 0 };
    struct form     form  = { true };
    struct run      whole = opened(&form, BATCH, seed, perm, scratch);
    struct run      part  = opened(&form, BATCH / 3, seed, perm, scratch);
    struct program *p;
    fill(&whole, seed, 0, BATCH);
    run_program(&whole, whole.set->programs[PROGRAM_TRAIN], perm);
    i64 count = results(&whole, a);
    for (i64 first = 0; first < BATCH; first += BATCH / 3) {
        enum program_id id   = first ? PROGRAM_ADD : PROGRAM_TRAIN;
        i64             rows = fill(&part, seed, first, BATCH / 3);
        CHECK_EQ(compile_holding(perm, part.set, id, rows, &p, scratch, &err), STATUS_OK);
        run_program(&part, p, perm);
        results(&part, b);
        loss += b[0];
    }
    check_same(a, b, 1, count, "gradients of micro-batches");
    CHECK_NEAR(loss / a[0], 1, near_enough);
    whole.b->table->close(whole.b);
    part.b->table->close(part.b);
}

TEST(capacities_hold_the_rows_and_few_more)
{
    struct program p = { .rows = 16384 };
    CHECK_EQ(program_row_step(&p), 512);
    CHECK_EQ(program_capacity(&p, 9408), 9728);
    CHECK_EQ(program_capacity(&p, 0), 512);
    for (i64 rows = 1; rows <= p.rows; rows += 7) {
        i64 capacity = program_capacity(&p, rows);
        CHECK(capacity >= rows && capacity - rows < 512 && capacity <= p.rows);
    }
    p.rows = 50; /* no multiple: the whole is the last */
    CHECK_EQ(program_capacity(&p, 33), 50);
    CHECK_EQ(program_capacity(&p, 32), 32);
}

TEST(a_program_of_fewer_rows_is_made_once_and_smaller)
{
    struct err       err    = { 0 };
    struct form      form   = { true };
    struct run       r      = opened(&form, BATCH, 1, perm, scratch);
    struct program  *all    = r.set->programs[PROGRAM_TRAIN], *p[3], *again;
    static const i64 rows[] = { 100, 200, 10 };
    CHECK(!program_holding(all, 100));
    for (i32 i = 0; i < 3; i++)
        CHECK_EQ(compile_holding(perm, r.set, PROGRAM_TRAIN, rows[i], &p[i], scratch, &err),
                 STATUS_OK);
    CHECK(all->smaller == p[1] && p[1]->smaller == p[0] && p[0]->smaller == p[2] && !p[2]->smaller);
    CHECK_EQ(compile_holding(perm, r.set, PROGRAM_TRAIN, 120, &again, scratch, &err), STATUS_OK);
    CHECK(again == p[0] && program_holding(all, 97) == p[0]);
    CHECK_EQ(p[0]->instr_count, all->instr_count);
    CHECK(p[0]->bytes < p[1]->bytes && p[1]->bytes < all->bytes);
    f64 whole = program_cost(all, scratch).flops, part = program_cost(p[0], scratch).flops;
    CHECK(part < whole / 2.5); /* 128 rows of 384, and attention falls faster */
    r.set->row_share = 0.3;
    CHECK(program_typical(r.set, PROGRAM_TRAIN) == p[0]);
    r.b->table->close(r.b);
}
