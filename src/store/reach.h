/* reach.h - the way to files elsewhere (base/far.h): over HTTP and HTTPS, and in object stores.
 *
 * Nothing is loaded or asked before the first call. HTTP is asked by the same rules as an object store
 * (retry.h): what may pass is tried again for a minute, redirections are followed, and a server that
 * cannot answer with a range is told from one that can. Data are read only. */
#ifndef STORE_REACH_H
#define STORE_REACH_H
#include "base/far.h"
#include "store/s3.h"

/* Of `how` endpoint, region, style, limit_ns, ask_aws and ask_gcp are read. `web`: NULL for libcurl. */
struct far *reach_open(struct os *os, struct web *web, const struct s3_settings *how,
                       struct arena *perm);
void        reach_close(struct far *f); /* NULL: nothing to close */

struct reach_sums {
    i64 requests, bytes; /* tries, and what came with them */
};
struct reach_sums reach_sums(const struct far *f);

#endif
