/* asha.c - the bookkeeping of successive halving: ranks within rungs, and what can still come. */
#include "train/asha.h"
#include <math.h>

struct asha *asha_new(struct arena *perm, i64 trial_count, i64 eta, f64 first)
{
    struct asha *a    = NEW(perm, struct asha, 1);
    i64          left = trial_count;
    ASSERT(trial_count >= 1 && eta >= 2 && first > 0 && first <= 1);
    *a = (struct asha){ .trial_count = trial_count,
                        .eta         = eta,
                        .rung_count  = 1,
                        .trials      = NEW(perm, struct asha_trial, trial_count) };
    /* A hair's breadth, so that a first of 1/9 means two halvings by 3. */
    for (f64 part = 1 / (f64)eta;
         left >= eta && part >= first * (1 - 1e-9) && a->rung_count < ASHA_RUNGS_MAX;
         part /= (f64)eta, left /= eta)
        a->rung_count++;
    left = trial_count;
    for (i64 k = 0; k < a->rung_count; k++, left /= eta) {
        a->part[k]     = pow((f64)eta, (f64)(k + 1 - a->rung_count));
        a->expected[k] = left;
    }
    return a;
}

/* Its value at a rung; one that ended by itself keeps the last it had. */
static bool value_at(const struct asha *a, i64 trial, i64 rung, f64 *value)
{
    const struct asha_trial *t    = &a->trials[trial];
    i64                      last = t->rung - (t->state == ASHA_RUNNING);
    if (t->state == ASHA_NEW || last < 0) return false;
    if (rung > last && t->state != ASHA_DONE) return false;
    *value = t->value[MIN(rung, last)];
    return true;
}

/* Whole numbers about one rung. */
struct count {
    i64 reported, running; /* have a value there; are on the way to it */
    i64 promoted;          /* came to it, are on their way, or ended before */
    i64 waiting;           /* paused there and not out */
};

static struct count count_rung(const struct asha *a, i64 rung)
{
    struct count c = { 0 };
    for (i64 i = 0; i < a->trial_count; i++) {
        const struct asha_trial *t = &a->trials[i];
        f64                      v;
        c.reported += value_at(a, i, rung, &v);
        c.running += t->state == ASHA_RUNNING && t->rung == rung;
        c.promoted += (t->state != ASHA_NEW && t->rung >= rung) ||
                      (t->state == ASHA_DONE && isfinite(t->value[t->rung]));
        c.waiting += t->state == ASHA_PAUSED && t->rung == rung && isfinite(t->value[rung]);
    }
    return c;
}

/* How many trials may still report at a rung: those on the way, and as many from the rung below as
 * are expected and can come. */
static i64 coming(const struct asha *a, i64 rung)
{
    i64 below = 0; /* may come to this rung from the one below it */
    i64 more  = 0;
    for (i64 i = 0; i < a->trial_count; i++) below += a->trials[i].state == ASHA_NEW;
    for (i64 k = 0; k <= rung; k++) {
        struct count c = count_rung(a, k);
        more           = c.running + MIN(MAX(a->expected[k] - c.promoted, 0), below);
        below          = c.waiting + more;
    }
    return more;
}

static i64 rank_at(const struct asha *a, i64 trial, i64 rung)
{
    i64 rank = 0;
    f64 mine, other;
    ASSERT(value_at(a, trial, rung, &mine));
    for (i64 i = 0; i < a->trial_count; i++)
        if (i != trial && value_at(a, i, rung, &other))
            rank += other < mine || (other == mine && i < trial); /* of equals, the first */
    return rank;
}

static bool waits_at(const struct asha *a, i64 trial, i64 rung)
{
    const struct asha_trial *t = &a->trials[trial];
    return t->state == ASHA_PAUSED && t->rung == rung && isfinite(t->value[rung]);
}

/* A paused trial whose rank at its rung is below `places` even if `more` others overtake it. */
static i64 find_within(const struct asha *a, i64 rung, i64 places, i64 more)
{
    for (i64 i = 0; i < a->trial_count; i++)
        if (waits_at(a, i, rung) && rank_at(a, i, rung) + more < places) return i;
    return -1;
}

static i64 start(struct asha *a, i64 trial)
{
    if (trial < 0) return -1;
    struct asha_trial *t = &a->trials[trial];
    t->rung += t->state == ASHA_PAUSED;
    t->state = ASHA_RUNNING;
    return trial;
}

i64 asha_next(struct asha *a)
{
    i64 found = -1;
    for (i64 k = a->rung_count - 2; found < 0 && k >= 0; k--)
        found = find_within(a, k, a->expected[k + 1], coming(a, k)); /* sure */
    for (i64 i = 0; found < 0 && i < a->trial_count; i++)
        if (a->trials[i].state == ASHA_NEW) found = i;
    for (i64 k = a->rung_count - 2; found < 0 && k >= 0; k--)
        found = find_within(a, k, count_rung(a, k).reported / a->eta, 0); /* a guess */
    return start(a, found);
}

void asha_report(struct asha *a, i64 trial, f64 value)
{
    struct asha_trial *t = &a->trials[trial];
    ASSERT(t->state == ASHA_RUNNING);
    t->value[t->rung] = isnan(value) ? INFINITY : value;
    t->state          = t->rung == a->rung_count - 1 ? ASHA_DONE : ASHA_PAUSED;
}

void asha_ended(struct asha *a, i64 trial, f64 value)
{
    asha_report(a, trial, value);
    a->trials[trial].state = ASHA_DONE;
}

i64 asha_drop(struct asha *a)
{
    for (i64 i = 0; i < a->trial_count; i++) {
        struct asha_trial *t = &a->trials[i];
        if (t->state != ASHA_PAUSED) continue;
        if (isfinite(t->value[t->rung]) && rank_at(a, i, t->rung) < a->expected[t->rung + 1])
            continue;
        t->state = ASHA_OUT;
        return i;
    }
    return -1;
}

/* The last rung it has a value for; the end lies beyond all of them. */
static i64 came_to(const struct asha *a, const struct asha_trial *t)
{
    if (t->state == ASHA_NEW) return -1;
    return t->state == ASHA_DONE ? a->rung_count : t->rung - (t->state == ASHA_RUNNING);
}

/* Farther is better; at the same place, less is. Those that failed come behind. */
static bool before(const struct asha *a, i64 i, i64 k)
{
    i64 rung_i = came_to(a, &a->trials[i]), rung_k = came_to(a, &a->trials[k]);
    f64 value_i = INFINITY, value_k = INFINITY;
    value_at(a, i, MAX(rung_i, 0), &value_i);
    value_at(a, k, MAX(rung_k, 0), &value_k);
    if (isfinite(value_i) != isfinite(value_k)) return isfinite(value_i);
    if (rung_i != rung_k) return rung_i > rung_k;
    return value_i != value_k ? value_i < value_k : i < k;
}

void asha_ranking(const struct asha *a, i64 *order)
{
    for (i64 i = 0; i < a->trial_count; i++) {
        i64 at = i;
        for (; at > 0 && before(a, i, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
}
