/* upload.h - carries local checkpoints to the object store in the background.
 *
 * At most one upload runs and one waits; a newer checkpoint replaces the waiting one. What is offered
 * stays pinned in the local store until it is there or replaced. An upload that fails is tried again
 * as long as nothing newer waits. (Being written: until this line goes, nothing is behind it.) */
#ifndef STORE_UPLOAD_H
#define STORE_UPLOAD_H
#include "store/remote.h"

struct upload_settings {
    struct remote_settings remote;
    i64                    keep; /* remote ones beside the best; 0: all of them */
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
};

struct uploader;
/* Claims the number of this start (uploader_attempt), which is the attempt of all that is written
 * from now on. The store must outlive the uploader. */
enum status uploader_start(struct os *os, const struct upload_settings *c, struct ckpt_store *store,
                           struct arena *perm, struct uploader **out, struct err *err);
i64         uploader_attempt(const struct uploader *u);
/* Before the first offer: brings the newest remote checkpoint here where it is newer than all local
 * ones; `said` gets sentences on what was passed over. NO: there is nothing newer than here. */
enum status uploader_restore(struct uploader *u, const struct ckpt_list *local, struct arena *perm,
                             struct str *said, struct ckpt_id *got, struct err *err);
/* A checkpoint that ckpt_write has just finished. Never waits. */
void                uploader_offer(struct uploader *u, const struct ckpt_manifest *m);
struct upload_state uploader_state(struct uploader *u);
/* Until nothing runs or waits, or the time is over (on the clock of now_ns): OK, or NO with a
 * sentence that says what is lost. INTERRUPTED: taken over by a later start. */
enum status uploader_wait_until(struct uploader *u, i64 until_ns, struct err *err);
/* Drops the waiting one: what runs is the last that can be in time. */
void uploader_drop_waiting(struct uploader *u);
/* Ends the thread; what runs is cut off. `ended`: the run is done, its checkpoints may go cold. */
void uploader_close(struct uploader *u, bool ended);

#endif
