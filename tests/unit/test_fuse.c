/* Fusion: fewer instructions, the same bits. Random graphs, random chains on every kernel that applies
 * them, and one program a pattern to look at: tests/golden/fuse_NAME.program, before and after. */
#include "backend/backend.h"
#include "backend/cpu/kernel.h"
#include "base/os.h"
#include "base/rng.h"
#include "compile/compile_int.h"
#include "harness.h"
#include "ir/build.h"
#include "support/op_case.h"

static const char *const names[] = {
#define FUSION(id, name, what) name,
    FUSIONS(FUSION)
#undef FUSION
};

/* --- programs to look at --- */

enum { B = 4, C = 8, CLASSES = 3 };

static i32 param(struct graph *g, const char *name, struct shape s)
{
    return graph_param(g, str_of(name), type_of(DT_F32, s), (struct init){ INIT_NORMAL, 0.1 },
                       true);
}

static i32 dense(struct graph *g, const char *name, i32 x, i64 out)
{
    i64        in = shape_last(graph_type(g, x).shape);
    struct str w = str_fmt(g->perm, "%s.weight", name), b = str_fmt(g->perm, "%s.bias", name);
    i32        weight = param(g, w.data, shape_2(out, in)), bias = param(g, b.data, shape_1(out));
    return build_matmul(g, str_of(name), x, weight, bias, false, true);
}

static i32 norm(struct graph *g, i32 op, const char *name, i32 x)
{
    struct shape c    = shape_1(shape_last(graph_type(g, x).shape));
    i32          in[] = { x, param(g, str_fmt(g->perm, "%s.weight", name).data, c), -1 };
    struct attrs at   = { .eps = 1e-5 };
    if (op != OP_RMSNORM) in[2] = param(g, str_fmt(g->perm, "%s.bias", name).data, c);
    if (op == OP_BATCHNORM) {
        struct type t    = type_of(DT_F32, c);
        i32         mean = graph_value(g, VALUE_BUFFER, str_fmt(g->perm, "%s.mean", name), t);
        i32         var  = graph_value(g, VALUE_BUFFER, str_fmt(g->perm, "%s.var", name), t);
        return build_batchnorm(g, str_of(name), x, in[1], in[2], mean, var, 1e-5, 0.1, true);
    }
    return graph_op(g, op, str_of(name), in, op == OP_LAYERNORM ? 3 : 2, &at);
}

static i32 input(struct graph *g)
{
    return graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_2(B, C)));
}

static enum status classify(struct graph *g, i32 h, struct err *err)
{
    i64 rows = graph_type(g, h).shape.dim[0];
    i32 y    = graph_value(g, VALUE_INPUT, STR("y"), type_of(DT_I32, shape_1(rows)));
    i32 loss = build_xent(g, STR("xent"), dense(g, "head", h, CLASSES), y, 0);
    i32 sum  = build_sum(g, STR("loss"), loss, 0, 1);
    if (sum >= 0) graph_output(g, sum, STR("loss"));
    return graph_status(g, err);
}

static i32 add(struct graph *g, const char *name, i32 a, i32 b)
{
    return build_binary(g, OP_ADD, str_of(name), a, b);
}

/* x + down(gelu(up(x))): activation and residual sum behind products, gelu's gradient too. */
static i32 build_epilogue(struct graph *g)
{
    i32 x = input(g), up = dense(g, "up", x, 2 * C);
    return add(g, "sum", x, dense(g, "down", build_unary(g, OP_GELU, STR("gelu"), up), C));
}

static i32 build_batch_norms(struct graph *g)
{
    i32 x = dense(g, "first", input(g), C), h = norm(g, OP_BATCHNORM, "norm_1", x);
    h = norm(g, OP_BATCHNORM, "norm_2", build_unary(g, OP_RELU, STR("relu_1"), h));
    return build_unary(g, OP_RELU, STR("relu_2"), add(g, "sum", h, x));
}

static i32 build_residual(struct graph *g)
{
    i32 x = build_dropout(g, STR("drop_1"), dense(g, "first", input(g), C), 0.1);
    i32 h = dense(g, "mix", norm(g, OP_LAYERNORM, "norm_1", x), C);
    h     = add(g, "sum", x, build_dropout(g, STR("drop_2"), h, 0.1));
    return norm(g, OP_RMSNORM, "norm_2", h);
}

