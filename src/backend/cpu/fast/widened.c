/* widened.c - an op on bf16 or f16 as the same op on f32: its operands are cast into the workspace,
 * the best f32 kernel runs there, and results are rounded when they are cast back. For matrix
 * products, attention and convolutions, whose arithmetic costs more than the casts, on every
 * processor and type that has no kernel of its own. */
#include "backend/cpu/fast/fast.h"

enum { OPERANDS_MAX = 6, ALIGN_BYTES = 64 };

struct widened {
    struct tensor        in[OPERANDS_MAX], out[OP_OUT_MAX];
    struct attrs         at; /* without the maps that follow: whoever runs us runs them */
    struct call          call;
    const struct kernel *kernel;
    i64                  bytes; /* of the workspace, the f32 kernel's own included */
};

static bool is_low(enum dtype d) { return d == DT_BF16 || d == DT_F16; }

static i64 aligned(i64 bytes) { return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

/* The operand itself, or its place in the workspace; data stay NULL where there is none. */
static struct tensor place(struct widened *w, const struct tensor *t, u8 *work)
{
    if (!is_low(t->type.dtype)) return *t;
    struct tensor wide = { work ? work + w->bytes : NULL, type_of(DT_F32, t->type.shape),
                           t->count };
    w->bytes += aligned(type_bytes(wide.type));
    return wide;
}

/* The call on f32 and its kernel, without that kernel's workspace: the pool may be missing. */
static void widen(const struct call *c, struct widened *w)
{
    i32 out_count = op_info(c->op)->out_count;
    w->bytes      = 0;
    w->at         = *c->at;
    w->at.then    = (struct chain){ 0 };
    for (i32 i = 0; i < c->in_count; i++) w->in[i] = place(w, &c->in[i], c->work);
    for (i32 i = 0; i < out_count; i++) w->out[i] = place(w, &c->out[i], c->work);
    w->call   = (struct call){ .op       = c->op,
                               .at       = &w->at,
                               .in       = w->in,
                               .in_count = c->in_count,
                               .out      = w->out,
                               .pool     = c->pool };
    w->kernel = kernel_choose(&w->call, false);
}

/* The f32 kernel's workspace lies behind the operands. */
static void add_work(const struct call *c, struct widened *w)
{
    w->call.work       = c->work ? (u8 *)c->work + w->bytes : NULL;
    w->call.work_bytes = w->kernel->work ? w->kernel->work(&w->call) : 0;
    w->bytes += w->call.work_bytes;
}

/* Some operand is low, none is f64, and the same on f32 would not end in the reference. */
static bool takes(const struct call *c)
{
    struct widened w;
    bool           any = false, wide = false;
    if (c->in_count > OPERANDS_MAX) return false;
    for (i32 i = 0; i < c->in_count; i++) any |= is_low(c->in[i].type.dtype);
    for (i32 i = 0; i < c->in_count; i++) wide |= c->in[i].type.dtype == DT_F64;
    if (!any || wide) return false;
    widen(c, &w);
    return w.kernel->run != ref_run;
}

static i64 work(const struct call *c)
{
    struct widened w;
    widen(c, &w);
    add_work(c, &w);
    return w.bytes;
}

static void cast(const struct tensor *from, const struct tensor *to, struct pool *pool)
{
    struct attrs at   = { .dtype = to->type.dtype };
    struct call  call = { OP_CAST, &at, from, 1, to, NULL, 0, pool, NULL };
    kernel_choose(&call, false)->run(&call);
}

static void run(const struct call *c)
{
    struct widened w;
    widen(c, &w);
    add_work(c, &w);
    for (i32 i = 0; i < c->in_count; i++)
        if (is_low(c->in[i].type.dtype)) cast(&c->in[i], &w.in[i], c->pool);
    w.kernel->run(&w.call);
    for (i32 i = 0; i < op_info(c->op)->out_count; i++)
        if (is_low(c->out[i].type.dtype)) cast(&w.out[i], &c->out[i], c->pool);
}

const struct kernel kernels_widened[] = {
    { OP_MATMUL, "widened", ISA_ANY, takes, run, work },
    { OP_ATTENTION, "widened", ISA_ANY, takes, run, work },
    { OP_ATTENTION_GRAD, "widened", ISA_ANY, takes, run, work },
    { OP_ATTENTION_PACKED, "widened", ISA_ANY, takes, run, work },
    { OP_ATTENTION_PACKED_GRAD, "widened", ISA_ANY, takes, run, work },
    { OP_CONV2D, "widened", ISA_ANY, takes, run, work },
    { OP_CONV2D_GRAD_X, "widened", ISA_ANY, takes, run, work },
    { OP_CONV2D_GRAD_W, "widened", ISA_ANY, takes, run, work },
};
const i32 kernels_widened_count = (i32)COUNT_OF(kernels_widened);
