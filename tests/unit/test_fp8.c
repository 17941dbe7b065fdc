/* 8-bit floats: their codes, their scales, which products run on them, and that a model still learns. */
#include "backend/cpu/kernel.h"
#include "base/fp8.h"
#include "compile/compile_int.h"
#include "harness.h"
#include "ir/build.h"
#include "ir/fp8.h"

TEST(every_code_comes_back_and_neighbours_share_what_lies_between)
{
    for (enum fp8 f = FP8_E4M3; f <= FP8_E5M2; f++) {
        for (i32 code = 0; code < 0x7F; code++) {
            f32 v = fp8_to_f32((u8)code, f), next = fp8_to_f32((u8)(code + 1), f);
            if (!isfinite(v)) continue;
            CHECK_EQ(fp8_from_f32(v, f), code);
            CHECK_EQ(fp8_from_f32(-v, f), code | 0x80);
            if (!isfinite(next) || v >= fp8_max(f)) continue;
            f32 half = (v + next) / 2; /* exact: at most four digits more */
            CHECK_EQ(fp8_from_f32(half, f), code & 1 ? code + 1 : code);
            CHECK_EQ(fp8_from_f32(nextafterf(half, 0), f), code);
            CHECK_EQ(fp8_from_f32(nextafterf(half, INFINITY), f), code + 1);
        }
        CHECK_EQ(fp8_to_f32(fp8_from_f32(1e30f, f), f), fp8_max(f));
        CHECK_EQ(fp8_to_f32(fp8_from_f32(-INFINITY, f), f), -fp8_max(f));
        CHECK(isnan(fp8_to_f32(fp8_from_f32(NAN, f), f)));
    }
    CHECK_EQ(fp8_to_f32(0x01, FP8_E4M3), 0x1p-9f); /* the paper's table 1 */
    CHECK_EQ(fp8_to_f32(0x08, FP8_E4M3), 0x1p-6f);
    CHECK_EQ(fp8_to_f32(0x01, FP8_E5M2), 0x1p-16f);
    CHECK_EQ(fp8_to_f32(0x04, FP8_E5M2), 0x1p-14f);
}

TEST(scales_are_the_largest_powers_of_two_that_fit)
{
    static const f32 sizes[] = { 1e-20f, 0.02f, 0.875f, 0.8750001f, 1, 448, 449, 57344, 1e20f };
    for (enum fp8 f = FP8_E4M3; f <= FP8_E5M2; f++) {
        for (i64 i = 0; i < COUNT_OF(sizes); i++) {
            i32 e = fp8_exponent(sizes[i], f);
            CHECK(ldexpf(sizes[i], e) <= fp8_max(f));
            CHECK(ldexpf(sizes[i], e + 1) > fp8_max(f));
        }
        CHECK_EQ(fp8_exponent(0, f), 0);
        CHECK_EQ(fp8_exponent(NAN, f), 0);
        CHECK_EQ(fp8_exponent(INFINITY, f), 0);
        CHECK_EQ(fp8_exponent(1e-40f, f), 100);
    }
}

/* --- the state --- */

static void quantise_as(i64 format, f32 *x, i64 count, f32 *state, u8 *codes, f32 *factor)
{
    u8            turned[64];
    struct tensor in[]  = { { x, type_of(DT_F32, shape_2(1, count)), count },
                            { state, type_of(DT_F32, shape_2(1, FP8_STATE)), FP8_STATE } };
    struct tensor out[] = { { codes, type_of(DT_U8, shape_2(1, count)), count },
                            { turned, type_of(DT_U8, shape_2(count, 1)), count },
                            { factor, type_of(DT_F32, shape_1(1)), 1 } };
    struct attrs  at    = { .format = format };
    ref_run(&(struct call){ OP_QUANTISE, &at, in, 2, out, NULL, 0, NULL, NULL });
    CHECK(!memcmp(codes, turned, (size_t)count));
}

static void quantise(f32 *x, i64 count, f32 *state, u8 *codes, f32 *factor)
{
    quantise_as(0, x, count, state, codes, factor);
}

