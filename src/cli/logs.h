/* logs.h - the listener behind log.csv, log.tensorboard and log.prometheus: which steps become rows. */
#ifndef CLI_LOGS_H
#define CLI_LOGS_H
#include "cli/commands.h"
#include "cli/config.h"
#include "run/figures.h"
#include "train/train.h"

struct logs {
    struct cli          *cli;
    const struct config *config;
    struct figures_log  *log;          /* NULL: nothing is asked for, or not yet */
    struct str           metric;       /* that the target is measured in */
    f64                  peak_flops_s; /* of the device, by the catalogue; NaN: it has none */
    struct figures       row;          /* of the newest step; its evaluation may follow */
    bool                 due;          /* it shall be written */
    f64                  next_s;       /* no step is due before the run is so old */
};

struct logs           logs_init(struct cli *c, const struct config *config);
struct train_listener logs_listener(struct logs *l, const struct train_listener *next);
void                  logs_close(struct logs *l);

#endif
