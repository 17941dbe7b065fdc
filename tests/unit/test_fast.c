/* test_fast.c - the fast kernels on shapes larger than test_kernels draws: where K, keys or rows
 * come in several chunks. Each kernel that takes the case is near the reference and gives the same
 * bits with 1, 2 and 3 threads. */
#include "backend/cpu/kernel.h"
#include "base/rng.h"
#include "harness.h"
#include "support/near.h"
#include "support/op_case.h"

enum { POOLS = 3 };

struct test_case {
    i32           op;
    struct attrs  at;
    struct tensor in[5], out[OP_OUT_MAX], truth[OP_OUT_MAX];
    i32           in_count;
    f64           allowed; /* of each result, absolute; and relative: the rounding of its type */
    const f64    *more;    /* or NULL: and so much more of each element of result 0 */
};

static struct tensor tensor_new(struct arena *perm, struct type type)
{
    struct tensor t = { NULL, type, shape_count(type.shape) };
    t.data          = arena_take(perm, t.count, dtype_bytes(type.dtype), 64);
    return t;
}

/* Uniform in [-scale, scale). */
static void add_input(struct test_case *c, struct arena *perm, struct type type, f32 scale,
                      u64 seed)
{
    struct tensor t = tensor_new(perm, type);
    f32          *x = NEW(perm, f32, t.count);
    rng_fill_uniform((struct rng_key){ .seed = seed, .name = (u64)c->in_count }, 0, t.count, x);
    for (i64 i = 0; i < t.count; i++)
        element_set(t.data, type.dtype, i, (f64)((2 * x[i] - 1) * scale));
    c->in[c->in_count++] = t;
}

static void add_results(struct test_case *c, struct arena *perm)
{
    struct type in[5], out[OP_OUT_MAX];
    struct err  err = { 0 };
    struct sig  sig = { in, c->in_count, out, &c->at, c->op };
    for (i32 i = 0; i < c->in_count; i++) in[i] = c->in[i].type;
    CHECK_EQ(op_info(c->op)->shape(&sig, &err), STATUS_OK);
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) {
        c->out[i]   = tensor_new(perm, out[i]);
        c->truth[i] = tensor_new(perm, out[i]);
    }
}

/* The distance of neighbours, relative: a result and the reference are rounded on their own. */
static f64 spacing(enum dtype d) { return d == DT_BF16 ? 0x1p-7 : d == DT_F16 ? 0x1p-10 : 0; }

static void check_results(const struct test_case *c, const struct kernel *k)
{
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) {
        enum dtype d = c->out[i].type.dtype;
        for (i64 e = 0; e < c->out[i].count; e++) {
            f64 got = element_get(c->out[i].data, d, e), want = element_get(c->truth[i].data, d, e);
            f64 more = c->more && !i ? c->more[e] : 0;
            if (fabs(got - want) <= c->allowed + more + spacing(d) * fabs(want)) continue;
            harness_fail(__FILE__, __LINE__, "%s: result %d, element %lld: %g, reference %g",
                         k->name, i, (long long)e, got, want);
        }
    }
}

static void check_case(struct test_case *c, struct pool **pools, struct arena scratch)
{
    struct call call = { c->op, &c->at, c->in, c->in_count, c->truth, NULL, 0, NULL, NULL };
    const struct kernel *k;
    i32                  tried = 0;
    ref_run(&call);
    call.out = c->out;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        if (k->op != c->op || k->isa > kernel_isa() || (k->takes && !k->takes(&call))) continue;
        struct arena here  = scratch;
        i64          bytes = type_bytes(c->out[0].type);
        u8          *first = NEW(&here, u8, bytes);
        for (i32 p = 0; p < POOLS; p++) {
            struct arena a  = here;
            call.pool       = pools[p];
            call.work_bytes = k->work ? k->work(&call) : 0;
            call.work       = arena_take(&a, call.work_bytes, 1, 64);
            memset(call.work, 0xff, (size_t)call.work_bytes);
            memset(c->out[0].data, 0xff, (size_t)bytes);
            k->run(&call);
            if (!p) memcpy(first, c->out[0].data, (size_t)bytes);
            CHECK(!memcmp(first, c->out[0].data, (size_t)bytes));
        }
        check_results(c, k);
        tried++;
    }
    CHECK(tried > 0);
}

static void open_pools(struct pool **pools, struct arena *perm)
{
    for (i32 i = 0; i < POOLS; i++) pools[i] = pool_open(perm, i + 1);
}

