/* test_model_run.c - whole models, compiled and run by the reference backend in doubles: the
 * gradient of every weight agrees with a central difference, padding changes nothing, and every
 * model learns a batch by heart. */
#include "backend/backend.h"
#include "base/rng.h"
#include "base/yaml.h"
#include "harness.h"
#include "model/model.h"

enum { BATCH = 3, CONTEXT = 5, VOCABULARY = 11, CLASSES = 4 };
enum data { IMAGES, NORMAL, WIDE, MIXED, TOKENS, LINES, CLICKS };

/* Of the two channels of NORMAL. */
static const f32 factors[] = { 1 / 64.0f, 1 / 100.0f }, shifts[] = { -2, -0.75f };

/* ---- the models, as small as they come */

static void plain(struct model_config *c) { (void)c; }

static void gpt2(struct model_config *c)
{
    c->dropout = c->attention_dropout = 0.2, c->smoothing = 0.1;
}

static void relu2(struct model_config *c) { c->activation = STR("relu2"); }

static void modern(struct model_config *c)
{
    c->norm       = STR("rms");
    c->positions  = STR("rotary");
    c->activation = STR("swiglu");
    c->heads      = 4;
    c->kv_heads   = 2;
    c->hidden     = 12;
    c->softcap    = 3;
    c->qk_norm    = true;
    c->tied = c->bias = false;
}

/* Smooth activations: at a kink of relu the central difference is nobody's gradient. The ranker's
 * own relus are few enough that a step of 3e-6 meets one in a run of ten thousand. */
static const struct model_case {
    const char *kind;
    enum data   data;
    void (*change)(struct model_config *);
    const char *layers; /* kind layers */
} cases[] = {
    { "encoder", LINES, plain, NULL },
    { "gpt", TOKENS, gpt2, NULL },
    { "gpt", TOKENS, modern, NULL },
    { "gpt", TOKENS, relu2, NULL },
    { "ranker", CLICKS, plain, NULL },
    { "layers", IMAGES, plain,
      "[flatten, {dense: 7}, gelu, layernorm, {dropout: 0.3}, {dense: 4}]" },
    { "layers", IMAGES, plain,
      "[{conv: {filters: 3, bias: false}}, batchnorm, silu, "
      "{residual: {activation: tanh, layers: [{conv: {filters: 4, stride: 2}}, batchnorm, gelu, "
      "{conv: 4}]}}, {residual: [{conv: {filters: 4, kernel: 1}}]}, global_avgpool, {dense: 4}]" },
    { "layers", IMAGES, plain,
      "[{conv: {filters: 3, padding: valid, activation: sigmoid}}, {maxpool: {size: 2, stride: "
      "1}}, "
      "{conv: {filters: 2, padding: 1}}, {avgpool: 2}, flatten, {dense: 4}]" },
    { "layers", MIXED, plain, "[flatten, {dense: 7}, gelu, {dense: 4}]" },
    { "layers", TOKENS, plain,
      "[{embedding: 6}, rmsnorm, {dense: {units: 9, activation: relu2}}, {dense: 11}]" },
};

static struct model_config config_of(const struct model_case *c, struct arena *perm)
{
    struct err          err    = { 0 };
    struct model_config config = { .kind        = str_of(c->kind),
                                   .file        = STR("layers"),
                                   .depth       = 2,
                                   .width       = 8,
                                   .heads       = 2,
                                   .norm        = STR("layer"),
                                   .positions   = STR("learned"),
                                   .activation  = STR("gelu"),
                                   .tied        = true,
                                   .bias        = true,
                                   .rope_base   = 100,
                                   .table_width = 3,
                                   .mlp         = { 16, 16 },
                                   .mlp_count   = 2,
                                   .dtype       = DT_F64 };
    c->change(&config);
    if (c->layers)
        CHECK_EQ(yaml_parse(perm, config.file, str_of(c->layers), &config.layers, &err), STATUS_OK);
    return config;
}

