/* norm.c - layer norm and RMS norm, row by row; batch norm, channel by channel.
 *
 * With xhat = (x - mean) rstd and g = dy w, all of them have (m: mean over what was normalised)
 *     dx = rstd (g - m(g) - xhat m(g xhat))
 * where RMS norm, which subtracts no mean, lacks the second term. */
#include "backend/cpu/ref/ref_int.h"

/* `count` elements from `first` on, `step` apart. */
struct line {
    const struct tensor *t;
    i64                  first, count, step;
};

static f64 line_get(struct line l, i64 i) { return ref_load(l.t, l.first + i * l.step); }

static f64 line_mean(struct line l)
{
    f64 sum = 0;
    for (i64 i = 0; i < l.count; i++) sum += line_get(l, i);
    return sum / (f64)l.count;
}

static f64 line_mean_square(struct line l, f64 from) /* mean of (x - from)^2 */
{
    f64 sum = 0;
    for (i64 i = 0; i < l.count; i++) {
        f64 d = line_get(l, i) - from;
        sum += d * d;
    }
    return sum / (f64)l.count;
}

static struct line row_of(const struct tensor *t, i64 row)
{
    i64 width = shape_last(t->type.shape);
    return (struct line){ t, row * width, width, 1 };
}

static struct line channel_of(const struct tensor *t, i64 channel)
{
    i64 width = shape_last(t->type.shape);
    return (struct line){ t, channel, t->count / width, width };
}

void ref_LAYERNORM(const struct call *c)
{
    i64 rows = shape_rows(c->in[0].type.shape), width = shape_last(c->in[0].type.shape);
    for (i64 r = 0; r < rows; r++) {
        struct line x    = row_of(&c->in[0], r);
        f64         mean = line_mean(x), rstd = 1 / sqrt(line_mean_square(x, mean) + c->at->eps);
        for (i64 i = 0; i < width; i++) {
            f64 xhat = (line_get(x, i) - mean) * rstd;
            f64 y    = xhat * ref_load(&c->in[1], i) + ref_load(&c->in[2], i);
            ref_store(&c->out[0], r * width + i, y);
        }
        ref_store(&c->out[1], r, mean);
        ref_store(&c->out[2], r, rstd);
    }
}

void ref_RMSNORM(const struct call *c)
{
    i64 rows = shape_rows(c->in[0].type.shape), width = shape_last(c->in[0].type.shape);
    for (i64 r = 0; r < rows; r++) {
        struct line x    = row_of(&c->in[0], r);
        f64         rstd = 1 / sqrt(line_mean_square(x, 0) + c->at->eps);
        for (i64 i = 0; i < width; i++) {
            f64 w = c->in_count == 2 ? ref_load(&c->in[1], i) : 1;
            ref_store(&c->out[0], r * width + i, line_get(x, i) * rstd * w);
        }
        ref_store(&c->out[1], r, rstd);
    }
}

/* The sum is the last result; then the norm as it is. */
static void add_norm(const struct call *c, void (*norm)(const struct call *), i32 results)
{
    struct tensor in[3];
    struct call   add  = { OP_ADD, c->at, c->in, 2, &c->out[results], NULL, 0, NULL, NULL };
    struct call   rest = { c->op, c->at, in, c->in_count - 1, c->out, NULL, 0, NULL, NULL };
    ref_ADD(&add);
    in[0] = c->out[results];
    for (i32 i = 1; i < rest.in_count; i++) in[i] = c->in[i + 1];
    norm(&rest);
}

void ref_ADD_LAYERNORM(const struct call *c) { add_norm(c, ref_LAYERNORM, 3); }
void ref_ADD_RMSNORM(const struct call *c) { add_norm(c, ref_RMSNORM, 2); }

/* Operands of a row norm's gradient; no mean: RMS norm. */
struct row_grad {
    const struct tensor *dy, *x, *w, *mean, *rstd;
};

static f64 row_xhat(const struct row_grad *g, i64 row, i64 i)
{
    f64 mean = g->mean ? ref_load(g->mean, row) : 0;
    return (line_get(row_of(g->x, row), i) - mean) * ref_load(g->rstd, row);
}

static f64 row_g(const struct row_grad *g, i64 row, i64 i)
{
    return line_get(row_of(g->dy, row), i) * (g->w ? ref_load(g->w, i) : 1);
}

