/* web.c - libcurl behind the door. */
#include "remote/web.h"
#include "remote/address.h"
#include <strings.h>

struct str web_header(const struct web_reply *r, struct str name)
{
    for (i64 i = 0; i < r->header_count; i++) {
        struct str n = r->headers[i].name;
        if (n.len == name.len && strncasecmp(n.data, name.data, (size_t)n.len) == 0)
            return r->headers[i].value;
    }
    return (struct str){ 0 };
}

#ifndef FRUGAL_HAVE_CURL

enum status web_open(struct os *os, struct arena *perm, struct web **out, struct err *err)
{
    (void)os, (void)perm;
    *out = NULL;
    return err_set(err, STATUS_WORLD,
                   "this frugal was built without libcurl, so it cannot reach an object store; "
                   "install libcurl4-openssl-dev and build it again");
}
void web_close(struct web *w) { (void)w; }

#else
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#undef curl_easy_setopt /* curl.h wraps it in a macro of the same name */
#undef curl_easy_getinfo

/* The library that is loaded may be newer than the header: numbers of curl.h since 7.80. */
#if LIBCURL_VERSION_NUM < 0x075000
#define CURL_PREREQFUNC_OK 0
#define CURL_PREREQFUNC_ABORT 1
#define CURLOPT_PREREQFUNCTION ((CURLoption)(CURLOPTTYPE_FUNCTIONPOINT + 312))
#define CURLOPT_PREREQDATA ((CURLoption)(CURLOPTTYPE_OBJECTPOINT + 313))
#endif

enum { IDLE_MAX = 16 };                        /* connections kept for the next request */
static const long stall_s                = 20; /* no byte for so long: the line is dead */
static const i64  usual_connect_limit_ns = (i64)10 * 1000000000;

/* The functions we call, by their own names: found in the library when it is loaded. */
/* clang-format off */
#define FUNCTIONS(F)                                                                               \
    F(curl_global_init)                                                                            \
    F(curl_easy_init)                                                                              \
    F(curl_easy_setopt)                                                                            \
    F(curl_easy_perform)                                                                           \
    F(curl_easy_reset)                                                                             \
    F(curl_easy_cleanup)                                                                           \
    F(curl_easy_getinfo)                                                                           \
    F(curl_easy_strerror)                                                                          \
    F(curl_slist_append)                                                                           \
    F(curl_slist_free_all)
/* clang-format on */
static struct {
#define F(name) __typeof__(name) *name;
    FUNCTIONS(F)
#undef F
    const char *missing; /* why it is not there; NULL: it is */
} lib;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *library = dlopen(FRUGAL_CURL_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        lib.missing = FRUGAL_CURL_SONAME " is not on this machine";
        return;
    }
    void *symbol;
