/* utilisation.c - statistics over the samples of a minute.
 *
 * The limits are proposals drawn from shapes that people reported: 0/95 % alternating within seconds,
 * 60 to 100 %, 30 seconds dead at an epoch's start, minutes between epochs (docs/verdicts.md). */
#include "run/utilisation.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 1024, MARKS = 64, SAMPLES_LEAST = 20 };

static const i64 minute_ns = 60000000000;
static const f64 least_s   = 10;                        /* nothing is said of less */
static const f64 high_p5 = 0.7, low_p95 = 0.5;          /* steady */
static const f64 low_at = 0.2, high_at = 0.8;           /* the two tails */
static const f64 tail_part = 0.15, crossings_least = 6; /* oscillating: both tails; a minute */
static const f64 dead_at = 0.05, dead_s = 5;            /* a gap */
static const f64 steady_crossings = 2;                  /* a minute: about none */
static const f64 rhythm_least     = 0.3;                /* correlation with itself */
static const f64 rhythm_near      = 0.2;                /* two periods are the same within */
static const i64 mark_slack_ns    = 1000000000;         /* a gap begins a sample or so late */

struct sample {
    i64 begin_ns, end_ns;
    f64 busy;
};

struct marks {
    i64 at_ns[MARKS]; /* a ring */
    i64 count;
};

struct utilisation {
    struct sample ring[SAMPLES];
    i64           count; /* ever */
    i64           judged_ns;
    i64           last_ns; /* of the newest, known or not; 0: none */
    struct marks  marks[RHYTHMS];
    struct usage  worst;
};

static const char *const names[USAGE_SHAPES]   = { "",           "mixed",       "steady-high",
                                                   "steady-low", "oscillating", "dead gaps" };
static const char *const rhythm_names[RHYTHMS] = { "", "steps", "checkpoints", "evaluations" };

const char *usage_name(enum usage_shape s) { return names[s]; }

bool usage_is_ill(enum usage_shape s) { return s >= USAGE_STEADY_LOW; }

struct utilisation *utilisation_new(struct arena *perm) { return NEW(perm, struct utilisation, 1); }

/* --- the samples -------------------------------------------------------------------------------- */

static const struct sample *sample_at(const struct utilisation *w, i64 i)
{
    return &w->ring[i % SAMPLES];
}

static f64 seconds(i64 ns) { return (f64)ns * 1e-9; }

static f64 length_s(const struct sample *s) { return seconds(s->end_ns - s->begin_ns); }

/* The first one of the last minute. */
static i64 first_of(const struct utilisation *w)
{
    i64 first = MAX(w->count - SAMPLES, 0);
    if (!w->count) return 0;
    i64 from_ns = sample_at(w, w->count - 1)->end_ns - minute_ns;
    while (sample_at(w, first)->begin_ns < from_ns && first < w->count - 1) first++;
    return first;
}

static int by_busy(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return (x->busy > y->busy) - (x->busy < y->busy);
}

/* Of samples in order of their busy parts: where so much of the time lies below. */
static f64 percentile(const struct sample *sorted, i64 count, f64 total_s, f64 part)
{
    f64 sum = 0;
    for (i64 i = 0; i < count; i++) {
        sum += length_s(&sorted[i]);
        if (sum >= part * total_s) return sorted[i].busy;
    }
    return sorted[count - 1].busy;
}

static void add_distribution(struct usage *u, const struct sample *s, i64 count)
{
    struct sample sorted[SAMPLES];
    memcpy(sorted, s, (size_t)count * sizeof *s);
    qsort(sorted, (size_t)count, sizeof *sorted, by_busy);
    for (i64 i = 0; i < count; i++) u->seconds += length_s(&s[i]);
    for (i64 i = 0; i < count; i++) {
        f64 part = length_s(&s[i]) / u->seconds;
        u->mean += part * s[i].busy;
        u->low += s[i].busy <= low_at ? part : 0;
        u->high += s[i].busy >= high_at ? part : 0;
    }
    u->p5  = percentile(sorted, count, u->seconds, 0.05);
    u->p95 = percentile(sorted, count, u->seconds, 0.95);
}

