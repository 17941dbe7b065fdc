/* scaling.c - what follows from a law: loss, best sizes, sizes for serving. */
#include "plan/scaling.h"
#include <math.h>

static const f64 flops_trained = 6; /* for each parameter and token: 2 forward, 4 backward */
static const f64 flops_served  = 2;
static const f64 hour_s        = 3600;

static const struct published {
    struct str name;
    f64        e, a, b, alpha, beta, line_k, line_a; /* either the first five or the last two */
    struct str source;
} published[] = {
#define LAW(name, e, a, b, alpha, beta, source)                                                    \
    { STR_INIT(name), e, a, b, alpha, beta, NAN, NAN, STR_INIT(source) },
#define LINE(name, k, exponent, source)                                                            \
    { STR_INIT(name), NAN, NAN, NAN, NAN, NAN, k, exponent, STR_INIT(source) },
#include "plan/laws.def"
#undef LAW
#undef LINE
};

/* Hoffmann et al., equation 4: N = G (C/6)^a. */
struct law law_of(f64 e, f64 a, f64 b, f64 alpha, f64 beta)
{
    f64 g      = pow(alpha * a / (beta * b), 1 / (alpha + beta));
    f64 line_a = beta / (alpha + beta);
    return (struct law){ .e      = e,
                         .a      = a,
                         .b      = b,
                         .alpha  = alpha,
                         .beta   = beta,
                         .line_k = g * pow(flops_trained, -line_a),
                         .line_a = line_a };
}

i64 law_count(void) { return COUNT_OF(published); }

struct law law_at(i64 index)
{
    const struct published *p = &published[index];
    struct law              l = law_of(p->e, p->a, p->b, p->alpha, p->beta);
    if (!isnan(p->line_k)) {
        l.line_k = p->line_k;
        l.line_a = p->line_a;
    }
    l.name   = p->name;
    l.source = p->source;
    return l;
}

bool law_find(struct str name, struct law *out)
{
    for (i64 i = 0; i < law_count(); i++) {
        if (!str_eq(published[i].name, name)) continue;
        *out = law_at(i);
        return true;
    }
    return false;
}

f64 law_loss(const struct law *l, f64 parameters, f64 tokens)
{
    return l->e + l->a / pow(parameters, l->alpha) + l->b / pow(tokens, l->beta);
}

struct sizing law_at_size(const struct law *l, f64 flops, f64 parameters)
{
    f64 tokens = flops / (flops_trained * parameters);
    return (struct sizing){ flops, parameters, tokens, law_loss(l, parameters, tokens) };
}

struct sizing law_best(const struct law *l, f64 flops)
{
    return law_at_size(l, flops, l->line_k * pow(flops, l->line_a));
}

f64 budget_flops_hours(f64 hours, f64 flops_s) { return hours * hour_s * flops_s; }

f64 budget_flops_dollars(f64 dollars, f64 usd_h, f64 flops_s)
{
    return budget_flops_hours(dollars / usd_h, flops_s);
}

/* The size where parameters account for `share` of what the loss lies above E, and tokens for the
 * rest: every size that has the loss, for shares from 0 to 1. */
static struct sizing size_of_share(const struct law *l, f64 loss, f64 share)
{
    f64 gap    = loss - l->e;
    f64 n      = pow(l->a / (share * gap), 1 / l->alpha);
    f64 tokens = pow(l->b / ((1 - share) * gap), 1 / l->beta);
    return (struct sizing){ flops_trained * n * tokens, n, tokens, loss };
}

f64 law_flops_for(const struct law *l, f64 loss)
{
    if (!(loss > l->e)) return NAN;
    return size_of_share(l, loss, l->beta / (l->alpha + l->beta)).flops;
}

static f64 served_dollars(const struct sizing *at, const struct serving *s)
{
    return at->flops * s->train_usd_flop +
           flops_served * at->parameters * s->tokens_served * s->serve_usd_flop;
}

/* In the share both terms of the dollars are exponentials of convex functions, so their sum has one
 * valley: golden section finds it. */
struct sizing law_best_served(const struct law *l, f64 loss, const struct serving *s)
{
    const f64     golden = 0.61803398874989485;
    f64           low = 0, high = 1;
    struct sizing none = { NAN, NAN, NAN, NAN };
    if (!(loss > l->e)) return none;
    for (i32 i = 0; i < 100; i++) {
        f64           x = high - golden * (high - low), y = low + golden * (high - low);
        struct sizing at_x = size_of_share(l, loss, x), at_y = size_of_share(l, loss, y);
        if (served_dollars(&at_x, s) < served_dollars(&at_y, s)) high = y;
        else low = x;
    }
    return size_of_share(l, loss, 0.5 * (low + high));
}

struct sizing law_best_with_use(const struct law *l, f64 flops, f64 tokens_served)
{
    struct serving s = { tokens_served, .train_usd_flop = 1, .serve_usd_flop = 1 };
    return law_best_served(l, law_best(l, flops).loss, &s);
}
