/* checkpoint.h - a run's state on a disk, where a kill, a full disk or a power cut cannot spoil it.
 *
 * A checkpoint is a folder of safetensors shards and a manifest, written last, that has the size and
 * hash of each: docs/formats/checkpoint.md. Only what a whole manifest names is believed.
 *
 *     the trainer   ckpt_store_open (takes the folder's lock), ckpt_write, ckpt_prune; on any one
 *                   thread at a time, usually not that of the steps
 *     an uploader   beside it, on its own thread: ckpt_pin, then reads the files that the manifest
 *                   names, ckpt_unpin
 *     a restart     ckpt_list, ckpt_load_newest; a remote one is brought here first with
 *                   ckpt_import_begin and ckpt_import_commit */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H
#include "store/st_parts.h"
#include <stdatomic.h>

/* The name of a checkpoint, local and remote: folder "step-000001200.3.7". A step may be saved
 * again after a roll-back or a restart, a name is never used twice. The newest is the one saved last:
 * the highest attempt, and in it the highest save. */
struct ckpt_id {
    i64 step;    /* done when it was taken */
    i64 attempt; /* which start of the run: counts from 1 */
    i64 save;    /* which of that attempt's: counts from 1 */
};
/* The largest of the three, and of a file's bytes: sums and products of a few of them are still numbers. */
#define CKPT_NUMBER_MAX ((i64)1 << 50)
int        ckpt_order(struct ckpt_id a, struct ckpt_id b); /* < 0: a is older */
struct str ckpt_name(struct arena *perm, struct ckpt_id id);
bool       ckpt_name_parse(struct str name, struct ckpt_id *out);

#define CKPT_MANIFEST "manifest.json" /* its name in the folder */

struct ckpt_shard {
    struct str name; /* "weights.safetensors" */
    i64        bytes;
    u64        hash; /* XXH64 of the file */
};

struct ckpt_manifest {
    struct ckpt_id id;
    struct str     run;     /* the same for all attempts of one run */
    i64            wall_ns; /* when it was written */
    struct str     metric;  /* of the newest evaluation before it; empty: none was made yet */
    f64            value;
    bool           higher_is_better;
    struct str     state; /* the trainer's own: a JSON object; kernels, threads, micro-batch, … */
    struct ckpt_shard *shards;
    i64                shard_count;
};
i64        ckpt_bytes(const struct ckpt_manifest *m); /* of all shards */
struct str ckpt_manifest_text(struct arena *perm, const struct ckpt_manifest *m);
/* `path` is for messages. USAGE: of a version that this program does not know; NO: damaged. */
enum status ckpt_manifest_parse(struct str path, struct str text, struct arena *perm,
                                struct ckpt_manifest *out, struct err *err);

/* A folder of checkpoints, held alone. */
struct ckpt_store;
/* Makes the folder; what an earlier process left half-written or half-deleted is removed. WORLD with
 * a sentence where another process holds it. */
enum status ckpt_store_open(struct os *os, struct str folder, struct arena *perm,
                            struct ckpt_store **out, struct err *err);
void        ckpt_store_close(struct ckpt_store *s);
i64         ckpt_attempt_last(const struct ckpt_store *s); /* the highest in the folder; 0: none */
struct str  ckpt_store_folder(const struct ckpt_store *s);
struct os  *ckpt_store_os(const struct ckpt_store *s); /* for writing there: it follows no links */
struct str  ckpt_store_path(const struct ckpt_store *s, struct arena *perm, struct ckpt_id id);

/* An empty folder beside `dir` for the checkpoints of a measurement, DIR.PID.part, after what killed processes have
 * left under such names was removed. WORLD: something of that name is there and is not ours to delete. */
enum status ckpt_aside_make(struct os *os, struct str dir, struct arena *perm, struct str *folder,
                            struct err *err);
/* The folder with its checkpoints. No link is followed, and a folder that holds other files stays, with them. */
void ckpt_aside_remove(struct os *os, struct str folder, struct arena scratch);

/* One file of a checkpoint, NAME.safetensors; tensors as for st_save, their bytes read but once. */
struct ckpt_part {
    struct str              name;
    const struct st_tensor *tensors;
    i64                     count;
    struct str whole; /* the file as st_lay_out made it, and the disk can take it from where it lies
                         if that begins a page; empty: it is put together from the tensors */
};
/* On the disk, synced and named, when it returns OK; else as if it had not been begun. INTERRUPTED: the lock
 * was deleted, and another process has written there since. The caller
 * fills step, attempt, run, metric and state of *m; the rest is filled here, shards in perm. Takes
 * memory for the headers of the shards only. */
enum status ckpt_write(struct ckpt_store *s, struct ckpt_manifest *m, const struct ckpt_part *parts,
                       i64 count, struct arena *perm, struct arena scratch, struct err *err);

/* The same in steps, where others write parts of it too: begin gives it its name; then each writes its own, the others
 * under that name to the folder of the store, on a disk that all of them see; commit, when the files of all are
 * written and m->shards has them, makes them a checkpoint. What fails is dropped once nobody writes any more. */
enum status ckpt_begin(struct ckpt_store *s, struct ckpt_manifest *m, struct arena scratch,
                       struct err *err);
