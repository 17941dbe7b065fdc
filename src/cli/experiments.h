/* experiments.h - the verdict of `frugal profile`: some seconds of the run as it is tell what is wrong with it, and
 * each problem is then tried out, in turns with the run as it is (run/verdict.h). */
#ifndef CLI_EXPERIMENTS_H
#define CLI_EXPERIMENTS_H
#include "cli/commands.h"
#include "train/config.h"

/* Looks for `seconds` (0: not at all), experiments, and shows the verdict. Nothing of it is kept. */
enum status experiments_show(struct cli *c, const struct config *config, f64 seconds,
                             struct err *err);

#endif
