/* checkpoint_writer.h - copies and writes checkpoints while the run goes on: one thread, one checkpoint at a time.
 *
 * Whoever begins a save lends it the state to copy from until checkpoint_writer_copied, and the memory that the
 * parts point to until checkpoint_writer_idle says so again; there is no queue, so memory is bounded by that of
 * one snapshot. All functions are for one thread, that of the run. */
#ifndef TRAIN_CHECKPOINT_WRITER_H
#define TRAIN_CHECKPOINT_WRITER_H
#include "store/checkpoint.h"

struct checkpoint_writer_config {
    struct os         *os;
    struct ckpt_store *store;
    i64                keep;
    /* In the writer's thread: prepare once, then copy before each is written. NULL: nothing to do. */
    void (*prepare)(void *source);
    void (*copy)(void *source);
    void *source;
    /* In the writer's thread, once one is on the disk; must return soon. NULL: nobody cares. */
    void (*saved)(void *context, struct ckpt_store *store, const struct ckpt_manifest *m);
    void *context;
};

struct saved { /* what became of one */
    struct ckpt_id id;
    i64            bytes;
    f64            persist_s; /* from checkpoint_writer_begin to the disk */
    f64            busy_s;    /* and until older ones are pruned */
    i64            freed;     /* older ones that were deleted because the disk is full */
    struct err     err;       /* status OK: it is there */
};

struct checkpoint_writer;

enum status checkpoint_writer_open(const struct checkpoint_writer_config *c, struct arena *perm,
                                   struct checkpoint_writer **out, struct err *err);
/* Finishes what was begun, but gives up reading back for pruning. */
void checkpoint_writer_close(struct checkpoint_writer *s);
/* The run must end soon: older checkpoints that cannot go without reading one back stay. */
void checkpoint_writer_hurry(struct checkpoint_writer *s);
/* Has the thread prepare, if it has not begun to; it is not idle before. */
void checkpoint_writer_prepare(struct checkpoint_writer *s);
bool checkpoint_writer_idle(struct checkpoint_writer *s);
bool checkpoint_writer_writes(
    struct checkpoint_writer *s); /* one is on its way to the disk; not so while it only prunes */
bool checkpoint_writer_wait(struct checkpoint_writer *s,
                            i64 limit_ns); /* until idle; false: not within the limit */
/* When idle. `m` as for ckpt_write. */
void checkpoint_writer_begin(struct checkpoint_writer *s, const struct ckpt_manifest *m,
                             const struct ckpt_part *parts, i64 count);
bool checkpoint_writer_copied(struct checkpoint_writer *s); /* what was begun, if anything */
void checkpoint_writer_wait_copied(struct checkpoint_writer *s);
bool checkpoint_writer_take(struct checkpoint_writer *s, struct saved *out); /* the result, once */

#endif
