/* test_muon.c - Muon: its op against the steps of torch.optim.Muon (tests/golden/torch_muon.json, made by
 * tests/oracle/record_muon.py), which parameters it takes, and where its state lies. */
#include "backend/cpu/kernel.h"
#include "base/json.h"
#include "base/os.h"
#include "base/rng.h"
#include "compile/compile_int.h"
#include "harness.h"
#include "ir/build.h"
#include "ir/muon.h"
#include "train/train_int.h"

/* --- steps --- */

static struct json *recorded(struct arena *perm)
{
    struct str   text;
    struct json *root;
    struct err   err = { 0 };
    if (os_read_all(os_real(), STR("tests/golden/torch_muon.json"), perm, &text, &err) ||
        json_parse(perm, text, &root, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return json_get(root, STR("cases"))->first;
}

static f64 number(const struct json *c, const char *key)
{
    f64 v = 0;
    CHECK(json_f64(json_get(c, str_of(key)), &v));
    return v;
}

static void numbers(const struct json *list, f32 *to)
{
    f64 v;
    for (const struct json *j = list->first; j; j = j->next) {
        CHECK(json_f64(j, &v));
        *to++ = (f32)v;
    }
}

static struct tensor tensor_new(struct arena *perm, struct shape s)
{
    struct tensor t = { NULL, type_of(DT_F32, s), shape_count(s) };
    t.data          = arena_take(perm, t.count, sizeof(f32), 64);
    return t;
}

static f64 scale_of(const struct json *c, f64 rows, f64 columns)
{
    if (str_eq(json_get(c, STR("scale"))->text, STR("match_rms_adamw")))
        return 0.2 * sqrt(fmax(rows, columns));
    return sqrt(fmax(1, rows / columns));
}

/* Each number is moved at random, in the root mean square by `by` of itself. */
static void shake(f32 *x, i64 count, f64 by, u64 seed)
{
    for (i64 i = 0; i < count; i++)
        x[i] *=
            (f32)(1 + sqrt(3) * by *
                          (2 * rng_u32((struct rng_key){ .seed = seed }, (u64)i) * 0x1p-32 - 1));
}

/* The recorded steps by one kernel, with gradients that are shaken: the parameter at their end. */
static const f32 *steps(const struct json *c, const struct kernel *k, enum dtype dtype, f64 by,
                        u64 seed, struct pool *pool, struct arena *perm)
{
    i64           rows = (i64)number(c, "rows"), columns = (i64)number(c, "columns");
    struct shape  s     = shape_2(rows, columns);
    struct tensor in[]  = { tensor_new(perm, s), tensor_new(perm, s), tensor_new(perm, s),
                            tensor_new(perm, shape_1(4)), tensor_new(perm, shape_1(1)) };
    struct attrs  at    = { .nesterov = str_eq(json_get(c, STR("nesterov"))->text, STR("true")),
                            .scale    = scale_of(c, (f64)rows, (f64)columns),
                            .decay    = number(c, "decay"),
                            .dtype    = dtype };
    struct call   call  = { OP_MUON, &at, in, 5, NULL, NULL, 0, pool, NULL };
    f32          *hyper = in[3].data, *factor = in[4].data;
    f64           rate;
    call.work_bytes = k->work(&call);
    call.work       = arena_take(perm, call.work_bytes, 1, 64);
    numbers(json_get(c, STR("start")), in[0].data);
    hyper[1]              = (f32)number(c, "momentum");
    factor[0]             = 1;
    const struct json *lr = json_get(c, STR("rates"))->first;
    for (struct json *g = json_get(c, STR("grads"))->first; g; g = g->next, lr = lr->next) {
        CHECK(json_f64(lr, &rate));
        hyper[0] = (f32)rate;
        hyper[3]++;
        numbers(g, in[1].data);
        if (by > 0) shake(in[1].data, rows * columns, by, seed + (u64)hyper[3]);
        memset(call.work, 0xff, (size_t)call.work_bytes); /* NaN: nobody may count on zeros */
        k->run(&call);
    }
    return in[0].data;
}

/* Distance of the ends, relative to the way from the start. */
static f64 far(const struct json *c, const f32 *end, const f32 *p, struct arena scratch)
{
    i64  count = (i64)(number(c, "rows") * number(c, "columns"));
    f32 *start = NEW(&scratch, f32, count);
    f64  off = 0, way = 0;
    numbers(json_get(c, STR("start")), start);
    for (i64 i = 0; i < count; i++) {
        off += pow((f64)p[i] - (f64)end[i], 2);
        way += pow((f64)end[i] - (f64)start[i], 2);
    }
    return sqrt(off / way);
}

static const f32 *torch_end(const struct json *c, const char *key, struct arena *perm)
{
    f32 *end = NEW(perm, f32, (i64)(number(c, "rows") * number(c, "columns")));
    numbers(json_get(c, str_of(key)), end);
    return end;
}

/* Where one rounding of the matrix at the start of the iteration leads: the farthest of some random ones of that
 * root mean square, in f32. */
static f64 grown(const struct json *c, const struct kernel *k, f64 u, struct pool *pool,
                 struct arena scratch)
{
    enum { DRAWS = 16 };
    const f32 *exact = steps(c, k, DT_F32, 0, 0, pool, &scratch);
    f64        most  = 0;
    for (u64 i = 0; i < DRAWS; i++) {
        struct arena a = scratch;
        most           = fmax(most, far(c, exact, steps(c, k, DT_F32, u, 100 * i, pool, &a), a));
    }
    return most;
}

/* Against torch's code in f64. f32: rounding, 2^-24, enlarged by at most 3.4445^5 = 485 on a singular value near 0, is
 * 3e-5.
 *
 * bf16 and f16: x is rounded before the first iteration, and in each of the five A = x x', A A, a I + b A + c A A and
 * its product with x are. By norm the root mean square counts: of an error within half a spacing, 2^-8 or 2^-11, of
 * numbers whose logarithm is spread evenly, it is 2^-8 / sqrt(3) * 0.736 < 2^-9, or 2^-12: u. With a = 3.4445,
 * b = -4.775 and c = 2.0315, and singular values s up to 1, the four come into x as at most |b| u, c u, and twice
 * max |a s + b s^3 + c s^5| u = 1.2 u. The iterations that follow leave such a rounding as it is where s is near 1 (the
 * slope there is -0.72), and enlarge it at most as all five do a rounding of x before the first, which is measured here
 * (`grown`). Elements are rounded independently, so that norms add up by squares: 12.3 times the larger of the two. */
static void check_steps(const struct json *c, const struct kernel *k, struct pool *pool,
                        struct arena scratch)
{
    static const struct {
        enum dtype dtype;
        f64        unit;
    } kinds[]           = { { DT_F32, 0 }, { DT_BF16, 0x1p-9 }, { DT_F16, 0x1p-12 } };
    const f64 roundings = sqrt(1 + 5 * (4.775 * 4.775 + 2.0315 * 2.0315 + 2 * 1.2 * 1.2));
    for (i32 i = 0; i < COUNT_OF(kinds); i++) {
        struct arena a    = scratch;
        const f32   *p    = steps(c, k, kinds[i].dtype, 0, 0, pool, &a);
        f64          unit = kinds[i].unit;
        f64 allowed = unit > 0 ? roundings * fmax(unit, grown(c, k, unit, pool, a)) : 485 * 0x1p-24;
        f64 off     = far(c, torch_end(c, "f64", &a), p, a);
        if (!(off <= allowed))
            harness_fail(__FILE__, __LINE__, "%s, %g x %g, %.*s: off by %g, allowed %g", k->name,
                         number(c, "rows"), number(c, "columns"),
                         STR_ARG(dtype_name(kinds[i].dtype)), off, allowed);
    }
}

TEST(muon_takes_the_steps_of_torch)
{
    struct pool  *pool  = pool_open(perm, 2);
    struct kernel ref   = { OP_MUON, "ref", ISA_ANY, NULL, ref_run, ref_work };
    i32           cases = 0;
    for (const struct json *c = recorded(perm); c; c = c->next, cases++) {
        const struct kernel *k = &ref;
        for (i32 i = -1; k; k = kernel_at(++i)) {
            if (k->op == OP_MUON && k->isa <= kernel_isa()) check_steps(c, k, pool, scratch);
        }
    }
    CHECK(cases >= 7);
    pool_close(pool);
}

/* What it is for: whatever the gradient's singular values, the step's are all near 1. */
TEST(a_step_is_nearly_orthogonal)
{
    enum { ROWS = 3, COLUMNS = 5 };
    struct shape  s    = shape_2(ROWS, COLUMNS);
    struct tensor in[] = { tensor_new(perm, s), tensor_new(perm, s), tensor_new(perm, s),
                           tensor_new(perm, shape_1(4)), tensor_new(perm, shape_1(1)) };
    struct attrs  at   = { .scale = 1 };
    struct call   call = { OP_MUON, &at, in, 5, NULL, NULL, 0, NULL, NULL };
    f32          *p = in[0].data, *g = in[1].data, *hyper = in[3].data;
    for (i32 i = 0; i < ROWS; i++) g[i * COLUMNS + i] = (f32)pow(10, i); /* 1, 10, 100 */
    hyper[0] = hyper[3] = 1;                                             /* rate and step */
    *(f32 *)in[4].data  = 1;
    call.work_bytes     = ref_work(&call);
    call.work           = arena_take(perm, call.work_bytes, 1, 64);
    ref_run(&call);
    for (i32 i = 0; i < ROWS * COLUMNS; i++) {
        bool diagonal = i / COLUMNS == i % COLUMNS;
        if (diagonal) CHECK(p[i] < -0.6f && p[i] > -1.3f);
        else CHECK_NEAR((f64)p[i], 0, 1e-6);
    }
}

/* --- which parameters, and where --- */

static i32 weight(struct graph *g, const char *name, struct shape s)
{
    return graph_param(g, str_of(name), type_of(DT_F32, s), (struct init){ INIT_NORMAL, 0.1 },
                       true);
}

/* Tokens by a table, a packed matrix of 6 + 4 rows, one behind it, a norm, and the table again as the
 * last layer if `context` is set, else a matrix of its own. */
static enum status build_net(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                             struct err *err)
{
    (void)mode;
    i32 x     = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_I32, shape_1(batch)));
    i32 y     = graph_value(g, VALUE_INPUT, STR("y"), type_of(DT_I32, shape_1(batch)));
    i32 table = weight(g, "table", shape_2(5, 8)), bias = weight(g, "bias", shape_1(10));
    i32 a = weight(g, "a", shape_2(10, 8)), b = weight(g, "b", shape_2(8, 10));
    i32 last = context ? table : weight(g, "last", shape_2(5, 8));
    if (g->err.status) return graph_status(g, err);
    g->values[a].part_rows[0] = 6;
    g->values[a].part_rows[1] = 4;
    g->values[bias].decay     = false;
    i32 h =
        build_matmul(g, STR("a"), build_embedding(g, STR("table"), table, x), a, bias, false, true);
    h = build_matmul(g, STR("b"), build_unary(g, OP_RELU, STR("relu"), h), b, -1, false, true);
    h = build_rmsnorm(g, STR("norm"), h, weight(g, "norm", shape_1(8)), 1e-5);
    h = build_matmul(g, STR("last"), h, last, -1, false, true);
    graph_output(g, build_sum(g, STR("sum"), build_xent(g, STR("xent"), h, y, 0), 0, 1),
                 STR("loss"));
    return graph_status(g, err);
}

