/* record.h - a command's run, written into the ledger: what the recorder is told, and what the user
 * is told when it cannot write. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/shelf.h"
#include "plan/catalogue.h"
#include "run/recorder.h"
#include "train/train.h"

enum { RECORD_REMOTE_MAX = 64 };

struct record {
    struct cli            *cli;
    struct recorder_config config;
    struct recorder       *recorder;                /* NULL: nothing is recorded, or not yet */
    i64                    sample_tokens;           /* 0: samples are not sequences */
    struct str             place;                   /* where checkpoints go; empty: nowhere */
    i64                    saved_step, saved_bytes; /* of the newest; 0: none */
    struct remote_rows { /* those in the object store, as they come and go */
        struct str            place;
        const struct storage *price;       /* NULL: not known */
        f64                   egress_gb_usd; /* of bytes out of it to where this runs */
        i64                   keep, count; /* keep 0: all of them */
        struct checkpoint_row rows[RECORD_REMOTE_MAX];
    } remote;
    struct train_orders *orders; /* that end the run when its machine is taken away; NULL: none */
    i64                  deadline_ns; /* when it is; what is not in the object store by then stays out. 0: none */
    struct shelf         shelf;  /* the ledger's rows there */
};

/* All that is known before the run: name, settings, tags, and the price: that of run.machine where
 * train.usd_hour says none, which is then set. The account begins with the process. */
enum status record_init(struct record *r, struct cli *c, struct config *config, const char *kind,
                        struct err *err);
/* A listener that opens the ledger when the run is compiled, and tells it what comes. */
struct train_listener record_listener(struct record *r, const struct train_listener *next);
/* For who has no listener: from here on the segment is in the ledger. That it cannot be is a
 * message, not a failure. */
void record_open(struct record *r);
void record_close(struct record *r, enum stop_reason why);
/* For a command whose work is not the steps of one training: all of it is compute, counted in `unit`. */
void record_work_open(struct record *r, const struct settings *s, const char *unit);
void record_work_close(struct record *r, i64 done, enum status st);

/* Settings that are not the default, KEY=VALUE a line. */
struct str record_settings(const struct config *config, struct arena *perm);
/* What somebody foretold of a run with these settings, for `frugal report` to compare: id, settings and
 * time are filled in. Where there is no ledger, nothing. */
void record_prediction(struct cli *c, const struct config *config,
                       const struct prediction_row *foretold);

#endif
