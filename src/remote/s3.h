/* s3.h - an object store through the S3 API: AWS, MinIO, R2, and Google's XML API under gs://.
 *
 * Every call retries what may pass (503, a torn line, a clock that is wrong, credentials that have
 * expired, a bucket in another region) with growing, jittered waits until its time is over; an answer
 * that means no is STATUS_NO. Sentences name the object and the store's own word for what is wrong,
 * never a secret. Many threads may call at once. */
#ifndef REMOTE_S3_H
#define REMOTE_S3_H
#include "remote/credentials.h"

struct s3_settings {
    struct str to;       /* s3://bucket/prefix or gs://bucket/prefix */
    struct str endpoint; /* https://HOST[:PORT]; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
                                 profile's endpoint_url (gs://: STORAGE_EMULATOR_HOST), the cloud's own */
    struct str region;   /* empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1 */
    struct str style;    /* auto (or empty) | path | host: where the bucket's name stands */
    struct str storage_class;    /* of what s3_upload sends; empty: the bucket's */
    bool       ask_aws, ask_gcp; /* as in credentials.h */
    i64        limit_ns;         /* of one call with all its tries; 0: a minute */
    i64        part_bytes; /* of a multipart upload; 0: 8 MiB, or what the file's size asks for */
};

struct s3; /* opaque, lives in perm */
/* USAGE: `to` is no address of an object store, or another setting is wrong. Sends nothing. */
enum status s3_open(struct os *os, struct web *web, const struct s3_settings *c, struct arena *perm,
                    struct s3 **out, struct err *err);
void        s3_cancel(struct s3 *s);       /* whatever is under way ends soon, with INTERRUPTED */
struct str  s3_prefix(const struct s3 *s); /* of `to`: "" or "runs/7/" */
struct str s3_address(const struct s3 *s, struct arena *perm, struct str key); /* s3://bucket/key */
bool       s3_is_google(const struct s3 *s);

/* What was asked of it so far. */
struct s3_sums {
    i64 puts;                /* PUT, POST, LIST: the dearer kind of request */
    i64 gets;                /* GET, HEAD */
    i64 bytes_out, bytes_in; /* bodies: sent, received */
};
struct s3_sums s3_sums(const struct s3 *s);

/* Keys are those of the bucket: they begin with s3_prefix where that is meant. */
enum status s3_put(struct s3 *s, struct str key, struct str bytes, struct arena scratch,
                   struct err *err);
/* NO: there is one already. One that holds the very bytes, after a try that nobody answered, is ours. */
enum status s3_put_new(struct s3 *s, struct str key, struct str bytes, struct arena scratch,
                       struct err *err);
enum { S3_GET_BYTES_MAX = 1 << 22 }; /* of s3_get; what is larger is read by range */
enum status s3_get(struct s3 *s, struct str key, struct arena *perm, struct str *bytes,
                   struct err *err); /* NO: absent */
enum status s3_get_range(struct s3 *s, struct str key, i64 from, i64 count, struct arena *perm,
                         struct str *bytes, struct err *err); /* all of them; NO: absent */
/* The same of the object with that ETag (empty: of any), until `stop`, which may be NULL, says so. */
enum status s3_get_version(struct s3 *s, struct str key, struct str etag, i64 from, i64 count,
                           const atomic_bool *stop, struct arena *perm, struct str *bytes,
                           struct err *err);

struct s3_object {
    struct str key;
    i64        bytes;
    i64        modified_s;    /* since 1970, in lists; 0: not told */
    struct str etag;          /* of s3_head, with its quotes; empty: not told */
    struct str storage_class; /* empty: STANDARD */
    bool       archived;      /* must be restored before it can be read */
    bool       restoring;     /* that is under way */
};
enum status s3_head(struct s3 *s, struct str key, struct arena *perm, struct s3_object *out,
                    struct err *err); /* NO: absent */

struct s3_list {
    struct s3_object *objects;
    i64               count;
};
/* By key. With a delimiter, what lies in "folders" is told by the folder only, its key ends so. */
enum status s3_list(struct s3 *s, struct str prefix, struct str delimiter, struct arena *perm,
                    struct arena scratch, struct s3_list *out, struct err *err);
enum status s3_delete(struct s3 *s, struct str key, struct arena scratch, struct err *err);
enum status s3_tag(struct s3 *s, struct str key, struct str name, struct str value,
                   struct arena scratch, struct err *err);

/* The bucket's lifecycle, as XML; empty where it has none. */
enum status s3_lifecycle_get(struct s3 *s, struct arena *perm, struct str *xml, struct err *err);
enum status s3_lifecycle_put(struct s3 *s, struct str xml, struct arena scratch, struct err *err);
/* Asks for an archived object to be readable for so many days. */
enum status s3_restore(struct s3 *s, struct str key, i64 days, struct arena scratch,
                       struct err *err);

/* Files. RESUME looks for parts that an earlier try has left and sends the others only; FRESH leaves
 * none behind when it is refused. */
enum s3_upload_how { S3_FRESH, S3_RESUME };
enum status s3_upload(struct s3 *s, struct str path, struct str key, enum s3_upload_how how,
                      struct err *err);
enum status s3_download(struct s3 *s, struct str key, i64 bytes, struct str path, struct err *err);
/* Gives up every unfinished multipart upload below the prefix; how many. */
enum status s3_abort_uploads(struct s3 *s, struct str prefix, struct arena scratch, i64 *count,
                             struct err *err);

#endif
