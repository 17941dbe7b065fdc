/* test_storage.c - bf16 and f16 in the vectors of every instruction set: each conversion gives the
 * very bits of base/half.h, whether numbers below 2^-126 are flushed (flush.h) or not; but
 * AVX512-BF16 takes such f32 for zero. */
#include "backend/cpu/flush.h"
#include "backend/cpu/kernel.h"
#include "base/half.h"
#include "base/rng.h"
#include "harness.h"

enum { ALL = 1 << 16, NEAR = 5, WIDE_COUNT = NEAR * ALL + 3 }; /* 3: not a whole vector */

struct pair { /* a low type and its conversions */
    enum dtype dtype;
    f32 (*wide)(u16);
    u16 (*low)(f32);
};

static const struct pair pairs[] = { { DT_BF16, bf16_to_f32, bf16_from_f32 },
                                     { DT_F16, f16_to_f32, f16_from_f32 } };

/* False if the kernel is for other casts. */
static bool cast(const struct kernel *k, struct tensor from, struct tensor to, struct pool *pool)
{
    struct attrs at   = { .dtype = to.type.dtype };
    struct call  call = { OP_CAST, &at, &from, 1, &to, NULL, 0, pool, NULL };
    if (k->op != OP_CAST || k->isa > kernel_isa() || !k->takes(&call)) return false;
    k->run(&call);
    return true;
}

static struct tensor tensor_new(struct arena *perm, enum dtype t, i64 count)
{
    return (struct tensor){ arena_take(perm, count, dtype_bytes(t), 64), type_of(t, shape_1(count)),
                            count };
}

static bool takes_for_zero(const struct kernel *k, f32 x)
{
    return k->isa == ISA_AVX512BF16 && !(f32_bits(x) & 0x7F800000);
}

/* Every low number, the middle between it and the next, the f32 on both sides of that, and an f32
 * of any bits. */
static void fill_wide(f32 *x, const struct pair *p, u64 seed)
{
    rng_fill_uniform((struct rng_key){ .seed = seed }, 0, WIDE_COUNT, x);
    for (u32 i = 0; i < ALL; i++) {
        f32 here = p->wide((u16)i), next = p->wide((u16)(i + 1));
        u32 middle     = f32_bits((f32)(((f64)here + (f64)next) / 2));
        seed           = seed * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        f32 near[NEAR] = { here, f32_of_bits(middle), f32_of_bits(middle - 1),
                           f32_of_bits(middle + 1), f32_of_bits((u32)(seed >> 32)) };
        memcpy(x + NEAR * i, near, sizeof near);
    }
}

static bool check_widening(const struct kernel *k, const struct pair *p, struct pool *pool,
                           struct arena scratch)
{
    struct tensor from = tensor_new(&scratch, p->dtype, ALL - 1), to;
    u16          *h    = from.data;
    to                 = tensor_new(&scratch, DT_F32, ALL - 1);
    f32 *y             = to.data;
    for (i32 first = 0; first < 2; first++) { /* ALL - 1: the last vector is not whole */
        for (i64 i = 0; i < ALL - 1; i++) h[i] = (u16)(i + first);
        if (!cast(k, from, to, pool)) return false;
        for (i64 i = 0; i < ALL - 1; i++)
            if (f32_bits(y[i]) != f32_bits(p->wide(h[i])))
                harness_fail(__FILE__, __LINE__, "%s: %04x becomes %08x, by half.h %08x", k->name,
                             h[i], f32_bits(y[i]), f32_bits(p->wide(h[i])));
    }
    return true;
}

static bool check_rounding(const struct kernel *k, const struct pair *p, struct tensor from,
                           struct pool *pool, struct arena scratch)
{
    struct tensor to = tensor_new(&scratch, p->dtype, WIDE_COUNT);
    const f32    *x  = from.data;
    const u16    *h  = to.data;
    if (!cast(k, from, to, pool)) return false;
    for (i64 i = 0; i < WIDE_COUNT; i++) {
        u16 want = takes_for_zero(k, x[i]) ? (u16)(f32_bits(x[i]) >> 16 & 0x8000) : p->low(x[i]);
        if (h[i] != want)
            harness_fail(__FILE__, __LINE__, "%s: %08x becomes %04x, not %04x", k->name,
                         f32_bits(x[i]), h[i], want);
    }
    return true;
}

TEST(conversions_give_the_bits_of_the_plain_ones_in_either_mode)
{
    u64                  seed = test_seed();
    struct pool         *pool = pool_open(perm, 1);
    struct tensor        wide = tensor_new(perm, DT_F32, WIDE_COUNT);
    const struct kernel *k;
    for (i32 j = 0; j < COUNT_OF(pairs); j++) {
        i32 checked = 0;
        fill_wide(wide.data, &pairs[j], seed);
        for (i32 i = 0; (k = kernel_at(i)); i++) {
            checked += check_widening(k, &pairs[j], pool, scratch);
            checked += check_rounding(k, &pairs[j], wide, pool, scratch);
            u64 before = flush_begin();
            check_widening(k, &pairs[j], pool, scratch);
            check_rounding(k, &pairs[j], wide, pool, scratch);
            flush_end(before);
        }
        CHECK(checked >= 2 * (1 + MIN((i32)kernel_isa(), (i32)ISA_AVX512)));
    }
    pool_close(pool);
}

TEST(rounding_at_random_gives_the_bits_of_the_reference)
{
    u64           seed = test_seed();
    struct pool  *pool = pool_open(perm, 1);
    struct tensor in[] = { tensor_new(perm, DT_F32, WIDE_COUNT), tensor_new(perm, DT_I32, 4) };
    const struct kernel *k;
    i32                  checked = 0;
    for (i32 j = 0; j < COUNT_OF(pairs); j++) {
        struct attrs  at   = { .dtype = pairs[j].dtype, .stochastic = 1, .key = (i64)seed };
        struct tensor want = tensor_new(perm, at.dtype, WIDE_COUNT), got = want;
        struct call   call = { OP_CAST, &at, in, 2, &want, NULL, 0, pool, NULL };
        fill_wide(in[0].data, &pairs[j], seed);
        ref_run(&call);
        got.data = tensor_new(perm, at.dtype, WIDE_COUNT).data;
        call.out = &got;
        for (i32 i = 0; (k = kernel_at(i)); i++) {
            if (k->op != OP_CAST || k->isa > kernel_isa() || !k->takes(&call)) continue;
            k->run(&call);
            for (i64 e = 0; e < WIDE_COUNT; e++)
                if (!takes_for_zero(k, ((f32 *)in[0].data)[e]))
                    CHECK_EQ(((u16 *)got.data)[e], ((u16 *)want.data)[e]);
            checked++;
        }
    }
    CHECK(checked >= 2 * (1 + MIN((i32)kernel_isa(), (i32)ISA_AVX512)));
    pool_close(pool);
}
