/* http.c - HTTP/1.1 as far as metadata services speak it (RFC 9112). */
#include "base/http.h"
#include <string.h>
#include <strings.h>

/* --- addresses ---------------------------------------------------------------------------------- */

static enum status no_address(struct str text, struct err *err)
{
    return err_set(err, STATUS_USAGE,
                   "%.*s is not an address; expected one like http://127.0.0.1:1338",
                   (int)MIN(text.len, 80), text.data);
}

enum status http_address_parse(struct str text, struct http_address *out, struct err *err)
{
    struct str rest   = text, port;
    i64        number = 80;
    if (str_starts(rest, STR("http://"))) rest = str_sub(rest, 7, rest.len);
    if (str_ends(rest, STR("/"))) rest.len--;
    if (str_starts(rest, STR("["))) {
        i64 end   = str_find(rest, ']');
        out->host = str_sub(rest, 1, end);
        port      = str_sub(rest, end + 1, rest.len);
        if (end < 0 || (port.len && port.data[0] != ':')) return no_address(text, err);
    } else {
        i64 colon = str_find(rest, ':');
        out->host = str_sub(rest, 0, colon < 0 ? rest.len : colon);
        port      = str_sub(rest, out->host.len, rest.len);
    }
    bool plain = out->host.len > 0 && str_find(out->host, '/') < 0 && str_find(port, '/') < 0;
    if (port.len && !str_i64(str_sub(port, 1, port.len), &number)) plain = false;
    if (!plain || number < 1 || number > 65535) return no_address(text, err);
    out->port = (i32)number;
    return STATUS_OK;
}

/* --- answers ------------------------------------------------------------------------------------ */

static bool same_name(struct str a, struct str b)
{
    return a.len == b.len && strncasecmp(a.data, b.data, (size_t)a.len) == 0;
}

struct str http_header(const struct http_answer *a, struct str name)
{
    struct str rest = a->headers, line, key;
    while (str_cut(&rest, '\n', &line))
        if (str_cut(&line, ':', &key) && same_name(key, name)) return str_trim(line);
    return (struct str){ 0 };
}

/* Joins the chunks in place: HTTP_WHOLE with *body, at whose end nothing is looked at. */
static enum http_state join_chunks(char *at, i64 left, struct str *body)
{
    char *to = at;
    *body    = (struct str){ at, 0 };
    for (;;) {
        struct str line = { at, left };
        i64        end  = str_find(line, '\n');
        u32        bytes;
        if (end < 0) return HTTP_PART;
        line          = str_sub(line, 0, end);
        i64 extension = str_find(line, ';');
        if (extension >= 0) line = str_sub(line, 0, extension);
        if (!str_hex(str_trim(line), &bytes) || bytes > HTTP_ANSWER_BYTES_MAX) return HTTP_BROKEN;
        at += end + 1;
        left -= end + 1;
        if (bytes == 0) return HTTP_WHOLE;
        if (left < (i64)bytes + 2) return HTTP_PART;
        memmove(to, at, bytes);
        to += bytes;
        body->len += bytes;
        at += bytes;
        if (at[0] != '\r' || at[1] != '\n') return HTTP_BROKEN;
        at += 2;
        left -= (i64)bytes + 2;
    }
}

static i64 headers_end(struct str s)
{
    for (i64 i = 0; i + 4 <= s.len; i++)
        if (memcmp(s.data + i, "\r\n\r\n", 4) == 0) return i + 4;
    return -1;
}

enum http_state http_answer_parse(char *bytes, i64 count, bool ended, struct http_answer *out)
{
    struct str all   = { bytes, count };
    i64        begin = headers_end(all), line = str_find(all, '\n'), code, length;
    *out = (struct http_answer){ 0 };
    if (begin < 0) return ended ? HTTP_BROKEN : HTTP_PART;
    bool http = str_starts(all, STR("HTTP/1.")) && line >= 12 && bytes[8] == ' ';
    if (!http || !str_i64(str_sub(all, 9, 12), &code) || code < 100) return HTTP_BROKEN;
    out->code    = (i32)code;
    out->headers = str_sub(all, line + 1, begin - 2);
    out->body    = str_sub(all, begin, count);