static i32 build_chain(struct graph *g)
{
    i32 a = norm(g, OP_LAYERNORM, "norm", dense(g, "first", input(g), C));
    i32 h = build_unary(g, OP_TANH, STR("tanh"), build_scale(g, STR("scale"), a, 0.5, 0));
    return build_binary(g, OP_MUL, STR("gate"), h, a);
}

static i32 (*const builders[])(struct graph *) = {
    [FUSION_EPILOGUE]  = build_epilogue,
    [FUSION_BATCHNORM] = build_batch_norms,
    [FUSION_RESIDUAL]  = build_residual,
    [FUSION_CHAIN]     = build_chain,
    [FUSION_LOSS]      = input,
};

/* A loss as a language model has it: no bias, a soft cap. */
static enum status predict(struct graph *g, i32 h, struct err *err)
{
    i32 y = graph_value(g, VALUE_INPUT, STR("y"), type_of(DT_I32, shape_1(B)));
    i32 w = param(g, "head.weight", shape_2(CLASSES, C));
    i32 x = dense(g, "first", h, C);
    i32 logits =
        build_softcap(g, STR("cap"), build_matmul(g, STR("head"), x, w, -1, false, true), 15);
    i32 sum = build_sum(g, STR("loss"), build_xent(g, STR("xent"), logits, y, 0), 0, 1);
    if (sum >= 0) graph_output(g, sum, STR("loss"));
    return graph_status(g, err);
}

static enum status build_shown(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                               struct err *err)
{
    (void)batch;
    (void)mode;
    i32 h = builders[*(i32 *)context](g);
    return *(i32 *)context == FUSION_LOSS ? predict(g, h, err) : classify(g, h, err);
}

