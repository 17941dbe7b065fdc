/* http.h - one question and its answer over plain HTTP/1.1, for services on this machine's own link:
 * a cloud's metadata service. No proxy, no redirect, no TLS, one connection a question. Object stores
 * are reached with libcurl instead (store). */
#ifndef BASE_HTTP_H
#define BASE_HTTP_H
#include "base/os.h"

struct http_address {
    struct str host; /* a name or a number; IPv6 without brackets */
    i32        port;
};
/* http://HOST[:PORT][/] or HOST[:PORT]; the text must stay. USAGE with a sentence otherwise. */
enum status http_address_parse(struct str text, struct http_address *out, struct err *err);

struct http_question {
    struct str          method, path; /* "GET", "/latest/api/token" */
    struct http_address to;
    struct str          host;       /* what the Host header says; empty: the address */
    const char         *header;     /* more of them, each ended by \r\n; NULL: none */
    i64                 connect_ns; /* time for the connection */
    i64                 answer_ns;  /* time for all the rest */
};

struct http_answer {
    i32        code; /* 200 */
    struct str headers, body;
};
enum { HTTP_ANSWER_BYTES_MAX = 1 << 16 };

enum status http_ask(struct os *os, const struct http_question *q, struct arena *perm,
                     struct http_answer *out, struct err *err);
struct str  http_header(const struct http_answer *a, struct str name); /* data NULL: none such */

/* Is the answer whole in these bytes? `ended`: no more will come. `bytes` are changed: chunks are
 * joined. For http_ask and its tests. */
enum http_state { HTTP_WHOLE, HTTP_PART, HTTP_BROKEN };
enum http_state http_answer_parse(char *bytes, i64 count, bool ended, struct http_answer *out);

#endif
