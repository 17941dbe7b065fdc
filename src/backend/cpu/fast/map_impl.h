/* map_impl.h - element by element, in vectors. Each is read before it is written, so any operand
 * may be the result.
 *
 * A map is a function of one or two vectors; the table MAPS makes blocks and kernels of it.
 * Comparisons stand so that what is no number goes through, as in the reference. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/simd_math.h"

enum { MAP_ITEMS = 16 * 1024 }; /* in a block: a few microseconds */

struct map {
    const f32 *a, *b;
    f32       *y;
    i64        count, b_count;
    f32        mul, add, cap, over_cap;
};

static struct map map_of(const struct call *c)
{
    struct map m = { .a = c->in[0].data, .y = c->out[0].data, .count = c->out[0].count };
    m.b          = c->in_count > 1 ? c->in[1].data : NULL;
    m.b_count    = c->in_count > 1 ? c->in[1].count : 0;
    m.mul        = (f32)c->at->mul;
    m.add        = (f32)c->at->add;
    m.cap        = (f32)c->at->cap;
    m.over_cap   = (f32)(1 / c->at->cap);
    return m;
}

/* ---- of one operand */

typedef const struct map *args;

V_INLINE vf f_scale(args m, vf x) { return v_fma(x, v_set(m->mul), v_set(m->add)); }
V_INLINE vf f_relu(args m, vf x) { return (void)m, v_select(x < v_zero(), v_zero(), x); }
V_INLINE vf f_relu2(args m, vf x) { return (void)m, v_select(x < v_zero(), v_zero(), x * x); }
V_INLINE vf f_silu(args m, vf x) { return (void)m, x / (v_set(1) + v_exp(-x)); }
V_INLINE vf f_tanh(args m, vf x) { return (void)m, v_tanh(x); }
V_INLINE vf f_sigmoid(args m, vf x) { return (void)m, v_sigmoid(x); }
V_INLINE vf f_exp(args m, vf x) { return (void)m, v_exp(x); }
V_INLINE vf f_log(args m, vf x) { return (void)m, v_log(x); }
V_INLINE vf f_sqrt(args m, vf x) { return (void)m, v_sqrt(x); }
V_INLINE vf f_softcap(args m, vf x) { return v_tanh(x * v_set(m->over_cap)) * v_set(m->cap); }

/* (1 + tanh(u)) / 2 = sigmoid(2u), so gelu is x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
static const f32 gelu_2scale = 1.5957691216057308f, gelu_cubic = 0.044715f;

V_INLINE vf f_gelu(args m, vf x)
{
    (void)m;
    vf u2 = v_set(gelu_2scale) * x * v_fma(v_set(gelu_cubic) * x, x, v_set(1));
    return x / (v_set(1) + v_exp(-u2));
}

/* ---- of two */

V_INLINE vf f_add(args m, vf a, vf b) { return (void)m, a + b; }
V_INLINE vf f_sub(args m, vf a, vf b) { return (void)m, a - b; }
V_INLINE vf f_mul(args m, vf a, vf b) { return (void)m, a * b; }
V_INLINE vf f_div(args m, vf a, vf b) { return (void)m, a / b; }

V_INLINE vf f_relu_grad(args m, vf dy, vf y)
{
    return (void)m, v_select(y <= v_zero(), v_zero(), dy);
}

V_INLINE vf f_relu2_grad(args m, vf dy, vf x)
{
    return (void)m, v_select(x < v_zero(), v_zero(), (x + x) * dy);
}

/* s + x ds/dx, ds/dx = s (1 - s) d(2u)/dx. Beyond 16 the slope is 0 or 1, and x^3 must not run
 * away. */
V_INLINE vf f_gelu_grad(args m, vf dy, vf x)
{
    (void)m;
    x     = v_max(v_set(-16), v_min(v_set(16), x));
    vf xx = v_set(gelu_cubic) * x * x;
    vf s  = v_sigmoid(v_set(gelu_2scale) * x * (xx + v_set(1)));
    vf du = v_set(gelu_2scale) * v_fma(xx, v_set(3), v_set(1));
    return dy * v_fma(x * du, s * (v_set(1) - s), s);
}

V_INLINE vf silu_slope(vf x)
{
    vf s = v_sigmoid(x);
    return s * v_fma(x, v_set(1) - s, v_set(1));
}

V_INLINE vf f_silu_grad(args m, vf dy, vf x) { return (void)m, silu_slope(x) * dy; }
V_INLINE vf f_tanh_grad(args m, vf dy, vf y) { return (void)m, v_fma(-y, y, v_set(1)) * dy; }

V_INLINE vf f_sigmoid_grad(args m, vf dy, vf y) { return (void)m, (v_set(1) - y) * y * dy; }

V_INLINE vf f_softcap_grad(args m, vf dy, vf y)
{
    vf t = y * v_set(m->over_cap);
    return v_fma(-t, t, v_set(1)) * dy;
}