static const struct program *shown(i32 pattern, u32 fuse, struct arena *perm, struct arena scratch)
{
    struct target t = { .name = STR("test"), .align_bytes = 64, .loss_part_bytes = 1 << 20 };
    struct compile_config c   = { .optimiser = OPTIMISER_ADAMW, .batch = B, .fuse = fuse };
    struct program_set   *set = NULL;
    struct err            err = { 0 };
    if (compile(perm, &t, &c, build_shown, &pattern, &set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return set->programs[PROGRAM_TRAIN];
}

/* Each pattern changes its program, and as the file says; UPDATE_GOLDEN=1 renews the file. */
TEST(patterns_agree_with_their_golden_programs)
{
    for (i32 i = 0; i < FUSION_COUNT; i++) {
        struct arena   text = arena_part(perm, 1 << 20), room = arena_part(perm, 1 << 20);
        struct textbuf b    = textbuf_new(&text);
        struct str     path = str_fmt(perm, "tests/golden/fuse_%s.program", names[i]), golden;
        struct err     err  = { 0 };
        textbuf_add(&b, program_print(shown(i, 0, &room, scratch), &room, scratch));
        i64 before = textbuf_str(&b).len;
        textbuf_add(&b, STR("\n"));
        textbuf_add(&b, program_print(shown(i, 1u << i, &room, scratch), &room, scratch));
        struct str now = textbuf_str(&b);
        CHECK(now.len - before < before);
        if (getenv("UPDATE_GOLDEN")) {
            FILE *f = fopen(path.data, "w");
            CHECK(f && fwrite(now.data, 1, (size_t)now.len, f) == (size_t)now.len && !fclose(f));
        }
        if (os_read_all(os_real(), path, perm, &golden, &err))
            harness_fail(__FILE__, __LINE__, "%s", err.text);
        CHECK_STR(golden, now);
    }
}

/* No probabilities beside logits: the gradient lies where the logits lay. */
TEST(the_gradient_of_a_loss_takes_the_place_of_the_logits)
{
    for (i32 i = 0; i < FUSION_COUNT; i++) {
        const struct program *p     = shown(i, FUSE_ALL, perm, scratch);
        i32                   found = 0;
        for (i32 k = 0; k < p->graph->node_count; k++) {
            const struct node *n    = &p->graph->nodes[k];
            bool               both = n->op == OP_XENT_BOTH;
            if (!both && n->op != OP_XENT_GRAD) continue;
            CHECK_EQ(p->offset[n->out], p->offset[n->in[both ? 0 : 1]]);
            found++;
        }
        CHECK_EQ(found, 1);
    }
}

/* A target's backend may lack a pattern's kernels. */
TEST(a_target_gets_no_pattern_that_it_lacks)
{
    struct target         t   = { .name = STR("test"), .align_bytes = 64 };
    struct compile_config c   = { .optimiser = OPTIMISER_ADAMW, .batch = B, .fuse = FUSE_ALL };
    struct err            err = { 0 };
    struct program_set   *set[2];
    i32                   pattern = FUSION_RESIDUAL, norms[2] = { 0 };
    for (i32 i = 0; i < 2; i++) {
        t.fusions_off = i ? FUSE_RESIDUAL : 0;
        CHECK_EQ(compile(perm, &t, &c, build_shown, &pattern, &set[i], scratch, &err), STATUS_OK);
        const struct graph *g = set[i]->programs[PROGRAM_TRAIN]->graph;
        for (i32 k = 0; k < g->node_count; k++) norms[i] += g->nodes[k].op == OP_ADD_RMSNORM;
    }
    CHECK(norms[0] == 1 && norms[1] == 0);
}

/* --- random graphs --- */

enum { ROWS = 6, WIDTH = 20, NODES_MAX = 24, POOL_MAX = 64 };

struct plan_of_graph { /* what a seed makes of it */
    u64 seed;
};

static i32 random_unary(struct graph *g, struct draw *d, struct str name, i32 x)
{
    static const i32 ops[] = { OP_RELU, OP_GELU, OP_SILU, OP_TANH, OP_SIGMOID, OP_RELU2 };
    i64              k     = draw_to(d, COUNT_OF(ops) + 2);
    if (k == COUNT_OF(ops)) return build_scale(g, name, x, 0.5, 0.1);
    if (k > COUNT_OF(ops)) return build_softcap(g, name, x, 5);
    return build_unary(g, ops[k], name, x);
}

/* A map of x seen in another shape. */
static i32 random_view(struct graph *g, struct draw *d, struct str name, i32 x)
{
    i32 v = build_reshape(g, name, x, shape_3(2, ROWS / 2, WIDTH));
    return build_reshape(g, name, random_unary(g, d, name, v), shape_2(ROWS, WIDTH));
}

static i32 random_node(struct graph *g, struct draw *d, i32 index, i32 x, i32 y)
{
    static const i32 norms[] = { OP_LAYERNORM, OP_RMSNORM, OP_BATCHNORM };
    struct str       name    = str_fmt(g->perm, "n%d", index);
    switch (draw_to(d, 8)) {
    case 0: return dense(g, name.data, x, WIDTH);
    case 1: return norm(g, norms[draw_to(d, COUNT_OF(norms))], name.data, x);
    case 2: return build_binary(g, draw_to(d, 2) ? OP_SUB : OP_MUL, name, x, y);
    case 3: return build_dropout(g, name, x, 0.2);
    case 4: return random_view(g, d, name, x);
    case 5: return build_binary(g, OP_ADD, name, x, y);
    default: return random_unary(g, d, name, x);
    }
}

/* Nodes over one shape, each reading earlier ones, mostly the last; some persist. */
static enum status build_random(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                                struct err *err)
{
    struct draw d = { .state = ((struct plan_of_graph *)context)->seed };
    i32         made[POOL_MAX], count = 0, nodes = 6 + (i32)draw_to(&d, NODES_MAX - 6);
    (void)batch;
    (void)mode;
    i32 x         = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_2(ROWS, WIDTH)));
    made[count++] = dense(g, "first", x, WIDTH);
    for (i32 i = 0; i < nodes; i++) {
        i32 a         = made[draw_to(&d, 3) ? count - 1 : draw_to(&d, count)];
        i32 b         = made[draw_to(&d, count)];
        g->block      = 1 + i / 6;
        bool swap     = draw_to(&d, 2);
        made[count++] = random_node(g, &d, i, swap ? b : a, swap ? a : b);
        if (draw_to(&d, 10) == 0) graph_output(g, made[count - 1], str_fmt(g->perm, "seen%d", i));
    }
    g->block = 0;
    return classify(g, made[count - 1], err);
}

struct run {
    struct backend     *b;
    struct program_set *set;
};