static struct feeds feeds_of(enum data data)
{
    struct shape none = shape_of(0, NULL), row = shape_1(CONTEXT);
    struct feed  ids = { STR("x"), type_of(DT_I32, row), VOCABULARY };
    struct feeds f   = { .feed  = { { STR("x"), type_of(DT_U8, shape_3(6, 6, 2)), 0 },
                                    { STR("y"), type_of(DT_I32, none), CLASSES } },
                         .count = 2 };
    switch (data) {
    case IMAGES: return f;
    case NORMAL:
        f.pixels.is_normal = true;
        memcpy(f.pixels.factor, factors, sizeof factors);
        memcpy(f.pixels.shift, shifts, sizeof shifts);
        return f;
    case WIDE: f.feed[0].type.dtype = DT_F32; return f;
    case MIXED:
        return (struct feeds){ .feed  = { { STR("x"), type_of(DT_F32, shape_3(6, 6, 2)), 0 },
                                          { STR("y"), type_of(DT_I32, none), CLASSES },
                                          { STR("y_other"), type_of(DT_I32, none), CLASSES },
                                          { STR("y_share"), type_of(DT_F32, none), 0 } },
                               .count = 4 };
    case TOKENS:
        return (struct feeds){ .feed  = { ids, { STR("y"), type_of(DT_I32, row), VOCABULARY } },
                               .count = 2 };
    case LINES:
        return (struct feeds){ .feed  = { ids,
                                          { STR("lens"), type_of(DT_I32, none), CONTEXT + 1 },
                                          { STR("y"), type_of(DT_I32, none), CLASSES } },
                               .count = 3 };
    default:
        return (struct feeds){ .feed  = { ids,
                                          { STR("dense"), type_of(DT_F32, shape_1(2)), 0 },
                                          { STR("y"), type_of(DT_F32, none), 0 } },
                               .count = 3 };
    }
}

/* ---- a compiled model with numbers in it */

struct run {
    struct backend     *b;
    struct program_set *set;
    f64                 rows;
};

static const struct persistent *find(const struct run *r, const char *name)
{
    const struct persistent *p = program_set_find(r->set, str_of(name));
    if (!p) harness_fail(__FILE__, __LINE__, "there is no %s", name);
    return p;
}

static void put(struct run *r, const struct persistent *p, const void *from)
{
    r->b->table->put(r->b, p->offset, from, type_bytes(p->type));
}

static void fill_input(struct run *r, const struct feed *f, u64 seed, struct arena scratch)
{
    const struct persistent *p     = program_set_find(r->set, f->name);
    struct rng_key           key   = { .seed = seed, .name = str_hash(f->name) };
    i64                      count = shape_count(p->type.shape);
    f64                     *data  = NEW(&scratch, f64, count); /* large enough for any type */
    bool                     lens  = str_eq(f->name, STR("lens"));
    for (i64 i = 0; i < count; i++) {
        u32 u = rng_u32(key, (u64)i);
        if (p->type.dtype == DT_U8) ((u8 *)data)[i] = (u8)u;
        else if (p->type.dtype == DT_I32)
            ((i32 *)data)[i] = lens ? 1 + (i32)(u % CONTEXT) : (i32)(u % (u32)f->range);
        else ((f32 *)data)[i] = (f32)(u % 2);
    }
    put(r, p, data);
}

/* Weights ten times as wide as training begins with, so that every part of a model matters;
 * optimiser state at 0. */
static void fill_weights(struct run *r, u64 seed, struct arena scratch)
{
    for (i32 k = 0; k < r->set->persistent_count; k++) {
        const struct persistent *p     = &r->set->persistents[k];
        struct rng_key           key   = { .seed = seed, .name = str_hash(p->name) };
        struct arena             room  = scratch;
        i64                      count = shape_count(p->type.shape);
        if (p->kind != VALUE_PARAM && p->kind != VALUE_STATE && p->kind != VALUE_BUFFER) continue;
        f64 *w = NEW(&room, f64, count);
        for (i64 i = 0; i < count; i++) {
            w[i] = p->kind == VALUE_PARAM ? 0.3 * rng_normal(key, (u64)i) : 0;
            if (p->init.kind == INIT_CONST) w[i] += p->init.scale;
        }
        put(r, p, w);
    }
}

