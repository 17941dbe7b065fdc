/* simd_math.h - exp, log, tanh and what is made of them, on vectors.
 *
 * Polynomials of the Cephes library (Moshier, 1989: expf, logf, tanhf), evaluated with fused
 * products. Worst error against the true value (tests/unit/test_vector_math.c): exp 1.3 ulp,
 * log 0.9, tanh 1.4, and by derivation sigmoid 4.6 (exp, a sum and a quotient are off by 2.3 in
 * 2^23, which is twice as many units where the last place is small), 0 below 2^-126. The exact gelu
 * (map_impl.h): 9, of which the rounding of a tail below 2^-126 takes 7. Infinities and
 * what is no number come out as in libm. */
#ifndef BACKEND_CPU_FAST_SIMD_MATH_H
#define BACKEND_CPU_FAST_SIMD_MATH_H
#include "backend/cpu/fast/simd.h"

V_INLINE vf v_scale2(vf x, vf n, vi whole) /* x * 2^n, n a whole number in [-150, 130] */
{
#if V_LANES == 16
    (void)whole;
    return (vf)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
    (void)n;
    vi half = whole >> 1; /* two steps: 2^-150 is no float */
    return x * (vf)((vu)(half + 127) << 23) * (vf)((vu)(whole - half + 127) << 23);
#endif
}

V_INLINE vf v_exp(vf x)
{
    x = v_max(v_set(-104), v_min(v_set(89), x)); /* 0 and infinity beyond; keeps NaN */
    vi whole;
    vf n = v_round(x * v_set(1.44269504088896341f), &whole);
    vf r = v_fma(n, v_set(-0.693359375f), x); /* n ln 2 in two parts */
    r    = v_fma(n, v_set(2.12194440e-4f), r);
    vf p = v_set(1.9875691500e-4f);
    p    = v_fma(p, r, v_set(1.3981999507e-3f));
    p    = v_fma(p, r, v_set(8.3334519073e-3f));
    p    = v_fma(p, r, v_set(4.1665795894e-2f));
    p    = v_fma(p, r, v_set(1.6666665459e-1f));
    p    = v_fma(p, r, v_set(5.0000001201e-1f));
    p    = v_fma(p, r * r, r + v_set(1));
    return v_scale2(p, n, whole);
}

V_INLINE vf v_log(vf x)
{
    const vf least = v_set(0x1p-126f), infinity = v_set(INFINITY);
    vi       tiny = x < least; /* also 0 and below, put right at the end */
    vf       y    = v_select(tiny, x * v_set(0x1p23f), x);
    /* y = m * 2^e with m in [sqrt(1/2), sqrt(2)) */
    vi bits = (vi)((vu)y - 0x3f3504f3u);
    vf e    = v_from_i((bits >> 23) - (tiny & 23));
    vf m    = (vf)((bits & 0x007fffff) + 0x3f3504f3) - v_set(1);
    vf p    = v_set(7.0376836292e-2f);
    p       = v_fma(p, m, v_set(-1.1514610310e-1f));
    p       = v_fma(p, m, v_set(1.1676998740e-1f));
    p       = v_fma(p, m, v_set(-1.2420140846e-1f));
    p       = v_fma(p, m, v_set(1.4249322787e-1f));
    p       = v_fma(p, m, v_set(-1.6668057665e-1f));
    p       = v_fma(p, m, v_set(2.0000714765e-1f));
    p       = v_fma(p, m, v_set(-2.4999993993e-1f));
    p       = v_fma(p, m, v_set(3.3333331174e-1f));
    p       = p * m * m * m;
    p       = v_fma(e, v_set(-2.12194440e-4f), p);
    p       = v_fma(m * m, v_set(-0.5f), p);
    p       = v_fma(e, v_set(0.693359375f), m + p);
    p       = v_select(x < infinity, p, x); /* infinity and NaN stay */
    p       = v_select(x == v_zero(), -infinity, p);
    return v_select(x < v_zero(), v_set(NAN), p);
}

V_INLINE vf v_sigmoid(vf x) { return v_set(1) / (v_set(1) + v_exp(-x)); }

V_INLINE vf v_tanh(vf x)
{
    vf a = v_abs(x), z = x * x;
    vf p = v_set(-5.70498872745e-3f);
    p    = v_fma(p, z, v_set(2.06390887954e-2f));
    p    = v_fma(p, z, v_set(-5.37397155531e-2f));
    p    = v_fma(p, z, v_set(1.33314422036e-1f));
    p    = v_fma(p, z, v_set(-3.33332819422e-1f));
    p    = v_fma(p * z, x, x);
    vf q = v_set(1) - v_set(2) / (v_exp(a + a) + v_set(1));
    q    = (vf)((vi)q | ((vi)x & (vi)v_set(-0.0f)));
    return v_select(a < v_set(0.625f), p, q);
}

/* log(1 + e) for e in [0, 1]: what 1 + e loses by rounding is added back. */
V_INLINE vf v_log1p(vf e)
{
    vf u = v_set(1) + e;
    return v_log(u) + (e - (u - v_set(1))) / u;
}

#endif