    enum http_state state  = ended ? HTTP_WHOLE : HTTP_PART; /* the end of the stream is its end */
    struct str      coding = http_header(out, STR("transfer-encoding"));
    struct str      said   = http_header(out, STR("content-length"));
    if (code == 204 || code == 304) {
        out->body.len = 0;
        return HTTP_WHOLE;
    }
    if (same_name(coding, STR("chunked"))) {
        state = join_chunks(bytes + begin, count - begin, &out->body);
        if (state == HTTP_PART && ended) state = HTTP_BROKEN;
    } else if (said.data) {
        if (!str_i64(said, &length) || length < 0 || length > HTTP_ANSWER_BYTES_MAX)
            return HTTP_BROKEN;
        if (out->body.len < length) return ended ? HTTP_BROKEN : HTTP_PART;
        out->body.len = length;
        state         = HTTP_WHOLE;
    }
    return state;
}

/* --- asking ------------------------------------------------------------------------------------- */

static enum status failed(const struct http_question *q, const char *how, struct err *err)
{
    return err_set(err, STATUS_WORLD, "%.*s:%d %s to %.*s %.*s", STR_ARG(q->to.host), q->to.port,
                   how, STR_ARG(q->method), STR_ARG(q->path));
}

/* Chunks are joined in a copy, because more bytes may have to be put behind those that came. */
static enum http_state whole(const char *bytes, i64 count, bool ended, struct arena *perm,
                             struct http_answer *out)
{
    struct arena before = *perm;
    char        *copy   = NEW(perm, char, count + 1);
    memcpy(copy, bytes, (size_t)count);
    enum http_state state = http_answer_parse(copy, count, ended, out);
    if (state != HTTP_WHOLE) *perm = before;
    return state;
}

static enum status receive(struct os *os, struct file f, const struct http_question *q,
                           struct arena *perm, struct http_answer *out, struct err *err)
{
    struct arena scratch = arena_part(perm, HTTP_ANSWER_BYTES_MAX);
    char        *bytes   = NEW(&scratch, char, HTTP_ANSWER_BYTES_MAX);
    i64          count = 0, until = os->now_ns(os) + q->answer_ns;
    for (;;) {
        i64 left = until - os->now_ns(os), got;
        if (left <= 0) return failed(q, "did not answer completely in time", err);
        if (os_wait_any(&f, 1, left) < 0) continue; /* or a signal came: the clock decides */
        enum status st =
            os->read(os, f, bytes + count, HTTP_ANSWER_BYTES_MAX - count, -1, &got, err);
        if (st) return st;
        count += got;
        switch (whole(bytes, count, got == 0, perm, out)) {
        case HTTP_WHOLE: return STATUS_OK;
        case HTTP_BROKEN: return failed(q, "sent an answer that is not HTTP", err);
        case HTTP_PART: break;
        }
        if (count == HTTP_ANSWER_BYTES_MAX) return failed(q, "answered too much", err);
    }
}

enum status http_ask(struct os *os, const struct http_question *q, struct arena *perm,
                     struct http_answer *out, struct err *err)
{
    struct file f;
    enum status st = os->connect(os, q->to.host, q->to.port, q->connect_ns, &f, err);
    if (st) return st;
    struct arena scratch = arena_part(perm, 4096);
    struct str   host    = q->host;
    bool         v6      = str_find(q->to.host, ':') >= 0;
    if (!host.len && v6) host = str_fmt(&scratch, "[%.*s]", STR_ARG(q->to.host));
    else if (!host.len) host = q->to.host;
    struct str text =
        str_fmt(&scratch, "%.*s %.*s HTTP/1.1\r\nHost: %.*s\r\n%s%sConnection: close\r\n\r\n",
                STR_ARG(q->method), STR_ARG(q->path), STR_ARG(host), q->header ? q->header : "",
                str_eq(q->method, STR("GET")) ? "" : "Content-Length: 0\r\n");
    st = os->write(os, f, text, err);
    if (!st) st = receive(os, f, q, perm, out, err);
    os->close(os, &f, NULL);
    return st;
}