enum status ckpt_write_own(struct ckpt_store *s, struct ckpt_manifest *m,
                           const struct ckpt_part *parts, i64 count, struct arena *perm,
                           struct arena scratch, struct err *err);
enum status ckpt_write_beside(struct os *os, struct str folder, struct ckpt_id id,
                              const struct ckpt_part *parts, i64 count, struct ckpt_shard *shards,
                              struct arena *perm, struct arena scratch, struct err *err);
enum status ckpt_commit(struct ckpt_store *s, const struct ckpt_manifest *m, struct arena scratch,
                        struct err *err);
void        ckpt_drop(struct ckpt_store *s, const struct ckpt_manifest *m, struct arena scratch);

/* A remote checkpoint, under its own name: begin gives the folder into which the caller
 * puts the shards; commit verifies and syncs them and writes the manifest; ckpt_drop gives it up. STATUS_NO from
 * begin: a whole one is here already. */
enum status ckpt_import_begin(struct ckpt_store *s, const struct ckpt_manifest *m,
                              struct arena *perm, struct str *folder, struct err *err);
enum status ckpt_import_commit(struct ckpt_store *s, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err);

/* Deletes all but the newest `keep` (at least 1), the best by its metric, the pinned, and what is damaged or
 * cannot be read or understood just now; nothing before a newer one has been read back and verified. */
enum status ckpt_prune(struct ckpt_store *s, i64 keep, struct arena scratch, struct err *err);
/* The same, but it stops reading back once *urgent (NULL: never) is true, and deletes nothing then. */
enum status ckpt_prune_unless(struct ckpt_store *s, i64 keep, const atomic_bool *urgent,
                              struct arena scratch, struct err *err);
/* The disk is full: deletes the oldest, though `keep` would have kept it; the best only where there is no
 * other. NO: none can go, for no newer one is whole. */
enum status ckpt_free_oldest(struct ckpt_store *s, struct arena scratch, struct ckpt_id *went,
                             struct err *err);
/* Deletes all that this frugal can read or that is damaged, the newest last: a run begins anew. What
 * cannot be read just now stays: the run's own will be newer. */
enum status ckpt_clear(struct ckpt_store *s, struct arena scratch, struct err *err);
/* From any thread: until unpinned as often as pinned, that one is not deleted. At most 16 at once. */
void ckpt_pin(struct ckpt_store *s, struct ckpt_id id);
void ckpt_unpin(struct ckpt_store *s, struct ckpt_id id);

/* One that lies there. Listing needs no lock: a folder without a manifest does not exist. */
struct ckpt {
    struct ckpt_id       id;
    struct str           folder;   /* its own */
    struct ckpt_manifest manifest; /* where why.status is OK */
    struct err           why;      /* not OK: why it is not believed. NO: damaged, read whole and
                                      wrong twice, or a shard is missing; USAGE: of an unknown
                                      version; WORLD: it could not be read */
};
struct ckpt_list {
    struct ckpt *items; /* newest first */
    i64          count;
};
enum status ckpt_list(struct os *os, struct str folder, struct arena *perm, struct ckpt_list *out,
                      struct err *err); /* no such folder: an empty list */
/* Which of them stay where `keep` are kept: the newest believed, the best, and what is not believed. */
void ckpt_mark_kept(const struct ckpt_list *l, i64 keep, bool *kept);
i64  ckpt_best(const struct ckpt_list *l); /* of those believed; -1: none has a metric */

/* Reads every byte and holds it against the manifest. Not OK: as `why` above. */
enum status ckpt_verify(struct os *os, const struct ckpt *c, struct arena scratch, struct err *err);

/* Into another folder, under the same name; NO: a whole one is there already. */
enum status ckpt_copy(struct os *os, const struct ckpt *c, struct ckpt_store *to,
                      struct arena scratch, struct err *err);

/* Its shards, verified, then mapped. */
struct ckpt_loaded {
    const struct ckpt *ckpt;
    struct st_file    *shards; /* as in the manifest */
};
enum status ckpt_load(struct os *os, const struct ckpt *c, struct arena *perm,
                      struct ckpt_loaded *out, struct err *err);
/* The newest that is whole, read to its last byte; `why` is filled in for each that is damaged and
 * newer. NO: there is none, or all are damaged. WORLD, USAGE: one could not be read, tried for a moment,
 * or is of an unknown version; the older ones are then not looked at, for it may be the better one. */
enum status ckpt_newest(struct os *os, struct ckpt_list *l, struct arena *perm, struct ckpt **out,
                        struct err *err);
/* The same, mapped. */
enum status ckpt_load_newest(struct os *os, struct ckpt_list *l, struct arena *perm,
                             struct ckpt_loaded *out, struct err *err);
void        ckpt_unload(struct os *os, struct ckpt_loaded *l);
/* The file of that part of ckpt_write; NULL: it has none. */
const struct st_file *ckpt_shard(const struct ckpt_loaded *l, struct str part);
/* Its tensors, from all files that several writers have written of it. USAGE: "it has no …". */
enum status ckpt_joined(const struct ckpt_loaded *l, struct str part, struct arena *perm,
                        struct st_parts *out, struct err *err);

#endif
