/* supervised.c - a run of `frugal run`, from the top to the bottom: somebody else's program, recorded like our own. */
#include "job/supervised.h"
#include "job/record.h"
#include <math.h>

struct supervised {
    struct record             record;
    const struct job_program *program;
    struct subscriber         log, rows; /* who hears of it: first the ledger */
};

/* A start that goes on from checkpoints is a segment of the run that they are of. */
static struct str on_begin(void *context, struct str run)
{
    struct supervised *all = context;
    struct record     *r   = &all->record;
    if (!run.len) run = r->before.run; /* an earlier start ended before its first checkpoint */
    if (!run.len) run = ledger_new_id(r->job->perm);
    r->config.run.id = run;
    emit_open(&all->rows, &(struct event_open){ run });
    record_open(r);
    return run;
}

static struct event_terms terms_of(const struct supervised *all)
{
    struct event_terms t;
    clock_terms(bill_clock(all->record.config.bill), t.ns);
    return t;
}

/* Which steps are redone the supervisor knows. */
static void on_step(void *context, i64 step, f64 loss)
{
    struct supervised *all = context;
    struct spent       now = bill_spent(all->record.config.bill);
    struct event_step  e   = { .step          = step,
                               .elapsed_s     = (f64)now.ns * 1e-9,
                               .lr            = NAN,
                               .loss          = loss,
                               .loss_scale    = NAN,
                               .samples_per_s = NAN,
                               .tokens_per_s  = NAN,
                               .steps_per_s   = NAN,
                               .step_p50_s    = NAN,
                               .step_p95_s    = NAN,
                               .step_p99_s    = NAN,
                               .input_share   = NAN,
                               .mfu           = NAN,
                               .dollars       = now.usd,
                               .remote_age_s  = NAN,
                               .eta_s         = NAN };
    emit_step(&all->rows, &e);
}

static void on_eval(void *context, const struct stop_eval *t, f64 loss)
{
    struct supervised *all = context;
    struct str         name = all->record.config.run.metric;
    emit_eval(&all->rows, &(struct event_eval){ .step           = t->step,
                                                .elapsed_s      = t->elapsed_s,
                                                .eval_s         = NAN,
                                                .loss           = loss,
                                                .metrics        = { { { name, t->value } }, 1 },
                                                .target_reached = t->target_reached,
                                                .forecast       = NAN,
                                                .reach          = NAN,
                                                .dollars        = bill_spent(all->record.config.bill).usd,
                                                .terms_ns       = terms_of(all) });
}

static void on_carried(void *context, i64 step, i64 bytes)
{
    struct supervised *all = context;
    emit_checkpoint(&all->rows, &(struct event_checkpoint){
                                    .what = CHECKPOINT_SAVED, .step = step, .blocked_s = NAN, .persist_s = NAN, .bytes = bytes });
}

static void on_interruption(void *context, const char *kind, f64 notice_s, i64 step, i64 saved_step)
{
    struct supervised *all = context;
    emit_interruption(&all->rows, &(struct event_interruption){ str_of(kind), notice_s, step, saved_step });
}

static void tell_done(struct supervised *all, const struct supervise_result *r)
{
    struct event_done  e;
    const struct usage *u = &r->seen.usage;
    event_clear(EVENT_done, &e);
    e.steps    = MAX(r->step, 0);
    e.seconds  = r->seconds;
    e.dollars  = r->dollars;
    e.loss     = r->loss;
    e.stopped  = r->stopped;
    e.why      = str_of(r->why);
    e.terms_ns = terms_of(all);
    e.steps_per_s  = r->steps_per_s;
    e.requests_usd = bill_requests(all->record.config.bill);
    e.busy         = u->mean;
    if (u->shape) e.usage = str_of(usage_name(u->shape));
    if (!isnan(all->record.job->settings->train.target)) e.target_reached = r->target_reached;
    emit_done(&all->rows, &e);
}

static void on_output(void *context, struct str bytes)
{
    const struct job_program *p = ((struct supervised *)context)->program;
    p->on_output(p->context, bytes);
}

static void on_message(void *context, const char *sentence)
{
    struct supervised *all = context;
    job_say(all->record.job, "frugal: %s", sentence);
    emit_note(&all->rows, &(struct event_note){ str_of(sentence) });
}

