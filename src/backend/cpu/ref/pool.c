/* pool.c - the largest or the mean of each window of an image [N,H,W,C]. */
#include "backend/cpu/ref/ref_int.h"

struct window { /* of one result: pixels [h0, h1) x [w0, w1) of its sample, inside the image */
    i64 n, h0, h1, w0, w1, channel;
};

static struct window window_of(const struct call *c, const struct tensor *x, const struct tensor *y,
                               i64 i)
{
    i64 C = ref_dim(y, 3), OW = ref_dim(y, 2), OH = ref_dim(y, 1);
    i64 ow = i / C % OW, oh = i / C / OW % OH;
    i64 h = oh * c->at->stride - c->at->pad, w = ow * c->at->stride - c->at->pad;
    return (struct window){ i / C / OW / OH,
                            MAX(0, h),
                            MIN(h + c->at->kernel, ref_dim(x, 1)),
                            MAX(0, w),
                            MIN(w + c->at->kernel, ref_dim(x, 2)),
                            i % C };
}

static i64 in_sample(const struct tensor *x, i64 h, i64 w, i64 channel)
{
    return (h * ref_dim(x, 2) + w) * ref_dim(x, 3) + channel;
}

static i64 sample_size(const struct tensor *x) { return x->count / MAX(1, ref_dim(x, 0)); }

void ref_MAXPOOL(const struct call *c)
{
    const struct tensor *x = &c->in[0];
    for (i64 i = 0; i < c->out[0].count; i++) {
        struct window win    = window_of(c, x, &c->out[0], i);
        i64           sample = win.n * sample_size(x), best = -1;
        for (i64 h = win.h0; h < win.h1; h++) {
            for (i64 w = win.w0; w < win.w1; w++) {
                i64 at = in_sample(x, h, w, win.channel);
                if (best < 0 || ref_load(x, sample + at) > ref_load(x, sample + best)) best = at;
            }
        }
        ASSERT(best >= 0); /* padding is smaller than the window */
        ref_store(&c->out[0], i, ref_load(x, sample + best));
        ref_store(&c->out[1], i, (f64)best);
    }
}

enum { PART = 4096 }; /* elements summed at a time: so many f64 lie on the stack */

void ref_MAXPOOL_GRAD(const struct call *c)
{
    const struct tensor *dy = &c->in[0], *index = &c->in[1], *dx = &c->out[0];
    i64                  size = sample_size(dx), chosen = sample_size(dy);
    for (i64 n = 0; n < ref_dim(dx, 0); n++) {
        for (i64 first = 0; first < size; first += PART) {
            i64 part      = MIN(PART, size - first);
            f64 sum[PART] = { 0 };
            for (i64 i = n * chosen; i < (n + 1) * chosen; i++) {
                i64 at = ref_index(index, i) - first;
                if (at >= 0 && at < part) sum[at] += ref_load(dy, i);
            }
            for (i64 k = 0; k < part; k++) ref_store(dx, n * size + first + k, sum[k]);
        }
    }
}

void ref_AVGPOOL(const struct call *c)
{
    const struct tensor *x = &c->in[0];
    for (i64 i = 0; i < c->out[0].count; i++) {
        struct window win = window_of(c, x, &c->out[0], i);
        f64           sum = 0;
        for (i64 h = win.h0; h < win.h1; h++) {
            for (i64 w = win.w0; w < win.w1; w++)
                sum += ref_load(x, win.n * sample_size(x) + in_sample(x, h, w, win.channel));
        }
        ref_store(&c->out[0], i, sum / (f64)(c->at->kernel * c->at->kernel));
    }
}

/* First and last window (of `count`, at most) that holds coordinate x; none if first > last. */
static i64 first_window(const struct call *c, i64 x)
{
    i64 past = x + c->at->pad - c->at->kernel; /* windows that begin here or before end too early */
    return past < 0 ? 0 : past / c->at->stride + 1;
}

static i64 last_window(const struct call *c, i64 x, i64 count)
{
    return MIN(count - 1, (x + c->at->pad) / c->at->stride);
}

void ref_AVGPOOL_GRAD(const struct call *c)
{
    const struct tensor *dy = &c->in[0], *dx = &c->out[0];
    i64                  C = ref_dim(dx, 3), W = ref_dim(dx, 2), H = ref_dim(dx, 1);
    for (i64 i = 0; i < dx->count; i++) {
        i64 channel = i % C, w = i / C % W, h = i / C / W % H, n = i / C / W / H;
        f64 sum = 0;
        for (i64 oh = first_window(c, h); oh <= last_window(c, h, ref_dim(dy, 1)); oh++) {
            for (i64 ow = first_window(c, w); ow <= last_window(c, w, ref_dim(dy, 2)); ow++)
                sum += ref_load(dy, n * sample_size(dy) + in_sample(dy, oh, ow, channel));
        }
        ref_store(dx, i, sum / (f64)(c->at->kernel * c->at->kernel));
    }
}
