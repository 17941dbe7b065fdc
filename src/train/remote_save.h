/* remote_save.h - a run's checkpoints in an object store (checkpoint.to): the uploader from the loop's
 * point of view; inside this room only. Without checkpoint.to everything here does nothing. */
#ifndef TRAIN_REMOTE_SAVE_H
#define TRAIN_REMOTE_SAVE_H
#include "run/bill.h"
#include "store/upload.h"
#include "train/train_int.h"

struct remote_save {
    struct os               *os;
    struct uploader         *up; /* NULL: none */
    const struct train_with *listener;
    struct stopwatch         since; /* this start */
    struct ckpt_id           told;  /* the newest that the user heard of */
    bool                     told_failed, told_behind, told_note;
    i64                      keep;
    struct store_requests    at_told,
        each;            /* all when `told` was; between that one and the one before */
    struct s3_sums last; /* asked of the store in all, once it is closed */
};

/* Claims the number of this start: *attempt. */
enum status remote_save_open(struct remote_save *e, struct os *os, const struct settings *settings,
                             const struct train_with *listener, struct ckpt_store *store,
                             struct arena *perm, i64 *attempt, struct err *err);
/* *brought: a newer one than `have` (attempt 0: none) is in the local store now. */
enum status remote_save_restore(struct remote_save *e, struct ckpt_id have, struct arena *perm,
                                bool *brought, struct err *err);
enum status remote_save_clear(struct remote_save *e,
                              struct err         *err); /* begin anew: all of them go */
/* For checkpoint_writer_config: one is on the disk. */
void remote_save_saved(void *context, struct ckpt_store *store, const struct ckpt_manifest *m);
/* After each step: tells what has changed. INTERRUPTED: a later start has taken over. */
enum status remote_save_step(struct remote_save *e, f64 interval_s, struct err *err);
f64         remote_save_age_s(struct remote_save *e); /* of the newest there; NaN: none */
/* Seconds until one more of so many bytes would be there, by the rate of those before; 0: not known. */
f64 remote_save_needs_s(struct remote_save *e, i64 bytes);
/* Waits for what was offered, until the deadline (0: none, then for checkpoint.upload_wait_s), or until
 * `until_ns` says, as for uploader_listen. NO: it is not there, and the sentence says how to bring it there. */
enum status remote_save_end(struct remote_save *e, i64 deadline_ns, i64 (*until_ns)(void *context),
                            void *context, struct err *err);
/* That the end of the run takes, with one more save of so many bytes in so many files; there is an uploader. */
struct store_requests remote_save_last_requests(struct remote_save *e, i64 bytes, i64 shards);
struct store_requests remote_save_requests(void *remote_save); /* so far, for bill_count */
void                  remote_save_figures(struct remote_save *e, struct train_saving *to);
void                  remote_save_close(struct remote_save *e, bool ended);

#endif
