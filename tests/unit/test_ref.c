/* test_ref.c - the reference kernels against numbers worked out by hand, and each gradient
 * against differences of its forward op. */
#include "base/half.h"
#include "base/rng.h"
#include "ir/attention.h"
#include "support/use.h"

static f64 sigmoid(f64 x) { return 1 / (1 + exp(-x)); }

/* --- 16-bit floats --- */

static void check_nearest(f64 v, u16 h, f64 (*value)(u16))
{
    u16 size = h & 0x7FFF, sign = h & 0x8000;
    f64 off = fabs(value(h) - v);
    if (size > 0) CHECK(fabs(value((u16)(sign | (size - 1))) - v) >= off);
    CHECK(fabs(value((u16)(sign | (size + 1))) - v) >= off);
    if (size > 0 && fabs(value((u16)(sign | (size - 1))) - v) == off) CHECK(!(h & 1));
    if (fabs(value((u16)(sign | (size + 1))) - v) == off) CHECK(!(h & 1));
}

static f64 f16_value(u16 h) { return (f64)f16_to_f32(h); }
static f64 bf16_value(u16 h) { return (f64)bf16_to_f32(h); }

TEST(sixteen_bit_floats_keep_their_bits_there_and_back)
{
    for (i32 i = 0; i < 65536; i++) {
        u16 h = (u16)i;
        if (isnan(f16_value(h))) CHECK(isnan(f16_value(f16_from_f32(f16_to_f32(h)))));
        else CHECK_EQ(f16_from_f32(f16_to_f32(h)), h);
        if (isnan(bf16_value(h))) CHECK(isnan(bf16_value(bf16_from_f32(bf16_to_f32(h)))));
        else CHECK_EQ(bf16_from_f32(bf16_to_f32(h)), h);
    }
}

TEST(sixteen_bit_floats_round_to_the_nearest_and_ties_to_even)
{
    struct draw draw = { .state = test_seed() };
    for (i32 i = 0; i < 200000; i++) {
        f64 v = draw_normal(&draw) * pow(2, (f64)draw_to(&draw, 28) - 20);
        check_nearest(v, f16_from_f64(v), f16_value);
        check_nearest(v, bf16_from_f64(v), bf16_value);
        check_nearest((f64)(f32)v, f16_from_f32((f32)v), f16_value);
        check_nearest((f64)(f32)v, bf16_from_f32((f32)v), bf16_value);
        u16 h      = (u16)draw_to(&draw, 0x7BFF); /* exactly between two neighbours */
        f64 middle = (f16_value(h) + f16_value((u16)(h + 1))) / 2;
        check_nearest(middle, f16_from_f64(middle), f16_value);
    }
    CHECK_EQ(f16_from_f32(65519.9f), 0x7BFF);
    CHECK_EQ(f16_from_f32(65520), 0x7C00);
    CHECK_EQ(f16_from_f64(-1e300), 0xFC00);
    CHECK_EQ(bf16_from_f64(1e300), 0x7F80);
    CHECK_EQ(bf16_from_f64(0x1.01p0), 0x3F80);            /* a tie */
    CHECK_EQ(bf16_from_f64(0x1.0100000000001p0), 0x3F81); /* rounded twice it would be one, too */
}

/* --- maps --- */

TEST(maps_have_their_closed_forms)
{
    FOR_EACH_FLOAT(d)
    {
        static const f64 xs[] = { -2, -0.5, 0, 0.5, 1, 3 };
        for (i32 i = 0; i < COUNT_OF(xs); i++) {
            f64 x = xs[i], k = 0.7978845608028654;
            f64 gelu = 0.5 * x * (1 + tanh(k * (x + 0.044715 * x * x * x)));
            struct {
                i32 op;
                f64 y;
            } rows[] = {
                { OP_RELU, x > 0 ? x : 0 },
                { OP_RELU2, x > 0 ? x * x : 0 },
                { OP_GELU_ERF, 0.5 * x * (1 + erf(x * 0.7071067811865476)) },
                { OP_GELU, gelu },
                { OP_SILU, x * sigmoid(x) },
                { OP_TANH, tanh(x) },
                { OP_SIGMOID, sigmoid(x) },
                { OP_EXP, exp(x) },
                { OP_SOFTCAP, 2 * tanh(x / 2) },
                { OP_SCALE, 3 * x - 1 },
            };
            for (i32 r = 0; r < COUNT_OF(rows); r++) {
                struct use u = RUN(rows[r].op, AT(.cap = 2, .mul = 3, .add = -1),
                                   tensor_new(perm, d, shape_1(1), &x));
                expect(&u.out[0], &rows[r].y);
            }
        }
    }
    /* published: torch.nn.functional.gelu(torch.tensor(1.), approximate="tanh") = 0.8412 */
    struct use u = RUN(OP_GELU, NONE, tensor_new(perm, DT_F64, shape_1(1), N(1)));
    CHECK_NEAR(*(f64 *)u.out[0].data, 0.8411919906, 1e-9);
}

TEST(maps_let_a_nan_through)
{
    static const i32 ops[] = {
        OP_RELU, OP_RELU2, OP_GELU, OP_GELU_ERF, OP_SILU, OP_TANH, OP_SIGMOID
    };
    for (i32 i = 0; i < COUNT_OF(ops); i++) {
        struct use u = RUN(ops[i], NONE, tensor_new(perm, DT_BF16, shape_1(1), N(NAN)));
        CHECK(isnan(element_get(u.out[0].data, DT_BF16, 0)));
    }
}

TEST(binary_maps_repeat_a_tail_and_a_single_number)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor a    = tensor_new(perm, d, shape_2(2, 3), N(1, 2, 3, 4, 5, 6));
        struct tensor same = tensor_new(perm, d, shape_2(2, 3), N(1, 1, 2, 2, 4, 4));
        struct tensor tail = tensor_new(perm, d, shape_1(3), N(10, 20, 30));
        struct tensor one  = tensor_new(perm, d, shape_1(1), N(2));
        struct use    u    = RUN(OP_ADD, NONE, a, tail);
        expect(&u.out[0], N(11, 22, 33, 14, 25, 36));
        u = RUN(OP_SUB, NONE, a, one);
        expect(&u.out[0], N(-1, 0, 1, 2, 3, 4));
        u = RUN(OP_MUL, NONE, a, same);
        expect(&u.out[0], N(1, 2, 6, 8, 20, 24));
        u = RUN(OP_DIV, NONE, a, same);
        expect(&u.out[0], N(1, 2, 1.5, 2, 1.25, 1.5));
    }
    struct tensor a = tensor_new(perm, DT_I32, shape_1(2), N(2000000000, -7));
    struct use    u = RUN(OP_ADD, NONE, a, tensor_new(perm, DT_I32, shape_1(1), N(1)));
    CHECK_EQ(((i32 *)u.out[0].data)[0], 2000000001);
}

