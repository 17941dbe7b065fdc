/* dropout_impl.h - dropout and rounding at random, with the very bits of base/rng.h for many
 * elements at once (random.h).
 *
 * An element is kept where its word, a fraction of 2^32, is at least p: word >= ceil(p * 2^32), both whole numbers. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/random.h"

enum { DROPOUT_ITEMS = 8 * 1024 };

struct dropout {
    const void    *x;
    void          *y;
    i64            samples, size; /* elements in a sample */
    i64            pieces, piece; /* of a sample; elements in one: a multiple of STRIDE */
    i64            each;          /* pieces in a block */
    struct rng_key key;           /* of the first sample */
    const i32     *sample;   /* packed: a row counts as a sample, and this is the one it is of */
    const i32     *position; /* packed: which stretch of it */
    u32            least;    /* the smallest word that keeps its element */
    f32            scale;
};

static struct rng_key key_of(const struct call *c)
{
    const i32 *rng = c->in[1].data;
    return (struct rng_key){ .seed   = (u64)(u32)rng[1] << 32 | (u32)rng[0],
                             .name   = (u64)c->at->key,
                             .step   = (u32)rng[2],
                             .sample = (u32)rng[3] };
}

V_INLINE void drop_piece(const struct dropout *d, i64 sample, i64 from, const enum dtype t)
{
    struct rng_key key  = d->key;
    i64            skip = d->position ? d->position[sample] * d->size : 0; /* a multiple of 4 */
    i64            of   = d->sample ? d->sample[sample] : sample;
    i64            end = MIN(from + d->piece, d->size), at = sample * d->size;
    if (of < 0) {
        memset(v_at(d->y, at + from, t), 0, (size_t)((end - from) * v_size(t)));
        return;
    }
    key.sample += (u64)of;
    u64 philox_key = rng_philox_key(key);
    for (i64 e = from; e < end; e += STRIDE) {
        u32 word[STRIDE];
        words(philox_key, key, (u64)(skip + e) / 4, word);
        for (i64 k = 0; k < STRIDE && e + k < end; k += V_LANES) {
            vm m = v_first(MIN(end - e - k, V_LANES));
            vu w;
            memcpy(&w, word + k, sizeof w);
            vf x = v_get(d->x, at + e + k, m, t) * v_set(d->scale);
            v_put(d->y, at + e + k, v_select((vi)(w >= d->least), x, v_zero()), m, t);
        }
    }
}

V_INLINE void dropout_block(const struct dropout *d, i64 block, const enum dtype t)
{
    i64 i = block * d->each, end = MIN(i + d->each, d->samples * d->pieces);
    for (; i < end; i++) drop_piece(d, i / d->pieces, i % d->pieces * d->piece, t);
}

BY_STORAGE(dropout_block)

static void dropout(const struct call *c)
{
    struct dropout d = { .x = c->in[0].data, .y = c->out[0].data };
    d.samples        = MAX(1, c->in[0].type.shape.dim[0]);
    d.size           = c->in[0].count / d.samples;
    d.piece          = MIN(DROPOUT_ITEMS, MAX(1, fast_div_up(d.size, STRIDE)) * STRIDE);
    d.pieces         = fast_div_up(d.size, d.piece);
    d.each           = fast_items(d.samples * d.pieces, d.piece, DROPOUT_ITEMS);
    d.key            = key_of(c);
    d.least          = (u32)MIN(ceil(c->at->p * 0x1p32), 0x1p32 - 1);
    d.scale          = (f32)(1 / (1 - c->at->p));
    if (c->in_count == 4) {
        d.sample   = c->in[2].data;
        d.position = c->in[3].data;
    }
    pool_fn *f = dropout_block_by[fast_storage(c)];
    pool_run(c->pool, fast_div_up(d.samples * d.pieces, d.each), f, &d);
}

static bool dropout_takes(const struct call *c)
{
    i64 rows = MAX(1, c->in[0].type.shape.dim[0]);
    if (c->in_count == 4 && c->in[0].count / rows % 4)
        return false; /* four words belong together */
    return stored(c) && c->at->p >= 0 && c->at->p < 1;
}

/* ---- casts that round at random */

struct rounding {
    const f32     *x;
    void          *y;
    i64            count;
    struct rng_key key;
};

V_INLINE void rounding_block(const struct rounding *r, i64 block, const enum dtype t)
{
    i64 e = block * DROPOUT_ITEMS, end = MIN(e + DROPOUT_ITEMS, r->count);
    u64 philox_key = rng_philox_key(r->key);
    for (; e < end; e += STRIDE) {
        u32 word[STRIDE];
        words(philox_key, r->key, (u64)e / 4, word);
        for (i64 k = 0; k < STRIDE && e + k < end; k += V_LANES) {
            vm m = v_first(MIN(end - e - k, V_LANES));
            vu w;
            memcpy(&w, word + k, sizeof w);
            v_put(r->y, e + k, round_at_random(v_load_m(r->x + e + k, m), (vi)(w >> 16), t), m, t);
        }
    }
}

BY_STORAGE(rounding_block)

static bool rounding_takes(const struct call *c)
{
    enum dtype to = c->out[0].type.dtype;
    return c->at->stochastic && c->in[0].type.dtype == DT_F32 && to != DT_F32 &&
           rounding_block_by[to];
}

static void rounding(const struct call *c)
{
    struct rounding r = { c->in[0].data, c->out[0].data, c->in[0].count, key_of(c) };
    pool_fn        *f = rounding_block_by[c->out[0].type.dtype];
    r.key.sample      = 0;
    pool_run(c->pool, fast_div_up(r.count, DROPOUT_ITEMS), f, &r);
}

const struct kernel ISA_FN(kernels_dropout)[] = {
    { OP_DROPOUT, "dropout_" ISA_NAME, ISA_HERE, dropout_takes, dropout, NULL },
    { OP_CAST, "rounding_" ISA_NAME, ISA_HERE, rounding_takes, rounding, NULL },
};
const i32 ISA_COUNT(kernels_dropout) = (i32)COUNT_OF(ISA_FN(kernels_dropout));
