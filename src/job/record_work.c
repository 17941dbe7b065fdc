/* record_work.c - the record of a command whose work is not the steps of one training: sweep, tune. */
#include "job/record.h"
#include <math.h>

void record_work_open(struct record *r, const struct settings *s, const char *unit)
{
    r->config.run.unit      = str_of(unit);
    r->config.run.metric    = s->train.target_metric;
    r->config.segment.batch = s->train.batch;
    record_open(r);
    clock_enter(bill_clock(r->config.bill), PART_compute);
}

void record_work_reached(struct record *r)
{
    if (r->recorder) recorder_eval(r->recorder, NULL, NAN, NAN, true);
}

void record_work_close(struct record *r, i64 done, enum status st)
{
    bill_stop(r->config.bill); /* what is printed, and what the ledger keeps, is this */
    if (r->recorder) recorder_step(r->recorder, done, done, 0, NAN);
    record_close(r, st == STATUS_INTERRUPTED ? STOP_SIGNAL : st ? STOP_NONE : STOP_END);
}
