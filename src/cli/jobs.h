/* jobs.h - settings and a job from what the user said. */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H
#include "cli/commands.h"
#include "job/job.h"
#include "train/config.h"

/* `kind`: of the ledger's row; "": it is not recorded. Its lines go to stderr. */
struct job job_of(struct cli *c, struct config *config, const char *kind);
/* The settings of a command whose arguments are RUN.YAML [KEY=VALUE...]. */
enum status config_of_request(const struct request *r, struct os *os, struct arena *perm,
                              struct config **out, struct err *err);
/* For a command that is one process: USAGE where a launcher has started several, of which one says so. */
enum status only_process(struct cli *c, const char *command, struct err *err);
/* Those of the trained model that the first argument names; KEY=VALUE from argument `settings_from` on. */
enum status model_of_request(struct cli *c, i64 settings_from, struct config **out,
                             struct err *err);
/* The same for MODEL [DATA] [KEY=VALUE...]: DATA is short for data.eval_path=DATA. */
enum status model_and_data(struct cli *c, struct config **out, struct err *err);
bool        is_data(struct str argument);

#endif
