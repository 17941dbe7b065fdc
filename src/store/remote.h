/* remote.h - checkpoints in an object store: s3://bucket/prefix or gs://bucket/prefix.
 *
 *     PREFIX/attempts/000003                          start number 3 of the run; made with the
 *                                                     condition that nobody has it yet
 *     PREFIX/step-000001200.3.7/weights.safetensors   shards, under a name no other save has
 *     PREFIX/step-000001200.3.7/manifest.json         last: only what it names is believed
 *
 * docs/formats/checkpoint.md has the layout, docs/decisions/object_store.md the reasons. One remote
 * is used by one thread at a time, except for remote_cancel and remote_sums. */
#ifndef STORE_REMOTE_H
#define STORE_REMOTE_H
#include "store/checkpoint.h"
#include "store/lifecycle.h"
#include "store/s3.h"

struct remote;
/* `where` as for s3_open. USAGE: no such address; WORLD: no libcurl. Sends nothing yet. `web`: NULL
 * for libcurl. */
enum status    remote_open(struct os *os, struct web *web, const struct s3_settings *where,
                           struct arena *perm, struct remote **out, struct err *err);
void           remote_close(struct remote *r);
void           remote_cancel(struct remote *r); /* what is under way ends soon, with INTERRUPTED */
struct s3_sums remote_sums(const struct remote *r);
struct str     remote_address(const struct remote *r, struct arena *perm, struct ckpt_id id);

/* Takes the next number of a start, above `least` and every number taken, and gives up what
 * earlier starts have left unfinished. *alone is false where the endpoint ignores conditions, so that two
 * writers cannot be excluded. */
enum status remote_claim(struct remote *r, i64 least, struct arena scratch, i64 *attempt,
                         bool *alone, struct err *err);
/* The number of a start that came after that attempt; 0: none did. */
enum status remote_taken_over(struct remote *r, i64 attempt, struct arena scratch, i64 *by,
                              struct err *err);

/* Those that have a manifest, newest first; one that cannot be read has `why`. Folders are s3://
 * addresses. */
enum status remote_list(struct remote *r, struct arena *perm, struct arena scratch,
                        struct ckpt_list *out, struct err *err);
/* A local checkpoint to the store, shards first. RESUME: what is there of it is not sent again. */
enum status remote_put(struct remote *r, struct str folder, const struct ckpt_manifest *m,
                       enum s3_upload_how how, struct arena scratch, struct err *err);
/* What uploads that failed have left of their parts is given up; while none is under way. */
enum status remote_give_up(struct remote *r, struct arena scratch, struct err *err);
/* A remote one into the local store, verified. NO: it lies in an archive; the sentence says how long
 * it takes and what it costs to bring it back. */
enum status remote_fetch(struct remote *r, const struct ckpt_manifest *m, struct ckpt_store *to,
                         struct arena scratch, struct err *err);
/* Reads every byte of it and holds that against the manifest. NO: damaged, or in an archive. */
enum status remote_verify(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                          struct err *err);
/* Bytes a second that a restore from here would have, by the first few of its largest shard. */
enum status remote_rate(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                        f64 *bytes_s, struct err *err);
/* Can it be read now? As remote_fetch. */
enum status remote_readable(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                            struct err *err);
/* The storage class of its shards; empty: the usual one. */
enum status remote_class(struct remote *r, const struct ckpt_manifest *m, struct arena *perm,
                         struct str *out, struct err *err);
/* The newest remote one that is newer than `have` (attempt 0: anything is) and can be read; `said`
 * gets a sentence for each passed over. NO: there is none. */
enum status remote_fetch_newer(struct remote *r, struct ckpt_id have, struct ckpt_store *to,
                               struct arena *perm, struct arena scratch, struct str *said,
                               struct ckpt_id *got, struct err *err);
/* Asks for an archived one to be readable for so many days. */
enum status remote_restore(struct remote *r, const struct ckpt_manifest *m, i64 days,
                           struct arena scratch, struct err *err);
/* Tags it frugal=retired, which the bucket's lifecycle acts upon. Google's objects have no tags. */
enum status remote_retire(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                          struct err *err);
enum status remote_delete(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                          struct err *err); /* manifest first */

/* Puts our rules for this prefix (c->prefix is filled in) among the bucket's; *others: how many it has
 * besides. USAGE: the store has no tags to go by. */
enum status remote_lifecycle(struct remote *r, struct lifecycle *c, struct arena scratch,
                             i64 *others, struct err *err);

/* What it takes to read an object of that class again: table of remote.c, for tests. False: it can
 * be read at once. */
bool remote_archive(struct str storage_class, f64 *hours, f64 *usd_gb);

#endif
