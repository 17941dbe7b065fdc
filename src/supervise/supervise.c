/* supervise.c - the loop around somebody else's program. */
#include "supervise/supervise.h"
#include "base/pool.h"
#include "run/ledger.h"
#include "supervise/carry.h"
#include "supervise/observe.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PERM_GIB = 4, NOTICES_MAX = 8, OUTPUT_BYTES = 1 << 16, ARGUMENTS_MAX = 1024 };

static const i64 tick_ns = 50000000, second_ns = 1000000000, look_ns = 500000000,
                 look_least_ns = 50000000, backoff_first_ns = 1000000000,
                 backoff_max_ns = 60000000000, waits_long_ns = 600000000000;
static const i64 farewell_ns =
    2500000000; /* of a notice: for the ledger's rows and what is said last */
static const f64 saving_part =
    0.75; /* of a notice, for the program; the rest is to carry its files */

enum asked { ASKED_NOTHING, ASKED_BY_POLICY, ASKED_BY_USER, ASKED_BY_SIGNAL, ASKED_BY_NOTICE };

struct supervise {
    struct os                     *os;
    const struct supervise_config *c;
    struct supervise_result       *result;
    struct arena                   perm;
    struct carry                  *carry;   /* NULL: nothing is carried */
    bool                 restored, resumes; /* for the next start; there is a checkpoint */
    struct observer     *observer;
    struct notice_watch *watch;
    struct lookout      *lookout;
    struct str           run; /* its id */
    struct stop          stop;
    struct family        program;
    struct bill         *bill;     /* the caller's, or our own */
    struct clock        *clock;    /* of it */
    i64                  start_ns; /* of this start */
    i64                  redo_ns;  /* that the deaths so far have cost, still to be done again */
    i64                  lost_ns;  /* of them the newest, until a start follows */
    i64                  redo_until_ns; /* redoes: until then that is what it does */
    bool                 redoes;
    i64                  first_step, first_step_ns; /* seen of this start; -1: none */
    i64                  eval_step;
    enum asked           asked;
    char                 reason[STOP_TEXT_MAX]; /* what asked, as a sentence */
    i64                  kill_ns;               /* asked: until then it may save */
    i64                  asked_ns;              /* the time it got */
    i64                  deadline_ns;           /* of a notice; 0: none */
    i64                  asked_count;           /* checkpoints carried by then */
    i64                  handlers;              /* processes that were asked and listen */
    bool                 killed;                /* by us */
    i64                  told_count;            /* checkpoints that were told */
    bool                 told_waits, told_alone, told_full;
    struct ckpt_id       told_remote; /* the newest in the object store */
    char                 told_failed[512];
    pthread_mutex_t      lock; /* of the notices: the watcher's thread puts them here */
    struct notice        notices[NOTICES_MAX];
    i64                  notice_count;
};

__attribute__((format(printf, 2, 3))) static void say(struct supervise *r, const char *format, ...)
{
    char    text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emit_note(r->c->events, &(struct event_note){ str_of(text) });
}

static void say_lines(struct supervise *r, struct str lines)
{
    struct str line;
    while (str_cut(&lines, '\n', &line)) say(r, "%.*s", STR_ARG(line));
}

static i64 now_ns(struct supervise *r) { return clock_now(r->clock); }
/* Of the whole run: earlier starts of ours count too. */
static f64 elapsed_s(struct supervise *r) { return bill_elapsed_s(r->bill); }

/* --- the stream ---------------------------------------------------------------------------------- */

static struct event_terms terms_of(const struct supervise *r)
{
    struct event_terms t;
    clock_terms(r->clock, t.ns);
    return t;
}

/* A start that goes on from checkpoints is one of the run that they are of. */
static void name_run(struct supervise *r)
{
    struct str run = r->carry ? carry_run(r->carry) : STR("");
    if (!run.len) run = r->c->run;
    if (!run.len) run = ledger_new_id(&r->perm);
    r->run = str_copy(&r->perm, run);
    if (r->carry) carry_set_run(r->carry, r->run);
}

