/* serve.c - libmicrohttpd behind the door: who may ask, and how long. */
#include "remote/serve.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- what a request says of itself ---- */

static bool same_text(struct str a, struct str b)
{
    return a.len == b.len && !strncasecmp(a.data, b.data, (size_t)a.len);
}

/* HOST:PORT with that port, written as a browser does; HOST alone is port 80. */
static bool is_host(struct str host, struct str name, i32 port)
{
    char text[16];
    if (host.len < name.len || !same_text(str_sub(host, 0, name.len), name)) return false;
    struct str rest = str_sub(host, name.len, host.len);
    if (!rest.len) return port == 80;
    return str_eq(rest, (struct str){ text, snprintf(text, sizeof text, ":%d", port) });
}

bool serve_host_is_ours(struct str host, struct str listen, i32 port)
{
    static const struct str names[] = { STR_INIT("127.0.0.1"), STR_INIT("localhost"),
                                        STR_INIT("[::1]") };
    for (i64 i = 0; i < COUNT_OF(names); i++)
        if (is_host(host, names[i], port)) return true;
    return listen.len && is_host(host, listen, port);
}

bool serve_origin_is_ours(struct str origin, struct str host)
{
    struct str scheme = STR("http://");
    if (!origin.data) return true;
    return host.len && str_starts(origin, scheme) &&
           same_text(str_sub(origin, scheme.len, origin.len), host);
}

struct str serve_cookie(struct str header, struct str name)
{
    struct str pair, key;
    while (str_cut(&header, ';', &pair)) {
        pair = str_trim(pair);
        if (str_cut(&pair, '=', &key) && str_eq(str_trim(key), name)) return str_trim(pair);
    }
    return STR("");
}

#ifndef FRUGAL_HAVE_MICROHTTPD

struct str serve_argument(const struct serve_request *q, const char *name)
{
    (void)q, (void)name;
    return (struct str){ 0 };
}
i64 serve_arguments(const struct serve_request *q, struct arena *perm, struct str *out, i64 most)
{
    (void)q, (void)perm, (void)out, (void)most;
    return 0;
}
enum status serve_open(struct os *os, const struct serve_config *config, struct arena *perm,
                       struct server **out, struct err *err)
{
    (void)os, (void)config, (void)perm;
    *out = NULL;
    return err_set(err, STATUS_NO,
                   "this frugal was built without libmicrohttpd, so it cannot serve HTTP; install "
                   "libmicrohttpd-dev and build it again");
}
i32  serve_port(const struct server *s) { return s ? 0 : 0; }
void serve_close(struct server *s) { (void)s; }

#else
#include "base/thread.h"
#include <dlfcn.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { ANSWER_GIB = 1, STREAM_BLOCK = 16 << 10, IDLE_S = 20 };
static const i64 tick_ns = (i64)200000000;   /* streams are asked so often for news */
static const i64 head_ns = (i64)10000000000; /* that a connection has to ask */

/* The functions we call, by their own names: found in the library when it is loaded, since its TLS would make every
 * start of the program slower. */
/* clang-format off */
#define FUNCTIONS(F)                                                                               \
    F(MHD_start_daemon)                                                                            \
    F(MHD_stop_daemon)                                                                             \
    F(MHD_get_connection_info)                                                                     \
    F(MHD_lookup_connection_value)                                                                 \
    F(MHD_get_connection_values)                                                                   \
    F(MHD_create_response_from_buffer)                                                             \
    F(MHD_create_response_from_callback)                                                           \
    F(MHD_add_response_header)                                                                     \
    F(MHD_queue_response)                                                                          \
    F(MHD_destroy_response)                                                                        \
    F(MHD_suspend_connection)                                                                      \
    F(MHD_resume_connection)
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
    void *library = dlopen(FRUGAL_MICROHTTPD_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        lib.missing = FRUGAL_MICROHTTPD_SONAME " is not on this machine";
        return;
    }
    void *symbol;
