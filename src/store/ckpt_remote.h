/* ckpt_remote.h - checkpoints in an object store: s3://bucket/prefix or gs://bucket/prefix.
 *
 *     PREFIX/attempts/000003                          start number 3 of the run; made with the
 *                                                     condition that nobody has it yet
 *     PREFIX/step-000001200.3.7/weights.safetensors   shards, under a name no other save has
 *     PREFIX/step-000001200.3.7/manifest.json         last: only what it names is believed
 *
 * docs/formats/checkpoint.md has the layout, docs/decisions/object_store.md the reasons. One remote
 * is used by one thread at a time, except for ckpt_remote_cancel and ckpt_remote_sums. */
#ifndef STORE_CKPT_REMOTE_H
#define STORE_CKPT_REMOTE_H
#include "remote/lifecycle.h"
#include "remote/s3.h"
#include "store/checkpoint.h"

struct ckpt_remote;
/* `where` as for s3_open. USAGE: no such address; WORLD: no libcurl. Sends nothing yet. `web`: NULL
 * for libcurl. */
enum status ckpt_remote_open(struct os *os, struct web *web, const struct s3_settings *where,
                             struct arena *perm, struct ckpt_remote **out, struct err *err);
void        ckpt_remote_close(struct ckpt_remote *r);
void ckpt_remote_cancel(struct ckpt_remote *r); /* what is under way ends soon, with INTERRUPTED */
struct s3_sums ckpt_remote_sums(const struct ckpt_remote *r);
struct str ckpt_remote_address(const struct ckpt_remote *r, struct arena *perm, struct ckpt_id id);

/* Takes the next number of a start, above `least` and every number taken, and gives up what
 * earlier starts have left unfinished. *alone is false where the endpoint ignores conditions, so that two
 * writers cannot be excluded. */
enum status ckpt_remote_claim(struct ckpt_remote *r, i64 least, struct arena scratch, i64 *attempt,
                              bool *alone, struct err *err);
/* The number of a start that came after that attempt; 0: none did. */
enum status ckpt_remote_taken_over(struct ckpt_remote *r, i64 attempt, struct arena scratch,
                                   i64 *by, struct err *err);

/* Those that have a manifest, newest first; `why` of each as in a folder: NO damaged, WORLD could not be
 * read. Folders are s3:// addresses. */
enum status ckpt_remote_list(struct ckpt_remote *r, struct arena *perm, struct arena scratch,
                             struct ckpt_list *out, struct err *err);
/* A local checkpoint to the store, shards first. RESUME: what is there of it is not sent again. */
enum status ckpt_remote_put(struct ckpt_remote *r, struct str folder, const struct ckpt_manifest *m,
                            enum s3_upload_how how, struct arena scratch, struct err *err);
/* What uploads that failed have left of their parts is given up; while none is under way. */
enum status ckpt_remote_give_up(struct ckpt_remote *r, struct arena scratch, struct err *err);
/* A remote one into the local store, verified. NO: it lies in an archive; the sentence says how long
 * it takes and what it costs to bring it back. */
enum status ckpt_remote_fetch(struct ckpt_remote *r, const struct ckpt_manifest *m,
                              struct ckpt_store *to, struct arena scratch, struct err *err);
/* Reads every byte of it and holds that against the manifest. NO: damaged, or in an archive. */
enum status ckpt_remote_verify(struct ckpt_remote *r, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err);
/* Bytes a second that a restore from here would have, by the first few of its largest shard. */
enum status ckpt_remote_rate(struct ckpt_remote *r, const struct ckpt_manifest *m,
                             struct arena scratch, f64 *bytes_s, struct err *err);
/* Can it be read now? As ckpt_remote_fetch. */
enum status ckpt_remote_readable(struct ckpt_remote *r, const struct ckpt_manifest *m,
                                 struct arena scratch, struct err *err);
/* The storage class of its shards; empty: the usual one. */
enum status ckpt_remote_class(struct ckpt_remote *r, const struct ckpt_manifest *m,
                              struct arena *perm, struct str *out, struct err *err);
/* Is it there, as far as a quick look tells? False too where the store does not answer. */
bool ckpt_remote_holds(struct ckpt_remote *r, struct ckpt_id id, struct arena scratch);
/* The newest remote one that is newer than `have` (attempt 0: anything is) and whole; `said` gets a
 * sentence for each that is damaged or in an archive, and what that costs. NO: there is none. WORLD: one
 * could not be read, tried for a moment, so nobody can say whether it is whole; or there is no other than
 * damaged ones and nothing to go on from here. */
enum status ckpt_remote_fetch_newer(struct ckpt_remote *r, struct ckpt_id have,
                                    struct ckpt_store *to, struct arena *perm, struct arena scratch,
                                    struct str *said, struct ckpt_id *got, struct err *err);
/* Asks for an archived one to be readable for so many days. */
enum status ckpt_remote_restore(struct ckpt_remote *r, const struct ckpt_manifest *m, i64 days,
                                struct arena scratch, struct err *err);
/* Tags it frugal=retired, which the bucket's lifecycle acts upon. Google's objects have no tags. */
enum status ckpt_remote_retire(struct ckpt_remote *r, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err);
enum status ckpt_remote_delete(struct ckpt_remote *r, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err); /* manifest first */
/* The same for one whose manifest does not say what it has: what a save names so, of all that is listed there. */
enum status ckpt_remote_delete_listed(struct ckpt_remote *r, struct ckpt_id id,
                                      struct arena scratch, struct err *err);

/* Deletes all of the list but the newest `keep` (at least 1), the best, and what is not believed; nothing
 * before a newer one has been read back: *verified says which was, if any, and is set. What went has `why`
 * afterwards. NO: no newer one is whole, and nothing was deleted. */
enum status ckpt_remote_prune(struct ckpt_remote *r, struct ckpt_list *l, i64 keep,
                              struct ckpt_id *verified, struct arena scratch, struct err *err);
/* The same, but it stops reading back once *urgent (NULL: never) is true: INTERRUPTED, and nothing was deleted. */
enum status ckpt_remote_prune_unless(struct ckpt_remote *r, struct ckpt_list *l, i64 keep,
                                     struct ckpt_id *verified, const atomic_bool *urgent,
                                     struct arena scratch, struct err *err);

/* Puts our rules for this prefix (c->prefix is filled in) among the bucket's; *others: how many it has
 * besides. USAGE: the store has no tags to go by. */
enum status ckpt_remote_lifecycle(struct ckpt_remote *r, struct lifecycle *c, struct arena scratch,
                                  i64 *others, struct err *err);

/* What it takes to read an object of that class again: table of ckpt_remote.c, for tests. False: it can
 * be read at once. */
bool ckpt_remote_archive(struct str storage_class, f64 *hours, f64 *usd_gb);

#endif