static struct program_set *compiled(struct arena *perm, struct arena scratch, bool tied,
                                    const char *freeze, struct err *err)
{
    struct compile_config c = {
        .optimiser = OPTIMISER_MUON, .decay = 0.5, .clip = 1, .batch = 2, .freeze = str_of(freeze)
    };
    struct target       t   = { .name = STR("test"), .align_bytes = 64 };
    struct program_set *set = NULL;
    return compile(perm, &t, &c, build_net, tied ? &c : NULL, &set, scratch, err) ? NULL : set;
}

static const struct node *node_named(const struct program *p, const char *name)
{
    for (i32 i = 0; i < p->graph->node_count; i++) {
        if (str_eq(p->graph->nodes[i].name, str_of(name))) return &p->graph->nodes[i];
    }
    return NULL;
}

static i64 offset_in(const struct program_set *s, const char *name)
{
    return program_set_find(s, str_of(name))->offset;
}

TEST(hidden_matrices_get_muon_and_the_rest_adamw)
{
    struct err err = { 0 };
    for (i32 tied = 0; tied < 2; tied++) {
        struct program_set *s = compiled(perm, scratch, tied, "", &err);
        if (!s) harness_fail(__FILE__, __LINE__, "%s", err.text);
        const struct program *u    = s->programs[PROGRAM_UPDATE];
        i32                   muon = 0;
        for (i32 i = 0; i < u->graph->node_count; i++) muon += u->graph->nodes[i].op == OP_MUON;
        CHECK_EQ(muon, 3); /* two parts of a, and b */
        CHECK(!node_named(u, "last") && !node_named(u, "table"));
        CHECK(program_set_find(s, STR("a"))->hidden && program_set_find(s, STR("b"))->hidden);
        CHECK(!program_set_find(s, STR("table"))->hidden &&
              !program_set_find(s, STR("norm"))->hidden);
    }
}

