/* conv.c - convolution of images [N,H,W,C] with weights [O,KH,KW,C], and its two gradients.
 *
 * Result pixel (oh, ow) and tap (kh, kw) meet image pixel (oh stride - pad + kh, ow stride - pad
 * + kw). Each function fixes two of the three and sums over the rest. */
#include "backend/cpu/ref/ref_int.h"

static i64 at4(const struct tensor *t, i64 a, i64 b, i64 c, i64 d)
{
    return ((a * ref_dim(t, 1) + b) * ref_dim(t, 2) + c) * ref_dim(t, 3) + d;
}

/* Sum over channels of image pixel times weight tap; 0 where the tap lies in the padding. */
static f64 pixel_dot_tap(const struct call *c, i64 n, i64 h, i64 w, i64 o, i64 kh, i64 kw)
{
    const struct tensor *x = &c->in[0], *weight = &c->in[1];
    f64                  sum = 0;
    if (h < 0 || h >= ref_dim(x, 1) || w < 0 || w >= ref_dim(x, 2)) return 0;
    i64 from = at4(x, n, h, w, 0), tap = at4(weight, o, kh, kw, 0);
    for (i64 k = 0; k < ref_dim(x, 3); k++)
        sum += ref_load(x, from + k) * ref_load(weight, tap + k);
    return sum;
}

void ref_CONV2D(const struct call *c)
{
    const struct tensor *y = &c->out[0], *weight = &c->in[1];
    i64                  O = ref_dim(y, 3), OW = ref_dim(y, 2), OH = ref_dim(y, 1);
    for (i64 i = 0; i < y->count; i++) {
        i64 o = i % O, ow = i / O % OW, oh = i / O / OW % OH, n = i / O / OW / OH;
        i64 h = oh * c->at->stride - c->at->pad, w = ow * c->at->stride - c->at->pad;
        f64 sum = c->in_count == 3 ? ref_load(&c->in[2], o) : 0;
        for (i64 kh = 0; kh < ref_dim(weight, 1); kh++) {
            for (i64 kw = 0; kw < ref_dim(weight, 2); kw++)
                sum += pixel_dot_tap(c, n, h + kh, w + kw, o, kh, kw);
        }
        ref_store(y, i, sum);
    }
}

/* The result's coordinate that meets image coordinate x at tap k, or -1. */
static i64 meets(const struct call *c, i64 x, i64 k, i64 count)
{
    i64 scaled = x + c->at->pad - k;
    if (scaled < 0 || scaled % c->at->stride || scaled / c->at->stride >= count) return -1;
    return scaled / c->at->stride;
}

void ref_CONV2D_GRAD_X(const struct call *c)
{
    const struct tensor *dy = &c->in[0], *weight = &c->in[1], *dx = &c->out[0];
    i64                  C = ref_dim(dx, 3), W = ref_dim(dx, 2), H = ref_dim(dx, 1);
    for (i64 i = 0; i < dx->count; i++) {
        i64 k = i % C, w = i / C % W, h = i / C / W % H, n = i / C / W / H;
        f64 sum = 0;
        for (i64 tap = 0; tap < ref_dim(weight, 1) * ref_dim(weight, 2); tap++) {
            i64 kh = tap / ref_dim(weight, 2), kw = tap % ref_dim(weight, 2);
            i64 oh = meets(c, h, kh, ref_dim(dy, 1)), ow = meets(c, w, kw, ref_dim(dy, 2));
            if (oh < 0 || ow < 0) continue;
            for (i64 o = 0; o < ref_dim(dy, 3); o++)
                sum += ref_load(dy, at4(dy, n, oh, ow, o)) *
                       ref_load(weight, at4(weight, o, kh, kw, k));
        }
        ref_store(dx, i, sum);
    }
}

void ref_CONV2D_GRAD_W(const struct call *c)
{
    const struct tensor *dy = &c->in[0], *x = &c->in[1], *dw = &c->out[0];
    i64                  C = ref_dim(dw, 3), KW = ref_dim(dw, 2), KH = ref_dim(dw, 1);
    i64                  OW = ref_dim(dy, 2), OH = ref_dim(dy, 1), N = ref_dim(dy, 0);
    for (i64 i = 0; i < dw->count; i++) {
        i64 k = i % C, kw = i / C % KW, kh = i / C / KW % KH, o = i / C / KW / KH;
        f64 sum = 0;
        for (i64 pixel = 0; pixel < N * OH * OW; pixel++) {
            i64 ow = pixel % OW, oh = pixel / OW % OH, n = pixel / OW / OH;
            i64 h = oh * c->at->stride - c->at->pad + kh, w = ow * c->at->stride - c->at->pad + kw;
            if (h < 0 || h >= ref_dim(x, 1) || w < 0 || w >= ref_dim(x, 2)) continue;
            sum += ref_load(dy, at4(dy, n, oh, ow, o)) * ref_load(x, at4(x, n, h, w, k));
        }
        ref_store(dw, i, sum);
    }
}