/* What the program is like inside nobody knows. */
static void tell_start(struct supervise *r)
{
    const struct stop_config *s = &r->c->stop;
    struct event_start        e;
    event_clear(EVENT_start, &e);
    e.version    = STR(FRUGAL_VERSION);
    e.metric     = s->metric;
    e.steps      = s->steps_max;
    e.flops_step = 0;
    e.usd_hour   = s->usd_hour;
    e.run        = r->run;
    e.from_step  = r->carry ? carry_state(r->carry).step : 0;
    emit_open(r->c->events, &(struct event_open){ r->run });
    emit_start(r->c->events, &e);
}

static void tell_step(struct supervise *r, i64 step)
{
    struct spent      now = bill_spent(r->bill);
    struct event_step e;
    event_clear(EVENT_step, &e);
    e.step        = step;
    e.steps       = r->c->stop.steps_max;
    e.elapsed_s   = (f64)now.ns * 1e-9;
    e.loss        = r->result->loss;
    e.steps_per_s = r->result->steps_per_s;
    e.dollars     = now.usd;
    e.busy        = lookout_busy(r->lookout);
    emit_step(r->c->events, &e);
}

static void tell_eval(struct supervise *r, const struct stop_eval *t)
{
    struct event_eval e;
    event_clear(EVENT_eval, &e);
    e.step           = t->step;
    e.elapsed_s      = t->elapsed_s;
    e.loss           = r->result->loss;
    e.metrics        = (struct event_metrics){ { { r->c->stop.metric, t->value } }, 1 };
    e.target_reached = t->target_reached;
    e.dollars        = bill_spent(r->bill).usd;
    e.terms_ns       = terms_of(r);
    emit_eval(r->c->events, &e);
}

static void tell_saved(struct supervise *r, const struct carry_state *s)
{
    struct event_checkpoint e;
    event_clear(EVENT_checkpoint, &e);
    e.what  = CHECKPOINT_SAVED;
    e.step  = s->step;
    e.bytes = s->bytes;
    emit_checkpoint(r->c->events, &e);
}

static void tell_uploaded(struct supervise *r, const struct upload_state *s)
{
    struct carry_state      carried = carry_state(r->carry);
    struct event_checkpoint e;
    event_clear(EVENT_checkpoint, &e);
    e.what            = CHECKPOINT_UPLOADED;
    e.step            = s->newest.step;
    e.bytes           = carried.step == s->newest.step ? carried.bytes : -1;
    e.remote_puts     = s->sums.puts;
    e.remote_gets     = s->sums.gets;
    e.remote_bytes_in = s->sums.bytes_in;
    emit_checkpoint(r->c->events, &e);
}

static i64 saved_step(struct supervise *r) { return r->carry ? carry_state(r->carry).step : 0; }

static void tell_interruption(struct supervise *r, const char *kind, f64 notice_s)
{
    emit_interruption(r->c->events, &(struct event_interruption){ .kind     = str_of(kind),
                                                                  .notice_s = notice_s,
                                                                  .step = MAX(r->result->step, 0),
                                                                  .saved_step = saved_step(r) });
}

static void tell_done(struct supervise *r, enum status st)
{
    const struct supervise_result *result = r->result;
    struct upload_state remote = r->carry ? carry_upload(r->carry) : (struct upload_state){ 0 };
    const struct usage *u      = &result->seen.usage;
    struct event_done   e;
    event_clear(EVENT_done, &e);
    e.steps       = MAX(result->step, 0);
    e.seconds     = result->seconds;
    e.dollars     = result->dollars;
    e.loss        = result->loss;
    e.stopped     = result->stopped ? result->stopped : st ? STOP_NONE : STOP_END;
    e.why         = str_of(result->why);
    e.checkpoints = result->carried;
    if (result->carried) e.checkpoint_step = saved_step(r);
    if (remote.newest.attempt) e.remote_step = remote.newest.step;
    e.remote_puts  = remote.sums.puts;
    e.remote_gets  = remote.sums.gets;
    e.remote_bytes = remote.sums.bytes_out;
    e.terms_ns     = terms_of(r);
    e.steps_per_s  = result->steps_per_s;
    e.requests_usd = bill_requests(r->bill);
    e.storage_usd  = bill_storage(r->bill);
    e.busy         = u->mean;
    if (u->shape) e.usage = str_of(usage_name(u->shape));
    if (!isnan(r->c->stop.target)) e.target_reached = result->target_reached;
    emit_done(r->c->events, &e);
}

