/* half.h - the two 16-bit floats as bits, to and from f32 and f64, rounding to the nearest and
 * ties to even; too large becomes infinity, a NaN stays one and keeps its first bits. Plain C, the
 * same on every machine, and what its instructions give (F16C; fast/storage.h for bf16). */
#ifndef BASE_HALF_H
#define BASE_HALF_H
#include "base/types.h"
#include <math.h>
#include <string.h>

static inline u32 f32_bits(f32 v)
{
    u32 u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static inline f32 f32_of_bits(u32 u)
{
    f32 v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static inline f32 bf16_to_f32(u16 h) { return f32_of_bits((u32)h << 16); }

static inline u16 bf16_from_f32(f32 v)
{
    u32 u = f32_bits(v);
    if (v != v) return (u16)(u >> 16 | 0x40); /* quiet, and not rounded up to infinity */
    return (u16)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static inline f32 f16_to_f32(u16 h)
{
    u32 sign = (u32)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;
    f32 size;
    if (exponent == 31) /* a NaN comes out quiet */
        return f32_of_bits(sign | 0x7F800000 | (mantissa ? 0x400000 : 0) | mantissa << 13);
    if (exponent == 0) size = (f32)mantissa * 0x1p-24f;               /* subnormal */
    else size = f32_of_bits((exponent + 112) << 23 | mantissa << 13); /* bias 15 to 127 */
    return f32_of_bits(sign | f32_bits(size));
}

static inline u16 f16_from_f32(f32 v)
{
    u32 u = f32_bits(v), sign = u >> 16 & 0x8000, size = u & 0x7FFFFFFF;
    if (size > 0x7F800000) return (u16)(sign | 0x7E00 | (size >> 13 & 0x3FF));
    if (size >= 0x477FF000) return (u16)(sign | 0x7C00); /* 65520 and more: infinity */
    if (size < 0x38800000) /* below 2^-14: one unit is 2^-24, and adding 2^-1 rounds to it */
        return (u16)(sign | (f32_bits(f32_of_bits(size) + 0.5f) - 0x3F000000));
    return (u16)(sign | (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13);
}

/* f64 to f32 rounded to odd: the last bit says "not exact", so that a second rounding to fewer bits
 * gives what one rounding from f64 would have given. */
static inline f32 f32_odd_from_f64(f64 v)
{
    f32 near = (f32)v;
    u32 u    = f32_bits(near);
    if (v != v || (f64)near == v) return near;
    if (fabs((f64)near) > fabs(v)) u--; /* towards zero */
    return f32_of_bits(u | 1);
}

static inline u16 bf16_from_f64(f64 v) { return bf16_from_f32(f32_odd_from_f64(v)); }
static inline u16 f16_from_f64(f64 v) { return f16_from_f32(f32_odd_from_f64(v)); }

#endif
