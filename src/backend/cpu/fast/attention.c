/* attention.c - a call of attention, by name. */
#include "backend/cpu/fast/attention.h"

struct attention attention_of(const struct call *c)
{
    bool                 grad = c->op == OP_ATTENTION_GRAD;
    const struct tensor *qkv  = &c->in[grad ? 1 : 0];
    i32                  lens = grad ? 4 : 1;
    struct attention     a    = { .B      = qkv->type.shape.dim[0],
                                  .T      = qkv->type.shape.dim[1],
                                  .H      = c->at->heads,
                                  .G      = c->at->kv_heads,
                                  .row    = qkv->type.shape.dim[2],
                                  .qkv    = qkv->data,
                                  .lens   = c->in_count > lens ? c->in[lens].data : NULL,
                                  .out    = c->out[0].data,
                                  .lse    = grad ? c->in[3].data : c->out[1].data,
                                  .o      = grad ? c->in[2].data : NULL,
                                  .d_o    = grad ? c->in[0].data : NULL,
                                  .scale  = (f32)c->at->scale,
                                  .causal = c->at->causal != 0 };
    a.D                       = a.row / (a.H + 2 * a.G);
    a.o_row                   = a.H * a.D;
    return a;
}
