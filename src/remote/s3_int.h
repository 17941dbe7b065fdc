/* s3_int.h - between s3.c (where it lies), s3_send.c (a request and its tries), s3_calls.c (the
 * operations) and s3_parts.c (files in parts). */
#ifndef REMOTE_S3_INT_H
#define REMOTE_S3_INT_H
#include "remote/s3.h"
#include <pthread.h>

enum { S3_QUERY_MAX = 6, S3_HEADERS_MAX = 16, S3_REGION_MAX = 64 };

struct s3 {
    struct os               *os;
    struct web              *web;
    struct credential_chain *chain;
    enum sigv4_kind          kind;
    bool            https, in_path; /* the bucket's name stands in the path, not the host */
    bool            own_endpoint;   /* said by the user: no region changes it */
    struct str      host;           /* with its port; of an own endpoint */
    struct str      base;           /* what its address has behind the host */
    struct str      bucket, prefix, storage_class;
    i64             limit_ns, part_bytes;
    u64             seed; /* of the jitter */
    pthread_mutex_t lock; /* of the region */
    char            region[S3_REGION_MAX];
    atomic_bool     cancel;
    atomic_bool     answered; /* the store has, once */
    atomic_llong    skew_s;   /* the store's clock minus ours */
    atomic_llong    puts, gets, bytes_out, bytes_in, waits;
};

/* A request in the words of the API; s3_send finds those of the kind of store. */
struct s3_call {
    const char        *method;
    struct str         key; /* empty: the bucket itself */
    struct pair        query[S3_QUERY_MAX];
    i64                query_count;
    struct str         body;
    struct str         range;    /* "bytes=0-9" */
    struct str         if_etag;  /* only of the object that has it */
    const atomic_bool *stop;     /* of this call alone; may be NULL */
    bool               checksum; /* the body's CRC-32C goes with it */
    bool checksum_of_each;       /* a multipart upload begins whose parts will carry theirs */
    bool if_absent;
    bool with_class;   /* the object is made with our storage class */
    bool error_in_200; /* the body may hold an error though the status says 200 */
    i64  reply_bytes_max;
};

struct s3_answer {
    i32              status;
    struct str       code, message; /* the store's, of an error: "NoSuchKey" */
    struct web_reply reply;
    bool             unanswered; /* an earlier try of this call may have been heard */
};

/* OK: a final answer came, good or bad. Else no answer within the time, or cancelled. */
enum status s3_send(struct s3 *s, const struct s3_call *c, struct arena *perm, struct s3_answer *a,
                    struct err *err);
/* The same, where an answer that is not good is a sentence. */
enum status s3_send_well(struct s3 *s, const struct s3_call *c, struct arena *perm,
                         struct s3_answer *a, struct err *err);
bool        s3_good(const struct s3_answer *a); /* 2xx without an error */
/* The sentence for an answer that is not good. */
enum status s3_refused(struct s3 *s, const struct s3_call *c, const struct s3_answer *a,
                       struct err *err);
struct str  s3_crc_text(struct arena *perm, u32 crc); /* as headers have it */

#endif
