/* test_nf4.c - 4-bit numbers against what bitsandbytes makes of the same (tests/oracle/record_nf4.py). */
#include "base/nf4.h"
#include "base/os.h"
#include "base/rng.h"
#include "harness.h"
#include "store/safetensors.h"
#include <math.h>

static const struct st_tensor *golden(struct arena *perm, const char *name)
{
    static struct st_file f;
    struct err            err;
    if (!f.count)
        CHECK_EQ(st_open(os_real(), STR("tests/golden/nf4.safetensors"), perm, &f, &err),
                 STATUS_OK);
    const struct st_tensor *t = st_find(&f, str_of(name));
    CHECK(t);
    return t;
}

TEST(codes_sizes_and_numbers_are_those_of_bitsandbytes)
{
    const struct st_tensor *a = golden(perm, "a"), *codes = golden(perm, "codes"),
                           *sizes = golden(perm, "absmax"), *scales = golden(perm, "scales"),
                           *offset = golden(perm, "offset"), *back = golden(perm, "back");
    i64  count = shape_count(a->shape), groups = count / NF4_GROUP;
    f32 *x = NEW(perm, f32, count), *s = NEW(perm, f32, groups), *b = NEW(perm, f32, count), mean;
    u8  *c = NEW(perm, u8, count / 2), *z = NEW(perm, u8, count / NF4_BLOCK);
    f32 *ours = NEW(perm, f32, groups * NF4_SCALES);
    CHECK(st_to_f32(a, x) && st_to_f32(scales, s) && st_to_f32(offset, &mean) &&
          st_to_f32(back, b));
    struct pool *pool = pool_open(perm, 2);
    nf4_pack(x, count, c, z, ours, pool, scratch);
    pool_close(pool);
    CHECK_EQ(groups, 2);
    CHECK(!memcmp(c, codes->bytes.data, (size_t)codes->bytes.len));
    CHECK(!memcmp(z, sizes->bytes.data, (size_t)sizes->bytes.len));
    for (i64 g = 0; g < groups; g++) {
        CHECK_EQ(ours[g * NF4_SCALES], s[g]);
        CHECK_EQ(ours[g * NF4_SCALES + 1], mean);
    }
    for (i64 i = 0; i < shape_count(back->shape); i++) {
        u8 code = i % 2 ? c[i / 2] & 15 : c[i / 2] >> 4;
        CHECK_EQ(nf4_numbers[code] * nf4_size(z[i / NF4_BLOCK], ours), b[i]);
    }
}

/* Half of the widest gap of the table, and what the second level adds: half of its widest gap, 0.9 / 64 / 2, of the
 * largest size. */
TEST(numbers_come_back_near)
{
    i64  count = 4 * NF4_GROUP;
    f32 *x = NEW(perm, f32, count), *scales = NEW(perm, f32, 4 * NF4_SCALES), most = 0;
    u8  *codes = NEW(perm, u8, count / 2), *sizes = NEW(perm, u8, count / NF4_BLOCK);
    rng_fill_normal((struct rng_key){ .seed = test_seed() }, 0, count, 1, x);
    struct pool *pool = pool_open(perm, 1);
    nf4_pack(x, count, codes, sizes, scales, pool, scratch);
    pool_close(pool);
    for (i64 i = 0; i < count; i++) most = MAX(most, fabsf(x[i]));
    for (i64 i = 0; i < count; i++) {
        u8  code = i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
        f32 again =
            nf4_numbers[code] * nf4_size(sizes[i / NF4_BLOCK], scales + i / NF4_GROUP * NF4_SCALES);
        CHECK(fabsf(again - x[i]) <= most * (0.152f + 0.00704f));
    }
}

/* The code of one number, by looking at each of the 16 that it may become: the nearest, of two the lower. */
static u8 code_of(f32 x)
{
    u8 best = 0;
    for (u8 i = 0; i + 1 < 16; i++)
        if (x > (nf4_numbers[i] + nf4_numbers[i + 1]) / 2) best = (u8)(i + 1);
    return best;
}

/* Numbers between two codes, at the ends, zeros of both signs, and some that are none: 1 is the largest of each block,
 * so that nothing is rounded before it is compared. */
TEST(codes_of_a_whole_block_are_those_of_its_numbers)
{
    i64  count = 2 * NF4_GROUP;
    f32 *x = NEW(perm, f32, count), *scales = NEW(perm, f32, 2 * NF4_SCALES);
    u8  *codes = NEW(perm, u8, count / 2), *sizes = NEW(perm, u8, count / NF4_BLOCK);
    rng_fill_around_zero((struct rng_key){ .seed = test_seed() }, 0, count, 1, x);
    for (i64 i = 0; i < count; i++) {
        i64 k = i * 7 % 61;
        f32 m = k < 15 ? (nf4_numbers[k] + nf4_numbers[k + 1]) / 2 : 0;
        if (k < 15) x[i] = i % 3 ? m : nextafterf(m, i % 2 ? 2.0F : -2.0F);
        if (k == 15) x[i] = -0.0F;
        if (k == 16) x[i] = NAN;
        if (i % NF4_BLOCK == 0) x[i] = i % 128 ? 1 : -1;
    }
    struct pool *pool = pool_open(perm, 2);
    nf4_pack(x, count, codes, sizes, scales, pool, scratch);
    pool_close(pool);
    for (i64 i = 0; i < count; i++)
        CHECK_EQ(i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4, code_of(x[i]));
}
