/* simd.h - one vector type for three instruction sets, so that a kernel is written once.
 *
 * A family x has its source in x_impl.h; the build makes x_avx512.c, x_avx2.c and x_any.c, which
 * only include it, from kernels.def, and gives each its instruction set. V_LANES floats make a
 * vector of type vf; + - * / & | ^ < > work on vectors as they are (GNU C), comparisons give all
 * ones or all zeros in a vi. Here is only what the language has no sign for; numbers that lie in
 * memory as bf16 or f16: storage.h.
 *
 * Everything is static: the same names mean other code in each file. ISA_FN(f) is f_avx512,
 * f_avx2 or f_any, for what must be seen outside; ISA_COUNT(kernels_x) goes with a table of
 * kernels. */
#ifndef BACKEND_CPU_FAST_SIMD_H
#define BACKEND_CPU_FAST_SIMD_H
#include "base/types.h"
#include <math.h>
#include <string.h>

#if defined(__AMXBF16__) && !defined(__AMX_BF16__) /* as clang before 16 spells it */
#define __AMX_BF16__ 1
#endif
#if defined(__AVX512F__)
#include <immintrin.h>
#define V_LANES 16
#define V_REGISTERS 32
#if defined(__AMX_BF16__)
#define ISA_HERE ISA_AMX
#define ISA_NAME "amx"
#define ISA_FN(f) f##_amx
#define ISA_COUNT(table) table##_amx_count
#elif defined(__AVX512BF16__)
#define ISA_HERE ISA_AVX512BF16
#define ISA_NAME "avx512bf16"
#define ISA_FN(f) f##_avx512bf16
#define ISA_COUNT(table) table##_avx512bf16_count
#else
#define ISA_HERE ISA_AVX512
#define ISA_NAME "avx512"
#define ISA_FN(f) f##_avx512
#define ISA_COUNT(table) table##_avx512_count
#endif
#elif defined(__AVX2__)
#include <immintrin.h>
#define V_LANES 8
#define V_REGISTERS 16
#define ISA_HERE ISA_AVX2
#define ISA_NAME "avx2"
#define ISA_FN(f) f##_avx2
#define ISA_COUNT(table) table##_avx2_count
#else
#define V_LANES 4
#define V_REGISTERS 16
#define ISA_HERE ISA_ANY
#define ISA_NAME "any"
#define ISA_FN(f) f##_any
#define ISA_COUNT(table) table##_any_count
#ifdef __aarch64__
#include <arm_neon.h>
#endif
#endif

typedef f32 vf __attribute__((vector_size(4 * V_LANES)));
typedef i32 vi __attribute__((vector_size(4 * V_LANES)));
typedef u32 vu __attribute__((vector_size(4 * V_LANES)));
typedef f64 vd __attribute__((vector_size(4 * V_LANES))); /* half as many lanes */

#define V_INLINE static inline __attribute__((always_inline, unused))

V_INLINE vf v_zero(void) { return (vf){ 0 }; }
V_INLINE vi v_set_i(i32 x) { return (vi){ 0 } + x; }

V_INLINE vf v_set(f32 x)
{
#if V_LANES == 16
    return (vf)_mm512_set1_ps(x);
#elif V_LANES == 8
    return (vf)_mm256_set1_ps(x);
#else
    return (vf){ x, x, x, x };
#endif
}

V_INLINE vf v_load(const f32 *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

V_INLINE void v_store(f32 *p, vf v) { memcpy(p, &v, sizeof v); }

V_INLINE vi v_load_i(const i32 *p)
{
    vi v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Loads and stores of the first lanes only: the other lanes load as 0, and their memory is not
 * touched. Nearly always all take part, and a branch that is predicted is cheaper than a mask in
 * every instruction set (with AVX2, seven times). */
typedef struct {
    i64 lanes; /* in [0, V_LANES] */
} vm;

V_INLINE vm v_first(i64 n) { return (vm){ n }; }

#if V_LANES == 8
V_INLINE __m256i v_mask(vm m) /* all ones in the lanes that take part */
{
    return (__m256i)((vi){ 0, 1, 2, 3, 4, 5, 6, 7 } < v_set_i((i32)m.lanes));
}
#endif

V_INLINE vf v_load_m(const f32 *p, vm m)
{
    if (m.lanes == V_LANES) return v_load(p);
#if V_LANES == 16
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << m.lanes) - 1), p);
#elif V_LANES == 8
    return (vf)_mm256_maskload_ps(p, v_mask(m));