static void close_pools(struct pool **pools)
{
    for (i32 i = 0; i < POOLS; i++) pool_close(pools[i]);
}

/* Terms are products of numbers in [-1, 1): their sum's error is about 2^-24 sqrt(K) * sqrt(K)/3,
 * as errors of random sign grow with sqrt(K) and so does the sum. Ten times that. */
static void check_product(const i64 *s, i32 transposed, enum dtype in, enum dtype out, u64 seed,
                          struct pool **pools, struct arena scratch)
{
    struct test_case c = { .op = OP_MATMUL, .at = { .ta = transposed & 1, .tb = transposed >> 1 } };
    i64              M = s[0], N = s[1], K = s[2];
    add_input(&c, &scratch, type_of(in, c.at.ta ? shape_2(K, M) : shape_2(M, K)), 1, seed);
    add_input(&c, &scratch, type_of(in, c.at.tb ? shape_2(N, K) : shape_2(K, N)), 1, seed);
    add_input(&c, &scratch, type_of(seed & 1 ? in : out, shape_1(N)), 1, seed);
    c.allowed  = 10 * 0x1p-24 * (f64)K / 3;
    c.out[0]   = tensor_new(&scratch, type_of(out, shape_2(M, N)));
    c.truth[0] = tensor_new(&scratch, type_of(out, shape_2(M, N)));
    check_case(&c, pools, scratch);
}

TEST(products_with_every_way_of_packing)
{
    static const i64 shapes[][3] = { { 70, 60, 1000 },  { 33, 17, 1500 }, { 200, 150, 800 },
                                     { 130, 1024, 40 }, { 9, 300, 500 },  { 300, 3, 400 },
                                     { 150, 97, 1024 }, { 65, 1000, 300 } };
    struct pool     *pools[POOLS];
    u64              seed = test_seed();
    open_pools(pools, perm);
    for (i32 i = 0; i < 4 * COUNT_OF(shapes); i++)
        check_product(shapes[i / 4], i % 4, DT_F32, DT_F32, seed, pools, scratch);
    close_pools(pools);
}

/* The last two are longer than one slice of K, where the result is f32. */
TEST(products_of_low_types_into_low_and_wide_results)
{
    static const i64        shapes[][3] = { { 70, 60, 1000 }, { 33, 17, 150 },   { 64, 96, 256 },
                                            { 9, 300, 77 },   { 300, 3, 64 },    { 48, 40, 2048 },
                                            { 1, 1, 1 },      { 1000, 3, 2200 }, { 5, 1500, 1500 } };
    static const enum dtype types[][2]  = {
         { DT_BF16, DT_BF16 }, { DT_BF16, DT_F32 }, { DT_F16, DT_F16 }, { DT_F16, DT_F32 }
    };
    struct pool *pools[POOLS];
    u64          seed = test_seed();
    open_pools(pools, perm);
    for (i32 i = 0; i < 4 * COUNT_OF(shapes); i++)
        check_product(shapes[i / 4], (i32)((seed >> 8) + (u64)i) % 4, types[i % 4][0],
                      types[i % 4][1], seed, pools, scratch);
    close_pools(pools);
}

struct attention_case {
    i64 B, T, H, G, D, causal;
};

/* In units of u = 2^-24, the standard deviation of the error of a probability, relative, and of a score's gradient.
 * q, k and v are even in [-2, 2), with a mean square of 4/3; the gradient of o is even in [-1, 1). A rounding is off by
 * 0.736 / sqrt(3) u = 0.42 u of the number in the root mean square (test_muon.c). The partial sums of D products walk
 * at random, so a sum is off by 0.42 u sqrt(D^2 / 2) times the root mean square of a product:
 *   a score, scaled by 1 / sqrt(D)   0.42 * 0.71 * 4/3 sqrt(D) = 0.4 sqrt(D)
 *   dp, of which delta is a mean     0.42 * 0.71 * 2/3 D = 0.2 D, and as much for delta
 * The argument of exp is a difference of scores, of which the largest of 10^5 is 4.5 * 4/3 = 6, and exp itself is
 * within 4 u. So p is off by sqrt(0.16 D + 6^2 + 4^2), and ds = p (dp - delta), where dp is 2/3 sqrt(D), by p times
 * (that 2/3 sqrt(D) + 0.2 D sqrt(2)). */
static f64 p_error(f64 D) { return sqrt(0.16 * D + 6 * 6 + 4 * 4); }
static f64 ds_error(f64 D) { return p_error(D) * 2 / 3 * sqrt(D) + 0.2 * D * sqrt(2); }

