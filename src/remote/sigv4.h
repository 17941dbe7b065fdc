/* sigv4.h - signatures of requests, version 4, as AWS and (under other names) Google want them.
 *
 * Pure functions, so that the published examples can be tests. libcurl can sign too, but the one
 * that Debian 12 has signs the query wrongly: docs/decisions/object_store.md. */
#ifndef REMOTE_SIGV4_H
#define REMOTE_SIGV4_H
#include "base/text.h"

struct pair {
    struct str name, value;
};

/* Whose words the signature uses: AWS4-HMAC-SHA256 and x-amz-…, or GOOG4-HMAC-SHA256 and x-goog-…. */
enum sigv4_kind { SIGV4_AWS, SIGV4_GOOGLE };

struct sigv4_signer {
    enum sigv4_kind kind;
    struct str      key_id, secret;
    struct str      region, service; /* "us-east-1", "s3" */
};

struct sigv4_request {
    struct str         method;
    struct str         path;  /* encoded, as it is sent: "/folder/a%3Db" */
    const struct pair *query; /* not encoded, in any order */
    i64                query_count;
    const struct pair *headers; /* those to sign, in any order; `host` and the date among them */
    i64                header_count;
    struct str         payload_hash; /* SHA-256 of the body in hex, or UNSIGNED-PAYLOAD */
    i64                unix_s;
};

/* Each step of the algorithm, all in perm. */
struct str sigv4_canonical(struct arena *perm, const struct sigv4_request *r);
struct str sigv4_to_sign(struct arena *perm, const struct sigv4_signer *s,
                         const struct sigv4_request *r);
struct str sigv4_authorization(struct arena *perm, const struct sigv4_signer *s,
                               const struct sigv4_request *r); /* the header's value */

struct str sigv4_time(struct arena *perm, i64 unix_s); /* "20130524T000000Z" */
/* Percent-encoding of RFC 3986; a slash stays one where it separates folders. */
struct str sigv4_encode(struct arena *perm, struct str text);
struct str sigv4_encode_path(struct arena *perm, struct str text);
struct str sigv4_query(struct arena *perm, const struct pair *query,
                       i64 count); /* sorted, encoded */

#endif
