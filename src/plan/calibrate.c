/* calibrate.c - small models, compiled and timed instruction by instruction. */
#include "plan/calibrate.h"
#include "base/rng.h"
#include "model/model.h"
#include <math.h>
#include <string.h>

enum { REPEATS = 12, SAMPLES_MAX = 16384 };

enum feeds_kind { IMAGES, TOKENS, LINES, CLICKS };

/* Shapes between those that people train: what is fitted on them must hold for others. Nothing takes
 * longer than some milliseconds, so that a few of many runs go undisturbed. */
static const struct calibration {
    enum feeds_kind     feeds;
    i64                 batch, size, range; /* size: side of an image, length, columns */
    i64                 width, heads;
    const char         *activation; /* of a block: gelu is GPT-2's, others are today's */
    enum optimiser_kind optimiser;
    const char         *layers;
} calibrations[] = {
    { TOKENS, 4, 128, 1000, 256, 4, "gelu", OPTIMISER_ADAMW, NULL },
    { TOKENS, 3, 96, 100, 96, 2, "gelu", OPTIMISER_SGD, NULL },
    { TOKENS, 8, 64, 300, 192, 3, "swiglu", OPTIMISER_ADAMW, NULL },
    { TOKENS, 8, 32, 200, 64, 2, "swiglu", OPTIMISER_MUON, NULL },
    { TOKENS, 1, 160, 1500, 512, 8, "relu2", OPTIMISER_ADAMW, NULL },
    { TOKENS, 1, 256, 200, 160, 2, "relu2", OPTIMISER_MUON, NULL },
    { LINES, 48, 24, 60, 80, 4, "gelu", OPTIMISER_ADAM, NULL },
    { CLICKS, 512, 12, 4000, 0, 0, NULL, OPTIMISER_ADAM, NULL },
    { CLICKS, 1500, 20, 20000, 0, 0, NULL, OPTIMISER_ADAM, NULL },
    { IMAGES, 48, 20, 0, 0, 0, NULL, OPTIMISER_ADAM,
      "[flatten, {dense: {units: 200, activation: relu}}, {dense: 7}]" },
    { IMAGES, 256, 16, 0, 0, 0, NULL, OPTIMISER_SGD,
      "[flatten, {dense: {units: 500, activation: gelu}}, {dense: {units: 300, activation: silu}}, "
      "{dropout: 0.2}, {dense: 7}]" },
    { IMAGES, 24, 20, 0, 0, 0, NULL, OPTIMISER_SGD,
      "[{conv: {filters: 32, bias: false}}, batchnorm, relu, {residual: {activation: relu, layers: "
      "[{conv: {filters: 32, bias: false}}, batchnorm, relu, {conv: {filters: 32, bias: false}}, "
      "batchnorm]}}, {residual: {activation: relu, layers: [{conv: {filters: 48, stride: 2, bias: "
      "false}}, batchnorm, relu, {conv: {filters: 48, bias: false}}, batchnorm]}}, global_avgpool, "
      "{dense: 7}]" },
    { IMAGES, 24, 14, 0, 0, 0, NULL, OPTIMISER_SGD,
      "[{conv: {filters: 64, bias: false}}, batchnorm, relu, {conv: {filters: 64, bias: false}}, "
      "batchnorm, relu, {conv: {filters: 96, stride: 2, bias: false}}, global_avgpool, {dense: "
      "7}]" },
    { IMAGES, 16, 12, 0, 0, 0, NULL, OPTIMISER_ADAM,
      "[{conv: {filters: 24, activation: relu}}, {maxpool: 2}, {dropout: 0.1}, {conv: {filters: "
      "32, "
      "bias: false}}, batchnorm, relu, {avgpool: 2}, flatten, {dense: 7}]" },
    { IMAGES, 48, 28, 0, 0, 0, NULL, OPTIMISER_ADAM,
      "[{conv: {filters: 16, activation: relu}}, {maxpool: 2}, {conv: {filters: 16, activation: "
      "relu}}, {conv: {filters: 64, activation: relu}}, {avgpool: 2}, flatten, {dense: 7}]" },
};

static struct feeds feeds_of(const struct calibration *c)
{
    struct shape none = shape_of(0, NULL), row = shape_1(c->size);
    struct feed  ids     = { STR("x"), type_of(DT_I32, row), c->range };
    struct feed  classes = { STR("y"), type_of(DT_I32, none), 7 };
    struct feed  image   = { STR("x"), type_of(DT_U8, shape_3(c->size, c->size, 3)), 0 };
    struct feed  next    = { STR("y"), type_of(DT_I32, row), c->range };
    struct feed  lens    = { STR("lens"), type_of(DT_I32, none), c->size + 1 };
    struct feed  numbers = { STR("dense"), type_of(DT_F32, shape_1(11)), 0 };
    struct feed  click   = { STR("y"), type_of(DT_F32, none), 0 };
    switch (c->feeds) {
    case IMAGES: return (struct feeds){ .feed = { image, classes }, .count = 2 };
    case TOKENS: return (struct feeds){ .feed = { ids, next }, .count = 2 };
    case LINES: return (struct feeds){ .feed = { ids, lens, classes }, .count = 3 };
    default: return (struct feeds){ .feed = { ids, numbers, click }, .count = 3 };
    }
}

