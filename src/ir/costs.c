/* costs.c - the cost rules: floating-point operations, and bytes read and written once each.
 * A multiply-add counts two. Bounds of an ideal machine: caches and padding are the backend's. */
#include "ir/collective.h"
#include "ir/ir_int.h"
#include "ir/muon.h"

static f64 bytes_of(struct type t) { return (f64)type_bytes(t); }

/* All inputs read, those that are changed in place written, and the first result written. */
static f64 traffic(const struct sig *s)
{
    f64 bytes = 0;
    for (i32 i = 0; i < s->in_count; i++)
        bytes += bytes_of(s->in[i]) * (s->op < OP_COUNT && op_writes(op_info(s->op), i) ? 2 : 1);
    return bytes + bytes_of(s->out[0]);
}

static f64 count(struct type t) { return (f64)shape_count(t.shape); }

/* Element-wise work: one operation an element of the larger side. Optimisers have no result:
 * their inputs say it all. */
struct cost cost_map(const struct sig *s)
{
    f64 n = count(s->out[0]);
    for (i32 i = 0; i < s->in_count; i++) n = MAX(n, count(s->in[i]));
    return (struct cost){ n, traffic(s) };
}

/* exp and tanh: about 20 operations as polynomials. */
struct cost cost_tanh(const struct sig *s)
{
    struct cost c = cost_map(s);
    c.flops *= 20;
    return c;
}

struct cost cost_free(const struct sig *s)
{
    (void)s;
    return (struct cost){ 0, 0 };
}

struct cost cost_matmul(const struct sig *s)
{
    struct shape a = s->in[0].shape;
    f64          k = (f64)a.dim[a.rank - (s->at->ta ? 2 : 1)];
    return (struct cost){ 2 * k * count(s->out[0]), traffic(s) };
}

/* Read once, written twice. */
struct cost cost_quantise(const struct sig *s)
{
    return (struct cost){ 2 * count(s->in[0]), bytes_of(s->in[0]) + 2 * bytes_of(s->out[0]) };
}

struct cost cost_matmul_fp8(const struct sig *s)
{
    return (struct cost){ 2 * (f64)s->in[0].shape.dim[1] * count(s->out[0]), traffic(s) };
}

/* Rows are gathered: the table is not read whole. */
struct cost cost_embedding(const struct sig *s)
{
    return (struct cost){ 0, bytes_of(s->in[1]) + 2 * bytes_of(s->out[0]) };
}

/* Of the table and its state the rows that are named: read and written. */
struct cost cost_rows(const struct sig *s)
{
    f64 rows = bytes_of(s->in[1]), bytes = rows + bytes_of(s->in[2]);
    for (i32 i = 0; i < s->in_count; i++)
        if (op_writes(op_info(s->op), i))
            bytes += 2 * (s->in[i].shape.rank == 2 ? rows : bytes_of(s->in[2]));
    return (struct cost){ 8 * count(s->in[1]), bytes };
}

struct cost cost_norm(const struct sig *s)
{
    return (struct cost){ 8 * count(s->in[0]), traffic(s) };
}

struct cost cost_add_norm(const struct sig *s)
{
    return (struct cost){ 9 * count(s->in[0]), traffic(s) + bytes_of(s->in[0]) };
}

static struct cost conv_cost(const struct sig *s, struct shape y, struct shape w)
{
    f64 taps = (f64)shape_span(w, 1, 4);
    return (struct cost){ 2 * taps * (f64)shape_count(y), traffic(s) };
}

struct cost cost_conv2d(const struct sig *s)
{
    return conv_cost(s, s->out[0].shape, s->in[1].shape);
}

struct cost cost_conv2d_grad_x(const struct sig *s)
{
    return conv_cost(s, s->in[0].shape, s->in[1].shape);
}

struct cost cost_conv2d_grad_w(const struct sig *s)
{
    return conv_cost(s, s->in[0].shape, s->out[0].shape);
}

struct cost cost_pool(const struct sig *s)
{
    f64 window = (f64)s->at->kernel * (f64)s->at->kernel;
    return (struct cost){ window * count(s->out[0]), traffic(s) };
}

/* Keys that a query sees, on average over a sequence of t: all, half of them if causal, fewer by a window.
 * Where documents end is known at run time only. */
static f64 keys_seen(const struct sig *s, f64 t)
{
    f64 window = (f64)s->at->window;
    if (!s->at->causal) return t;
    return window > 0 && window < t ? window - window * window / (2 * t) : t / 2;
}

/* Two products [T, keys, D] a head forward. */
static f64 attention_flops(const struct sig *s, struct shape qkv, f64 products)
{
    f64 t = (f64)qkv.dim[1];
    f64 d = (f64)qkv.dim[2] / ((f64)s->at->heads + 2 * (f64)s->at->kv_heads);
    return 2 * products * (f64)qkv.dim[0] * (f64)s->at->heads * t * keys_seen(s, t) * d;
}

