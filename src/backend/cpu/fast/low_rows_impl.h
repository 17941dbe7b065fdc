/* low_rows_impl.h - optimisers of the rows of a table of bf16: a row is widened, changed as one of f32 is, and each of
 * its numbers rounded by the word of its place in the table. */
#include "backend/cpu/fast/random.h"
#include "backend/cpu/fast/table_rows.h"

enum { LOW_WIDTH_MAX = 1024 }; /* of a row that is widened on the stack */

/* Four words belong to the numbers at 4n to 4n + 3 of the table: those of the row begin at word `skip`. */
static void low_row(const struct sweep *s, i64 from, i64 row)
{
    f32  p[LOW_WIDTH_MAX];
    u32  word[LOW_WIDTH_MAX + STRIDE + 4];
    i64  first = row * s->width, skip = first % 4;
    u16 *at = (u16 *)s->table + first;
    for (i64 k = 0; k < s->width; k += V_LANES) {
        vm m = v_first(MIN(s->width - k, V_LANES));
        v_store_m(p + k, v_get(at, k, m, DT_BF16), m);
    }
    for (i64 k = 0; k < skip + s->width; k += STRIDE)
        words(s->philox_key, s->key, (u64)(first - skip + k) / 4, word + k);
    s->row(s, from, row, p);
    for (i64 k = 0; k < s->width; k += V_LANES) {
        vm m = v_first(MIN(s->width - k, V_LANES));
        vu w;
        memcpy(&w, word + skip + k, sizeof w);
        v_put(at, k, round_at_random(v_load_m(p + k, m), (vi)(w >> 16), DT_BF16), m, DT_BF16);
    }
}

/* rng follows a table of bf16, at the end. */
static bool low_rows_take(const struct call *c)
{
    i32 last = c->in_count - 1;
    if (c->in[0].type.dtype != DT_BF16 || c->in[0].type.shape.dim[1] > LOW_WIDTH_MAX ||
        c->in[last].type.dtype != DT_I32)
        return false;
    for (i32 i = 1; i < last; i++)
        if (i != 2 && c->in[i].type.dtype != DT_F32) return false;
    return true;
}

static void low_rows(const struct call *c) { table_sweep(c, low_row); }

const struct kernel ISA_FN(kernels_low_rows)[] = {
    { OP_ROWS_SGD, "low_rows_" ISA_NAME, ISA_HERE, low_rows_take, low_rows, NULL },
    { OP_ROWS_ADAGRAD, "low_rows_" ISA_NAME, ISA_HERE, low_rows_take, low_rows, NULL },
    { OP_ROWS_ADAM, "low_rows_" ISA_NAME, ISA_HERE, low_rows_take, low_rows, NULL },
};
const i32 ISA_COUNT(kernels_low_rows) = (i32)COUNT_OF(ISA_FN(kernels_low_rows));
