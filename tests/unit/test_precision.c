/* The precision pass: what is kept in which type, casts once and never in chains, for every model;
 * the same bits with recomputation; and which precision `auto` takes. */
#include "backend/backend.h"
#include "base/os.h"
#include "base/rng.h"
#include "harness.h"
#include "model/model.h"
#include "train/config.h"
#include "train/train_int.h"

enum { BATCH = 3, CONTEXT = 8, VOCABULARY = 20 };

static void feed_add(struct feeds *f, struct str name, enum dtype dtype, struct shape s, i64 range)
{
    f->feed[f->count++] = (struct feed){ name, type_of(dtype, s), range };
}

/* Each has something of its own: tied tables, rotary heads, padding, buffers, an output that the
 * host reads. */
enum kind { MLP, CONVOLUTIONS, GPT, MODERN, ENCODER, RANKER, KINDS };

static struct feeds feeds_of(enum kind kind)
{
    struct feeds f     = { 0 };
    bool         words = kind == GPT || kind == MODERN || kind == ENCODER;
    if (kind == MLP || kind == CONVOLUTIONS) feed_add(&f, STR("x"), DT_U8, shape_3(6, 6, 1), 0);
    if (words) feed_add(&f, STR("x"), DT_I32, shape_1(CONTEXT), VOCABULARY);
    if (kind == ENCODER) feed_add(&f, STR("lens"), DT_I32, shape_of(0, NULL), CONTEXT + 1);
    if (kind == RANKER) {
        feed_add(&f, STR("x"), DT_I32, shape_1(3), VOCABULARY);
        feed_add(&f, STR("dense"), DT_F32, shape_1(4), 0);
        feed_add(&f, STR("y"), DT_F32, shape_of(0, NULL), 0);
    } else if (kind == GPT || kind == MODERN) {
        feed_add(&f, STR("y"), DT_I32, shape_1(CONTEXT), VOCABULARY);
    } else {
        feed_add(&f, STR("y"), DT_I32, shape_of(0, NULL), 4);
    }
    return f;
}

static struct model *model_of(struct arena *perm, enum kind kind, enum dtype dtype)
{
    static const char *const texts[] = {
        [MLP]          = "[flatten, {dense: 5}, relu, {dense: 4}]",
        [CONVOLUTIONS] = "[{conv: 3}, batchnorm, relu, {maxpool: 2}, {residual: [{conv: 3}]}, "
                         "global_avgpool, {dropout: 0.2}, {dense: 4}]",
    };
    static const char *const names[] = { "layers", "layers", "gpt", "gpt", "encoder", "ranker" };
    struct model_config      c       = { .kind        = str_of(names[kind]),
                                         .file        = STR("test"),
                                         .depth       = 2,
                                         .width       = 16,
                                         .heads       = 2,
                                         .norm        = STR("layer"),
                                         .positions   = STR("learned"),
                                         .activation  = STR("gelu"),
                                         .tied        = true,
                                         .bias        = true,
                                         .rope_base   = 10000,
                                         .table_width = 4,
                                         .mlp         = { 8 },
                                         .mlp_count   = 1,
                                         .dtype       = dtype };
    struct feeds             f       = feeds_of(kind);
    struct model            *m;
    struct err               err = { 0 };
    if (kind == MODERN) {
        c.kv_heads   = 1;
        c.norm       = STR("rms");
        c.positions  = STR("rotary");
        c.activation = STR("swiglu");
        c.qk_norm    = true;
        c.tied = c.bias = false;
        c.softcap       = 30;
    }
    if (kind == MODERN || kind == ENCODER) c.dropout = 0.1;
    if (kind <= CONVOLUTIONS)
        CHECK_EQ(yaml_parse(perm, c.file, str_of(texts[kind]), &c.layers, &err), STATUS_OK);
    if (model_new(perm, &c, &f, &m, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return m;
}

static struct compile_config config_of(enum dtype precision)
{
    return (struct compile_config){ .optimiser  = OPTIMISER_ADAMW,
                                    .eps        = 1e-8,
                                    .clip       = 1,
                                    .precision  = precision,
                                    .batch      = BATCH,
                                    .eval_batch = BATCH };
}

static struct program_set *compiled(struct arena *perm, struct arena scratch, enum kind kind,
                                    const struct compile_config *c)
{
    struct target       t   = { .name = STR("test"), .align_bytes = 64, .fp8 = true };
    struct program_set *set = NULL;
    struct err          err = { 0 };
    if (compile(perm, &t, c, model_build, model_of(perm, kind, DT_F32), &set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return set;
}

/* --- types --- */

static void check_persistents(const struct program_set *set)
{
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (dtype_is_float(t->type.dtype) && t->type.dtype != DT_F32)
            harness_fail(__FILE__, __LINE__, "%.*s is kept in a low type", STR_ARG(t->name));
    }
}

static void check_nodes(const struct graph *g, enum dtype low)
{
    i32 low_ops = 0, wide_sums = 0;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n  = &g->nodes[i];
        struct type        in = g->values[n->in_count ? n->in[0] : n->out].type;
        if (op_info(n->op)->dtype_class == CLASS_LOW) {
            CHECK_EQ(in.dtype, low);
            CHECK_EQ(g->values[n->in[1 % n->in_count]].type.dtype == DT_F32, false);
            low_ops++;
        }
        if (op_info(n->op)->attrs & A_wide && g->values[n->out].kind == VALUE_GRAD) {
            CHECK(in.dtype == DT_F32 || n->at.wide);
            wide_sums += in.dtype == low;
        }
    }
    CHECK(low_ops > 0);
    if (g->forward_count) CHECK(wide_sums > 0);
}

/* Each value is cast once to a type at most, and nothing is cast there and back. */
static void check_casts(const struct graph *g)
{
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (n->op != OP_CAST) continue;
        i32 before = g->values[n->in[0]].node;
        if (before >= 0 && g->nodes[before].op == OP_CAST)
            harness_fail(__FILE__, __LINE__, "%.*s is a cast of a cast", STR_ARG(n->name));
        for (i32 k = 0; k < i; k++)
            if (g->nodes[k].op == OP_CAST && g->nodes[k].in[0] == n->in[0] &&
                g->nodes[k].at.dtype == n->at.dtype)
                harness_fail(__FILE__, __LINE__, "%.*s is cast twice", STR_ARG(n->name));
    }
}

/* Activations are what is large: none of those that products made or read is kept in f32. */
static void check_activations(const struct graph *g)
{
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (i32 k = 0; k < n->in_count && op_info(n->op)->dtype_class == CLASS_LOW; k++) {
            const struct value *v = &g->values[n->in[k]];
            if (v->type.dtype == DT_F32 && v->kind == VALUE_TEMP && v->type.shape.rank > 1 &&
                n->op != OP_ATTENTION_GRAD &&
                n->op != OP_ATTENTION_PACKED_GRAD) /* whose lse is one */
                harness_fail(__FILE__, __LINE__, "%.*s reads f32", STR_ARG(n->name));
        }
    }
}

