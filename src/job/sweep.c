/* sweep.c - a sweep from its trials to the weights of the best: who runs on, and what is kept of it. */
#include "job/sweep.h"
#include "base/pool.h"
#include "job/record.h"
#include <math.h>
#include <stdio.h>

static const i64 halves     = 2;    /* one trial in so many goes on: docs/decisions/stopping.md */
static const f64 rung_first = 0.05; /* part of a run before trials are compared */

enum { SCRATCH_BYTES = 16 << 20 };
static const i64 look_ns = 200000000; /* how long a signal may go unseen */

bool note_failed(const struct note *n) { return n->kind == NOTE_END && n->status; }

f64 sweep_trial_usd(const struct sweep *s, f64 seconds)
{
    const struct settings *t = &s->config->settings;
    return bill_estimate_usd(bill_part_usd_hour(t->train.usd_hour, t->sweep.at_once), seconds);
}

bool sweep_never_compared(const struct sweep *s)
{
    for (i64 i = 0; i < s->count; i++)
        for (i64 k = 0; k < s->asha->rung_count; k++)
            if (s->trials[i].known[k].steps && s->trials[i].known[k].kind == NOTE_RUNG)
                return false;
    return s->asha->rung_count > 1;
}

static struct sweep_totals totals_of(const struct sweep *s, struct bill *bill)
{
    struct spent        spent = bill_spent(bill);
    struct sweep_totals t     = { .seconds = (f64)spent.ns * 1e-9, .usd = spent.usd };
    for (i64 i = 0; i < s->count; i++) {
        const struct note *n = &s->trials[i].last;
        t.done += s->asha->trials[i].state == ASHA_DONE;
        if (s->asha->trials[i].state == ASHA_OUT && !note_failed(n) && n->step)
            t.saved_s += (n->seconds - n->begin_s) * ((f64)n->steps / (f64)n->step - 1);
    }
    t.saved_usd = sweep_trial_usd(s, t.saved_s);
    return t;
}

/* What all trials share: the machine's threads and price; each writes its weights beside train.out. */
static enum status prepare(struct sweep *s, struct arena *perm, struct err *err)
{
    i64 at_once = s->config->settings.sweep.at_once;
    for (i64 i = 0; i < s->count; i++) {
        struct train_config *t = &s->trials[i].settings.train;
        if (!t->epochs && !t->steps)
            return err_set(
                err, STATUS_USAGE,
                "a sweep compares unfinished runs, so they need an end: train.epochs=5 or "
                "train.steps=1000");
        if (str_ends(t->out, STR("/")))
            return err_set(err, STATUS_USAGE,
                           "train.out=%.*s: a sweep writes a file; `frugal export` makes a folder "
                           "of it",
                           STR_ARG(t->out));
        i64 threads                      = t->threads ? t->threads : pool_machine_threads();
        t->threads                       = MAX(threads / at_once, 1);
        t->usd_hour                      = bill_part_usd_hour(t->usd_hour, at_once);
        t->gradients                     = STR("");
        s->trials[i].settings.checkpoint = (struct checkpoint_config){ 0 }; /* one run's folder */
        if (t->out.len) t->out = str_fmt(perm, "%.*s.trial%lld", STR_ARG(t->out), (long long)i + 1);
    }
    return STATUS_OK;
}

/* The trial told of its rung or its end. */
static enum status took(struct sweep *s, struct trial *t, const struct note *n, struct err *err)
{
    i64  trial  = t - s->trials;
    i64  rung   = s->asha->trials[trial].rung;
    bool failed = note_failed(n);
    t->last     = *n;
    if (n->kind == NOTE_EVAL && s->on_eval) s->on_eval(s, t);
    if (n->kind == NOTE_EVAL) return STATUS_OK;
    if (n->kind == NOTE_END) os_child_end(&t->child);
    if (failed && n->status == STATUS_INTERRUPTED)
        return err_set(err, STATUS_INTERRUPTED, "%s", n->text);
    if (failed && n->status != STATUS_NO && !s->told) /* the first: so would all others */
        return err_set(err, n->status, "%s", n->text);
    bool fresh     = n != &t->known[rung];
    t->known[rung] = *n;
    s->told++;
    if (n->kind == NOTE_END && !failed) asha_ended(s->asha, trial, note_value(n));
    else asha_report(s->asha, trial, note_value(n));
    if (s->on_trial) s->on_trial(s, t);
    return fresh ? results_write(s, err) : STATUS_OK;
}

/* A trial is to run on: by its process, or by what is known already. An evaluation that came late may
 * do for the next rung too. */
static enum status run_on(struct sweep *s, i64 trial, struct err *err)
{
    struct trial *t    = &s->trials[trial];
    i64           rung = s->asha->trials[trial].rung;
    f64           part = s->asha->part[rung];
    if (t->known[rung].steps) return took(s, t, &t->known[rung], err);
    if (part < 1 && rung && (f64)t->last.step >= part * (f64)t->last.steps)
        return took(s, t, &t->last, err);
    return t->child.pid ? trial_go_on(t, part, err) : trial_start(t, part, err);
}

