/* pack.c - sequences of different length as rows one after the other, without the padding. */
#include "backend/cpu/ref/ref_int.h"

void ref_PACK(const struct call *c)
{
    i64  B = ref_dim(&c->in[0], 0), T = ref_dim(&c->in[0], 1), rows = c->at->count, at = 0;
    i32 *tokens = c->out[0].data, *sample = c->out[1].data, *position = c->out[2].data;
    i32 *offsets = c->out[3].data;
    for (i64 b = 0; b < B; b++) {
        i64 length = MAX(1, MIN(T, ref_index(&c->in[1], b)));
        offsets[b] = (i32)at;
        for (i64 t = 0; t < length && at < rows; t++, at++) {
            tokens[at]   = (i32)ref_index(&c->in[0], b * T + t);
            sample[at]   = (i32)b;
            position[at] = (i32)t;
        }
    }
    offsets[B] = (i32)at;
    for (; at < rows; at++) {
        tokens[at] = position[at] = 0;
        sample[at]                = -1;
    }
}