/* --- asking it to save -------------------------------------------------------------------------- */

/* The program shall save and end, and is killed when the time is over. Where it handles no signal it is
 * not sent any, for it would die of it in the middle of whatever it does: it is ended as soon as its
 * next checkpoint is carried, or at once where nobody is willing to wait. */
static void ask_to_end(struct supervise *r, enum asked by, i64 limit_ns, const char *reason)
{
    const struct program_config *p      = r->c->program;
    i32                          signal = signal_number(p->signal[0]);
    i64                          end    = now_ns(r) + limit_ns;
    if (r->carry && by != ASKED_BY_POLICY) carry_hurry(r->carry);
    if (r->asked) {
        r->kill_ns = MIN(r->kill_ns, end);
        return;
    }
    r->asked       = by;
    r->asked_ns    = limit_ns;
    r->asked_count = r->told_count;
    r->kill_ns     = end;
    snprintf(r->reason, sizeof r->reason, "%s", reason);
    if (!r->program.pid) return;
    r->handlers = family_signal(signal);
    if (r->handlers) {
        say(r, "%s: asked %lld process%s to save (%s), %.0f s to do it", reason,
            (long long)r->handlers, r->handlers == 1 ? "" : "es", signal_name(signal),
            (f64)limit_ns / 1e9);
    } else if (r->carry && by != ASKED_BY_USER) {
        say(r,
            "%s; none of its processes handles %s: it is killed after its next checkpoint, in %.0f "
            "s at the latest",
            reason, signal_name(signal), (f64)limit_ns / 1e9);
    } else {
        say(r, "%s; none of its processes handles %s, so it is killed", reason,
            signal_name(signal));
        r->kill_ns = now_ns(r);
    }
}

/* It was asked, and its time is over or it has nothing more to wait for. */
static bool must_go(struct supervise *r)
{
    if (!r->asked) return false;
    return now_ns(r) >= r->kill_ns || (!r->handlers && r->told_count > r->asked_count);
}

static void ask_to_save(struct supervise *r, const char *reason)
{
    const struct program_config *p      = r->c->program;
    i32                          signal = p->signal_count > 1 ? signal_number(p->signal[1]) : 0;
    i64                          count  = signal && r->program.pid ? family_signal(signal) : 0;
    if (count)
        say(r, "%s: asked %lld process%s to save", reason, (long long)count, count > 1 ? "es" : "");
    else if (signal)
        say(r, "%s: none of its processes handles the signal that asks to save", reason);
    else
        say(r, "%s: continuing; program.signal=[term, usr1] would ask it to save now, with SIGUSR1",
            reason);
}

/* --- what is heard ------------------------------------------------------------------------------ */

static void on_notice(void *context, const struct notice *n)
{
    struct supervise *r = context;
    pthread_mutex_lock(&r->lock);
    if (r->notice_count < NOTICES_MAX) r->notices[r->notice_count++] = *n;
    pthread_mutex_unlock(&r->lock);
}

/* Of several deadlines the earliest holds. */
static void end_by(struct supervise *r, i64 deadline_ns)
{
    if (!r->deadline_ns || deadline_ns < r->deadline_ns) r->deadline_ns = deadline_ns;
}

static void hear_notices(struct supervise *r)
{
    struct notice taken[NOTICES_MAX];
    pthread_mutex_lock(&r->lock);
    i64 count = r->notice_count;
    memcpy(taken, r->notices, sizeof taken);
    r->notice_count = 0;
    pthread_mutex_unlock(&r->lock);
    for (i64 i = 0; i < count; i++) {
        const struct notice *n = &taken[i];
        if (n->act == NOTICE_LOG) say(r, "%s", n->text);
        if (n->act == NOTICE_SAVE) ask_to_save(r, n->text);
        if (n->act == NOTICE_END) end_by(r, n->deadline_ns);
        if (n->act == NOTICE_END)
            ask_to_end(r, ASKED_BY_NOTICE,
                       (i64)(saving_part * (f64)MAX(n->deadline_ns - now_ns(r), 0)), n->text);
    }
}

