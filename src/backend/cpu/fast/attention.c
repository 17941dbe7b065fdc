/* attention.c - a call of attention, by name. */
#include "backend/cpu/fast/attention.h"
#include <math.h>
#include <string.h>

bool attention_is_grad(const struct call *c)
{
    return c->op == OP_ATTENTION_GRAD || c->op == OP_ATTENTION_PACKED_GRAD;
}

/* Its mask is dropout's: a word, a fraction of 2^32, of at least p keeps. rng is the last operand, and has no data yet
 * where kernels are chosen. */
static void read_rng(struct attention *a, const struct call *c)
{
    const i32 *rng = c->in[c->in_count - 1].data;
    a->drops       = c->at->p > 0;
    if (!a->drops || !rng) return;
    a->key   = (struct rng_key){ .seed   = (u64)(u32)rng[1] << 32 | (u32)rng[0],
                                 .name   = (u64)c->at->key,
                                 .step   = (u32)rng[2],
                                 .sample = (u32)rng[3] };
    a->least = (u32)MIN(ceil(c->at->p * 0x1p32), 0x1p32 - 1);
    a->over  = (f32)(1 / (1 - c->at->p));
}

struct attention attention_of(const struct call *c)
{
    bool                 grad   = attention_is_grad(c);
    bool                 packed = c->op == OP_ATTENTION_PACKED || c->op == OP_ATTENTION_PACKED_GRAD;
    const struct tensor *qkv    = &c->in[grad ? 1 : 0];
    i32                  lens   = grad ? 4 : 1;
    bool                 has    = c->in_count - (c->at->p > 0) > lens;
    const i32           *given  = has ? c->in[lens].data : NULL;
    bool                 placed = has && c->in[lens].type.shape.rank == 2;
    struct shape         s      = qkv->type.shape;
    struct attention     a      = { .B         = packed ? c->in[lens].count - 1 : s.dim[0],
                                    .T         = packed ? c->at->count : s.dim[1],
                                    .H         = c->at->heads,
                                    .G         = c->at->kv_heads,
                                    .row       = shape_last(s),
                                    .rows      = shape_rows(s),
                                    .qkv       = qkv->data,
                                    .lens      = packed || placed ? NULL : given,
                                    .offsets   = packed ? given : NULL,
                                    .positions = placed ? given : NULL,
                                    .out       = c->out[0].data,
                                    .lse       = grad ? c->in[3].data : c->out[1].data,
                                    .o         = grad ? c->in[2].data : NULL,
                                    .d_o       = grad ? c->in[0].data : NULL,
                                    .scale     = (f32)c->at->scale,
                                    .causal    = c->at->causal != 0,
                                    .packed    = packed,
                                    .window    = c->at->window };
    a.D                         = a.row / (a.H + 2 * a.G);
    a.o_row                     = a.H * a.D;
    read_rng(&a, c);
    return a;
}

void attention_clear(const struct call *c)
{
    struct attention a = attention_of(c);
    if (!a.packed) return;
    i64 first = attention_first(&a, a.B), left = a.rows - first;
    i64 row = attention_is_grad(c) ? a.row : a.o_row, item = dtype_bytes(c->out[0].type.dtype);
    memset((u8 *)c->out[0].data + first * row * item, 0, (size_t)(left * row * item));
    for (i64 h = 0; h < a.H && !attention_is_grad(c); h++)
        memset(a.lse + h * a.rows + first, 0, (size_t)left * sizeof *a.lse);
}
