/* plan_lives.c - how long spot machines lived, from the ledger: what a plan takes instead of its prior. */
#include "cli/plan.h"
#include "run/ledger.h"

static bool is_spot(const struct price_row *prices, i64 count, struct str id)
{
    for (i64 i = 0; i < count; i++) {
        if (str_eq(prices[i].id, id)) return str_eq(prices[i].market, STR("spot"));
    }
    return false;
}

static bool was_interrupted(const struct interruption_row *rows, i64 count, struct str segment)
{
    for (i64 i = 0; i < count; i++) {
        if (str_eq(rows[i].segment, segment)) return true;
    }
    return false;
}

/* The segments of a machine lie behind each other: its age is that at the end of the last. A segment
 * that neither ended nor runs any more was killed with its machine, for all we know. */
static i64 lives_of(const struct segment_row *s, i64 count, const struct price_row *prices,
                    i64 price_count, const struct interruption_row *cuts, i64 cut_count,
                    i64 now_wall_ns, struct lifetime *out)
{
    i64 lives = 0;
    for (i64 i = 0; i < count; i++) {
        i64  begin = s[i].begin_wall_ns - s[i].booting_ns, end = s[i].beat_wall_ns;
        bool first = true, cut = false;
        if (!is_spot(prices, price_count, s[i].price)) continue;
        for (i64 k = 0; k < count; k++) {
            if (!str_eq(s[k].boot, s[i].boot)) continue;
            first &= k >= i;
            end = MAX(end, s[k].beat_wall_ns);
            bool killed =
                !s[k].ended.len && now_wall_ns - s[k].beat_wall_ns > 10 * s[k].beat_every_ns;
            cut |= killed || was_interrupted(cuts, cut_count, s[k].id);
        }
        if (first) out[lives++] = (struct lifetime){ 1e-9 * (f64)(end - begin), cut };
    }
    return lives;
}

void plan_lives(struct cli *c, struct question *q)
{
    struct ledger           *l;
    struct segment_row      *segments;
    struct price_row        *prices;
    struct interruption_row *cuts;
    i64                      n, price_count, cut_count;
    struct err               err;
    struct os_stat           there;
    struct str               path = ledger_path(c->os, STR(""), c->perm);
    if (!path.len || c->os->stat(c->os, path, &there, NULL)) return; /* nothing was run yet */
    if (ledger_open(c->os, path, c->perm, &l, &err)) return;
    enum status st =
        ledger_read(l, LEDGER_TABLE_segment, NULL, STR(""), c->perm, &segments, &n, &err);
    if (!st)
        st =
            ledger_read(l, LEDGER_TABLE_price, NULL, STR(""), c->perm, &prices, &price_count, &err);
    if (!st)
        st = ledger_read(l, LEDGER_TABLE_interruption, NULL, STR(""), c->perm, &cuts, &cut_count,
                         &err);
    ledger_close(l);
    if (st) return;
    struct lifetime *lives = NEW(c->perm, struct lifetime, n + 1);
    i64              count =
        lives_of(segments, n, prices, price_count, cuts, cut_count, c->os->wall_ns(c->os), lives);
    if (!count) return;
    q->limits.spot = hazard_fit(lives, count);
    note(q, str_fmt(
                c->perm,
                "spot machines live %.3g h in the mean: %lld of them in your ledger, and the prior",
                hazard_mean_s(q->limits.spot) / 3600, (long long)count));
}
