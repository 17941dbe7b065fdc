/* test_near.c - what the checks of kernels forgive and what they do not. */
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
