/* follow.c - from what a training loop reports to the run's stream, and to orders. */
#include "supervise/follow.h"
#include "base/family.h"
#include "base/pool.h"
#include "run/ledger.h"
#include "run/lookout.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PERM_GIB = 1, LINE_BYTES = 1 << 16, NOTICES_MAX = 8 };

static const i64 tick_ns      = 50000000;
static const f64 saving_part  = 0.75; /* of a notice, for the program: as in supervise.c */
static const f64 before_s_max = 1e7;  /* that a program may have run before it reports: months */
/* No program has more; the products of two of them are numbers still. */
static const i64 samples_max = (i64)1 << 42, tokens_max = (i64)1 << 20, batch_max = (i64)1 << 40;

enum asked { ASKED_NOTHING, ASKED_BY_POLICY, ASKED_BY_SIGNAL, ASKED_BY_NOTICE };

struct follow {
    struct os           *os;
    struct follow_config c;
    struct arena         perm, scratch;
    struct clock        *clock; /* of the bill */
    struct lookout      *lookout;
    struct notice_watch *watch;
    struct stop          stop;
    char                *line; /* the beginning of a line whose end has not come */
    i64                  line_bytes;
    bool                 line_long;
    bool                 began, started, done;
    bool in_parts; /* the program says what it does; else all between two steps is one */
    bool in_step;
    struct event_start   start;
    struct event_step    step; /* the newest */
    f64                  loss; /* of the newest evaluation, else of the newest step */
    struct event_metrics metrics;
    i64                  saved_step, saved_count, eval_step, eval_ns, save_ns, saved_ns;
    bool                 target_reached;
    enum asked           asked;
    char                 reason[STOP_TEXT_MAX];
    f64                  asked_s;     /* the time it got; NaN: not limited */
    i64                  deadline_ns; /* 0: none */
    pthread_mutex_t      lock;        /* of the notices: the watcher's thread puts them here */
    struct notice        notices[NOTICES_MAX];
    i64                  notice_count;
};

/* --- orders -------------------------------------------------------------------------------------- */

static void order(struct follow *f, const char *what, enum stop_reason reason, const char *why,
                  f64 seconds)
{
    emit_order(f->c.events, &(struct event_order){ .what    = str_of(what),
                                                   .reason  = reason,
                                                   .why     = str_of(why),
                                                   .seconds = seconds });
}

/* Once: what asked first is the reason; a deadline that comes later still counts. */
static void ask_to_end(struct follow *f, enum asked by, f64 seconds, const char *why)
{
    if (f->asked) return;
    f->asked   = by;
    f->asked_s = seconds;
    snprintf(f->reason, sizeof f->reason, "%s", why);
    order(f, "stop", by == ASKED_BY_POLICY ? f->stop.reason : STOP_SIGNAL, why, seconds);
}

static void end_by(struct follow *f, i64 deadline_ns)
{
    if (!f->deadline_ns || deadline_ns < f->deadline_ns) f->deadline_ns = deadline_ns;
}

static f64 time_left_s(struct follow *f)
{
    if (!f->deadline_ns) return NAN;
    return saving_part * 1e-9 * (f64)MAX(f->deadline_ns - clock_now(f->clock), 0);
}

static void hear_end(struct follow *f, const char *why)
{
    i64 killed_ns = (i64)(f->c.spot->grace_s * 1e9);
    if (killed_ns > 0) end_by(f, clock_now(f->clock) + killed_ns);
    ask_to_end(f, ASKED_BY_SIGNAL, time_left_s(f), why);
}

static void hear_signals(struct follow *f)
{
    enum os_signal s;
    while ((s = f->os->signal_take(f->os)) != OS_SIGNAL_NONE) {
        if (s == OS_SIGNAL_INT) ask_to_end(f, ASKED_BY_SIGNAL, NAN, "stopped by Ctrl-C");
        if (s == OS_SIGNAL_WATCH) ask_to_end(f, ASKED_BY_SIGNAL, NAN, "stopped by frugal watch");
        if (s == OS_SIGNAL_TERM) hear_end(f, "stopped by SIGTERM");
        if (s == OS_SIGNAL_HUP) hear_end(f, "stopped by SIGHUP");
        if (s == OS_SIGNAL_USR1) order(f, "save", STOP_NONE, "SIGUSR1 came", NAN);
    }
}