/* Only a whole way from one tail to the other counts. */
static void add_crossings(struct usage *u, const struct sample *s, i64 count)
{
    i64 crossings = 0, side = 0;
    for (i64 i = 0; i < count; i++) {
        i64 now = s[i].busy >= high_at ? 1 : s[i].busy <= low_at ? -1 : 0;
        crossings += now && side && now != side;
        side = now ? now : side;
    }
    u->crossings_min = (f64)crossings * 60 / u->seconds;
}

/* The lag at which the samples resemble themselves the most, of lags up to a third of them: pairs are
 * sorted into slots of the mean length by the time that lies between the two. */
static void add_rhythm(struct usage *u, const struct sample *s, i64 count)
{
    f64  sum[SAMPLES / 3 + 1] = { 0 }, best = rhythm_least, slot_s = u->seconds / (f64)count;
    i64  pairs[SAMPLES / 3 + 1] = { 0 }, slots = count / 3, found = 0;
    bool fell = false; /* below zero: before that all is like itself */
    for (i64 i = 0; i < count; i++) {
        for (i64 k = i; k < count; k++) {
            i64 slot = (i64)(seconds(s[k].end_ns - s[i].end_ns) / slot_s + 0.5);
            if (slot > slots) break;
            sum[slot] += (s[i].busy - u->mean) * (s[k].busy - u->mean);
            pairs[slot]++;
        }
    }
    f64 variance = sum[0] / (f64)pairs[0];
    for (i64 i = 1; i <= slots && variance > 0; i++) {
        f64 like = pairs[i] ? sum[i] / (f64)pairs[i] / variance : 0;
        fell |= like < 0;
        if (!fell || like <= best) continue;
        best  = like + 0.1; /* a later multiple must be clearly better than the period itself */
        found = i;
    }
    u->lag_s = found ? (f64)found * slot_s : NAN;
}

/* --- what goes along with it -------------------------------------------------------------------- */

static bool marked_within(const struct marks *m, i64 begin_ns, i64 end_ns)
{
    for (i64 i = MAX(m->count - MARKS, 0); i < m->count; i++) {
        i64 at = m->at_ns[i % MARKS];
        if (at >= begin_ns - mark_slack_ns && at <= end_ns) return true;
    }
    return false;
}

/* NaN: fewer than two are known. */
static f64 period_s(const struct marks *m)
{
    i64 first = MAX(m->count - MARKS, 0), last = m->count - 1;
    if (last <= first) return NAN;
    return seconds(m->at_ns[last % MARKS] - m->at_ns[first % MARKS]) / (f64)(last - first);
}

/* Steps come in every gap: only what is rarer explains one. */
static void add_gaps(struct usage *u, const struct utilisation *w, const struct sample *s,
                     i64 count)
{
    i64 marked[RHYTHMS] = { 0 };
    for (i64 i = 0, begin = 0; i <= count; i++) {
        if (i < count && s[i].busy <= dead_at) continue;
        f64 gap_s = i > begin ? seconds(s[i - 1].end_ns - s[begin].begin_ns) : 0;
        if (gap_s > dead_s) {
            u->gap_count++;
            u->gap_s = MAX(u->gap_s, gap_s);
            for (i64 r = RHYTHM_CHECKPOINT; r < RHYTHMS; r++)
                marked[r] += marked_within(&w->marks[r], s[begin].begin_ns, s[i - 1].end_ns);
        }
        begin = i + 1;
    }
    for (i64 r = RHYTHM_CHECKPOINT; r < RHYTHMS && u->gap_count; r++)
        if (2 * marked[r] > u->gap_count) u->with = (enum rhythm)r;
}

