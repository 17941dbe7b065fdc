/* upload.h - carries local checkpoints to the object store in the background.
 *
 * At most one upload runs and one waits; a newer checkpoint replaces the waiting one. What is offered
 * stays pinned in the local store until it is there or replaced. An upload that fails is tried again,
 * where it stood, until a newer one waits. After each, remote checkpoints beyond `keep` are deleted,
 * and those superseded are tagged for the bucket's lifecycle. */
#ifndef STORE_UPLOAD_H
#define STORE_UPLOAD_H
#include "store/ckpt_remote.h"

struct upload_settings {
    struct s3_settings where;
    i64                keep; /* remote ones, beside the best; 0: all of them */
    struct web        *web;  /* NULL: libcurl */
    f64 wait_s; /* uploader_wait_end waits so long without a deadline; NaN: twice what is
                                  left should take, and two minutes at least */
};

struct upload_state {
    struct ckpt_id newest;         /* whole in the store; attempt 0: none of this run's is known */
    i64            newest_wall_ns; /* when it was taken; for its age */
    bool           busy;           /* one runs or waits */
    f64            bytes_s;        /* rate of the uploads so far; 0: none is done */
    i64            bytes_left;     /* of the one that runs and the one that waits */
    bool           alone;          /* false: the endpoint cannot exclude a second writer */
    i64            taken_over_by;  /* a later start of this run; > 0: stop, with exit 4 */
    struct err     failed;         /* why the last try failed; OK: it did not */
    struct err     note;           /* what else went wrong after an upload: tagging, deleting */
    struct s3_sums sums;
};

struct uploader;
/* Claims the number of this start (uploader_attempt), which is the attempt of all that is written
 * from now on. The store must outlive the uploader. */
enum status uploader_start(struct os *os, const struct upload_settings *c, struct ckpt_store *store,
                           struct arena *perm, struct uploader **out, struct err *err);
i64         uploader_attempt(const struct uploader *u);
/* Before the first offer: brings the newest remote checkpoint here if it is newer than `have`, the
 * newest whole one in the local store (attempt 0: none); `said` gets sentences on what was passed
 * over. NO: there is none; `have` is uploaded where the store lacks it. */
enum status uploader_restore(struct uploader *u, struct ckpt_id have, struct arena *perm,
                             struct str *said, struct ckpt_id *got, struct err *err);
/* Before the first offer: deletes all that this frugal can read or that is damaged, as ckpt_clear does. */
enum status uploader_clear(struct uploader *u, struct err *err);
/* A checkpoint that ckpt_write has just finished. Never waits. From any one thread. */
void                uploader_offer(struct uploader *u, const struct ckpt_manifest *m);
struct upload_state uploader_state(struct uploader *u);
/* The run must end soon: what is offered no longer waits until a checkpoint is read back for pruning. */
void uploader_hurry(struct uploader *u);
/* The waits below ask `until_ns` again and again; they end when it says so (0: it does not). */
void uploader_listen(struct uploader *u, i64 (*until_ns)(void *context), void *context);
/* Until nothing runs or waits, or the time is over (on the clock of now_ns; 0: no limit): OK, or NO
 * with a sentence that says what is not there. INTERRUPTED: taken over by a later start. */
enum status uploader_wait_until(struct uploader *u, i64 until_ns, struct err *err);
/* The run ends: waits until its deadline (0: none, then for wait_s); where not all can be in time, the one
 * on its way is worth more than the one that waits. `say`, which may be NULL, hears of a wait that is longer
 * than a second. NO: the sentence says what is not there, and the command that uploads it later. */
enum status uploader_wait_end(struct uploader *u, i64                                 deadline_ns,
                              void (*say)(void *context, const char *sentence), void *context,
                              struct err *err);
/* Ends the thread; what runs is cut off. `ended`: the run is done, its checkpoints may go cold. Returns all that was
 * asked of the store. */
struct s3_sums uploader_close(struct uploader *u, bool ended);

#endif