static void put(const struct run *r, struct str name, const void *data)
{
    const struct persistent *t = program_set_find(r->set, name);
    if (t) r->b->table->put(r->b, t->offset, data, type_bytes(t->type));
}

static void put_numbers(const struct run *r, u64 seed, struct arena scratch)
{
    i32 targets[ROWS];
    for (i32 i = 0; i < ROWS; i++) targets[i] = i % CLASSES;
    for (i32 i = 0; i < r->set->persistent_count; i++) {
        const struct persistent *t     = &r->set->persistents[i];
        i64                      count = shape_count(t->type.shape);
        struct rng_key           key   = { .seed = seed, .name = str_hash(t->name) };
        if (t->kind == VALUE_OUTPUT || t->type.dtype != DT_F32) continue;
        f32 *v = NEW(&scratch, f32, count);
        for (i64 k = 0; k < count; k++) v[k] = (f32)(0.5 * rng_normal(key, (u64)k));
        put(r, t->name, v);
    }
    put(r, STR("y"), targets);
    put(r, STR("rng"), (i32[]){ (i32)seed, 0, 1, 0 });
    put(r, STR("loss_seed"), &(f32){ 1.0f / ROWS });
}

/* Everything that outlives the program, by name: its order in memory does not matter. */
static u64 hash_of(const struct run *r, struct arena scratch)
{
    u64 sum = 0;
    for (i32 i = 0; i < r->set->persistent_count; i++) {
        const struct persistent *t     = &r->set->persistents[i];
        i64                      bytes = type_bytes(t->type);
        char                    *copy  = NEW(&scratch, char, bytes);
        if (t->kind == VALUE_STATE) continue;
        r->b->table->get(r->b, t->offset, copy, bytes);
        sum += str_hash(t->name) * str_hash((struct str){ copy, bytes });
    }
    return sum;
}

struct outcome {
    u64 hash;
    i32 instructions;
    i64 bytes;
};

static struct outcome run_random(struct plan_of_graph p, u32 fuse, enum recompute_kind recompute,
                                 enum dtype precision, struct arena *perm, struct arena scratch)
{
    struct run            r      = { 0 };
    struct err            err    = { 0 };
    struct target         target = { 0 };
    struct compile_config c      = { .optimiser  = OPTIMISER_SGD,
                                     .batch      = ROWS,
                                     .accumulate = 2,
                                     .precision  = precision,
                                     .recompute  = { .kind = recompute, .every = 1 },
                                     .fuse       = fuse };
    CHECK_EQ(backend_cpu_open(perm, 2, BACKEND_FAST, &r.b, &err), STATUS_OK);
    r.b->table->describe(r.b, &target);
    if (compile(perm, &target, &c, build_random, &p, &r.set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)p.seed, err.text);
    CHECK_EQ(r.b->table->alloc(r.b, r.set->arena_bytes, &err), STATUS_OK);
    struct program *programs[] = { r.set->programs[PROGRAM_TRAIN], r.set->programs[PROGRAM_ADD] };
    put_numbers(&r, p.seed, scratch);
    for (i32 i = 0; i < 2; i++) {
        CHECK_EQ(r.b->table->prepare(r.b, programs[i], perm, &err), STATUS_OK);
        r.b->table->run(r.b, programs[i]);
    }
    struct outcome o = { hash_of(&r, scratch), programs[0]->instr_count, r.set->arena_bytes };
    r.b->table->close(r.b);
    return o;
}

TEST(fused_programs_give_the_bits_of_unfused_ones)
{
    enum { GRAPHS = 60 };
    u64 seed  = test_seed();
    i32 fewer = 0;
    for (u64 i = 0; i < GRAPHS; i++) {
        struct arena         room  = *perm;
        struct plan_of_graph p     = { rng_mix(seed + i) };
        enum dtype           type  = i % 4 == 3 ? DT_BF16 : DT_F32;
        struct outcome       plain = run_random(p, 0, RECOMPUTE_NONE, type, &room, scratch);
        for (i32 k = 0; k <= FUSION_COUNT + 1; k++) {
            u32                 fuse = k < FUSION_COUNT ? 1u << k : FUSE_ALL;
            enum recompute_kind kind = k > FUSION_COUNT ? RECOMPUTE_ALL : RECOMPUTE_NONE;
            struct outcome      o    = run_random(p, fuse, kind, type, &room, scratch);
            if (o.hash != plain.hash)
                harness_fail(__FILE__, __LINE__, "graph of seed %llu, patterns %x, recompute %d",
                             (unsigned long long)p.seed, fuse, (int)kind);
            CHECK(kind == RECOMPUTE_ALL || o.instructions <= plain.instructions);
            fewer += k == FUSION_COUNT && o.instructions < plain.instructions;
        }
    }
    CHECK(fewer > GRAPHS / 2);
}

