/* profile_show.h - the subscriber that shows a profile: parts, ops, memory; and writes its trace. */
#ifndef CLI_PROFILE_SHOW_H
#define CLI_PROFILE_SHOW_H
#include "cli/commands.h"
#include "train/train.h"

struct profile_shown {
    struct cli                  *cli;
    const struct profile_config *config;
    struct arena                 room;    /* for words */
    i64                          steps;   /* that were profiled */
    i64                          ns, ops; /* their wall clock; how many ops there are */
    f64                          ops_s;   /* what these took */
    i64                          ops_seen, programs_seen;
    struct err                   err; /* of the trace, which could not be written; else status 0 */
};

struct subscriber profile_subscriber(struct profile_shown *p, const struct subscriber *next);

#endif
