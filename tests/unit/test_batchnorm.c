/* test_batchnorm.c - batch norm where summing carelessly shows: channels whose mean is a thousand
 * times their spread. What any shape must keep is in test_kernels.c. */
#include "backend/cpu/kernel.h"
#include "base/rng.h"
#include "harness.h"

enum { ROWS = 4096, CHANNELS = 24 };

static struct tensor tensor_new(struct arena *perm, struct shape s, f32 value)
{
    struct tensor t = { NULL, type_of(DT_F32, s), shape_count(s) };
    f32          *x = arena_take(perm, t.count, sizeof *x, 64);
    for (i64 i = 0; i < t.count; i++) x[i] = value;
    t.data = x;
    return t;
}

/* The variance of numbers drawn from [1000, 1001), stored as f32, that is in steps of 2^-14: 1/12,
 * known from the numbers themselves to f64's accuracy. Sums of squares in f32 would be off by
 * 2^-24 * 1000^2 = 0.06 or more; around a nearby mean they are off by some 2^-24 of themselves. */
TEST(the_variance_survives_a_large_mean)
{
    u64           seed        = test_seed();
    struct shape  per_channel = shape_1(CHANNELS);
    struct tensor x           = tensor_new(perm, shape_2(ROWS, CHANNELS), 0);
    f32          *data        = x.data;
    rng_fill_uniform((struct rng_key){ .seed = seed }, 0, x.count, data);
    for (i64 i = 0; i < x.count; i++) data[i] += 1000;

    struct pool  *pool  = pool_open(perm, 1);
    struct attrs  at    = { .eps = 0, .momentum = 1 };
    struct tensor in[]  = { x, tensor_new(perm, per_channel, 1), tensor_new(perm, per_channel, 0),
                            tensor_new(perm, per_channel, 0), tensor_new(perm, per_channel, 0) };
    struct tensor out[] = { tensor_new(perm, x.type.shape, 0), tensor_new(perm, per_channel, 0),
                            tensor_new(perm, per_channel, 0) };
    const struct kernel *k;
    for (i32 n = 0; (k = kernel_at(n)); n++) {
        struct call c = { OP_BATCHNORM, &at, in, 5, out, NULL, 0, pool, NULL };
        if (k->op != c.op || k->isa > kernel_isa() || !k->takes(&c)) continue;
        c.work_bytes = k->work(&c);
        c.work       = arena_take(perm, c.work_bytes, 1, 64);
        k->run(&c);
        for (i64 i = 0; i < CHANNELS; i++) {
            f64 mean = 0, square = 0;
            for (i64 row = 0; row < ROWS; row++) mean += (f64)data[row * CHANNELS + i] / ROWS;
            for (i64 row = 0; row < ROWS; row++) {
                f64 d = (f64)data[row * CHANNELS + i] - mean;
                square += d * d;
            }
            CHECK_NEAR(((f32 *)in[3].data)[i], mean, 1000 * 0x1p-24 + 1e-9);
            CHECK_NEAR(((f32 *)in[4].data)[i], square / (ROWS - 1), 1e-5 * square / ROWS);
            CHECK_NEAR(((f32 *)out[2].data)[i], 1 / sqrt(square / ROWS), 1e-4);
        }
    }
    pool_close(pool);
}
