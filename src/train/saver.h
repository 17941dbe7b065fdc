/* saver.h - copies and writes checkpoints while the run goes on: one thread, one checkpoint at a time.
 *
 * Whoever begins a save lends it the state to copy from until saver_copied, and the memory that the
 * parts point to until saver_idle says so again; there is no queue, so memory is bounded by that of
 * one snapshot. All functions are for one thread, that of the run. */
#ifndef TRAIN_SAVER_H
#define TRAIN_SAVER_H
#include "store/checkpoint.h"

struct saver_config {
    struct os         *os;
    struct ckpt_store *store;
    i64                keep;
    /* In the saver's thread: prepare once, then copy before each is written. NULL: nothing to do. */
    void (*prepare)(void *source);
    void (*copy)(void *source);
    void *source;
    /* In the saver's thread, once one is on the disk; must return soon. NULL: nobody cares. */
    void (*saved)(void *context, struct ckpt_store *store, const struct ckpt_manifest *m);
    void *context;
};

struct saved { /* what became of one */
    struct ckpt_id id;
    i64            bytes;
    f64            persist_s; /* from saver_begin to the disk */
    f64            busy_s;    /* and until older ones are pruned */
    i64            freed;     /* older ones that were deleted because the disk is full */
    struct err     err;       /* status OK: it is there */
};

struct saver;

enum status saver_open(const struct saver_config *c, struct arena *perm, struct saver **out,
                       struct err *err);
/* Finishes what was begun, but gives up reading back for pruning. */
void        saver_close(struct saver *s);
/* The run must end soon: older checkpoints that cannot go without reading one back stay. */
void        saver_hurry(struct saver *s);
/* Has the thread prepare, if it has not begun to; it is not idle before. */
void        saver_prepare(struct saver *s);
bool        saver_idle(struct saver *s);
bool        saver_writes(struct saver *s); /* one is on its way to the disk; not so while it only prunes */
bool        saver_wait(struct saver *s, i64 limit_ns); /* until idle; false: not within the limit */
/* When idle. `m` as for ckpt_write. */
void saver_begin(struct saver *s, const struct ckpt_manifest *m, const struct ckpt_part *parts,
                 i64 count);
bool saver_copied(struct saver *s);                  /* what was begun, if anything */
void saver_wait_copied(struct saver *s);
bool saver_take(struct saver *s, struct saved *out); /* the result, once */

#endif
