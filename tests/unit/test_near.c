/* test_near.c - what the checks of kernels forgive and what they do not. */
#include "backend/cpu/kernel.h"
#include "base/rng.h"
#include "harness.h"
#include "support/near.h"

enum { ROWS = 3 };
static const f32 rstd =
    316.227766f; /* 1 / sqrt(eps) of eps = 1e-5: a row of one number has no deviation */

static struct tensor tensor_1(f32 *data, i64 count, i64 width)
{
    return (struct tensor){ data, type_of(DT_F32, shape_2(count / width, width)), count };
}

/* Of rows of one number, whose gradient is 0: how far `got` is, over what is allowed. */
static f64 off_layernorm(const f32 *got)
{
    f32 dy[ROWS] = { 1, -2, 0.5f }, x[ROWS] = { 1, 2, 3 }, w[1] = { 1 }, zero[ROWS] = { 0 };
    f32 rstds[ROWS]    = { rstd, rstd, rstd };
    struct attrs  at   = { 0 };
    struct tensor in[] = { tensor_1(dy, ROWS, 1), tensor_1(x, ROWS, 1), tensor_1(w, 1, 1),
                           tensor_1(x, ROWS, 1), tensor_1(rstds, ROWS, 1) };
    struct type   types[5];
    for (i32 i = 0; i < 5; i++) types[i] = in[i].type;
    f64 terms = near_terms(OP_LAYERNORM_GRAD, &at, in, 5, ROWS);
    return near_distance(got, zero, in[0].type, terms) /
           near_allowed(OP_LAYERNORM_GRAD, &at, types, 5, in[0].type, ROWS + 1);
}

TEST(rounding_times_the_factor_of_a_norm_is_forgiven)
{
    f32 rounded[ROWS] = { 0x1p-25f * rstd, -0x1p-24f * rstd, 0x1p-26f * rstd };
    CHECK(off_layernorm(rounded) < 1);
}

TEST(a_mean_that_was_not_taken_off_is_found)
{
    f32 wrong[ROWS] = { rstd, -2 * rstd, 0.5f * rstd }, small[ROWS] = { 0, 0, 0x1p-10f * rstd };
    CHECK(off_layernorm(wrong) > 1000);
    CHECK(off_layernorm(small) > 1);
}

/* Two heads of three are normalised: the third one's terms have no factor. */
TEST(heads_left_alone_have_no_factor)
{
    f32           dy[6] = { 1, 1, 1, 1, 1, 1 }, rstds[2] = { 2, 3 };
    struct attrs  at   = { .heads = 2, .head_dim = 2 };
    struct tensor in[] = { tensor_1(dy, 6, 6), tensor_1(dy, 6, 6), tensor_1(rstds, 2, 2) };
    CHECK_NEAR(near_terms(OP_QKNORM_GRAD, &at, in, 3, 6), sqrt(2 * 4 + 2 * 9 + 2), 1e-12);
    CHECK_EQ(near_terms(OP_QKNORM_GRAD, &at, in, 3, 2), 0);
}

/* Beside a class of probability 1 - 1e-6 the gradient is 1e-6 of what it is the difference of. */
TEST(the_gradient_of_a_loss_is_as_exact_as_the_losses_it_is_given)
{
    f32           dloss[2] = { 3, -4 };
    struct attrs  at       = { 0 };
    struct tensor in[]     = { { dloss, type_of(DT_F32, shape_1(2)), 2 } };
    CHECK_NEAR(near_terms(OP_XENT_GRAD, &at, in, 1, 20), 5, 1e-12);
}

TEST(a_mean_near_0_is_as_exact_as_what_it_is_the_mean_of)
{
    f32           x[4] = { 3, -3, 4, -4 };
    struct tensor in[] = { { x, type_of(DT_F32, shape_2(2, 2)), 4 } };
    CHECK_NEAR(near_sum_terms(OP_BATCHNORM, 1, in, 2), 5,
               1e-12); /* columns of 3, 4 and of -3, -4 */
    CHECK_EQ(near_sum_terms(OP_BATCHNORM, 2, in, 2), 0);
    CHECK_EQ(near_sum_terms(OP_RMSNORM, 1, in, 2), 0);
}

