/* unpack.c - frozen matrices from fewer bits. */
#include "backend/cpu/ref/ref_int.h"
#include "base/fp8.h"
#include "base/nf4.h"

void ref_UNPACK(const struct call *c)
{
    const u8  *codes = c->in[0].data, *sizes = c->in[1].data;
    const f32 *scales = c->in[c->in_count - 1].data;
    i64        K      = ref_dim(&c->out[0], 1);
    for (i64 i = 0; i < c->out[0].count; i++) {
        u8  code = i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
        f32 v    = c->at->format ? fp8_to_f32(codes[i], FP8_E4M3) * scales[i / K]
                                 : nf4_numbers[code] * nf4_size(sizes[i / NF4_BLOCK],
                                                                scales + i / NF4_GROUP * NF4_SCALES);
        ref_store(&c->out[0], i, (f64)v);
    }
}
