/* weights_mark.h - from a file of weights back to the run that wrote it. The file itself does not name its run: one
 * that was resumed and one that nothing disturbed write the same bytes. The ledger has the mark of what each run
 * wrote. */
#ifndef JOB_WEIGHTS_MARK_H
#define JOB_WEIGHTS_MARK_H
#include "run/ledger.h"

/* Size and hash, whatever the file is called; empty: it cannot be read, or is a folder. At most 64 MiB are read. */
struct str weights_mark(struct os *os, struct str file, struct arena *perm);
/* Ids of the runs of the ledger that wrote such a file. USAGE: it cannot be read; NO: nobody wrote it. */
enum status weights_runs(struct os *os, struct ledger *l, struct str file, struct arena *perm,
                         struct str **ids, i64 *count, struct err *err);

#endif
