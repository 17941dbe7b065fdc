/* map_impl.h - element by element, in vectors. Each is read before it is written, so any operand
 * may be the result.
 *
 * A map is a function of one or two vectors; the table MAPS makes blocks and kernels of it.
 * Comparisons stand so that what is no number goes through, as in the reference. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/simd_math.h"
#include "backend/cpu/fast/storage.h"
#include "backend/cpu/fast/then.h"

enum {
    MAP_ITEMS    = 16 * 1024, /* in a block: a few microseconds */
    THEN_VECTORS = 4,         /* pass through all maps of a chain before the next */
};

struct map {
    const void *a, *b;
    void       *y;
    i64         count, b_count;
    f32         mul, add, cap, over_cap;
};

static struct map map_of(const struct call *c)
{
    struct map m = { .a = c->in[0].data, .y = then_target(c), .count = c->out[0].count };
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

/* The exact gelu is x Phi(x), Phi(x) = 1 - Phi(-x). Phi(-|x|) exp(x^2/2) is t times a polynomial of
 * t = 1 / (1 + 0.35 |x|) of degree 8, off by 3.2e-8 of its value at most: least squares on Chebyshev's points from
 * 0 to 14.5, weighted anew until the largest error is least (Lawson 1961). What x^2 loses by rounding is put right by
 * the factor 1 - rest. */
V_INLINE vf normal_tail(vf x, vf *bell) /* Phi(-|x|); bell: exp(-x^2/2) */
{
    static const f32 c[] = { 0.144030881f, -0.255838925f, 0.159319607f, -0.0232122939f,
                             0.105552478f, 0.119821294f,  0.139863515f, 0.139621307f };

    vf a   = v_min(v_set(14.5f), v_abs(x));       /* exp is 0 beyond */
    vf top = (vf)((vi)a & ~0xfff), low = a - top; /* 12 bits each: their products are exact */
    vf h    = v_set(0.5f) * a * a;
    vf rest = v_set(0.5f) * ((top * top - (h + h)) + v_set(2) * top * low + low * low);
    vf e    = v_exp(-h);
    vf t    = v_set(1) / v_fma(a, v_set(0.35f), v_set(1));
    vf p    = v_set(-0.0291578777f);
    for (int i = 0; i < 8; i++) p = v_fma(p, t, v_set(c[i]));
    *bell = v_fma(-e, rest, e);
    return p * t * *bell;
}

V_INLINE vf f_gelu_erf(args m, vf x)
{
    vf bell, tail = normal_tail(x, &bell);
    vf y = x * v_select(x < v_zero(), tail, v_set(1) - tail);
    return (void)m,
           v_select(x == x, y, x); /* what is no number as it came: chains give the same bits */
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

/* Phi(x) + x exp(-x^2/2) / sqrt(2 pi) */
V_INLINE vf f_gelu_erf_grad(args m, vf dy, vf x)
{
    (void)m;
    vf bell, tail = normal_tail(x, &bell);
    vf most  = v_max(v_set(-14.5f), v_min(v_set(14.5f), x)); /* 0 times infinity is no number */
    vf cdf   = v_select(x < v_zero(), tail, v_set(1) - tail);
    vf slope = v_fma(most * bell, v_set(0.398942280f), cdf);
    return dy *
           v_select(x == x, slope, x); /* what is no number as it came: chains give the same bits */
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
V_INLINE vf bce_loss(vf x, vf t)
{
    vf top = v_select(x < v_zero(), v_zero(), x);
    return v_fma(-x, t, top) + v_log1p(v_exp(-v_abs(x)));
}

/* ---- blocks: function and storage are constants at each call, so they are compiled into the loop */

V_INLINE void run1(const struct map *m, i64 block, vf (*f)(args, vf), const enum dtype t)
{
    const void *a = m->a;
    void       *y = m->y;
    i64         i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, m->count);
    for (; i + V_LANES <= end; i += V_LANES) v_put(y, i, f(m, v_get(a, i, v_all, t)), v_all, t);
    vm rest = v_first(end - i);
    if (i < end) v_put(y, i, f(m, v_get(a, i, rest, t)), rest, t);
}

/* `count` numbers from each address on. */
V_INLINE void run2_range(const struct map *m, void *y, const void *a, const void *b, i64 count,
                         vf (*f)(args, vf, vf), const enum dtype t)
{
    i64 i = 0;
    for (; i + V_LANES <= count; i += V_LANES)
        v_put(y, i, f(m, v_get(a, i, v_all, t), v_get(b, i, v_all, t)), v_all, t);
    vm rest = v_first(count - i);
    if (i < count) v_put(y, i, f(m, v_get(a, i, rest, t), v_get(b, i, rest, t)), rest, t);
}

V_INLINE void run2_number(const struct map *m, void *y, const void *a, vf b, i64 count,
                          vf (*f)(args, vf, vf), const enum dtype t)
{
    i64 i = 0;
    for (; i + V_LANES <= count; i += V_LANES)
        v_put(y, i, f(m, v_get(a, i, v_all, t), b), v_all, t);
    vm rest = v_first(count - i);
    if (i < count) v_put(y, i, f(m, v_get(a, i, rest, t), b), rest, t);
}

/* The second operand is as large as the first, one number, or repeated: then we go from one of
 * its ends to the next. */
V_INLINE void run2(const struct map *m, i64 block, vf (*f)(args, vf, vf), const enum dtype t)
{
    i64 i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, m->count);
    if (m->b_count == 1) {
        vf b = v_set(v_get_1(m->b, 0, t));
        run2_number(m, v_at(m->y, i, t), v_at(m->a, i, t), b, end - i, f, t);
        return;
    }
    for (i64 count; i < end; i += count) {
        i64 from = i % m->b_count;
        count    = MIN(end - i, m->b_count - from);
        run2_range(m, v_at(m->y, i, t), v_at(m->a, i, t), v_at(m->b, from, t), count, f, t);
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
    MAP(GELU_ERF, f_gelu_erf, 1)                                                                   \
    MAP(GELU_ERF_GRAD, f_gelu_erf_grad, 2)                                                         \
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
    MAP(SOFTCAP_GRAD, f_softcap_grad, 2)

#define MAP(op, f, operands)                                                                       \
    V_INLINE void f##_block(const struct map *m, i64 block, const enum dtype t)                    \
    {                                                                                              \
        run##operands(m, block, f, t);                                                             \
    }                                                                                              \
    BY_STORAGE(f##_block)
MAPS(MAP)
#undef MAP

static pool_fn *const *const map_blocks[OP_COUNT] = {
#define MAP(op, f, operands) [OP_##op] = f##_block_by,
    MAPS(MAP)
#undef MAP
};

/* ---- chains: one loop over all operands, so that memory is asked for all of them at once. Passing
 * from map to map block by block is slower than passes of their own: bench/results/fuse.md */

struct steps {
    struct map  m; /* attributes */
    const void *from;
    void       *keep, *to; /* keep: what follows the first map; may be NULL */
    i32         count, op[1 + THEN_MAX];
    const void *b[1 + THEN_MAX]; /* as large as the result */
};

/* `n` vectors, the last of them in part. */
V_INLINE void step_run(const struct steps *s, i32 step, vf *x, i64 i, const int n, vm last,
                       const enum dtype t)
{
#define OPERAND_1
#define OPERAND_2 , v_get(s->b[step], i + j * V_LANES, j < n - 1 ? v_all : last, t)
#define MAP(op, f, operands)                                                                       \
    case OP_##op:                                                                                  \
        for (int j = 0; j < n; j++) x[j] = v_stored(f(&s->m, x[j] OPERAND_##operands), t);         \
        break;
    switch (s->op[step]) {
        MAPS(MAP)
    }
#undef MAP
#undef OPERAND_1
#undef OPERAND_2
}

V_INLINE void steps_run(const struct steps *s, i64 i, const int n, vm last, const enum dtype t)
{
    vf x[THEN_VECTORS];
    for (int j = 0; j < n; j++) x[j] = v_get(s->from, i + j * V_LANES, j < n - 1 ? v_all : last, t);
    for (i32 step = 0; step < s->count; step++) {
        step_run(s, step, x, i, n, last, t);
        for (int j = 0; j < n && !step && s->keep; j++)
            v_put(s->keep, i + j * V_LANES, x[j], j < n - 1 ? v_all : last, t);
    }
    for (int j = 0; j < n; j++) v_put(s->to, i + j * V_LANES, x[j], j < n - 1 ? v_all : last, t);
}

struct range { /* of the numbers of a result */
    const struct steps *s;
    i64                 begin, end;
};

V_INLINE void range_block(const struct range *r, i64 block, const enum dtype t)
{
    i64 i = r->begin + block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, r->end);
    for (; i + THEN_VECTORS * V_LANES <= end; i += THEN_VECTORS * V_LANES)
        steps_run(r->s, i, THEN_VECTORS, v_all, t);
    for (; i < end; i += V_LANES) steps_run(r->s, i, 1, v_first(MIN(end - i, V_LANES)), t);
}

BY_STORAGE(range_block)

/* The chain of a call: with_op, beginning with the call's own map, else with what its kernel has put
 * there. */
static struct steps steps_of(const struct call *c, bool with_op)
{
    const struct chain  *then    = &c->at->then;
    const struct tensor *operand = c->in + c->in_count;
    struct steps         s       = { .m = map_of(c), .to = c->out[0].data };
    s.from                       = with_op ? c->in[0].data : then_target(c);
    if (with_op) {
        s.keep          = then->keep ? then_target(c) : NULL;
        s.b[s.count]    = s.m.b;
        s.op[s.count++] = c->op;
    }
    for (i32 i = 0; i < then->count; i++) {
        if (op_info(then->op[i])->in_min == 2) s.b[s.count] = (operand++)->data;
        s.op[s.count++] = then->op[i];
    }
    return s;
}

/* Numbers [begin, end) of the result; a single map has a loop of its own. */
static void run_range(const struct call *c, const struct steps *s, struct pool *pool, i64 begin,
                      i64 end)
{
    enum dtype   t      = c->out[0].type.dtype;
    struct map   m      = s->m;
    struct range r      = { s, begin, end };
    pool_fn     *f      = s->count == 1 ? map_blocks[s->op[0]][t] : range_block_by[t];
    void        *over   = s->count == 1 ? (void *)&m : (void *)&r;
    i64          blocks = fast_div_up(end - begin, MAP_ITEMS);
    m.a                 = v_at(s->from, begin, t);
    m.y                 = v_at(s->to, begin, t);
    if (s->b[0]) m.b = v_at(s->b[0], begin, t);
    m.count = m.b_count = end - begin;
    if (pool) pool_run(pool, blocks, f, over);
    else fast_alone(blocks, f, over);
}

void ISA_FN(then_apply)(const struct call *c, struct then_part p)
{
    if (!c->at->then.count) return;
    bool         whole = p.width == p.stride; /* rows without a gap are one */
    struct steps s     = steps_of(c, false);
    for (i64 row = 0; row < (whole ? 1 : p.rows); row++, p.begin += p.stride)
        run_range(c, &s, NULL, p.begin, p.begin + p.width * (whole ? p.rows : 1));
}

void ISA_FN(then_all)(const struct call *c)
{
    if (!c->at->then.count) return;
    struct steps s = steps_of(c, false);
    run_range(c, &s, c->pool, 0, c->out[0].count);
}

/* An operand that is repeated keeps the map out of its own chain. */
static void map(const struct call *c)
{
    struct map m      = map_of(c);
    bool       joined = c->at->then.count && (c->in_count == 1 || c->in[1].count == m.count);
    if (joined) {
        struct steps s = steps_of(c, true);
        run_range(c, &s, c->pool, 0, m.count);
        return;
    }
    pool_run(c->pool, fast_div_up(m.count, MAP_ITEMS), map_blocks[c->op][fast_storage(c)], &m);
    ISA_FN(then_all)(c);
}

/* ---- bce and its gradient: the loss, its gradient and the targets are f32 */

V_INLINE void bce_block(const struct call *c, i64 block, const enum dtype t)
{
    const void *x      = c->in[0].data;
    const f32  *target = c->in[1].data;
    f32        *y      = c->out[0].data;
    i64         i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, c->out[0].count);
    for (; i < end; i += V_LANES) {
        vm m = v_first(MIN(end - i, V_LANES));
        v_store_m(y + i, bce_loss(v_get(x, i, m, t), v_load_m(target + i, m)), m);
    }
}

V_INLINE void bce_grad_block(const struct call *c, i64 block, const enum dtype t)
{
    const f32  *d = c->in[0].data, *target = c->in[2].data;
    const void *x = c->in[1].data;
    i64         i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, c->out[0].count);
    for (; i < end; i += V_LANES) {
        vm m = v_first(MIN(end - i, V_LANES));
        vf s = v_sigmoid(v_get(x, i, m, t));
        v_put(c->out[0].data, i, v_load_m(d + i, m) * (s - v_load_m(target + i, m)), m, t);
    }
}

BY_STORAGE(bce_block)
BY_STORAGE(bce_grad_block)

/* Blocks that see the call itself. */
static void run_call(const struct call *c, pool_fn *f)
{
    struct call copy = *c;
    pool_run(c->pool, fast_div_up(c->out[0].count, MAP_ITEMS), f, &copy);
}

static void bce(const struct call *c) { run_call(c, bce_block_by[fast_storage(c)]); }
static void bce_grad(const struct call *c) { run_call(c, bce_grad_block_by[fast_storage(c)]); }

/* ---- swiglu: a row of x is [gate, value], each as wide as a row of y */

struct swiglu {
    const void *dy, *x;
    void       *y;
    i64         rows, width, rows_in_block;
};

static struct swiglu swiglu_of(const struct call *c, const struct tensor *narrow)
{
    struct swiglu s = { .width = shape_last(narrow->type.shape), .y = c->out[0].data };
    s.rows          = narrow->count / MAX(1, s.width);
    s.rows_in_block = fast_items(s.rows, s.width, MAP_ITEMS / 2);
    return s;
}

V_INLINE void swiglu_block(const struct swiglu *s, i64 block, const enum dtype t)
{
    i64 row = block * s->rows_in_block, end = MIN(row + s->rows_in_block, s->rows);
    for (; row < end; row++) {
        const void *x = v_at(s->x, row * 2 * s->width, t);
        void       *y = v_at(s->y, row * s->width, t);
        for (i64 i = 0; i < s->width; i += V_LANES) {
            vm m = v_first(MIN(s->width - i, V_LANES));
            vf g = v_get(x, i, m, t);
            v_put(y, i, g * v_sigmoid(g) * v_get(x, s->width + i, m, t), m, t);
        }
    }
}

V_INLINE void swiglu_grad_block(const struct swiglu *s, i64 block, const enum dtype t)
{
    i64 row = block * s->rows_in_block, end = MIN(row + s->rows_in_block, s->rows);
    for (; row < end; row++) {
        const void *x = v_at(s->x, row * 2 * s->width, t), *dy = v_at(s->dy, row * s->width, t);
        void       *dx = v_at(s->y, row * 2 * s->width, t);
        for (i64 i = 0; i < s->width; i += V_LANES) {
            vm m = v_first(MIN(s->width - i, V_LANES));
            vf d = v_get(dy, i, m, t), g = v_get(x, i, m, t), v = v_get(x, s->width + i, m, t);
            v_put(dx, i, d * v * silu_slope(g), m, t);
            v_put(dx, s->width + i, d * g * v_sigmoid(g), m, t);
        }
    }
}

BY_STORAGE(swiglu_block)
BY_STORAGE(swiglu_grad_block)

static void swiglu(const struct call *c)
{
    struct swiglu s = swiglu_of(c, &c->out[0]);
    pool_fn      *f = swiglu_block_by[fast_storage(c)];
    s.x             = c->in[0].data;
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), f, &s);
}

static void swiglu_grad(const struct call *c)
{
    struct swiglu s = swiglu_of(c, &c->in[0]);
    pool_fn      *f = swiglu_grad_block_by[fast_storage(c)];
    s.dy            = c->in[0].data;
    s.x             = c->in[1].data;
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), f, &s);
}