/* dw and db first, as dx may take over dy's memory. db may be NULL. */
static void row_norm_grad(const struct row_grad *g, const struct tensor *dx,
                          const struct tensor *dw, const struct tensor *db)
{
    i64 rows = shape_rows(g->x->type.shape), width = shape_last(g->x->type.shape);
    for (i64 i = 0; i < width; i++) {
        f64 sum_w = 0, sum_b = 0;
        for (i64 r = 0; r < rows; r++) {
            f64 dy = line_get(row_of(g->dy, r), i);
            sum_w += dy * row_xhat(g, r, i);
            sum_b += dy;
        }
        ref_store(dw, i, sum_w);
        if (db) ref_store(db, i, sum_b);
    }
    for (i64 r = 0; r < rows; r++) {
        f64 mean_g = 0, mean_gx = 0;
        for (i64 i = 0; i < width; i++) {
            mean_g += row_g(g, r, i) / (f64)width;
            mean_gx += row_g(g, r, i) * row_xhat(g, r, i) / (f64)width;
        }
        if (!g->mean) mean_g = 0;
        for (i64 i = 0; i < width; i++) {
            f64 d = row_g(g, r, i) - mean_g - row_xhat(g, r, i) * mean_gx;
            ref_store(dx, r * width + i, d * ref_load(g->rstd, r));
        }
    }
}

void ref_LAYERNORM_GRAD(const struct call *c)
{
    struct row_grad g = { &c->in[0], &c->in[1], &c->in[2], &c->in[3], &c->in[4] };
    row_norm_grad(&g, &c->out[0], &c->out[1], &c->out[2]);
}

void ref_RMSNORM_GRAD(const struct call *c)
{
    const struct tensor *w = c->in_count == 4 ? &c->in[3] : NULL;
    struct row_grad      g = { &c->in[0], &c->in[1], w, NULL, &c->in[2] };
    row_norm_grad(&g, &c->out[0], &c->out[1], NULL);
}

/* y = (x - mean) rstd w + b for one channel. */
static void batchnorm_channel(const struct call *c, i64 channel, f64 mean, f64 rstd)
{
    struct line x = channel_of(&c->in[0], channel);
    f64         w = ref_load(&c->in[1], channel), b = ref_load(&c->in[2], channel);
    for (i64 i = 0; i < x.count; i++)
        ref_store(&c->out[0], channel + i * x.step, (line_get(x, i) - mean) * rstd * w + b);
}

static void move_towards(const struct tensor *running, i64 i, f64 v, f64 momentum)
{
    ref_store(running, i, (1 - momentum) * ref_load(running, i) + momentum * v);
}

void ref_BATCHNORM(const struct call *c)
{
    for (i64 k = 0; k < shape_last(c->in[0].type.shape); k++) {
        struct line x    = channel_of(&c->in[0], k);
        f64         mean = line_mean(x), var = line_mean_square(x, mean);
        f64         rstd     = 1 / sqrt(var + c->at->eps);
        f64         unbiased = var * (f64)x.count / (f64)MAX(1, x.count - 1);
        batchnorm_channel(c, k, mean, rstd);
        move_towards(&c->in[3], k, mean, c->at->momentum);
        move_towards(&c->in[4], k, unbiased, c->at->momentum);
        ref_store(&c->out[1], k, mean);
        ref_store(&c->out[2], k, rstd);
    }
}

void ref_BATCHNORM_EVAL(const struct call *c)
{
    for (i64 k = 0; k < shape_last(c->in[0].type.shape); k++) {
        f64 rstd = 1 / sqrt(ref_load(&c->in[4], k) + c->at->eps);
        batchnorm_channel(c, k, ref_load(&c->in[3], k), rstd);
    }
}

void ref_BATCHNORM_GRAD(const struct call *c)
{
    for (i64 k = 0; k < shape_last(c->in[0].type.shape); k++) {
        struct line dy = channel_of(&c->in[0], k), x = channel_of(&c->in[1], k);
        f64         w    = ref_load(&c->in[2], k);
        f64         mean = ref_load(&c->in[3], k), rstd = ref_load(&c->in[4], k);
        f64         sum = 0, sum_x = 0;
        for (i64 i = 0; i < x.count; i++) {
            sum += line_get(dy, i);
            sum_x += line_get(dy, i) * (line_get(x, i) - mean) * rstd;
        }
        for (i64 i = 0; i < x.count; i++) {
            f64 xhat = (line_get(x, i) - mean) * rstd;
            f64 d    = line_get(dy, i) - (sum + xhat * sum_x) / (f64)x.count;
            ref_store(&c->out[0], k + i * x.step, d * w * rstd);
        }
        ref_store(&c->out[1], k, sum_x);
        ref_store(&c->out[2], k, sum);
    }
}
