/* type.h - element types and shapes: what a tensor is, before it has memory.
 *
 * Tensors are dense, row-major; element indices are 64-bit. */
#ifndef IR_TYPE_H
#define IR_TYPE_H
#include "base/text.h"
#include "base/types.h"

/*      name  text    bytes  float */
#define DTYPES(DT)                                                                                 \
    DT(F32, "f32", 4, 1)                                                                           \
    DT(BF16, "bf16", 2, 1)                                                                         \
    DT(F16, "f16", 2, 1)                                                                           \
    DT(F64, "f64", 8, 1)                                                                           \
    DT(I32, "i32", 4, 0)                                                                           \
    DT(U8, "u8", 1, 0)

enum dtype {
#define DT(name, text, bytes, is_float) DT_##name,
    DTYPES(DT)
#undef DT
        DT_COUNT
};

#define RANK_MAX 6
#define TENSOR_BYTES_MAX ((i64)1 << 46) /* 64 TiB: all values of a graph still add up in 63 bits */

struct shape {
    i32 rank;
    i64 dim[RANK_MAX];
};

struct type {
    enum dtype   dtype;
    struct shape shape;
};

i64        dtype_bytes(enum dtype t);
bool       dtype_is_float(enum dtype t);
struct str dtype_name(enum dtype t);
bool       dtype_parse(struct str s, enum dtype *out);

struct shape shape_of(i32 rank, const i64 *dim);
struct shape shape_1(i64 a);
struct shape shape_2(i64 a, i64 b);
struct shape shape_3(i64 a, i64 b, i64 c);
struct shape shape_4(i64 a, i64 b, i64 c, i64 d);
i64          shape_count(struct shape s);                  /* product of dims */
i64          shape_span(struct shape s, i32 from, i32 to); /* product of dims [from, to) */
i64          shape_last(struct shape s);                   /* last dim */
i64          shape_rows(struct shape s);                   /* count / last dim */
bool         shape_eq(struct shape a, struct shape b);
bool         shape_is_suffix(struct shape of, struct shape s); /* s equals the tail of `of` */

struct type type_of(enum dtype t, struct shape s);
bool        type_eq(struct type a, struct type b);
i64         type_bytes(struct type t);
bool        type_fits(struct type t); /* no size below 0, at most TENSOR_BYTES_MAX in all */
struct str  type_text(struct arena *perm, struct type t); /* f32[32,128] */
bool        type_parse(struct str s, struct type *out);

#endif