/* Where spot.grace_s says when the process is killed, the program gets its part of that, and uploads the rest. */
static void hear_end(struct supervise *r, enum os_signal s)
{
    i64 grace_ns  = (i64)(r->c->program->grace_s * 1e9),
        killed_ns = (i64)(r->c->spot->grace_s * 1e9);
    i64 came_ns   = r->os->signal_ns ? r->os->signal_ns(r->os) : 0;
    if (killed_ns > 0) end_by(r, (came_ns ? came_ns : now_ns(r)) + killed_ns);
    if (killed_ns > 0)
        grace_ns = MIN(grace_ns,
                       (i64)(saving_part * (f64)MAX(r->deadline_ns - farewell_ns - now_ns(r), 0)));
    ask_to_end(r, ASKED_BY_SIGNAL, grace_ns,
               s == OS_SIGNAL_HUP ? "stopped by SIGHUP" : "stopped by SIGTERM");
}

static void hear_signals(struct supervise *r)
{
    enum os_signal s;
    while ((s = r->os->signal_take(r->os)) != OS_SIGNAL_NONE) {
        i64 grace_ns = (i64)(r->c->program->grace_s * 1e9);
        if (s == OS_SIGNAL_INT) ask_to_end(r, ASKED_BY_USER, grace_ns, "stopped by Ctrl-C");
        if (s == OS_SIGNAL_WATCH) ask_to_end(r, ASKED_BY_USER, grace_ns, "stopped by frugal watch");
        if (s == OS_SIGNAL_TERM || s == OS_SIGNAL_HUP) hear_end(r, s);
        if (s == OS_SIGNAL_USR1) ask_to_save(r, "SIGUSR1 came");
    }
}

/* What it does from here on counts, but for the time that a death has cost: so much is done again. */
static void begin_work(struct supervise *r)
{
    r->redo_until_ns = clock_enter(r->clock, PART_compute) + r->redo_ns;
    clock_redo(r->clock, r->redo_ns > 0);
    r->redoes = r->redo_ns > 0;
}

static void on_observed(void *context, const struct observed *o)
{
    struct supervise        *r      = context;
    struct supervise_result *result = r->result;
    if (o->step >= 0 && r->first_step < 0) {
        r->first_step    = o->step;
        r->first_step_ns = now_ns(r);
        begin_work(r);
    }
    if (o->step > result->step) lookout_mark(r->lookout, RHYTHM_STEP);
    if (o->step >= 0) result->step = o->step;
    if (o->step > r->first_step && r->first_step >= 0)
        result->steps_per_s =
            (f64)(o->step - r->first_step) / ((f64)(now_ns(r) - r->first_step_ns) / 1e9);
    if (r->carry) carry_step(r->carry, MAX(o->step, 0));
    if (!isnan(o->loss)) result->loss = o->loss;
    if (o->step >= 0) tell_step(r, o->step);
    if (isnan(o->metric) || (o->step >= 0 && o->step <= r->eval_step)) return; /* redone */
    const struct stop_config *c = &r->stop.config;
    struct stop_eval e = { .step = MAX(o->step, 0), .elapsed_s = elapsed_s(r), .value = o->metric };
    e.target_reached   = metric_falls(c->metric) ? o->metric <= c->target : o->metric >= c->target;
    r->eval_step       = o->step;
    result->metric     = o->metric;
    lookout_mark(r->lookout, RHYTHM_EVALUATION);
    result->target_reached |= e.target_reached;
    tell_eval(r, &e);
    if (!r->stop.reason) stop_at_eval(&r->stop, &e);
}

/* The rules of `frugal train`. Whether a loss is no number is the program's own affair. */
static void judge(struct supervise *r)
{
    struct stop_config *c = &r->stop.config;
    if (r->asked) return;
    c->limit_s = bill_limit_s(r->bill, c->max_seconds, c->max_dollars);
    if (!r->stop.reason) stop_step(&r->stop, MAX(r->result->step, 0), elapsed_s(r), 0);
    if (r->stop.reason)
        ask_to_end(r, ASKED_BY_POLICY, (i64)(r->c->program->grace_s * 1e9), r->stop.text);
}

