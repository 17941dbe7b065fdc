/* tuner.c - look, try, judge, hold.
 *
 *     LOOKS ──a better choice──► SETTLES ──► JUDGES ──it helped──► LOOKS
 *       │ none is left, or no need                │ it did not, or harmed
 *       └──────────────► HOLDS ◄──────────────────┘
 *                        HOLDS ──the work changed, or time to see again──► LOOKS
 *
 * A stage's threads divide their time between work, of which there is only as much as cores, and waiting
 * for a disk or a network, which any number can do. The least waiting seen of late counts, because
 * whatever disturbs only adds; an estimate that was too low is found out by threads that never rest. */
#include "data/tuner.h"
#include "base/digits.h"
#include "base/text.h"
#include <math.h>

static const f64 wait_enough = 0.01;           /* share of the caller's time that nobody minds */
static const f64 wait_much   = 0.05;           /* that is worth another look */
static const f64 look_s = 0.25, judge_s = 0.5; /* measured for, at least */
static const f64 late_s   = 2;                 /* however few samples came */
static const f64 headroom = 1.1;               /* over what the caller can take */
static const f64 spare    = 0.25;              /* of a thread: work comes in pieces */
static const f64 crowd = 3; /* threads for the work of one core, in a stage that also waits, where
                                  the cores are what limits: most that are ready find none free */
static const f64 computes    = 0.03;         /* waiting by work, below which a stage only works */
static const f64 io_headroom = 1.25;         /* waits vary more than work */
static const f64 io_rise     = 1.25;         /* at which an estimate follows what is seen */
static const f64 helps = 1.02, harms = 0.95; /* rate by the rate before */
static const f64 never_rests = 0.9, cores_left = 0.9;
static const f64 other_work = 1.5;                /* seconds of a sample by those before */
static const f64 hold_min_s = 5, hold_max_s = 60; /* doubled while nothing new comes of looking */
enum { SAMPLES_ENOUGH = 8, GROWTH_MAX = 4, CHANGED_ENOUGH = 2 };

static const char *const stage_names[STAGE_COUNT] = { "read", "decode", "augment" };

static f64 wait_share(const struct tuner_seen *s)
{
    f64 all = s->wait_s + s->away_s;
    return all > 0 ? s->wait_s / all : 0;
}

static f64 rate_of(const struct tuner *t, const struct tuner_seen *s)
{
    return (f64)s->stage[t->limits.stages - 1].samples / s->seconds;
}

bool tuner_enough(const struct tuner *t, const struct tuner_seen *s)
{
    i64 least = INT64_MAX;
    if (s->wait_s + s->away_s < (t->state == TUNER_JUDGES ? judge_s : look_s)) return false;
    for (i64 k = 0; k < t->limits.stages; k++) least = MIN(least, s->stage[k].samples);
    return least >= SAMPLES_ENOUGH || (least > 0 && s->seconds >= late_s);
}

/* What a sample takes, from what was seen. */
static void measure(struct tuner *t, const struct tuner_seen *s)
{
    for (i64 k = 0; k < t->limits.stages; k++) {
        f64 n = (f64)s->stage[k].samples, io = 0;
        if (n < 1) continue;
        io          = MAX(s->stage[k].busy_s - s->stage[k].cpu_s, 0) / n;
        t->cpu_s[k] = s->stage[k].cpu_s / n;
        t->io_s[k]  = isnan(t->io_s[k]) ? io : MIN(io, t->io_s[k] * io_rise + 1e-6);
    }
}

static bool same(const struct tuner *t, const struct tuner_choice *a, const struct tuner_choice *b)
{
    bool is = a->prefetch == b->prefetch;
    for (i64 k = 0; k < t->limits.stages; k++) is = is && a->workers[k] == b->workers[k];
    return is;
}

/* The queues between those workers; returns the samples that may be on their way. */
static i64 queues(const struct tuner *t, struct tuner_choice *c)
{
    i64 samples = 0;
    for (i64 k = 0; k < t->limits.stages; k++) {
        i64 between =
            k ? c->workers[k - 1] + c->workers[k] : 0; /* each may have put, and may take */
        c->queue[k] = k && t->limits.queue ? t->limits.queue : between;
        samples += c->workers[k] + c->queue[k];
    }
    return samples;
}

/* What is fixed, what fits the memory, and as many batches begun as keep all threads busy. */
static void fit(const struct tuner *t, struct tuner_choice *c, i64 sample_bytes)
{
    const struct tuner_limits *l = &t->limits;
    for (i64 k = 0; k < l->stages; k++)
        if (l->workers[k]) c->workers[k] = l->workers[k];
    i64 samples = queues(t, c);
    i64 begun   = (samples + l->batch - 1) / l->batch + 1;
    c->prefetch = l->prefetch ? l->prefetch : MIN(MAX(c->prefetch, begun), l->prefetch_max);
    f64 room    = (f64)(l->memory_bytes - (c->prefetch + 1) * l->batch_bytes);
    f64 part    = MAX(room, 0) / (f64)MAX(samples * sample_bytes, 1);
    if (part >= 1) return;
    for (i64 k = 0; k < l->stages; k++)
        if (!l->workers[k]) c->workers[k] = MAX((i64)((f64)c->workers[k] * part), 1);
    queues(t, c);
}