static enum status model_of(const struct calibration *c, const struct feeds *feeds,
                            struct arena *perm, struct model **out, struct err *err)
{
    static const char *const kinds[] = { "layers", "gpt", "encoder", "ranker" };
    bool                     today   = c->activation && strcmp(c->activation, "gelu") != 0;
    struct model_config      m       = { .kind        = str_of(kinds[c->feeds]),
                                         .file        = STR("calibration"),
                                         .depth       = 1,
                                         .width       = c->width,
                                         .heads       = c->heads,
                                         .norm        = today ? STR("rms") : STR("layer"),
                                         .positions   = today ? STR("rotary") : STR("learned"),
                                         .activation  = str_of(c->activation ? c->activation : ""),
                                         .qk_norm     = today,
                                         .tied        = true,
                                         .bias        = true,
                                         .rope_base   = 10000,
                                         .table_width = 12,
                                         .mlp         = { 160, 96 },
                                         .mlp_count   = 2,
                                         .dtype       = DT_F32 };
    enum status              st      = STATUS_OK;
    if (c->layers) st = yaml_parse(perm, m.file, str_of(c->layers), &m.layers, err);
    return st ? st : model_new(perm, &m, feeds, out, err);
}

/* Weights and inputs as in a run: rows of tables must lie apart, numbers must not be denormal. */
static void fill(struct backend *b, const struct persistent *p, const struct feeds *feeds,
                 struct arena scratch)
{
    const struct feed *f     = feeds_find(feeds, p->name);
    i64                count = shape_count(p->type.shape);
    struct rng_key     key   = { .name = str_hash(p->name) };
    u8                *data  = NEW(&scratch, u8, type_bytes(p->type));
    bool               lens  = str_eq(p->name, STR("lens"));
    for (i64 i = 0; i < count; i++) {
        u32 u = rng_u32(key, (u64)i);
        if (p->type.dtype == DT_F32) ((f32 *)data)[i] = 0.1f * ((f32)u / 4294967296.0f - 0.5f);
        if (p->type.dtype == DT_U8) data[i] = (u8)u;
        if (p->type.dtype == DT_I32 && f && f->range)
            ((i32 *)data)[i] = lens ? 1 + (i32)(u % (u32)(f->range - 1)) : (i32)(u % (u32)f->range);
    }
    b->table->wait(b, b->table->put(b, p->offset, data, type_bytes(p->type)));
}

struct gathered {
    struct rate_sample *all;
    i64                 count;
};

static void time_program(struct backend *b, const struct program *p, struct gathered *g,
                         struct arena scratch)
{
    f64 *least = NEW(&scratch, f64, MAX(p->instr_count, 1));
    f64 *now   = NEW(&scratch, f64, MAX(p->instr_count, 1));
    for (i32 i = 0; i < p->instr_count; i++) least[i] = INFINITY;
    for (i32 run = 0; run < REPEATS; run++) {
        b->table->time(b, p, now);
        for (i32 i = 0; i < p->instr_count; i++) least[i] = MIN(least[i], now[i]);
    }
    for (i32 i = 0; i < p->instr_count && g->count < SAMPLES_MAX; i++) {
        const struct node *n     = &p->graph->nodes[p->instrs[i].node];
        struct sig         s     = graph_sig(p->graph, n, &scratch);
        enum dtype         dtype = s.in_count ? s.in[0].dtype : DT_F32;
        g->all[g->count++]       = (struct rate_sample){ n->op, dtype, op_cost(&s), least[i] };
    }
}

struct machine_here {
    backend_opener *open;
    void           *context;
};

static enum status time_set(struct backend *b, struct program_set *set, const struct feeds *feeds,
                            struct gathered *g, struct arena *perm, struct arena scratch,
                            struct err *err)
{
    enum status st = b->table->alloc(b, set->arena_bytes, err);
    for (i32 i = 0; !st && i < set->persistent_count; i++)
        fill(b, &set->persistents[i], feeds, scratch);
    for (i32 id = 0; !st && id < PROGRAM_COUNT; id++) {
        struct program *p = set->programs[id];
        if (!p) continue;
        st = b->table->prepare(b, p, perm, err);
        if (!st) time_program(b, p, g, scratch);
    }
    return st;
}

static enum status measure(const struct calibration *c, const struct machine_here *here, bool low,
                           struct gathered *g, struct arena scratch, struct err *err)
{
    struct arena          perm   = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct feeds          feeds  = feeds_of(c);
    struct compile_config config = { .optimiser  = c->optimiser,
                                     .eps        = 1e-8,
                                     .decay      = 0.1,
                                     .clip       = c->optimiser != OPTIMISER_SGD,
                                     .fuse       = FUSE_ALL,
                                     .accumulate = 2,
                                     .batch      = c->batch };
    struct target         target;
    struct model         *model;
    struct program_set   *set;
    struct backend       *b;
    enum status           st = here->open(here->context, &perm, &b, err);
    if (st) return st;
    b->table->describe(b, &target);
    config.precision = low ? target.low : DT_F32;
    if (!low || target.low != DT_F32) {
        st = model_of(c, &feeds, &perm, &model, err);
        if (!st) st = compile(&perm, &target, &config, model_build, model, &set, scratch, err);
        if (!st) st = time_set(b, set, &feeds, g, &perm, scratch, err);
    }
    b->table->close(b);
    return st;
}

enum status calibrate(struct arena *perm, backend_opener *open, void *context,
                      struct rate_sample **out, i64 *count, struct arena scratch, struct err *err)
{
    struct machine_here here = { open, context };
    struct gathered     g    = { .all = NEW(perm, struct rate_sample, SAMPLES_MAX) };
    enum status         st   = STATUS_OK;
    for (i32 low = 0; low <= 1; low++) {
        for (i64 i = 0; !st && i < COUNT_OF(calibrations); i++)
            st = measure(&calibrations[i], &here, low, &g, scratch, err);
    }
    *out   = g.all;
    *count = g.count;
    return st;
}