static void on_notice(void *context, const struct notice *n)
{
    struct follow *f = context;
    pthread_mutex_lock(&f->lock);
    if (f->notice_count < NOTICES_MAX) f->notices[f->notice_count++] = *n;
    pthread_mutex_unlock(&f->lock);
}

static void hear_notices(struct follow *f)
{
    struct notice taken[NOTICES_MAX];
    pthread_mutex_lock(&f->lock);
    i64 count = f->notice_count;
    memcpy(taken, f->notices, sizeof taken);
    f->notice_count = 0;
    pthread_mutex_unlock(&f->lock);
    for (i64 i = 0; i < count; i++) {
        const struct notice *n = &taken[i];
        if (n->act == NOTICE_LOG) emit_note(f->c.events, &(struct event_note){ str_of(n->text) });
        if (n->act == NOTICE_SAVE) order(f, "save", STOP_NONE, n->text, NAN);
        if (n->act != NOTICE_END) continue;
        end_by(f, n->deadline_ns);
        ask_to_end(f, ASKED_BY_NOTICE, time_left_s(f), n->text);
    }
}

/* The rules of `frugal train`. Whether a loss is no number is the program's own affair. */
static void judge(struct follow *f)
{
    struct stop_config *c = &f->stop.config;
    if (f->asked) return;
    c->limit_s = bill_limit_s(f->c.bill, c->max_seconds, c->max_dollars);
    c->save_s  = (f64)f->save_ns * 1e-9;
    if (!f->stop.reason) stop_step(&f->stop, f->step.step, bill_elapsed_s(f->c.bill), 0);
    if (f->stop.reason) ask_to_end(f, ASKED_BY_POLICY, NAN, f->stop.text);
}

/* --- what the program reports ------------------------------------------------------------------- */

static void begin_step(struct follow *f)
{
    if (!f->in_step) clock_step_begin(f->clock, f->step.step);
    f->in_step = true;
}

static void enter(struct follow *f, enum part p)
{
    bool pauses = p == PART_evaluation || p == PART_checkpoint || p >= PART_LOOP_COUNT;
    if (!pauses && f->started) begin_step(f);
    clock_enter(f->clock, p);
    if (p == PART_evaluation) lookout_mark(f->lookout, RHYTHM_EVALUATION);
    if (p == PART_checkpoint) lookout_mark(f->lookout, RHYTHM_CHECKPOINT);
}

static void take_part(struct follow *f, const struct event_part *e)
{
    for (i32 p = 0; p < PART_COUNT; p++) {
        if (!str_eq(e->part, str_of(clock_part_name((enum part)p)))) continue;
        if (p == PART_boot || p == PART_paused)
            return; /* time that only we can know, or not billed */
        if (!f->began && e->seconds > 0 && e->seconds < before_s_max)
            clock_add(f->clock, (enum part)p, (i64)(e->seconds * 1e9));
        f->began = true;
        f->in_parts |= p < PART_LOOP_COUNT;
        enter(f, (enum part)p);
    }
}

static void take_start(struct follow *f, struct event_start *e)
{
    struct str run = f->c.run.len ? f->c.run : ledger_new_id(&f->perm);
    if (f->started) return;
    e->version       = STR(FRUGAL_VERSION);
    e->run           = str_copy(&f->perm, run);
    e->metric        = f->c.stop.metric;
    e->usd_hour      = f->c.stop.usd_hour;
    e->device        = str_copy(&f->perm, e->device);
    e->precision     = str_copy(&f->perm, e->precision);
    e->optimiser     = str_copy(&f->perm, e->optimiser);
    e->batch         = MIN(MAX(e->batch, 0), batch_max);
    e->accumulate    = MIN(MAX(e->accumulate, 1), tokens_max);
    e->from_step     = MAX(e->from_step, 0);
    e->steps         = MAX(e->steps, 0);
    e->sample_tokens = MIN(MAX(e->sample_tokens, 0), tokens_max);
    if (isnan(e->flops_step) || e->flops_step < 0) e->flops_step = 0;
    if (!e->steps || (f->c.stop.steps_max && f->c.stop.steps_max < e->steps))
        e->steps = f->c.stop.steps_max;
    f->stop.config.steps_max = e->steps;
    f->start                 = *e;
    f->step.step             = e->from_step;
    emit_open(f->c.events, &(struct event_open){ e->run });
    emit_start(f->c.events, e);
    f->started = true;
}

static f64 share(i64 part, i64 whole) { return whole > 0 ? (f64)part / (f64)whole : NAN; }

