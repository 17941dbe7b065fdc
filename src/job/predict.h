/* predict.h - what the planner would say of a step that is about to run here. */
#ifndef JOB_PREDICT_H
#define JOB_PREDICT_H
#include "job/job.h"
#include "plan/rates.h"
#include "run/ledger.h"

/* rates.csv beside the ledger: this processor's own, by `frugal plan --calibrate`. Empty: no home. */
struct str predict_rates_path(struct os *os, struct arena *perm);
/* Reads it; the target takes its peaks from there. */
enum status predict_read_rates(struct os *os, struct arena *perm, struct target *t,
                               struct rates *out, struct err *err);

/* A row for the ledger, but for made_wall_ns. False: nothing is known of such a device, or the run is replayed. */
bool predict_step(struct os *os, const struct event_start *e, struct arena *perm,
                  struct prediction_row *out);

/* What somebody predicted of a run with these settings, for `frugal report` to compare: id, settings and time are
 * filled in. Where there is no ledger, nothing. */
void predict_keep(const struct job *j, const struct prediction_row *predicted);

#endif