TEST(a_small_loss_is_as_exact_as_the_logits_it_is_the_difference_of)
{
    f32           x[6] = { 1, -3, 2, 4, 0, 0 };
    struct tensor in[] = { { x, type_of(DT_F32, shape_2(2, 3)), 6 } };
    CHECK_NEAR(near_sum_terms(OP_XENT, 0, in, 2), 5, 1e-12);
    CHECK_NEAR(near_sum_terms(OP_SUM, 0, in, 1), sqrt(30), 1e-12);
}

/* --- muon --- */

struct muon_case {
    struct attrs  at;
    struct tensor in[5];
};

/* Rows and columns of random numbers, parameters and a step of about the same size. */
static struct muon_case muon_case_new(i64 rows, i64 columns, u64 seed, struct arena *perm)
{
    struct muon_case c        = { .at = { .scale = 1, .dtype = DT_F32 } };
    f32              hyper[4] = { (f32)sqrt((f64)MAX(rows, columns)), 0.9f, 0, 1 }, one = 1;
    for (i32 i = 0; i < 3; i++) {
        f32 *x = NEW(perm, f32, rows * columns);
        rng_fill_normal((struct rng_key){ .seed = seed, .name = (u64)i }, 0, rows * columns, 1, x);
        c.in[i] = tensor_1(x, rows * columns, columns);
    }
    c.in[3] = tensor_1(memcpy(NEW(perm, f32, 4), hyper, sizeof hyper), 4, 4);
    c.in[4] = tensor_1(memcpy(NEW(perm, f32, 1), &one, sizeof one), 1, 1);
    return c;
}

/* The parameter that the naive kernel leaves. */
static f32 *muon_run(const struct muon_case *c, enum dtype products, struct arena *perm)
{
    struct tensor in[5];
    struct attrs  at = c->at;
    for (i32 i = 0; i < 5; i++) {
        in[i]      = c->in[i];
        in[i].data = memcpy(NEW(perm, f32, in[i].count), c->in[i].data, (size_t)in[i].count * 4);
    }
    at.dtype         = products;
    struct call call = { OP_MUON, &at, in, 5, NULL, NULL, 0, NULL, NULL };
    call.work_bytes  = ref_work(&call);
    call.work        = arena_take(perm, call.work_bytes, 1, 64);
    ref_run(&call);
    return in[0].data;
}

TEST(muon_in_a_low_type_is_forgiven_its_roundings_and_no_more)
{
    static const i64 sizes[][2] = { { 3, 5 }, { 1, 1 }, { 40, 8 }, { 33, 60 } };
    u64              seed       = test_seed();
    for (i32 i = 0; i < 2 * COUNT_OF(sizes); i++) {
        struct arena     a    = scratch;
        const i64       *z    = sizes[i / 2];
        enum dtype       low  = i % 2 ? DT_F16 : DT_BF16;
        struct muon_case c    = muon_case_new(z[0], z[1], seed + (u64)i, &a);
        f32             *want = muon_run(&c, DT_F32, &a), *got = muon_run(&c, low, &a);
        f32             *far  = NEW(&a, f32, z[0] * z[1]);
        const f32       *from = c.in[0].data;
        f64              may  = near_allowed_muon(&c.at, c.in, low, a);
        /* as wrong as a step that is by that part too long */
        f64 part = low == DT_BF16 ? 0.2 : 0.025;
        for (i64 k = 0; k < z[0] * z[1]; k++) far[k] = want[k] + (want[k] - from[k]) * (f32)part;
        CHECK(near_distance(got, want, c.in[0].type, 0) <= may);
        if (i / 2 > 1) /* a small matrix may have any condition */
            CHECK(near_distance(far, want, c.in[0].type, 0) > may);
    }
}
