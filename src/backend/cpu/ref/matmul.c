/* matmul.c - products of matrices: [M,K] . [K,N] (+ bias [N]), one or a batch of them. */
#include "backend/cpu/ref/ref_int.h"

void ref_MATMUL(const struct call *c)
{
    const struct tensor *a = &c->in[0], *b = &c->in[1];
    struct shape         s  = b->type.shape;
    bool                 ta = c->at->ta, tb = c->at->tb;
    i64                  N = s.dim[s.rank - (tb ? 2 : 1)];
    i64                  K = s.dim[s.rank - (tb ? 1 : 2)];
    i64 batch = shape_span(s, 0, s.rank - 2); /* 1 when b has two axes: then a's rows are all M */
    i64 M     = c->out[0].count / (batch * N);

    for (i64 i = 0; i < c->out[0].count; i++) {
        i64 n = i % N, m = i / N % M, product = i / N / M;
        f64 sum = c->in_count == 3 ? ref_load(&c->in[2], n) : 0;
        for (i64 k = 0; k < K; k++) {
            f64 x = ref_load(a, product * M * K + (ta ? k * M + m : m * K + k));
            f64 y = ref_load(b, product * K * N + (tb ? n * K + k : k * N + n));
            sum += x * y;
        }
        ref_store(&c->out[0], i, sum);
    }
}
