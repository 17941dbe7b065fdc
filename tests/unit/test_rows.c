/* test_rows.c - rows of a table: gradients and optimisers, against numbers worked out by hand. */
#include "backend/cpu/ref/ref_int.h"
#include "base/rng.h"
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

/* --- fast kernels of tables of bf16 --- */

enum { STEP_INPUTS = 8 };

struct row_step {
    i32           op, in_count;
    struct attrs  at;
    struct tensor in[STEP_INPUTS];
};

/* A random step of a table [rows, width] of type t; the same numbers for either type, all of which bf16 holds. */
static struct row_step step_new(struct arena *perm, i32 op, enum dtype t, i64 rows, i64 width,
                                u64 seed)
{
    struct draw     d      = { .state = seed };
    i32             states = op - OP_ROWS_SGD;
    i64             used   = rows / 2;
    struct row_step s      = { .op = op, .at = { .eps = states ? 1e-8 : 0, .key = 4711 } };
    struct shape    all = shape_2(rows, width), by_row = shape_1(rows);
    struct shape    state = op == OP_ROWS_ADAGRAD ? by_row : all;
    s.in[s.in_count++]    = tensor_new(perm, t, all, NULL);
    s.in[s.in_count++]    = tensor_new(perm, DT_F32, shape_2(used + 1, width), NULL);
    s.in[s.in_count++]    = tensor_new(perm, DT_I32, shape_1(used + 1), NULL);
    for (i32 i = 0; i < states; i++) s.in[s.in_count++] = tensor_new(perm, DT_F32, state, NULL);
    s.in[s.in_count++] = tensor_new(perm, DT_F32, shape_1(4), N(0.01, 0.9, 0.999, 7));
    s.in[s.in_count++] = tensor_new(perm, DT_F32, shape_1(1), N(0.7));
    for (i64 i = 0; i < rows * width; i++)
        element_set(s.in[0].data, t, i, (f64)bf16_to_f32(bf16_from_f64(draw_normal(&d))));
    for (i64 i = 0; i <= used; i++) {
        element_set(s.in[2].data, DT_I32, i, i < used ? (f64)(2 * i + draw_to(&d, 2)) : -1);
        for (i64 k = 0; k < width; k++)
            element_set(s.in[1].data, DT_F32, i * width + k, i < used ? draw_normal(&d) : 0);
    }
    for (i32 i = 0; i < states; i++)
        for (i64 k = 0; k < s.in[3 + i].count; k++)
            element_set(s.in[3 + i].data, DT_F32, k, 0.01 + draw_unit(&d));
    if (t == DT_BF16) s.in[s.in_count++] = tensor_new(perm, DT_I32, shape_1(4), N(5, 6, 7, 0));
    return s;
}

static const char *run_fast(struct row_step *s, struct pool *pool)
{
    struct call          call = { s->op, &s->at, s->in, s->in_count, NULL, NULL, 0, pool, NULL };
    const struct kernel *k    = kernel_choose(&call, false);
    kernel_run(k, &call);
    return k->name;
}

/* A step of a table of bf16 is the step of the same table in f32, and then one rounding of each number that was
 * touched, by the word of its place: bit-exact, also where rows are no multiple of the four words of a block. */
TEST(a_step_of_a_low_table_is_that_of_f32_rounded_by_the_word_of_each_place)
{
    static const i64 widths[] = { 1, 3, 8, 37, 64, 130 };
    u64              seed     = test_seed();
    struct rng_key   key      = { .seed = (u64)6 << 32 | 5, .name = 4711, .step = 7 };
    for (i32 w = 0; w < COUNT_OF(widths); w++) {
        for (i32 op = OP_ROWS_SGD; op <= OP_ROWS_ADAM; op++) {
            i64             rows = 90, width = widths[w];
            struct pool    *pool = pool_open(perm, 1 + w % 3);
            struct row_step wide = step_new(perm, op, DT_F32, rows, width, seed),
                            low  = step_new(perm, op, DT_BF16, rows, width, seed),
                            was  = step_new(perm, op, DT_BF16, rows, width, seed);
            CHECK(strcmp(run_fast(&wide, pool), "ref") && strcmp(run_fast(&low, pool), "ref"));
            pool_close(pool);
            for (i64 i = 0; i < rows * width; i++) {
                f64 x    = element_get(wide.in[0].data, DT_F32, i);
                f64 old  = element_get(was.in[0].data, DT_BF16, i);
                f64 want = x == old ? old : ref_round_at_random(x, DT_BF16, rng_u32(key, (u64)i));
                CHECK_EQ(element_get(low.in[0].data, DT_BF16, i), want);
            }
            for (i32 i = 3; i < 3 + op - OP_ROWS_SGD; i++) /* state is f32, and no wiser */
                CHECK(!memcmp(wide.in[i].data, low.in[i].data, (size_t)wide.in[i].count * 4));
        }
    }
}

/* 400 steps of Adagrad whose sums are so large that each is a tenth of a unit in the last place: rounded to the nearest
 * the table would never move. Each number makes a walk whose mean is the f32 table's; a step's rounding has a variance
 * of p (1 - p) units^2, p = 0.1, so a mean over 1,000 numbers after 400 steps has a deviation of
 * sqrt(400 x 0.09 / 1000) = 0.19 units. Bound: five of them. */
TEST(many_small_steps_of_a_low_table_add_up)
{
    enum { WIDTH = 1000, STEPS = 400 };
    f64           unit = 0x1p-7, big = 1e6; /* of numbers in [1, 2) */
    struct tensor p   = tensor_new(perm, DT_BF16, shape_2(1, WIDTH), NULL),
                  g   = tensor_new(perm, DT_F32, shape_2(1, WIDTH), NULL),
                  i   = tensor_new(perm, DT_I32, shape_1(1), N(0)),
                  sum = tensor_new(perm, DT_F32, shape_1(1), N(big)),
                  h   = tensor_new(perm, DT_F32, shape_1(4), N(0.1 * unit * 1e3, 0, 0, 1)),
                  f   = tensor_new(perm, DT_F32, shape_1(1), N(1));
    struct pool *pool = pool_open(perm, 1);
    for (i64 k = 0; k < WIDTH; k++) element_set(p.data, DT_BF16, k, 1.75);
    for (i64 k = 0; k < WIDTH; k++) element_set(g.data, DT_F32, k, 1);
    for (i32 step = 0; step < STEPS; step++) {
        struct tensor   r = tensor_new(perm, DT_I32, shape_1(4), N(7, 0, step, 0));
        struct row_step s = { OP_ROWS_ADAGRAD, 7, { .key = 3 }, { p, g, i, sum, h, f, r } };
        run_fast(&s, pool);
    }
    pool_close(pool);
    f64 mean = 0;
    for (i64 k = 0; k < WIDTH; k++) mean += (1.75 - element_get(p.data, DT_BF16, k)) / WIDTH;
    /* the sum has grown by 1 a step, from a million: 2e-4 of a step less at the end */
    CHECK_NEAR(mean / unit, 0.1 * STEPS, 5 * sqrt(STEPS * 0.1 * 0.9 / WIDTH) + 2e-4 * 0.1 * STEPS);
}