#define F(name)                                                                                    \
    symbol = dlsym(library, #name);                                                                \
    memcpy(&lib.name, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */      \
    if (!symbol) lib.missing = FRUGAL_MICROHTTPD_SONAME " lacks " #name;
    FUNCTIONS(F)
#undef F
}

struct stream {
    struct server         *server;
    struct serve_stream    of;
    struct MHD_Connection *connection;
    bool                   used, sleeps; /* under the server's lock */
};

struct job { /* an answer that is made later; under the server's lock while nobody works on it */
    enum { JOB_FREE, JOB_WAITS, JOB_WORKS, JOB_DONE } state;
    struct MHD_Connection *connection; /* it sleeps until the job is done */
    struct serve_answer    answer;
    struct MHD_Response   *response; /* once it is done */
    i64                    turn;
};

struct caller { /* a connection */
    int  fd;    /* -1: this place is free */
    i64  since_ns;
    bool asked; /* its request was whole */
};

struct server {
    struct os          *os;
    struct serve_config config;
    struct str          cookie; /* its name, which has our port: cookies know no ports */
    struct MHD_Daemon  *daemon; /* owns the listener */
    struct file         listener;
    i32                 port;
    struct arena        answers, answers_later; /* each of its thread */
    pthread_t           thread, worker;
    pthread_mutex_t     lock;
    pthread_cond_t      changed;
    bool                stop, ticks, works;
    pthread_cond_t      asked; /* a job waits */
    i64                 turn;
    struct job          jobs[SERVE_LATER_MAX];
    struct stream       streams[SERVE_STREAMS_MAX];
    struct caller       callers[SERVE_CONNECTIONS_MAX + 8];
};

struct str serve_argument(const struct serve_request *q, const char *name)
{
    const char *value = lib.MHD_lookup_connection_value(q->connection, MHD_GET_ARGUMENT_KIND, name);
    return value ? str_of(value) : (struct str){ 0 };
}

struct collected {
    struct arena *perm;
    struct str   *out;
    i64           count, most;
};

#if MHD_VERSION < 0x00097002
typedef int mhd_result;
#else
typedef enum MHD_Result mhd_result;
#endif

static mhd_result collect(void *context, enum MHD_ValueKind kind, const char *key,
                          const char *value)
{
    struct collected *c = context;
    (void)kind;
    if (c->count < c->most && value) c->out[c->count++] = str_fmt(c->perm, "%s=%s", key, value);
    return MHD_YES;
}

i64 serve_arguments(const struct serve_request *q, struct arena *perm, struct str *out, i64 most)
{
    struct collected c = { .perm = perm, .out = out, .most = most };
    lib.MHD_get_connection_values(q->connection, MHD_GET_ARGUMENT_KIND, collect, &c);
    return c.count;
}

static struct str header_of(struct MHD_Connection *c, const char *name)
{
    const char *value = lib.MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
    return value ? str_of(value) : (struct str){ 0 };
}

/* ---- answers ---- */

static const char *const usual_headers[][2] = {
    { "Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "
                                 "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                                 "form-action 'none'; frame-ancestors 'none'" },
    { "X-Content-Type-Options", "nosniff" },
    { "Referrer-Policy", "no-referrer" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
    { "Cache-Control", "no-store" },
};

static mhd_result send_response(struct MHD_Connection *c, struct MHD_Response *r,
                                const struct serve_answer *a)
{
    if (!r) return MHD_NO;
    for (i64 i = 0; i < COUNT_OF(usual_headers); i++)
        lib.MHD_add_response_header(r, usual_headers[i][0], usual_headers[i][1]);
    lib.MHD_add_response_header(r, "Content-Type", a->type);
    if (a->header[0]) lib.MHD_add_response_header(r, a->header[0], a->header[1]);
    mhd_result sent = lib.MHD_queue_response(c, (unsigned)a->code, r);
    lib.MHD_destroy_response(r);
    return sent;
}

static struct MHD_Response *response_of(const struct serve_answer *a)
{
    static char empty[1];
    union {
        const char *from;
        void       *to;
    } body = { .from = a->body.len ? a->body.data : empty }; /* copied, whatever the type says */
    return lib.MHD_create_response_from_buffer((size_t)a->body.len, body.to, MHD_RESPMEM_MUST_COPY);
}

static mhd_result send_body(struct MHD_Connection *c, const struct serve_answer *a)
{
    return send_response(c, response_of(a), a);
}

static mhd_result refuse(struct MHD_Connection *c, i32 code, const char *why)
{
    struct serve_answer a = { .code = code,
                              .type = "text/plain; charset=utf-8",
                              .body = str_of(why) };
    return send_body(c, &a);
}

/* On the server's thread. A stream with nothing to say sleeps until the next tick. */
static ssize_t stream_read(void *context, uint64_t at, char *to, size_t bytes_max)
{
    struct stream *s = context;
    (void)at;
    i64 got = s->of.read(s->of.context, to, (i64)bytes_max);
    if (got < 0) return (ssize_t)MHD_CONTENT_READER_END_OF_STREAM;
    if (got > 0) return (ssize_t)got;
    pthread_mutex_lock(&s->server->lock);
    if (!s->server->stop) {
        lib.MHD_suspend_connection(s->connection);
        s->sleeps = true;
    }
    bool stop = s->server->stop;
    pthread_mutex_unlock(&s->server->lock);
    return stop ? (ssize_t)MHD_CONTENT_READER_END_OF_STREAM : 0;
}

static void stream_free(void *context)
{
    struct stream *s = context;
    s->of.close(s->of.context);
    pthread_mutex_lock(&s->server->lock);
    s->used = s->sleeps = false;
    pthread_mutex_unlock(&s->server->lock);
}

static mhd_result send_stream(struct server *s, struct MHD_Connection *c,
                              const struct serve_answer *a)
{
    struct stream *free = NULL;
    pthread_mutex_lock(&s->lock);
    for (i64 i = 0; i < SERVE_STREAMS_MAX && !free; i++)
        if (!s->streams[i].used) free = &s->streams[i];
    if (free)
        *free = (struct stream){ .server = s, .of = a->stream, .connection = c, .used = true };
    pthread_mutex_unlock(&s->lock);
    if (!free) {
        a->stream.close(a->stream.context);
        return refuse(c, 503, "too many viewers\n");
    }
    struct MHD_Response *r = lib.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK,
                                                                   stream_read, free, stream_free);
    if (!r) stream_free(free);
    return send_response(c, r, a);
}

/* ---- answers that are made later ---- */

static mhd_result send_later(struct server *s, struct MHD_Connection *c,
                             const struct serve_answer *a, void **kept)
{
    struct job *j = NULL;
    pthread_mutex_lock(&s->lock);
    for (i64 i = 0; i < SERVE_LATER_MAX && !j; i++)
        if (s->jobs[i].state == JOB_FREE) j = &s->jobs[i];
    if (j && !s->stop) {
        *j    = (struct job){ JOB_WAITS, c, *a, NULL, ++s->turn };
        *kept = j;
        lib.MHD_suspend_connection(c); /* on_request is called again once it is done */
        pthread_cond_signal(&s->asked);
    } else j = NULL;
    pthread_mutex_unlock(&s->lock);
    if (j) return MHD_YES;
    a->later.close(a->later.context);
    return refuse(c, 503, "too many questions at once\n");
}

static struct job *next_job(struct server *s) /* with the lock held; NULL: none waits */
{
    struct job *next = NULL;
    for (i64 i = 0; i < SERVE_LATER_MAX; i++) {
        struct job *j = &s->jobs[i];
        if (j->state == JOB_WAITS && (!next || j->turn < next->turn)) next = j;
    }
    return next;
}

static void *work(void *context)
{
    struct server *s = context;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        struct job *j = next_job(s);
        if (!j) {
            pthread_cond_wait(&s->asked, &s->lock);
            continue;
        }
        j->state = JOB_WORKS;
        pthread_mutex_unlock(&s->lock);
        struct arena here = s->answers_later;
        j->answer.body    = j->answer.later.work(j->answer.later.context, &here);
        j->response       = response_of(&j->answer);
        pthread_mutex_lock(&s->lock);
        j->state = JOB_DONE;
        lib.MHD_resume_connection(j->connection);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static struct job *job_of(struct server *s, const void *kept)
{
    for (i64 i = 0; i < SERVE_LATER_MAX; i++)
        if (kept == &s->jobs[i]) return &s->jobs[i];
    return NULL;
}

/* Its connection is awake again: the job is done, or the server stops. */
static mhd_result send_done(struct server *s, struct job *j)
{
    pthread_mutex_lock(&s->lock);
    struct MHD_Response *r = j->response;
    j->response            = NULL;
    pthread_mutex_unlock(&s->lock);
    return send_response(j->connection, r, &j->answer);
}

static void job_free(struct server *s, struct job *j)
{
    pthread_mutex_lock(&s->lock);
    struct job was = *j;
    *j             = (struct job){ 0 };
    pthread_mutex_unlock(&s->lock);
    if (was.response) lib.MHD_destroy_response(was.response);
    was.answer.later.close(was.answer.later.context);
}

/* ---- who may ask ---- */

static bool same_secret(struct str a,
                        struct str b) /* in a time that does not tell where they differ */
{
    u8 other = (u8)(a.len != b.len);
    for (i64 i = 0; i < MIN(a.len, b.len); i++) other |= (u8)(a.data[i] ^ b.data[i]);
    return !other;
}

static bool has_token(struct server *s, struct MHD_Connection *c)
{
    return s->config.token.len &&
           same_secret(serve_cookie(header_of(c, "Cookie"), s->cookie), s->config.token);
}

/* The address that was printed has the token; from here on the cookie does, so that it stands in no history and in no
 * link that somebody copies. */
static mhd_result welcome(struct server *s, struct MHD_Connection *c)
{
    struct arena         here   = s->answers;
    struct str           cookie = str_fmt(&here, "%.*s=%.*s; Path=/; HttpOnly; SameSite=Strict",
                                          STR_ARG(s->cookie), STR_ARG(s->config.token));
    struct MHD_Response *r = lib.MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (r) lib.MHD_add_response_header(r, "Location", "/");
    struct serve_answer a = { .code   = 303,
                              .type   = "text/plain",
                              .header = { "Set-Cookie", cookie.data } };
    return send_response(c, r, &a);
}

static mhd_result answer(struct server *s, struct MHD_Connection *c, const char *url,
                         const char *method, void **kept)
{
    struct arena         here = s->answers;
    struct serve_request q    = { .path = str_of(url), .connection = c };
    struct serve_answer  a    = { .code = 404,
                                  .type = "text/plain; charset=utf-8",
                                  .body = STR("not found\n") };
    struct str           host = header_of(c, "Host"), token = serve_argument(&q, "token");
    bool                 site = str_eq(header_of(c, "Sec-Fetch-Site"), STR("cross-site"));
    bool reads = !strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD);
    q.writes   = s->config.token.len && !strcmp(method, MHD_HTTP_METHOD_POST) &&
               s->config.writes.len && str_eq(q.path, s->config.writes);
    if (q.writes && str_eq(header_of(c, "Sec-Fetch-Site"), STR("same-site"))) site = true;
    if (!serve_host_is_ours(host, s->config.listen, serve_port(s)))
        return refuse(c, 403, "this Host is not served here\n");
    if (!serve_origin_is_ours(header_of(c, "Origin"), host) || (site && strcmp(url, "/")))
        return refuse(c, 403, "requests of other sites are refused\n");
    if (!reads && !q.writes) return refuse(c, 405, "only GET is answered\n");
    bool known = s->config.token.len && token.data && same_secret(token, s->config.token);
    q.trusted  = known || has_token(s, c);
    if (!q.trusted && (s->config.listen.len || q.writes))
        return refuse(c, 401, "open the address that `frugal watch` printed: it has the token\n");
    if (known && reads && !strcmp(url, "/")) return welcome(s, c);
    s->config.handler(s->config.context, &q, &here, &a);
    if (a.later.work) return send_later(s, c, &a, kept);
    return a.stream.read ? send_stream(s, c, &a) : send_body(c, &a);
}

/* ---- connections ---- */

static struct caller *caller_of(struct server *s, int fd) /* with the lock held */
{
    for (i64 i = 0; i < COUNT_OF(s->callers); i++)
        if (s->callers[i].fd == fd) return &s->callers[i];
    return NULL;
}

static int fd_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        lib.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static void note_asked(struct server *s, struct MHD_Connection *c, bool asked)
{
    pthread_mutex_lock(&s->lock);
    struct caller *k = caller_of(s, fd_of(c));
    if (k) k->asked = asked, k->since_ns = s->os->now_ns(s->os);
    pthread_mutex_unlock(&s->lock);
}

static void on_connection(void *context, struct MHD_Connection *c, void **kept,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *s  = context;
    int            fd = fd_of(c);
    (void)kept;
    pthread_mutex_lock(&s->lock);
    struct caller *k = caller_of(s, code == MHD_CONNECTION_NOTIFY_STARTED ? -1 : fd);
    if (k && code == MHD_CONNECTION_NOTIFY_STARTED)
        *k = (struct caller){ .fd = fd, .since_ns = s->os->now_ns(s->os) };
    else if (k) k->fd = -1;
    pthread_mutex_unlock(&s->lock);
}

static void on_completed(void *context, struct MHD_Connection *c, void **kept,
                         enum MHD_RequestTerminationCode code)
{
    struct job *j = job_of(context, *kept);
    (void)code;
    if (j) job_free(context, j);
    note_asked(context, c, false); /* the connection may be kept for another request */
}

static mhd_result on_request(void *context, struct MHD_Connection *c, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_bytes, void **kept)
{
    static int begun;
    (void)version, (void)upload;
    if (!*kept) { /* the head alone: wait for the rest */
        *kept = &begun;
        return MHD_YES;
    }
    if (*upload_bytes) return MHD_NO; /* nobody has anything to send us */
    struct job *j = job_of(context, *kept);
    if (j) return send_done(context, j);
    note_asked(context, c, true);
    return answer(context, c, url, method, kept);
}

/* ---- the ticker ---- */

/* Drops who does not ask; where hardly a place is left, the one that has waited longest at once. */
static void drop_idle(struct server *s)
{
    struct caller *oldest = NULL;
    i64            now_ns = s->os->now_ns(s->os), count = 0;
    for (i64 i = 0; i < COUNT_OF(s->callers); i++) {
        struct caller *k = &s->callers[i];
        if (k->fd < 0) continue;
        count++;
        if (!k->asked && now_ns - k->since_ns > head_ns) shutdown(k->fd, SHUT_RDWR);
        if (!k->asked && (!oldest || k->since_ns < oldest->since_ns)) oldest = k;
    }
    if (count < SERVE_CONNECTIONS_MAX * 3 / 4) return;
    for (i64 i = 0; i < COUNT_OF(s->callers); i++) { /* half of those that wait */
        struct caller *k = &s->callers[i];
        if (k->fd >= 0 && !k->asked && oldest && k->since_ns - oldest->since_ns <= tick_ns)
            shutdown(k->fd, SHUT_RDWR);
    }
}

static void wake_streams(struct server *s)
{
    for (i64 i = 0; i < SERVE_STREAMS_MAX; i++) {
        struct stream *t = &s->streams[i];
        if (!t->sleeps) continue;
        t->sleeps = false;
        lib.MHD_resume_connection(t->connection);
    }
}

/* Those that nobody works on any more. */
static void wake_jobs(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    for (i64 i = 0; i < SERVE_LATER_MAX; i++)
        if (s->jobs[i].state == JOB_WAITS) {
            s->jobs[i].state = JOB_DONE;
            lib.MHD_resume_connection(s->jobs[i].connection);
        }
    pthread_mutex_unlock(&s->lock);
}

static void *tick(void *context)
{
    struct server *s = context;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        thread_wait_until(&s->changed, &s->lock, s->os->now_ns(s->os) + tick_ns);
        wake_streams(s);
        drop_idle(s);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static void start_daemon(struct server *s)
{
    unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    sigset_t all, before; /* signals are for the thread that began the program */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->daemon = lib.MHD_start_daemon(
        flags, (u16)s->port, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, s->listener.fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVE_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)2 * SERVE_HEAD_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        s, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

enum status serve_open(struct os *os, const struct serve_config *config, struct arena *perm,
                       struct server **out, struct err *err)
{
    struct server *s      = NEW(perm, struct server, 1);
    struct str     listen = config->listen.len ? config->listen : STR("127.0.0.1");
    ASSERT(config->token.len || !config->listen.len);
    *out = NULL;
    pthread_once(&once, load);
    if (lib.missing) return err_set(err, STATUS_NO, "cannot serve HTTP: %s", lib.missing);
    enum status st = os->listen(os, listen, config->port, &s->listener, err);
    if (st) return st;
    s->os            = os;
    s->port          = os->port_of(os, s->listener);
    s->cookie        = str_fmt(perm, "frugal_%d", s->port);
    s->config        = *config;
    s->answers       = arena_open((i64)ANSWER_GIB << 30);
    s->answers_later = arena_open((i64)ANSWER_GIB << 30);
    if (!s->answers.begin || !s->answers_later.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    for (i64 i = 0; i < COUNT_OF(s->callers); i++) s->callers[i].fd = -1;
    ASSERT(!pthread_mutex_init(&s->lock, NULL));
    thread_cond_init(&s->changed);
    thread_cond_init(&s->asked);
    start_daemon(s);
    if (!s->daemon) st = err_set(err, STATUS_WORLD, "libmicrohttpd does not start");
    if (!st) st = thread_start(&s->thread, tick, s, "the server's clock", err);
    s->ticks = !st;
    if (!st) st = thread_start(&s->worker, work, s, "the server's second thread", err);
    s->works = !st;
    if (st) serve_close(s);
    else *out = s;
    return st;
}

i32 serve_port(const struct server *s) { return s->port; }

void serve_close(struct server *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    wake_streams(s); /* a daemon with sleepers cannot stop */
    pthread_cond_broadcast(&s->changed);
    pthread_cond_broadcast(&s->asked);
    pthread_mutex_unlock(&s->lock);
    if (s->ticks) pthread_join(s->thread, NULL);
    if (s->works) pthread_join(s->worker, NULL);
    wake_jobs(s);
    if (s->daemon) lib.MHD_stop_daemon(s->daemon);
    else s->os->close(s->os, &s->listener, NULL);
    arena_close(&s->answers);
    arena_close(&s->answers_later);
}
#endif