void tuner_start(struct tuner *t, const struct tuner_limits *limits)
{
    *t = (struct tuner){ .limits = *limits };
    for (i64 k = 0; k < limits->stages; k++) {
        t->now.workers[k] = limits->workers[k] ? limits->workers[k] : 1;
        t->io_s[k]        = NAN;
    }
    t->now.prefetch = limits->prefetch ? limits->prefetch : 1;
    queues(t, &t->now);
}

/* Samples a second that the caller would take if it never waited. */
static f64 demand(const struct tuner_seen *s)
{
    return s->away_s > 0 && s->taken > 0 ? (f64)s->taken / s->away_s : INFINITY;
}

static f64 cores_rate(const struct tuner *t) /* samples a second that the cores allow */
{
    f64 cpu = 0;
    for (i64 k = 0; k < t->limits.stages; k++) cpu += t->cpu_s[k];
    return cpu > 0 ? t->limits.cpu / cpu : INFINITY;
}

/* Where the cores are what limits, a stage that only computes may have all of them: the pipeline shares
 * them out. */
static i64 workers_for(const struct tuner *t, i64 k, f64 rate)
{
    bool full = rate >= cores_rate(t) && !t->limits.cpu_strict;
    if (full && t->io_s[k] < computes * t->cpu_s[k])
        return MIN((i64)ceil(t->limits.cpu), t->limits.workers_max);
    f64 need = rate * ((full ? crowd : 1) * t->cpu_s[k] + io_headroom * t->io_s[k]);
    return need < (f64)t->limits.workers_max ? MAX((i64)ceil(need + spare), 1)
                                             : t->limits.workers_max;
}

static f64 sample_s(const struct tuner *t, i64 k) { return t->cpu_s[k] + t->io_s[k]; }

/* No more cores may be busy than are allowed: the stage that has most threads, and so the finest steps,
 * holds back the others. */
static void within_cores(const struct tuner *t, struct tuner_choice *c)
{
    i64 k = 0;
    if (!t->limits.cpu_strict) return;
    for (i64 i = 1; i < t->limits.stages; i++)
        if (sample_s(t, i) > sample_s(t, k)) k = i;
    f64 most = floor(cores_rate(t) * sample_s(t, k));
    if (most < (f64)c->workers[k]) c->workers[k] = MAX((i64)most, 1);
}

/* The numbers say that it is enough, and it is not: threads that never rest become more while there are
 * cores; more batches smooth what comes by fits and starts, where most come in time. */
static void widen(const struct tuner *t, const struct tuner_seen *s, struct tuner_choice *c)
{
    f64 cpu_s = 0, most = 0;
    i64 at = 0;
    for (i64 k = 0; k < t->limits.stages; k++) {
        f64 busy = s->stage[k].busy_s / ((f64)t->now.workers[k] * s->seconds);
        cpu_s += s->stage[k].cpu_s;
        if (busy > most && !t->limits.workers[k]) most = busy, at = k;
    }
    if (most > never_rests && cpu_s < cores_left * t->limits.cpu * s->seconds)
        c->workers[at] = MIN(c->workers[at] * 3 / 2 + 1, t->limits.workers_max);
    else if (s->wait_s < s->away_s) c->prefetch = MIN(2 * c->prefetch, t->limits.prefetch_max);
}

static void hold(struct tuner *t, const struct tuner_seen *s)
{
    t->state     = TUNER_HOLDS;
    t->held_s    = 0;
    t->hold_s    = MIN(MAX(2 * t->hold_s, hold_min_s), hold_max_s);
    t->held_wait = wait_share(s);
    t->changed   = 0;
    for (i64 k = 0; k < t->limits.stages; k++)
        t->held_busy_s[k] = s->stage[k].busy_s / (f64)MAX(s->stage[k].samples, 1);
}

static void attempt(struct tuner *t, const struct tuner_choice *next, const struct tuner_seen *s)
{
    t->before      = t->now;
    t->now         = *next;
    t->rate_before = rate_of(t, s);
    t->wait_before = wait_share(s);
    t->state       = TUNER_SETTLES;
}

static void look(struct tuner *t, const struct tuner_seen *s)
{
    struct tuner_choice next = t->now;
    f64                 goal = MIN(headroom * demand(s), cores_rate(t));
    for (i64 k = 0; k < t->limits.stages; k++)
        next.workers[k] =
            MAX(t->now.workers[k], MIN(workers_for(t, k, goal), GROWTH_MAX * t->now.workers[k]));
    within_cores(t, &next);
    fit(t, &next, s->sample_bytes);
    if (same(t, &next, &t->now)) {
        widen(t, s, &next);
        within_cores(t, &next);
        fit(t, &next, s->sample_bytes);
    }
    if (wait_share(s) <= wait_enough || same(t, &next, &t->now)) hold(t, s);
    else attempt(t, &next, s);
}