#define F(name)                                                                                    \
    symbol = dlsym(library, #name);                                                                \
    memcpy(&lib.name, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */      \
    if (!symbol) lib.missing = FRUGAL_CURL_SONAME " lacks " #name;
    FUNCTIONS(F)
#undef F
    if (!lib.missing && lib.curl_global_init(CURL_GLOBAL_DEFAULT))
        lib.missing = FRUGAL_CURL_SONAME " does not start";
}

struct curl_web {
    struct web      web;
    pthread_mutex_t lock;
    CURL           *idle[IDLE_MAX];
    i64             idle_count;
    const char     *ca_bundle; /* AWS_CA_BUNDLE; NULL: the system's */
};

static CURL *handle_take(struct curl_web *w)
{
    pthread_mutex_lock(&w->lock);
    CURL *c = w->idle_count ? w->idle[--w->idle_count] : NULL;
    pthread_mutex_unlock(&w->lock);
    return c ? c : lib.curl_easy_init();
}

static void handle_give(struct curl_web *w, CURL *c)
{
    lib.curl_easy_reset(c); /* forgets the options, keeps the connection */
    pthread_mutex_lock(&w->lock);
    bool room = w->idle_count < IDLE_MAX;
    if (room) w->idle[w->idle_count++] = c;
    pthread_mutex_unlock(&w->lock);
    if (!room) lib.curl_easy_cleanup(c);
}

/* One request under way. */
struct flight {
    const struct web_request *request;
    struct web_reply         *reply;
    struct arena             *perm;
    struct textbuf            body;
    bool                      too_long, begun;
};

/* When a kept connection turns out to be dead, libcurl silently sends the request again. Whoever made
 * a condition must know that it may have been heard twice, so the second time is refused here. */
static int begin_once(void *context, char *a, char *b, int c, int d)
{
    (void)a, (void)b, (void)c, (void)d;
    struct flight *f     = context;
    bool           again = f->begun;
    f->begun             = true;
    return again ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static size_t take_header(char *data, size_t size, size_t count, void *context)
{
    struct flight    *f    = context;
    struct web_reply *r    = f->reply;
    struct str        line = str_trim((struct str){ data, (i64)(size * count) }), name;
    if (str_starts(line, STR("HTTP/"))) { /* of what comes in several, the last one counts */
        i64 blank = str_find(line, ' '), status = 0;
        str_i64(str_sub(line, blank + 1, blank + 4), &status);
        r->status       = (i32)status;
        r->header_count = 0;
    } else if (line.len && r->header_count < WEB_HEADERS_MAX &&
               f->perm->end - f->perm->begin > line.len + 64) {
        line = str_copy(f->perm, line);
        str_cut(&line, ':', &name);
        r->headers[r->header_count++] = (struct pair){ name, str_trim(line) };
    }
    return size * count;
}

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct flight *f     = context;
    struct str     bytes = { data, (i64)(size * count) };
    i64            room  = f->perm->end - f->perm->begin + f->body.cap - f->body.len - 1;
    if (f->body.len + bytes.len > f->request->reply_bytes_max || bytes.len > room) {
        f->too_long = true;
        return 0;
    }
    textbuf_add(&f->body, bytes);
    return size * count;
}

static int keep_on(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    const struct flight *f = context;
    return f->request->cancel && atomic_load(f->request->cancel);
}

static struct curl_slist *headers_of(const struct web_request *r, struct arena scratch)
{
    /* What libcurl would add by itself: a form's type, and a wait for permission to send. */
    struct curl_slist *list  = lib.curl_slist_append(NULL, "Expect:");
    bool               typed = false;
    for (i64 i = 0; i < r->header_count; i++) {
        typed |= str_eq(r->headers[i].name, STR("Content-Type"));
        list =
            lib.curl_slist_append(list, str_fmt(&scratch, "%.*s: %.*s", STR_ARG(r->headers[i].name),
                                                STR_ARG(r->headers[i].value))
                                            .data);
    }
    return typed ? list : lib.curl_slist_append(list, "Content-Type:");
}

static void set_method(CURL *c, const struct web_request *r, struct arena *scratch)
{
    if (str_eq(r->method, STR("HEAD"))) {
        lib.curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
        return;
    }
    if (str_eq(r->method, STR("PUT")) || str_eq(r->method, STR("POST"))) {
        lib.curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
        lib.curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->body.len ? r->body.data : "");
    }
    lib.curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, str_z(scratch, r->method));
}

static void set_options(CURL *c, struct curl_web *w, struct flight *f, struct arena *scratch)
{
    const struct web_request *r = f->request;
    i64 connect_ns = r->connect_limit_ns ? r->connect_limit_ns : usual_connect_limit_ns;
    lib.curl_easy_setopt(c, CURLOPT_URL, str_z(scratch, r->url));
    lib.curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L); /* it was signed as it is */
    lib.curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    lib.curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / 1000000));
    lib.curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(r->limit_ns / 1000000));
    lib.curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    lib.curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, stall_s);
    lib.curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    lib.curl_easy_setopt(c, CURLOPT_HEADERDATA, f);
    lib.curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    lib.curl_easy_setopt(c, CURLOPT_WRITEDATA, f);
    lib.curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    lib.curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, keep_on);
    lib.curl_easy_setopt(c, CURLOPT_XFERINFODATA, f);
    if (lib.curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, begin_once)) /* older than 7.80 */
        lib.curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, 1L);
    lib.curl_easy_setopt(c, CURLOPT_PREREQDATA, f);
    if (r->direct) lib.curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (w->ca_bundle) lib.curl_easy_setopt(c, CURLOPT_CAINFO, w->ca_bundle);
    set_method(c, r, scratch);
}