#else
    vf v = { 0 };
    for (i64 i = 0; i < m.lanes; i++) v[i] = p[i];
    return v;
#endif
}

V_INLINE void v_store_m(f32 *p, vf v, vm m)
{
    if (m.lanes == V_LANES) {
        v_store(p, v);
        return;
    }
#if V_LANES == 16
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << m.lanes) - 1), (__m512)v);
#elif V_LANES == 8
    _mm256_maskstore_ps(p, v_mask(m), (__m256)v);
#else
    for (i64 i = 0; i < m.lanes; i++) p[i] = v[i];
#endif
}

V_INLINE vf   v_load_n(const f32 *p, i64 n) { return v_load_m(p, v_first(n)); }
V_INLINE void v_store_n(f32 *p, vf v, i64 n) { v_store_m(p, v, v_first(n)); }

/* a * b + c, rounded once where the machine can. */
V_INLINE vf v_fma(vf a, vf b, vf c)
{
#if V_LANES == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif V_LANES == 8
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

V_INLINE vf v_select(vi where, vf yes, vf no)
{
    return (vf)((where & (vi)yes) | (~where & (vi)no));
}

/* The larger; the second operand if one is not a number, on every instruction set. */
V_INLINE vf v_max(vf a, vf b)
{
#if V_LANES == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif V_LANES == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return v_select(a > b, a, b);
#endif
}

V_INLINE vf v_min(vf a, vf b)
{
#if V_LANES == 16
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif V_LANES == 8
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return v_select(a < b, a, b);
#endif
}

V_INLINE vf v_sqrt(vf a)
{
#if V_LANES == 16
    return (vf)_mm512_sqrt_ps((__m512)a);
#elif V_LANES == 8
    return (vf)_mm256_sqrt_ps((__m256)a);
#else
    for (int i = 0; i < V_LANES; i++) a[i] = sqrtf(a[i]);
    return a;
#endif
}

V_INLINE vf v_abs(vf a) { return (vf)((vi)a & v_set_i(0x7fffffff)); }
V_INLINE vf v_from_i(vi a) { return __builtin_convertvector(a, vf); }

/* The nearest whole number (ties to even) of |a| < 2^22, as a float and in the low bits of an
 * integer: adding 1.5 * 2^23 leaves no room for a fraction. */
V_INLINE vf v_round(vf a, vi *whole)
{
    const vf magic   = v_set(0x1.8p23f);
    vf       shifted = a + magic;
    *whole           = (vi)shifted - (vi)magic;
    return shifted - magic;
}

/* Halves are added, then the halves of that, until one lane is left: the order is fixed by the
 * width alone. */
typedef f32 vf4 __attribute__((vector_size(16)));
typedef i32 vi4 __attribute__((vector_size(16)));

V_INLINE vf4 v_fold(vf a, vf4 (*f)(vf4, vf4)) /* down to four lanes */
{
#if V_LANES == 16
    __m256 low = _mm512_castps512_ps256((__m512)a), high = _mm512_extractf32x8_ps((__m512)a, 1);
    vf4    x = f((vf4)_mm256_castps256_ps128(low), (vf4)_mm256_castps256_ps128(high));
    vf4    y = f((vf4)_mm256_extractf128_ps(low, 1), (vf4)_mm256_extractf128_ps(high, 1));
    return f(x, y);
#elif V_LANES == 8
    return f((vf4)_mm256_castps256_ps128((__m256)a), (vf4)_mm256_extractf128_ps((__m256)a, 1));
#else
    (void)f;
    return a;
#endif
}

V_INLINE vf4 v_add4(vf4 a, vf4 b) { return a + b; }
V_INLINE vf4 v_max4(vf4 a, vf4 b)
{
    vi4 above = a > b;
    return (vf4)((above & (vi4)a) | (~above & (vi4)b));
}

V_INLINE f32 v_sum(vf a)
{
    vf4 x = v_fold(a, v_add4);
    return (x[0] + x[2]) + (x[1] + x[3]);
}

V_INLINE f32 v_top(vf a) /* the largest lane */
{
    vf4 x = v_fold(a, v_max4);
    f32 p = x[0] > x[2] ? x[0] : x[2], q = x[1] > x[3] ? x[1] : x[3];
    return p > q ? p : q;
}

#endif