static void advance(f32 *state)
{
    struct tensor in = { state, type_of(DT_F32, shape_2(1, FP8_STATE)), FP8_STATE };
    struct attrs  at = { 0 };
    ref_run(&(struct call){ OP_FP8_ADVANCE, &at, &in, 1, NULL, NULL, 0, NULL, NULL });
}

TEST(a_first_step_goes_by_its_own_maximum_and_later_ones_by_the_past)
{
    f32 state[FP8_STATE] = { 0 }, factor, small[] = { 0.5f, -1.75f }, large[] = { 7, -14 };
    u8  codes[2];
    quantise(small, 2, state, codes, &factor);
    CHECK_EQ(factor, 0x1p-8f); /* 1.75 becomes 448 */
    CHECK_EQ(codes[1], 0xFE);
    advance(state);
    CHECK_EQ(state[FP8_USED], 1.75f);
    quantise(large, 2, state, codes, &factor);
    CHECK_EQ(factor, 0x1p-8f);
    CHECK_EQ(codes[1], 0xFE); /* saturated: it was not known before */
    advance(state);
    quantise(large, 2, state, codes, &factor);
    CHECK_EQ(factor, 0x1p-5f);
    for (i32 i = FP8_PAST; i < FP8_STATE; i++) { /* remembered for so many steps, then no longer */
        CHECK_EQ(state[FP8_USED], 14);
        state[FP8_NOW] = 1;
        advance(state);
    }
    CHECK_EQ(state[FP8_USED], 1);
    state[FP8_NOW] = INFINITY; /* forgotten */
    advance(state);
    CHECK_EQ(state[FP8_USED], 1);
    CHECK_EQ(state[FP8_NOW], 0);
}

/* In the first step, which goes by its own maximum, and in one that goes by the past. */
TEST(a_cast_made_again_has_the_same_codes_and_notes_nothing)
{
    f32 state[FP8_STATE] = { 0 }, kept[FP8_STATE], x[] = { 0.3f, -1.75f, 5, -0.01f }, first, second;
    u8  codes[2][4];
    for (i32 step = 0; step < 2; step++) {
        quantise(x, 4, state, codes[0], &first);
        memcpy(kept, state, sizeof kept);
        quantise_as(FP8_AGAIN, x, 4, state, codes[1], &second);
        CHECK(!memcmp(codes[0], codes[1], sizeof *codes));
        CHECK_EQ(first, second);
        CHECK(!memcmp(kept, state, sizeof kept));
        f32 large = 1000;
        quantise_as(FP8_AGAIN, &large, 1, state, codes[1], &second);
        CHECK(!memcmp(kept, state, sizeof kept));
        advance(state);
        x[2] = 40; /* beyond what is known of the past */
    }
}

/* --- the pass --- */

static i32 dense(struct graph *g, const char *name, i32 x, i64 out)
{
    i64 in = shape_last(graph_type(g, x).shape);
    i32 w  = graph_param(g, str_of(name), type_of(DT_F32, shape_2(out, in)),
                         (struct init){ INIT_NORMAL, 0.02 }, true);
    return build_matmul(g, str_of(name), x, w, -1, false, true);
}

/* table -> a -> gelu -> b -> table again as the last layer */
static enum status build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                         struct err *err)
{
    i64 width = *(i64 *)context;
    i32 ids   = graph_value(g, VALUE_INPUT, STR("ids"), type_of(DT_I32, shape_2(batch, 16)));
    i32 table = graph_param(g, STR("table"), type_of(DT_F32, shape_2(48, width)),
                            (struct init){ INIT_NORMAL, 0.02 }, true);
    i32 x     = graph_op(g, OP_EMBEDDING, STR("x"), (i32[]){ table, ids }, 2, NULL);
    i32 h     = build_unary(g, OP_GELU, STR("gelu"), dense(g, "a", x, 2 * width));
    i32 y     = build_matmul(g, STR("head"), dense(g, "b", h, width), table, -1, false, true);
    i32 loss  = build_xent(g, STR("xent"), y, ids, 0);
    (void)mode;
    graph_output(g, build_sum(g, STR("sum"), loss, 0, 2), STR("loss"));
    return graph_status(g, err);
}

