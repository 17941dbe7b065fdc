/* st_convert.c - elements of a safetensors file as f32. Files may put them at any address, so each
 * is copied out before it is looked at. */
#include "store/safetensors.h"
#include <string.h>

static f32 f32_of_bits(u32 bits)
{
    f32 v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* IEEE binary16: 1 sign, 5 exponent, 10 fraction bits. Every value is exact in f32, and a NaN keeps
 * its fraction. */
static f32 f32_of_f16(u16 half)
{
    u32 sign = (u32)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 */
        f32 v = (f32)fraction * 0x1p-24f;
        return sign ? -v : v;
    }
    exponent = exponent == 0x1f ? 0xff : exponent + 127 - 15;
    return f32_of_bits(sign | exponent << 23 | fraction << 13);
}

static void from_f16(const char *from, i64 count, f32 *to)
{
    for (i64 i = 0; i < count; i++) {
        u16 v;
        memcpy(&v, from + 2 * i, 2);
        to[i] = f32_of_f16(v);
    }
}

static void from_bf16(const char *from, i64 count, f32 *to)
{
    for (i64 i = 0; i < count; i++) {
        u16 v;
        memcpy(&v, from + 2 * i, 2);
        to[i] = f32_of_bits((u32)v << 16);
    }
}

static void from_f64(const char *from, i64 count, f32 *to)
{
    for (i64 i = 0; i < count; i++) {
        f64 v;
        memcpy(&v, from + 8 * i, 8);
        to[i] = (f32)v;
    }
}

bool st_to_f32(const struct st_tensor *t, f32 *to)
{
    i64 count = shape_count(t->shape);
    if (str_eq(t->dtype, STR("F32"))) memcpy(to, t->bytes.data, (size_t)t->bytes.len);
    else if (str_eq(t->dtype, STR("F16"))) from_f16(t->bytes.data, count, to);
    else if (str_eq(t->dtype, STR("BF16"))) from_bf16(t->bytes.data, count, to);
    else if (str_eq(t->dtype, STR("F64"))) from_f64(t->bytes.data, count, to);
    else return false;
    return true;
}
