/* fp16's loss scale: it moves as torch's, true gradients are clipped and applied, and a step that
 * overflowed leaves no trace in weights and optimiser. */
#include "backend/backend.h"
#include "base/json.h"
#include "base/os.h"
#include "compile/compile.h"
#include "harness.h"
#include "ir/build.h"

enum { WIDTH = 3 };

/* loss = sum of (x . h . w + b)^2; h is a hidden matrix, for Muon */
static enum status build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                         struct err *err)
{
    (void)context;
    (void)mode;
    struct init one = { INIT_CONST, 1 };
    i32         x   = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_2(batch, WIDTH)));
    i32         w   = graph_param(g, STR("w"), type_of(DT_F32, shape_2(1, WIDTH)), one, true);
    i32 b = graph_param(g, STR("b"), type_of(DT_F32, shape_1(1)), (struct init){ 0 }, false);
    i32 h = graph_param(g, STR("h"), type_of(DT_F32, shape_2(WIDTH, WIDTH)), one, true);
    i32 y = build_matmul(g, STR("xh"), x, h, -1, false, true);
    y     = build_matmul(g, STR("y"), y, w, b, false, true);
    i32 s = build_sum(g, STR("loss"), build_binary(g, OP_MUL, STR("square"), y, y), 0, 2);
    if (s >= 0) graph_output(g, s, STR("loss"));
    return graph_status(g, err);
}

struct machine {
    struct backend     *b;
    struct program_set *set;
};

static struct compile_config config_of(enum dtype precision)
{
    return (struct compile_config){ .optimiser = OPTIMISER_ADAM,
                                    .eps       = 1e-8,
                                    .precision = precision,
                                    .scaling   = { 65536, 2, 0.5, 2000 },
                                    .batch     = 2 };
}