static i32 count_of(const struct program *p, i32 op)
{
    i32 count = 0;
    for (i32 i = 0; p && i < p->graph->node_count; i++) count += p->graph->nodes[i].op == op;
    return count;
}

static struct program_set *compiled(struct arena *perm, struct arena scratch, i64 width, i64 batch,
                                    enum fp8_kind kind, struct target *target)
{
    struct compile_config config = { .optimiser  = OPTIMISER_ADAMW,
                                     .eps        = 1e-8,
                                     .precision  = DT_BF16,
                                     .fp8        = kind,
                                     .fuse       = FUSE_ALL,
                                     .batch      = batch,
                                     .eval_batch = 1 };
    struct program_set   *set;
    struct err            err = { 0 };
    if (compile(perm, target, &config, build, &width, &set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return set;
}

TEST(hidden_layers_are_narrow_in_all_three_products_and_tensors_are_cast_once)
{
    struct target       t   = { .align_bytes = 64 };
    struct program_set *set = compiled(perm, scratch, 64, 2, FP8_ON, &t);
    struct program     *p   = set->programs[PROGRAM_TRAIN];
    CHECK_EQ(count_of(p, OP_MATMUL_FP8), 6);
    CHECK_EQ(count_of(p, OP_QUANTISE), 6); /* x, a, gelu's result, b; both layers' gradients */
    CHECK_EQ(count_of(p, OP_MATMUL), 3);   /* of the head */
    CHECK_EQ(count_of(set->programs[PROGRAM_UPDATE], OP_FP8_ADVANCE), 1);
    CHECK_EQ(count_of(set->programs[PROGRAM_EVAL], OP_QUANTISE), 0);
    const struct persistent *state = program_set_find(set, STR("fp8.amax"));
    CHECK(state && state->kind == VALUE_STATE && state->type.shape.dim[0] == 6);
}

/* As the second of two ranks; batches of all of them. */
static struct program_set *dealt(struct arena *perm, struct arena scratch, i64 width, i64 batch,
                                 i64 own)
{
    struct target         t      = { .align_bytes = 64 };
    struct compile_config config = { .optimiser = OPTIMISER_ADAMW,
                                     .precision = DT_BF16,
                                     .fp8       = FP8_ON,
                                     .fuse      = FUSE_ALL,
                                     .shard     = SHARD_ALL,
                                     .ranks     = 2,
                                     .rank      = 1,
                                     .batch     = own,
                                     .batch_all = batch };
    struct program_set   *set;
    struct err            err = { 0 };
    if (compile(perm, &t, &config, build, &width, &set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return set;
}

/* train.shard=all: a weight is gathered in bf16 and cast in each pass, so that no whole copy stays between them: the
 * second cast notes nothing, and of the layer whose input has a gradient alone there is one. */
TEST(a_sharded_weight_is_cast_again_where_the_backward_pass_reads_it)
{
    struct program_set *set   = dealt(perm, scratch, 64, 4, 2);
    const struct graph *g     = set->programs[PROGRAM_TRAIN]->graph;
    i32                 first = 0, again = 0;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (n->op != OP_QUANTISE) continue;
        i32  from     = g->values[graph_viewed(g, n->in[0])].node;
        bool gathered = from >= 0 && g->nodes[from].op == OP_GATHER_PARTS;
        bool second   = n->at.format & FP8_AGAIN;
        CHECK_EQ(second, gathered && i >= g->forward_count);
        if (gathered) CHECK_EQ(g->values[n->in[0]].type.dtype, DT_BF16);
        first += gathered && !second;
        again += second;
        for (i32 k = i + 1; k < g->node_count && gathered && !second;
             k++) /* and not beyond its half */
            for (i32 j = 0; j < g->nodes[k].in_count; j++)
                if (g->nodes[k].in[j] >= n->out && g->nodes[k].in[j] < n->out + 3)
                    CHECK(k < g->forward_count);
    }
    CHECK_EQ(first, 2); /* a and b */
    CHECK_EQ(again, 2);
    CHECK_EQ(count_of(set->programs[PROGRAM_UPDATE], OP_FP8_ADVANCE), 1);
}

/* x -> a -> b -> head */
static enum status build_plain(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                               struct err *err)
{
    i32 x    = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_2(batch, 32)));
    i32 ids  = graph_value(g, VALUE_INPUT, STR("ids"), type_of(DT_I32, shape_1(batch)));
    i32 y    = dense(g, "head", dense(g, "b", dense(g, "a", x, 32), 32), 16);
    i32 loss = build_xent(g, STR("xent"), y, ids, 0);
    (void)context, (void)mode;
    graph_output(g, build_sum(g, STR("sum"), loss, 0, 1), STR("loss"));
    return graph_status(g, err);
}

TEST(a_layer_whose_input_has_no_gradient_is_narrow_too)
{
    struct target         t      = { .align_bytes = 64 };
    struct compile_config config = {
        .optimiser = OPTIMISER_ADAMW, .precision = DT_BF16, .fp8 = FP8_ON, .batch = 16
    };
    struct program_set *set;
    struct err          err = { 0 };
    if (compile(perm, &t, &config, build_plain, NULL, &set, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(count_of(set->programs[PROGRAM_TRAIN], OP_MATMUL_FP8), 5); /* no gradient of x */
    CHECK_EQ(count_of(set->programs[PROGRAM_TRAIN], OP_QUANTISE), 6);
    CHECK_EQ(program_set_find(set, STR("fp8.amax"))->type.shape.dim[0], 6);
}

TEST(sizes_that_do_not_fit_stay_as_they_are)
{
    struct target       t   = { .align_bytes = 64 };
    struct program_set *set = compiled(perm, scratch, 40, 2, FP8_ON, &t);
    CHECK_EQ(count_of(set->programs[PROGRAM_TRAIN], OP_MATMUL_FP8), 0);
    CHECK(!program_set_find(set, STR("fp8.amax")));
}

/* Seconds of a machine on which one kind of product is slow. */
static i32 slow_op;
static f64 seconds(const struct target *t, const struct graph *g, const struct node *n)
{
    (void)t;
    (void)g;
    return n->op == slow_op ? 1 : n->op == OP_QUANTISE ? 0.1 : 0.2;
}

TEST(auto_goes_by_what_the_machine_measures)
{
    struct target t         = { .align_bytes = 64, .fp8 = true, .seconds = seconds };
    slow_op                 = OP_MATMUL;
    struct program_set *set = compiled(perm, scratch, 256, 1, FP8_AUTO, &t);
    CHECK_EQ(count_of(set->programs[PROGRAM_TRAIN], OP_MATMUL_FP8), 6);
    slow_op = OP_QUANTISE; /* the products would gain, and the casts take it all */
    set     = compiled(perm, scratch, 256, 1, FP8_AUTO, &t);
    CHECK_EQ(count_of(set->programs[PROGRAM_TRAIN], OP_MATMUL_FP8), 0);
    slow_op = OP_MATMUL;
    set     = compiled(perm, scratch, 64, 1, FP8_AUTO, &t); /* too small to ask */
    CHECK_EQ(count_of(set->programs[PROGRAM_TRAIN], OP_MATMUL_FP8), 0);
    t.fp8 = false;
    set   = compiled(perm, scratch, 256, 1, FP8_AUTO, &t);
    CHECK_EQ(count_of(set->programs[PROGRAM_TRAIN], OP_MATMUL_FP8), 0);
}

/* Every sign, exponent and first seven digits, with what lies around a tie below them. */
TEST(e4m3_without_branches_is_the_same)
{
    static const u32 low[] = { 0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF };
    for (u32 high = 0; high < 1 << 16; high++)
        for (i64 i = 0; i < COUNT_OF(low); i++) {
            f32 v = f32_of_bits(high << 16 | low[i]);
            if (fp8_e4m3_from_f32(v) != fp8_from_f32(v, FP8_E4M3))
                CHECK_EQ(fp8_e4m3_from_f32(v), fp8_from_f32(v, FP8_E4M3));
        }
}
