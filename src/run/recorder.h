/* recorder.h - writes a run into the ledger while it runs, from a thread of its own, so that no
 * training step ever waits for a disk: a step costs a lock nobody holds and a few copies.
 *
 * The thread opens the ledger, writes the segment's row at once and again with each heartbeat, ten
 * seconds after the last. What cannot be written is tried again at the next one; the first failure is
 * told once, by recorder_warning. */
#ifndef RUN_RECORDER_H
#define RUN_RECORDER_H
#include "run/ledger.h"

struct recorder;

struct recorder_config {
    struct str          path;    /* of the ledger */
    struct run_row      run;     /* an empty id: a new one */
    struct segment_row  segment; /* what is known at its start; id and run are given to it */
    struct price_row    price;   /* usd_hour NaN: not known */
    bool                rented;  /* count the machine's time before the process too */
    i64                 beat_ns; /* between two heartbeats; 0: ten seconds */
};

/* Texts of the config must live as long as the recorder. */
enum status recorder_open(struct os *os, struct arena *perm, const struct recorder_config *config,
                          struct recorder **out, struct err *err);
struct account *recorder_account(struct recorder *r); /* that the run keeps */
struct str      recorder_run_id(const struct recorder *r);
/* The highest step that earlier segments of this run had done; waits until the ledger is read. */
i64 recorder_steps_before(struct recorder *r);

/* From the run's thread. Texts are copied. */
void recorder_segment(struct recorder *r, const struct segment_row *now); /* all but times and keys */
void recorder_step(struct recorder *r, i64 step, f64 loss, f64 value);    /* a summary */
void recorder_put(struct recorder *r, enum ledger_table table, const void *row);
                                  /* checkpoint, interruption or prediction: its key is filled in */
bool recorder_warning(struct recorder *r, struct err *err); /* true once for each kind of failure */

/* The last heartbeat, with the reason of the end; waits until it is written, at most some seconds. */
enum status recorder_close(struct recorder *r, struct str ended, struct err *err);

#endif