TEST(casts_round_to_floats_and_cut_to_integers)
{
    struct tensor x = tensor_new(perm, DT_F32, shape_1(5), N(-1.75, 2.99, 300.5, 1.00390625, 0));
    struct use    u = RUN(OP_CAST, AT(.dtype = DT_I32), x);
    expect(&u.out[0], N(-1, 2, 300, 1, 0));
    u = RUN(OP_CAST, AT(.dtype = DT_U8), x);
    expect(&u.out[0], N(0, 2, 255, 1, 0));
    u = RUN(OP_CAST, AT(.dtype = DT_BF16), x);
    CHECK_EQ(element_get(u.out[0].data, DT_BF16, 3), 1.0); /* 1 + 2^-8: a tie, to even */
    u = RUN(OP_CAST, AT(.dtype = DT_F32), tensor_new(perm, DT_U8, shape_1(2), N(0, 255)));
    expect(&u.out[0], N(0, 255));
}

TEST(swiglu_gates_the_second_half_by_the_first)
{
    FOR_EACH_FLOAT(d)
    {
        struct use u =
            RUN(OP_SWIGLU, NONE, tensor_new(perm, d, shape_2(2, 4), N(1, 2, 10, 20, -1, 0, 3, 4)));
        expect(&u.out[0], N(10 * sigmoid(1), 40 * sigmoid(2), -3 * sigmoid(-1), 0));
    }
}

/* --- moves --- */

TEST(moves_put_values_where_they_belong)
{
    static const enum dtype all[] = { DT_F32, DT_BF16, DT_F16, DT_F64, DT_I32, DT_U8 };
    for (i32 i = 0; i < COUNT_OF(all); i++) {
        enum dtype    d = all[i];
        struct tensor x = tensor_new(perm, d, shape_2(2, 3), N(1, 2, 3, 4, 5, 6));
        struct tensor y = tensor_new(perm, d, shape_2(2, 1), N(7, 8));
        struct use    u = RUN(OP_TRANSPOSE, AT(.dims = shape_2(1, 0)), x);
        expect(&u.out[0], N(1, 4, 2, 5, 3, 6));
        u = RUN(OP_RESHAPE, AT(.dims = shape_1(6)), x);
        expect(&u.out[0], N(1, 2, 3, 4, 5, 6));
        u = RUN(OP_CONCAT, AT(.axis = 1), x, y);
        expect(&u.out[0], N(1, 2, 3, 7, 4, 5, 6, 8));
        u = RUN(OP_SLICE, AT(.axis = 1, .start = 1, .count = 2), x);
        expect(&u.out[0], N(2, 3, 5, 6));
        u = RUN(OP_BROADCAST, AT(.axis = 1, .dims = shape_1(2)), x);
        expect(&u.out[0], N(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
        u = RUN(OP_SLICE_GRAD, AT(.axis = 1, .start = 1, .dims = shape_2(2, 3)), y);
        expect(&u.out[0], N(0, 7, 0, 0, 8, 0));
        u = use_of(perm, OP_FILL, AT(.add = 9, .dtype = d, .dims = shape_1(2)), NULL, 0);
        expect(&u.out[0], N(9, 9));
    }
}

TEST(a_transpose_of_four_axes_follows_its_permutation)
{
    struct draw     draw = { .state = test_seed() };
    struct op_case *c    = NEW(perm, struct op_case, 1);
    void           *y[OP_OUT_MAX];
    for (i32 round = 0; round < 50; round++) {
        struct arena p = scratch;
        op_case_draw(c, OP_TRANSPOSE, DT_F32, &draw, &p);
        op_case_run(c, y, &p);
        struct shape s = c->in[0].shape, to = c->out[0].shape;
        i64          at[RANK_MAX] = { 0 }, into = 0;
        for (i32 a = 0; a < s.rank; a++) at[a] = draw_to(&draw, s.dim[a]);
        i64 from = 0;
        for (i32 a = 0; a < s.rank; a++) from = from * s.dim[a] + at[a];
        for (i32 a = 0; a < s.rank; a++) into = into * to.dim[a] + at[c->at.dims.dim[a]];
        CHECK_EQ(((f32 *)y[0])[into], ((f32 *)c->data[0])[from]);
    }
}

TEST(sums_drop_the_axes_they_add_up)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor x = tensor_new(perm, d, shape_3(2, 2, 2), N(1, 2, 3, 4, 5, 6, 7, 8));
        struct use    u = RUN(OP_SUM, AT(.axis = 0, .count = 1), x);
        expect(&u.out[0], N(6, 8, 10, 12));
        u = RUN(OP_SUM, AT(.axis = 1, .count = 2), x);
        expect(&u.out[0], N(10, 26));
        u = RUN(OP_SUM, AT(.axis = 0, .count = 3), x);
        CHECK(shape_eq(u.out[0].type.shape, shape_1(1)));
        expect(&u.out[0], N(36));
    }
}

TEST(embeddings_are_looked_up_and_their_gradients_meet)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor table = tensor_new(perm, d, shape_2(3, 2), N(1, 2, 3, 4, 5, 6));
        struct tensor ids   = tensor_new(perm, DT_I32, shape_1(3), N(2, 0, 2));
        struct use    u     = RUN(OP_EMBEDDING, NONE, table, ids);
        expect(&u.out[0], N(5, 6, 1, 2, 5, 6));
        struct tensor dy = tensor_new(perm, d, shape_2(3, 2), N(1, 2, 3, 4, 5, 6));
        u                = RUN(OP_EMBEDDING_GRAD, AT(.dims = shape_2(3, 2)), dy, ids);
        expect(&u.out[0], N(3, 4, 0, 0, 6, 8));
    }
}

/* --- matrices --- */

