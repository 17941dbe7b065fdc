/* mirror.h - the runs below a prefix of an object store in a folder of this machine, renewed while somebody looks:
 *
 *     PREFIX/…/ledger/SEGMENT.jsonl ──► FOLDER/ledger.db
 *     PREFIX/…/events/SEGMENT.jsonl ──► FOLDER/events/RUN/SEGMENT.jsonl
 *
 * `frugal watch s3://…` shows them as it shows this machine's own. Objects are read again only where they have grown;
 * what cannot be read now is tried again. Runs renew theirs every half minute and with each checkpoint. */
#ifndef JOB_MIRROR_H
#define JOB_MIRROR_H
#include "base/os.h"

struct mirror;

/* The first reading is done when it returns; a thread goes on. */
enum status mirror_open(struct mirror **out, struct os *os, struct str address, struct arena *perm,
                        struct err *err);
struct str  mirror_ledger(const struct mirror *m); /* the file */
void        mirror_close(struct mirror *m);        /* NULL is none */

#endif