static struct run opened(struct arena *perm, struct arena scratch, const struct model_case *c,
                         u64 seed)
{
    struct model_config   config = config_of(c, perm);
    struct feeds          feeds  = feeds_of(c->data);
    struct run            r      = { 0 };
    struct err            err    = { 0 };
    struct model         *m;
    struct target         target;
    struct compile_config options = { .optimiser = OPTIMISER_ADAM, .eps = 1e-8, .batch = BATCH };
    i32                   rng[4]  = { (i32)seed, 7, 0, 0 };
    enum status           st      = model_new(perm, &config, &feeds, &m, &err);
    if (!st) st = backend_cpu_open(perm, 1, BACKEND_REFERENCE, &r.b, &err);
    if (!st) r.b->table->describe(r.b, &target);
    if (!st) st = compile(perm, &target, &options, model_build, m, &r.set, scratch, &err);
    if (!st) st = r.b->table->alloc(r.b, r.set->arena_bytes, &err);
    for (i32 i = 0; !st && i < PROGRAM_COUNT; i++) {
        if (r.set->programs[i]) st = r.b->table->prepare(r.b, r.set->programs[i], perm, &err);
    }
    if (st) harness_fail(__FILE__, __LINE__, "%s: %s", c->kind, err.text);
    r.rows = (f64)(BATCH * model_rows(m));
    for (i32 i = 0; i < feeds.count; i++) fill_input(&r, &feeds.feed[i], seed, scratch);
    fill_weights(&r, seed, scratch);
    f64 loss_seed = 1 / r.rows;
    put(&r, find(&r, "loss_seed"), &loss_seed);
    if (program_set_find(r.set, STR("rng"))) put(&r, find(&r, "rng"), rng);
    return r;
}

static f64 loss_now(struct run *r)
{
    f64 loss;
    r->b->table->run(r->b, r->set->programs[PROGRAM_TRAIN]);
    r->b->table->get(r->b, find(r, "loss")->offset, &loss, sizeof loss);
    return loss / r->rows;
}

/* ---- gradients */