TEST(a_packed_parameter_is_updated_matrix_by_matrix)
{
    struct err            err = { 0 };
    struct program_set   *s   = compiled(perm, scratch, false, "", &err);
    const struct program *u   = s->programs[PROGRAM_UPDATE];
    const struct node    *top = node_named(u, "a"), *low = node_named(u, "a[6]");
    CHECK(top && low);
    CHECK_EQ(graph_type(u->graph, top->in[0]).shape.dim[0], 6);
    CHECK_EQ(graph_type(u->graph, low->in[0]).shape.dim[0], 4);
    i64 skip = 6 * 8 * 4; /* rows, columns, bytes */
    CHECK_EQ(u->offset[low->in[0]], offset_in(s, "a") + skip);
    CHECK_EQ(u->offset[low->in[1]], offset_in(s, "a.grad") + skip);
    CHECK_EQ(u->offset[low->in[2]], offset_in(s, "muon.momentum") + offset_in(s, "a") + skip);
    CHECK_EQ(low->at.decay, 0.5);
    CHECK_EQ(low->at.scale, 1); /* 4 by 8 */
    CHECK_NEAR(node_named(u, "b")->at.scale, 1, 1e-15);
}

/* One number a weight for hidden matrices, two for the others; frozen ones have none. */
TEST(each_side_has_its_own_state_and_no_more)
{
    struct err          err = { 0 };
    struct program_set *s   = compiled(perm, scratch, false, "b", &err);
    i64                 pad = 64 / 4;
    CHECK_EQ(shape_count(program_set_find(s, STR("muon.momentum"))->type.shape), 10 * 8);
    /* table, last, bias, norm, each padded to 64 bytes */
    CHECK_EQ(shape_count(program_set_find(s, STR("adam.m"))->type.shape), 48 + 48 + pad + pad);
    const struct program *u = s->programs[PROGRAM_UPDATE];
    const struct node    *n = node_named(u, "update/decay");
    CHECK_EQ(u->offset[n->in[2]], offset_in(s, "adam.m"));
    CHECK_EQ(u->offset[n->in[0]], MIN(offset_in(s, "table"), offset_in(s, "last")));
}

