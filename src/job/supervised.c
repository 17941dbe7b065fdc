/* supervised.c - a run of `frugal run`, from the top to the bottom: somebody else's program, recorded like our own. */
#include "job/supervised.h"
#include "job/logs.h"
#include "job/record.h"
#include <math.h>

static void on_note(void *context, const struct event_note *e)
{
    job_say(context, "frugal: %.*s", STR_ARG(e->text));
}

/* What is judged must be read, and what is carried must go somewhere. */
static enum status check(const struct settings *s, struct err *err)
{
    const struct program_config *p    = &s->program;
    const struct train_config   *t    = &s->train;
    bool                         read = !str_eq(p->read, STR("none"));
    bool                    logs = s->log.csv.len || s->log.tensorboard.len || s->log.prometheus;
    struct program_complete complete;
    bool                    step = p->step.len || str_eq(p->read, STR("tensorboard"));
    if ((!isnan(t->target) || t->patience || t->forecast > 0) && (!read || !p->metric.len))
        return err_set(err, STATUS_USAGE,
                       "train.target, train.patience and train.forecast need a metric: "
                       "give program.read and program.metric");
    struct stop_config stop = job_stop(t);
    enum status        st   = target_in_range(stop.metric, stop.target, false, err);
    if (st) return st;
    if (logs && !(read && step))
        return err_set(err, STATUS_USAGE,
                       "log.csv, log.tensorboard and log.prometheus have a row for each step that "
                       "is read: give "
                       "program.read and program.step");
    if (!s->run.machine.len) st = job_check_price(s, err);
    if (st) return st;
    if (p->folder.len && !s->checkpoint.dir.len)
        return err_set(
            err, STATUS_USAGE,
            "program.folder needs a place to copy its files to: checkpoint.dir=FOLDER, and "
            "checkpoint.to=s3://BUCKET/PREFIX if the disk is lost with the machine");
    if (!program_complete(p->complete, &complete))
        return err_set(err, STATUS_USAGE,
                       "program.complete is %.*s; expected seconds, like 5, or the ending of a "
                       "marker, like .done",
                       (int)MIN(p->complete.len, 40), p->complete.data);
    for (i64 i = 0; i < p->signal_count; i++)
        if (!signal_number(p->signal[i]))
            return err_set(err, STATUS_USAGE,
                           "program.signal: %.*s is not one of term, int, usr1, usr2, hup and quit",
                           (int)MIN(p->signal[i].len, 40), p->signal[i].data);
    if (!p->signal_count)
        return err_set(err, STATUS_USAGE,
                       "program.signal is empty; give a signal: program.signal=term");
    if (!p->folder.len && p->resume_count)
        return err_set(err, STATUS_USAGE,
                       "program.resume needs program.folder, where the program writes "
                       "its checkpoints");
    return STATUS_OK;
}

static enum status supervise(struct record *r, const struct job_program *p,
                             struct supervise_result *result, struct err *err)
{
    struct job              job    = *r->job;
    const struct settings  *s      = job.settings;
    struct upload_settings  to     = train_upload_settings(job.os, s);
    struct logs             logs   = logs_init(r->job);
    struct subscriber       show   = { .context = &job, .on_note = on_note };
    struct subscriber       logged = logs_subscriber(&logs, &show);
    struct subscriber       kept   = record_log_subscriber(r, &logged);
    struct subscriber       rows   = record_subscriber(r, &kept);
    struct supervise_config given  = {
         .command   = p->command,
         .program   = &s->program,
         .spot      = &s->spot,
         .stop      = job_stop(&s->train),
         .store     = r->place,
         .keep      = s->checkpoint.keep,
         .to        = s->checkpoint.to.len ? &to : NULL,
         .bill      = r->config.bill,
         .run       = r->before.run, /* of a start that ended before its first checkpoint */
         .events    = &rows,
         .on_output = p->on_output,
         .context   = p->context,
         .fresh     = job.fresh
    };
    struct supervise *restored = NULL;
    os_signals_catch();
    enum status st = supervise_restore(job.os, &given, result, &restored, err);
    if (!st) st = record_prepare(r, err); /* prices and the ledger, once the run is restored */
    if (!st) st = job_check_price(s, err);
    given.stop = job_stop(&s->train); /* the price is known */
    if (restored) st = supervise_restored(restored, st, err);
    logs_close(&logs);
    r->deadline_ns = result->deadline_ns;
    record_close(r, result->stopped ? result->stopped : st ? STOP_NONE : STOP_END);
    return st;
}

enum status job_supervise(const struct job *j, const struct job_program *p,
                          struct supervise_result *result, struct err *err)
{
    const struct settings *s = j->settings;
    struct record          record;
    *result        = (struct supervise_result){ 0 };
    enum status st = check(s, err);
    if (st) return st;
    record_new(&record, j);
    if (s->program.folder.len) record.place = s->checkpoint.dir;
    record_resume(&record, record.place,
                  j->fresh); /* spent.json, which lies with the checkpoints */
    st = supervise(&record, p, result, err);
    if (!st && !isnan(s->train.target) && !result->target_reached)
        st = err_set(err, STATUS_NO, "the target %g was not reached", s->train.target);
    return st;
}
