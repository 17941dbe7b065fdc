/* s3_send.c - one request: its words, its signature, and as many tries as it takes.
 *
 *     try ─► no answer, 5xx, SlowDown …      wait (jittered, longer each time), try again
 *         ─► 403, and its Date is not ours   take the store's clock, once
 *         ─► credentials have expired        renew them, once
 *         ─► the bucket is in another region take the region it names, twice
 *         ─► anything else                   that is the answer */
#include "base/date.h"
#include "base/hash.h"
#include "remote/retry.h"
#include "remote/s3_int.h"
#include "remote/xml.h"
#include <string.h>

enum { MOVES_MAX = 2 };
static const i64 skew_noticed_s = 60;

/* --- the words ------------------------------------------------------------------------------------ */

struct target {
    struct str region, host, path, url;
};

static struct target target_of(struct s3 *s, const struct s3_call *c, struct arena *perm)
{
    struct target t;
    pthread_mutex_lock(&s->lock);
    t.region = str_copy(perm, str_of(s->region));
    pthread_mutex_unlock(&s->lock);
    t.host = s->host;
    if (!s->own_endpoint && s->kind == SIGV4_GOOGLE) t.host = STR("storage.googleapis.com");
    else if (!s->own_endpoint)
        t.host = str_fmt(perm, "s3.%.*s.amazonaws.com%s", STR_ARG(t.region),
                         str_starts(t.region, STR("cn-")) ? ".cn" : "");
    struct str key = sigv4_encode_path(perm, c->key);
    if (s->in_path) {
        t.path = str_fmt(perm, "%.*s/%.*s%s%.*s", STR_ARG(s->base), STR_ARG(s->bucket),
                         key.len ? "/" : "", STR_ARG(key));
    } else {
        t.host = str_fmt(perm, "%.*s.%.*s", STR_ARG(s->bucket), STR_ARG(t.host));
        t.path = str_fmt(perm, "%.*s/%.*s", STR_ARG(s->base), STR_ARG(key));
    }
    struct str query = sigv4_query(perm, c->query, c->query_count);
    t.url = str_fmt(perm, "%s://%.*s%.*s%s%.*s", s->https ? "https" : "http", STR_ARG(t.host),
                    STR_ARG(t.path), query.len ? "?" : "", STR_ARG(query));
    return t;
}

struct str s3_crc_text(struct arena *perm, u32 crc)
{
    char bytes[4] = { (char)(crc >> 24), (char)(crc >> 16), (char)(crc >> 8), (char)crc };
    return str_base64(perm, (struct str){ bytes, 4 });
}

struct headers {
    struct pair items[S3_HEADERS_MAX];
    i64         count;
};

static void add(struct headers *h, struct str name, struct str value)
{
    ASSERT(h->count < S3_HEADERS_MAX);
    h->items[h->count++] = (struct pair){ name, value };
}

/* What the call asks for, in the words of AWS or of Google: the two may not be mixed. */
static void add_meaning(struct headers *h, struct s3 *s, const struct s3_call *c,
                        struct arena *perm)
{
    bool google = s->kind == SIGV4_GOOGLE;
    if (c->range.len) add(h, STR("Range"), c->range);
    if (c->if_etag.len) add(h, STR("If-Match"), c->if_etag);
    if (c->checksum) {
        struct str crc = s3_crc_text(perm, crc32c_add(0, c->body));
        if (google) add(h, STR("x-goog-hash"), str_cat(perm, STR("crc32c="), crc));
        else add(h, STR("x-amz-checksum-crc32c"), crc);
    }
    if (c->checksum_of_each && !google) add(h, STR("x-amz-checksum-algorithm"), STR("CRC32C"));
    if (c->if_absent && google) add(h, STR("x-goog-if-generation-match"), STR("0"));
    else if (c->if_absent) add(h, STR("If-None-Match"), STR("*"));
    if (c->with_class && s->storage_class.len)
        add(h, google ? STR("x-goog-storage-class") : STR("x-amz-storage-class"), s->storage_class);
}

/* Everything above, the time, and who we are. Over TLS the body itself is not signed: its checksum
 * is, and hashing every byte with SHA-256 would cost more than sending it. */
static void add_signature(struct headers *h, struct s3 *s, const struct s3_call *c,
                          const struct target *t, const struct credentials *who, struct arena *perm)
{
    bool google = s->kind == SIGV4_GOOGLE;
    add(h, STR("Host"), t->host);
    if (who->bearer.len) {
        add(h, STR("Authorization"), str_cat(perm, STR("Bearer "), who->bearer));
        return;
    }
    i64        unix_s  = s->os->wall_ns(s->os) / 1000000000 + atomic_load(&s->skew_s);
    bool       hidden  = s->https && c->body.len > 0;
    struct str payload = hidden ? STR("UNSIGNED-PAYLOAD") : sha256_hex(perm, c->body);
    add(h, google ? STR("x-goog-date") : STR("x-amz-date"), sigv4_time(perm, unix_s));
    add(h, google ? STR("x-goog-content-sha256") : STR("x-amz-content-sha256"), payload);
    if (who->token.len) add(h, STR("x-amz-security-token"), who->token);
    struct sigv4_signer  signer  = { s->kind, who->key_id, who->secret, t->region,
                                   google ? STR("storage") : STR("s3") };
    struct sigv4_request request = { str_of(c->method), t->path,  c->query, c->query_count,
                                     h->items,          h->count, payload,  unix_s };
    add(h, STR("Authorization"), sigv4_authorization(perm, &signer, &request));
}

