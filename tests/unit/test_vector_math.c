/* test_vector_math.c - exp, log, tanh, sigmoid and square root of every instruction set at floats of
 * every size and sign, against libm in f64. The bounds are those that simd_math.h states. */
#include "backend/cpu/kernel.h"
#include "harness.h"

enum { COUNT = 1 << 16, ROUNDS = 8 };

struct subject {
    i32 op;
    f64 (*truth)(f64);
    f64 ulp_max; /* in units of the last place of the true value */
    f64 least;   /* true values below it may come out as 0 */
};

static f64 sigmoid(f64 x) { return 1 / (1 + exp(-x)); }

static f64 gelu_erf(f64 x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }

static const struct subject subjects[] = {
    { OP_EXP, exp, 1.3, 0 },   { OP_LOG, log, 0.9, 0 },
    { OP_TANH, tanh, 1.4, 0 }, { OP_SIGMOID, sigmoid, 4.6, 0x1p-126 },
    { OP_SQRT, sqrt, 0.5, 0 }, { OP_GELU_ERF, gelu_erf, 9, 0x1p-126 },
};

/* 0 where both are the same infinity or no number. */
static f64 ulps(f64 want, f32 got)
{
    if (want != want || got != got) return (want != want) == (got != got) ? 0 : INFINITY;
    if (isinf((f32)want) || isinf(got)) return (f32)want == got ? 0 : INFINITY;
    f64 unit = fabs(want) < 0x1p-126 ? 0x1p-149 : ldexp(1, ilogb(want) - 23);
    return fabs(want - (f64)got) / unit;
}

/* All bit patterns are equally likely: all exponents, denormals, infinities and NaNs. */
static void fill_bits(f32 *x, u64 seed)
{
    static const f32 special[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, 1, -1 };
    for (i64 i = 0; i < COUNT; i++) {
        u32 bits = (u32)(seed >> 32);
        memcpy(&x[i], &bits, sizeof bits);
        seed = seed * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
    }
    memcpy(x, special, sizeof special);
}

static void check_kernel(const struct kernel *k, const struct subject *s, f32 *x, f32 *y,
                         struct pool *pool)
{
    struct tensor in = { x, type_of(DT_F32, shape_1(COUNT)), COUNT }, out = in;
    struct attrs  at   = { 0 };
    struct call   call = { s->op, &at, &in, 1, &out, NULL, 0, pool, NULL };
    out.data           = y;
    if (!k->takes(&call)) return; /* only for low types */
    k->run(&call);
    for (i64 i = 0; i < COUNT; i++) {
        f64 want = s->truth((f64)x[i]);
        if (fabs(want) < s->least && y[i] == 0) continue;
        if (ulps(want, y[i]) <= s->ulp_max) continue;
        harness_fail(__FILE__, __LINE__, "%s of %s: f(%.9g) = %.9g, true %.9g, %.2f ulp", k->name,
                     op_info(s->op)->name, (f64)x[i], (f64)y[i], want, ulps(want, y[i]));
    }
}

TEST(functions_keep_their_stated_errors)
{
    struct pool         *pool = pool_open(perm, 1);
    f32                 *x = NEW(perm, f32, COUNT), *y = NEW(perm, f32, COUNT);
    u64                  seed = test_seed();
    const struct kernel *k;
    for (i32 round = 0; round < ROUNDS; round++) {
        fill_bits(x, seed + (u64)round * 0x9E3779B97F4A7C15u);
        for (i32 i = 0; (k = kernel_at(i)); i++)
            for (i64 j = 0; j < COUNT_OF(subjects); j++)
                if (k->op == subjects[j].op && k->isa <= kernel_isa())
                    check_kernel(k, &subjects[j], x, y, pool);
    }
    pool_close(pool);
}