/* ---- cast, fill */

typedef u8 vb __attribute__((vector_size(V_LANES)));

V_INLINE vf cast_get(const void *p, i64 i, vm m, const enum dtype from)
{
    vi whole = { 0 };
    vb bytes = { 0 };
    if (from != DT_U8 && from != DT_I32) return v_get(p, i, m, from);
    if (from == DT_I32) memcpy(&whole, (const i32 *)p + i, (size_t)m.lanes * sizeof(i32));
    else memcpy(&bytes, (const u8 *)p + i, (size_t)m.lanes);
    return v_from_i(from == DT_I32 ? whole : __builtin_convertvector(bytes, vi));
}

V_INLINE void cast_range(const struct call *c, i64 i, i64 end, const enum dtype from,
                         const enum dtype t)
{
    const void *x = c->in[0].data;
    void       *y = c->out[0].data;
    for (; i + V_LANES <= end; i += V_LANES) v_put(y, i, cast_get(x, i, v_all, from), v_all, t);
    vm rest = v_first(end - i);
    if (i < end) v_put(y, i, cast_get(x, i, rest, from), rest, t);
}

V_INLINE void cast_block(const struct call *c, i64 block, const enum dtype t)
{
    i64 i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, c->out[0].count);
    switch (c->in[0].type.dtype) {
    case DT_BF16: cast_range(c, i, end, DT_BF16, t); break;
    case DT_F16: cast_range(c, i, end, DT_F16, t); break;
    case DT_U8: cast_range(c, i, end, DT_U8, t); break;
    case DT_I32: cast_range(c, i, end, DT_I32, t); break;
    default: cast_range(c, i, end, DT_F32, t); break;
    }
}

