/* sweep_trial.c - a trial runs in a process of its own: a copy of this one that calls the trainer and
 * tells of its evaluations over a stream. At its rung it waits, whole and in memory, until it is told
 * how far to run on; when the stream closes, nobody waits for it any more and it ends.
 *
 * Why so: a trial that goes on continues bit-exact without a checkpoint; trials can run side by
 * side; and one that fails takes no other with it. The price is the memory of those that wait. That time
 * is the clock's part `paused`, so that its seconds and dollars are those of its work. */
#include "job/sweep_trial.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MEMORY_BYTES = 1 << 20 };

struct work { /* of the child */
    struct os          *os;
    struct clock       *clock;
    const struct trial *trial;
    struct file         stream;
    f64                 part; /* of the run, at which it waits */
    struct note         note;
};

static void tell(struct work *w)
{
    struct str bytes = { (const char *)&w->note, sizeof w->note };
    if (w->os->write(w->os, w->stream, bytes, NULL)) _exit(STATUS_INTERRUPTED);
}

static void wait_at_rung(struct work *w)
{
    i64 got = 0;
    clock_enter(w->clock, PART_paused);
    if (w->os->read(w->os, w->stream, &w->part, sizeof w->part, -1, &got, NULL) ||
        got != sizeof w->part)
        _exit(STATUS_INTERRUPTED);
    clock_enter(w->clock, PART_logging); /* as the trainer left it */
}

static f64 metric_value(const struct note *n, f64 loss, const struct event_metric *m, i64 count)
{
    for (i64 i = 0; i < count; i++)
        if (str_eq(m[i].name, str_of(n->metric))) return m[i].value;
    return loss;
}

static void on_start(void *context, const struct event_start *e)
{
    struct work *w = context;
    w->note.steps  = e->steps;
    snprintf(w->note.metric, sizeof w->note.metric, "%.*s", STR_ARG(e->metric));
}

static void on_step(void *context, const struct event_step *e)
{
    struct work *w = context;
    if (w->note.begin_s == 0) w->note.begin_s = e->elapsed_s;
}

static void on_eval(void *context, const struct event_eval *e)
{
    struct work *w         = context;
    bool         rung      = (f64)e->step >= w->part * (f64)w->note.steps;
    bool         ends      = e->target_reached || e->step >= w->note.steps;
    w->note.kind           = rung && !ends ? NOTE_RUNG : NOTE_EVAL;
    w->note.step           = e->step;
    w->note.seconds        = e->elapsed_s;
    w->note.loss           = e->loss;
    w->note.value          = metric_value(&w->note, e->loss, e->metrics.items, e->metrics.count);
    w->note.target_reached = e->target_reached;
    tell(w);
    if (w->note.kind == NOTE_RUNG) wait_at_rung(w);
}

static int run_trial(void *context, struct file stream)
{
    struct work      *w     = context;
    struct subscriber heard = {
        .context = w, .on_start = on_start, .on_step = on_step, .on_eval = on_eval
    };
    struct train_result r;
    struct err          err    = { 0 };
    struct arena        memory = arena_open(MEMORY_BYTES);
    if (!memory.begin) _exit(STATUS_WORLD);
    w->stream                = stream;
    w->os                    = os_real();
    w->clock                 = clock_new(&memory, w->os);
    struct bill    *bill     = bill_new(&memory, w->clock);
    struct settings settings = w->trial->settings;
    struct job      job = { .os = w->os, .perm = &memory, .settings = &settings, .bill = bill };
    bill_price(bill, &(struct price_row){ .usd_hour = w->trial->settings.train.usd_hour });
    enum status st = job_train(&job, &heard, &r, &err);
    w->note.kind   = NOTE_END;
    w->note.status = st;
    snprintf(w->note.text, sizeof w->note.text, "%s", st ? err.text : r.why);
    if (!st) {
        w->note.step           = r.steps;
        w->note.seconds        = r.seconds;
        w->note.loss           = r.loss;
        w->note.value          = metric_value(&w->note, r.loss, r.metrics, r.metric_count);
        w->note.target_reached = r.target_reached;
        w->note.stopped        = r.stopped;
    }
    tell(w);
    return (int)st;
}

enum status trial_start(struct trial *t, f64 part, struct err *err)
{
    struct work w = { .trial = t, .part = part, .note = { .loss = NAN, .value = NAN } };
    return os_child_start(&t->child, run_trial, &w, err);
}

enum status trial_go_on(struct trial *t, f64 part, struct err *err)
{
    struct str bytes = { (const char *)&part, sizeof part };
    return os_real()->write(os_real(), t->child.stream, bytes, err);
}

bool trial_read(struct trial *t, struct note *n)
{
    i64 got = 0;
    return !os_real()->read(os_real(), t->child.stream, n, sizeof *n, -1, &got, NULL) &&
           got == sizeof *n;
}

f64 note_value(const struct note *n)
{
    if (n->kind == NOTE_END && n->status) return INFINITY;
    if (!isfinite(n->value)) return INFINITY;
    return metric_falls(str_of(n->metric)) ? n->value : -n->value;
}
