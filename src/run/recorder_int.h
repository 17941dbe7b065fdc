/* recorder_int.h - the recorder's own, shared by its three files only. */
#ifndef RUN_RECORDER_INT_H
#define RUN_RECORDER_INT_H
#include "run/recorder.h"
#include "run/run_int.h"
#include <pthread.h>
#include <stdatomic.h>

enum { TEXT_BYTES = 2048, RECORDER_KEPT_BYTES = RECORDER_KEPT_MAX * 2048 };

struct queued {
    enum ledger_table table;
    union ledger_any  row;
    u8                text[TEXT_BYTES];
};

struct recorder {
    struct os             *os;
    struct recorder_config config;
    struct clock          *clock;  /* the bill's, or our own: for deadlines */
    struct arena           memory; /* of the ledger, anew at each try to open it */
    struct arena           spare;  /* what the ledger leaves of it */
    struct ledger         *ledger; /* NULL: not open yet */

    pthread_t              thread;
    pthread_mutex_t        lock; /* of all below */
    pthread_cond_t         changed;
    struct arena           texts; /* of the rows */
    struct run_row         run;
    struct segment_row     now;
    struct queued         *queue;
    i64                    made, taken;
    struct recorder_before before;
    struct arena           kept_texts;          /* of before.kept */
    bool                   before_known, tried; /* tried: the first heartbeat is over */
    struct err             failure;             /* of the newest try; status OK: it went well */
    bool                   warned, stop, done;
    bool                   wake;       /* a checkpoint waits: the next heartbeat is now */
    i64                    eval_at_ns; /* of the last evaluation's summary */

    atomic_bool give_up; /* a ledger that others hold is not waited for any more */

    bool         stop_asked; /* by another process: told once */
    bool         run_known;  /* ours: the rows of run and price are as they should be */
    bool         fetched;    /* the store's rows are in the ledger */
    bool         put_due; /* the store's copy of ours is older than the newest checkpoint, or old */
    i64          put_at_ns; /* when it was made */
    bool         log_due;   /* likewise its copy of the event log */
    i64          log_at_ns;
    i64          log_bytes;      /* that it has of it */
    struct arena log_memory;     /* for sending it, whatever the ledger does */
    i64          store_after_ns; /* a store that failed is not asked before */
    i64          summary_at_ns;
    i64 wall_ns; /* of our clock's zero: heartbeats go on where somebody sets the machine's */
};

extern const i64 recorder_beat_least_ns, recorder_beat_most_ns;

/* recorder_store.c: with the object store, where there is one. `last`: the run ends, and nothing is due later. */
enum status recorder_fetch(struct recorder *r,
                           struct err      *err); /* rows of earlier segments, once */
enum status recorder_send_log(struct recorder *r, bool last,
                              struct err *err); /* the event log, where it has grown */
enum status recorder_sync_store(struct recorder *r, bool last,
                                struct err *err); /* the ledger's rows, both ways */

/* segments.c: rows that a start begins with, and those of earlier starts. */
struct segment_row recorder_segment_new(const struct recorder *r, const struct segment_row *known,
                                        struct arena *perm);
struct str         recorder_price_id(const struct price_row *p, struct arena *perm);
void recorder_set_billed(struct segment_row *s, const struct price_row *price, bool taken);
/* What earlier segments did, and how this machine was used before: once, when the ledger opens. */
enum status recorder_read_before(struct recorder *r, struct arena scratch, struct err *err);

#endif