struct cost cost_attention(const struct sig *s)
{
    return (struct cost){ attention_flops(s, s->in[0].shape, 2), traffic(s) };
}

/* Five products backward: scores again, dv, dp, dq, dk. */
struct cost cost_attention_grad(const struct sig *s)
{
    return (struct cost){ attention_flops(s, s->in[1].shape, 5), traffic(s) };
}

/* Lengths are known at run time only: as if all sequences had the mean of what the rows hold. */
static f64 packed_flops(const struct sig *s, struct type offsets, struct shape qkv, f64 products)
{
    f64 rows = (f64)qkv.dim[0], mean = rows / (count(offsets) - 1);
    f64 d = (f64)qkv.dim[1] / ((f64)s->at->heads + 2 * (f64)s->at->kv_heads);
    return 2 * products * (f64)s->at->heads * rows * keys_seen(s, MIN(mean, (f64)s->at->count)) * d;
}

struct cost cost_attention_packed(const struct sig *s)
{
    return (struct cost){ packed_flops(s, s->in[1], s->in[0].shape, 2), traffic(s) };
}

struct cost cost_attention_packed_grad(const struct sig *s)
{
    return (struct cost){ packed_flops(s, s->in[4], s->in[1].shape, 5), traffic(s) };
}

/* As if every row saw half of what its sequence may have; that is also what it reads of the cache. */
struct cost cost_attention_cached(const struct sig *s)
{
    struct shape qkv = s->in[0].shape, cache = s->in[1].shape;
    f64          keys = (f64)cache.dim[1] / 2, window = (f64)s->at->window, rows = (f64)qkv.dim[0];
    f64          d = (f64)qkv.dim[1] / ((f64)s->at->heads + 2 * (f64)s->at->kv_heads);
    if (window > 0) keys = MIN(keys, window);
    f64 read = rows * keys * (f64)cache.dim[2] * (f64)dtype_bytes(s->in[1].dtype);
    f64 own  = (f64)type_bytes(s->in[0]) + (f64)type_bytes(s->out[0]);
    return (struct cost){ 4 * (f64)s->at->heads * rows * keys * d, own + read };
}

/* max, exp, sum over the logits. */
struct cost cost_xent(const struct sig *s)
{
    f64 n = MAX(count(s->in[0]), count(s->in[1]));
    return (struct cost){ 22 * n, traffic(s) };
}

/* The products of Newton and Schulz; what is done once an element is nothing beside them. */
struct cost cost_muon(const struct sig *s)
{
    struct muon_sizes z = muon_sizes(s->in[0].shape);
    f64               g = (f64)z.gram, n = count(s->in[0]);
    return (struct cost){ MUON_STEPS * (4 * g * n + 2 * g * g * g), traffic(s) };
}

i64 work_none(const struct sig *s)
{
    (void)s;
    return 0;
}

/* Two matrices and two products of one with itself, all in f64. */
i64 work_muon(const struct sig *s)
{
    struct muon_sizes z = muon_sizes(s->in[0].shape);
    return 2 * (z.rows * z.columns + z.gram * z.gram) * dtype_bytes(DT_F64);
}

/* --- ranks: bytes that leave this one and that come, as of a ring (Patarasuk and Yuan 2009) --- */

static f64 others(const struct sig *s) { return (f64)(s->at->ranks - 1) / (f64)s->at->ranks; }

struct cost cost_gather(const struct sig *s)
{
    return (struct cost){ 0, 2 * others(s) * bytes_of(s->in[0]) };
}

struct cost cost_gather_parts(const struct sig *s)
{
    return (struct cost){ 0, 2 * others(s) * bytes_of(s->out[0]) };
}

/* A part of each other rank's is added up, and the sum goes to all. */
struct cost cost_reduce(const struct sig *s)
{
    return (struct cost){ others(s) * count(s->in[0]), 4 * others(s) * bytes_of(s->in[0]) };
}

struct cost cost_rows_reduce(const struct sig *s)
{
    f64 more = (f64)(s->at->ranks - 1);
    return (struct cost){ more * count(s->in[0]),
                          2 * more * (bytes_of(s->in[0]) + bytes_of(s->in[1])) };
}

i64 work_ranks(const struct sig *s)
{
    i64 all = shape_count(s->in[0].shape), item = dtype_bytes(s->in[0].dtype);
    i64 ranks = s->at->ranks;
    if (ranks == 1) return 0;
    if (s->op == OP_REDUCE_SCATTER) return 2 * ranks * item * ranks_scatter_chunk(all, item, ranks);
    return ranks_work_bytes(all, item, ranks);
}

i64 work_rows_reduce(const struct sig *s)
{
    i64 index = (s->at->ranks * type_bytes(s->in[1]) + 7) / 8 * 8; /* rows of f64 lie behind it */
    return s->at->ranks > 1 ? s->at->ranks * type_bytes(s->in[0]) + index : 0;
}
