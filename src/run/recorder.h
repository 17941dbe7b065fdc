/* recorder.h - writes a run into the ledger while it runs, from a thread of its own, so that no
 * training step ever waits for a disk: a step costs a lock that nobody holds and a few copies.
 *
 * The thread opens the ledger, writes the segment's row at once, and again at each heartbeat: every
 * second, or as much less often as keeps it below a hundredth of its thread's time, at least every ten;
 * and when a checkpoint was saved. What cannot be written is kept and tried again at the next one; the
 * first failure is told once, by recorder_warning, and training goes on.
 *
 * The event log is written more often, every 0.4 s, so that who follows the run sees its events within a second.
 * Then and with each heartbeat it also looks whether another process asks the run to stop (ask_stop.h), and passes
 * that on as a signal of this process.
 *
 * Earlier segments of the run that nobody ended are closed when the ledger is opened: the process that
 * wrote them is gone, and tally.h may know how long it lived. */
#ifndef RUN_RECORDER_H
#define RUN_RECORDER_H
#include "run/bill.h"
#include "run/event_log.h"
#include "run/ledger.h"
#include "run/tally.h"

struct recorder;

/* Where rows are kept beside the machine's own disk. Called from the recorder's thread. */
struct recorder_store {
    void *context;
    /* Lines of all segments of this run that are there, in perm. */
    enum status (*fetch)(void *context, struct arena *perm, struct str *lines, struct err *err);
    /* The segment's lines, in the place of what was put for it before. */
    enum status (*put)(void *context, struct str segment, struct str lines, struct arena scratch,
                       struct err *err);
    /* Likewise its event log; NULL: nowhere. */
    enum status (*put_events)(void *context, struct str segment, struct str lines,
                              struct arena scratch, struct err *err);
    /* From the run's thread: no question is worth waiting for any more. */
    void (*cancel)(void *context);
    /* One put follows now, unless the bill is over; NULL: nobody counts. */
    void (*promise)(void *context);
};

/* Of the segment: id (empty: a new one), device, gpus, precision, batch, accumulate, flops_step, arena_bytes and
 * step_from; the rest is found out here. The store is read before the first heartbeat, and renewed after each
 * checkpoint, at least every half minute and at the end; the event log where it has grown, and also while the ledger
 * cannot be written. */
struct recorder_config {
    struct str     path; /* of the ledger */
    struct bill   *bill; /* that the run keeps, since the process began; NULL: a stream is replayed,
                                             which says where its time went */
    struct run_row run;  /* an empty id: a new run */
    struct segment_row           segment;
    struct price_row             price;   /* usd_hour NaN: not known; its id is made here */
    bool                         rented;  /* the machine's time before the process is billed too */
    i64                          beat_ns; /* between two heartbeats; 0: as they come */
    struct tally_file            before;  /* of the run's earlier starts; an empty run: not known */
    struct event_log            *log;     /* written and carried with the rows; NULL: none */
    const struct recorder_store *store;   /* NULL: none */
};

/* Texts are copied, here and below. */
enum status recorder_open(struct os *os, struct arena *perm, const struct recorder_config *config,
                          struct recorder **out, struct err *err);
struct str  recorder_run_id(const struct recorder *r);
/* What earlier segments of this run did, as the ledger has it: the highest step, all they cost, and the newest of what
 * they left in the object store. */
enum { RECORDER_KEPT_MAX = 64 };
struct recorder_before {
    i64                   steps;
    struct spent          spent;
    i64                   kept_count;
    struct checkpoint_row kept[RECORDER_KEPT_MAX]; /* oldest first; texts live as long as the run */
};
/* Waits until the ledger was read, but no longer than limit_ns. False: not yet, or it cannot be read. */
bool recorder_before(struct recorder *r, i64 limit_ns, struct recorder_before *out);

/* After a step: of the run the steps done, of this segment the samples and tokens. */
void recorder_step(struct recorder *r, i64 step, i64 samples, i64 tokens, f64 loss);
/* terms NULL: as the bill's clock has them now. */
void recorder_eval(struct recorder *r, const struct event_terms *terms, f64 loss, f64 value,
                   bool target_reached);
void recorder_done(struct recorder         *r,
                   const struct event_done *e); /* energy, usage, where the time went */
/* Of the weights that are kept, where they are not those of the last evaluation. */
void recorder_result(struct recorder *r, f64 loss, f64 value);
/* How the weights that it wrote are known again. */
void recorder_weights(struct recorder *r, struct str mark);
/* A prediction, checkpoint or interruption; run or segment is filled in (of a checkpoint where it has none). */
void recorder_put(struct recorder *r, enum ledger_table table, const void *row);

bool recorder_warning(struct recorder *r, struct err *err); /* true once: something failed */
/* The last heartbeat, with the reason of the end; waits until it is written, and in the store if that
 * is done by then (on the clock of now_ns; 0: no limit but the store's own and the ledger's); then neither is
 * waited for any more. WORLD: what came last is not in the ledger, or not in the store. */
enum status recorder_close(struct recorder *r, struct str ended, i64 until_ns, struct err *err);

#endif