/* What the program cannot know of a step. */
static void complete_step(struct follow *f, struct event_step *e)
{
    const struct quantiles *times = clock_step_times(f->clock);
    struct spent            now   = bill_spent(f->c.bill);
    e->times                      = times;
    event_step_fill(e);
    e->steps         = f->start.steps;
    e->elapsed_s     = (f64)now.ns * 1e-9;
    e->dollars       = now.usd;
    e->samples       = MIN(MAX(e->samples, 0), samples_max);
    i64 mine         = e->step - f->start.from_step;
    e->samples_per_s = mine > 0 ? e->steps_per_s * (f64)e->samples / (f64)mine : NAN;
    if (f->start.sample_tokens) e->tokens_per_s = e->samples_per_s * (f64)f->start.sample_tokens;
    struct step_split split = clock_split(f->clock);
    e->input_share          = share(clock_waited_ns(f->clock), split_sum(&split));
    e->eta_s                = e->steps > e->step ? (f64)(e->steps - e->step) / e->steps_per_s : NAN;
    e->busy                 = lookout_busy(f->lookout);
}

static void take_step(struct follow *f, struct event_step *e)
{
    if (!f->started || e->step < f->start.from_step) return;
    if (f->in_step) clock_step_end(f->clock);
    f->in_step = false;
    lookout_mark(f->lookout, RHYTHM_STEP);
    if (isnan(e->loss)) e->loss = f->step.loss;
    complete_step(f, e);
    f->step         = *e;
    f->step.metrics = (struct event_metrics){ 0 }; /* its names are the line's */
    if (!f->eval_step) f->loss = e->loss;
    emit_step(f->c.events, e);
    if (!f->in_parts) enter(f, PART_compute);
}

/* Their names are the line's, and of a run mostly the same. */
static void keep_metrics(struct follow *f, const struct event_metrics *m)
{
    struct event_metrics was = f->metrics;
    f->metrics               = *m;
    for (i64 i = 0; i < m->count; i++) {
        bool same                = i < was.count && str_eq(was.items[i].name, m->items[i].name);
        f->metrics.items[i].name = same ? was.items[i].name : str_copy(&f->perm, m->items[i].name);
    }
}

static void take_eval(struct follow *f, struct event_eval *e)
{
    const struct stop_config *c = &f->stop.config;
    if (!f->started) return;
    struct stop_eval judged = { .step      = e->step,
                                .elapsed_s = bill_elapsed_s(f->c.bill),
                                .loss      = isfinite(e->loss) ? e->loss : 0, /* its own affair */
                                .value     = e->loss };
    for (i64 i = 0; i < e->metrics.count; i++)
        if (str_eq(e->metrics.items[i].name, c->metric)) judged.value = e->metrics.items[i].value;
    enter(f, PART_logging);
    i64 all_ns    = clock_part_ns(f->clock, PART_evaluation);
    judged.eval_s = (f64)(all_ns - f->eval_ns) * 1e-9;
    f->eval_ns    = all_ns;
    bool falls    = metric_falls(c->metric);
    f->loss       = e->loss;
    bool fresh    = e->step > f->eval_step; /* not one that is done again */
    f->eval_step  = MAX(e->step, f->eval_step);
    keep_metrics(f, &e->metrics);
    judged.target_reached = falls ? judged.value <= c->target : judged.value >= c->target;
    f->target_reached |= judged.target_reached;
    if (!f->stop.reason && fresh && isfinite(judged.value)) stop_at_eval(&f->stop, &judged);
    e->elapsed_s      = judged.elapsed_s;
    e->eval_s         = judged.eval_s;
    e->target_reached = judged.target_reached;
    e->forecast       = f->stop.forecast.value;
    e->reach          = f->stop.forecast.reach;
    e->dollars        = bill_spent(f->c.bill).usd;
    clock_terms(f->clock, e->terms_ns.ns);
    emit_eval(f->c.events, e);
}

static void take_checkpoint(struct follow *f, struct event_checkpoint *e)
{
    if (!f->started) return;
    if (e->what == CHECKPOINT_SAVED) {
        enter(f, PART_logging);
        i64 all_ns = clock_part_ns(f->clock, PART_checkpoint), took = all_ns - f->saved_ns;
        f->saved_ns  = all_ns;
        f->save_ns   = MAX(f->save_ns, took);
        e->blocked_s = isnan(e->blocked_s) ? (f64)took * 1e-9 : e->blocked_s;
        if (isnan(e->persist_s)) e->persist_s = e->blocked_s;
        f->saved_step = e->step;
        f->saved_count++;
    }
    emit_checkpoint(f->c.events, e);
}

