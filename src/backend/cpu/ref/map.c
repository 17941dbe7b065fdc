/* map.c - element by element: each is read before it is written, so any operand may be the result.
 */
#include "backend/cpu/ref/ref_int.h"
#include "base/rng.h"

/* y = f(x) */
#define MAP(name, f)                                                                               \
    void name(const struct call *c)                                                                \
    {                                                                                              \
        for (i64 i = 0; i < c->out[0].count; i++) {                                                \
            f64 x = ref_load(&c->in[0], i);                                                        \
            ref_store(&c->out[0], i, (f));                                                         \
        }                                                                                          \
    }

/* y = f(a, b), the second repeated where it is only a tail of the first. */
#define MAP2(name, a, b, f)                                                                        \
    void name(const struct call *c)                                                                \
    {                                                                                              \
        for (i64 i = 0; i < c->out[0].count; i++) {                                                \
            f64 a = ref_load(&c->in[0], i);                                                        \
            f64 b = ref_load(&c->in[1], i % c->in[1].count);                                       \
            ref_store(&c->out[0], i, (f));                                                         \
        }                                                                                          \
    }

MAP2(ref_ADD, a, b, a + b)
MAP2(ref_SUB, a, b, a - b)
MAP2(ref_MUL, a, b, (a * b))
MAP2(ref_DIV, a, b, a / b)
MAP(ref_SCALE, c->at->add + x * c->at->mul)

/* Comparisons stand so that a NaN goes through: a run that diverges must show it. */
MAP(ref_RELU, x < 0 ? 0 : x)
MAP2(ref_RELU_GRAD, dy, y, y <= 0 ? 0 : dy)
MAP(ref_RELU2, x < 0 ? 0 : x * x)
MAP2(ref_RELU2_GRAD, dy, x, x < 0 ? 0 : 2 * x * dy)

/* Hendrycks and Gimpel, arXiv 1606.08415: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
static const f64 gelu_scale = 0.79788456080286535588, gelu_cubic = 0.044715;

static f64 gelu_tanh(f64 x) { return tanh(gelu_scale * (x + gelu_cubic * x * x * x)); }

static f64 gelu_slope(f64 x)
{
    f64 t = gelu_tanh(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
}

/* The exact one: x Phi(x), Phi the normal distribution. erfc, and not 1 + erf: it stays exact where it is small. */
static f64 normal_cdf(f64 x) { return 0.5 * erfc(x * -0.70710678118654752440); }
static f64 normal_pdf(f64 x) { return 0.39894228040143267794 * exp(-0.5 * x * x); }

static f64 silu_slope(f64 x)
{
    f64 s = ref_sigmoid(x);
    return s * (1 + x * (1 - s));
}

MAP(ref_GELU, 0.5 * x * (1 + gelu_tanh(x)))
MAP2(ref_GELU_GRAD, dy, x, gelu_slope(x) * dy)
MAP(ref_GELU_ERF, x *normal_cdf(x))
MAP2(ref_GELU_ERF_GRAD, dy, x, (normal_cdf(x) + x * normal_pdf(x)) * dy)
MAP(ref_SILU, x / (1 + exp(-x)))
MAP2(ref_SILU_GRAD, dy, x, silu_slope(x) * dy)
MAP(ref_TANH, tanh(x))
MAP2(ref_TANH_GRAD, dy, y, (1 - y * y) * dy)
MAP(ref_SIGMOID, ref_sigmoid(x))
MAP2(ref_SIGMOID_GRAD, dy, y, (1 - y) * y * dy)
MAP(ref_EXP, exp(x))
MAP(ref_LOG, log(x))
MAP(ref_SQRT, sqrt(x))
MAP(ref_SOFTCAP, tanh(x / c->at->cap) * c->at->cap)
MAP2(ref_SOFTCAP_GRAD, dy, y, (1 - y / c->at->cap * (y / c->at->cap)) * dy)

/* To floor(|x| / ulp + fraction) ulp, fraction in [0, 1) with 16 bits: all of a bf16's that are cut. */
f64 ref_round_at_random(f64 x, enum dtype to, u32 word)
{
    int exponent, mantissa = to == DT_BF16 ? 8 : 11, least = to == DT_BF16 ? -133 : -24;
    if (!isfinite(x)) return x;
    frexp(x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
    f64 ulp = ldexp(1, MAX(exponent - mantissa, least));
    return copysign(floor(fabs(x) / ulp + (word >> 16) * 0x1p-16) * ulp, x);
}

void ref_CAST(const struct call *c)
{
    const i32     *rng = c->in_count == 2 ? c->in[1].data : NULL;
    struct rng_key key = { .name = (u64)c->at->key };
    if (rng) {
        key.seed = (u64)(u32)rng[1] << 32 | (u32)rng[0];
        key.step = (u32)rng[2];
    }
    for (i64 i = 0; i < c->out[0].count; i++) {
        f64 x = ref_load(&c->in[0], i);
        if (rng) x = ref_round_at_random(x, c->at->dtype, rng_u32(key, (u64)i));
        ref_store(&c->out[0], i, x);
    }
}

void ref_FILL(const struct call *c)
{
    for (i64 i = 0; i < c->out[0].count; i++) ref_store(&c->out[0], i, c->at->add);
}

/* Rows of x are [gate, value], each as wide as a row of y. */
void ref_SWIGLU(const struct call *c)
{
    i64 width = shape_last(c->out[0].type.shape);
    for (i64 i = 0; i < c->out[0].count; i++) {
        i64 at   = i / width * 2 * width + i % width;
        f64 gate = ref_load(&c->in[0], at), value = ref_load(&c->in[0], at + width);
        ref_store(&c->out[0], i, gate * ref_sigmoid(gate) * value);
    }
}

void ref_SWIGLU_GRAD(const struct call *c)
{
    i64 width = shape_last(c->in[0].type.shape);
    for (i64 i = 0; i < c->in[0].count; i++) {
        i64 at   = i / width * 2 * width + i % width;
        f64 dy   = ref_load(&c->in[0], i);
        f64 gate = ref_load(&c->in[1], at), value = ref_load(&c->in[1], at + width);
        ref_store(&c->out[0], at, dy * value * silu_slope(gate));
        ref_store(&c->out[0], at + width, dy * gate * ref_sigmoid(gate));
    }
}

void ref_DROPOUT(const struct call *c)
{
    const i32     *rng  = c->in[1].data;
    i64            size = c->in[0].count / MAX(1, ref_dim(&c->in[0], 0)); /* of one sample */
    struct rng_key key  = { .seed = (u64)(u32)rng[1] << 32 | (u32)rng[0],
                            .name = (u64)c->at->key,
                            .step = (u32)rng[2] };
    for (i64 i = 0; i < c->out[0].count; i++) {
        i64 sample = i / size, element = i % size;
        if (c->in_count == 4) { /* packed rows */
            element += ref_index(&c->in[3], i / size) * size;
            sample = ref_index(&c->in[2], i / size);
        }
        key.sample = (u64)(u32)rng[3] + (u64)sample;
        bool keep  = sample >= 0 && rng_uniform(key, (u64)element) >= c->at->p;
        ref_store(&c->out[0], i, keep ? ref_load(&c->in[0], i) / (1 - c->at->p) : 0);
    }
}
