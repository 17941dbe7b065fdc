/* Every gradient rule against central differences, in f64 on the reference kernels.
 *
 * One row a case: an op, the shapes of its inputs and its attributes. The loss is the sum of each
 * result's elements times fixed random weights, so that every element of every result counts.
 * Tolerance: with step h the central difference errs by h^2 |f'''| / 6 + eps |f| / h; h = 1e-5 makes
 * both about 1e-10 for functions of order 1, and we allow 1e-6 relative to the gradient's norm. */
#include "backend/backend.h"
#include "base/rng.h"
#include "compile/compile.h"
#include "harness.h"
#include "ir/build.h"

enum { GIVEN = 1, POSITIVE = 2, LENS = 4, TARGETS = 8, IDS = 16, OFFSETS = 32 }; /* of an input */

struct gradient_case {
    i32          op;
    i32          in_count;
    struct shape in[5];
    i32          flags[5]; /* 0: a parameter to be differentiated */
    struct attrs at;
};

#define S1(a)                                                                                      \
    {                                                                                              \
        1, { a }                                                                                   \
    }
#define S2(a, b)                                                                                   \
    {                                                                                              \
        2, { a, b }                                                                                \
    }
#define S3(a, b, c)                                                                                \
    {                                                                                              \
        3, { a, b, c }                                                                             \
    }
#define S4(a, b, c, d)                                                                             \
    {                                                                                              \
        4, { a, b, c, d }                                                                          \
    }

