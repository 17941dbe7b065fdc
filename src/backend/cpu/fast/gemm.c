/* gemm.c - a matmul call as a matrix product with strides. */
#include "backend/cpu/fast/gemm.h"

struct gemm gemm_of(const struct call *c)
{
    struct shape s  = c->in[1].type.shape;
    bool         ta = c->at->ta, tb = c->at->tb;
    struct gemm  g = { .c = then_target(c), .call = c };

    g.N     = s.dim[s.rank - (tb ? 2 : 1)];
    g.K     = s.dim[s.rank - (tb ? 1 : 2)];
    g.batch = shape_span(s, 0, s.rank - 2); /* 1 when b has two axes: then a's rows are all M */
    g.M     = shape_count(c->out[0].type.shape) / (g.batch * g.N);
    g.a     = (struct gemm_matrix){ c->in[0].data, ta ? 1 : g.K, ta ? g.M : 1, g.M * g.K };
    g.b     = (struct gemm_matrix){ c->in[1].data, tb ? 1 : g.N, tb ? g.K : 1, g.K * g.N };
    g.bias  = c->in_count == 3 ? c->in[2].data : NULL;
    return g;
}

bool gemm_takes(const struct call *c)
{
    for (i32 i = 0; i < c->in_count; i++)
        if (c->in[i].type.dtype != DT_F32 || shape_count(c->in[i].type.shape) == 0) return false;
    return c->out[0].type.dtype == DT_F32;
}
