/* jobs.h - a job from what the user said. */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H
#include "cli/commands.h"
#include "cli/config.h"
#include "job/job.h"

/* `kind`: of the ledger's row; "": it is not recorded. Its lines go to stderr. */
struct job job_of(struct cli *c, struct config *config, const char *kind);
/* Settings that are not the default, KEY=VALUE a line. */
struct str settings_changed(const struct config *config, struct arena *perm);

#endif