static void hear_upload(struct supervise *r)
{
    struct upload_state s = carry_upload(r->carry);
    bill_requested(r->bill, (struct store_requests){ s.sums.puts, s.sums.gets, s.sums.bytes_in });
    if (!s.alone && !r->told_alone)
        say(r, "the object store ignores conditions (If-None-Match), so a second writer cannot "
               "be detected; valid checkpoints stay intact");
    r->told_alone = true;
    if (ckpt_order(r->told_remote, s.newest) < 0) {
        say(r, "the checkpoint of step %lld is in the object store", (long long)s.newest.step);
        tell_uploaded(r, &s);
    }
    r->told_remote = s.newest;
    if (s.taken_over_by && !r->asked) {
        char text[96];
        snprintf(text, sizeof text, "start %lld of this run, on another machine, has taken over",
                 (long long)s.taken_over_by);
        ask_to_end(r, ASKED_BY_USER, 0, text);
    }
    if (s.failed.status && strcmp(s.failed.text, r->told_failed)) {
        say(r, "not yet in the object store: %s", s.failed.text);
        snprintf(r->told_failed, sizeof r->told_failed, "%s", s.failed.text);
    }
}

static void hear_carry(struct supervise *r)
{
    if (!r->carry) return;
    struct carry_state s = carry_state(r->carry);
    if (s.count > r->told_count)
        say(r, "checkpoint %lld copied: %s, %.1f MB", (long long)s.count, s.newest,
            (f64)s.bytes / 1e6);
    if (s.count > r->told_count) tell_saved(r, &s);
    if (s.count > r->told_count) lookout_mark(r->lookout, RHYTHM_CHECKPOINT);
    if (s.count > r->told_count) r->told_waits = false;
    r->told_count = s.count;
    hear_upload(r); /* what is in the object store was carried before */
    if (s.failed.status && strcmp(s.failed.text, r->told_failed)) {
        say(r, "nothing could be copied: %s", s.failed.text);
        snprintf(r->told_failed, sizeof r->told_failed, "%s", s.failed.text);
    }
    if (s.failed.status == STATUS_INTERRUPTED && !r->asked)
        ask_to_end(r, ASKED_BY_USER, 0, s.failed.text);
    if (s.freed && !r->told_full)
        say(r,
            "the disk of %.*s is full: older checkpoints are deleted to make room, and fewer than "
            "checkpoint.keep=%lld are kept",
            STR_ARG(r->c->store), (long long)r->c->keep);
    r->told_full |= s.freed > 0;
    if (s.waits[0] && now_ns(r) - s.waits_ns > waits_long_ns && !r->told_waits) {
        say(r, "%s has not been complete for %.0f minutes, and nothing is copied until it is",
            s.waits, (f64)waits_long_ns / 6e10);
        r->told_waits = true;
    }
}

static void hear_lookout(struct supervise *r)
{
    struct usage u;
    struct arena scratch = r->perm;
    if (!lookout_news(r->lookout, &u)) return;
    say(r, "%s: %.*s", lookout_sees_gpus(r->lookout) ? "GPUs" : "cores",
        STR_ARG(usage_text(&u, &scratch)));
}

/* --- one start ---------------------------------------------------------------------------------- */

/* What it printed since the last time; waits a moment where there is nothing. False: it has closed. */
static bool pass_output(struct supervise *r, i64 wait_ns)
{
    static char bytes[OUTPUT_BYTES];
    i64         got = 0;
    if (r->program.out.fd < 0) {
        r->os->sleep_ns(r->os, wait_ns);
        return true;
    }
    if (os_wait_any(&r->program.out, 1, wait_ns) < 0) return true;
    enum status st = r->os->read(r->os, r->program.out, bytes, sizeof bytes, -1, &got, NULL);
    if (st || got == 0) {
        r->os->close(r->os, &r->program.out, NULL);
        return false;
    }
    struct str text = { bytes, got };
    if (r->c->on_output) r->c->on_output(r->c->context, text);
    observer_add(r->observer, text);
    return true;
}

