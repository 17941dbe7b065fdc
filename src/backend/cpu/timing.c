/* timing.c - the least of a few runs counts: whatever disturbs only adds. */
#include "backend/cpu/timing.h"
#include "backend/cpu/flush.h"
#include "base/os.h"
#include "base/rng.h"
#include <string.h>

enum { REPEATS_MIN = 3, REPEATS_MAX = 50, ALIGN_BYTES = 64 };

/* How long to try: a node among many, or a figure that is shown. */
static const i64 node_ns = 2000000, rate_ns = 15000000;

/* Calls that take the same time have the same key; the address of random numbers takes none. */
static u64 key_of(const struct call *c)
{
    struct attrs at = *c->at;
    at.key          = 0;
    u64 key         = rng_mix((u64)c->op + 1);
    key             = rng_mix(key ^ str_hash((struct str){ (const char *)&at, sizeof at }));
    i32 ins = c->in_count + op_then_inputs(c->at), outs = op_result_count(c->op, c->at);
    for (i32 i = 0; i < ins + outs; i++) {
        struct type t = i < ins ? c->in[i].type : c->out[i - ins].type;
        key           = rng_mix(key ^ (u64)t.dtype << 8 ^ (u64)t.shape.rank);
        for (i32 k = 0; k < t.shape.rank; k++) key = rng_mix(key ^ (u64)t.shape.dim[k]);
    }
    return key;
}

static i64 room(i64 bytes) { return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

static u8 *lend(struct tensor *t, u8 *at)
{
    t->data = at;
    return at + room(type_bytes(t->type));
}

/* Zeros do as weights, activations, tokens and classes; but sequences have their full length, and packed
 * ones share all rows evenly. */
static void fill_lengths(const struct call *c)
{
    const struct tensor *lens = &c->in[MAX(0, c->in_count - 1 - (c->at->p > 0))], *x = &c->in[0];
    bool                 packed = c->op == OP_ATTENTION_PACKED || c->op == OP_ATTENTION_PACKED_GRAD;
    for (i64 b = 0; packed && b < lens->count; b++)
        ((i32 *)lens->data)[b] = (i32)(x->type.shape.dim[0] * b / (lens->count - 1));
    if ((c->op != OP_ATTENTION && c->op != OP_ATTENTION_GRAD) || lens->type.dtype != DT_I32) return;
    for (i64 b = 0; b < lens->count; b++) ((i32 *)lens->data)[b] = (i32)x->type.shape.dim[1];
}

static f64 least_of_runs(const struct call *c, const struct kernel *k, i64 enough_ns)
{
    struct os *os    = os_real();
    i64        least = INT64_MAX, start = os->now_ns(os), now = start;
    u64        mode = flush_begin();
    kernel_run(k, c); /* the first finds its code and data cold */
    for (i32 i = 0; i < REPEATS_MIN || (i < REPEATS_MAX && now - start < enough_ns); i++) {
        i64 begin = os->now_ns(os);
        kernel_run(k, c);
        now   = os->now_ns(os);
        least = MIN(least, now - begin);
    }
    flush_end(mode);
    return (f64)least * 1e-9;
}

static f64 measure(const struct call *given, const struct kernel *k, i64 enough_ns)
{
    struct tensor in[OP_IN_MAX], out[OP_OUT_MAX];
    struct call   c     = *given;
    i64           bytes = room(k->work ? k->work(given) : 0);
    i32           ins = c.in_count + op_then_inputs(c.at), outs = op_result_count(c.op, c.at);
    memcpy(in, given->in, (size_t)ins * sizeof *in);
    memcpy(out, given->out, (size_t)outs * sizeof *out);
    for (i32 i = 0; i < ins; i++) bytes += room(type_bytes(in[i].type));
    for (i32 i = 0; i < outs; i++) bytes += room(type_bytes(out[i].type));
    u8 *pages = pages_open(MAX(bytes, 1)), *at = pages;
    if (!pages) return 0;
    memset(pages, 0, (size_t)bytes); /* written once, or all of it would be one page of zeros */
    for (i32 i = 0; i < ins; i++) at = lend(&in[i], at);
    for (i32 i = 0; i < outs; i++) at = lend(&out[i], at);
    c.in         = in;
    c.out        = out;
    c.work       = at;
    c.work_bytes = k->work ? k->work(given) : 0;
    fill_lengths(&c);
    f64 seconds = least_of_runs(&c, k, enough_ns);
    pages_close(pages, MAX(bytes, 1));
    return seconds;
}

f64 timing_of(struct timings *t, const struct call *c, const struct kernel *k)
{
    if (c->op >= OP_COUNT || (op_info(c->op)->attrs & A_ranks))
        return 0; /* others would have to come along */
    u64 key = key_of(c);
    for (i32 i = 0; i < t->count; i++) {
        if (t->key[i] == key) return t->seconds[i];
    }
    f64 seconds = measure(c, k, node_ns);
    if (t->count < TIMINGS_MAX) {
        t->key[t->count]       = key;
        t->seconds[t->count++] = seconds;
    }
    return seconds;
}

/* --- the machine's rates --- */

enum {
    PRODUCT_SIDE = 512,
    SUM_COUNT    = 4 << 20
}; /* 3 x 16 MiB: more than a share of a last cache */

static f64 rate_of(i32 op, const struct attrs *at, struct type type, struct pool *pool, f64 work)
{
    struct tensor        t     = { NULL, type, shape_count(type.shape) };
    struct tensor        in[2] = { t, t }, out[OP_OUT_MAX] = { t };
    struct call          c = { op, at, in, 2, out, NULL, 0, pool, NULL };
    const struct kernel *k = kernel_choose(&c, false);
    if (k->op < 0) return 0; /* the reference: correct, and no measure of a machine */
    f64 seconds = measure(&c, k, rate_ns);
    return seconds > 0 ? work / seconds : 0;
}

void timing_rates(struct target *t, struct pool *pool)
{
    static const enum dtype types[] = { DT_F32, DT_BF16, DT_F16, DT_F64 };
    struct attrs            at      = { 0 };
    f64                     n       = PRODUCT_SIDE;
    for (i32 i = 0; i < COUNT_OF(types); i++) {
        struct type square   = type_of(types[i], shape_2(PRODUCT_SIDE, PRODUCT_SIDE));
        t->flops_s[types[i]] = rate_of(OP_MATMUL, &at, square, pool, 2 * n * n * n);
    }
    struct type vector   = type_of(DT_F32, shape_1(SUM_COUNT));
    t->bandwidth_bytes_s = rate_of(OP_ADD, &at, vector, pool, 3.0 * SUM_COUNT * sizeof(f32));
}