TEST(products_of_matrices_in_every_orientation)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor a  = tensor_new(perm, d, shape_2(2, 3), N(1, 2, 3, 4, 5, 6));
        struct tensor at = tensor_new(perm, d, shape_2(3, 2), N(1, 4, 2, 5, 3, 6));
        struct tensor b  = tensor_new(perm, d, shape_2(3, 2), N(7, 8, 9, 10, 11, 12));
        struct tensor bt = tensor_new(perm, d, shape_2(2, 3), N(7, 9, 11, 8, 10, 12));
        struct tensor c  = tensor_new(perm, d, shape_1(2), N(1, -1));
        for (i32 k = 0; k < 4; k++) {
            struct tensor x = k & 1 ? at : a, y = k >> 1 ? bt : b;
            struct use    u = RUN(OP_MATMUL, AT(.ta = k & 1, .tb = k >> 1), x, y);
            expect(&u.out[0], N(58, 64, 139, 154));
            u = RUN(OP_MATMUL, u.at, x, y, c);
            expect(&u.out[0], N(59, 63, 140, 153));
        }
    }
}

TEST(products_take_rows_of_any_rank_and_batches)
{
    struct tensor a   = tensor_new(perm, DT_F32, shape_3(2, 1, 2), N(1, 2, 3, 4));
    struct tensor two = tensor_new(perm, DT_F32, shape_2(2, 2), N(1, 10, 100, 1000));
    struct tensor b   = tensor_new(perm, DT_F32, shape_3(2, 2, 1), N(1, 10, 100, 1000));
    struct use    u   = RUN(OP_MATMUL, NONE, a, two);
    CHECK(shape_eq(u.out[0].type.shape, shape_3(2, 1, 2)));
    expect(&u.out[0], N(201, 2010, 403, 4030));
    u = RUN(OP_MATMUL, NONE, a, b);
    expect(&u.out[0], N(21, 4300));
    a = tensor_new(perm, DT_F32, shape_3(2, 2, 2), N(1, 0, 0, 1, 1, 2, 3, 4)); /* one is I */
    b = tensor_new(perm, DT_F32, shape_3(2, 2, 2), N(5, 6, 7, 8, 1, 0, 0, 10));
    u = RUN(OP_MATMUL, NONE, a, b);
    expect(&u.out[0], N(5, 6, 7, 8, 1, 20, 3, 40));
    u = RUN(OP_MATMUL, AT(.ta = 1, .tb = 1), a, b);
    expect(&u.out[0], N(5, 7, 6, 8, 1, 30, 2, 40));
}

/* --- norms --- */

TEST(norms_of_small_rows)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor x = tensor_new(perm, d, shape_2(2, 2), N(1, 3, -2, 2));
        struct tensor w = tensor_new(perm, d, shape_1(2), N(2, 4));
        struct tensor b = tensor_new(perm, d, shape_1(2), N(0, 1));
        struct use    u = RUN(OP_LAYERNORM, AT(.eps = 0), x, w, b);
        expect(&u.out[0], N(-2, 5, -2, 5));
        expect(&u.out[1], N(2, 0));
        expect(&u.out[2], N(1, 0.5));
        CHECK_EQ(u.out[1].type.dtype, d == DT_F64 ? DT_F64 : DT_F32);
        u = RUN(OP_LAYERNORM, AT(.eps = 3), x, w, b);
        expect(&u.out[0], N(-1, 3, -4 / sqrt(7), 8 / sqrt(7) + 1));
        u = RUN(OP_RMSNORM, AT(.eps = 0), x, w);
        expect(&u.out[0], N(2 / sqrt(5), 12 / sqrt(5), -2, 4));
        expect(&u.out[1], N(1 / sqrt(5), 0.5));
        u.in_count = 1;
        use_run(&u, perm);
        expect(&u.out[0], N(1 / sqrt(5), 3 / sqrt(5), -1, 1));
        u = RUN(OP_RMSNORM, AT(.eps = 4), x, w);
        expect(&u.out[1], N(1.0 / 3, 1 / sqrt(8)));
    }
}

TEST(batch_norm_keeps_running_statistics)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor x    = tensor_new(perm, d, shape_2(2, 2), N(1, 10, 3, 10));
        struct tensor w    = tensor_new(perm, d, shape_1(2), N(1, 2));
        struct tensor b    = tensor_new(perm, d, shape_1(2), N(0, 5));
        struct tensor mean = tensor_new(perm, DT_F32, shape_1(2), N(0, 8));
        struct tensor var  = tensor_new(perm, DT_F32, shape_1(2), N(1, 4));
        struct use    u    = RUN(OP_BATCHNORM_EVAL, AT(.eps = 0), x, w, b, mean, var);
        expect(&u.out[0], N(1, 7, 3, 7));
        u = RUN(OP_BATCHNORM, AT(.eps = 1, .momentum = 0.5), x, w, b, mean, var);
        expect(&u.out[0], N(-sqrt(0.5), 5, sqrt(0.5), 5));
        expect(&u.out[1], N(2, 10));
        expect(&u.out[2], N(sqrt(0.5), 1));
        expect(&mean, N(1, 9));
        expect(&var, N(1.5, 2)); /* unbiased: 2 and 0 */
    }
}

/* --- images --- */

TEST(convolutions_of_small_images)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor x = tensor_new(perm, d, shape_4(1, 3, 3, 1), N(1, 2, 3, 4, 5, 6, 7, 8, 9));
        struct tensor w = tensor_new(perm, d, shape_4(1, 2, 2, 1), N(1, 2, 3, 4));
        struct tensor b = tensor_new(perm, d, shape_1(1), N(-7));
        struct use    u = RUN(OP_CONV2D, AT(.stride = 1), x, w, b);
        expect(&u.out[0], N(30, 40, 60, 70)); /* 1 + 4 + 12 + 20 = 37, less 7 */
        u = RUN(OP_CONV2D, AT(.stride = 2, .pad = 1), x, w);
        expect(&u.out[0], N(4, 3 * 2 + 4 * 3, 2 * 4 + 4 * 7, 5 + 2 * 6 + 3 * 8 + 4 * 9));
        struct tensor dy = tensor_new(perm, d, shape_4(1, 2, 2, 1), N(1, 0, 0, 10));
        u = RUN(OP_CONV2D_GRAD_X, AT(.stride = 1, .dims = shape_4(1, 3, 3, 1)), dy, w);
        expect(&u.out[0], N(1, 2, 0, 3, 14, 20, 0, 30, 40));
        u = RUN(OP_CONV2D_GRAD_W, AT(.stride = 1, .dims = shape_4(1, 2, 2, 1)), dy, x);
        expect(&u.out[0], N(51, 62, 84, 95));
    }
}