/* --- kernels --- */

struct chained_case {
    struct op_case c;
    struct type    operand; /* of every map that takes two */
    void          *operands[THEN_MAX];
};

/* A chain of maps that do not share attributes, and operands for it. */
static void add_chain(struct chained_case *x, struct draw *d, struct arena *perm)
{
    struct chain *then   = &x->c.at.then;
    i64           wanted = 1 + draw_to(d, THEN_MAX), count = shape_count(x->c.out[0].shape);
    x->operand = x->c.out[0];
    then->keep = draw_to(d, 2);
    for (i32 tries = 0; then->count < wanted && tries < 50; tries++) {
        i32 op   = (i32)draw_to(d, OP_COUNT);
        u64 same = op_attrs(x->c.op, &x->c.at) & op_info(op)->attrs & ~(u64)A_then;
        if (op_is_map(op) && !same) then->op[then->count++] = op;
    }
    x->c.at.mul = 0.5;
    x->c.at.cap = 3;
    for (i32 i = 0; i < op_then_inputs(&x->c.at); i++) {
        x->operands[i] = arena_take(perm, MAX(1, type_bytes(x->operand)), 1, 64);
        for (i64 k = 0; k < count; k++)
            element_set(x->operands[i], x->operand.dtype, k, 1 + draw_normal(d) / 4);
    }
}

static void *copy_of(const void *data, i64 bytes, struct arena *perm)
{
    void *to = arena_take(perm, MAX(1, bytes), 1, 64);
    if (data) memcpy(to, data, (size_t)bytes);
    return to;
}

/* Operands in memory of their own; results follow the inputs. */
static struct call call_of(const struct chained_case *x, struct pool *pool, struct arena *perm)
{
    i32 operands = op_then_inputs(&x->c.at), results = op_result_count(x->c.op, &x->c.at);
    struct tensor *in  = NEW(perm, struct tensor, x->c.in_count + operands);
    struct tensor *out = NEW(perm, struct tensor, OP_OUT_MAX);
    for (i32 i = 0; i < x->c.in_count + operands; i++) {
        bool        own  = i < x->c.in_count;
        struct type t    = own ? x->c.in[i] : x->operand;
        const void *from = own ? x->c.data[i] : x->operands[i - x->c.in_count];
        in[i] = (struct tensor){ copy_of(from, type_bytes(t), perm), t, shape_count(t.shape) };
    }
    for (i32 i = 0; i < results; i++) {
        struct type t = i < op_info(x->c.op)->out_count ? x->c.out[i] : x->c.out[0];
        out[i] = (struct tensor){ copy_of(NULL, type_bytes(t), perm), t, shape_count(t.shape) };
    }
    return (struct call){ x->c.op, &x->c.at, in, x->c.in_count, out, NULL, 0, pool, NULL };
}

static void lend_work(struct call *c, const struct kernel *k, struct arena *perm)
{
    c->work_bytes = k->work ? k->work(c) : 0;
    c->work       = arena_take(perm, MAX(1, c->work_bytes), 1, 64);
}

/* A family that applies chains does so with the maps of its own instruction set. */
static const struct kernel *map_beside(const struct kernel *k, const struct call *map)
{
    const struct kernel *m;
    for (i32 i = 0; kernel_applies_then(k) && (m = kernel_at(i)); i++)
        if (m->op == map->op && m->isa == k->isa && m->takes(map)) return m;
    return kernel_choose(map, false);
}