static f64 dot(const f64 *a, const f64 *b, i64 count)
{
    f64 sum = 0;
    for (i64 i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* The slope of the loss as one tensor moves along a random direction of length 1, by the gradient
 * and by a central difference; their difference relative to the gradient's length. */
static f64 slope_error(struct run *r, const struct persistent *p, u64 seed, struct arena scratch)
{
    i64            count = shape_count(p->type.shape), bytes = type_bytes(p->type);
    f64           *w = NEW(&scratch, f64, count), *grad = NEW(&scratch, f64, count);
    f64           *v = NEW(&scratch, f64, count), *to = NEW(&scratch, f64, count);
    f64            step = 3e-6, loss[2];
    struct rng_key key  = { .seed = seed, .name = ~str_hash(p->name) };
    struct str     name = str_cat(&scratch, p->name, STR(".grad"));
    loss_now(r);
    r->b->table->get(r->b, p->offset, w, bytes);
    r->b->table->get(r->b, program_set_find(r->set, name)->offset, grad, bytes);
    for (i64 i = 0; i < count; i++) v[i] = rng_normal(key, (u64)i);
    f64 length = sqrt(dot(v, v, count));
    for (i32 side = 0; side < 2; side++) {
        for (i64 i = 0; i < count; i++) to[i] = w[i] + (side ? step : -step) * v[i] / length;
        put(r, p, to);
        loss[side] = loss_now(r);
    }
    put(r, p, w);
    f64 slope = dot(grad, v, count) / length, measured = (loss[1] - loss[0]) / (2 * step);
    return fabs(slope - measured) / (sqrt(dot(grad, grad, count)) + 1e-3);
}

TEST(gradients_of_every_model_agree_with_central_differences)
{
    u64 seed = test_seed();
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct run r = opened(perm, scratch, &cases[i], seed);
        for (i32 k = 0; k < r.set->persistent_count; k++) {
            const struct persistent *p = &r.set->persistents[k];
            if (p->kind != VALUE_PARAM) continue;
            f64 e = slope_error(&r, p, seed, scratch);
            /* Rounding leaves 1e-16 / 3e-6 / 1e-3, the cubic term about 1e-11: both below. */
            if (!(e < 1e-6))
                harness_fail(__FILE__, __LINE__, "case %d, %.*s: slope off by %.2e relative",
                             (int)i, STR_ARG(p->name), e);
        }
        r.b->table->close(r.b);
    }
}

/* ---- padding */

/* Bytes that the model normalises are what it makes of normalised numbers, but for these being f32: roundings of 2^-24,
 * and weights that enlarge them a hundred times at most. */
TEST(bytes_are_normalised_by_channel_in_the_model)
{
    struct model_case c    = { "layers", NORMAL, plain, "[flatten, {dense: 7}, gelu, {dense: 4}]" };
    u64               seed = test_seed();
    struct rng_key    key  = { .seed = seed, .name = str_hash(STR("x")) };
    f32               x[BATCH * 6 * 6 * 2];
    struct run        bytes = opened(perm, scratch, &c, seed);
    c.data                  = WIDE;
    struct run wide         = opened(perm, scratch, &c, seed);
    for (i64 i = 0; i < COUNT_OF(x); i++)
        x[i] = (f32)(u8)rng_u32(key, (u64)i) * factors[i % 2] + shifts[i % 2];
    put(&wide, find(&wide, "x"), x);
    f64 a = loss_now(&bytes), b = loss_now(&wide);
    CHECK(b > 0.01);
    CHECK_NEAR(a, b, 100 * 0x1p-24 * (1 + b));
    bytes.b->table->close(bytes.b);
    wide.b->table->close(wide.b);
}

static void other(i32 *token) { *token = (*token + 1) % VOCABULARY; }

TEST(what_lies_in_the_padding_does_not_reach_the_class)
{
    u64        seed = test_seed();
    struct run r    = opened(perm, scratch, &cases[0], seed);
    i32        x[BATCH * CONTEXT], lens[BATCH] = { 1, 2, CONTEXT - 1 };
    put(&r, find(&r, "lens"), lens);
    r.b->table->get(r.b, find(&r, "x")->offset, x, sizeof x);
    f64 before = loss_now(&r);
    for (i32 b = 0; b < BATCH; b++) {
        for (i32 t = lens[b]; t < CONTEXT; t++) other(&x[b * CONTEXT + t]);
    }
    put(&r, find(&r, "x"), x);
    CHECK_EQ(loss_now(&r), before);
    other(&x[0]);
    put(&r, find(&r, "x"), x);
    CHECK(loss_now(&r) != before);
    r.b->table->close(r.b);
}

/* ---- learning */

TEST(every_model_learns_a_batch_by_heart)
{
    u64 seed = test_seed();
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct run r     = opened(perm, scratch, &cases[i], seed);
        f64        first = loss_now(&r), loss = first;
        for (i32 step = 1; step <= 60; step++) {
            f32 hyper[4] = { 0.02f, 0.9f, 0.999f, (f32)step };
            put(&r, find(&r, "hyper"), hyper);
            r.b->table->run(r.b, r.set->programs[PROGRAM_UPDATE]);
            loss = loss_now(&r);
        }
        /* Labels may repeat a token with two successors, and smoothing has a floor: not to 0. */
        if (!(loss < 0.7 * first))
            harness_fail(__FILE__, __LINE__, "case %d: loss %.4f -> %.4f", (int)i, first, loss);
        r.b->table->close(r.b);
    }
}