static const struct gradient_case cases[] = {
    { OP_ADD, 2, { S2(3, 4), S2(3, 4) }, { 0 }, { 0 } },
    { OP_ADD, 2, { S3(2, 3, 4), S1(4) }, { 0 }, { 0 } },
    { OP_ADD, 2, { S3(2, 3, 4), S2(3, 4) }, { 0 }, { 0 } },
    { OP_SUB, 2, { S2(3, 4), S1(4) }, { 0 }, { 0 } },
    { OP_MUL, 2, { S2(3, 4), S2(3, 4) }, { 0 }, { 0 } },
    { OP_MUL, 2, { S2(3, 4), S1(1) }, { 0 }, { 0 } },
    { OP_DIV, 2, { S2(3, 4), S1(4) }, { 0, POSITIVE }, { 0 } },
    { OP_SCALE, 1, { S1(5) }, { 0 }, { .mul = -1.5, .add = 2 } },
    { OP_RELU, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_RELU2, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_GELU, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_GELU_ERF, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_SILU, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_TANH, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_SIGMOID, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_EXP, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_LOG, 1, { S2(3, 5) }, { POSITIVE }, { 0 } },
    { OP_SQRT, 1, { S2(3, 5) }, { POSITIVE }, { 0 } },
    { OP_SOFTCAP, 1, { S2(3, 5) }, { 0 }, { .cap = 1.7 } },
    { OP_SWIGLU, 1, { S2(3, 6) }, { 0 }, { 0 } },
    { OP_CAST, 1, { S2(3, 6) }, { 0 }, { .dtype = DT_F64 } },
    { OP_RESHAPE, 1, { S2(3, 4) }, { 0 }, { .dims = S3(2, 2, 3) } },
    { OP_TRANSPOSE, 1, { S3(2, 3, 4) }, { 0 }, { .dims = S3(2, 0, 1) } },
    { OP_CONCAT, 3, { S2(3, 4), S2(3, 1), S2(3, 2) }, { 0 }, { .axis = 1 } },
    { OP_SLICE, 1, { S3(2, 5, 3) }, { 0 }, { .axis = 1, .start = 1, .count = 3 } },
    { OP_SUM, 1, { S3(2, 3, 4) }, { 0 }, { .axis = 1, .count = 1 } },
    { OP_SUM, 1, { S3(2, 3, 4) }, { 0 }, { .axis = 0, .count = 3 } },
    { OP_SUM, 1, { S2(5, 1) }, { 0 }, { .axis = 0, .count = 1 } },
    { OP_BROADCAST, 1, { S2(2, 4) }, { 0 }, { .axis = 1, .dims = S1(3) } },
    { OP_MATMUL, 3, { S2(4, 3), S2(5, 3), S1(5) }, { 0 }, { .tb = 1 } },
    { OP_MATMUL, 3, { S3(2, 4, 3), S2(5, 3), S1(5) }, { 0 }, { .tb = 1 } },
    { OP_MATMUL, 2, { S2(3, 4), S2(3, 5) }, { 0 }, { .ta = 1 } },
    { OP_MATMUL, 2, { S2(3, 4), S2(5, 3) }, { 0 }, { .ta = 1, .tb = 1 } },
    { OP_MATMUL, 2, { S3(2, 4, 3), S3(2, 3, 5) }, { 0 }, { 0 } },
    { OP_MATMUL, 2, { S3(2, 3, 4), S3(2, 5, 3) }, { 0 }, { .ta = 1, .tb = 1 } },
    { OP_EMBEDDING, 2, { S2(7, 3), S2(2, 5) }, { 0, IDS }, { 0 } },
    { OP_LAYERNORM, 3, { S2(4, 6), S1(6), S1(6) }, { 0 }, { .eps = 1e-5 } },
    { OP_RMSNORM, 2, { S2(4, 6), S1(6) }, { 0 }, { .eps = 1e-5 } },
    { OP_RMSNORM, 1, { S2(4, 6) }, { 0 }, { .eps = 1e-5 } },
    { OP_BATCHNORM,
      5,
      { S4(2, 3, 3, 4), S1(4), S1(4), S1(4), S1(4) },
      { 0, 0, 0, GIVEN, GIVEN },
      { .eps = 1e-5, .momentum = 0.1 } },
    { OP_CONV2D, 3, { S4(2, 5, 6, 3), S4(4, 3, 3, 3), S1(4) }, { 0 }, { .stride = 1, .pad = 1 } },
    { OP_CONV2D, 2, { S4(2, 6, 5, 2), S4(3, 3, 2, 2) }, { 0 }, { .stride = 2, .pad = 1 } },
    { OP_CONV2D, 2, { S4(1, 6, 6, 2), S4(3, 1, 1, 2) }, { 0 }, { .stride = 2, .pad = 0 } },
    { OP_MAXPOOL, 1, { S4(2, 5, 5, 2) }, { 0 }, { .kernel = 3, .stride = 2, .pad = 1 } },
    { OP_AVGPOOL, 1, { S4(2, 5, 5, 2) }, { 0 }, { .kernel = 3, .stride = 2, .pad = 1 } },
    { OP_SOFTMAX, 1, { S2(3, 5) }, { 0 }, { 0 } },
    { OP_ATTENTION,
      1,
      { S3(2, 5, 24) },
      { 0 },
      { .heads = 2, .kv_heads = 2, .causal = 1, .scale = 0.5 } },
    { OP_ATTENTION,
      1,
      { S3(2, 5, 24) },
      { 0 },
      { .heads = 2, .kv_heads = 2, .causal = 1, .window = 3, .scale = 0.5 } },
    { OP_ATTENTION,
      2,
      { S3(2, 5, 16), S1(2) },
      { 0, LENS },
      { .heads = 2, .kv_heads = 1, .causal = 0, .scale = 0.7 } },
    { OP_ATTENTION_PACKED,
      2,
      { S2(11, 24), S1(4) },
      { 0, OFFSETS },
      { .count = 6, .heads = 2, .kv_heads = 2, .causal = 1, .scale = 0.5 } },
    { OP_ATTENTION_PACKED,
      2,
      { S2(11, 24), S1(4) },
      { 0, OFFSETS },
      { .count = 6, .heads = 2, .kv_heads = 2, .causal = 1, .window = 2, .scale = 0.5 } },
    { OP_ATTENTION,
      2,
      { S3(2, 5, 24), S1(4) },
      { 0, IDS },
      { .heads = 2, .kv_heads = 2, .causal = 1, .scale = 0.5, .key = 77, .p = 0.4 } },
    { OP_ATTENTION_PACKED,
      3,
      { S2(11, 24), S1(4), S1(4) },
      { 0, OFFSETS, IDS },
      { .count = 6, .heads = 2, .kv_heads = 2, .scale = 0.5, .key = 77, .p = 0.4 } },
    { OP_ATTENTION_PACKED,
      2,
      { S2(11, 16), S1(4) },
      { 0, OFFSETS },
      { .count = 6, .heads = 2, .kv_heads = 1, .causal = 0, .scale = 0.7 } },
    { OP_ROPE,
      2,
      { S3(2, 3, 12), S2(2, 3) },
      { 0, IDS },
      { .heads = 2, .head_dim = 4, .base = 100 } },
    { OP_ROPE, 1, { S3(2, 5, 12) }, { 0 }, { .heads = 2, .head_dim = 4, .base = 100 } },
    { OP_ROPE,
      1,
      { S3(2, 5, 12) },
      { 0 },
      { .heads = 2, .head_dim = 4, .base = 100, .stretch = 4, .low = 0.01, .high = 0.3 } },
    { OP_QKNORM, 1, { S3(2, 5, 12) }, { 0 }, { .heads = 2, .head_dim = 4, .eps = 1e-5 } },
    { OP_DROPOUT, 2, { S2(4, 7), S1(4) }, { 0, IDS }, { .p = 0.3, .key = 12345 } },
    { OP_DROPOUT,
      4,
      { S2(4, 7), S1(4), S1(4), S1(4) },
      { 0, IDS, IDS, IDS },
      { .p = 0.3, .key = 12345 } },
    { OP_XENT, 2, { S3(2, 3, 5), S2(2, 3) }, { 0, TARGETS }, { 0 } },
    { OP_XENT, 2, { S2(4, 5), S1(4) }, { 0, TARGETS }, { .smoothing = 0.1 } },
    { OP_BCE, 2, { S1(6), S1(6) }, { 0, GIVEN }, { 0 } },
};

