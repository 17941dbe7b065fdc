/* test_fast.c - the fast kernels on shapes larger than test_kernels draws: where K, keys or rows
 * come in several chunks. Each kernel that takes the case is near the reference and gives the same
 * bits with 1, 2 and 3 threads. */
#include "backend/cpu/kernel.h"
#include "base/rng.h"
#include "harness.h"

enum { POOLS = 3 };

struct test_case {
    i32           op;
    struct attrs  at;
    struct tensor in[5], out[OP_OUT_MAX], truth[OP_OUT_MAX];
    i32           in_count;
    f64           allowed; /* of each result, absolute */
};

static struct tensor tensor_new(struct arena *perm, struct shape s)
{
    struct tensor t = { NULL, type_of(DT_F32, s), shape_count(s) };
    t.data          = arena_take(perm, t.count, sizeof(f32), 64);
    return t;
}

/* Uniform in [-scale, scale). */
static void add_input(struct test_case *c, struct arena *perm, struct shape s, f32 scale, u64 seed)
{
    struct tensor t = tensor_new(perm, s);
    f32          *x = t.data;
    rng_fill_uniform((struct rng_key){ .seed = seed, .name = (u64)c->in_count }, 0, t.count, x);
    for (i64 i = 0; i < t.count; i++) x[i] = (2 * x[i] - 1) * scale;
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
        c->out[i]   = tensor_new(perm, out[i].shape);
        c->truth[i] = tensor_new(perm, out[i].shape);
    }
}

static void check_results(const struct test_case *c, const struct kernel *k)
{
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) {
        const f32 *got = c->out[i].data, *want = c->truth[i].data;
        for (i64 e = 0; e < c->out[i].count; e++) {
            if (fabs((f64)got[e] - (f64)want[e]) <= c->allowed) continue;
            harness_fail(__FILE__, __LINE__, "%s: result %d, element %lld: %g, reference %g",
                         k->name, i, (long long)e, (f64)got[e], (f64)want[e]);
        }
    }
}

static void check_case(struct test_case *c, struct pool **pools, struct arena scratch)
{
    struct call          call = { c->op, &c->at, c->in, c->in_count, c->truth, NULL, 0, NULL };
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
TEST(products_with_every_way_of_packing)
{
    static const i64 shapes[][3] = { { 70, 60, 1000 },  { 33, 17, 1500 }, { 200, 150, 800 },
                                     { 130, 1024, 40 }, { 9, 300, 500 },  { 300, 3, 400 },
                                     { 150, 97, 1024 }, { 65, 1000, 300 } };
    struct pool     *pools[POOLS];
    u64              seed = test_seed();
    open_pools(pools, perm);
    for (i32 i = 0; i < 4 * COUNT_OF(shapes); i++) {
        const i64       *s = shapes[i / 4];
        struct arena     a = scratch;
        struct test_case c = { .op = OP_MATMUL, .at = { .ta = i & 1, .tb = i >> 1 & 1 } };
        add_input(&c, &a, c.at.ta ? shape_2(s[2], s[0]) : shape_2(s[0], s[2]), 1, seed);
        add_input(&c, &a, c.at.tb ? shape_2(s[1], s[2]) : shape_2(s[2], s[1]), 1, seed);
        add_input(&c, &a, shape_1(s[1]), 1, seed);
        c.allowed = 10 * 0x1p-24 * (f64)s[2] / 3;
        add_results(&c, &a);
        check_case(&c, pools, a);
    }
    close_pools(pools);
}

struct attention_case {
    i64 B, T, H, G, D, causal;
};

/* o is a mean of v, in [-1, 1); lse is below log(T) + 1. Errors of p are a few 2^-24. The gradient
 * sums T of them over H/G heads. */
static void check_attention(struct attention_case s, u64 seed, struct pool **pools,
                            struct arena scratch)
{
    struct test_case c = { .op = OP_ATTENTION, .allowed = 2e-6 };
    c.at               = (struct attrs){ .heads = s.H, .kv_heads = s.G, .causal = s.causal };
    c.at.scale         = 1 / sqrt((f64)s.D);
    add_input(&c, &scratch, shape_3(s.B, s.T, (s.H + 2 * s.G) * s.D), 2, seed);
    add_results(&c, &scratch);
    check_case(&c, pools, scratch);

    struct test_case d = { .op = OP_ATTENTION_GRAD, .at = c.at, .allowed = 1e-5 };
    add_input(&d, &scratch, c.out[0].type.shape, 1, seed + 1);
    d.in[d.in_count++] = c.in[0];
    d.in[d.in_count++] = c.truth[0];
    d.in[d.in_count++] = c.truth[1];
    add_results(&d, &scratch);
    check_case(&d, pools, scratch);
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
    for (i32 i = 0; i < COUNT_OF(cases); i++) check_attention(cases[i], seed, pools, scratch);
    close_pools(pools);
}
