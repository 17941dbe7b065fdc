/* storage.h - numbers lie in memory as f32, bf16 or f16, and are f32 as soon as they are loaded.
 *
 * A kernel's block is written once, as an inline function whose last argument t is the storage of
 * what may be low; BY_STORAGE makes one function of it for each type, so that t is a constant in
 * the loops. Stores round to nearest even, bit for bit as base/half.h does, and f16 keeps its
 * subnormal numbers also while f32 has none (flush.h): the conversions do not ask that mode.
 *
 * AVX512-BF16 rounds to bf16 in one instruction instead of seven. Files for it hold the bf16 forms
 * of those kernels that store much, and nothing else. The instruction takes f32 below 2^-126 for
 * zero in any mode: the one case where bits differ from base/half.h. */
#ifndef BACKEND_CPU_FAST_STORAGE_H
#define BACKEND_CPU_FAST_STORAGE_H
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/simd.h"
#include "base/half.h"

typedef u16 vh __attribute__((vector_size(2 * V_LANES)));

/* body(context, block, t) as the pool wants it, for one storage. */
#define AS_BLOCK(body, suffix, t)                                                                  \
    static void body##suffix(void *context, i64 block, i32 worker)                                 \
    {                                                                                              \
        (void)worker;                                                                              \
        body(context, block, t);                                                                   \
    }

/* All that this file has: body_by[fast_storage(call)]. `stored` says whether a call is for it. */
#ifdef __AVX512BF16__
#define BY_STORAGE(body)                                                                           \
    AS_BLOCK(body, _bf16, DT_BF16)                                                                 \
    static pool_fn *const body##_by[DT_COUNT] = { [DT_BF16] = body##_bf16 };

static __attribute__((unused)) bool stored(const struct call *c)
{
    return fast_storage(c) == DT_BF16;
}
#else
#define BY_STORAGE(body)                                                                           \
    AS_BLOCK(body, _f32, DT_F32)                                                                   \
    AS_BLOCK(body, _bf16, DT_BF16)                                                                 \
    AS_BLOCK(body, _f16, DT_F16)                                                                   \
    static pool_fn *const body##_by[DT_COUNT] = {                                                  \
        [DT_F32] = body##_f32, [DT_BF16] = body##_bf16, [DT_F16] = body##_f16                      \
    };

static __attribute__((unused)) bool stored(const struct call *c)
{
    return fast_storage(c) != DT_COUNT;
}
#endif

/* ---- sixteen bits a lane */

#define V_APART static __attribute__((noinline, unused)) /* rare or long: not in every loop */

#if V_LANES == 16
V_INLINE vh v_load_part(const u16 *p, vm m)
{
    return (vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << m.lanes) - 1), p);
}

V_INLINE void v_store_part(u16 *p, vh v, vm m)
{
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << m.lanes) - 1), (__m256i)v);
}
#else
V_APART vh v_load_part(const u16 *p, vm m)
{
    vh v = { 0 };
    memcpy(&v, p, (size_t)m.lanes * sizeof *p);
    return v;
}

V_APART void v_store_part(u16 *p, vh v, vm m) { memcpy(p, &v, (size_t)m.lanes * sizeof *p); }
#endif

V_INLINE vh v_load_h(const u16 *p, vm m)
{
    vh v;
    if (m.lanes != V_LANES) return v_load_part(p, m);
    memcpy(&v, p, sizeof v);
    return v;
}

V_INLINE void v_store_h(u16 *p, vh v, vm m)
{
    if (m.lanes != V_LANES) v_store_part(p, v, m);
    else memcpy(p, &v, sizeof v);
}

V_INLINE vf v_of_bf16(vh h)
{
#if V_LANES == 16
    vu wide = (vu)_mm512_cvtepu16_epi32((__m256i)h);
#elif V_LANES == 8
    vu        wide = (vu)_mm256_cvtepu16_epi32((__m128i)h);
#else
    vu wide = __builtin_convertvector(h, vu);
#endif
    return (vf)(wide << 16);
}

V_INLINE vh v_to_bf16(vf v)
{
#if defined(__AVX512BF16__)
    return (vh)_mm512_cvtneps_pbh((__m512)v);
#elif V_LANES == 16
    __m512i   u = (__m512i)v, near = _mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF));
    __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    near          = _mm512_mask_sub_epi32(near, odd, near, _mm512_set1_epi32(-1));
    near          = _mm512_mask_or_epi32(near, nan, u, _mm512_set1_epi32(0x400000));
    return (vh)_mm512_cvtepi32_epi16(_mm512_srli_epi32(near, 16));
#else
    vu u = (vu)v, near = u + 0x7FFFu + (u >> 16 & 1u), nan = u | 0x400000u;
    return __builtin_convertvector((vu)v_select(v == v, (vf)near, (vf)nan) >> 16, vh);
#endif
}

#if V_LANES == 16
V_INLINE vf v_of_f16(vh h) { return (vf)_mm512_cvtph_ps((__m256i)h); }
V_INLINE vh v_to_f16(vf v) { return (vh)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT); }
#elif V_LANES == 8
V_INLINE vf v_of_f16(vh h) { return (vf)_mm256_cvtph_ps((__m128i)h); }
V_INLINE vh v_to_f16(vf v) { return (vh)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT); }
#else
V_APART vf v_of_f16(vh h)
{
    vf v;
    for (int i = 0; i < V_LANES; i++) v[i] = f16_to_f32(h[i]);
    return v;
}

V_APART vh v_to_f16(vf v)
{
    vh h;
    for (int i = 0; i < V_LANES; i++) h[i] = f16_from_f32(v[i]);
    return h;
}
#endif

/* ---- element i of an array, and those after it */

V_INLINE i64 v_size(const enum dtype t) { return t == DT_F32 ? 4 : 2; } /* bytes of one */

/* From element i on. As memchr, it gives back what may be written if p may. */
V_INLINE void *v_at(const void *p, i64 i, const enum dtype t) { return (u8 *)p + i * v_size(t); }

V_INLINE vf v_get(const void *p, i64 i, vm m, const enum dtype t)
{
    if (t == DT_F32) return v_load_m((const f32 *)p + i, m);
    vh h = v_load_h((const u16 *)p + i, m);
    return t == DT_BF16 ? v_of_bf16(h) : v_of_f16(h);
}

V_INLINE void v_put(void *p, i64 i, vf v, vm m, const enum dtype t)
{
    if (t == DT_F32) v_store_m((f32 *)p + i, v, m);
    else v_store_h((u16 *)p + i, t == DT_BF16 ? v_to_bf16(v) : v_to_f16(v), m);
}

/* As it would be read back once stored. */
V_INLINE vf v_stored(vf v, const enum dtype t)
{
    if (t == DT_F32) return v;
    return t == DT_BF16 ? v_of_bf16(v_to_bf16(v)) : v_of_f16(v_to_f16(v));
}

V_INLINE f32 v_get_1(const void *p, i64 i, const enum dtype t)
{
    if (t == DT_F32) return ((const f32 *)p)[i];
    u16 h = ((const u16 *)p)[i];
    return t == DT_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
}

V_INLINE void v_put_1(void *p, i64 i, f32 v, const enum dtype t)
{
    if (t == DT_F32) ((f32 *)p)[i] = v;
    else ((u16 *)p)[i] = t == DT_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
}

static const vm v_all = { V_LANES };

#endif