TEST(products_are_low_and_what_persists_is_f32_in_every_model)
{
    for (enum dtype low = DT_BF16; low <= DT_F16; low++) {
        for (i32 i = 0; i < 2 * KINDS; i++) {
            struct compile_config c = config_of(low);
            c.wide_sums             = i % 2;
            struct program_set *set = compiled(perm, scratch, (enum kind)(i / 2), &c);
            check_persistents(set);
            for (i32 id = 0; id < PROGRAM_COUNT; id++) {
                if (!set->programs[id] || id == PROGRAM_UPDATE) continue;
                check_nodes(set->programs[id]->graph, low);
                check_casts(set->programs[id]->graph);
                check_activations(set->programs[id]->graph);
            }
        }
    }
}

/* What blocks read and add to, as far as norms see it. */
TEST(wide_sums_keep_the_stream_and_its_gradient_in_f32)
{
    for (enum kind kind = GPT; kind <= ENCODER; kind++) {
        struct compile_config c = config_of(DT_BF16);
        c.wide_sums             = true;
        const struct graph *g   = compiled(perm, scratch, kind, &c)->programs[PROGRAM_TRAIN]->graph;
        i32                 seen = 0, products = 0;
        for (i32 i = 0; i < g->node_count; i++) {
            const struct node *n       = &g->nodes[i];
            bool               forward = n->op == OP_LAYERNORM || n->op == OP_RMSNORM;
            bool               back    = n->op == OP_LAYERNORM_GRAD || n->op == OP_RMSNORM_GRAD;
            if (forward || back) CHECK_EQ(g->values[n->in[back]].type.dtype, DT_F32);
            if (back) CHECK_EQ(g->values[n->out].type.dtype, DT_F32);
            seen += forward + back;
            products += n->op == OP_MATMUL && n->at.wide && g->values[n->out].kind == VALUE_TEMP;
        }
        CHECK_EQ(seen,
                 2 * (2 * 2 + 1)); /* two a block and one behind them, each with its gradient */
        CHECK(kind != GPT ||
              products >=
                  2 * 2); /* that add to it without a cast; the others have dropout between */
        c.fp8 = FP8_ON;   /* its products give 16 bits: none may be made wide */
        g     = compiled(perm, scratch, kind, &c)->programs[PROGRAM_TRAIN]->graph;
        for (i32 i = 0; i < g->node_count; i++) {
            const struct node *n = &g->nodes[i];
            CHECK(n->op != OP_MATMUL || !n->at.wide || g->values[n->out].kind != VALUE_TEMP ||
                  i >= g->forward_count);
        }
    }
}