static struct str input_name(struct arena *perm, i32 i) { return str_fmt(perm, "in%d", i); }

static bool is_i32(i32 flags) { return flags & (LENS | TARGETS | IDS | OFFSETS); }

static enum status build_case(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                              struct err *err)
{
    const struct gradient_case *c = context;
    i32                         in[5], loss = -1;
    (void)batch;
    (void)mode;
    for (i32 i = 0; i < c->in_count; i++) {
        enum dtype dtype = is_i32(c->flags[i]) ? DT_I32 : DT_F64;
        bool       state = op_info(c->op)->writes >> i & 1;
        bool       given = is_i32(c->flags[i]) || (c->flags[i] & GIVEN);
        in[i]            = graph_value(g,
                            state   ? VALUE_BUFFER
                                       : given ? VALUE_INPUT
                                               : VALUE_PARAM,
                                       input_name(g->perm, i), type_of(dtype, c->in[i]));
    }
    i32 out = graph_op(g, c->op, STR("op"), in, c->in_count, &c->at);
    for (i32 k = 0; k < 1 && out >= 0; k++) { /* further results are for the gradient only */
        i32 w = graph_value(g, VALUE_INPUT, str_fmt(g->perm, "w%d", k), graph_type(g, out + k));
        i32 p = build_binary(g, OP_MUL, STR("weighted"), out + k, w);
        i32 s = build_sum(g, STR("sum"), p, 0, graph_type(g, p).shape.rank);
        loss  = loss < 0 ? s : build_binary(g, OP_ADD, STR("total"), loss, s);
    }
    if (loss >= 0) graph_output(g, loss, STR("loss"));
    return graph_status(g, err);
}

struct run {
    struct backend     *b;
    struct program_set *set;
};

static void put(struct run *r, struct str name, const void *data)
{
    const struct persistent *t = program_set_find(r->set, name);
    if (t) r->b->table->put(r->b, t->offset, data, type_bytes(t->type));
}

static f64 loss_now(struct run *r)
{
    f64 loss;
    r->b->table->run(r->b, r->set->programs[PROGRAM_EVAL]);
    r->b->table->get(r->b, program_set_find(r->set, STR("loss"))->offset, &loss, sizeof loss);
    return loss;
}

/* Values away from the kinks of relu and max; positive where asked. */
static void fill(f64 *v, i64 count, u64 seed, struct str name, i32 flags)
{
    struct rng_key key = { .seed = seed, .name = str_hash(name) };
    for (i64 i = 0; i < count; i++) {
        f64 u = rng_uniform(key, (u64)i) * 2 - 1;
        v[i]  = u < 0 ? u - 0.05 : u + 0.05;
        if (flags & POSITIVE) v[i] = fabs(v[i]) + 0.5;
        if (flags & GIVEN) v[i] = fabs(v[i]);
    }
}