TEST(channels_are_last_in_images_and_weights)
{
    struct tensor x = tensor_new(perm, DT_F32, shape_4(1, 1, 2, 2), N(1, 10, 2, 20));
    struct tensor w = tensor_new(perm, DT_F32, shape_4(2, 1, 2, 2), N(1, 0, 0, 1, 2, 2, 0, 0));
    struct use    u = RUN(OP_CONV2D, AT(.stride = 1), x, w);
    expect(&u.out[0], N(21, 22));
}

TEST(pools_take_the_first_of_equals_and_count_padding)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor x = tensor_new(perm, d, shape_4(1, 2, 2, 2), N(1, 5, 1, 4, 0, 3, 1, 5));
        struct use    u = RUN(OP_MAXPOOL, AT(.kernel = 2, .stride = 1), x);
        expect(&u.out[0], N(1, 5));
        expect(&u.out[1], N(0, 1));
        struct tensor dy = tensor_new(perm, d, shape_4(1, 1, 1, 2), N(3, 4));
        struct use    g  = RUN(OP_MAXPOOL_GRAD, AT(.dims = shape_4(1, 2, 2, 2)), dy, u.out[1]);
        expect(&g.out[0], N(3, 4, 0, 0, 0, 0, 0, 0));
        u = RUN(OP_AVGPOOL, AT(.kernel = 2, .stride = 2, .pad = 1), x);
        expect(&u.out[0], N(0.25, 1.25, 0.25, 1, 0, 0.75, 0.25, 1.25));
    }
}

TEST(pools_see_negative_numbers_beside_padding)
{
    struct tensor x = tensor_new(perm, DT_F32, shape_4(1, 1, 1, 1), N(-3));
    struct use    u = RUN(OP_MAXPOOL, AT(.kernel = 3, .stride = 1, .pad = 1), x);
    expect(&u.out[0], N(-3));
}

/* --- attention --- */

TEST(attention_is_a_mean_of_values_weighted_by_softmax)
{
    FOR_EACH_FLOAT(d)
    {
        /* T = 2, one head of 1: rows are q, k, v */
        struct tensor x = tensor_new(perm, d, shape_3(1, 2, 3), N(1, 0, 4, 2, 1, 8));
        struct use    u = RUN(OP_ATTENTION, AT(.heads = 1, .kv_heads = 1, .scale = 1), x);
        expect(&u.out[0], N((4 + 8 * exp(1)) / (1 + exp(1)), (4 + 8 * exp(2)) / (1 + exp(2))));
        expect(&u.out[1], N(log(1 + exp(1)), log(1 + exp(2))));
        u.at.causal = 1;
        use_run(&u, perm);
        expect(&u.out[0], N(4, (4 + 8 * exp(2)) / (1 + exp(2))));
        u.at.causal = 0;
        u.in[1]     = tensor_new(perm, DT_I32, shape_1(1), N(1));
        u.in_count  = 2;
        use_run(&u, perm);
        expect(&u.out[0], N(4, 0));
    }
}

TEST(attention_sees_its_window_and_its_document_alone)
{
    FOR_EACH_FLOAT(d)
    {
        /* T = 4, one head of 1, all scores 0: the mean of the values 1, 2, 4, 8 that are seen */
        struct tensor x =
            tensor_new(perm, d, shape_3(1, 4, 3), N(0, 0, 1, 0, 0, 2, 0, 0, 4, 0, 0, 8));
        struct use u = RUN(OP_ATTENTION, AT(.heads = 1, .kv_heads = 1, .causal = 1, .scale = 1), x);
        expect(&u.out[0], N(1, 1.5, 7 / 3.0, 15 / 4.0));
        u.at.window = 2;
        use_run(&u, perm);
        expect(&u.out[0], N(1, 1.5, 3, 6));
        expect(&u.out[1], N(0, log(2), log(2), log(2)));
        u.at.window = 1;
        use_run(&u, perm);
        expect(&u.out[0], N(1, 2, 4, 8));
        u.at.window = 0;
        u.in[1]     = tensor_new(perm, DT_I32, shape_2(1, 4), N(0, 0, 1, 2));
        u.in_count  = 2;
        use_run(&u, perm);
        expect(&u.out[0], N(1, 2, 3, 14 / 3.0));
        u.at.window = 2;
        use_run(&u, perm);
        expect(&u.out[0], N(1, 2, 3, 6));
    }
}

TEST(query_heads_share_key_and_value_heads)
{
    /* two positions, rows q0 q1 k0 k1 v0 v1: head 1 must look at k1, whose second key wins by far */
    struct tensor y =
        tensor_new(perm, DT_F32, shape_3(1, 2, 6), N(1, 1, 99, 0, 1, 2, 1, 1, 0, 99, 3, 4));
    struct use w = RUN(OP_ATTENTION, AT(.heads = 2, .kv_heads = 2, .scale = 1), y);
    expect(&w.out[0], N(1, 4, 1, 4));
    expect(&w.out[1], N(99, 99, 99, 99));
    /* one position: the output is the value; 4 query heads over 2 value heads */
    struct tensor x = tensor_new(perm, DT_F32, shape_3(1, 1, 8), N(1, 2, 3, 4, 5, 6, 70, 80));
    struct use    u = RUN(OP_ATTENTION, AT(.heads = 4, .kv_heads = 2, .scale = 1), x);
    expect(&u.out[0], N(70, 70, 80, 80));
}

TEST(padding_gets_no_gradient_and_gives_none)
{
    struct draw draw = { .state = test_seed() };
    f64         v[32];
    for (i32 i = 0; i < 32; i++) v[i] = draw_normal(&draw);
    struct tensor x    = tensor_new(perm, DT_F32, shape_3(1, 4, 6), v);
    struct tensor dy   = tensor_new(perm, DT_F32, shape_3(1, 4, 2), v + 8);
    struct tensor lens = tensor_new(perm, DT_I32, shape_1(1), N(2));
    struct use    u    = RUN(OP_ATTENTION, AT(.heads = 1, .kv_heads = 1, .scale = 0.5), x, lens);
    struct use    g    = RUN(OP_ATTENTION_GRAD, u.at, dy, x, u.out[0], u.out[1], lens);
    for (i64 i = 0; i < 12; i++) CHECK(((f32 *)g.out[0].data)[i] != 0);
    for (i64 i = 12; i < 24; i++) CHECK_EQ(((f32 *)g.out[0].data)[i], 0);
}

