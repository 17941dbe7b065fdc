/* clock.c - time by part, and its views. */
#include "run/clock.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { COUNTS, REDONE }; /* of a nanosecond: for the first time, or again */

struct clock {
    struct os       *os;
    i64              begin_ns;
    pthread_mutex_t  lock; /* of what lies below, but for the last lines */
    enum part        now;
    i64              since_ns;
    i64              ns[PART_COUNT][2]; /* until since_ns */
    bool             redoes, stopped;
    i64              step;          /* going on; -1: none yet */
    i64              steps_done;    /* the most that were, before it */
    i64              before_ns;     /* of all ns: from before it began */
    i64              step_begin_ns; /* of the thread that enters, as are the rest */
    struct quantiles times;
    part_watcher    *watcher;
    void            *context;
};

static const struct {
    const char *name, *help;
    enum term   term;
} parts[PART_COUNT] = {
#define PART(id, group, text) [PART_##id] = { #id, text, TERM_##group },
    LOOP_PARTS(PART) AROUND_PARTS(PART)
#undef PART
};

static const char *const terms[][2] = {
#define TERM(name, group, help) { #name, group },
    TERMS(TERM)
#undef TERM
};

i64 moment_now(struct os *os) { return os->now_ns(os); }

struct deadline deadline_in(struct os *os, i64 ns)
{
    return (struct deadline){ os, moment_now(os) + ns };
}

i64 deadline_left_ns(const struct deadline *d) { return MAX(d->at_ns - moment_now(d->os), 0); }

struct stopwatch stopwatch_start(struct os *os) { return (struct stopwatch){ os, moment_now(os) }; }

f64 stopwatch_s(const struct stopwatch *w) { return (f64)(moment_now(w->os) - w->begin_ns) * 1e-9; }

i64 clock_boot_age_ns(void)
{
    struct timespec up;
    clock_gettime(CLOCK_BOOTTIME, &up);
    return (i64)up.tv_sec * 1000000000 + up.tv_nsec;
}

const char *clock_part_name(enum part p) { return parts[p].name; }
const char *clock_part_help(enum part p) { return parts[p].help; }
enum term   clock_part_term(enum part p) { return parts[p].term; }
const char *term_name(enum term t) { return terms[t][0]; }
const char *term_group(enum term t) { return terms[t][1]; }

i64 split_sum(const struct step_split *s)
{
    i64 sum = 0;
    for (i64 i = 0; i < PART_LOOP_COUNT; i++) sum += s->ns[i];
    return sum;
}

struct step_split split_since(const struct step_split *now, const struct step_split *before)
{
    struct step_split d = *now;
    for (i64 i = 0; i < PART_COUNT; i++) d.ns[i] -= before->ns[i];
    return d;
}

static struct clock *begun(struct arena *perm, struct os *os, i64 age_ns)
{
    struct clock *c = NEW(perm, struct clock, 1);
    ASSERT(!pthread_mutex_init(&c->lock, NULL));
    c->os       = os;
    c->now      = PART_start;
    c->since_ns = c->begin_ns = moment_now(os) - age_ns;
    c->step                   = -1;
    return c;
}

struct clock *clock_new(struct arena *perm, struct os *os) { return begun(perm, os, 0); }

struct clock *clock_of_process(struct arena *perm, struct os *os)
{
    return begun(perm, os, os_process_age_ns());
}

i64 clock_now(const struct clock *c) { return c ? moment_now(c->os) : 0; }

i64 clock_age_ns(const struct clock *c) { return c ? clock_now(c) - c->begin_ns : 0; }

/* With the lock held. */
static i64 settle(struct clock *c)
{
    i64 now_ns = clock_now(c);
    if (c->stopped) return now_ns;
    ASSERT(now_ns >= c->since_ns);
    c->ns[c->now][c->redoes] += now_ns - c->since_ns;
    c->since_ns = now_ns;
    return now_ns;
}

