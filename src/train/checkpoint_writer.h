/* checkpoint_writer.h - copies and writes checkpoints while the run goes on: one thread, one checkpoint at a time.
 *
 * Whoever begins a save lends it the state to copy from until checkpoint_writer_copied, and the memory that the
 * parts point to until checkpoint_writer_idle says so again; there is no queue, so memory is bounded by that of
 * one snapshot. All functions are for one thread, that of the run.
 *
 * Where other ranks write parts of each checkpoint, the writer with the store asks for theirs and names the checkpoint
 * when it has the answer; theirs, without a store, write when they are told to. What passes between them is carried by
 * the threads of the runs (save_parts.c): MPI allows no other to call it.
 *
 *     with the store     copy ── name ─┬─ write own ──────── answer ─ manifest     asks, answer
 *     the others         copy ─────────┴─ write own, report                        write, report */
#ifndef TRAIN_CHECKPOINT_WRITER_H
#define TRAIN_CHECKPOINT_WRITER_H
#include "store/checkpoint.h"

struct checkpoint_writer_config {
    struct os         *os;
    struct ckpt_store *store; /* NULL: this one writes parts beside it, to `folder` */
    struct str         folder;
    bool               shared; /* others write parts beside this one */
    i64                bytes;  /* of a checkpoint, those parts included; 0: the parts' own */
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

/* With the store, shared: does it ask the others to write parts of that checkpoint? Once each time. */
bool checkpoint_writer_asks(struct checkpoint_writer *s, struct ckpt_id *id);
/* They have: these shards, lent until it is idle, or the first failure of theirs. */
void checkpoint_writer_answer(struct checkpoint_writer *s, const struct ckpt_shard *shards,
                              i64 count, const struct err *failed);
/* Without a store: after checkpoint_writer_begin, and again if that failed; once it has reported the last. */
void checkpoint_writer_write(struct checkpoint_writer *s, struct ckpt_id id);
struct part_report { /* what another rank tells rank 0 */
    i32 done;        /* it is on the disk, or */
    i32 status;      /* why not: *err */
    i64 bytes[2];
    u64 hash[2];
};
struct part_report checkpoint_writer_report(struct checkpoint_writer *s, struct err *err);
/* What was begun is over, in this rank or in another; returns when the memory belongs to the caller again. */
void checkpoint_writer_over(struct checkpoint_writer *s);

#endif