TEST(fp32_leaves_programs_as_they_are)
{
    struct compile_config c = config_of(DT_F32);
    const struct graph   *g = compiled(perm, scratch, MODERN, &c)->programs[PROGRAM_TRAIN]->graph;
    for (i32 i = 0; i < g->node_count; i++) CHECK(g->nodes[i].op != OP_CAST);
}

TEST(stochastic_rounding_is_for_weights_and_for_training)
{
    struct compile_config c                  = config_of(DT_BF16);
    c.stochastic                             = true;
    struct program_set *set                  = compiled(perm, scratch, GPT, &c);
    i32                 casts[PROGRAM_COUNT] = { 0 };
    for (i32 id = 0; id < PROGRAM_COUNT; id++) {
        const struct graph *g = set->programs[id] ? set->programs[id]->graph : NULL;
        for (i32 i = 0; g && i < g->node_count; i++) {
            const struct node *n = &g->nodes[i];
            if (n->op != OP_CAST || !n->at.stochastic) continue;
            CHECK_EQ(g->values[n->in[0]].kind, VALUE_PARAM);
            CHECK_EQ(n->at.key, (i64)str_hash(g->values[n->in[0]].name));
            casts[id]++;
        }
    }
    CHECK_EQ(casts[PROGRAM_TRAIN], 2 * 4 + 2); /* four products a block, wte and wpe */
    CHECK_EQ(casts[PROGRAM_EVAL], 0);
}

TEST(f64_and_a_low_type_contradict_each_other)
{
    struct target         t   = { .name = STR("test"), .align_bytes = 64 };
    struct compile_config c   = config_of(DT_BF16);
    struct err            err = { 0 };
    struct program_set   *set;
    CHECK_EQ(compile(perm, &t, &c, model_build, model_of(perm, MLP, DT_F64), &set, scratch, &err),
             STATUS_USAGE);
    CHECK(strstr(err.text, "model.dtype=f64"));
}

/* UPDATE_GOLDEN=1 in the environment writes the files anew; git shows what changed. */
static void check_golden(struct arena *perm, struct arena scratch, const char *name, enum kind kind)
{
    struct str            path = str_fmt(perm, "tests/golden/%s.program", name), kept;
    struct compile_config c    = config_of(DT_BF16);
    struct program_set   *set  = compiled(perm, scratch, kind, &c);
    struct str            now  = program_print(set->programs[PROGRAM_TRAIN], perm, scratch);
    struct err            err  = { 0 };
    if (getenv("UPDATE_GOLDEN")) CHECK_EQ(os_publish(os_real(), path, now, *perm, &err), STATUS_OK);
    if (os_read_all(os_real(), path, perm, &kept, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_STR(kept, now);
}

TEST(golden_programs_in_bf16)
{
    check_golden(perm, scratch, "bf16_mlp", MLP);
    check_golden(perm, scratch, "bf16_gpt", GPT);
}

/* --- what a pass later does to it --- */

static void put(struct backend *b, const struct program_set *set, struct str name, const void *data)
{
    const struct persistent *t = program_set_find(set, name);
    if (t) b->table->put(b, t->offset, data, type_bytes(t->type));
}

static void fill(struct backend *b, const struct program_set *set, struct arena scratch)
{
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        i64                      n = shape_count(t->type.shape);
        struct rng_key           k = { .seed = 4, .name = str_hash(t->name) };
        f32                     *w = NEW(&scratch, f32, n);
        i32                     *x = NEW(&scratch, i32, n);
        for (i64 e = 0; e < n; e++) {
            w[e] = (f32)(0.1 * rng_normal(k, (u64)e));
            x[e] = (i32)(rng_u32(k, (u64)e) % VOCABULARY);
        }
        if (t->kind == VALUE_PARAM) put(b, set, t->name, w);
        if (t->kind == VALUE_INPUT) put(b, set, t->name, x);
    }
    put(b, set, STR("loss_seed"), &(f32){ 1.0f / (BATCH * CONTEXT) });
    put(b, set, STR("rng"), (i32[]){ 1, 0, 0, 0 });
}

static u64 gradients(struct arena *perm, struct arena scratch, struct compile_config c)
{
    struct backend     *b;
    struct target       target;
    struct program_set *set;
    struct err          err = { 0 };
    u64                 h   = 1;
    CHECK_EQ(backend_cpu_open(perm, 2, BACKEND_FAST, &b, &err), STATUS_OK);
    b->table->describe(b, &target);
    CHECK_EQ(compile(perm, &target, &c, model_build, model_of(perm, MODERN, DT_F32), &set, scratch,
                     &err),
             STATUS_OK);
    CHECK_EQ(b->table->alloc(b, set->arena_bytes, &err), STATUS_OK);
    CHECK_EQ(b->table->prepare(b, set->programs[PROGRAM_TRAIN], perm, &err), STATUS_OK);
    fill(b, set, scratch);
    b->table->run(b, set->programs[PROGRAM_TRAIN]);
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (t->kind != VALUE_GRAD) continue;
        char *copy = NEW(&scratch, char, type_bytes(t->type));
        b->table->get(b, t->offset, copy, type_bytes(t->type));
        h = h * 31 + str_hash((struct str){ copy, type_bytes(t->type) });
    }
    b->table->close(b);
    return h;
}

