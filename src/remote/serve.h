/* serve.h - a small HTTP server for people and programs on this machine: libmicrohttpd behind a door.
 *
 * `frugal watch` serves its page with it, and log.prometheus its figures. One thread answers everybody, so a handler
 * should be quick and needs no locks; streams (server-sent events) are asked again several times a second. What takes
 * longer is put off to a second thread, a piece of work at a time (struct serve_later).
 *
 * What any handler may rely on: the request came to this machine's loopback address, or brought the token; its Host is
 * ours (no DNS rebinding) and so is its Origin (no request on behalf of another site); its method is GET or HEAD, or it
 * brought the token and POSTs to the one path that may change something; its head has at most SERVE_HEAD_BYTES. Who
 * connects and does not ask within a few seconds is dropped, and where all places are taken, the one that has waited
 * longest.
 *
 * Built without libmicrohttpd, serve_open says so. */
#ifndef REMOTE_SERVE_H
#define REMOTE_SERVE_H
#include "base/os.h"

enum {
    SERVE_HEAD_BYTES      = 16 << 10,
    SERVE_CONNECTIONS_MAX = 256,
    SERVE_STREAMS_MAX     = 128,
    SERVE_LATER_MAX       = 16
};

struct serve_request {
    struct str path;    /* "/api/runs"; percent codes are decoded */
    bool       trusted; /* it brought the token */
    bool       writes;  /* a POST, to the path that may be written to; it is trusted */
    void      *connection;
};
/* The value behind ?name=; data NULL: there is none. */
struct str serve_argument(const struct serve_request *q, const char *name);
/* All of them as NAME=VALUE, at most `most`. */
i64 serve_arguments(const struct serve_request *q, struct arena *perm, struct str *out, i64 most);

/* Bytes that come in time. */
struct serve_stream {
    void *context;
    i64 (*read)(void *context, char *to, i64 bytes_max); /* 0: nothing now; -1: the end */
    void (*close)(void *context); /* the reader is gone, or the server stops */
};

/* A body that takes long to make: others are served meanwhile. */
struct serve_later {
    void *context;
    /* On the second thread, a piece of work at a time; perm is emptied after each. */
    struct str (*work)(void *context, struct arena *perm);
    void (*close)(
        void *context); /* on the server's thread: it was sent, or nobody waits for it any more */
};

struct serve_answer {
    i32                 code;      /* 200 */
    const char         *type;      /* "text/html; charset=utf-8" */
    struct str          body;      /* copied */
    const char         *header[2]; /* one more, name and value; NULL: none */
    struct serve_stream stream;    /* in the place of the body; read NULL: none */
    struct serve_later  later;     /* likewise; work NULL: none */
};

/* Answers are put together in perm, which is emptied after each. */
typedef void serve_handler(void *context, const struct serve_request *q, struct arena *perm,
                           struct serve_answer *out);

struct serve_config {
    struct str listen; /* address; empty: 127.0.0.1. Any other needs a token */
    i32        port;   /* 0: any that is free */
    /* That each request must bring, as ?token= first and then as a cookie; for this machine (`listen` is empty) only
     * one that writes. Empty: nobody needs one, and nobody may write. */
    struct str     token;
    struct str     writes; /* the one path that may be POSTed to; empty: none */
    serve_handler *handler;
    void          *context;
};

struct server;
/* NO: this build has no libmicrohttpd. */
enum status serve_open(struct os *os, const struct serve_config *config, struct arena *perm,
                       struct server **out, struct err *err);
i32         serve_port(const struct server *s);
void        serve_close(struct server *s); /* NULL is none */

/* Is this Host header one of this machine's own names? "localhost:8080", "127.0.0.1:8080", "[::1]:8080", or `listen`.
 * For the server and its tests. */
bool serve_host_is_ours(struct str host, struct str listen, i32 port);
/* "http://" and the Host of the same request, or no header at all. */
bool serve_origin_is_ours(struct str origin, struct str host);
/* The value of a cookie in a Cookie header; empty: none. */
struct str serve_cookie(struct str header, struct str name);

#endif
