/* test_conv.c - every kernel of the three convolutions against the naive one, in shapes with all
 * the edges: kernels larger than the stride and smaller, padding wider than the image's border,
 * channels that fill no vector, images of one pixel. The same bits with any number of threads;
 * nothing written outside the result and the workspace. */
#include "backend/cpu/kernel.h"
#include "base/rng.h"
#include "harness.h"
#include "support/op_case.h"

struct shape_case {
    i64 count, h, w, in, out, kernel_h, kernel_w, stride, pad;
};

static const struct shape_case cases[] = {
    { 2, 32, 32, 3, 16, 3, 3, 1, 1 },  { 3, 32, 32, 16, 16, 3, 3, 1, 1 },
    { 2, 32, 32, 16, 32, 3, 3, 2, 1 }, { 2, 32, 32, 16, 32, 1, 1, 2, 0 },
    { 3, 16, 16, 32, 32, 3, 3, 1, 1 }, { 5, 8, 8, 64, 64, 3, 3, 1, 1 },
    { 1, 28, 28, 1, 6, 5, 5, 1, 2 },   { 2, 14, 14, 6, 16, 5, 5, 1, 0 },
    { 1, 30, 30, 3, 8, 7, 7, 2, 3 },   { 1, 1, 1, 16, 16, 3, 3, 1, 1 },
    { 2, 7, 5, 16, 48, 3, 3, 1, 1 },   { 1, 9, 9, 16, 16, 3, 3, 1, 0 },
    { 1, 6, 6, 16, 32, 3, 3, 1, 2 },   { 1, 3, 9, 130, 80, 3, 3, 1, 1 },
    { 1, 9, 9, 4, 5, 2, 3, 3, 4 },     { 1, 8, 8, 5, 3, 1, 1, 3, 2 },
    { 1, 64, 64, 40, 7, 7, 7, 1, 3 },  { 3, 4, 4, 16, 160, 3, 3, 1, 1 },
};

enum { GUARD_BYTES = 256, GUARD = 0xA5, RANDOM_CASES = 100 };

static void *guarded(struct arena *perm, i64 bytes)
{
    u8 *p = arena_take(perm, bytes + GUARD_BYTES, 1, 64);
    memset(p + bytes, GUARD, GUARD_BYTES);
    return p;
}

static void check_guard(const void *data, i64 bytes)
{
    for (i64 i = 0; i < GUARD_BYTES; i++) CHECK_EQ(((const u8 *)data)[bytes + i], GUARD);
}

static struct tensor tensor_new(struct arena *perm, enum dtype d, struct shape shape, u64 seed,
                                u64 name)
{
    struct tensor t = { NULL, type_of(d, shape), shape_count(shape) };
    f32          *x = NEW(perm, f32, t.count);
    rng_fill_uniform((struct rng_key){ .seed = seed, .name = name }, 0, t.count, x);
    t.data = guarded(perm, type_bytes(t.type));
    for (i64 i = 0; i < t.count; i++) element_set(t.data, d, i, (f64)(2 * x[i] - 1));
    return t;
}

/* One kernel into its result, from memory that holds no numbers. */
static void run_kernel(const struct kernel *k, struct call c, struct pool *pool,
                       struct arena scratch)
{
    i64 bytes    = type_bytes(c.out->type);
    c.pool       = pool;
    c.work_bytes = k->work ? k->work(&c) : 0;
    c.work       = guarded(&scratch, c.work_bytes);
    memset(c.out->data, 0xff, (size_t)bytes);
    memset(c.work, 0xff, (size_t)c.work_bytes);
    k->run(&c);
    check_guard(c.work, c.work_bytes);
    check_guard(c.out->data, bytes);
}

/* `terms` products of numbers in [-1, 1] are added in each result. Their sum is about
 * sqrt(terms)/3, a rounding costs 2^-24 of what has been summed so far, and errors of random sign
 * add up to about 2^-24 * terms/4; Winograd's sums of four terms are up to four times as large. We
 * allow ten times that, and where the result is bf16 its rounding on both sides. A wrong index would
 * cost about 0.3. */
static void check_near(const struct tensor *got, const struct tensor *want, f64 terms)
{
    enum dtype d       = got->type.dtype;
    f64        spacing = d == DT_BF16 ? 0x1p-7 : 0;
    for (i64 e = 0; e < got->count; e++) {
        f64 truth = element_get(want->data, d, e);
        CHECK_NEAR(element_get(got->data, d, e), truth,
                   1e-6 + 0x1p-24 * 10 * terms + spacing * fabs(truth));
    }
}

static void check_op(struct call c, f64 terms, struct pool **pools, struct arena scratch)
{
    struct tensor        right = tensor_new(&scratch, c.out->type.dtype, c.out->type.shape, 0, 0);
    i64                  bytes = type_bytes(c.out->type);
    const struct kernel *k;
    struct call          truth = c;
    truth.out                  = &right;
    ref_run(&truth);
    i32 found = 0;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        c.pool = pools[0];
        if (k->op != c.op || k->isa > kernel_isa() || (k->takes && !k->takes(&c))) continue;
        struct arena here  = scratch;
        u8          *first = NEW(&here, u8, bytes);
        run_kernel(k, c, pools[0], here);
        check_near(c.out, &right, terms);
        memcpy(first, c.out->data, (size_t)bytes);
        for (i32 p = 1; p < 3; p++) {
            run_kernel(k, c, pools[p], here);
            CHECK(!memcmp(first, c.out->data, (size_t)bytes));
        }
        found++;
    }
    CHECK(found > 0); /* no f32 or bf16 convolution is left to the naive kernel */
}