static struct machine machine_open(struct arena *perm, struct arena scratch,
                                   struct compile_config c)
{
    struct machine m;
    struct target  target;
    struct err     err = { 0 };
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_FAST, &m.b, &err), STATUS_OK);
    m.b->table->describe(m.b, &target);
    if (compile(perm, &target, &c, build, NULL, &m.set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(m.b->table->alloc(m.b, m.set->arena_bytes, &err), STATUS_OK);
    for (i32 i = 0; i < PROGRAM_COUNT; i++)
        if (m.set->programs[i])
            CHECK_EQ(m.b->table->prepare(m.b, m.set->programs[i], perm, &err), STATUS_OK);
    u8 *zeros = NEW(&scratch, u8, m.set->persistent_bytes);
    m.b->table->put(m.b, 0, zeros, m.set->persistent_bytes);
    return m;
}

static void put(const struct machine *m, const char *name, const f32 *v)
{
    const struct persistent *t = program_set_find(m->set, str_of(name));
    CHECK(t);
    m->b->table->put(m->b, t->offset, v, type_bytes(t->type));
}

static const f32 *get(const struct machine *m, const char *name, struct arena *perm)
{
    const struct persistent *t = program_set_find(m->set, str_of(name));
    CHECK(t);
    f32 *v = NEW(perm, f32, shape_count(t->type.shape));
    m->b->table->get(m->b, t->offset, v, type_bytes(t->type));
    return v;
}

static void update(const struct machine *m)
{
    m->b->table->run(m->b, m->set->programs[PROGRAM_UPDATE]);
}

/* --- against torch.amp.GradScaler and torch.optim.Adam: tests/oracle/record_scaler.py --- */

static f64 number(const struct json *map, const char *key)
{
    f64 v = NAN;
    json_f64(json_get(map, str_of(key)), &v);
    return v;
}

static void check_case(const struct json *recorded, struct arena perm, struct arena scratch)
{
    struct compile_config c = config_of(DT_F16);
    c.scaling.initial       = number(recorded, "initial");
    c.scaling.every         = (i64)number(recorded, "interval");
    struct machine m        = machine_open(&perm, scratch, c);
    f32            scale = (f32)c.scaling.initial, hyper[4] = { 0.1f, 0.9f, 0.999f, 0 };
    i32            bad = 0, index = 0;
    put(&m, "w", (f32[WIDTH]){ 1, 1, 1 });
    put(&m, "loss_scale", &scale);
    for (const struct json *s = json_get(recorded, STR("steps"))->first; s; s = s->next, index++) {
        f64 gradient = number(s, "gradient"); /* null: infinite */
        f32 scaled   = isnan(gradient) ? INFINITY : (f32)gradient * scale;
        bad += isnan(gradient);
        hyper[3] = (f32)(index + 1); /* the host counts every step */
        put(&m, "hyper", hyper);
        put(&m, "w.grad", (f32[WIDTH]){ scaled, 0, 0 });
        update(&m);
        scale = get(&m, "loss_scale", &perm)[0];
        CHECK_EQ(scale, (f32)number(s, "scale"));
        /* f32 on both sides, in another order: a few roundings a step */
        CHECK_NEAR(get(&m, "w", &perm)[0], number(s, "weight"), 1e-6);
        CHECK_EQ(get(&m, "loss_scale.counts", &perm)[1], (f32)bad);
        CHECK_EQ(get(&m, "loss_scale.counts", &perm)[2], (f32)(index + 1 - bad));
    }
    CHECK(index >= 6);
    m.b->table->close(m.b);
}

TEST(scale_and_weights_move_as_torchs)
{
    struct str   text;
    struct json *root;
    struct err   err   = { 0 };
    i32          count = 0;
    CHECK_EQ(os_read_all(os_real(), STR("tests/golden/torch_scaler.json"), perm, &text, &err),
             STATUS_OK);
    CHECK_EQ(json_parse(perm, text, &root, &err), STATUS_OK);
    for (struct json *c = json_get(root, STR("cases"))->first; c; c = c->next, count++)
        check_case(c, *perm, scratch);
    CHECK_EQ(count, 4);
}

/* --- the update --- */

/* Weights, gradients and the optimiser's state: filled with numbers, or hashed. */
static u64 each(const struct machine *m, bool fill, struct arena scratch)
{
    u64 hash = 1;
    for (i32 i = 0; i < m->set->persistent_count; i++) {
        const struct persistent *t = &m->set->persistents[i];
        i64                      n = shape_count(t->type.shape);
        f32                     *v = NEW(&scratch, f32, n);
        if (t->kind > VALUE_STATE || str_starts(t->name, STR("loss_scale"))) continue;
        for (i64 k = 0; k < n; k++) v[k] = 0.25f + (f32)k;
        if (fill) m->b->table->put(m->b, t->offset, v, type_bytes(t->type));
        m->b->table->get(m->b, t->offset, v, type_bytes(t->type));
        hash = hash * 31 + str_hash((struct str){ (const char *)v, type_bytes(t->type) });
    }
    return hash;
}

TEST(a_step_that_overflowed_leaves_no_trace)
{
    static const f32 overflows[] = { INFINITY, -INFINITY, NAN, 1e30f };
    for (enum optimiser_kind kind = OPTIMISER_SGD; kind <= OPTIMISER_MUON; kind++) {
        struct arena          room = *perm;
        struct compile_config c    = config_of(DT_F16);
        c.optimiser                = kind;
        c.decay                    = 0.1;
        c.clip                     = 1;
        struct machine m           = machine_open(&room, scratch, c);
        put(&m, "loss_scale", &(f32){ 1024 });
        put(&m, "hyper", (f32[]){ 0.1f, 0.9f, 0.999f, 5 });
        if (kind == OPTIMISER_MUON) put(&m, "hyper.muon", (f32[]){ 0.1f, 0.9f, 0, 5 });
        for (i32 k = 0; k < COUNT_OF(overflows); k++) {
            each(&m, true, scratch);
            put(&m, "b.grad", &overflows[k]);
            put(&m, "loss_scale.counts", (f32[]){ 7, 3, 4 });
            u64 before = each(&m, false, scratch);
            update(&m);
            CHECK_EQ(each(&m, false, scratch), before);
            const f32 *counts = get(&m, "loss_scale.counts", &room);
            CHECK(counts[0] == 0 && counts[1] == 4 && counts[2] == 4);
            CHECK_EQ(get(&m, "loss_scale", &room)[0], 1024 / (f32)(2 << k));
        }
        put(&m, "b.grad", &(f32){ 1 });
        u64 before = each(&m, false, scratch);
        update(&m);
        CHECK(each(&m, false, scratch) != before);
        m.b->table->close(m.b);
    }
}

/* The same true gradients with and without a scale: the same weights, the same norm. Tolerance: the
 * norm is rounded once more. */
TEST(gradients_are_unscaled_before_they_are_clipped)
{
    f32 w[2], norm[2];
    for (i32 scaled = 0; scaled < 2; scaled++) {
        struct arena          room = *perm;
        struct compile_config c    = config_of(scaled ? DT_F16 : DT_F32);
        c.optimiser                = OPTIMISER_SGD;
        c.clip                     = 1;
        struct machine m           = machine_open(&room, scratch, c);
        f32            by          = scaled ? 4096 : 1;
        if (scaled) put(&m, "loss_scale", &by);
        put(&m, "hyper", (f32[]){ 0.1f, 0.9f, 0, 1 });
        put(&m, "w", (f32[]){ 1, 1, 1 });
        put(&m, "w.grad", (f32[]){ 3 * by, 4 * by, 0 });
        update(&m);
        w[scaled]    = get(&m, "w", &room)[1];
        norm[scaled] = get(&m, "grad_norm", &room)[0];
        m.b->table->close(m.b);
    }
    CHECK_EQ(norm[0], 5);
    CHECK_NEAR(norm[1], 5, 1e-6);
    CHECK_NEAR(w[0], 1 - 0.1 * 0.8, 1e-6);
    CHECK_NEAR(w[1], w[0], 1e-6);
}

/* --- the way back --- */

TEST(the_scale_reaches_every_gradient_and_not_the_loss)
{
    struct machine m = machine_open(perm, scratch, config_of(DT_F16));
    put(&m, "x", (f32[]){ 1, 2, 3, -1, 0, 2 });
    put(&m, "w", (f32[]){ 0.5f, 0.25f, 1 });
    put(&m, "h", (f32[]){ 1, 0, 0, 0, 1, 0, 0, 0, 1 });
    put(&m, "loss_seed", &(f32){ 0.5f });
    for (f32 scale = 1; scale <= 512; scale *= 512) { /* 4, 1.5: numbers that f16 holds */
        put(&m, "loss_scale", &scale);
        m.b->table->run(m.b, m.set->programs[PROGRAM_TRAIN]);
        const f32 *dw = get(&m, "w.grad", perm);
        CHECK_EQ(get(&m, "loss", perm)[0], 4 * 4 + 1.5f * 1.5f);
        CHECK_EQ(dw[0], scale * (4 - 1.5f));
        CHECK_EQ(dw[1], scale * 8);
        CHECK_EQ(dw[2], scale * (12 + 3));
        CHECK_EQ(get(&m, "b.grad", perm)[0], scale * 5.5f);
    }
    put(&m, "loss_scale", &(f32){ 65536 });
    m.b->table->run(m.b, m.set->programs[PROGRAM_TRAIN]);
    CHECK(!isfinite(get(&m, "w.grad", perm)[1])); /* 4 * 65536 is more than f16 holds */
    m.b->table->close(m.b);
}

TEST(only_fp16_has_a_scale)
{
    for (enum dtype d = DT_F32; d <= DT_F16; d++) {
        struct machine m = machine_open(perm, scratch, config_of(d));
        CHECK_EQ(program_set_find(m.set, STR("loss_scale")) != NULL, d == DT_F16);
        m.b->table->close(m.b);
    }
}