/* Five standard deviations, beyond which one element of two million lies; few vary as much as these bounds of it say.
 *   o     errors of p times v - o, at most 2, and the sum of squares of p is at most 1
 *   lse   at most log(T) + 6, rounded, and p's errors: less
 *   dq    errors of ds times k, at most 2, over sqrt(D)
 *   dk    as dq; over H / G heads and all queries, where the squares of p add up to 4 at most (1, 1/4, 1/9 … are the
 *         first key's under a causal mask, as a rule, and scores of 2 take up to two keys' part)
 *   dv    errors of p times at most 1: less
 * A low type: p and ds may be rounded once more, half a spacing at most. Of o that is at most 2 * rounding, as its
 * probabilities add up to 1; of the gradient it is as much of the sizes of an element's terms. */
static void check_attention(struct attention_case s, enum dtype d, u64 seed, struct pool **pools,
                            struct arena scratch)
{
    f64              rounding = spacing(d) / 2, D = (f64)s.D, u = 0x1p-24;
    struct test_case c = { .op = OP_ATTENTION };
    c.allowed          = 5 * p_error(D) * 2 * u + 2 * rounding;
    c.at               = (struct attrs){ .heads = s.H, .kv_heads = s.G, .causal = s.causal };
    c.at.scale         = 1 / sqrt(D);
    add_input(&c, &scratch, type_of(d, shape_3(s.B, s.T, (s.H + 2 * s.G) * s.D)), 2, seed);
    add_results(&c, &scratch);
    check_case(&c, pools, scratch);

    struct test_case g = { .op = OP_ATTENTION_GRAD, .at = c.at };
    g.allowed          = 5 * ds_error(D) * 2 / sqrt(D) * 2 * sqrt((f64)s.H / (f64)s.G) * u;
    add_input(&g, &scratch, c.out[0].type, 1, seed + 1);
    g.in[g.in_count++] = c.in[0];
    g.in[g.in_count++] = c.truth[0];
    g.in[g.in_count++] = c.truth[1];
    add_results(&g, &scratch);
    if (rounding > 0) {
        f64 *terms = near_attention_terms(g.op, &g.at, g.in, g.in_count, &scratch);
        for (i64 i = 0; i < g.in[1].count; i++) terms[i] *= rounding;
        g.more = terms;
    }
    check_case(&g, pools, scratch);
}

TEST(attention_over_more_keys_than_one_chunk)
{
    static const struct attention_case cases[] = {
        { 1, 300, 2, 1, 16, 1 }, { 1, 300, 1, 1, 32, 0 }, { 2, 129, 2, 2, 48, 1 },
        { 1, 530, 1, 1, 16, 1 }, { 1, 250, 1, 1, 16, 0 },
    };
    struct pool *pools[POOLS];
    u64          seed = test_seed();
    open_pools(pools, perm);
    for (i32 i = 0; i < 2 * COUNT_OF(cases); i++)
        check_attention(cases[i / 2], i % 2 ? DT_BF16 : DT_F32, seed, pools, scratch);
    close_pools(pools);
}

/* Numbers that are none, the largest and the smallest: the very bits of the reference. */
TEST(rounding_at_random_keeps_what_is_not_finite)
{
    static const f32 numbers[] = { INFINITY, -INFINITY, NAN,      -NAN,     3.4e38f, -3.4e38f,
                                   0,        -0.0f,     1.5e-38f, 1 / 3.0f, 65504,   -1e-30f };
    struct tensor    in[]      = { tensor_new(perm, type_of(DT_F32, shape_1(COUNT_OF(numbers)))),
                                   tensor_new(perm, type_of(DT_I32, shape_1(4))) };
    struct tensor    a = tensor_new(perm, type_of(DT_BF16, in[0].type.shape)), b = a;
    struct attrs     at   = { .dtype = DT_BF16, .stochastic = 1, .key = 77 };
    struct call      call = { OP_CAST, &at, in, 2, &a, NULL, 0, pool_open(perm, 2), NULL };
    b.data                = tensor_new(perm, a.type).data;
    memcpy(in[0].data, numbers, sizeof numbers);
    const struct kernel *k;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        if (k->op != OP_CAST || k->isa > kernel_isa() || !k->takes(&call)) continue;
        for (i32 step = 0; step < 20; step++) {
            ((i32 *)in[1].data)[2] = step;
            call.out               = &a;
            ref_run(&call);
            call.out = &b;
            k->run(&call);
            CHECK(!memcmp(a.data, b.data, (size_t)type_bytes(a.type)));
        }
    }
    pool_close(call.pool);
}
