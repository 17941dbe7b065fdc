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

static bool is_likelier(const struct choice *x, const struct choice *y)
{
    return x->logit != y->logit ? x->logit > y->logit : x->token < y->token;
}

static int likelier_first(const void *a, const void *b)
{
    return is_likelier(a, b) ? -1 : is_likelier(b, a);
}

/* Of a heap whose parents are less likely than their children, from i down. */
static void sift(struct choice *c, i64 count, i64 i)
{
    for (i64 child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_likelier(&c[child], &c[child + 1])) child++;
        if (!is_likelier(&c[i], &c[child])) return;
        struct choice down = c[i];
        c[i]               = c[child];
        c[child]           = down;
    }
}

/* Has the `few` likeliest of `count` stand first, in their order. Most of a vocabulary is never looked at twice: a
 * heap of those kept so far has the least likely on top, which few others beat. */
static void sort_first(struct choice *c, i64 count, i64 few)
{
    for (i64 i = few / 2 - 1; i >= 0; i--) sift(c, few, i);
    for (i64 i = few; i < count; i++) {
        if (!is_likelier(&c[i], &c[0])) continue;
        struct choice least = c[0];
        c[0]                = c[i];
        c[i]                = least;
        sift(c, few, 0);
    }
    qsort(c, (size_t)few, sizeof *c, likelier_first);
}

static i64 likeliest(const f64 *logits, i64 count)
{
    i64 best = 0;
    for (i64 i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Choices in their order, as far as somebody asked. */
struct order {
    struct choice *c;
    i64            count, sorted;
    f64            temperature;
};

static const struct choice *at(struct order *o, i64 i)
{
    enum { FIRST = 64 }; /* of most models' words these have nearly all of the probability */
    while (o->sorted <= i) {
        i64 more = MIN(MAX(FIRST, o->sorted), o->count - o->sorted);
        sort_first(o->c + o->sorted, o->count - o->sorted, more);
        o->sorted += more;
    }
    return &o->c[i];
}

static f64 weight(const struct order *o, const struct choice *c, f64 most)
{
    return exp((c->logit - most) / o->temperature);
}

/* The fewest that reach top_p, of the `count` likeliest; `sum` becomes that of their weights. */
static i64 nucleus(struct order *o, i64 count, f64 top_p, f64 *sum)
{
    f64 all = 0, most = at(o, 0)->logit;
    if (count < o->count) (void)at(o, count - 1);
    for (i64 i = 0; i < count; i++) all += weight(o, &o->c[i], most);
    *sum = all;
    if (top_p >= 1) return count;
    *sum = 0;
    for (i64 i = 0; i < count; i++) {
        *sum += weight(o, at(o, i), most);
        if (*sum >= top_p * all) return i + 1;
    }
    return count;
}

i64 sample_token(const struct sampling *s, const f64 *logits, i64 count, i64 sequence, i64 index,
                 struct arena scratch)
{
    struct rng_key key = { .seed   = s->seed,
                           .name   = str_hash(STR("generate")),
                           .step   = (u32)index,
                           .sample = (u32)sequence };
    f64            sum;
    if (s->temperature <= 0) return likeliest(logits, count);
    struct order o = { NEW(&scratch, struct choice, count), count, 0, s->temperature };
    for (i64 i = 0; i < count; i++) o.c[i] = (struct choice){ logits[i], i };
    i64 kept = nucleus(&o, s->top_k ? MIN(s->top_k, count) : count, s->top_p, &sum);
    f64 draw = rng_uniform(key, 0) * sum, most = at(&o, 0)->logit;
    for (i64 i = 0; i < kept; i++) {
        draw -= weight(&o, at(&o, i), most);
        if (draw < 0) return o.c[i].token;
    }
    return o.c[kept - 1].token; /* by rounding */
}
