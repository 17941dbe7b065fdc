/* resize_loops.h - the loops in plain C: the truth, and where there is nothing to gain by hand. Included
 * by the file of each instruction set, for which the compiler makes of `normal` what it can. */
#include "data/resize_int.h"

static inline void plain_columns(const i16 *from, const struct axis *a, i64 begin, i64 end,
                                 i64 channels, u8 *to)
{
    i32 shift = a->bits + BETWEEN_BITS;
    for (i64 x = begin; x < end; x++)
        for (i64 c = 0; c < channels; c++) {
            i32 sum = 1 << (shift - 1);
            for (i64 k = 0; k < a->count[x]; k++)
                sum += a->weight[x * a->taps + k] * from[(a->first[x] + k) * channels + c];
            to[x * channels + c] = (u8)(sum >> shift);
        }
}

static void normal(const u8 *from, const f32 *factor, const f32 *shift, i64 values, f32 *to)
{
    for (i64 i = 0; i < values; i++) to[i] = (f32)from[i] * factor[i] + shift[i];
}
