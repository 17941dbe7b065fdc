/* followed.c - a run of `frugal follow`, from the top to the bottom: a loop that reports to us, recorded as our own
 * are. */
#include "job/followed.h"
#include "job/logs.h"
#include "job/record.h"
#include <math.h>

static enum status check(const struct settings *s, struct err *err)
{
    struct stop_config stop = job_stop(&s->train);
    if (stop.forecast > 0 && isnan(stop.target))
        return err_set(err, STATUS_USAGE, "train.forecast needs a train.target");
    return target_in_range(stop.metric, stop.target, false, err);
}

/* What earlier starts have spent is counted in the folder, by one process at a time. */
static enum status lock_folder(const struct job *j, struct file *lock, struct err *err)
{
    struct str folder = j->settings->checkpoint.dir;
    struct err why    = { 0 };
    if (!folder.len) return STATUS_OK;
    bool        was = os_private(true);
    enum status st  = j->os->make_dir(j->os, folder, err);
    if (!st) {
        struct str path = str_cat(j->perm, folder, STR("/lock"));
        st              = j->os->lock(j->os, path, lock, &why);
        if (st == STATUS_NO)
            err_set(err, STATUS_WORLD, "another run reports to this folder: %s; give another",
                    why.text);
        else if (st) err_set(err, st, "%s", why.text);
    }
    os_private(was);
    return st == STATUS_NO ? STATUS_WORLD : st;
}

static enum status follow(struct record *r, struct file in, const struct subscriber *show,
                          struct follow_result *result, struct err *err)
{
    const struct settings *s      = r->job->settings;
    struct logs            logs   = logs_init(r->job);
    struct subscriber      logged = logs_subscriber(&logs, show);
    struct subscriber      kept   = record_log_subscriber(r, &logged);
    struct subscriber      rows   = record_subscriber(r, &kept);
    struct follow_config   given  = { .spot   = &s->spot,
                                      .stop   = job_stop(&s->train),
                                      .bill   = r->config.bill,
                                      .run    = r->before.run,
                                      .events = &rows };
    os_signals_catch();
    enum status st = follow_run(r->job->os, in, &given, result, err);
    logs_close(&logs);
    r->deadline_ns = result->deadline_ns;
    record_close(r, result->stopped);
    return st;
}

enum status job_follow(const struct job *j, struct file in, const struct subscriber *show,
                       struct follow_result *result, struct err *err)
{
    const struct settings *s    = j->settings;
    struct file            lock = { -1 };
    struct record          record;
    *result        = (struct follow_result){ 0 };
    enum status st = check(s, err);
    if (!st) st = lock_folder(j, &lock, err);
    if (!st) st = record_init(&record, j, err);
    if (!st) st = job_check_price(s, err);
    if (st) return st;
    record.place = s->checkpoint.dir;
    record_resume(&record, record.place, j->fresh);
    st = follow(&record, in, show, result, err);
    if (lock.fd >= 0) j->os->close(j->os, &lock, NULL);
    if (!st && !isnan(s->train.target) && !result->target_reached)
        st = err_set(err, STATUS_NO, "the target %g was not reached", s->train.target);
    return st;
}