TEST(rope_turns_pairs_half_a_head_apart_and_back)
{
    FOR_EACH_FLOAT(d)
    {
        /* two positions, two heads of 4, the first turned; base 16: angles t and t/4 */
        struct tensor x  = tensor_new(perm, d, shape_3(1, 2, 8),
                                      N(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8));
        struct use    u  = RUN(OP_ROPE, AT(.heads = 1, .head_dim = 4, .base = 16), x);
        f64           c1 = cos(1), s1 = sin(1), c2 = cos(0.25), s2 = sin(0.25);
        expect(&u.out[0], N(1, 2, 3, 4, 5, 6, 7, 8, c1 - 3 * s1, 2 * c2 - 4 * s2, 3 * c1 + s1,
                            4 * c2 + 2 * s2, 5, 6, 7, 8));
        u.at.inverse    = 1;
        struct use back = RUN(OP_ROPE, u.at, u.out[0]);
        expect(&back.out[0], N(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8));
    }
}

TEST(qknorm_changes_leading_heads_only)
{
    FOR_EACH_FLOAT(d)
    {
        struct use u = RUN(OP_QKNORM, AT(.heads = 1, .head_dim = 2, .eps = 0),
                           tensor_new(perm, d, shape_3(1, 2, 4), N(3, 4, 9, 9, 0, 2, 8, 8)));
        f64        r = sqrt(2.0 / 25);
        expect(&u.out[0], N(3 * r, 4 * r, 9, 9, 0, sqrt(2), 8, 8));
        expect(&u.out[1], N(r, sqrt(0.5)));
    }
}

/* --- losses --- */

TEST(cross_entropy_of_rows_that_can_be_done_by_hand)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor x = tensor_new(perm, d, shape_2(3, 2), N(0, 0, 0, 2, 5, 5));
        struct tensor t = tensor_new(perm, DT_I32, shape_1(3), N(1, 0, -1));
        struct use    u = RUN(OP_XENT, NONE, x, t);
        f64           l = log(1 + exp(2));
        use_run(&u, perm);
        expect(&u.out[0], N(log(2), l, 0));
        expect(&u.out[1], N(log(2), l, 5 + log(2)));
        u.at.smoothing = 0.5;
        use_run(&u, perm);
        expect(&u.out[0], N(log(2), 0.5 * l + 0.5 * (l - 1), 0));
        struct use g = RUN(OP_XENT_GRAD, NONE, tensor_new(perm, DT_F32, shape_1(3), N(1, 10, 7)), x,
                           t, u.out[1]);
        expect(&g.out[0], N(0.5, -0.5, -10 * sigmoid(2), 10 * sigmoid(2), 0, 0));
        g.at.smoothing = 0.5; /* wanted 1/4, 3/4 and 3/4, 1/4 */
        use_run(&g, perm);
        expect(&g.out[0],
               N(0.25, -0.25, 10 * (sigmoid(-2) - 0.75), 10 * (sigmoid(2) - 0.25), 0, 0));
        struct use h = RUN(OP_HITS, NONE, x, t);
        expect(&h.out[0], N(0, 0, 0));
        h.in[1] = tensor_new(perm, DT_I32, shape_1(3), N(0, 1, 1)); /* ties: the first is largest */
        use_run(&h, perm);
        expect(&h.out[0], N(1, 1, 0));
    }
}

TEST(a_hit_is_the_largest_of_all_classes)
{
    struct tensor x =
        tensor_new(perm, DT_F32, shape_2(3, 4), N(1, 5, 3, 4, 9, 0, 0, 8, 0, 1, 2, 3));
    struct use u = RUN(OP_HITS, NONE, x, tensor_new(perm, DT_I32, shape_1(3), N(1, 0, 3)));
    expect(&u.out[0], N(1, 1, 1));
    u = RUN(OP_HITS, NONE, x, tensor_new(perm, DT_I32, shape_1(3), N(3, 3, -1)));
    expect(&u.out[0], N(0, 0, 0));
}

TEST(losses_of_large_logits_are_finite)
{
    struct tensor x = tensor_new(perm, DT_F32, shape_2(1, 2), N(1e4, -1e4));
    struct use    u = RUN(OP_XENT, NONE, x, tensor_new(perm, DT_I32, shape_1(1), N(1)));
    expect(&u.out[0], N(2e4));
    u = RUN(OP_SOFTMAX, NONE, x);
    expect(&u.out[0], N(1, 0));
    u = RUN(OP_BCE, NONE, x, tensor_new(perm, DT_F32, shape_2(1, 2), N(0, 0)));
    expect(&u.out[0], N(1e4, 0));
}

TEST(binary_cross_entropy_and_softmax_by_hand)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor x = tensor_new(perm, d, shape_1(3), N(0, 2, -2));
        struct tensor t = tensor_new(perm, d, shape_1(3), N(1, 0, 0.25));
        struct use    u = RUN(OP_BCE, NONE, x, t);
        expect(&u.out[0],
               N(log(2), log(1 + exp(2)), 0.25 * log(1 + exp(2)) + 0.75 * log(1 + exp(-2))));
        u       = RUN(OP_SOFTMAX, NONE, x);
        f64 sum = 1 + exp(2) + exp(-2);
        expect(&u.out[0], N(1 / sum, exp(2) / sum, exp(-2) / sum));
    }
}

/* --- dropout --- */

TEST(dropout_is_addressed_by_the_sample_in_the_global_batch)
{
    f64 ones[NUMBERS_MAX];
    for (i32 i = 0; i < NUMBERS_MAX; i++) ones[i] = 1;
    struct attrs  at  = { .key = 0x1234567890ABCDEF, .p = 0.25 };
    struct tensor all = tensor_new(perm, DT_F32, shape_3(4, 2, 8), ones);
    struct tensor two = tensor_new(perm, DT_F32, shape_3(2, 2, 8), ones);
    struct use u = RUN(OP_DROPOUT, at, all, tensor_new(perm, DT_I32, shape_1(4), N(-5, 6, 7, 100)));
    struct use v = RUN(OP_DROPOUT, at, two, tensor_new(perm, DT_I32, shape_1(4), N(-5, 6, 7, 102)));
    const f32 *a = u.out[0].data;
    struct rng_key key = { .seed = (u64)6 << 32 | 0xFFFFFFFB,
                           .name = 0x1234567890ABCDEF,
                           .step = 7 };
    CHECK(!memcmp(a + 32, v.out[0].data, 32 * sizeof *a));
    for (i32 i = 0; i < 64; i++) {
        key.sample = (u64)(100 + i / 16);
        CHECK_EQ(a[i], rng_uniform(key, (u64)(i % 16)) >= 0.25 ? (f32)(1 / 0.75) : 0);
    }
}

