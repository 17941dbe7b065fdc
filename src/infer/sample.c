/* sample.c - one draw from the next token's distribution. */
#include "infer/sample.h"
#include "base/rng.h"
#include "base/text.h"
#include <math.h>
#include <stdlib.h>

struct choice {
    f64 logit;
    i64 token;
};

static int likelier_first(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static i64 likeliest(const f64 *logits, i64 count)
{
    i64 best = 0;
    for (i64 i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* The fewest that reach top_p, of `count` that fall; `sum` becomes that of their weights. */
static i64 nucleus(const struct choice *c, i64 count, f64 top_p, f64 temperature, f64 *sum)
{
    f64 all = 0, most = c[0].logit;
    for (i64 i = 0; i < count; i++) all += exp((c[i].logit - most) / temperature);
    *sum = 0;
    for (i64 i = 0; i < count; i++) {
        *sum += exp((c[i].logit - most) / temperature);
        if (*sum >= top_p * all) return i + 1;
    }
    return count;
}

i64 sample_token(const struct sampling *s, const f64 *logits, i64 count, i64 sequence, i64 index,
                 struct arena scratch)
{
    struct choice *c   = NEW(&scratch, struct choice, count);
    struct rng_key key = { .seed   = s->seed,
                           .name   = str_hash(STR("generate")),
                           .step   = (u32)index,
                           .sample = (u32)sequence };
    f64            sum;
    if (s->temperature <= 0) return likeliest(logits, count);
    for (i64 i = 0; i < count; i++) c[i] = (struct choice){ logits[i], i };
    qsort(c, (size_t)count, sizeof *c, likelier_first);
    i64 kept = s->top_k ? MIN(s->top_k, count) : count;
    kept     = nucleus(c, kept, s->top_p, s->temperature, &sum);
    f64 draw = rng_uniform(key, 0) * sum;
    for (i64 i = 0; i < kept; i++) {
        draw -= exp((c[i].logit - c[0].logit) / s->temperature);
        if (draw < 0) return c[i].token;
    }
    return c[kept - 1].token; /* by rounding */
}
