/* foretell.h - what the planner would say of a step that is about to run here. */
#ifndef CLI_FORETELL_H
#define CLI_FORETELL_H
#include "plan/rates.h"
#include "run/ledger.h"
#include "train/train.h"

/* rates.csv beside the ledger: this processor's own, by `frugal plan --calibrate`. Empty: no home. */
struct str foretell_rates_path(struct os *os, struct arena *perm);
/* Reads it; the target takes its peaks from there. */
enum status foretell_read_rates(struct os *os, struct arena *perm, struct target *t,
                                struct rates *out, struct err *err);

/* A row for the ledger, but for made_wall_ns. False: nothing is known of such a device. */
bool foretell_step(struct os *os, const struct train_start *e, struct arena *perm,
                   struct prediction_row *out);

#endif
