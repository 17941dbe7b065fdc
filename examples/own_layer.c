/* own_layer.c - a layer frugal does not know, used from C: mish, x * tanh(log(1 + e^x)).
 *
 * Registers the op with its shape rule, a naive kernel and its gradient (an op too), builds a
 * small network around it and trains it to tell points inside a ring from points outside.
 *
 *     cc own_layer.c $(pkg-config --cflags --libs frugal) -o own_layer && ./own_layer
 */
#include <frugal.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 64, HIDDEN = 16, STEPS = 400 };

static int same_shape(const struct frugal_tensor *in, struct frugal_tensor *out,
                      const struct frugal_attributes *at)
{
    (void)at;
    out[0] = in[0];
    return in[0].dtype != FRUGAL_F32;
}

static float tanh_softplus(float x) { return tanhf(log1pf(expf(x))); }

static void mish_run(const struct frugal_tensor *in, const struct frugal_tensor *out,
                     const struct frugal_attributes *at)
{
    const float *x = in[0].data;
    float       *y = out[0].data;
    (void)at;
    for (int64_t i = 0; i < out[0].count; i++) y[i] = x[i] * tanh_softplus(x[i]);
}

/* dy * (t + x (1 - t^2) sigmoid(x)), t = tanh(softplus(x)) */
static void mish_grad_run(const struct frugal_tensor *in, const struct frugal_tensor *out,
                          const struct frugal_attributes *at)
{
    const float *dy = in[0].data, *x = in[1].data;
    float       *dx = out[0].data;
    (void)at;
    for (int64_t i = 0; i < out[0].count; i++) {
        float t = tanh_softplus(x[i]);
        dx[i]   = dy[i] * (t + x[i] * (1 - t * t) / (1 + expf(-x[i])));
    }
}

static void mish_grad(struct frugal_graph *g, const int *in, const int *out, const int *dout,
                      int *din, const struct frugal_attributes *at)
{
    (void)out;
    (void)at;
    din[0] = frugal_apply(g, "mish_grad", "mish'", (int[]){ dout[0], in[0] }, 2, NULL);
}

static int dense(struct frugal_graph *g, const char *name, int x, int64_t outputs)
{
    char    weight[64], bias[64];
    int64_t inputs = frugal_dim(g, x, 1);
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    int w = frugal_param(g, weight, 2, (int64_t[]){ outputs, inputs }, FRUGAL_NORMAL,
                         sqrt(1.0 / (double)inputs));
    int b = frugal_param(g, bias, 1, &outputs, FRUGAL_ZERO, 0);
    return frugal_apply(g, "matmul", name, (int[]){ x, w, b }, 3, "tb=1");
}

static int build(void *context, struct frugal_graph *g, int64_t batch, int training)
{
    (void)context;
    (void)training;
    int x    = frugal_input(g, "x", FRUGAL_F32, 2, (int64_t[]){ batch, 2 });
    int y    = frugal_input(g, "y", FRUGAL_I32, 1, &batch);
    int h    = frugal_apply(g, "mish", "mish", (int[]){ dense(g, "in", x, HIDDEN) }, 1, NULL);
    int z    = dense(g, "out", h, 2);
    int loss = frugal_apply(g, "xent", "xent", (int[]){ z, y }, 2, NULL);
    int hits = frugal_apply(g, "hits", "hits", (int[]){ z, y }, 2, NULL);
    frugal_output(g, frugal_apply(g, "sum", "loss", &loss, 1, "axis=0 count=1"), "loss");
    frugal_output(g, frugal_apply(g, "sum", "hits", &hits, 1, "axis=0 count=1"), "hits");
    return 0;
}

/* Points of a Weyl sequence in [-1, 1)^2; inside the ring of radius 0.7 is class 1. */
static void points(int first, float *x, int *y)
{
    for (int i = 0; i < BATCH; i++) {
        double n     = first + i;
        x[2 * i]     = (float)(2 * fmod(n * 0.7548776662466927, 1.0) - 1);
        x[2 * i + 1] = (float)(2 * fmod(n * 0.5698402909980532, 1.0) - 1);
        y[i]         = x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1] < 0.49f;
    }
}

static int fail(const char *why)
{
    fprintf(stderr, "own_layer: %s\n", why);
    return 1;
}

int main(void)
{
    static const struct frugal_op mish = { "mish", 1, 1, same_shape, mish_run, mish_grad };
    static const struct frugal_op grad = { "mish_grad", 2, 1, same_shape, mish_grad_run, NULL };
    struct frugal_config config = { .batch = BATCH, .eval_batch = BATCH, .seed = 1,
                                    .optimiser = "adam", .lr = 0.02 };
    char                 why[FRUGAL_TEXT_MAX];
    float                x[2 * BATCH], hits;
    int                  y[BATCH];
    if (frugal_op_register(&mish, why) || frugal_op_register(&grad, why)) return fail(why);
    struct frugal_run *run = frugal_start(&config, build, NULL, why);
    if (!run) return fail(why);
    for (int step = 0; step < STEPS; step++) {
        points(step * BATCH, x, y);
        frugal_put(run, "x", x, sizeof x);
        frugal_put(run, "y", y, sizeof y);
        double loss = frugal_step(run, BATCH);
        if (step % 100 == 0) printf("step %3d  loss %.4f\n", step, loss);
    }
    points(1000000, x, y); /* not trained on */
    frugal_put(run, "x", x, sizeof x);
    frugal_put(run, "y", y, sizeof y);
    double loss = frugal_evaluate(run, BATCH);
    frugal_get(run, "hits", &hits, sizeof hits);
    printf("held out: loss %.4f, %.0f of %d right, %lld bytes of memory\n", loss, (double)hits,
           BATCH, (long long)frugal_memory_bytes(run));
    frugal_stop(run);
    return hits >= 58 ? 0 : fail("the ring was not learnt");
}
