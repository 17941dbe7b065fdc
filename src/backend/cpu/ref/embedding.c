/* embedding.c - rows looked up in a table, and their gradients added up there. */
#include "backend/cpu/ref/ref_int.h"

void ref_EMBEDDING(const struct call *c)
{
    i64 rows = ref_dim(&c->in[0], 0), width = ref_dim(&c->in[0], 1);
    for (i64 i = 0; i < c->in[1].count; i++) {
        i64 row = ref_index(&c->in[1], i);
        ASSERT(row >= 0 && row < rows);
        for (i64 k = 0; k < width; k++)
            ref_store(&c->out[0], i * width + k, ref_load(&c->in[0], row * width + k));
    }
}

enum { PART = 256 }; /* columns summed at a time: so many f64 lie on the stack */

void ref_EMBEDDING_GRAD(const struct call *c)
{
    i64 rows = ref_dim(&c->out[0], 0), width = ref_dim(&c->out[0], 1);
    for (i64 row = 0; row < rows; row++) {
        for (i64 first = 0; first < width; first += PART) {
            i64 part      = MIN(PART, width - first);
            f64 sum[PART] = { 0 };
            for (i64 i = 0; i < c->in[1].count; i++) {
                if (ref_index(&c->in[1], i) != row) continue;
                for (i64 k = 0; k < part; k++) sum[k] += ref_load(&c->in[0], i * width + first + k);
            }
            for (i64 k = 0; k < part; k++) ref_store(&c->out[0], row * width + first + k, sum[k]);
        }
    }
}