/* --- the answer ------------------------------------------------------------------------------------ */

static void read_error(const struct s3_call *c, struct s3_answer *a)
{
    struct str body = a->reply.body;
    struct xml root;
    bool       bad = a->status >= 300 || c->error_in_200;
    a->code        = STR("");
    a->message     = STR("");
    if (!bad || !xml_next(&body, &root) || !str_eq(root.name, STR("Error"))) return;
    a->code    = str_trim(xml_child(root.inner, STR("Code")));
    a->message = str_trim(xml_child(root.inner, STR("Message")));
    if (!a->code.len) a->code = STR("Error");
}

bool s3_good(const struct s3_answer *a) { return a->status / 100 == 2 && !a->code.len; }

enum status s3_refused(struct s3 *s, const struct s3_call *c, const struct s3_answer *a,
                       struct err *err)
{
    return err_set(err, STATUS_WORLD, "%s://%.*s/%.*s: %s was answered with %d%s%.*s%s%.*s",
                   s->kind == SIGV4_GOOGLE ? "gs" : "s3", STR_ARG(s->bucket),
                   (int)MIN(c->key.len, 160), c->key.data, c->method, a->status,
                   a->code.len ? " " : "", (int)MIN(a->code.len, 60), a->code.data,
                   a->message.len ? ": " : "", (int)MIN(a->message.len, 160), a->message.data);
}

static bool is_one_of(struct str code, const char *const *codes, i64 count)
{
    for (i64 i = 0; i < count; i++)
        if (str_eq(code, str_of(codes[i]))) return true;
    return false;
}

static bool may_pass(const struct s3_answer *a)
{
    static const char *const codes[] = { "SlowDown",
                                         "InternalError",
                                         "ServiceUnavailable",
                                         "RequestTimeout",
                                         "OperationAborted",
                                         "Throttling",
                                         "RequestLimitExceeded",
                                         "BadDigest",
                                         "XAmzContentSHA256Mismatch",
                                         "ConditionalRequestConflict" };
    return retry_status(a->status) || is_one_of(a->code, codes, COUNT_OF(codes));
}

static bool is_expired(const struct s3_answer *a)
{
    static const char *const codes[] = { "ExpiredToken", "InvalidToken", "TokenRefreshRequired",
                                         "RequestExpired", "ExpiredTokenException" };
    if (a->status == 401 || is_one_of(a->code, codes, COUNT_OF(codes))) return true;
    return !a->code.len && (a->status == 400 || a->status == 403); /* HEAD has no body to say it */
}

/* The region the bucket says it is in; empty: it says none. */
static struct str other_region(const struct s3_answer *a)
{
    if (a->status != 301 && a->status != 307 && a->status != 400 && a->status != 403)
        return STR("");
    struct str region = web_header(&a->reply, STR("x-amz-bucket-region")), body = a->reply.body;
    struct xml root;
    if (!region.len && xml_next(&body, &root))
        region = str_trim(xml_child(root.inner, STR("Region")));
    return region.data && region.len < S3_REGION_MAX ? region : STR("");
}

static bool move_to(struct s3 *s, const struct target *t, struct str region)
{
    if (!region.len || str_eq(region, t->region)) return false;
    pthread_mutex_lock(&s->lock);
    memset(s->region, 0, sizeof s->region);
    memcpy(s->region, region.data, (size_t)region.len);
    pthread_mutex_unlock(&s->lock);
    return true;
}

static bool take_clock(struct s3 *s, const struct s3_answer *a)
{
    i64 theirs, ours = s->os->wall_ns(s->os) / 1000000000;
    if (a->status != 403 || !date_http(web_header(&a->reply, STR("Date")), &theirs)) return false;
    i64 skew = theirs - ours, change = skew - atomic_load(&s->skew_s);
    if (change < skew_noticed_s && change > -skew_noticed_s) return false;
    atomic_store(&s->skew_s, skew);
    return true;
}

/* --- the tries ------------------------------------------------------------------------------------- */

enum verdict { VERDICT_DONE, VERDICT_NOW, VERDICT_LATER };

struct tries {
    i64  count, moves;
    bool clock_taken, renewed, unanswered;
};