/* What a second try would end with as well: who the server is cannot be checked, or who we are. */
static bool is_for_good(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_ISSUER_ERROR ||
           code == CURLE_SSL_PINNEDPUBKEYNOTMATCH || code == CURLE_SSL_INVALIDCERTSTATUS ||
           code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT;
}

/* The name server says that there is no such host, or says nothing until the time to connect is over. */
static bool is_unresolved(CURL *c, CURLcode code)
{
    curl_off_t found_us = 0;
    if (code != CURLE_OPERATION_TIMEDOUT) return code == CURLE_COULDNT_RESOLVE_HOST;
    return !lib.curl_easy_getinfo(c, CURLINFO_NAMELOOKUP_TIME_T, &found_us) && !found_us;
}

static enum status curl_send(struct web *web, const struct web_request *r, struct arena *perm,
                             struct web_reply *reply, struct err *err)
{
    struct curl_web *w       = web->context;
    struct arena     scratch = arena_part(perm, 32768 + 8 * r->url.len);
    struct flight    f = { .request = r, .reply = reply, .perm = perm, .body = textbuf_new(perm) };
    CURL            *c = handle_take(w);
    if (!c) return err_set(err, STATUS_WORLD, "libcurl has no memory for another request");
    *reply = (struct web_reply){ .headers = NEW(perm, struct pair, WEB_HEADERS_MAX) };
    struct curl_slist *list = headers_of(r, scratch);
    set_options(c, w, &f, &scratch);
    lib.curl_easy_setopt(c, CURLOPT_HTTPHEADER, list);
    CURLcode code = lib.curl_easy_perform(c);
    lib.curl_slist_free_all(list);
    reply->unresolved = is_unresolved(c, code);
    handle_give(w, c);
    reply->body = textbuf_str(&f.body);
    if (code == CURLE_OK) return STATUS_OK;
    struct str url =
        address_redacted(&scratch, address_shown(&scratch, r->url)); /* of any scheme */
    if (f.too_long)
        return err_set(err, STATUS_WORLD, "%.*s answered with more than %lld bytes", STR_ARG(url),
                       (long long)r->reply_bytes_max);
    return err_set(err, is_for_good(code) ? STATUS_NO : STATUS_WORLD, "%.*s %.*s: %s",
                   STR_ARG(r->method), STR_ARG(url),
                   code == CURLE_ABORTED_BY_CALLBACK ? "the connection was cut off"
                                                     : lib.curl_easy_strerror(code));
}

enum status web_open(struct os *os, struct arena *perm, struct web **out, struct err *err)
{
    pthread_once(&once, load);
    *out = NULL;
    if (lib.missing)
        return err_set(err, STATUS_WORLD, "%s, so no object store can be reached; install libcurl",
                       lib.missing);
    struct curl_web *w  = NEW(perm, struct curl_web, 1);
    struct str       ca = os->env(os, "AWS_CA_BUNDLE");
    w->web              = (struct web){ .context = w, .send = curl_send };
    w->ca_bundle        = ca.len ? str_z(perm, ca) : NULL;
    pthread_mutex_init(&w->lock, NULL);
    *out = &w->web;
    return STATUS_OK;
}

void web_close(struct web *web)
{
    struct curl_web *w = web->context;
    for (i64 i = 0; i < w->idle_count; i++) lib.curl_easy_cleanup(w->idle[i]);
    w->idle_count = 0;
    pthread_mutex_destroy(&w->lock);
}
#endif
