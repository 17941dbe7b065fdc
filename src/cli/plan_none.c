/* plan_none.c - no plan: how many ways were dropped and why, the nearest of them, and what it is short of. */
#include "cli/plan_show.h"
#include <math.h>

static struct str lack(struct arena *s, const struct plan_question *q)
{
    const struct plan_result *p = q->result;
    const struct plan_row    *n = &p->nearest;
    struct str                where;
    if (p->nearest_short == SHORT_NONE) return STR("");
    where = str_fmt(s, "; the nearest is %.*s%s%s, which ", STR_ARG(plan_place(s, n)),
                    p->nearest_short == SHORT_MEMORY ? "" : " ",
                    p->nearest_short == SHORT_MEMORY ? "" : price_name(n->price));
    if (p->nearest_short == SHORT_MEMORY)
        return str_fmt(s, "%.*sneeds %.*s of memory%s and has %.*s", STR_ARG(where),
                       STR_ARG(text_bytes(s, n->memory_bytes)), plan_has_gpu(n) ? " per GPU" : "",
                       STR_ARG(text_bytes(s, (f64)n->device->target.memory_bytes)));
    if (p->nearest_short == SHORT_TIME)
        return str_fmt(s, "%.*stakes %.*s, %.*s too long, for %.*s", STR_ARG(where),
                       STR_ARG(plan_time(s, n->hours)),
                       STR_ARG(plan_time(s, n->hours - q->limits.deadline_s / 3600)),
                       STR_ARG(plan_dollars(s, n->bill.total)));
    return str_fmt(s, "%.*scosts %.*s, %.*s too much", STR_ARG(where),
                   STR_ARG(plan_dollars(s, n->bill.total)),
                   STR_ARG(plan_dollars(s, n->bill.total - q->limits.budget_usd)));
}

/* "machines have no spot price" */
static struct str no_price(struct arena *s, const struct plan_question *q)
{
    bool one = q->result->no_price == 1;
    u32  all = q->limits.given.markets;
    i32  p   = 0;
    while (p < PRICE_COUNT && all != 1u << p) p++;
    return str_fmt(s, "machine%s no %s%sprice", one ? " has" : "s have",
                   p < PRICE_COUNT ? price_name((enum price)p) : "", p < PRICE_COUNT ? " " : "");
}

/* "candidates cannot use train.precision=bf16"; none and all can be had in every precision */
static struct str unable(struct arena *s, const struct plan_question *q)
{
    const struct plan_given *g     = &q->limits.given;
    bool                     every = g->has_recompute && g->recompute == RECOMPUTE_EVERY;
    return str_fmt(s, "candidate%s cannot use%s%s%s", q->result->unable == 1 ? "" : "s",
                   g->has_precision ? " train.precision=" : "",
                   g->has_precision ? precision_text(g->precision) : "",
                   every ? " train.recompute=2" : "");
}

enum status plan_none(struct cli *c, const struct plan_question *q, struct err *err)
{
    const struct plan_result *p    = q->result;
    struct arena              s    = *c->perm;
    struct str                near = lack(&s, q), more = { 0 };
    bool many = q->workload.batch_total > 1, short_of_gpus = p->too_few && p->nearest_short;
    if (short_of_gpus && p->nearest_short != SHORT_MONEY)
        more = str_fmt(
            &s,
            ". A step of %lld sample%s is shared by at most %lld GPU%s; a larger %s allows more",
            (long long)q->workload.batch_total, many ? "s" : "", (long long)q->workload.batch_total,
            many ? "s" : "", q->ours ? "train.batch" : "--batch");
    struct {
        i64         count;
        const char *what, *one;
    } why[]                = { { p->unable, str_z(&s, unable(&s, q)), NULL },
                               { p->too_large, "candidates do not fit in memory",
                                 "candidate does not fit in memory" },
                               { p->too_late, "candidates miss the deadline", "candidate misses the deadline" },
                               { p->too_dear, "candidates exceed the budget", "candidate exceeds the budget" },
                               { p->never, "on spot machines would never finish", NULL },
                               { p->no_price, str_z(&s, no_price(&s, q)), NULL } };
    struct textbuf reasons = textbuf_new(&s);
    for (i64 i = 0; i < COUNT_OF(why); i++)
        if (why[i].count)
            textbuf_fmt(&reasons, "%s%lld %s", reasons.len ? ", " : "", (long long)why[i].count,
                        why[i].count == 1 && why[i].one ? why[i].one : why[i].what);
    struct str all = textbuf_str(&reasons);
    return err_set(err, STATUS_NO, "no plan: %.*s%.*s%.*s", STR_ARG(all), STR_ARG(near),
                   STR_ARG(more));
}