/* x, t -> loss: max(x, 0) - x t + log(1 + exp(-|x|)) */
V_INLINE vf f_bce(args m, vf x, vf t)
{
    (void)m;
    vf top = v_select(x < v_zero(), v_zero(), x);
    return v_fma(-x, t, top) + v_log1p(v_exp(-v_abs(x)));
}

/* ---- blocks: the function is a constant at each call, so it is compiled into the loop */

V_INLINE void run1(const struct map *m, i64 block, vf (*f)(args, vf))
{
    i64 i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, m->count);
    for (; i + V_LANES <= end; i += V_LANES) v_store(m->y + i, f(m, v_load(m->a + i)));
    if (i < end) v_store_n(m->y + i, f(m, v_load_n(m->a + i, end - i)), end - i);
}

/* Numbers [i, end) of a and y, with b[i - shift] and so on. */
V_INLINE void run2_range(const struct map *m, i64 i, i64 end, i64 shift, vf (*f)(args, vf, vf))
{
    for (; i + V_LANES <= end; i += V_LANES)
        v_store(m->y + i, f(m, v_load(m->a + i), v_load(m->b + (i - shift))));
    if (i == end) return;
    vm rest = v_first(end - i);
    vf b    = v_load_m(m->b + (i - shift), rest);
    v_store_m(m->y + i, f(m, v_load_m(m->a + i, rest), b), rest);
}

V_INLINE void run2_number(const struct map *m, i64 i, i64 end, vf (*f)(args, vf, vf))
{
    vf b = v_set(m->b[0]);
    for (; i + V_LANES <= end; i += V_LANES) v_store(m->y + i, f(m, v_load(m->a + i), b));
    if (i < end) v_store_n(m->y + i, f(m, v_load_n(m->a + i, end - i), b), end - i);
}

/* The second operand is as large as the first, one number, or repeated: then we go from one of
 * its ends to the next. */
V_INLINE void run2(const struct map *m, i64 block, vf (*f)(args, vf, vf))
{
    i64 i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, m->count);
    if (m->b_count == 1) {
        run2_number(m, i, end, f);
        return;
    }
    for (i64 stop; i < end; i = stop) {
        i64 shift = i / m->b_count * m->b_count;
        stop      = MIN(end, shift + m->b_count);
        run2_range(m, i, stop, shift, f);
    }
}

/*           op            function        operands */
#define MAPS(MAP)                                                                                  \
    MAP(ADD, f_add, 2)                                                                             \
    MAP(SUB, f_sub, 2)                                                                             \
    MAP(MUL, f_mul, 2)                                                                             \
    MAP(DIV, f_div, 2)                                                                             \
    MAP(SCALE, f_scale, 1)                                                                         \
    MAP(RELU, f_relu, 1)                                                                           \
    MAP(RELU_GRAD, f_relu_grad, 2)                                                                 \
    MAP(RELU2, f_relu2, 1)                                                                         \
    MAP(RELU2_GRAD, f_relu2_grad, 2)                                                               \
    MAP(GELU, f_gelu, 1)                                                                           \
    MAP(GELU_GRAD, f_gelu_grad, 2)                                                                 \
    MAP(SILU, f_silu, 1)                                                                           \
    MAP(SILU_GRAD, f_silu_grad, 2)                                                                 \
    MAP(TANH, f_tanh, 1)                                                                           \
    MAP(TANH_GRAD, f_tanh_grad, 2)                                                                 \
    MAP(SIGMOID, f_sigmoid, 1)                                                                     \
    MAP(SIGMOID_GRAD, f_sigmoid_grad, 2)                                                           \
    MAP(EXP, f_exp, 1)                                                                             \
    MAP(LOG, f_log, 1)                                                                             \
    MAP(SQRT, f_sqrt, 1)                                                                           \
    MAP(SOFTCAP, f_softcap, 1)                                                                     \
    MAP(SOFTCAP_GRAD, f_softcap_grad, 2)                                                           \
    MAP(BCE, f_bce, 2)

#define MAP(op, f, operands)                                                                       \
    static void f##_block(void *context, i64 block, i32 worker)                                    \
    {                                                                                              \
        (void)worker;                                                                              \
        run##operands(context, block, f);                                                          \
    }
MAPS(MAP)
#undef MAP

static pool_fn *const map_blocks[OP_COUNT] = {
#define MAP(op, f, operands) [OP_##op] = f##_block,
    MAPS(MAP)
#undef MAP
};

static void map(const struct call *c)
{
    struct map m = map_of(c);
    pool_run(c->pool, fast_div_up(m.count, MAP_ITEMS), map_blocks[c->op], &m);
}

/* ---- bce_grad: three operands */

static void bce_grad_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct call *c = context;
    const f32         *d = c->in[0].data, *x = c->in[1].data, *t = c->in[2].data;
    f32               *y = c->out[0].data;
    i64                i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, c->out[0].count);
    for (; i < end; i += V_LANES) {
        vm m = v_first(MIN(end - i, V_LANES));
        vf s = v_sigmoid(v_load_m(x + i, m));
        v_store_m(y + i, v_load_m(d + i, m) * (s - v_load_m(t + i, m)), m);
    }
}

