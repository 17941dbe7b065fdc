/* fp8.c - 8-bit operands of products, computed as hardware does: codes, scales and what remains of them
 * are the same bits on every machine. */
#include "base/fp8.h"
#include "backend/cpu/ref/ref_int.h"
#include "ir/fp8.h"

static void join(f32 *largest, f32 v)
{
    f32 size = fabsf(v);
    if (f32_bits(size) > f32_bits(*largest)) *largest = size; /* by bits: a NaN is the largest */
}

void ref_QUANTISE(const struct call *c)
{
    const struct tensor *x      = &c->in[0];
    enum fp8             format = c->at->format & 1 ? FP8_E5M2 : FP8_E4M3;
    f32                 *row    = (f32 *)c->in[1].data + c->at->start * FP8_STATE;
    i64                  C = ref_dim(&c->out[0], 1), rows = ref_dim(&c->out[0], 0);
    for (i64 i = 0; i < x->count && !(c->at->format & FP8_AGAIN); i++)
        join(&row[FP8_NOW], (f32)ref_load(x, i));
    f32 amax     = row[FP8_USED] > 0 ? row[FP8_USED] : row[FP8_NOW];
    i32 exponent = fp8_exponent(amax, format);
    for (i64 r = 0; r < rows; r++) {
        for (i64 k = 0; k < C; k++) {
            u8 code = fp8_from_f32(ldexpf((f32)ref_load(x, r * C + k), exponent), format);
            ((u8 *)c->out[0].data)[r * C + k]    = code;
            ((u8 *)c->out[1].data)[k * rows + r] = code;
        }
    }
    *(f32 *)c->out[2].data = ldexpf(1, -exponent);
}

static void decode_all(f64 *number, bool e5m2)
{
    for (i32 code = 0; code < 256; code++)
        number[code] = (f64)fp8_to_f32((u8)code, e5m2 ? FP8_E5M2 : FP8_E4M3);
}

void ref_MATMUL_FP8(const struct call *c)
{
    const u8 *a = c->in[0].data, *b = c->in[1].data;
    f64       factor = ref_load(&c->in[2], 0) * ref_load(&c->in[3], 0), of_a[256], of_b[256];
    i64       N = ref_dim(&c->in[1], 0), K = ref_dim(&c->in[1], 1);
    decode_all(of_a, c->at->format & 1);
    decode_all(of_b, c->at->format & 2);
    for (i64 i = 0; i < c->out[0].count; i++) {
        const u8 *x = a + i / N * K, *y = b + i % N * K;
        f64       sum = 0;
        for (i64 k = 0; k < K; k++) sum += of_a[x[k]] * of_b[y[k]];
        ref_store(&c->out[0], i,
                  sum * factor + (c->in_count == 5 ? ref_load(&c->in[4], i % N) : 0));
    }
}

void ref_FP8_ADVANCE(const struct call *c)
{
    for (f32 *row = c->in[0].data, *end = row + c->in[0].count; row < end; row += FP8_STATE) {
        f32 now      = row[FP8_NOW];
        row[FP8_NOW] = 0;
        if (!isfinite(now)) continue;
        memmove(&row[FP8_PAST + 1], &row[FP8_PAST], (FP8_STATE - FP8_PAST - 1) * sizeof *row);
        row[FP8_PAST] = now;
        row[FP8_USED] = 0;
        for (i32 i = FP8_PAST; i < FP8_STATE; i++) row[FP8_USED] = fmaxf(row[FP8_USED], row[i]);
    }
}