/* Scores of 0 weigh all keys alike, and values of one 1 each show the weights. */
TEST(attention_drops_weights_by_sample_head_query_and_key)
{
    enum { T = 4, H = 2, ROW = 4 * T };
    f64 x[2 * T * ROW] = { 0 };
    for (i32 i = 0; i < 2 * T; i++) x[i * ROW + 3 * T + i % T] = 1;
    struct attrs  at  = { .heads = H, .kv_heads = 1, .scale = 1, .key = 99, .p = 0.25 };
    struct tensor qkv = tensor_new(perm, DT_F64, shape_3(2, T, ROW), x);
    struct tensor one = tensor_new(perm, DT_F64, shape_3(1, T, ROW), x);
    struct use u = RUN(OP_ATTENTION, at, qkv, tensor_new(perm, DT_I32, shape_1(4), N(3, 0, 7, 40)));
    struct use v = RUN(OP_ATTENTION, at, one, tensor_new(perm, DT_I32, shape_1(4), N(3, 0, 7, 41)));
    const f64 *o = u.out[0].data;
    struct rng_key key = { .seed = 3, .name = 99, .step = 7 };
    CHECK(!memcmp(o + T * H * T, v.out[0].data, T * H * T * sizeof *o));
    for (i32 i = 0; i < 2 * T * H * T; i++) {
        i32 s = i % T, h = i / T % H, t = i / T / H % T;
        key.sample = (u64)(40 + i / T / H / T);
        CHECK_NEAR(o[i], rng_uniform(key, attention_weight(h, t, s)) >= 0.25 ? 1 / 0.75 / T : 0,
                   1e-15);
    }
    CHECK_NEAR(*(f64 *)u.out[1].data, log(T), 1e-15); /* of all keys */
}

/* --- optimisers --- */

TEST(clipping_scales_by_the_norm)
{
    struct use u = RUN(OP_SUMSQ, NONE, tensor_new(perm, DT_BF16, shape_1(2), N(3, 4)));
    expect(&u.out[0], N(25));
    struct use c = RUN(OP_CLIP, AT(.limit = 1), u.out[0]);
    CHECK_NEAR(*(f32 *)c.out[0].data, 1 / (5 + 1e-6), 1e-7);
    expect(&c.out[1], N(5));
    c.at.limit = 6;
    use_run(&c, perm);
    CHECK_EQ(*(f32 *)c.out[0].data, 1);
    c.at.limit = 0;
    use_run(&c, perm);
    CHECK_EQ(*(f32 *)c.out[0].data, 1);
}

TEST(sgd_takes_the_steps_of_torch)
{
    /* p 1, gradient 2 clipped by half, decay 0.5: g' = 1.5; the stale momentum must not count */
    struct tensor p = tensor_new(perm, DT_F64, shape_1(1), N(1));
    struct tensor g = tensor_new(perm, DT_F64, shape_1(1), N(2));
    struct tensor m = tensor_new(perm, DT_F64, shape_1(1), N(99));
    struct tensor h = tensor_new(perm, DT_F32, shape_1(4), N(0.5, 0.5, 0, 1));
    struct tensor f = tensor_new(perm, DT_F32, shape_1(1), N(0.5));
    struct use    u = RUN(OP_SGD, AT(.decay = 0.5), p, g, m, h, f);
    expect(&p, N(0.25));
    expect(&m, N(1.5));
    element_set(h.data, DT_F32, 3, 2); /* g' = 1.125, momentum 0.75 + 1.125 */
    use_run(&u, perm);
    expect(&m, N(1.875));
    expect(&p, N(0.25 - 0.5 * 1.875));
    element_set(h.data, DT_F32, 3, 3);
    element_set(p.data, DT_F64, 0, 0); /* g' = 1, momentum 1.9375, Nesterov adds g' */
    u.at.nesterov = 1;
    use_run(&u, perm);
    expect(&p, N(-0.5 * (1 + 0.5 * 1.9375)));
}

TEST(adam_takes_the_steps_of_torch)
{
    /* After the first step both moments are corrected to g and g^2 whatever the betas. */
    struct tensor p = tensor_new(perm, DT_F64, shape_1(1), N(1));
    struct tensor g = tensor_new(perm, DT_F64, shape_1(1), N(2));
    struct tensor m = tensor_new(perm, DT_F64, shape_1(1), N(0));
    struct tensor v = tensor_new(perm, DT_F64, shape_1(1), N(0));
    struct tensor h = tensor_new(perm, DT_F32, shape_1(4), N(0.25, 0.5, 0.75, 1));
    struct tensor f = tensor_new(perm, DT_F32, shape_1(1), N(1));
    struct use    u = RUN(OP_ADAM, AT(.eps = 2), p, g, m, v, h, f);
    expect(&m, N(1));
    expect(&v, N(1));
    expect(&p, N(1 - 0.25 * 2 / (2 + 2)));
    element_set(h.data, DT_F32, 3, 2); /* m = 1.5 / 0.75, v = 1.75 / 0.4375 */
    use_run(&u, perm);
    expect(&p, N(0.875 - 0.25 * 2 / (2 + 2)));

    element_set(p.data, DT_F64, 0, 1);
    element_set(m.data, DT_F64, 0, 0);
    element_set(v.data, DT_F64, 0, 0);
    element_set(h.data, DT_F32, 3, 1);
    u.op       = OP_ADAMW;
    u.at.decay = 2; /* p shrinks by lr * decay = 1/2 first */
    use_run(&u, perm);
    expect(&p, N(0.5 - 0.125));

    element_set(p.data, DT_F64, 0, 1);
    element_set(m.data, DT_F64, 0, 0);
    element_set(v.data, DT_F64, 0, 0);
    u.op = OP_ADAM; /* decay joins the gradient: 2 + 2 */
    use_run(&u, perm);
    expect(&p, N(1 - 0.25 * 4 / (4 + 2)));
}

/* --- low types --- */

static f64 half_ulp(enum dtype t) /* relative: one rounding to the nearest */
{
    return t == DT_F64 ? 0 : t == DT_F32 ? 0x1p-24 : t == DT_F16 ? 0x1p-11 : 0x1p-8;
}

static f64 smallest(enum dtype t) /* half of the least distance of two numbers */
{
    return t == DT_F16 ? 0x1p-25 : t == DT_F64 ? 0 : t == DT_F32 ? 0x1p-150 : 0x1p-134;
}