/* The same kernel without the chain, then one map after the other. */
static void run_apart(const struct call *c, const struct kernel *k, struct arena *perm)
{
    struct attrs  alone           = *c->at;
    struct tensor own[OP_OUT_MAX] = { 0 };
    i32           results = op_info(c->op)->out_count, operand = c->in_count;
    struct call   first  = *c;
    struct tensor so_far = c->out[c->at->then.keep ? results : 0];
    alone.then           = (struct chain){ 0 };
    for (i32 i = 0; i < results; i++) own[i] = i ? c->out[i] : so_far;
    first.at  = &alone;
    first.out = own;
    lend_work(&first, k, perm);
    k->run(&first);
    for (i32 i = 0; i < c->at->then.count; i++, so_far = c->out[0]) {
        i32           op = c->at->then.op[i], inputs = op_info(op)->in_min;
        struct tensor in[] = { so_far, inputs == 2 ? c->in[operand++] : so_far };
        struct call   map  = { op, &alone, in, inputs, c->out, NULL, 0, c->pool, NULL };
        map_beside(k, &map)->run(&map);
    }
}

static bool kernel_takes(const struct kernel *k, const struct op_case *c)
{
    struct tensor in[OP_IN_MAX], out[OP_OUT_MAX];
    for (i32 i = 0; i < c->in_count; i++)
        in[i] = (struct tensor){ NULL, c->in[i], shape_count(c->in[i].shape) };
    for (i32 i = 0; i < op_info(c->op)->out_count; i++)
        out[i] = (struct tensor){ NULL, c->out[i], shape_count(c->out[i].shape) };
    return k->takes(&(struct call){ c->op, &c->at, in, c->in_count, out, NULL, 0, NULL, NULL });
}

/* False: the call that was drawn is not for it. */
static bool try_kernel(const struct kernel *k, i32 op, enum dtype t, struct draw *d,
                       struct pool *pool, struct arena perm)
{
    struct chained_case x = { 0 };
    op_case_draw(&x.c, op, t, d, &perm);
    if (k->takes && !kernel_takes(k, &x.c)) return false;
    add_chain(&x, d, &perm);
    struct call together = call_of(&x, pool, &perm), apart = call_of(&x, pool, &perm);
    lend_work(&together, k, &perm);
    kernel_run(k, &together);
    run_apart(&apart, k, &perm);
    for (i32 i = 0; i < op_result_count(op, &x.c.at); i++) {
        const u8 *a = together.out[i].data, *b = apart.out[i].data;
        for (i64 n = 0; n < type_bytes(apart.out[i].type); n++)
            if (a[n] != b[n])
                harness_fail(__FILE__, __LINE__, "%s of %.*s: result %d differs at byte %lld",
                             k->name, STR_ARG(op_text(&perm, op, &x.c.at)), i, (long long)n);
    }
    return true;
}

/* How many of 24 drawn calls it took. */
static i32 try_types(const struct kernel *k, i32 op, struct draw *d, struct pool *pool,
                     struct arena perm)
{
    static const enum dtype types[] = { DT_F32, DT_BF16, DT_F16 };
    i32                     took    = 0;
    for (i32 n = 0; n < 24; n++) {
        d->large = n % 8 == 7;
        took += try_kernel(k, op, types[n % 3], d, pool, perm);
    }
    return took;
}

/* Those that apply chains themselves and those that leave them to kernel_run. */
TEST(kernels_with_a_chain_give_the_bits_of_map_after_map)
{
    struct draw          d    = { .state = test_seed() };
    struct pool         *pool = pool_open(perm, 2);
    const struct kernel *k;
    i32                  applied = 0;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        if (!(op_info(k->op)->attrs & A_then) || k->isa > kernel_isa() || !k->takes) continue;
        i32 took = try_types(k, k->op, &d, pool, *perm);
        if (kernel_applies_then(k)) applied += took;
    }
    CHECK(applied > 100);
    pool_close(pool);
}

/* The maps behind a product of 8 bits, which the reference computes, are the fast ones, as in passes of their own: a
 * program that recomputes has other chains. */
TEST(a_chain_behind_an_op_without_a_fast_kernel_gives_the_bits_of_map_after_map)
{
    struct draw          d    = { .state = test_seed() };
    struct pool         *pool = pool_open(perm, 2);
    const struct kernel *k    = kernel_choose(&(struct call){ .op = OP_MATMUL_FP8 }, false);
    CHECK(k->run == ref_run);
    CHECK_EQ(try_types(k, OP_MATMUL_FP8, &d, pool, *perm), 24);
    pool_close(pool);
}
