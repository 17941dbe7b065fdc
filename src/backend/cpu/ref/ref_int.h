/* ref_int.h - what the naive kernels share.
 *
 * They are the truth that fast kernels are tested against: single-threaded, without workspace but
 * where ops.def names one, every element read as f64, summed in f64 and rounded once when stored.
 * Each is written so that it stays right where ops.def lets the result take over an input's memory:
 * what is read again later is not yet written. */
#ifndef BACKEND_CPU_REF_REF_INT_H
#define BACKEND_CPU_REF_REF_INT_H
#include "backend/cpu/kernel.h"
#include "base/half.h"
#include <math.h>

/* One function for each row of ops.def, ref_ADD and so on: a row without one does not link. */
#define OP(name, ...) void ref_##name(const struct call *c);
#include "ir/ops.def"
#undef OP

/* x of type `to`, up or down by chance. */
f64 ref_round_at_random(f64 x, enum dtype to, u32 word);

static inline f64 ref_load(const struct tensor *t, i64 i)
{
    switch (t->type.dtype) {
    case DT_F32: return (f64)((const f32 *)t->data)[i];
    case DT_BF16: return (f64)bf16_to_f32(((const u16 *)t->data)[i]);
    case DT_F16: return (f64)f16_to_f32(((const u16 *)t->data)[i]);
    case DT_F64: return ((const f64 *)t->data)[i];
    case DT_I32: return (f64)((const i32 *)t->data)[i];
    case DT_U8: return (f64)((const u8 *)t->data)[i];
    case DT_COUNT: break;
    }
    ASSERT(!"a dtype");
    return 0;
}

/* Towards zero and within [low, high]; a NaN is 0. */
static inline f64 ref_whole(f64 v, f64 low, f64 high)
{
    return v != v ? 0 : trunc(fmin(fmax(v, low), high));
}

static inline void ref_store(const struct tensor *t, i64 i, f64 v)
{
    switch (t->type.dtype) {
    case DT_F32: ((f32 *)t->data)[i] = (f32)v; return;
    case DT_BF16: ((u16 *)t->data)[i] = bf16_from_f64(v); return;
    case DT_F16: ((u16 *)t->data)[i] = f16_from_f64(v); return;
    case DT_F64: ((f64 *)t->data)[i] = v; return;
    case DT_I32: ((i32 *)t->data)[i] = (i32)ref_whole(v, INT32_MIN, INT32_MAX); return;
    case DT_U8: ((u8 *)t->data)[i] = (u8)ref_whole(v, 0, UINT8_MAX); return;
    case DT_COUNT: break;
    }
    ASSERT(!"a dtype");
}

/* Element i of an index tensor. */
static inline i64 ref_index(const struct tensor *t, i64 i)
{
    ASSERT(t->type.dtype == DT_I32);
    return ((const i32 *)t->data)[i];
}

static inline i64 ref_dim(const struct tensor *t, i32 axis) { return t->type.shape.dim[axis]; }

static inline f64 ref_sigmoid(f64 x) { return 1 / (1 + exp(-x)); }

#endif
