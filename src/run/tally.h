/* tally.h - what a run has spent so far, in the file spent.json beside its checkpoints.
 *
 * Caps are promises over all starts of a run. The ledger counts them, but is not everywhere (no SQLite,
 * run.ledger=none), is written by a thread that may have to wait, and hears of a start only once that is
 * compiled. This file is there from the first moment, is renewed ten times a second by a thread of its own, and
 * names the run before there is a checkpoint to name it. Whoever writes it holds the folder's lock. */
#ifndef RUN_TALLY_H
#define RUN_TALLY_H
#include "base/os.h"
#include "run/bill.h"

#define TALLY_FILE "spent.json"

struct tally_file {
    struct str   run;        /* id; empty: there is no such file */
    struct spent spent;      /* by all starts, the last one included */
    struct str   segment;    /* of the ledger: the last start */
    i64          segment_ns; /* it lived */
    bool         recorded;   /* the ledger has that segment */
    struct str   missed;     /* segment id for earlier starts that it has not; empty: it has all */
    i64          missed_ns;  /* they lived */
};

/* A file that is not there or makes no sense is none. */
struct tally_file tally_read(struct os *os, struct str folder, struct arena *perm);

struct tally; /* lives in `perm`, with its thread */

/* `before`: as tally_read gave it; of another run it is forgotten. */
enum status tally_open(struct os *os, struct str folder, struct str run,
                       const struct tally_file *before, struct bill *bill, struct arena *perm,
                       struct tally **out, struct err *err);
struct str  tally_segment(const struct tally *t); /* the id that this start has in the ledger */
void        tally_recorded(struct tally *t);      /* it is there, and what was missed */
void        tally_close(struct tally *t); /* the last figures are in the file; NULL is none */

#endif