static void watch_over(struct supervise *r, struct family_end *end)
{
    i64 looked_ns = 0;
    while (!family_ended(&r->program, end)) {
        pass_output(r, tick_ns);
        hear_signals(r);
        hear_notices(r);
        if (now_ns(r) - looked_ns > look_ns) {
            observer_look(r->observer, r->os);
            hear_carry(r);
            hear_lookout(r);
            looked_ns = now_ns(r);
        }
        if (r->redoes && now_ns(r) >= r->redo_until_ns) {
            clock_redo(r->clock, false);
            r->redo_ns = 0;
            r->redoes  = false;
        }
        judge(r);
        if (!must_go(r)) continue;
        if (r->handlers) say(r, "it did not exit in time and is killed");
        r->killed = true;
        family_kill(&r->program);
        *end = (struct family_end){ 128 + 9, 9 };
        break;
    }
    family_kill(&r->program); /* whatever the launcher left behind */
    while (r->program.out.fd >= 0 && pass_output(r, second_ns)) {}
    observer_look(r->observer, r->os);
}

/* {newest} stands for the newest file. */
static const char *resume_argument(struct supervise *r, struct str word)
{
    static const char  sign[] = "{newest}";
    struct carry_state s      = carry_state(r->carry);
    const char        *z = str_z(&r->perm, word), *at = strstr(z, sign);
    if (!at) return z;
    return str_fmt(&r->perm, "%.*s%.*s/%s%s", (int)(at - z), z, STR_ARG(r->c->program->folder),
                   s.newest, at + sizeof sign - 1)
        .data;
}

static enum status start(struct supervise *r, bool goes_on, struct err *err)
{
    const char *argv[ARGUMENTS_MAX + COUNT_OF(r->c->program->resume) + 1];
    i64         count = 0;
    while (r->c->command[count] && count < ARGUMENTS_MAX) {
        argv[count] = r->c->command[count];
        count++;
    }
    for (i64 i = 0; goes_on && i < r->c->program->resume_count; i++)
        argv[count++] = resume_argument(r, r->c->program->resume[i]);
    argv[count]    = NULL;
    r->first_step  = -1;
    r->start_ns    = now_ns(r);
    enum status st = family_start(
        &r->program, argv,
        observer_reads_lines(r->observer) ? FAMILY_OUTPUT_READ : FAMILY_OUTPUT_OURS, err);
    if (st) return st;
    r->result->starts++;
    r->result->redone_s += (f64)r->lost_ns / 1e9;
    r->lost_ns = 0;
    if (!r->observer) begin_work(r); /* its first step cannot be seen */
    return STATUS_OK;
}

/* May what it wrote last be half? Not when it ended by itself: well, or because it was asked to, and
 * then many handlers end with the very signal that they were sent. */
static bool is_trusted(const struct supervise *r, struct family_end end)
{
    if (r->killed) return false;
    if (!r->asked || !r->handlers) return end.code == 0;
    return !end.signal || end.signal == signal_number(r->c->program->signal[0]);
}

/* From the newest checkpoint, or from the start, to the death all is lost. */
static void count_lost(struct supervise *r, i64 death_ns, struct family_end end)
{
    i64 from = r->start_ns;
    if (end.code == 0) return;
    if (r->carry) from = MAX(from, carry_state(r->carry).complete_ns);
    i64 lost   = MAX(death_ns - from, 0);
    i64 undone = r->redoes ? MAX(r->redo_until_ns - death_ns, 0) : 0; /* of earlier deaths */
    r->redo_ns = lost + undone;
    r->redoes  = false;
    r->lost_ns = lost;
    if (!r->asked) tell_interruption(r, end.signal ? "killed" : "failed", NAN);
}

/* The folder becomes what the newest checkpoint has. */
static enum status restore(struct supervise *r, struct err *err)
{
    struct str  said = STR("");
    enum status st   = STATUS_OK;
    r->resumes       = false;
    if (r->carry) st = carry_restore(r->carry, &r->perm, &said, &r->resumes, err);
    say_lines(r, said);
    r->restored = !st;
    return st;
}

static enum status run_once(struct supervise *r, struct family_end *end, struct err *err)
{
    enum status st      = r->restored ? STATUS_OK : restore(r, err);
    bool        goes_on = r->resumes;
    r->restored         = false; /* once it runs, the folder is its own again */
    if (!st) st = start(r, goes_on, err);
    if (st) return st;
    if (goes_on) say(r, "resuming from the checkpoint with %s", carry_state(r->carry).newest);
    if (r->carry) st = carry_begin(r->carry, err);
    if (st) family_kill(&r->program);
    else watch_over(r, end);
    i64 death_ns = clock_enter(r->clock, PART_checkpoint);
    clock_redo(r->clock, false);
    if (r->carry) carry_pause(r->carry);
    if (!st && r->carry && is_trusted(r, *end))
        st = carry_look(r->carry, MAX(r->result->step, 0), CARRY_EXITED, err);
    hear_carry(r);
    if (!st) count_lost(r, death_ns, *end);
    return st;
}

