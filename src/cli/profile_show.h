/* profile_show.h - the subscriber that shows a profile: parts, ops, memory; and writes its trace. */
#ifndef CLI_PROFILE_SHOW_H
#define CLI_PROFILE_SHOW_H
#include "cli/commands.h"
#include "train/train.h"

struct profile_shown {
    struct cli                  *cli;
    const struct profile_config *config;
    i64                          steps; /* that were profiled */
    struct err                   err; /* of the trace, which could not be written; else status 0 */
};

struct subscriber profile_subscriber(struct profile_shown *p, const struct subscriber *next);

#endif
