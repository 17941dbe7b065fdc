/* heads.c - what is done to query and key heads before attention: rotary positions and norms.
 * x is [B, T, heads of D numbers]; only the first `heads` of them are changed. */
#include "backend/cpu/ref/ref_int.h"
#include "ir/rope.h"

struct heads {
    i64 total, all, D; /* heads in the tensor; in one position; numbers in a head */
};

static struct heads heads_of(const struct call *c, const struct tensor *x)
{
    i64 D = c->at->head_dim;
    return (struct heads){ x->count / D, ref_dim(x, 2) / D, D };
}

static void pass(const struct call *c, i64 at, i64 count)
{
    for (i64 i = at; i < at + count; i++) ref_store(&c->out[0], i, ref_load(&c->in[0], i));
}

/* RoFormer, arXiv 2104.09864, in the layout of Llama: pairs lie half a head apart. */
void ref_ROPE(const struct call *c)
{
    struct heads        s  = heads_of(c, &c->in[0]);
    struct rope_scaling by = { c->at->stretch, c->at->low, c->at->high };
    for (i64 head = 0; head < s.total; head++) {
        i64 row = head / s.all, at = head * s.D;
        i64 t = c->in_count == 2 ? ref_index(&c->in[1], row) : row % ref_dim(&c->in[0], 1);
        if (head % s.all >= c->at->heads) {
            pass(c, at, s.D);
            continue;
        }
        for (i64 i = 0; i < s.D / 2; i++) {
            f64 angle = (f64)t * rope_scaled(pow(c->at->base, -2.0 * (f64)i / (f64)s.D), by);
            f64 co = cos(angle), si = c->at->inverse ? -sin(angle) : sin(angle);
            f64 a = ref_load(&c->in[0], at + i), b = ref_load(&c->in[0], at + i + s.D / 2);
            ref_store(&c->out[0], at + i, a * co - b * si);
            ref_store(&c->out[0], at + i + s.D / 2, b * co + a * si);
        }
    }
}

void ref_QKNORM(const struct call *c)
{
    struct heads s = heads_of(c, &c->in[0]);
    for (i64 head = 0; head < s.total; head++) {
        i64 at = head * s.D, row = head / s.all * c->at->heads + head % s.all;
        f64 sum = 0;
        if (head % s.all >= c->at->heads) {
            pass(c, at, s.D);
            continue;
        }
        for (i64 i = at; i < at + s.D; i++) sum += ref_load(&c->in[0], i) * ref_load(&c->in[0], i);
        f64 rstd = 1 / sqrt(sum / (f64)s.D + c->at->eps);
        for (i64 i = at; i < at + s.D; i++) ref_store(&c->out[0], i, ref_load(&c->in[0], i) * rstd);
        ref_store(&c->out[1], row, rstd);
    }
}

/* dx = rstd (dy - xhat mean(dy xhat)), xhat = x rstd */
void ref_QKNORM_GRAD(const struct call *c)
{
    const struct tensor *dy = &c->in[0], *x = &c->in[1];
    struct heads         s = heads_of(c, x);
    for (i64 head = 0; head < s.total; head++) {
        i64 at = head * s.D, row = head / s.all * c->at->heads + head % s.all;
        f64 mean = 0;
        if (head % s.all >= c->at->heads) {
            pass(c, at, s.D);
            continue;
        }
        f64 rstd = ref_load(&c->in[2], row);
        for (i64 i = at; i < at + s.D; i++)
            mean += ref_load(dy, i) * ref_load(x, i) * rstd / (f64)s.D;
        for (i64 i = at; i < at + s.D; i++)
            ref_store(&c->out[0], i, rstd * (ref_load(dy, i) - ref_load(x, i) * rstd * mean));
    }
}
