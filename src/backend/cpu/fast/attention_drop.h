/* attention_drop.h - dropout on attention's weights: what each of them is multiplied by, 0 or 1 / (1 - p). */
#ifndef BACKEND_CPU_FAST_ATTENTION_DROP_H
#define BACKEND_CPU_FAST_ATTENTION_DROP_H
#include "backend/cpu/fast/attention.h"
#include "backend/cpu/fast/random.h"
#include "ir/attention.h"

/* Of one sequence and head. */
struct drop {
    const struct attention *a;
    struct rng_key          key;
    u64                     philox_key;
    i64                     h;
};

static struct drop drop_of(const struct attention *a, i64 b, i64 h)
{
    struct drop d = { .a = a, .key = a->key, .h = h };
    d.key.sample += (u64)b;
    d.philox_key = rng_philox_key(d.key);
    return d;
}

V_INLINE vf drop_keep(const struct drop *d, const u32 *word)
{
    vu w;
    memcpy(&w, word, sizeof w);
    return v_select((vi)(w >= d->a->least), v_set(d->a->over), v_zero());
}

/* Of query t and STRIDE keys from s on, a multiple of 4. */
static void drop_keys(const struct drop *d, i64 t, i64 s, f32 *keep)
{
    u32 word[STRIDE];
    words(d->philox_key, d->key, attention_weight(d->h, t, s) / 4, word);
    for (i64 k = 0; k < STRIDE; k += V_LANES) v_store(keep + k, drop_keep(d, word + k));
}

#endif