/* The same case over f64: every operand copied, every float wide. */
static void case_exact(struct op_case *e, const struct op_case *c, struct arena *perm)
{
    *e = *c;
    for (i32 i = 0; i < c->in_count; i++) {
        i64 count = shape_count(c->in[i].shape);
        if (!dtype_is_float(c->in[i].dtype)) {
            e->data[i] =
                arena_take(perm, MAX(1, type_bytes(c->in[i])), 1, 64); /* it may be written */
            memcpy(e->data[i], c->data[i], (size_t)type_bytes(c->in[i]));
            continue;
        }
        e->in[i].dtype = DT_F64;
        e->data[i]     = NEW(perm, f64, MAX(1, count));
        for (i64 k = 0; k < count; k++)
            ((f64 *)e->data[i])[k] = element_get(c->data[i], c->in[i].dtype, k);
    }
    for (i32 i = 0; i < op_info(c->op)->out_count; i++)
        if (dtype_is_float(c->out[i].dtype)) e->out[i].dtype = DT_F64;
}

/* Tolerance: one rounding to the stored type, and 1e-9 of it for f64's own sums in another order. */
static void check_rounded_once(const struct op_case *c, const char *what, i32 index, struct type t,
                               const void *got, const f64 *exact, struct arena *perm)
{
    f64 infinite = t.dtype == DT_F16 ? 65520 : INFINITY;
    for (i64 i = 0; i < shape_count(t.shape); i++) {
        f64 g = element_get(got, t.dtype, i), want = exact[i];
        f64 allowed = half_ulp(t.dtype) * fabs(want) * (1 + 1e-9) + smallest(t.dtype);
        if (fabs(g - want) <= allowed || (isinf(g) && fabs(want) >= infinite)) continue;
        struct str text = op_case_text(c, perm);
        harness_fail(__FILE__, __LINE__, "%.*s: %s %d, element %lld is %.9g, exactly %.9g",
                     STR_ARG(text), what, index, (long long)i, g, want);
    }
}

TEST(every_op_over_low_types_rounds_its_exact_results_once)
{
    struct draw draw = { .state = test_seed() };
    for (i32 op = 0; op < OP_COUNT; op++) {
        for (i32 round = 0; round < 8; round++) {
            struct arena    room = scratch;
            struct op_case *c = NEW(&room, struct op_case, 1), *e = NEW(&room, struct op_case, 1);
            void           *got[OP_OUT_MAX], *exact[OP_OUT_MAX];
            op_case_draw(c, op, round % 2 ? DT_F16 : DT_BF16, &draw, &room);
            if (c->at.stochastic) continue; /* rounds otherwise: below */
            if (op_info(op)->writes && op_info(op)->attrs & A_key && c->in[0].dtype == DT_BF16)
                continue; /* a table rounded at random: test_rows.c */
            if (op == OP_QUANTISE || op == OP_MATMUL_FP8 || op == OP_FP8_ADVANCE || op == OP_UNPACK)
                continue;                                                 /* no f64 */
            if (op == OP_ADD_LAYERNORM || op == OP_ADD_RMSNORM) continue; /* of the sum as stored */
            case_exact(e, c, &room);
            op_case_run(c, got, &room);
            op_case_run(e, exact, &room);
            for (i32 i = 0; i < op_info(op)->out_count; i++)
                if (dtype_is_float(c->out[i].dtype))
                    check_rounded_once(c, "result", i, c->out[i], got[i], exact[i], &room);
            for (i32 i = 0; i < c->in_count && i < 5; i++) {
                if (!(op_info(op)->writes >> i & 1)) continue;
                if (dtype_is_float(c->in[i].dtype))
                    check_rounded_once(c, "state", i, c->in[i], c->data[i], e->data[i], &room);
                else CHECK_EQ(memcmp(c->data[i], e->data[i], (size_t)type_bytes(c->in[i])), 0);
            }
        }
    }
}

TEST(wide_results_and_weights_beside_low_activations_stay_f32)
{
    for (enum dtype d = DT_BF16; d <= DT_F16; d++) {
        struct tensor a = tensor_new(perm, d, shape_2(1, 2), N(256, 1));
        struct tensor b = tensor_new(perm, d, shape_2(2, 1), N(256, 1)); /* 65537 needs 17 bits */
        struct tensor bias = tensor_new(perm, DT_F32, shape_1(1), N(0x1p-6));
        struct use    u    = RUN(OP_MATMUL, AT(.wide = 1), a, b, bias);
        CHECK_EQ(u.out[0].type.dtype, DT_F32);
        CHECK_EQ(*(f32 *)u.out[0].data, 65537.015625f);
        u = RUN(OP_MATMUL, NONE, a, b, bias);
        CHECK_EQ(u.out[0].type.dtype, d);
        u = RUN(OP_SUM, AT(.axis = 0, .count = 2, .wide = 1), a);
        CHECK_EQ(u.out[0].type.dtype, DT_F32);
        CHECK_EQ(*(f32 *)u.out[0].data, 257);
        struct tensor w = tensor_new(perm, DT_F32, shape_1(2), N(1, 1));
        u               = RUN(OP_LAYERNORM, AT(.eps = 1), a, w, w);
        CHECK_EQ(u.out[0].type.dtype, d);
        CHECK_EQ(u.out[1].type.dtype, DT_F32);
        u = RUN(OP_LAYERNORM_GRAD, NONE, a, a, w, u.out[1], u.out[2]);
        CHECK_EQ(u.out[0].type.dtype, d);
        CHECK_EQ(u.out[1].type.dtype, DT_F32);
        u = RUN(OP_RMSNORM, AT(.eps = 1), a);
        u = RUN(OP_RMSNORM_GRAD, NONE, a, a, u.out[1]);
        CHECK_EQ(u.out[1].type.dtype, DT_F32);
    }
}

