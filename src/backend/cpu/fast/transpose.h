/* transpose.h - matrices of a power of two rows, turned in registers.
 *
 * Write `rows` vectors one after the other: an element's place is then (row bits, lane bits).
 * Interleaving the first half of this array with the second moves the highest bit of the place to
 * the lowest. Done once for each row bit, the place is (lane bits, row bits): transposed. */
#ifndef BACKEND_CPU_FAST_TRANSPOSE_H
#define BACKEND_CPU_FAST_TRANSPOSE_H
#include "backend/cpu/fast/simd.h"

/* Lanes of a and b by number; gcc has clang's word for it since 12. */
#if defined(__clang__) || __GNUC__ >= 12
#define V_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define V_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){ __VA_ARGS__ })
#endif

V_INLINE vf v_low(vf a, vf b) /* a0 b0 a1 b1 .. from the lower halves */
{
#if V_LANES == 16
    return V_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif V_LANES == 8
    return V_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    return V_SHUFFLE(a, b, 0, 4, 1, 5);
#endif
}

V_INLINE vf v_high(vf a, vf b) /* the same of the upper halves */
{
#if V_LANES == 16
    return V_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif V_LANES == 8
    return V_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    return V_SHUFFLE(a, b, 2, 6, 3, 7);
#endif
}

/* x[0 .. rows) in place; rows is a constant power of two, at most V_LANES. */
V_INLINE void v_transpose(vf *x, const int rows)
{
    for (int bit = 1; bit < rows; bit *= 2) {
        vf y[V_LANES];
        for (int i = 0; i < rows / 2; i++) {
            y[2 * i]     = v_low(x[i], x[i + rows / 2]);
            y[2 * i + 1] = v_high(x[i], x[i + rows / 2]);
        }
        for (int i = 0; i < rows; i++) x[i] = y[i];
    }
}

/* Lane l of the result: the sum of the lanes of x[l]. V_LANES vectors. */
V_INLINE vf v_sums(vf *x)
{
    for (int half = V_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] = v_low(x[i], x[i + half]) + v_high(x[i], x[i + half]);
    return x[0];
}

#endif
