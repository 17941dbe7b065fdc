/* resize_any.c - the loops for any processor. */
#include "data/resize_loops.h"

static void rows(const u8 *from, i64 stride, i64 count, const i16 *weight, i32 shift, i64 values,
                 i16 *to)
{
    for (i64 i = 0; i < values; i++) {
        i32 sum = 1 << (shift - 1);
        for (i64 k = 0; k < count; k++) sum += weight[k] * from[k * stride + i];
        to[i] = (i16)(sum >> shift);
    }
}

static void columns(const i16 *from, const struct axis *a, i64 width, i64 channels, u8 *to)
{
    plain_columns(from, a, 0, width, channels, to);
}

const struct resize_loops resize_any = { rows, columns, normal };