/* --- all of them -------------------------------------------------------------------------------- */

static void describe(struct family_end end, char *text, size_t bytes)
{
    if (end.signal) snprintf(text, bytes, "was killed by signal %d", end.signal);
    else snprintf(text, bytes, "ended with %d", end.code);
}

/* Until the next start, or until something asks to end. */
static void back_off(struct supervise *r, i64 failures)
{
    i64 wait = r->c->backoff_ns ? r->c->backoff_ns : backoff_first_ns;
    for (i64 i = 1; i < failures; i++) wait = MIN(2 * wait, backoff_max_ns);
    i64 before_ns = clock_part_ns(r->clock, PART_idle), begin = clock_enter(r->clock, PART_idle);
    while (!r->asked && now_ns(r) - begin < wait) {
        r->os->sleep_ns(r->os, MIN(tick_ns, wait));
        hear_signals(r);
        hear_notices(r);
        judge(r);
    }
    clock_enter(r->clock, PART_start);
    r->result->waited_s += (f64)(clock_part_ns(r->clock, PART_idle) - before_ns) / 1e9;
}

static enum status interrupted(struct supervise *r, struct err *err)
{
    tell_interruption(r, r->asked == ASKED_BY_NOTICE ? "notice" : "signal", (f64)r->asked_ns / 1e9);
    if (!r->carry) return err_set(err, STATUS_INTERRUPTED, "%s", r->reason);
    return err_set(err, STATUS_INTERRUPTED, "%s; the same command resumes from %.*s", r->reason,
                   STR_ARG(r->c->store));
}

static void on_waiting(void *context, const char *sentence) { say(context, "%s", sentence); }

/* What was carried shall be in the object store too when we are gone. */
static enum status wait_for_upload(struct supervise *r, enum status st, struct err *err)
{
    struct err why = { 0 };
    if (!r->carry) return st;
    i64         deadline = r->deadline_ns ? r->deadline_ns - farewell_ns : 0;
    enum status sent     = carry_wait_end(r->carry, deadline, on_waiting, r, &why);
    hear_carry(r);
    if (!sent) return st;
    if (st) say(r, "%s", why.text); /* there is a reason already why it ended */
    return st ? st : err_set(err, sent == STATUS_NO ? STATUS_WORLD : sent, "%s", why.text);
}

static enum status run_all(struct supervise *r, struct err *err)
{
    struct supervise_result *result   = r->result;
    i64                      failures = 0;
    for (;;) {
        char how[64];
        hear_signals(r); /* one may have come before there was anything to end */
        hear_notices(r);
        judge(r); /* earlier starts may have used the caps up */
        if (r->asked == ASKED_BY_POLICY && !result->starts)
            return err_set(err, STATUS_NO, "%s: the program was not started", r->reason);
        if (r->asked == ASKED_BY_POLICY) return STATUS_OK;
        if (r->asked) return interrupted(r, err);
        i64         before = r->told_count;
        enum status st     = run_once(r, &result->end, err);
        if (st) return st;
        if (r->asked == ASKED_BY_POLICY) return STATUS_OK;
        if (r->asked) return interrupted(r, err);
        if (result->end.code == 0) return STATUS_OK;
        failures = r->told_count > before ? 1 : failures + 1;
        describe(result->end, how, sizeof how);
        if (failures > r->c->program->restarts)
            return err_set(err, STATUS_NO,
                           "the program %s; giving up after %lld start%s in a row without a new "
                           "checkpoint (program.restarts)",
                           how, (long long)failures, failures > 1 ? "s" : "");
        say(r, "the program %s; starting it again (start %lld)", how,
            (long long)result->starts + 1);
        back_off(r, failures);
        if (r->asked == ASKED_BY_POLICY) return STATUS_OK;
    }
}