static void take_event(struct follow *f, enum event_kind kind, union event_any *e)
{
    if (kind == EVENT_part) take_part(f, &e->part);
    if (kind == EVENT_start) take_start(f, &e->start);
    if (kind == EVENT_step) take_step(f, &e->step);
    if (kind == EVENT_eval) take_eval(f, &e->eval);
    if (kind == EVENT_checkpoint) take_checkpoint(f, &e->checkpoint);
    if (kind == EVENT_note) emit_note(f->c.events, &e->note);
    if (kind == EVENT_interruption) hear_end(f, "stopped by a signal");
    if (kind != EVENT_done) return;
    enter(f, PART_end);
    if (e->done.stopped == STOP_DIVERGED && !f->asked)
        stop_end(&f->stop, STOP_DIVERGED, f->step.step);
    f->done = true;
}

static enum status take_line(struct follow *f, struct str line, struct err *err)
{
    struct arena    scratch = f->scratch;
    enum event_kind kind;
    union event_any event;
    if (!line.len || f->done) return STATUS_OK;
    enum status st = event_read(line, &scratch, &kind, &event, err);
    if (!st) take_event(f, kind, &event);
    return st == STATUS_NO ? STATUS_OK : st; /* of a newer module */
}

enum status follow_take(struct follow *f, struct str bytes, struct err *err)
{
    enum status st = STATUS_OK;
    struct err  why;
    while (bytes.len) {
        i64         end = str_find(bytes, '\n'), more = end < 0 ? bytes.len : end;
        bool        fits = f->line_bytes + more <= LINE_BYTES;
        enum status one  = STATUS_OK;
        if (fits) memcpy(f->line + f->line_bytes, bytes.data, (size_t)more);
        f->line_bytes += fits ? more : 0;
        f->line_long |= !fits;
        bytes = str_sub(bytes, more + (end >= 0), bytes.len);
        if (end < 0) break;
        if (f->line_long)
            one = err_set(&why, STATUS_USAGE, "a line has more than %d bytes", LINE_BYTES);
        else one = take_line(f, (struct str){ f->line, f->line_bytes }, &why);
        f->line_bytes = 0;
        f->line_long  = false;
        if (one && !st) st = err_set(err, one, "%s", why.text);
    }
    return st;
}

void follow_look(struct follow *f)
{
    struct usage u;
    struct arena scratch = f->scratch;
    hear_signals(f);
    hear_notices(f);
    if (f->started) judge(f);
    if (!lookout_news(f->lookout, &u)) return;
    struct str said =
        str_fmt(&scratch, "%s: %.*s", lookout_sees_gpus(f->lookout) ? "GPUs" : "cores",
                STR_ARG(usage_text(&u, &scratch)));
    emit_note(f->c.events, &(struct event_note){ said });
}

bool follow_is_done(const struct follow *f) { return f->done; }

/* --- from its start to its end ------------------------------------------------------------------ */

