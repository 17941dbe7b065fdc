/* shelf.h - rows of the ledger in an object store, beside a run's checkpoints:
 *
 *     PREFIX/ledger/SEGMENT.jsonl     one object a segment, renewed with every checkpoint
 *     PREFIX/events/SEGMENT.jsonl     its event log (run/event_log.h), likewise
 *
 * So a restart on a fresh machine knows what the run did and cost before, and `frugal runs s3://…`
 * can merge the runs of any number of machines. */
#ifndef JOB_SHELF_H
#define JOB_SHELF_H
#include "remote/s3.h"
#include "run/recorder.h"
#include <stdatomic.h>

enum {
    SHELF_CALL_S = 20
}; /* a request is tried so long; the recorder's thread waits, a heartbeat is late */

struct shelf {
    struct web           *web;
    struct s3            *s3;
    struct recorder_store store; /* for a recorder: fetch and put, of this prefix alone */
    atomic_llong promised; /* puts, with the one that follows now: a bill that ends now has it */
};

/* USAGE: no address of an object store. Sends nothing yet. */
enum status shelf_open(struct shelf *s, struct os *os, const struct s3_settings *settings,
                       struct arena *perm, struct err *err);
void        shelf_close(struct shelf *s);
/* What was asked of the store so far, for a bill (bill_count); `shelf`: a struct shelf that is open. */
struct store_requests shelf_requests(void *shelf);
/* The lines of all segments below the prefix, of any number of runs. */
enum status shelf_read_all(struct shelf *s, struct arena *perm, struct str *lines, struct err *err);
/* Rows of another machine into the ledger: from a file, as `frugal runs --export` wrote them, or from an object store,
 * as they lie beside checkpoints. */
enum status shelf_merge(struct os *os, struct ledger *l, struct str from, struct arena *perm,
                        i64 *rows, struct err *err);

#endif