/* Waits until one of the running trials says something. */
static enum status listen_to_all(struct sweep *s, struct err *err)
{
    struct file   streams[256];
    struct trial *of[256];
    struct note   n;
    i64           count = 0;
    for (i64 i = 0; i < s->count; i++) {
        if (s->asha->trials[i].state != ASHA_RUNNING) continue;
        of[count]        = &s->trials[i];
        streams[count++] = s->trials[i].child.stream;
    }
    i64            ready = os_wait_any(streams, count, look_ns);
    enum os_signal got   = s->job->os->signal_take(s->job->os);
    if (got != OS_SIGNAL_NONE && got != OS_SIGNAL_USR1)
        return err_set(err, STATUS_INTERRUPTED, "stopped by %s", os_signal_name(got));
    if (ready < 0) return STATUS_OK;
    if (!trial_read(of[ready], &n)) {
        n        = of[ready]->last;
        n.kind   = NOTE_END;
        n.status = STATUS_NO;
        snprintf(n.text, sizeof n.text, "its process ended without a result");
    }
    return took(s, of[ready], &n, err);
}

static i64 running(const struct sweep *s)
{
    i64 count = 0;
    for (i64 i = 0; i < s->count; i++) count += s->asha->trials[i].state == ASHA_RUNNING;
    return count;
}

static enum status run_trials(struct sweep *s, struct err *err)
{
    enum status st = STATUS_OK;
    while (!st) {
        for (i64 out; (out = asha_drop(s->asha)) >= 0;) os_child_end(&s->trials[out].child);
        i64 next = running(s) < s->config->settings.sweep.at_once ? asha_next(s->asha) : -1;
        if (next >= 0) st = run_on(s, next, err);
        else if (running(s)) st = listen_to_all(s, err);
        else break;
    }
    for (i64 i = 0; i < s->count; i++) os_child_end(&s->trials[i].child);
    return st;
}

/* train.out gets the weights of the best trial that came to its end; the others' go. */
static enum status keep_best_weights(struct sweep *s, struct err *err)
{
    struct os   *os    = s->job->os;
    struct str   out   = s->config->settings.train.out;
    struct arena here  = s->scratch;
    i64         *order = NEW(&here, i64, s->count);
    enum status  st    = STATUS_OK;
    if (!out.len) return STATUS_OK;
    asha_ranking(s->asha, order);
    for (i64 i = 0; i < s->count; i++) {
        struct trial  *t = &s->trials[order[i]];
        struct os_stat there;
        if (os->stat(os, t->settings.train.out, &there, NULL)) continue;
        bool done = s->asha->trials[order[i]].state == ASHA_DONE;
        if (i == 0 && done) st = os->rename(os, t->settings.train.out, out, err);
        else os->remove(os, t->settings.train.out, NULL);
    }
    return st;
}

static bool target_reached(const struct sweep *s)
{
    for (i64 i = 0; i < s->count; i++)
        if (s->trials[i].last.target_reached) return true;
    return false;
}

static enum status verdict(const struct sweep *s, struct err *err)
{
    const struct note *failure = NULL;
    bool               any     = false;
    for (i64 i = 0; i < s->count; i++) {
        const struct note *n = &s->trials[i].last;
        any |= isfinite(note_value(n)) && n->steps;
        if (!failure && note_failed(n)) failure = n;
    }
    if (!any && failure) return err_set(err, failure->status, "%s", failure->text);
    if (!any)
        return err_set(err, STATUS_NO, "no trial was evaluated, so none is the best: %s",
                       s->trials[0].last.text);
    f64 target = s->config->settings.train.target;
    if (!isnan(target) && !target_reached(s))
        return err_set(err, STATUS_NO, "no trial reached the target %g", target);
    return STATUS_OK;
}

/* In the ledger a sweep is one run, whose work is counted in trials: they pause and go on, and only
 * together they are what was paid for. */
static enum status run_recorded(struct sweep *s, struct record *record, struct err *err)
{
    record_work_open(record, &s->config->settings, "trials");
    enum status st = run_trials(s, err);
    if (target_reached(s)) record_work_reached(record);
    record_work_close(record, s->told, st);
    return st;
}

enum status sweep_run(struct sweep *s, struct err *err)
{
    const struct sweep_config *w    = &s->config->settings.sweep;
    struct arena              *perm = s->job->perm;
    struct record              record;
    enum status                st = record_init(&record, s->job, err);
    if (st) return st;
    s->scratch = arena_part(perm, SCRATCH_BYTES);
    st         = sweep_plan(s, perm, err);
    if (!st) st = prepare(s, perm, err);
    if (st) return st;
    s->asha = asha_new(perm, s->count, halves, w->halving ? rung_first : 1);
    st      = results_read(s, perm, err);
    if (st) return st;
    os_signals_catch();
    if (s->on_start) s->on_start(s);
    st = run_recorded(s, &record, err);
    if (!st) st = verdict(s, err);
    struct err  why;
    enum status bad = keep_best_weights(s, &why);
    s->totals       = totals_of(s, record.config.bill);
    if (bad) *err = why;
    return bad ? bad : st;
}
