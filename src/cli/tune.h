/* tune.h - the file for the winner of `frugal tune`; the loop with its table is in cmd_tune.c, one measurement is
 * job/measure.h's, and what is tried, and what wins, train/tune.h's. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H
#include "cli/commands.h"
#include "job/measure.h"
#include "train/config.h"
#include "train/tune.h"

/* run.yaml -> run.tuned.yaml: what the user said and what won, `words` with reasons behind the lines that changed.
 * A file of that name that is not ours is left alone: STATUS_USAGE. */
enum status tune_write(struct os *os, const struct config *before, const struct config *after,
                       struct str head, struct arena *perm, struct str *path, struct err *err);

#endif