/* Half-way between two neighbours of T it is each of them half the time; what T holds stays. */
TEST(stochastic_rounding_has_the_number_itself_as_its_mean)
{
    static const struct {
        enum dtype t;
        f64        x, below, above;
    } rows[] = {
        { DT_BF16, 1 + 0x1p-9, 1, 1 + 0x1p-7 },    { DT_F16, 1 + 0x1p-12, 1, 1 + 0x1p-10 },
        { DT_BF16, -1 - 0x1p-8, -1 - 0x1p-7, -1 }, { DT_F16, 0x1p-26, 0, 0x1p-24 },
        { DT_F16, 3 + 0x1p-13, 3, 3 + 0x1p-9 },    { DT_BF16, 7.5, 7.5, 7.5 },
    };
    enum { COUNT = 20000 };
    u64 seed = test_seed();
    for (i32 r = 0; r < COUNT_OF(rows); r++) {
        struct tensor x   = tensor_new(perm, DT_F32, shape_1(COUNT), NULL);
        struct tensor rng = tensor_new(perm, DT_I32, shape_1(4), N((f64)(seed % 1000), r, 3, 99));
        for (i64 i = 0; i < COUNT; i++) ((f32 *)x.data)[i] = (f32)rows[r].x;
        struct use u     = RUN(OP_CAST, AT(.stochastic = 1, .key = 5, .dtype = rows[r].t), x, rng);
        f64        above = 0, part = (rows[r].x - rows[r].below) / (rows[r].above - rows[r].below);
        for (i64 i = 0; i < COUNT; i++) {
            f64 y = element_get(u.out[0].data, rows[r].t, i);
            CHECK(y == rows[r].below || y == rows[r].above);
            above += y == rows[r].above;
        }
        /* 5 standard deviations of a mean of COUNT coins */
        if (rows[r].below == rows[r].above) continue;
        CHECK_NEAR(above / COUNT, part, 5 * sqrt(part * (1 - part) / COUNT));
    }
}

/* bf16 is the upper half of an f32: a kernel may add 16 random bits and cut. */
TEST(stochastic_rounding_to_bf16_adds_random_bits_and_cuts)
{
    struct draw   draw = { .state = test_seed() };
    struct tensor x    = tensor_new(perm, DT_F32, shape_1(1000), NULL);
    struct tensor rng  = tensor_new(perm, DT_I32, shape_1(4), N(1, 2, 3, 4));
    for (i64 i = 0; i < x.count; i++)
        ((f32 *)x.data)[i] = (f32)(draw_normal(&draw) * pow(10, (f64)draw_to(&draw, 60) - 30));
    struct use     u   = RUN(OP_CAST, AT(.stochastic = 1, .key = 9, .dtype = DT_BF16), x, rng);
    struct rng_key key = { .seed = (u64)2 << 32 | 1, .name = 9, .step = 3 };
    for (i64 i = 0; i < x.count; i++) {
        u32 bits = f32_bits(((f32 *)x.data)[i]);
        CHECK_EQ(((u16 *)u.out[0].data)[i], (bits + (rng_u32(key, (u64)i) >> 16)) >> 16);
    }
}

/* --- gradients --- */

/* Sum of dy times result 0 of a forward case with element k of input i moved by `by`. */
static f64 loss_moved(const struct op_case *f, const void *dy, i32 i, i64 k, f64 by,
                      struct arena scratch)
{
    struct op_case *c = NEW(&scratch, struct op_case, 1);
    void           *y[OP_OUT_MAX];
    f64             loss = 0;
    *c                   = *f;
    for (i32 n = 0; n < f->in_count; n++) { /* copies: batch norm writes into some */
        c->data[n] = arena_take(&scratch, MAX(1, type_bytes(f->in[n])), 1, 64);
        memcpy(c->data[n], f->data[n], (size_t)type_bytes(f->in[n]));
    }
    ((f64 *)c->data[i])[k] += by;
    op_case_run(c, y, &scratch);
    for (i64 n = 0; n < shape_count(c->out[0].shape); n++)
        loss += ((const f64 *)dy)[n] * ((f64 *)y[0])[n];
    return loss;
}

/* Central differences of the fourth order in f64: their error is about h^4 of the fifth derivative + u |loss| / h;
 * with h = 1e-5 both stay below 1e-6 of the terms' size, here loss and gradient together, for norms of a single
 * number near 0 too, which bend within 1e-3. */
static void check_gradient(i32 op, struct draw *draw, struct arena *perm)
{
    struct op_case *f = NEW(perm, struct op_case, 1), *g = NEW(perm, struct op_case, 1);
    void           *grad[OP_OUT_MAX];
    op_case_draw(f, op_case_forward(op), DT_F64, draw, perm);
    op_case_gradient(g, op, f, draw, perm);
    op_case_run(g, grad, perm);
    for (i32 r = 0; r < op_info(op)->out_count; r++) {
        i32 input = op_case_input(op) + r;
        if (input >= f->in_count) continue; /* RMS norm without weight */
        for (i32 t = 0; t < 8; t++) {
            f64 h   = 1e-5;
            i64 k   = draw_to(draw, shape_count(f->in[input].shape));
            f64 a   = loss_moved(f, g->data[0], input, k, h, *perm);
            f64 b   = loss_moved(f, g->data[0], input, k, -h, *perm);
            f64 far = loss_moved(f, g->data[0], input, k, 2 * h, *perm) -
                      loss_moved(f, g->data[0], input, k, -2 * h, *perm);
            f64        want = (8 * (a - b) - far) / (12 * h), got = ((f64 *)grad[r])[k];
            struct str text = op_case_text(g, perm);
            if (!(fabs(got - want) <= 1e-6 * (1 + fabs(a) + fabs(want))))
                harness_fail(__FILE__, __LINE__, "%.*s: result %d, element %lld is %.9g, not %.9g",
                             STR_ARG(text), r, (long long)k, got, want);
        }
    }
}

TEST(every_gradient_is_the_slope_of_its_forward_op)
{
    struct draw draw = { .state = test_seed() };
    for (i32 op = 0; op < OP_COUNT; op++) {
        CHECK_EQ(op_case_forward(op) >= 0, strstr(op_info(op)->name, "_grad") != NULL);
        if (op_case_forward(op) < 0) continue;
        for (i32 round = 0; round < 4; round++) {
            struct arena p = scratch;
            check_gradient(op, &draw, &p);
        }
    }
}

/* --- ops registered at run time --- */

static void triple(const struct call *c)
{
    for (i64 i = 0; i < c->out[0].count; i++)
        ((f32 *)c->out[0].data)[i] = 3 * ((const f32 *)c->in[0].data)[i];
}

TEST(an_op_registered_at_run_time_runs_its_own_kernel)
{
    struct op_info row = *op_info(OP_RELU);
    struct err     err;
    i32            op;
    row.name = "triple";
    row.run  = triple;
    CHECK_EQ(op_register(&row, &op, &err), STATUS_OK);
    struct use u = RUN(op, NONE, tensor_new(perm, DT_F32, shape_1(2), N(1, -2)));
    expect(&u.out[0], N(3, -6));
    struct call c = { op, &u.at, u.in, 1, u.out, NULL, 0, NULL, NULL };
    CHECK_STR(kernel_choose(&c, false)->name, "ref");
    CHECK_EQ(kernel_choose(&c, false)->work(&c), 0);
}