/* What is judged must be read, and what is carried must go somewhere. */
static enum status check(const struct settings *s, struct err *err)
{
    const struct program_config *p    = &s->program;
    const struct train_config   *t    = &s->train;
    bool                         read = !str_eq(p->read, STR("none"));
    if ((!isnan(t->target) || t->patience || t->forecast > 0) && (!read || !p->metric.len))
        return err_set(err, STATUS_USAGE,
                       "train.target, train.patience and train.forecast need a metric: "
                       "give program.read and program.metric");
    if (p->folder.len && !s->checkpoint.dir.len)
        return err_set(err, STATUS_USAGE,
                       "where to copy the files of program.folder? Give checkpoint.dir=FOLDER, and "
                       "checkpoint.to=s3://BUCKET/PREFIX if the disk is lost with the machine");
    for (i64 i = 0; i < p->signal_count; i++)
        if (!signal_number(p->signal[i]))
            return err_set(err, STATUS_USAGE, "program.signal: %.*s is not one of term, int, usr1, usr2, hup and quit",
                           (int)MIN(p->signal[i].len, 40), p->signal[i].data);
    if (!p->signal_count) return err_set(err, STATUS_USAGE, "program.signal is empty; term is usual");
    if (!p->folder.len && p->resume_count)
        return err_set(err, STATUS_USAGE,
                       "program.resume needs program.folder, where the program writes "
                       "its checkpoints");
    return STATUS_OK;
}

static struct stop_config stop_of(const struct train_config *t)
{
    bool given = !str_eq(t->target_metric, STR("auto"));
    return (struct stop_config){ .metric          = given ? t->target_metric : STR("loss"),
                                 .target          = t->target,
                                 .patience        = t->patience,
                                 .min_improvement = t->min_improvement,
                                 .max_seconds     = t->max_seconds,
                                 .max_dollars     = t->max_dollars,
                                 .usd_hour        = t->usd_hour,
                                 .steps_max       = t->steps,
                                 .forecast        = t->forecast };
}

static enum status supervise(struct supervised *all, struct supervise_result *result, struct err *err)
{
    struct record            *r        = &all->record;
    const struct settings    *s        = r->job->settings;
    struct upload_settings    to       = train_upload_settings(r->job->os, s);
    struct supervise_listener listener = { all,     on_output, on_message, on_begin,
                                           on_step, on_eval,   on_carried, on_interruption };
    struct supervise_config   given    = { .command = all->program->command,
                                           .program = &s->program,
                                           .spot    = &s->spot,
                                           .stop    = stop_of(&s->train),
                                           .store   = r->place,
                                           .keep    = s->checkpoint.keep,
                                           .to      = s->checkpoint.to.len ? &to : NULL,
                                           .bill    = r->config.bill,
                                           .fresh   = r->job->fresh };
    r->config.run.metric               = given.stop.metric;
    r->config.run.steps_planned        = s->train.steps;
    all->log                           = record_log_subscriber(r, NULL);
    all->rows                          = record_subscriber(r, &all->log);
    os_signals_catch();
    enum status st = supervise_run(r->job->os, &given, &listener, result, err);
    tell_done(all, result);
    r->deadline_ns = result->deadline_ns;
    record_close(r, result->stopped ? result->stopped : st ? STOP_NONE : STOP_END);
    return st;
}

enum status job_supervise(const struct job *j, const struct job_program *p, struct supervise_result *result,
                          struct err *err)
{
    const struct settings *s   = j->settings;
    struct supervised      all = { .program = p };
    *result                    = (struct supervise_result){ 0 };
    enum status st             = check(s, err);
    if (!st) st = record_init(&all.record, j, err);
    if (st) return st;
    if (!isnan(s->train.max_dollars) && isnan(s->train.usd_hour))
        return err_set(err, STATUS_USAGE,
                       "train.max_dollars needs the price of an hour: train.usd_hour=0.5");
    if (s->program.folder.len) all.record.place = s->checkpoint.dir;
    record_resume(&all.record, all.record.place, j->fresh);
    st = supervise(&all, result, err);
    if (!st && !isnan(s->train.target) && !result->target_reached)
        st = err_set(err, STATUS_NO, "the target %g was not reached", s->train.target);
    return st;
}
