/* type.c - element types and shapes. */
#include "ir/type.h"
#include <string.h>

static const struct {
    struct str name;
    i64        bytes;
    bool       is_float;
} dtypes[DT_COUNT] = {
#define DT(name, text, bytes, is_float) { { text, sizeof text - 1 }, bytes, is_float },
    DTYPES(DT)
#undef DT
};

i64 dtype_bytes(enum dtype t)
{
    ASSERT(t < DT_COUNT);
    return dtypes[t].bytes;
}

bool dtype_is_float(enum dtype t)
{
    ASSERT(t < DT_COUNT);
    return dtypes[t].is_float;
}

struct str dtype_name(enum dtype t)
{
    ASSERT(t < DT_COUNT);
    return dtypes[t].name;
}

bool dtype_parse(struct str s, enum dtype *out)
{
    for (i32 i = 0; i < DT_COUNT; i++) {
        if (str_eq(s, dtypes[i].name)) {
            *out = (enum dtype)i;
            return true;
        }
    }
    return false;
}

struct shape shape_of(i32 rank, const i64 *dim)
{
    ASSERT(rank >= 0 && rank <= RANK_MAX);
    struct shape s = { .rank = rank };
    for (i32 i = 0; i < rank; i++) s.dim[i] = dim[i];
    return s;
}

struct shape shape_1(i64 a) { return shape_of(1, (i64[]){ a }); }

struct shape shape_2(i64 a, i64 b) { return shape_of(2, (i64[]){ a, b }); }

struct shape shape_3(i64 a, i64 b, i64 c) { return shape_of(3, (i64[]){ a, b, c }); }

struct shape shape_4(i64 a, i64 b, i64 c, i64 d) { return shape_of(4, (i64[]){ a, b, c, d }); }

i64 shape_span(struct shape s, i32 from, i32 to)
{
    i64 n = 1;
    for (i32 i = from; i < to; i++) n *= s.dim[i];
    return n;
}

i64 shape_count(struct shape s) { return shape_span(s, 0, s.rank); }

i64 shape_last(struct shape s) { return s.rank ? s.dim[s.rank - 1] : 1; }

i64 shape_rows(struct shape s) { return s.rank ? shape_span(s, 0, s.rank - 1) : 1; }

bool shape_eq(struct shape a, struct shape b) { return a.rank == b.rank && shape_is_suffix(a, b); }

bool shape_is_suffix(struct shape of, struct shape s)
{
    if (s.rank > of.rank) return false;
    for (i32 i = 0; i < s.rank; i++) {
        if (s.dim[i] != of.dim[of.rank - s.rank + i]) return false;
    }
    return true;
}

struct type type_of(enum dtype t, struct shape s) { return (struct type){ t, s }; }

bool type_eq(struct type a, struct type b)
{
    return a.dtype == b.dtype && shape_eq(a.shape, b.shape);
}

i64 type_bytes(struct type t) { return shape_count(t.shape) * dtype_bytes(t.dtype); }

/* Every size that is computed later is a product of these dimensions: what fits here cannot
 * overflow there. */
bool type_fits(struct type t)
{
    i64 room = TENSOR_BYTES_MAX / dtype_bytes(t.dtype);
    for (i32 i = 0; i < t.shape.rank; i++) {
        if (t.shape.dim[i] < 0 || t.shape.dim[i] > room) return false;
        if (t.shape.dim[i]) room /= t.shape.dim[i];
    }
    return true;
}

struct str type_text(struct arena *perm, struct type t)
{
    char dims[RANK_MAX * 21 + 1] = "";
    i64  at                      = 0;
    for (i32 i = 0; i < t.shape.rank; i++) {
        char digits[24];
        i64  n = 0;
        for (i64 v = t.shape.dim[i]; n == 0 || v; v /= 10) digits[n++] = (char)('0' + v % 10);
        if (i) dims[at++] = ',';
        while (n) dims[at++] = digits[--n];
    }
    return str_fmt(perm, "%.*s[%.*s]", STR_ARG(dtype_name(t.dtype)), (int)at, dims);
}

bool type_parse(struct str s, struct type *out)
{
    i64 open = str_find(s, '[');
    if (open < 0 || s.data[s.len - 1] != ']') return false;
    *out = (struct type){ 0 };
    if (!dtype_parse(str_sub(s, 0, open), &out->dtype)) return false;
    struct str dims = str_sub(s, open + 1, s.len - 1), one;
    while (str_cut(&dims, ',', &one)) {
        i64 v;
        if (out->shape.rank == RANK_MAX || !str_i64(one, &v) || v < 0) return false;
        out->shape.dim[out->shape.rank++] = v;
    }
    return true;
}