struct follow *follow_new(struct os *os, struct arena *perm, const struct follow_config *c)
{
    struct follow *f = NEW(perm, struct follow, 1);
    f->os            = os;
    f->c             = *c;
    f->perm          = arena_part(perm, (i64)1 << 22);
    f->scratch       = arena_part(perm, (i64)1 << 22);
    f->line          = NEW(perm, char, LINE_BYTES);
    f->clock         = bill_clock(c->bill);
    f->loss          = NAN;
    event_clear(EVENT_step, &f->step);
    stop_init(&f->stop, &c->stop);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

static void tell_done(struct follow *f, const struct follow_result *r, struct lookout_seen seen)
{
    struct spent      spent = bill_spent(f->c.bill);
    struct event_done e;
    event_clear(EVENT_done, &e);
    e.steps       = f->step.step;
    e.seconds     = (f64)spent.ns * 1e-9;
    e.dollars     = spent.usd;
    e.loss        = f->loss;
    e.metrics     = f->metrics;
    e.stopped     = r->stopped;
    e.why         = str_of(f->reason);
    e.checkpoints = f->saved_count;
    if (f->saved_count) e.checkpoint_step = f->saved_step;
    if (f->start.from_step) e.resumed_step = f->start.from_step;
    e.samples_per_s = f->step.samples_per_s;
    e.tokens_per_s  = f->step.tokens_per_s;
    e.steps_per_s   = f->step.steps_per_s;
    e.step_p50_s    = f->step.step_p50_s;
    e.step_p95_s    = f->step.step_p95_s;
    e.step_p99_s    = f->step.step_p99_s;
    e.input_share   = f->step.input_share;
    if (f->start.flops_step > 0) e.flops_per_s = f->start.flops_step * f->step.steps_per_s;
    e.split_ns             = clock_split(f->clock);
    e.step_samples         = f->start.batch * f->start.accumulate;
    e.weights_step         = f->step.step;
    e.saved_s              = stop_saved_s(&f->stop, f->step.step, e.seconds);
    e.requests_usd         = bill_requests(f->c.bill);
    e.storage_usd          = bill_storage(f->c.bill);
    e.checkpoint_blocked_s = (f64)f->saved_ns * 1e-9;
    e.busy                 = seen.usage.mean;
    if (seen.usage.shape) e.usage = str_of(usage_name(seen.usage.shape));
    clock_terms(f->clock, e.terms_ns.ns);
    if (!isnan(f->c.stop.target)) e.target_reached = f->target_reached;
    emit_done(f->c.events, &e);
}

static void tell_interruption(struct follow *f, const char *kind)
{
    emit_interruption(f->c.events, &(struct event_interruption){ .kind       = str_of(kind),
                                                                 .notice_s   = f->asked_s,
                                                                 .step       = f->step.step,
                                                                 .saved_step = f->saved_step });
}

enum status follow_end(struct follow *f, struct follow_result *r, struct err *err)
{
    struct lookout_seen seen    = lookout_end(f->lookout);
    bool                outside = f->asked >= ASKED_BY_SIGNAL, died = !f->done;
    f->lookout               = NULL;
    enum stop_reason stopped = f->asked == ASKED_BY_POLICY ? f->stop.reason : STOP_END;
    if (f->stop.reason == STOP_DIVERGED) stopped = STOP_DIVERGED;
    *r = (struct follow_result){ .started        = f->started,
                                 .stopped        = outside ? STOP_SIGNAL
                                                   : died  ? STOP_NONE
                                                           : stopped,
                                 .target_reached = f->target_reached,
                                 .deadline_ns    = f->deadline_ns };
    if (!outside) f->asked_s = NAN;
    if (outside) tell_interruption(f, f->asked == ASKED_BY_NOTICE ? "notice" : "signal");
    else if (died && f->started) tell_interruption(f, "killed");
    bill_stop(f->c.bill); /* what is printed, and what the ledger keeps, is this */
    if (f->started) tell_done(f, r, seen);
    pthread_mutex_destroy(&f->lock);
    if (outside) return err_set(err, STATUS_INTERRUPTED, "%s", f->reason);
    if (died)
        return err_set(err, STATUS_NO, "the program ended without saying so, after step %lld",
                       (long long)f->step.step);
    return STATUS_OK;
}

static enum status follow_stream(struct follow *f, struct file in)
{
    static char bytes[LINE_BYTES];
    enum status st = STATUS_OK;
    while (!follow_is_done(f)) {
        i64 got = 0;
        if (os_wait_any(&in, 1, tick_ns) >= 0) {
            struct err why = { 0 };
            st             = f->os->read(f->os, in, bytes, sizeof bytes, -1, &got, NULL);
            if (st || !got) return st; /* it is gone */
            if (follow_take(f, (struct str){ bytes, got }, &why))
                emit_note(f->c.events, &(struct event_note){ str_of(why.text) });
        }
        follow_look(f);
    }
    return st;
}

enum status follow_run(struct os *os, struct file in, const struct follow_config *c,
                       struct follow_result *result, struct err *err)
{
    struct arena perm = arena_open((i64)PERM_GIB << 30);
    *result           = (struct follow_result){ 0 };
    if (!perm.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct follow *f  = follow_new(os, &perm, c);
    enum status    st = notice_watch_open(os, c->spot, on_notice, f, &f->watch, err);
    if (!st) {
        struct lookout_config looks = { os, STR(""), true, parent_cpu_ns, pool_machine_threads() };
        f->lookout                  = lookout_new(&perm, &looks);
        lookout_start(f->lookout, NULL);
        follow_stream(f, in);
        notice_watch_close(f->watch);
        st = follow_end(f, result, err);
    }
    arena_close(&perm);
    return st;
}