V_INLINE void fill_block(const struct call *c, i64 block, const enum dtype t)
{
    i64 i = block * MAP_ITEMS, end = MIN(i + MAP_ITEMS, c->out[0].count);
    vf  v = v_set(t == DT_F32 ? (f32)c->at->add : f32_odd_from_f64(c->at->add));
    for (; i < end; i += V_LANES) v_put(c->out[0].data, i, v, v_first(MIN(end - i, V_LANES)), t);
}

BY_STORAGE(cast_block)
BY_STORAGE(fill_block)

/* i32 to f32 only: by way of f32 it would be rounded twice. Stochastic: dropout_impl.h. */
static bool cast_takes(const struct call *c)
{
    enum dtype from = c->in[0].type.dtype, to = c->out[0].type.dtype;
    if (c->at->stochastic || !cast_block_by[to] || from == DT_F64) return false;
    return from != DT_I32 || to == DT_F32;
}

static void cast(const struct call *c) { run_call(c, cast_block_by[c->out[0].type.dtype]); }
static void fill(const struct call *c) { run_call(c, fill_block_by[fast_storage(c)]); }

const struct kernel ISA_FN(kernels_map)[] = {
#define MAP(op, f, operands) { OP_##op, "map_" ISA_NAME, ISA_HERE, stored, map, NULL },
    MAPS(MAP)
#undef MAP
        { OP_BCE, "map_" ISA_NAME, ISA_HERE, stored, bce, NULL },
    { OP_BCE_GRAD, "map_" ISA_NAME, ISA_HERE, stored, bce_grad, NULL },
    { OP_SWIGLU, "map_" ISA_NAME, ISA_HERE, stored, swiglu, NULL },
    { OP_SWIGLU_GRAD, "map_" ISA_NAME, ISA_HERE, stored, swiglu_grad, NULL },
    { OP_CAST, "map_" ISA_NAME, ISA_HERE, cast_takes, cast, NULL },
    { OP_FILL, "map_" ISA_NAME, ISA_HERE, stored, fill, NULL },
};
const i32 ISA_COUNT(kernels_map) = (i32)COUNT_OF(ISA_FN(kernels_map));
