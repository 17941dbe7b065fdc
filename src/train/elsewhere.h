/* elsewhere.h - a run's checkpoints in an object store (checkpoint.to): the uploader from the loop's
 * point of view; inside this room only. Without checkpoint.to everything here does nothing. */
#ifndef TRAIN_ELSEWHERE_H
#define TRAIN_ELSEWHERE_H
#include "run/bill.h"
#include "store/upload.h"
#include "train/train_int.h"

struct elsewhere {
    struct os                   *os;
    struct uploader             *up; /* NULL: none */
    const struct train_with *listener;
    i64                          begin_ns;
    struct ckpt_id               told; /* the newest that the user heard of */
    bool                         told_failed, told_behind, told_note;
    i64                          keep;
    struct store_requests        at_told, each; /* all when `told` was; between that one and the one before */
    struct s3_sums               last; /* asked of the store in all, once it is closed */
};

/* Claims the number of this start: *attempt. */
enum status elsewhere_open(struct elsewhere *e, struct os *os, const struct settings *settings,
                           const struct train_with *listener, struct ckpt_store *store,
                           struct arena *perm, i64 *attempt, struct err *err);
/* *brought: a newer one than `have` (attempt 0: none) is in the local store now. */
enum status elsewhere_restore(struct elsewhere *e, struct ckpt_id have, struct arena *perm,
                              bool *brought, struct err *err);
enum status elsewhere_clear(struct elsewhere *e, struct err *err); /* begin anew: all of them go */
/* For saver_config: one is on the disk. */
void elsewhere_saved(void *context, struct ckpt_store *store, const struct ckpt_manifest *m);
/* After each step: tells what has changed. INTERRUPTED: a later start has taken over. */
enum status elsewhere_step(struct elsewhere *e, f64 interval_s, struct err *err);
f64         elsewhere_age_s(struct elsewhere *e); /* of the newest there; NaN: none */
/* Seconds until one more of so many bytes would be there, by the rate of those before; 0: not known. */
f64 elsewhere_needs_s(struct elsewhere *e, i64 bytes);
/* Waits for what was offered, until the deadline (0: none, then for checkpoint.upload_wait_s), or until
 * `until_ns` says, as for uploader_listen. NO: it is not there, and the sentence says how to bring it there. */
enum status elsewhere_end(struct elsewhere *e, i64 deadline_ns, i64 (*until_ns)(void *context), void *context,
                          struct err *err);
/* That the end of the run takes, with one more save of so many bytes; there is an uploader. */
struct store_requests elsewhere_last_requests(struct elsewhere *e, i64 bytes);
struct store_requests elsewhere_requests(void *elsewhere); /* so far, for bill_count */
void        elsewhere_figures(struct elsewhere *e, struct train_saving *to);
void        elsewhere_close(struct elsewhere *e, bool ended);

#endif
