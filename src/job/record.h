/* record.h - a run, written into the ledger: what the recorder is told, and what the user is told when it cannot
 * write. */
#ifndef JOB_RECORD_H
#define JOB_RECORD_H
#include "job/job.h"
#include "job/shelf.h"
#include "run/recorder.h"
#include "run/tally.h"

enum { RECORD_REMOTE_MAX = 64 };

struct record {
    const struct job      *job;
    struct recorder_config config;
    struct recorder       *recorder; /* NULL: nothing is recorded, or not yet */
    bool                   homeless; /* because nobody says where: no run.ledger, no HOME */
    struct str
        folder; /* of checkpoints, where spent.json is; empty: none, nothing is gone on with */
    struct tally_file before;        /* what it says of earlier starts */
    struct tally     *tally;         /* NULL: none, or not yet */
    bool              before_due;    /* the ledger has not said yet what earlier starts did */
    i64               sample_tokens; /* 0: samples are not sequences */
    struct str        place;         /* where checkpoints go; empty: nowhere */
    i64               saved_bytes;   /* of the newest; 0: none */
    struct remote_rows {             /* those in the object store, as they come and go */
        struct str place;
        f64        usd_gib_month; /* NaN: not known */
        i64        keep, count;   /* keep 0: all of them */
        i64        bytes;         /* of all of them */
        struct checkpoint_row
            rows[2 * RECORD_REMOTE_MAX]; /* room for earlier starts' that turn out to be too many */
    } remote;
    struct train_orders *orders; /* that end the run when its machine is taken away; NULL: none */
    i64 deadline_ns;    /* when it is; what is not in the object store by then stays out. 0: none */
    struct shelf shelf; /* the ledger's rows there */
    i64          shelf_wait_ns; /* that the end of the run may take for them */
};

/* Name, settings and tags of the run; nothing is opened. Its clock begins with the process. The job must stay. */
void record_new(struct record *r, const struct job *j);
/* All else that is known before the run: prices (job_price), and what the ledger has of spot machines. */
enum status record_prepare(struct record *r, struct err *err);
enum status record_init(struct record *r, const struct job *j, struct err *err); /* both */
/* For who goes on from checkpoints: reads what earlier starts in that folder have spent (`fresh`: they are
 * forgotten). Returns the run's id, empty where there is none yet. */
struct str record_resume(struct record *r, struct str folder, bool fresh);
/* A subscriber that opens the ledger when the run is compiled, and tells it what comes. */
struct subscriber record_subscriber(struct record *r, const struct subscriber *next);
/* And one that keeps them as the event log beside it. */
struct subscriber record_log_subscriber(struct record *r, const struct subscriber *next);
/* For who has no events: from here on the segment is in the ledger. That it cannot be is a
 * message, not a failure. */
void record_open(struct record *r);
void record_close(struct record *r, enum stop_reason why);
/* For a command whose work is not the steps of one training: all of it is compute, counted in `unit`. */
void record_work_open(struct record *r, const struct settings *s, const char *unit);
void record_work_reached(struct record *r); /* the target, before it is closed */
void record_work_close(struct record *r, i64 done, enum status st);

#endif
