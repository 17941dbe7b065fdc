/* files.h - remote files, read a range at a time: over HTTP and HTTPS, and from object stores.
 *
 * Nothing is loaded or asked before the first call. HTTP is asked by the same rules as an object store
 * (retry.h): what may pass is tried again for a minute, redirections are followed, and a server that
 * does not answer with ranges is recognised. Read only. Any thread may call. */
#ifndef REMOTE_FILES_H
#define REMOTE_FILES_H
#include "remote/s3.h"

enum { REMOTE_TAG_MAX = 63 };

struct remote_file {
    i64  bytes;
    char tag[REMOTE_TAG_MAX + 1]; /* of this version: its ETag or time, or a hash of a long one; ""
                                     where the server gives neither */
};

struct remote_files; /* opaque, lives in perm */
/* Of `how` endpoint, region, style, limit_ns, ask_aws and ask_gcp are read. `web`: NULL for libcurl. */
struct remote_files *remote_files_open(struct os *os, struct web *web,
                                       const struct s3_settings *how, struct arena *perm);
void                 remote_files_close(struct remote_files *r); /* NULL: nothing to close */

/* NO: there is no such file. `stop`, here and below, may be NULL: give up now, with INTERRUPTED. */
enum status remote_file_stat(struct remote_files *r, struct str url, const atomic_bool *stop,
                             struct remote_file *out, struct err *err);
/* All of the range, of that version and no other, or an error after as many tries as retry.h allows. */
enum status remote_file_read(struct remote_files *r, struct str url,
                             const struct remote_file *version, i64 from, i64 count, void *to,
                             const atomic_bool *stop, struct err *err);

struct remote_files_sums {
    i64 requests, bytes; /* tries, and what came with them */
};
struct s3_sums
remote_files_stores(struct remote_files *r); /* of object stores alone, which charge for it */
struct remote_files_sums remote_files_sums(const struct remote_files *r);

#endif