TEST(recomputing_low_activations_and_casts_changes_no_bit)
{
    for (i32 stochastic = 0; stochastic < 2; stochastic++) {
        struct compile_config c = config_of(DT_BF16);
        c.stochastic            = stochastic;
        u64 kept                = gradients(perm, scratch, c);
        c.recompute.kind        = RECOMPUTE_ALL;
        CHECK_EQ(gradients(perm, scratch, c), kept);
        c.precision = DT_F32;
        CHECK(gradients(perm, scratch, c) != kept);
    }
}

/* --- train.precision --- */

TEST(auto_takes_what_the_machine_is_fast_in_and_says_why)
{
    struct target    plain = { .low = DT_F32, .low_by = "no such instructions" };
    struct target    fast  = { .low = DT_BF16, .low_by = "it has them" };
    struct precision p     = precision_choose(STR("auto"), DT_F32, &plain, perm);
    CHECK_EQ(p.dtype, DT_F32);
    CHECK_STR(p.reason, "no such instructions");
    p = precision_choose(STR("auto"), DT_F32, &fast, perm);
    CHECK_EQ(p.dtype, DT_BF16);
    CHECK_STR(p.reason, "it has them");
    p = precision_choose(STR("auto"), DT_F64, &fast, perm);
    CHECK_EQ(p.dtype, DT_F64);
    CHECK_STR(p.reason, "model.dtype is f64");
}

TEST(auto_is_the_default_and_takes_bf16_only_for_models_that_gain_by_it)
{
    for (enum kind k = 0; k < KINDS; k++)
        for (i32 conv = 0; conv < 2; conv++) {
            struct target t = { .low = DT_BF16, .low_conv = conv, .low_by = "it has them" };
            precision_consider(&t, model_of(perm, k, DT_F32), scratch);
            bool slow = k == CONVOLUTIONS && !conv;
            CHECK_EQ(t.low, slow ? DT_F32 : DT_BF16);
            struct precision p = precision_choose(STR("auto"), DT_F32, &t, perm);
            CHECK_EQ(p.dtype, t.low);
            CHECK_EQ(memmem(p.reason.data, (size_t)p.reason.len, "convolutions", 12) != NULL, slow);
        }
    CHECK_STR(config_new(perm)->settings.train.precision, "auto");
}

TEST(what_was_asked_for_is_taken_and_said_to_be_slow_where_it_is)
{
    struct target    plain = { .low = DT_F32, .low_by = "no such instructions" };
    struct target    fast  = { .low = DT_BF16, .low_by = "it has them" };
    struct precision p     = precision_choose(STR("bf16"), DT_F32, &plain, perm);
    CHECK_EQ(p.dtype, DT_BF16);
    CHECK_STR(p.reason, "as set, but slower here than fp32: no such instructions");
    p = precision_choose(STR("fp16"), DT_F32, &fast, perm);
    CHECK_EQ(p.dtype, DT_F16);
    CHECK_STR(p.reason, "as set, but slower here than bf16: it has them");
    CHECK_STR(precision_choose(STR("bf16"), DT_F32, &fast, perm).reason, "as set");
    CHECK_STR(precision_choose(STR("fp32"), DT_F32, &fast, perm).reason, "");
    CHECK_STR(precision_name(p.dtype), "fp16");
}
