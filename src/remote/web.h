/* web.h - requests over HTTP and HTTPS: the one door of this room to the net.
 *
 * Behind it stands libcurl, loaded when the first remote is opened. A test puts its own `send` there
 * and is the object store, the token service and the torn line. Many threads may send at once. */
#ifndef REMOTE_WEB_H
#define REMOTE_WEB_H
#include "base/os.h"
#include "remote/sigv4.h"
#include <stdatomic.h>

struct web_request {
    struct str         method, url; /* encoded */
    const struct pair *headers;
    i64                header_count;
    struct str         body;
    i64                reply_bytes_max;  /* a longer body is an error */
    i64                connect_limit_ns; /* 0: the usual ten seconds */
    i64                limit_ns;         /* for all of it; 0: as long as bytes flow */
    bool               direct;           /* never through a proxy: a metadata service */
    const atomic_bool *cancel;           /* true: give up now; may be NULL */
};

struct web_reply {
    i32          status; /* 200 */
    struct pair *headers;
    i64          header_count;
    struct str   body;
    bool         unresolved; /* nothing was sent: the host has no address */
};
struct str web_header(const struct web_reply *r, struct str name); /* data NULL: none such */

enum { WEB_HEADERS_MAX = 64 };

struct web {
    void *context;
    /* WORLD: no whole answer came; whether the request was heard is not known. NO: it was not sent, and
     * trying again is no use: the server's certificate cannot be verified, or the address is none. */
    enum status (*send)(struct web *, const struct web_request *, struct arena *perm,
                        struct web_reply *, struct err *);
};

/* WORLD with a sentence where libcurl is missing, from the build or from the machine. */
enum status web_open(struct os *os, struct arena *perm, struct web **out, struct err *err);
void        web_close(struct web *w); /* only what web_open gave */

#endif
