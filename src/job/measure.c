/* measure.c - a measurement: the run in a process of its own until its pace is known. A setting that takes too much
 * memory, or that crashes, takes nothing else with it, and none inherits what another left warm. */
#include "job/measure.h"
#include "base/pool.h"
#include "store/checkpoint.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WARM_STEPS = 2, STEPS_LEAST = 3 };
static const f64 warm_part = 0.2;       /* of the time asked for */
static const i64 look_ns   = 200000000; /* how long a signal may go unseen */

struct work {
    struct settings     settings;
    enum measure_of     of;
    f64                 seconds_asked;
    struct train_orders orders;
    bool                done;
    struct file         stream;
    f64                 begin_s; /* of the steps that count; NaN: it warms up */
    i64                 begin_samples, begin_step;
    struct measured     m;
};

/* The last word of this process. */
static void tell(struct work *w)
{
    struct str bytes = { (const char *)&w->m, sizeof w->m };
    _exit(os_real()->write(os_real(), w->stream, bytes, NULL) ? STATUS_WORLD : STATUS_OK);
}

static void on_start(void *context, const struct event_start *e)
{
    struct work *w     = context;
    w->m.gpus          = e->gpus;
    w->m.train_samples = e->train_samples;
    w->m.batch         = e->batch;
    w->m.accumulate    = e->accumulate;
    w->m.batch_norm    = e->batch_norm;
    w->m.sample_tokens = e->sample_tokens;
    w->m.low           = str_eq(e->precision, STR("bf16")) || str_eq(e->precision, STR("fp16"));
    snprintf(w->m.device, sizeof w->m.device, "%.*s", STR_ARG(e->device));
}

static void on_step(void *context, const struct event_step *e)
{
    struct work *w = context;
    if (e->step == 1) w->m.seconds = e->elapsed_s; /* start-up, until there is better to tell */
    if (isnan(w->begin_s)) {
        bool warm =
            e->step >= WARM_STEPS && e->elapsed_s - w->m.seconds >= warm_part * w->seconds_asked;
        if (!warm) return;
        w->begin_s       = e->elapsed_s;
        w->begin_samples = e->samples;
        w->begin_step    = e->step;
        return;
    }
    f64 seconds = e->elapsed_s - w->begin_s;
    if (seconds < w->seconds_asked || e->step - w->begin_step < STEPS_LEAST) return;
    w->m.seconds = seconds / (f64)(e->samples - w->begin_samples);
    if (w->of == MEASURE_STEPS) tell(w);
    w->done = true;
    train_order(&w->orders, ORDER_EXIT, 0, "the pace is known");
}

/* Nothing is kept of it, and it would go on for ever. */
static void endless(struct settings *s)
{
    s->timed             = true;
    s->checkpoint.to     = STR("");
    s->train.out         = STR("");
    s->train.gradients   = STR("");
    s->train.epochs      = 0;
    s->train.steps       = 1000000000;
    s->train.max_seconds = NAN;
    s->train.max_dollars = NAN;
    s->train.target      = NAN;
    s->train.patience    = 0;
    s->train.forecast    = 0;
}

static void only_steps(struct settings *s)
{
    endless(s);
    s->checkpoint       = (struct checkpoint_config){ 0 };
    s->train.keep_best  = STR("false");
    s->train.eval_every = 1000000000;
}

/* Checkpoints go to the same disk as the run's own, in a folder that is nobody else's. */
static enum status with_all(struct os *os, struct settings *s, struct arena *perm, struct err *err)
{
    endless(s);
    if (!s->checkpoint.dir.len) return STATUS_OK;
    return ckpt_aside_make(os, s->checkpoint.dir, perm, &s->checkpoint.dir, err);
}

static int measure(void *context, struct file stream)
{
    struct work        *w   = context;
    struct subscriber   l   = { .context = w, .on_start = on_start, .on_step = on_step };
    struct job          job = { .os = os_real(), .settings = &w->settings, .orders = &w->orders };
    struct train_result r;
    struct err          err = { 0 };
    w->stream               = stream;
    enum status st          = job_train(&job, &l, &r, &err);
    w->m.evidence           = r.evidence;
    w->m.status             = w->done ? STATUS_OK : st ? st : STATUS_NO;
    snprintf(w->m.text, sizeof w->m.text, "%s",
             st ? err.text : "it ended before its pace was known");
    tell(w);
    return STATUS_WORLD;
}

enum status child_word(struct os *os, struct os_child *child, void *out, i64 bytes, struct err *err)
{
    i64 got = 0;
    while (os_wait_any(&child->stream, 1, look_ns) < 0) {
        enum os_signal signal = os->signal_take(os);
        if (signal == OS_SIGNAL_NONE || signal == OS_SIGNAL_USR1) continue;
        os_child_end(child);
        return err_set(err, STATUS_INTERRUPTED, "stopped by a signal: nothing was written");
    }
    enum status st = os->read(os, child->stream, out, bytes, -1, &got, NULL);
    os_child_end(child);
    if (!st && got == bytes) return STATUS_OK;
    return err_set(err, STATUS_NO, "its process ended without a result: out of memory?");
}

static enum status hear(struct os *os, struct os_child *child, struct measured *out,
                        struct err *err)
{
    enum status st = child_word(os, child, out, sizeof *out, err);
    if (st || !out->status) return st;
    return err_set(err, out->status == STATUS_INTERRUPTED ? STATUS_INTERRUPTED : STATUS_NO, "%s",
                   out->text);
}

enum status measure_run(struct os *os, const struct settings *s, f64 seconds, enum measure_of of,
                        struct measured *out, struct err *err)
{
    struct work     w      = { .settings      = *s,
                               .of            = of,
                               .seconds_asked = seconds,
                               .begin_s       = NAN,
                               .orders        = TRAIN_ORDERS_NONE };
    struct arena    memory = arena_open((i64)16 << 20);
    struct os_child child;
    if (!memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = STATUS_OK;
    if (of == MEASURE_WHOLE) st = with_all(os, &w.settings, &memory, err);
    else only_steps(&w.settings);
    if (!st) {
        st = os_child_start(&child, measure, &w, err);
        if (!st) st = hear(os, &child, out, err);
        if (w.settings.checkpoint.dir.len) ckpt_aside_remove(os, w.settings.checkpoint.dir, memory);
    }
    arena_close(&memory);
    return st;
}
