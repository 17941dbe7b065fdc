/* sigv4.c - the four steps of a signature: the request in canonical words, its hash with the time
 * and place, a key made for that day and place, and the HMAC of the one under the other. */
#include "remote/sigv4.h"
#include "base/hash.h"
#include <ctype.h>
#include <string.h>
#include <time.h>

/* What differs between the two: AWS's "Signature Version 4", Google's "V4 signing process". */
static const struct words {
    struct str algorithm, key_prefix, end;
} words_of[] = {
    [SIGV4_AWS]    = { STR_INIT("AWS4-HMAC-SHA256"), STR_INIT("AWS4"), STR_INIT("aws4_request") },
    [SIGV4_GOOGLE] = { STR_INIT("GOOG4-HMAC-SHA256"), STR_INIT("GOOG4"),
                       STR_INIT("goog4_request") },
};

static struct str encode(struct arena *perm, struct str text, struct str plain)
{
    char *to  = NEW(perm, char, 3 * text.len + 1);
    i64   len = 0;
    for (i64 i = 0; i < text.len; i++) {
        u8 c = (u8)text.data[i];
        if ((c < 128 && isalnum(c)) || str_find(plain, (char)c) >= 0) {
            to[len++] = (char)c;
        } else {
            to[len++] = '%';
            to[len++] = "0123456789ABCDEF"[c >> 4];
            to[len++] = "0123456789ABCDEF"[c & 15];
        }
    }
    return (struct str){ to, len };
}

struct str sigv4_encode(struct arena *perm, struct str text)
{
    return encode(perm, text, STR("-._~"));
}

struct str sigv4_encode_path(struct arena *perm, struct str text)
{
    return encode(perm, text, STR("-._~/"));
}

struct str sigv4_time(struct arena *perm, i64 unix_s)
{
    struct tm tm;
    time_t    t = (time_t)unix_s;
    gmtime_r(&t, &tm);
    char text[32];
    i64  len = (i64)strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &tm);
    return str_copy(perm, (struct str){ text, len });
}

static int order(struct str a, struct str b)
{
    int c = memcmp(a.data, b.data, (size_t)MIN(a.len, b.len));
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

/* By name, then value; a request has a handful. */
static void sort(struct pair *p, i64 count)
{
    for (i64 i = 1; i < count; i++)
        for (i64 k = i; k > 0; k--) {
            int c = order(p[k - 1].name, p[k].name);
            if (c < 0 || (c == 0 && order(p[k - 1].value, p[k].value) <= 0)) break;
            struct pair t = p[k];
            p[k]          = p[k - 1];
            p[k - 1]      = t;
        }
}

struct str sigv4_query(struct arena *perm, const struct pair *query, i64 count)
{
    struct pair *encoded = NEW(perm, struct pair, count);
    for (i64 i = 0; i < count; i++) {
        encoded[i].name  = sigv4_encode(perm, query[i].name);
        encoded[i].value = sigv4_encode(perm, query[i].value);
    }
    sort(encoded, count);
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < count; i++)
        textbuf_fmt(&b, "%s%.*s=%.*s", i ? "&" : "", STR_ARG(encoded[i].name),
                    STR_ARG(encoded[i].value));
    return textbuf_str(&b);
}

static struct str lower(struct arena *perm, struct str s)
{
    char *to = NEW(perm, char, s.len + 1);
    for (i64 i = 0; i < s.len; i++) to[i] = (char)tolower((unsigned char)s.data[i]);
    return (struct str){ to, s.len };
}

/* Names in lower case, sorted. */
static struct pair *canonical_headers(struct arena *perm, const struct sigv4_request *r)
{
    struct pair *h = NEW(perm, struct pair, r->header_count);
    for (i64 i = 0; i < r->header_count; i++) {
        h[i].name  = lower(perm, r->headers[i].name);
        h[i].value = str_trim(r->headers[i].value);
    }
    sort(h, r->header_count);
    return h;
}

static struct str signed_names(struct arena *perm, const struct sigv4_request *r)
{
    struct pair   *h = canonical_headers(perm, r);
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < r->header_count; i++)
        textbuf_fmt(&b, "%s%.*s", i ? ";" : "", STR_ARG(h[i].name));
    return textbuf_str(&b);
}

struct str sigv4_canonical(struct arena *perm, const struct sigv4_request *r)
{
    struct pair *h     = canonical_headers(perm, r);
    struct str   names = signed_names(perm, r), query = sigv4_query(perm, r->query, r->query_count);
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "%.*s\n%.*s\n%.*s\n", STR_ARG(r->method), STR_ARG(r->path), STR_ARG(query));
    for (i64 i = 0; i < r->header_count; i++)
        textbuf_fmt(&b, "%.*s:%.*s\n", STR_ARG(h[i].name), STR_ARG(h[i].value));
    textbuf_fmt(&b, "\n%.*s\n%.*s", STR_ARG(names), STR_ARG(r->payload_hash));
    return textbuf_str(&b);
}

/* "20130524/us-east-1/s3/aws4_request" */
static struct str scope(struct arena *perm, const struct sigv4_signer *s, i64 unix_s)
{
    return str_fmt(perm, "%.8s/%.*s/%.*s/%.*s", sigv4_time(perm, unix_s).data, STR_ARG(s->region),
                   STR_ARG(s->service), STR_ARG(words_of[s->kind].end));
}

struct str sigv4_to_sign(struct arena *perm, const struct sigv4_signer *s,
                         const struct sigv4_request *r)
{
    struct str hash = sha256_hex(perm, sigv4_canonical(perm, r));
    return str_fmt(perm, "%.*s\n%.*s\n%.*s\n%.*s", STR_ARG(words_of[s->kind].algorithm),
                   STR_ARG(sigv4_time(perm, r->unix_s)), STR_ARG(scope(perm, s, r->unix_s)),
                   STR_ARG(hash));
}

struct str sigv4_authorization(struct arena *perm, const struct sigv4_signer *s,
                               const struct sigv4_request *r)
{
    const struct words *w   = &words_of[s->kind];
    struct str          day = str_sub(sigv4_time(perm, r->unix_s), 0, 8);
    struct str          key = str_cat(perm, w->key_prefix, s->secret);
    struct str links[5]     = { day, s->region, s->service, w->end, sigv4_to_sign(perm, s, r) };
    u8         digest[32];
    for (i64 i = 0; i < COUNT_OF(links); i++) {
        hmac_sha256(key, links[i], digest);
        key = (struct str){ (char *)digest, 32 };
    }
    return str_fmt(perm, "%.*s Credential=%.*s/%.*s, SignedHeaders=%.*s, Signature=%.*s",
                   STR_ARG(w->algorithm), STR_ARG(s->key_id), STR_ARG(scope(perm, s, r->unix_s)),
                   STR_ARG(signed_names(perm, r)), STR_ARG(hash_hex(perm, digest, 32)));
}