/* Operands of type d; the gradient by the weights is f32, and so is the bias. */
static void check_case(struct shape_case s, enum dtype d, u64 seed, struct pool **pools,
                       struct arena scratch)
{
    i64           oh   = (s.h + 2 * s.pad - s.kernel_h) / s.stride + 1;
    i64           ow   = (s.w + 2 * s.pad - s.kernel_w) / s.stride + 1;
    struct shape  ws   = shape_4(s.out, s.kernel_h, s.kernel_w, s.in);
    struct tensor x    = tensor_new(&scratch, d, shape_4(s.count, s.h, s.w, s.in), seed, 1);
    struct tensor w    = tensor_new(&scratch, d, ws, seed, 2);
    struct tensor y    = tensor_new(&scratch, d, shape_4(s.count, oh, ow, s.out), seed, 3);
    struct tensor b    = tensor_new(&scratch, DT_F32, shape_1(s.out), seed, 4);
    i64           taps = s.kernel_h * s.kernel_w;

    const i32           ops[4] = { OP_CONV2D, OP_CONV2D, OP_CONV2D_GRAD_X, OP_CONV2D_GRAD_W };
    const struct tensor operands[4][3] = { { x, w, b }, { x, w }, { y, w }, { y, x } };
    const struct tensor out[4]         = { tensor_new(&scratch, d, y.type.shape, 0, 0),
                                           tensor_new(&scratch, d, y.type.shape, 0, 0),
                                           tensor_new(&scratch, d, x.type.shape, 0, 0),
                                           tensor_new(&scratch, DT_F32, ws, 0, 0) };
    const i64 terms[4] = { taps * s.in + 1, taps * s.in, taps * s.out, s.count * oh * ow };
    for (i32 i = 0; i < 4; i++) {
        struct attrs at = { .stride = s.stride, .pad = s.pad, .dims = out[i].type.shape };
        struct call  c  = {
              .op = ops[i], .at = &at, .in = operands[i], .in_count = i == 0 ? 3 : 2, .out = &out[i]
        };
        check_op(c, (f64)terms[i], pools, scratch);
    }
}

/* Opened once and never closed: a failed check leaves its test without a chance to close them, and
 * takes the test's memory with it. */
static struct pool **open_pools(void)
{
    static struct arena arena;
    static struct pool *pools[3];
    if (pools[0]) return pools;
    arena = arena_open((i64)1 << 20);
    for (i32 i = 0; i < 3; i++) pools[i] = pool_open(&arena, i + 1);
    return pools;
}

TEST(convolutions_with_every_edge)
{
    u64 seed = test_seed();
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        const struct shape_case *s = &cases[i];
        check_case(*s, DT_F32, seed, open_pools(), scratch);
        if (s->h * s->w * s->in * s->out <= 65536) /* the naive kernel is slow */
            check_case(*s, DT_BF16, seed, open_pools(), scratch);
    }
}

/* In [low, high], small ones more often. */
static i64 draw(u64 seed, u64 *turn, i64 low, i64 high)
{
    f64 u = rng_uniform((struct rng_key){ .seed = seed, .name = 99 }, (*turn)++);
    return low + (i64)(u * u * (f64)(high - low + 1));
}

TEST(convolutions_of_random_shapes)
{
    static const i64 channels[] = { 1, 2, 3, 5, 8, 10, 16, 17, 24, 32, 48, 64 };
    u64              seed = test_seed(), turn = 0;
    for (i32 i = 0; i < RANDOM_CASES; i++) {
        struct shape_case s = { .count  = draw(seed, &turn, 1, 3),
                                .stride = draw(seed, &turn, 1, 3),
                                .pad    = draw(seed, &turn, 0, 3),
                                .h      = draw(seed, &turn, 1, 14),
                                .w      = draw(seed, &turn, 1, 20) };
        s.in                = channels[draw(seed, &turn, 0, COUNT_OF(channels) - 1)];
        s.out               = channels[draw(seed, &turn, 0, COUNT_OF(channels) - 1)];
        s.kernel_h = s.kernel_w = 3; /* half of them: the kernels that know only this */
        if (i % 2) {
            s.kernel_h = draw(seed, &turn, 1, MIN(6, s.h + 2 * s.pad));
            s.kernel_w = draw(seed, &turn, 1, MIN(6, s.w + 2 * s.pad));
        }
        if (s.h + 2 * s.pad < s.kernel_h || s.w + 2 * s.pad < s.kernel_w) continue;
        check_case(s, i % 4 < 2 ? DT_F32 : DT_BF16, seed + (u64)i, open_pools(), scratch);
    }
}
