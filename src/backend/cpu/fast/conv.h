/* conv.h - a convolution as the fast kernels see it, whichever of the three ops asked for it.
 *
 *     out[n, y*out_step + out_y, x*out_step + out_x, o] =
 *         bias[o] + sum over i < taps_y, j < taps_x, c of
 *             in[n, y*step + i - pad_y, x*step + j - pad_x, c] * weight(o, i, j, c)
 *
 * for all y < rows, x < cols; what lies outside the image counts as 0. The forward pass is this as
 * it stands. The gradient by x is the same with dy as the image and the weights turned round: with
 * stride 1 one convolution, with stride s one for each of the s*s phases of x, because only
 * every s-th weight ever meets a given pixel (the other three quarters would be products with 0). */
#ifndef BACKEND_CPU_FAST_CONV_H
#define BACKEND_CPU_FAST_CONV_H
#include "backend/cpu/kernel.h"

struct conv {
    const f32 *in, *weight, *bias; /* bias may be NULL */
    f32       *out;
    i64        count; /* images */
    i64        in_h, in_w, in_c;
    i64        out_h, out_w, out_c;
    i64        rows, cols;
    i64        taps_y, taps_x;
    i64        step, pad_y, pad_x;
    i64        out_step, out_y, out_x;
    i64        weight_first;                           /* where weight(0, 0, 0, 0) is */
    i64        weight_o, weight_y, weight_x, weight_c; /* strides from there, any sign */
};

/* conv2d, conv2d_grad_x (of one phase) and conv2d_grad_w (out is dy there, and only read). */
struct conv conv_forward(const struct call *c);
struct conv conv_backward(const struct call *c, i64 phase_y, i64 phase_x);
struct conv conv_weights(const struct call *c);

bool conv_is_f32(const struct call *c);

#endif