TEST(its_cost_is_that_of_newton_and_schulz)
{
    struct shape s     = shape_2(384, 1536);
    struct type  in[]  = { type_of(DT_F32, s), type_of(DT_F32, s), type_of(DT_F32, s) },
                out[1] = { 0 };
    struct sig sig     = { in, 3, out, NULL, OP_MUON };
    f64        g = 384, n = 384 * 1536;
    CHECK_EQ(op_info(OP_MUON)->cost(&sig).flops,
             MUON_STEPS * (2 * g * n + 2 * g * g * g + 2 * g * n));
}

/* --- train.optimiser=auto --- */

TEST(the_part_of_a_step_falls_with_the_batches_in_it)
{
    CHECK_NEAR(muon_share(1, 3, 1), 0.25, 1e-15);
    CHECK_NEAR(muon_share(1, 3, 3), 0.1, 1e-15);
    CHECK_EQ(muon_share(0, 3, 1), 0);
}

static enum status open_auto(struct session *s, struct settings *settings, struct arena *perm,
                             struct err *err)
{
    return session_build(s, os_real(), settings, perm, build_net, NULL, err);
}

TEST(auto_takes_muon_where_it_is_a_small_part_of_a_step)
{
    struct settings settings = { .train = { .optimiser = STR("auto"), .batch = 2, .threads = 1 } };
    struct session  s;
    struct err      err = { 0 };
    CHECK_EQ(open_auto(&s, &settings, perm, &err), STATUS_OK);
    CHECK_EQ(s.config.optimiser, OPTIMISER_ADAMW);
    CHECK(!program_set_find(s.set, STR("muon.momentum")));
    CHECK(s.muon_share > 0.15 && strstr(str_z(perm, s.optimiser_reason), "with train.batch="));
    session_close(&s);

    settings.train.batch       = 2 << 20;
    settings.train.micro_batch = 2;
    CHECK_EQ(open_auto(&s, &settings, perm, &err), STATUS_OK);
    CHECK_EQ(s.config.optimiser, OPTIMISER_MUON);
    CHECK(program_set_find(s.set, STR("muon.momentum")) && s.muon_share < 0.15);
    session_close(&s);

    settings.train.freeze = STR("?"); /* a and b: nothing is left for it */
    CHECK_EQ(open_auto(&s, &settings, perm, &err), STATUS_OK);
    CHECK_EQ(s.config.optimiser, OPTIMISER_ADAMW);
    session_close(&s);
    settings.train.optimiser = STR("muon");
    CHECK_EQ(open_auto(&s, &settings, perm, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "use train.optimiser=adamw"));
    session_close(&s);
}
