/* st_convert.c - elements of a safetensors file as f32. Files may put them at any address, so each
 * is copied out before it is looked at. */
#include "base/half.h"
#include "store/safetensors.h"
#include <string.h>

static void from_f16(const char *from, i64 count, f32 *to)
{
    for (i64 i = 0; i < count; i++) {
        u16 v;
        memcpy(&v, from + 2 * i, 2);
        to[i] = f16_to_f32(v);
    }
}

static void from_bf16(const char *from, i64 count, f32 *to)
{
    for (i64 i = 0; i < count; i++) {
        u16 v;
        memcpy(&v, from + 2 * i, 2);
        to[i] = bf16_to_f32(v);
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

bool st_is_readable(struct str dtype)
{
    return str_eq(dtype, STR("F32")) || str_eq(dtype, STR("F16")) || str_eq(dtype, STR("BF16")) ||
           str_eq(dtype, STR("F64"));
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
