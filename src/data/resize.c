/* resize.c - weights, and one row of the result after the other: first the sums of rows, with 7 bits of
 * fraction, then of columns. What a row needs stays in the first cache. */
#include "data/resize.h"
#include "data/resize_int.h"
#include <math.h>
#include <string.h>

enum {
    ROWS_BITS_MAX    = 22, /* 255 << 22 fits an i32 */
    COLUMNS_BITS_MAX = 16, /* and (255 << 7) << 16 */
    WEIGHT_MAX       = 32766,
    PAD              = 64, /* values beside a row that whole vectors touch */
};

/* As many values as Pillow takes, at most: libImaging/Resample.c, precompute_coeffs. */
static i64 taps_max(f64 length, i64 count)
{
    f64 support = MAX(length / (f64)count, 1);
    return ((i64)(2 * support) + 3) & ~(i64)1;
}

/* The weights of result i before they are rounded; returns their sum. */
static f64 triangle(struct axis *a, i64 i, f64 from, f64 step, i64 least, i64 most, f64 *weight)
{
    f64 support = MAX(step, 1), centre = from + ((f64)i + 0.5) * step, sum = 0;
    i64 begin = MIN(MAX((i64)(centre - support + 0.5), least), most - 1);
    i64 end   = MAX(MIN((i64)(centre + support + 0.5), most), begin + 1);
    for (i64 k = begin; k < end; k++) {
        f64 distance      = ((f64)k - centre + 0.5) / support;
        f64 height        = 1 - (distance < 0 ? -distance : distance);
        weight[k - begin] = MAX(height, 0);
        sum += weight[k - begin];
    }
    a->first[i] = (i32)begin;
    a->count[i] = (i32)(end - begin);
    if (sum > 0) return sum;
    weight[0] = 1; /* only where rounding left the triangle nothing */
    return 1;
}

/* Whole numbers that sum to 1 << bits: rounded where they end, so errors do not add up. */
static void round_weights(const f64 *weight, i64 count, f64 sum, i32 bits, i16 *to)
{
    f64 so_far = 0;
    i64 before = 0;
    for (i64 k = 0; k < count; k++) {
        so_far += weight[k];
        i64 end =
            k + 1 == count ? (i64)1 << bits : (i64)(so_far / sum * (f64)((i64)1 << bits) + 0.5);
        to[k]  = (i16)(end - before);
        before = end;
    }
}

static void mirror(struct axis *a, i64 count)
{
    for (i64 i = 0, j = count - 1; i < j; i++, j--) {
        i32 first = a->first[i], values = a->count[i];
        a->first[i] = a->first[j];
        a->count[i] = a->count[j];
        a->first[j] = first;
        a->count[j] = values;
        for (i64 k = 0; k < a->taps; k++) {
            i16 weight                 = a->weight[i * a->taps + k];
            a->weight[i * a->taps + k] = a->weight[j * a->taps + k];
            a->weight[j * a->taps + k] = weight;
        }
    }
}

static struct axis axis_new(struct arena *perm, f64 from, f64 length, i64 size, i64 count,
                            i32 bits_max)
{
    struct axis a    = { .taps = taps_max(length, count), .bits = 14 };
    f64         step = length / (f64)count, top = 0;
    i64         least = (i64)from, most = MIN((i64)ceil(from + length), size); /* of the part */
    a.first     = NEW(perm, i32, count);
    a.count     = NEW(perm, i32, count);
    a.weight    = NEW(perm, i16, count * a.taps);
    f64 *weight = NEW(perm, f64, count * a.taps);
    f64 *sum    = NEW(perm, f64, count);
    for (i64 i = 0; i < count; i++) {
        sum[i] = triangle(&a, i, from, step, least, most, weight + i * a.taps);
        for (i64 k = 0; k < a.count[i]; k++) top = MAX(top, weight[i * a.taps + k] / sum[i]);
    }
    while (a.bits < bits_max && top * (f64)(2 << a.bits) <= WEIGHT_MAX) a.bits++;
    for (i64 i = 0; i < count; i++)
        round_weights(weight + i * a.taps, a.count[i], sum[i], a.bits, a.weight + i * a.taps);
    return a;
}

static i64 axis_bytes(f64 length, i64 count)
{
    i64 taps = taps_max(length, count);
    return count *
               (2 * (i64)sizeof(i32) + taps * (i64)(sizeof(i16) + sizeof(f64)) + (i64)sizeof(f64)) +
           PAD;
}

i64 resize_room(const struct image *from, const struct resize *r)
{
    i64 between =
        ((from->width + taps_max(r->width, r->to_width)) * from->channels + PAD) * (i64)sizeof(i16);
    i64 row = r->to_width * from->channels + PAD;
    return axis_bytes(r->width, r->to_width) + axis_bytes(r->height, r->to_height) + between + row +
           2 * row * (i64)sizeof(f32) + 4 * PAD;
}

/* A factor and a shift for each value of a row. */
static void spread(const struct normal *n, i64 values, i64 channels, f32 *factor, f32 *shift)
{
    for (i64 i = 0; i < values; i++) {
        factor[i] = n->factor[i % channels];
        shift[i]  = n->shift[i % channels];
    }
}

static const struct resize_loops *loops_for(enum isa isa)
{
#ifdef FRUGAL_X86
    if (isa >= ISA_AVX2) return &resize_avx2;
#endif
    (void)isa;
    return &resize_any;
}

void image_resize(const struct image *from, const struct resize *r, const struct normal *n,
                  enum isa isa, u8 *room, void *to)
{
    const struct resize_loops *loops = loops_for(isa);
    struct arena               own   = { room, room + resize_room(from, r), NULL };
    i64                        ch = from->channels, values = r->to_width * ch;
    struct axis across = axis_new(&own, r->x, r->width, from->width, r->to_width, COLUMNS_BITS_MAX);
    struct axis down   = axis_new(&own, r->y, r->height, from->height, r->to_height, ROWS_BITS_MAX);
    i64         left   = across.first[0];
    i64         right =
        across.first[r->to_width - 1] + across.count[r->to_width - 1]; /* columns that count */
    for (i64 i = 0; i < r->to_width; i++) across.first[i] -= (i32)left;
    if (r->mirrored) mirror(&across, r->to_width);

    i16 *between = NEW(&own, i16, (right - left + across.taps) * ch + PAD);
    u8  *row     = NEW(&own, u8, values + PAD);
    f32 *factor = NEW(&own, f32, values), *shift = NEW(&own, f32, values);
    if (n) spread(n, values, ch, factor, shift);
    for (i64 y = 0; y < r->to_height; y++) {
        const u8 *top = from->pixels + down.first[y] * from->stride + left * ch;
        loops->rows(top, from->stride, down.count[y], down.weight + y * down.taps,
                    down.bits - BETWEEN_BITS, (right - left) * ch, between);
        loops->columns(between, &across, r->to_width, ch, row);
        if (n) loops->normal(row, factor, shift, values, (f32 *)to + y * values);
        else memcpy((u8 *)to + y * values, row, (size_t)values);
    }
}