static i64 workers_sum(const struct tuner *t, const struct tuner_choice *c)
{
    i64 sum = 0;
    for (i64 k = 0; k < t->limits.stages; k++) sum += c->workers[k];
    return sum;
}

/* Threads that the caller's rate does not need any more. */
static void narrow(struct tuner *t, const struct tuner_seen *s)
{
    struct tuner_choice next = t->now;
    for (i64 k = 0; k < t->limits.stages; k++) {
        i64 need = workers_for(t, k, headroom * demand(s));
        if (next.workers[k] > 2 * need + 1) next.workers[k] = need + (need + 1) / 2;
    }
    fit(t, &next, s->sample_bytes);
    if (same(t, &next, &t->now)) hold(t, s);
    else attempt(t, &next, s);
}

static bool other(const struct tuner *t, const struct tuner_seen *s)
{
    f64 all = 0;
    if (wait_share(s) > t->held_wait + wait_much) return true;
    for (i64 k = 0; k < t->limits.stages; k++) all += t->held_busy_s[k];
    for (i64 k = 0; k < t->limits.stages; k++) {
        f64 busy_s = s->stage[k].busy_s / (f64)MAX(s->stage[k].samples, 1);
        f64 most = MAX(busy_s, t->held_busy_s[k]), least = MIN(busy_s, t->held_busy_s[k]);
        if (most > 0.1 * all && most > other_work * least) return true;
    }
    return false;
}

static void watch(struct tuner *t, const struct tuner_seen *s)
{
    t->held_s += s->seconds;
    t->changed = other(t, s) ? t->changed + 1 : 0;
    if (t->changed >= CHANGED_ENOUGH) {
        t->state  = TUNER_LOOKS;
        t->hold_s = 0;
        for (i64 k = 0; k < t->limits.stages; k++) t->io_s[k] = NAN;
        measure(t, s);
    } else if (t->held_s >= t->hold_s) {
        if (wait_share(s) > wait_much) t->state = TUNER_LOOKS;
        else if (wait_share(s) <= wait_enough) narrow(t, s);
        else hold(t, s);
    }
}

/* "decode 2 → 5 workers, prefetch 1 → 2 batches" */
static void changes(const struct tuner *t, struct textbuf *b)
{
    const char *comma = "";
    for (i64 k = 0; k < t->limits.stages; k++) {
        if (t->before.workers[k] == t->now.workers[k]) continue;
        textbuf_fmt(b, "%s%s %lld → %lld", comma, stage_names[t->limits.stage[k]],
                    (long long)t->before.workers[k], (long long)t->now.workers[k]);
        comma = ", ";
    }
    if (*comma) textbuf_fmt(b, " workers");
    if (t->before.prefetch != t->now.prefetch)
        textbuf_fmt(b, "%sprefetch %lld → %lld batches", comma, (long long)t->before.prefetch,
                    (long long)t->now.prefetch);
}

/* Keeps what was tried, or takes it back; says so. */
static void judge(struct tuner *t, const struct tuner_seen *s, char line[LOADER_LINE_MAX])
{
    f64  wait = wait_share(s), rate = rate_of(t, s), gain = rate / t->rate_before;
    bool fewer = workers_sum(t, &t->now) < workers_sum(t, &t->before);
    bool harm =
        fewer ? wait > MAX(wait_enough, t->wait_before) : gain < harms && wait >= t->wait_before;
    struct arena   lent = { (u8 *)line, (u8 *)line + LOADER_LINE_MAX, NULL };
    struct textbuf b    = textbuf_new(&lent);
    changes(t, &b);
    textbuf_fmt(&b, ": wait %.0f %% → %.0f %%, %s → %s samples/s%s", 100 * t->wait_before,
                100 * wait, DIGITS(t->rate_before), DIGITS(rate), harm ? "; reverted" : "");
    if (harm) t->now = t->before;
    if (harm || fewer || (gain < helps && wait > wait_enough)) hold(t, s);
    else t->state = TUNER_LOOKS;
}

bool tuner_step(struct tuner *t, const struct tuner_seen *s, char line[LOADER_LINE_MAX])
{
    bool                judged = t->state == TUNER_JUDGES;
    struct tuner_choice less   = t->now;
    measure(t, s);
    if (judged) judge(t, s, line);
    else if (t->state == TUNER_SETTLES) t->state = TUNER_JUDGES;
    else if (t->state == TUNER_HOLDS) watch(t, s);
    if (t->state == TUNER_LOOKS) look(t, s);
    fit(t, &less, s->sample_bytes); /* larger samples than before need not wait for a turn */
    if (workers_sum(t, &less) < workers_sum(t, &t->now) &&
        workers_sum(t, &less) < workers_sum(t, &t->before))
        attempt(t, &less, s);
    return judged;
}