static void fill_i32(i32 *v, const struct gradient_case *c, i32 input, i64 count, u64 seed)
{
    struct rng_key key   = { .seed = seed, .name = 77 };
    i64            range = c->flags[input] & LENS      ? c->in[0].dim[1]
                           : c->flags[input] & TARGETS ? shape_last(c->in[0])
                                                       : c->in[0].dim[0];
    for (i64 i = 0; i < count; i++) v[i] = (i32)(rng_u32(key, (u64)i) % (u32)range);
    if (c->flags[input] & OFFSETS) /* three sequences, and two rows of none */
        for (i64 i = 0; i < count; i++) v[i] = (i32[]){ 0, 6, 7, 9 }[i];
    if (c->flags[input] & LENS) v[0] = (i32)range - 1;
    if (c->flags[input] & TARGETS) v[1] = -1; /* counts for nothing */
}

static f64 check_input(struct run *r, struct str name, f64 *x, i64 count, struct arena scratch)
{
    f64       *grad = NEW(&scratch, f64, count);
    struct str g    = str_cat(&scratch, name, STR(".grad"));
    f64        diff = 0, norm = 0;
    r->b->table->run(r->b, r->set->programs[PROGRAM_TRAIN]);
    r->b->table->get(r->b, program_set_find(r->set, g)->offset, grad, count * 8);
    for (i64 i = 0; i < count; i++) {
        f64 h = 1e-5, keep = x[i];
        x[i] = keep + h;
        put(r, name, x);
        f64 up = loss_now(r);
        x[i]   = keep - h;
        put(r, name, x);
        f64 slope = (up - loss_now(r)) / (2 * h);
        x[i]      = keep;
        put(r, name, x);
        diff += (grad[i] - slope) * (grad[i] - slope);
        norm += slope * slope;
    }
    return sqrt(diff) / (sqrt(norm) + 1e-3);
}

static void check_case(const struct gradient_case *c, u64 seed, struct arena *perm,
                       struct arena scratch)
{
    struct err            err = { 0 };
    struct run            r   = { 0 };
    struct target         target;
    struct compile_config config = { .batch = 1, .eval_batch = 1 };
    f64                  *x[5], one = 1;
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_REFERENCE, &r.b, &err), STATUS_OK);
    r.b->table->describe(r.b, &target);
    enum status st =
        compile(perm, &target, &config, build_case, (void *)(uintptr_t)c, &r.set, scratch, &err);
    if (st) harness_fail(__FILE__, __LINE__, "%s: %s", op_info(c->op)->name, err.text);
    CHECK_EQ(r.b->table->alloc(r.b, r.set->arena_bytes, &err), STATUS_OK);
    for (i32 i = 0; i < PROGRAM_COUNT; i++) {
        if (r.set->programs[i])
            CHECK_EQ(r.b->table->prepare(r.b, r.set->programs[i], perm, &err), STATUS_OK);
    }
    put(&r, STR("loss_seed"), &one);
    for (i32 i = 0; i < c->in_count; i++) {
        i64        count = shape_count(c->in[i]);
        struct str name  = input_name(perm, i);
        x[i]             = NEW(perm, f64, count);
        if (is_i32(c->flags[i])) fill_i32((i32 *)(void *)x[i], c, i, count, seed);
        else fill(x[i], count, seed, name, c->flags[i]);
        put(&r, name, x[i]);
    }
    const struct persistent *w  = program_set_find(r.set, STR("w0"));
    f64                     *w0 = NEW(perm, f64, shape_count(w->type.shape));
    fill(w0, shape_count(w->type.shape), seed, STR("w0"), 0);
    put(&r, STR("w0"), w0);
    for (i32 i = 0; i < c->in_count; i++) {
        if (c->flags[i] & ~POSITIVE) continue;
        f64 e = check_input(&r, input_name(perm, i), x[i], shape_count(c->in[i]), scratch);
        if (!(e < 1e-6))
            harness_fail(__FILE__, __LINE__, "%s, input %d: gradient off by %.2e relative",
                         op_info(c->op)->name, i, e);
    }
    r.b->table->close(r.b);
}

TEST(gradients_agree_with_central_differences)
{
    u64 seed = test_seed();
    for (i64 i = 0; i < COUNT_OF(cases); i++) check_case(&cases[i], seed + (u64)i, perm, scratch);
}

TEST(every_differentiable_op_has_a_case)
{
    for (i32 op = 0; op < OP_COUNT; op++) {
        bool found = !op_info(op)->grad;
        for (i64 i = 0; i < COUNT_OF(cases); i++) found |= cases[i].op == op;
        if (!found) harness_fail(__FILE__, __LINE__, "no case for %s", op_info(op)->name);
    }
}
