/* resize_int.h - the loops of a resize, which some processors have in a faster form. */
#ifndef DATA_RESIZE_INT_H
#define DATA_RESIZE_INT_H
#include "base/types.h"

/* The weights of one axis: result i is made from `count[i]` values from `first[i]` on. Weights stand
 * `taps` apart, an even number, zeros behind the last. They sum to 1 << bits. */
struct axis {
    i64  taps;
    i32  bits;
    i32 *first, *count;
    i16 *weight;
};

enum { BETWEEN_BITS = 7 }; /* of fraction between the passes: 255 << 7 just fits an i16 */

/* One row of sums of `count` rows that begin at `from`: (sum of weight * row) >> shift, rounded. Whole
 * vectors are read and written: up to 63 values more than `values`. */
typedef void rows_fn(const u8 *from, i64 stride, i64 count, const i16 *weight, i32 shift,
                     i64 values, i16 *to);
/* One row of the result, `width` pixels of `channels`; up to 8 bytes more are written. */
typedef void columns_fn(const i16 *from, const struct axis *a, i64 width, i64 channels, u8 *to);
typedef void normal_fn(const u8 *from, const f32 *factor, const f32 *shift, i64 values, f32 *to);

struct resize_loops {
    rows_fn    *rows;
    columns_fn *columns;
    normal_fn  *normal;
};

extern const struct resize_loops resize_any, resize_avx2;

#endif