static enum rhythm rhythm_of(const struct utilisation *w, f64 lag_s)
{
    for (i64 r = RHYTHM_STEP; r < RHYTHMS; r++) {
        f64 own_s = period_s(&w->marks[r]);
        if (fabs(own_s - lag_s) < rhythm_near * own_s) return (enum rhythm)r; /* NaN: it is not */
    }
    return RHYTHM_NONE;
}

/* The worst first: a gap is low, too, and alternating may have a low mean. */
static enum usage_shape shape_of(const struct usage *u)
{
    if (u->gap_count) return USAGE_DEAD_GAPS;
    if (u->low >= tail_part && u->high >= tail_part && u->crossings_min >= crossings_least)
        return USAGE_OSCILLATING;
    if (u->p95 < low_p95 && u->crossings_min < steady_crossings) return USAGE_STEADY_LOW;
    return u->p5 >= high_p5 ? USAGE_STEADY_HIGH : USAGE_MIXED;
}

struct usage utilisation_usage(const struct utilisation *w)
{
    struct sample s[SAMPLES] = { 0 }; /* or gcc 13 fears that `count` is no count */
    struct usage  u          = { .lag_s = NAN };
    i64           first = first_of(w), count = w->count - first;
    for (i64 i = 0; i < count; i++) s[i] = *sample_at(w, first + i);
    if (count) add_distribution(&u, s, count);
    if (count < SAMPLES_LEAST || u.seconds < least_s) return u;
    add_crossings(&u, s, count);
    add_rhythm(&u, s, count);
    add_gaps(&u, w, s, count);
    u.shape = shape_of(&u);
    if (u.shape == USAGE_OSCILLATING) u.with = rhythm_of(w, u.lag_s);
    else if (u.shape != USAGE_DEAD_GAPS) u.with = RHYTHM_NONE;
    return u;
}

/* --- over time ---------------------------------------------------------------------------------- */

static bool is_worse(const struct usage *a, const struct usage *than)
{
    if (usage_is_ill(a->shape) != usage_is_ill(than->shape)) return usage_is_ill(a->shape);
    return usage_is_ill(a->shape) && a->mean < than->mean;
}

void utilisation_add(struct utilisation *w, i64 at_ns, f64 busy)
{
    i64 begin_ns = w->last_ns;
    w->last_ns   = at_ns;
    if (!begin_ns || at_ns <= begin_ns || isnan(busy)) return;
    w->ring[w->count++ % SAMPLES] = (struct sample){ begin_ns, at_ns, MIN(MAX(busy, 0), 1) };
    if (!w->judged_ns) w->judged_ns = begin_ns;
    if (at_ns - w->judged_ns < minute_ns) return;
    struct usage now = utilisation_usage(w);
    if (is_worse(&now, &w->worst)) w->worst = now;
    w->judged_ns = at_ns;
}

void utilisation_mark(struct utilisation *w, enum rhythm what, i64 at_ns)
{
    struct marks *m              = &w->marks[what];
    m->at_ns[m->count++ % MARKS] = at_ns;
}

struct usage utilisation_worst_minute(const struct utilisation *w) { return w->worst; }

struct usage utilisation_worst(const struct utilisation *w)
{
    struct usage now = utilisation_usage(w);
    return is_worse(&w->worst, &now) ? w->worst : now;
}

struct str usage_text(const struct usage *u, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "%s", usage_name(u->shape));
    if (u->shape == USAGE_OSCILLATING)
        textbuf_fmt(&b, " between %.0f %% and %.0f %%", 100 * u->p5, 100 * u->p95);
    else textbuf_fmt(&b, ", %.0f %% busy", 100 * u->mean);
    if (u->shape == USAGE_OSCILLATING && !isnan(u->lag_s))
        textbuf_fmt(&b, " every %.2g s", u->lag_s);
    if (u->gap_count)
        textbuf_fmt(&b, ", %lld of more than %g s, the longest %.0f s", (long long)u->gap_count,
                    dead_s, u->gap_s);
    if (u->with) textbuf_fmt(&b, ", with the %s", rhythm_names[u->with]);
    return textbuf_str(&b);
}
