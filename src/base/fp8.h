/* fp8.h - the two 8-bit floats as bits, from f32 and back, rounding to the nearest, ties to even; what is
 * too large saturates, a NaN stays one. e4m3: bias 7, no infinity, 448 at most; e5m2: bias 15, 57344 at
 * most (Micikevicius et al., arXiv 2209.05433; CUDA's __NV_SATFINITE). And the scale that makes the most of
 * either. */
#ifndef BASE_FP8_H
#define BASE_FP8_H
#include "base/half.h"

enum fp8 { FP8_E4M3, FP8_E5M2 };

static inline f32 fp8_max(enum fp8 format) { return format == FP8_E4M3 ? 448 : 57344; }

static inline f32 fp8_to_f32(u8 code, enum fp8 format)
{
    i32 digits = format == FP8_E4M3 ? 3 : 2, bias = format == FP8_E4M3 ? 7 : 15;
    i32 exponent = code >> digits & (format == FP8_E4M3 ? 15 : 31),
        fraction = code & ((1 << digits) - 1);
    f32 sign     = code & 0x80 ? -1.0f : 1.0f;
    if (format == FP8_E4M3 && (code & 0x7F) == 0x7F) return NAN;
    if (format == FP8_E5M2 && exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (!exponent) return sign * ldexpf((f32)fraction, 1 - bias - digits);
    return sign * ldexpf((f32)(fraction + (1 << digits)), exponent - bias - digits);
}

static inline u8 fp8_from_f32(f32 v, enum fp8 format)
{
    i32 digits = format == FP8_E4M3 ? 3 : 2, bias = format == FP8_E4M3 ? 7 : 15, exponent = 0;
    u8  sign = f32_bits(v) >> 31 ? 0x80 : 0;
    f32 size = fabsf(v);
    if (v != v) return (u8)(sign | 0x7F);
    if (!(size > 0)) return sign;
    if (size >= fp8_max(format)) return (u8)(sign | (format == FP8_E4M3 ? 0x7E : 0x7B));
    frexpf(size, &exponent);                           /* size in [2^(exponent-1), 2^exponent) */
    i32 least = MAX(exponent - 1, 1 - bias) - digits;  /* one unit is 2^least */
    i32 units = (i32)nearbyintf(ldexpf(size, -least)); /* exact, then to even */
    /* units of a normal number carry its leading one, which the exponent's field begins to count */
    return (u8)(sign | (((least + digits + bias - 1) << digits) + units));
}

/* fp8_from_f32 to e4m3 without a branch or a call, so that a loop of it becomes vectors. A normal number is rounded on
 * its bits: 20 of 23 digits go. Below 2^-6 the unit is 2^-9, and adding 2^14 leaves just those digits. */
static inline u8 fp8_e4m3_from_f32(f32 v)
{
    static const f32 to_units = 16384.0f; /* 2^(23 - 9) */
    u32              bits = f32_bits(v), size = bits & 0x7FFFFFFF;
    u32              normal = ((size + 0x7FFFF + (size >> 20 & 1)) >> 20) - ((127 - 7) << 3);
    u32              small  = f32_bits(f32_of_bits(size) + to_units) - f32_bits(to_units);
    u32              code   = size < 0x3C800000 ? small : normal; /* 2^-6 */
    code                    = size >= 0x43E00000 ? 0x7E : code;   /* 448 */
    code                    = size > 0x7F800000 ? 0x7F : code;
    return (u8)((bits >> 24 & 0x80) | code);
}

/* The power of two, as its exponent, by which a tensor whose largest number is amax comes nearest to the
 * format's largest and not beyond. 0 where amax says nothing. */
static inline i32 fp8_exponent(f32 amax, enum fp8 format)
{
    i32 own = 0;
    if (!(amax > 0) || amax > 3.4028235e38f) return 0;
    f32 part = frexpf(amax, &own); /* both largest numbers are 7/8 of a power of two: 2^9, 2^16 */
    i32 e    = (format == FP8_E4M3 ? 9 : 16) - own - (part > 0.875f);
    return MAX(-100, MIN(e, 100));
}

#endif
