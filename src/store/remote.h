/* remote.h - checkpoints in an object store: s3://bucket/prefix or gs://bucket/prefix.
 *
 *     PREFIX/attempts/000003                          start number 3 of the run; made with the
 *                                                     condition that nobody has it yet
 *     PREFIX/step-000001200.3.7/weights.safetensors   shards, under a name no other save has
 *     PREFIX/step-000001200.3.7/manifest.json         last: only what it names is believed
 *
 * docs/formats/checkpoint.md has the layout, docs/decisions/object_store.md the reasons. One remote
 * is used by one thread at a time. (Being written: until this line goes, nothing is behind it.) */
#ifndef STORE_REMOTE_H
#define STORE_REMOTE_H
#include "store/checkpoint.h"

struct remote_settings {
    struct str to; /* s3://bucket/prefix or gs://bucket/prefix */
    struct str
        endpoint;      /* https://HOST[:PORT]; empty: AWS_ENDPOINT_URL_S3 and so on, the cloud's */
    struct str region; /* empty: AWS_REGION and so on; the bucket's own answer corrects it */
    struct str style;  /* auto | path | host: where the bucket's name stands */
    struct str storage_class; /* of shards; empty: the bucket's */
    bool       ask_aws;       /* the metadata service of that cloud may be asked for credentials: */
    bool       ask_gcp;       /* this machine is one of its own, or the user says so */
};

struct remote;
/* USAGE: no such address; WORLD: no libcurl, or no credentials. Sends nothing to the store yet. */
enum status remote_open(struct os *os, const struct remote_settings *c, struct arena *perm,
                        struct remote **out, struct err *err);
void        remote_close(struct remote *r);

/* Takes the next number of a start, above `least` and every number taken. *alone is false where the
 * endpoint ignores conditions, so that two writers cannot be excluded. */
enum status remote_claim(struct remote *r, i64 least, struct arena scratch, i64 *attempt,
                         bool *alone, struct err *err);

/* Those that have a manifest, newest first; one that cannot be read has `why`, and folder is its
 * s3:// address. */
enum status remote_list(struct remote *r, struct arena *perm, struct ckpt_list *out,
                        struct err *err);
/* A local one to the store, shards first. What was there of it before is not sent again. */
enum status remote_put(struct remote *r, struct str folder, const struct ckpt_manifest *m,
                       struct arena scratch, struct err *err);
/* A remote one into the local store, verified. NO: it lies in an archive; the sentence says how long
 * and what it costs to bring it back. */
enum status remote_fetch(struct remote *r, const struct ckpt *c, struct ckpt_store *to,
                         struct arena scratch, struct err *err);
/* The newest remote one, if it is newer than all in the list of local ones, or the newest of those
 * that can be read; `said` gets a sentence for each passed over. NO: nothing newer than here. */
enum status remote_fetch_newer(struct remote *r, const struct ckpt_list *local,
                               struct ckpt_store *to, struct arena *perm, struct str *said,
                               struct ckpt_id *got, struct err *err);
enum status remote_delete(struct remote *r, const struct ckpt *c, struct arena scratch,
                          struct err *err); /* manifest first */

#endif