static void finish(struct supervise *r)
{
    struct supervise_result *result = r->result;
    bill_stop(r->bill); /* what is printed, and what the ledger keeps, is this */
    struct spent spent  = bill_spent(r->bill);
    result->seconds     = (f64)spent.ns * 1e-9;
    result->dollars     = spent.usd;
    bool from_outside   = r->asked && r->asked != ASKED_BY_POLICY;
    result->stopped     = from_outside ? STOP_SIGNAL : r->stop.reason;
    result->deadline_ns = r->deadline_ns;
    snprintf(result->why, sizeof result->why, "%s", r->asked ? r->reason : "");
    if (!r->carry) return;
    struct carry_state s = carry_state(r->carry);
    result->carried      = s.count;
    result->discarded    = s.discarded;
}

/* A target that is never read would never end the run: who is to pay for it hears why. */
static void tell_missed(struct supervise *r)
{
    i64         next = 0;
    const char *key;
    while (r->result->starts && (key = observer_missed(r->observer, &next)))
        say(r, "program.%s found nothing in %s", key,
            observer_reads_lines(r->observer) ? "what the program printed" : "the event files");
}

/* To be seen unchanged, a file is looked at twice. */
static struct carry_config carry_config_of(const struct supervise_config *c)
{
    struct program_complete complete;
    program_complete(c->program->complete, &complete);
    i64 settle_ns = (i64)(complete.settle_s * 1e9);
    return (struct carry_config){ .program = c->program,
                                  .store   = c->store,
                                  .keep    = c->keep,
                                  .look_ns = MAX(MIN(look_ns, settle_ns / 2), look_least_ns),
                                  .to      = c->to,
                                  .fresh   = c->fresh };
}

enum status supervise_restore(struct os *os, const struct supervise_config *c,
                              struct supervise_result *result, struct supervise **out,
                              struct err *err)
{
    struct arena perm = arena_open((i64)PERM_GIB << 30);
    *out              = NULL;
    *result =
        (struct supervise_result){ .step = -1, .steps_per_s = NAN, .loss = NAN, .metric = NAN };
    if (!perm.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct supervise   *r       = NEW(&perm, struct supervise, 1);
    struct carry_config carried = carry_config_of(c);
    *r   = (struct supervise){ .os = os, .c = c, .result = result, .eval_step = -1, .perm = perm };
    *out = r;
    pthread_mutex_init(&r->lock, NULL);
    r->bill = c->bill;
    if (!r->bill) {
        r->bill = bill_new(&r->perm, clock_new(&r->perm, os));
        bill_price(r->bill, &(struct price_row){ .usd_hour = c->stop.usd_hour });
    }
    r->clock       = bill_clock(r->bill);
    enum status st = observer_new(&r->perm, c->program, on_observed, r, &r->observer, err);
    if (!st && c->store.len) st = carry_open(os, &carried, &r->perm, &r->carry, err);
    if (!st) name_run(r);
    return st ? st : restore(r, err);
}

enum status supervise_restored(struct supervise *r, enum status st, struct err *err)
{
    struct arena perm = r->perm; /* `r` lies in it */
    stop_init(&r->stop, &r->c->stop);
    if (!st) tell_start(r);
    if (!st) st = notice_watch_open(r->os, r->c->spot, on_notice, r, &r->watch, err);
    if (!st) {
        struct lookout_config looks = { r->os, STR(""), true, family_cpu_ns,
                                        pool_machine_threads() };
        r->lookout                  = lookout_new(&r->perm, &looks);
        lookout_start(r->lookout, NULL);
        st              = run_all(r, err);
        r->result->seen = lookout_end(r->lookout);
        r->lookout      = NULL;
        st              = wait_for_upload(r, st, err);
    }
    notice_watch_close(r->watch);
    if (st != STATUS_INTERRUPTED) tell_missed(r);
    finish(r);
    tell_done(r, st);
    carry_close(r->carry, !st);
    observer_release(r->observer);
    pthread_mutex_destroy(&r->lock);
    arena_close(&perm);
    return st;
}

enum status supervise_run(struct os *os, const struct supervise_config *c,
                          struct supervise_result *result, struct err *err)
{
    struct supervise *r;
    enum status       st = supervise_restore(os, c, result, &r, err);
    return r ? supervise_restored(r, st, err) : st;
}