i64 clock_enter(struct clock *c, enum part next)
{
    if (!c) return 0;
    pthread_mutex_lock(&c->lock);
    enum part was      = c->now;
    i64       begin_ns = c->since_ns, now_ns = settle(c);
    c->now = next;
    pthread_mutex_unlock(&c->lock);
    if (c->watcher) c->watcher(c->context, was, begin_ns, now_ns);
    return now_ns;
}

void clock_stop(struct clock *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    settle(c);
    c->stopped = true;
    pthread_mutex_unlock(&c->lock);
}

i64 clock_step_begin(struct clock *c, i64 step)
{
    i64 now_ns = clock_enter(c, PART_other);
    pthread_mutex_lock(&c->lock);
    if (step != c->step) c->steps_done = MAX(c->steps_done, c->step + 1);
    c->step   = step;
    c->redoes = step < c->steps_done;
    pthread_mutex_unlock(&c->lock);
    c->step_begin_ns = now_ns;
    return now_ns;
}

i64 clock_step_end(struct clock *c)
{
    i64 step_ns = clock_enter(c, PART_logging) - c->step_begin_ns;
    quantiles_add(&c->times, step_ns);
    return step_ns;
}

void clock_steps_done(struct clock *c, i64 steps)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->steps_done = MAX(c->steps_done, steps);
    pthread_mutex_unlock(&c->lock);
}

void clock_redo(struct clock *c, bool redoes)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    settle(c);
    c->redoes = redoes;
    pthread_mutex_unlock(&c->lock);
}

void clock_add(struct clock *c, enum part part, i64 ns)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->ns[part][COUNTS] += ns;
    c->before_ns += ns;
    pthread_mutex_unlock(&c->lock);
}

void clock_move(struct clock *c, enum part from, enum part to, i64 ns)
{
    ASSERT(ns >= 0);
    pthread_mutex_lock(&c->lock);
    ns = MIN(ns, c->ns[from][c->redoes]);
    c->ns[from][c->redoes] -= ns;
    c->ns[to][c->redoes] += ns;
    pthread_mutex_unlock(&c->lock);
}

void clock_watch(struct clock *c, part_watcher *watcher, void *context)
{
    c->watcher = watcher;
    c->context = context;
}

struct step_split clock_split(struct clock *c)
{
    struct step_split s = { 0 };
    if (!c) return s;
    pthread_mutex_lock(&c->lock);
    for (i64 i = 0; i < PART_COUNT; i++) s.ns[i] = c->ns[i][COUNTS] + c->ns[i][REDONE];
    pthread_mutex_unlock(&c->lock);
    return s;
}

i64 clock_part_ns(struct clock *c, enum part part) { return clock_split(c).ns[part]; }

i64 clock_terms(struct clock *c, i64 out[TERM_COUNT])
{
    i64 ns[PART_COUNT][2], sum = 0;
    memset(out, 0, TERM_COUNT * sizeof *out);
    if (!c) return 0;
    pthread_mutex_lock(&c->lock);
    memcpy(ns, c->ns, sizeof c->ns);
    if (!c->stopped) ns[c->now][c->redoes] += clock_now(c) - c->since_ns;
    pthread_mutex_unlock(&c->lock);
    for (i64 i = 0; i < PART_COUNT; i++) {
        enum term t = parts[i].term;
        if (t == TERM_none) continue;
        out[t] += ns[i][COUNTS];
        out[t == TERM_compute ? TERM_redone : t] += ns[i][REDONE];
        sum += ns[i][COUNTS] + ns[i][REDONE];
    }
    return sum;
}

i64 clock_before_ns(struct clock *c)
{
    if (!c) return 0;
    pthread_mutex_lock(&c->lock);
    i64 ns = c->before_ns;
    pthread_mutex_unlock(&c->lock);
    return ns;
}

const struct quantiles *clock_step_times(const struct clock *c) { return &c->times; }

i64 clock_waited_ns(struct clock *c)
{
    struct step_split s = clock_split(c);
    return s.ns[PART_input] + s.ns[PART_fill];
}
