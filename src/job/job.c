/* job.c - a run of `frugal train`, from the top to the bottom. */
#include "job/job.h"
#include "backend/ranks/ranks.h"
#include "job/logs.h"
#include "job/notices.h"
#include "job/peak.h"
#include "job/record.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const f64 write_part = 0.01; /* of the time, for what a text model writes meanwhile */

void job_say(const struct job *j, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (j->say) j->say(j->context, str_of(text));
}

/* A run that nothing ends is a mistake. */
static enum status check_end(const struct train_config *t, struct err *err)
{
    if (t->epochs || t->steps || !isnan(t->target) || t->patience || !isnan(t->max_seconds) ||
        !isnan(t->max_dollars))
        return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "the run has no end: set train.epochs=5, train.steps=1000 or a train.target");
}

struct stop_config job_stop(const struct train_config *t)
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

enum status job_check_price(const struct settings *s, struct err *err)
{
    if (isnan(s->train.max_dollars) || !isnan(s->train.usd_hour)) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.max_dollars needs the price of an hour: train.usd_hour=0.10 "
                   "or run.machine=aws/g5.xlarge");
}

/* What is opened once the run is restored: prices and the ledger, what earlier starts spent, the cloud's notices. */
static enum status open_record(struct record *r, struct notices *notices, struct err *err)
{
    const struct job *j  = r->job;
    enum status       st = record_prepare(r, err);
    record_resume(r, j->settings->checkpoint.dir, j->fresh);
    return st ? st : notices_open(notices, j->os, &j->settings->spot, err);
}

static enum status train_recorded(const struct job *asked, const struct subscriber *show,
                                  struct train_result *result, struct err *err)
{
    struct settings     settings = *asked->settings;
    struct job          job = *asked, *j = &job;
    struct train_orders orders = TRAIN_ORDERS_NONE;
    struct record       record;
    struct notices      notices;
    struct restore     *restored = NULL;
    j->settings  = &settings; /* what the checkpoint and the catalogue decide is set */
    orders.fresh = j->fresh;
    record_new(&record, j);
    notices_init(&notices, bill_clock(record.config.bill), &orders);
    record.place              = settings.checkpoint.dir;
    record.orders             = &orders;
    struct logs       logs    = logs_init(j);
    struct subscriber logged  = logs_subscriber(&logs, show);
    struct subscriber kept    = record_log_subscriber(&record, &logged);
    struct subscriber rows    = record_subscriber(&record, &kept);
    struct subscriber noticed = notices_subscriber(&notices, &rows);
    struct train_with with    = { .to           = &noticed,
                                  .bill         = record.config.bill,
                                  .orders       = &orders,
                                  .ranks        = j->ranks,
                                  .peak_flops_s = peak_flops_s,
                                  .write        = j->write,
                                  .write_part   = write_part };
    os_signals_catch();
    enum status st = train_restore(j->os, &settings, &with, &restored, err);
    if (!st) st = open_record(&record, &notices, err);
    if (restored) st = train_restored(restored, st, result, err);
    logs_close(&logs);
    notices_close(&notices);
    record_close(&record, result->stopped);
    return st;
}

/* Every rank but the first: it computes, and neither writes nor records, nor decides what ends a run. It listens to the
 * cloud all the same: a notice is of one machine, and this rank may be the only one there. */
static enum status follow(const struct job *j, struct train_result *result, struct err *err)
{
    struct settings     s        = *j->settings;
    struct train_orders orders   = TRAIN_ORDERS_NONE;
    struct train_with   with     = { .orders = &orders, .ranks = j->ranks };
    struct restore     *restored = NULL;
    struct notices      notices;
    s.checkpoint.dir = s.checkpoint.to = s.train.out = s.train.gradients = STR("");
    s.train.max_dollars                                                  = NAN;
    notices_init(&notices, clock_new(j->perm, j->os), &orders);
    os_signals_catch();
    enum status st = train_restore(j->os, &s, &with, &restored, err);
    if (!st) st = notices_open(&notices, j->os, &s.spot, err);
    if (restored) st = train_restored(restored, st, result, err);
    notices_close(&notices);
    return st;
}

enum status job_train(const struct job *j, const struct subscriber *show,
                      struct train_result *result, struct err *err)
{
    const struct train_config *t    = &j->settings->train;
    struct train_with          with = {
                 .to = show, .bill = j->bill, .orders = j->orders, .peak_flops_s = peak_flops_s
    };
    *result = (struct train_result){ 0 };
    if (!j->kind.len) return train_run(j->os, j->settings, &with, result, err);
    enum status st = check_end(t, err);
    if (!st && j->ranks && j->ranks->rank) st = follow(j, result, err);
    else if (!st) st = train_recorded(j, show, result, err);
    if (!st && !result->steps && result->stopped == STOP_BUDGET)
        st = err_set(err, STATUS_NO, "no step was done: %s", result->why);
    if (!st && result->target_set && !result->target_reached)
        st = err_set(err, STATUS_NO, "the target %g was not reached: %s", t->target, result->why);
    return st;
}
