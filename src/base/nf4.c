/* nf4.c - to 4 bits and tables for the way back. */
#include "base/nf4.h"
#include <math.h>

const f32 nf4_numbers[16] = {
#define NF4(v) v,
#define SIZE(v)
#include "base/nf4.def"
#undef NF4
#undef SIZE
};
const f32 nf4_sizes[256] = {
#define NF4(v)
#define SIZE(v) v,
#include "base/nf4.def"
#undef NF4
#undef SIZE
};

/* How many midpoints between neighbours of the table are below x: the nearest, of two the lower. */
static u8 nearest(const f32 *table, i32 count, f32 x)
{
    i32 low = 0, high = count - 1;
    while (low < high) {
        i32 middle = (low + high) / 2;
        if (x > (table[middle] + table[middle + 1]) / 2) low = middle + 1;
        else high = middle;
    }
    return (u8)low;
}

/* LANES numbers side by side and sums of comparisons, without a branch: the compiler makes vectors of them. */
enum { LANES = 32, CODES = 16 };

/* Of a multiple of LANES numbers; those that are none do not count. */
static f32 largest(const f32 *x, i64 count)
{
    f32 most[LANES] = { 0 }, all = 0;
    for (i64 i = 0; i < count; i += LANES)
        for (i64 k = 0; k < LANES; k++) {
            f32 size = fabsf(x[i + k]);
            most[k]  = size > most[k] ? size : most[k];
        }
    for (i64 k = 0; k < LANES; k++) all = most[k] > all ? most[k] : all;
    return all;
}

/* nearest() of LANES numbers, by counting the midpoints below each. */
static void nearest_codes(const f32 *x, f32 inverse, u8 *codes)
{
    f32 scaled[LANES];
    i32 below[LANES] = { 0 };
    for (i64 k = 0; k < LANES; k++) scaled[k] = x[k] * inverse;
    for (i64 i = 0; i + 1 < CODES; i++) {
        f32 middle = (nf4_numbers[i] + nf4_numbers[i + 1]) / 2;
        for (i64 k = 0; k < LANES; k++) below[k] += scaled[k] > middle;
    }
    for (i64 k = 0; k < LANES; k += 2) codes[k / 2] = (u8)(below[k] << 4 | below[k + 1]);
}

static const f32 least = 1e-38f; /* that a size is divided by */

struct packing {
    const f32 *from;
    f32       *size; /* of each block */
    f32        mean;
    u8        *codes, *sizes;
    f32       *scales;
};

static void pack_blocks(void *context, i64 group, i32 worker)
{
    struct packing *p = context;
    (void)worker;
    for (i64 b = group * NF4_BLOCKS; b < (group + 1) * NF4_BLOCKS; b++) {
        const f32 *x  = p->from + b * NF4_BLOCK;
        u8        *to = p->codes + b * NF4_BLOCK / 2;
        p->size[b]    = largest(x, NF4_BLOCK);
        f32 inverse   = 1 / fmaxf(p->size[b], least);
        for (i64 i = 0; i < NF4_BLOCK; i += LANES) nearest_codes(x + i, inverse, to + i / 2);
    }
}

static void pack_sizes(void *context, i64 group, i32 worker)
{
    struct packing *p = context;
    f32            *x = p->size + group * NF4_BLOCKS, *scales = p->scales + group * NF4_SCALES;
    (void)worker;
    for (i64 i = 0; i < NF4_BLOCKS; i++) x[i] -= p->mean;
    scales[0]   = largest(x, NF4_BLOCKS);
    scales[1]   = p->mean;
    f32 inverse = 1 / fmaxf(scales[0], least);
    for (i64 i = 0; i < NF4_BLOCKS; i++)
        p->sizes[group * NF4_BLOCKS + i] = nearest(nf4_sizes, 256, x[i] * inverse);
}

void nf4_pack(const f32 *from, i64 count, u8 *codes, u8 *sizes, f32 *scales, struct pool *pool,
              struct arena scratch)
{
    i64            blocks = count / NF4_BLOCK;
    struct packing p      = { .from = from, .codes = codes, .sizes = sizes, .scales = scales };
    f64            sum    = 0;
    ASSERT(count % NF4_GROUP == 0);
    p.size = NEW(&scratch, f32, blocks);
    pool_run(pool, count / NF4_GROUP, pack_blocks, &p);
    for (i64 i = 0; i < blocks; i++) sum += (f64)p.size[i];
    p.mean = blocks ? (f32)(sum / (f64)blocks) : 0;
    pool_run(pool, count / NF4_GROUP, pack_sizes, &p);
}
