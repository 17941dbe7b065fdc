/* test_rows.c - rows of a table: gradients and optimisers, against numbers worked out by hand. */
#include "support/use.h"
#include <math.h>

TEST(gradients_and_steps_of_the_rows_that_ids_name)
{
    FOR_EACH_FLOAT(d)
    {
        struct tensor ids = tensor_new(perm, DT_I32, shape_1(3), N(4, 1, 4));
        struct tensor dy  = tensor_new(perm, d, shape_2(3, 2), N(1, 2, 3, 4, 5, 6));
        struct use    u   = RUN(OP_EMBEDDING_ROWS, AT(.count = 3), dy, ids);
        expect(&u.out[0], N(3, 4, 6, 8, 0, 0));
        expect(&u.out[1], N(1, 4, -1));
    }
    struct tensor rows  = tensor_new(perm, DT_F64, shape_2(4, 1), N(1, 2, 0, 0));
    struct tensor at    = tensor_new(perm, DT_I32, shape_1(4), N(3, 7, -1, -1));
    struct tensor more  = tensor_new(perm, DT_F64, shape_2(3, 1), N(10, 20, 0));
    struct tensor names = tensor_new(perm, DT_I32, shape_1(3), N(5, 7, -1));
    RUN(OP_ROWS_JOIN, NONE, rows, at, more, names);
    expect(&rows, N(1, 10, 22, 0));
    expect(&at, N(3, 5, 7, -1));

    struct tensor p = tensor_new(perm, DT_F64, shape_2(3, 2), N(1, 1, 1, 1, 1, 1));
    struct tensor g = tensor_new(perm, DT_F64, shape_2(2, 2), N(3, 5, 0, 0)),
                  i = tensor_new(perm, DT_I32, shape_1(2), N(2, -1));
    struct tensor h = tensor_new(perm, DT_F32, shape_1(4), N(0.5, 0.5, 0.75, 1)),
                  f = tensor_new(perm, DT_F64, shape_1(1), N(1));
    struct tensor s = tensor_new(perm, DT_F64, shape_1(3), N(0, 0, 8));
    RUN(OP_ROWS_SGD, NONE, p, g, i, h, f);
    expect(&p, N(1, 1, 1, 1, -0.5, -1.5));
    RUN(OP_ROWS_ADAGRAD, AT(.eps = 0), p, g, i, s, h, f); /* 8 + (9 + 25) / 2 = 25 */
    expect(&s, N(0, 0, 25));
    expect(&p, N(1, 1, 1, 1, -0.5 - 0.3, -1.5 - 0.5));
    struct tensor m = tensor_new(perm, DT_F64, shape_2(3, 2), N(9, 9, 9, 9, 0, 0)),
                  v = tensor_new(perm, DT_F64, shape_2(3, 2), N(9, 9, 9, 9, 0, 0));
    p               = tensor_new(perm, DT_F64, shape_2(3, 2), N(1, 1, 1, 1, 1, 1));
    RUN(OP_ROWS_ADAM, AT(.eps = 0), p, g, i, m, v, h,
        f); /* a first step is as long as the rate; others wait */
    expect(&m, N(9, 9, 9, 9, 1.5, 2.5));
    expect(&v, N(9, 9, 9, 9, 2.25, 6.25));
    expect(&p, N(1, 1, 1, 1, 0.5, 0.5));
}

/* A step of a hundredth of a unit in the last place, which rounding to the nearest would lose each time: each number of
 * the row moves by a whole unit with that chance. Bounds are five standard deviations. */
TEST(a_low_table_moves_by_its_steps_on_average)
{
    enum { WIDTH = 1000, ROWS = 40 };
    f64 hundredth = 0.01 * 0x1p-7, down = 0, sum = 0; /* below 2 a unit is 2^-7 in [1, 2) */
    for (i32 step = 0; step < ROWS; step++) {
        struct tensor p = tensor_new(perm, DT_BF16, shape_2(3, WIDTH), NULL),
                      g = tensor_new(perm, DT_F32, shape_2(1, WIDTH), NULL),
                      i = tensor_new(perm, DT_I32, shape_1(1), N(1)),
                      h = tensor_new(perm, DT_F32, shape_1(4), N(1, 0, 0, 1)),
                      f = tensor_new(perm, DT_F32, shape_1(1), N(1)),
                      r = tensor_new(perm, DT_I32, shape_1(4), N(7, 0, step, 0));
        for (i64 k = 0; k < 3 * WIDTH; k++) element_set(p.data, DT_BF16, k, 1.5);
        for (i64 k = 0; k < WIDTH; k++) element_set(g.data, DT_F32, k, hundredth);
        RUN(OP_ROWS_SGD, AT(.key = 99), p, g, i, h, f, r);
        for (i64 k = 0; k < 3 * WIDTH; k++) {
            f64 x = element_get(p.data, DT_BF16, k);
            CHECK(x == 1.5 || (k / WIDTH == 1 && x == 1.5 - 0x1p-7));
            down += x != 1.5;
            sum += k / WIDTH == 1 ? 1.5 - x : 0;
        }
    }
    f64 count = WIDTH * ROWS, spread = sqrt(count * 0.01 * 0.99);
    CHECK(fabs(down - 0.01 * count) < 5 * spread);
    CHECK(fabs(sum - hundredth * count) < 5 * spread * 0x1p-7);
}
