/* plan_lives.c - how long spot machines lived, from the ledger: what a plan takes instead of its prior. */
#include "cli/plan.h"
#include "run/report.h"

void plan_lives(struct cli *c, struct question *q)
{
    struct ledger   *l;
    struct lifetime *lives;
    struct os_stat   there;
    struct str       path  = ledger_path(c->os, STR(""), c->perm);
    i64              count = 0;
    if (!path.len || c->os->stat(c->os, path, &there, NULL)) return; /* nothing was run yet */
    if (ledger_open(c->os, path, c->perm, &l, NULL)) return;
    enum status st =
        report_lifetimes(l, STR(""), c->os->wall_ns(c->os), c->perm, &lives, &count, NULL);
    ledger_close(l);
    if (st || !count) return;
    q->limits.spot = hazard_fit(lives, count);
    note(q, str_fmt(
                c->perm,
                "spot machines live %.3g h in the mean: %lld of them in your ledger, and the prior",
                hazard_mean_s(q->limits.spot) / 3600, (long long)count));
}