static enum verdict judge(struct s3 *s, const struct target *t, const struct credentials *who,
                          const struct s3_answer *a, struct tries *tries)
{
    if (s3_good(a)) return VERDICT_DONE;
    if (may_pass(a)) {
        if (a->status >= 500 || a->status / 100 == 2) tries->unanswered = true; /* it may be done */
        return VERDICT_LATER;
    }
    if (tries->moves < MOVES_MAX && move_to(s, t, other_region(a))) {
        tries->moves++;
        return VERDICT_NOW;
    }
    if (!tries->clock_taken && take_clock(s, a)) {
        tries->clock_taken = true;
        return VERDICT_NOW;
    }
    if (!tries->renewed && is_expired(a)) {
        tries->renewed = true;
        credentials_expire(s->chain, who);
        return VERDICT_NOW;
    }
    return VERDICT_DONE;
}

static void count(struct s3 *s, const struct s3_call *c, const struct s3_answer *a)
{
    bool get = c->method[0] == 'H' || (c->method[0] == 'G' && c->key.len);
    if (c->method[0] != 'D') atomic_fetch_add(get ? &s->gets : &s->puts, 1); /* deleting is free */
    atomic_fetch_add(&s->bytes_out, c->body.len);
    atomic_fetch_add(&s->bytes_in, a->reply.body.len);
}

static enum status try_once(struct s3 *s, const struct s3_call *c, const struct target *t,
                            const struct credentials *who, struct arena *perm, struct s3_answer *a,
                            struct err *err)
{
    struct headers h = { 0 };
    *a               = (struct s3_answer){ 0 };
    add_meaning(&h, s, c, perm);
    add_signature(&h, s, c, t, who, perm);
    struct web_request r  = { .method          = str_of(c->method),
                              .url             = t->url,
                              .headers         = h.items,
                              .header_count    = h.count,
                              .body            = c->body,
                              .reply_bytes_max = MAX(c->reply_bytes_max, 65536),
                              .cancel          = c->stop ? c->stop : &s->cancel };
    enum status        st = s->web->send(s->web, &r, perm, &a->reply, err);
    count(s, c, a);
    if (st) return st;
    a->status = a->reply.status;
    read_error(c, a);
    if (credentials_in(who, a->code) || credentials_in(who, a->message))
        a->code = a->message = STR("(not shown: it names a secret)");
    return STATUS_OK;
}

enum status s3_send(struct s3 *s, const struct s3_call *c, struct arena *perm, struct s3_answer *a,
                    struct err *err)
{
    struct tries tries    = { 0 };
    struct arena room     = *perm; /* what a try took is given back before the next */
    i64          begin_ns = s->os->now_ns(s->os), until_ns = begin_ns + s->limit_ns;
    struct err   last;
    bool         later = true;
    for (;;) {
        struct credentials who;
        enum verdict       verdict = VERDICT_LATER;
        *perm                      = room;
        struct target t            = target_of(s, c, perm);
        enum status   st           = credentials_get(s->chain, perm, &who, &last);
        if (st == STATUS_USAGE) return err_set(err, st, "%s", last.text);
        tries.count++;
        if (!st) {
            st = try_once(s, c, &t, &who, perm, a, &last);
            if (st == STATUS_NO) return err_set(err, STATUS_WORLD, "%s", last.text);
            if (!st) verdict = judge(s, &t, &who, a, &tries);
            else tries.unanswered = true;
            if (!st) atomic_store(&s->answered, true);
            later = retry_unanswered(a->reply.unresolved, atomic_load(&s->answered), tries.count,
                                     s->os->now_ns(s->os) - begin_ns);
            if (!st && verdict == VERDICT_LATER) s3_refused(s, c, a, &last);
        }
        a->unanswered = tries.unanswered;
        if (verdict == VERDICT_DONE) return STATUS_OK;
        if (verdict == VERDICT_LATER && later)
            retry_wait(s->os, s->seed, (u64)atomic_fetch_add(&s->waits, 1), tries.count, until_ns,
                       c->stop, &s->cancel);
        if (atomic_load(&s->cancel) || (c->stop && atomic_load(c->stop)))
            return err_set(err, STATUS_INTERRUPTED, "%s %.*s was cut off", c->method,
                           STR_ARG(c->key));
        i64 now_ns = s->os->now_ns(s->os);
        if (later && now_ns < until_ns && tries.count < RETRY_TRIES_MAX) continue;
        return err_set(err, STATUS_WORLD, "after %lld tries in %.1f s: %s", (long long)tries.count,
                       (f64)(now_ns - begin_ns) / 1e9, last.text);
    }
}

enum status s3_send_well(struct s3 *s, const struct s3_call *c, struct arena *perm,
                         struct s3_answer *a, struct err *err)
{
    enum status st = s3_send(s, c, perm, a, err);
    return !st && !s3_good(a) ? s3_refused(s, c, a, err) : st;
}
