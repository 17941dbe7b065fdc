/* softmax.c - softmax of each row, its gradient, and the losses that rest on it. */
#include "backend/cpu/ref/ref_int.h"

/* log of the sum of exp over a row, from the largest element down: never overflows. */
static f64 row_lse(const struct tensor *x, i64 row, i64 width)
{
    f64 top = -INFINITY, sum = 0;
    for (i64 i = 0; i < width; i++) top = fmax(top, ref_load(x, row * width + i));
    for (i64 i = 0; i < width; i++) sum += exp(ref_load(x, row * width + i) - top);
    return top + log(sum);
}

void ref_SOFTMAX(const struct call *c)
{
    i64 width = shape_last(c->in[0].type.shape);
    for (i64 r = 0; r < shape_rows(c->in[0].type.shape); r++) {
        f64 lse = row_lse(&c->in[0], r, width);
        for (i64 i = r * width; i < (r + 1) * width; i++)
            ref_store(&c->out[0], i, exp(ref_load(&c->in[0], i) - lse));
    }
}

void ref_SOFTMAX_GRAD(const struct call *c)
{
    const struct tensor *dy = &c->in[0], *y = &c->in[1];
    i64                  width = shape_last(y->type.shape);
    for (i64 r = 0; r < shape_rows(y->type.shape); r++) {
        f64 dot = 0;
        for (i64 i = r * width; i < (r + 1) * width; i++) dot += ref_load(dy, i) * ref_load(y, i);
        for (i64 i = r * width; i < (r + 1) * width; i++)
            ref_store(&c->out[0], i, (ref_load(dy, i) - dot) * ref_load(y, i));
    }
}

void ref_XENT(const struct call *c)
{
    const struct tensor *x     = &c->in[0];
    i64                  width = shape_last(x->type.shape);
    f64                  s     = c->at->smoothing;
    for (i64 r = 0; r < c->out[0].count; r++) {
        i64 target = ref_index(&c->in[1], r);
        f64 lse = row_lse(x, r, width), mean = 0, loss = 0;
        ASSERT(target < width);
        for (i64 i = 0; i < width; i++) mean += ref_load(x, r * width + i) / (f64)width;
        if (target >= 0)
            loss = (1 - s) * (lse - ref_load(x, r * width + target)) + s * (lse - mean);
        ref_store(&c->out[0], r, loss);
        ref_store(&c->out[1], r, lse);
    }
}

void ref_XENT_GRAD(const struct call *c)
{
    const struct tensor *x     = &c->in[1];
    i64                  width = shape_last(x->type.shape);
    f64                  s     = c->at->smoothing;
    for (i64 i = 0; i < x->count; i++) {
        i64 r = i / width, target = ref_index(&c->in[2], r);
        f64 p      = exp(ref_load(x, i) - ref_load(&c->in[3], r));
        f64 wanted = s / (f64)width + (i % width == target ? 1 - s : 0);
        ref_store(&c->out[0], i, target < 0 ? 0 : (p - wanted) * ref_load(&c->in[0], r));
    }
}

static f64 capped(f64 x, f64 cap) { return cap > 0 ? cap * tanh(x / cap) : x; }

void ref_XENT_BOTH(const struct call *c)
{
    const struct tensor *x     = &c->in[0];
    i64                  width = shape_last(x->type.shape);
    f64                  s = c->at->smoothing, cap = c->at->cap;
    for (i64 r = 0; r < c->out[1].count; r++) {
        i64 from = r * width, target = ref_index(&c->in[1], r);
        f64 top = -INFINITY, sum = 0, mean = 0, d = target < 0 ? 0 : ref_load(&c->in[2], r);
        ASSERT(target < width);
        for (i64 i = from; i < from + width; i++) top = fmax(top, capped(ref_load(x, i), cap));
        for (i64 i = from; i < from + width; i++) {
            sum += exp(capped(ref_load(x, i), cap) - top);
            mean += capped(ref_load(x, i), cap) / (f64)width;
        }
        f64 lse = top + log(sum), loss = 0;
        if (target >= 0)
            loss = (1 - s) * (lse - capped(ref_load(x, from + target), cap)) + s * (lse - mean);
        ref_store(&c->out[1], r, loss);
        for (i64 i = from; i < from + width; i++) { /* dlogits may lie where the logits do */
            f64 y      = capped(ref_load(x, i), cap);
            f64 wanted = s / (f64)width + (i - from == target ? 1 - s : 0);
            f64 slope  = cap > 0 ? 1 - y / cap * (y / cap) : 1;
            ref_store(&c->out[0], i, (exp(y - lse) - wanted) * d * slope);
        }
    }
}

/* -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)), never taking the exp of something large */
void ref_BCE(const struct call *c)
{
    for (i64 i = 0; i < c->out[0].count; i++) {
        f64 x = ref_load(&c->in[0], i), t = ref_load(&c->in[1], i);
        ref_store(&c->out[0], i, (x < 0 ? 0 : x) - x * t + log1p(exp(-fabs(x))));
    }
}

void ref_BCE_GRAD(const struct call *c)
{
    for (i64 i = 0; i < c->out[0].count; i++) {
        f64 dloss = ref_load(&c->in[0], i);
        f64 x = ref_load(&c->in[1], i), t = ref_load(&c->in[2], i);
        ref_store(&c->out[0], i, dloss * (ref_sigmoid(x) - t));
    }
}

void ref_HITS(const struct call *c)
{
    i64 width = shape_last(c->in[0].type.shape);
    for (i64 r = 0; r < c->out[0].count; r++) {
        i64 best = 0;
        for (i64 i = 1; i < width; i++) {
            if (ref_load(&c->in[0], r * width + i) > ref_load(&c->in[0], r * width + best))
                best = i;
        }
        ref_store(&c->out[0], r, best == ref_index(&c->in[1], r));
    }
}