static void bce_grad(const struct call *c)
{
    struct call copy = *c;
    pool_run(c->pool, fast_div_up(c->out[0].count, MAP_ITEMS), bce_grad_block, &copy);
}

/* ---- swiglu: a row of x is [gate, value], each as wide as a row of y */

struct swiglu {
    const f32 *dy, *x;
    f32       *y;
    i64        rows, width, rows_in_block;
};

static struct swiglu swiglu_of(const struct call *c, const struct tensor *narrow)
{
    struct swiglu s = { .width = shape_last(narrow->type.shape), .y = c->out[0].data };
    s.rows          = narrow->count / MAX(1, s.width);
    s.rows_in_block = fast_items(s.rows, s.width, MAP_ITEMS / 2);
    return s;
}

static void swiglu_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct swiglu *s   = context;
    i64                  row = block * s->rows_in_block, end = MIN(row + s->rows_in_block, s->rows);
    for (; row < end; row++) {
        const f32 *gate = s->x + row * 2 * s->width, *value = gate + s->width;
        f32       *y = s->y + row * s->width;
        for (i64 i = 0; i < s->width; i += V_LANES) {
            vm m = v_first(MIN(s->width - i, V_LANES));
            vf g = v_load_m(gate + i, m);
            v_store_m(y + i, g * v_sigmoid(g) * v_load_m(value + i, m), m);
        }
    }
}

static void swiglu_grad_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct swiglu *s   = context;
    i64                  row = block * s->rows_in_block, end = MIN(row + s->rows_in_block, s->rows);
    for (; row < end; row++) {
        const f32 *gate = s->x + row * 2 * s->width, *value = gate + s->width;
        const f32 *dy = s->dy + row * s->width;
        f32       *dx = s->y + row * 2 * s->width;
        for (i64 i = 0; i < s->width; i += V_LANES) {
            vm m = v_first(MIN(s->width - i, V_LANES));
            vf d = v_load_m(dy + i, m), g = v_load_m(gate + i, m), v = v_load_m(value + i, m);
            v_store_m(dx + i, d * v * silu_slope(g), m);
            v_store_m(dx + s->width + i, d * g * v_sigmoid(g), m);
        }
    }
}

static void swiglu(const struct call *c)
{
    struct swiglu s = swiglu_of(c, &c->out[0]);
    s.x             = c->in[0].data;
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), swiglu_block, &s);
}

static void swiglu_grad(const struct call *c)
{
    struct swiglu s = swiglu_of(c, &c->in[0]);
    s.dy            = c->in[0].data;
    s.x             = c->in[1].data;
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), swiglu_grad_block, &s);
}

/* ---- cast to f32, fill */

static bool cast_takes(const struct call *c)
{
    enum dtype from = c->in[0].type.dtype;
    return c->out[0].type.dtype == DT_F32 && (from == DT_U8 || from == DT_I32 || from == DT_F32);
}

static void cast_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct tensor *in = ((const struct call *)context)->in;
    f32                 *y  = ((const struct call *)context)->out[0].data;
    i64                  i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, in->count);
    if (in->type.dtype == DT_F32) memcpy(y + i, (f32 *)in->data + i, (size_t)(end - i) * sizeof *y);
    else if (in->type.dtype == DT_U8)
        for (; i < end; i++) y[i] = (f32)((const u8 *)in->data)[i];
    else
        for (; i < end; i++) y[i] = (f32)((const i32 *)in->data)[i];
}

static void cast(const struct call *c)
{
    struct call copy = *c;
    pool_run(c->pool, fast_div_up(c->in[0].count, MAP_ITEMS), cast_block, &copy);
}

static void fill_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct call *c = context;
    f32               *y = c->out[0].data, value = (f32)c->at->add;
    i64                i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, c->out[0].count);
    for (; i < end; i++) y[i] = value;
}

static void fill(const struct call *c)
{
    struct call copy = *c;
    pool_run(c->pool, fast_div_up(c->out[0].count, MAP_ITEMS), fill_block, &copy);
}

const struct kernel ISA_FN(kernels_map)[] = {
#define MAP(op, f, operands) { OP_##op, "map_" ISA_NAME, ISA_HERE, fast_all_f32, map, NULL },
    MAPS(MAP)
#undef MAP
        { OP_BCE_GRAD, "map_" ISA_NAME, ISA_HERE, fast_all_f32, bce_grad, NULL },
    { OP_SWIGLU, "map_" ISA_NAME, ISA_HERE, fast_all_f32, swiglu, NULL },
    { OP_SWIGLU_GRAD, "map_" ISA_NAME, ISA_HERE, fast_all_f32, swiglu_grad, NULL },
    { OP_CAST, "map_" ISA_NAME, ISA_HERE, cast_takes, cast, NULL },
    { OP_FILL, "map_" ISA_NAME, ISA_HERE, fast_all_f32, fill, NULL },
};
const i32 ISA_COUNT(kernels_map) = (i32)COUNT_OF(ISA_FN(kernels_map));
