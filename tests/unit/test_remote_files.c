#include "base/rng.h"
#include "harness.h"
#include "remote/files.h"
#include "support/fake_s3.h"
#include "support/served.h"
#include <pthread.h>

/* --- a real server on loopback ----------------------------------------------------------------------- */

enum { FILE_BYTES = 300000 };

struct server {
    char         bytes[FILE_BYTES];
    atomic_llong requests;
    atomic_llong ill; /* so many requests to come are answered with 503, or cut off */
    atomic_bool  no_ranges, changed;
};

static void send_file(struct server *s, struct str request, struct file stream)
{
    char        head[256];
    struct os  *os    = os_real();
    const char *range = memmem(request.data, (size_t)request.len, "Range: bytes=", 13);
    long long   from = 0, to = FILE_BYTES - 1;
    if (range) sscanf(range + 13, "%lld-%lld", &from, &to);
    to      = MIN(to, FILE_BYTES - 1);
    int len = snprintf(head, sizeof head,
                       "HTTP/1.1 %s\r\nContent-Range: bytes %lld-%lld/%d\r\nETag: \"%d\"\r\n"
                       "Connection: close\r\nContent-Length: %lld\r\n\r\n",
                       s->no_ranges ? "200 OK" : "206 Partial Content", from, to, FILE_BYTES,
                       s->changed ? 8 : 7, s->no_ranges ? (long long)FILE_BYTES : to - from + 1);
    os->write(os, stream, (struct str){ head, len }, NULL);
    if (s->no_ranges) os->write(os, stream, (struct str){ s->bytes, FILE_BYTES }, NULL);
    else os->write(os, stream, (struct str){ s->bytes + from, to - from + 1 }, NULL);
}

static void serve(void *context, struct str request, struct file stream)
{
    struct server *s      = context;
    i64            number = atomic_fetch_add(&s->requests, 1);
    if (atomic_load(&s->ill) > 0) {
        atomic_fetch_sub(&s->ill, 1);
        if (number % 2) served_reply(stream, 503, "", STR("busy"));
        else /* half an answer */
            os_real()->write(os_real(), stream,
                             STR("HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\n\r\nhal"),
                             NULL);
    } else if (served_asks(request, "GET /gone")) served_reply(stream, 404, "", STR("gone"));
    else if (served_asks(request, "GET /moved"))
        served_reply(stream, 302, "Location: /file.tar\r\n", STR(""));
    else if (served_asks(request, "GET /round"))
        served_reply(stream, 301, "Location: /round\r\n", STR(""));
    else if (served_asks(request, "GET /empty"))
        served_reply(stream, 416, "Content-Range: bytes */0\r\n", STR(""));
    else send_file(s, request, stream);
}

struct http_world {
    struct server       *server;
    struct served       *served;
    struct remote_files *remote;
    struct str           url;
};

static struct http_world http_new(struct arena *perm)
{
    struct web *probe;
    if (web_open(os_real(), perm, &probe, NULL)) SKIP("no libcurl");
    web_close(probe);
    struct http_world w = { .server = NEW(perm, struct server, 1) };
    for (i64 i = 0; i < FILE_BYTES; i++) w.server->bytes[i] = (char)rng_mix((u64)i);
    w.served = served_open(perm, serve, w.server);
    w.remote = remote_files_open(os_real(), NULL, &(struct s3_settings){ 0 }, perm);
    w.url    = str_cat(perm, served_url(w.served, perm), STR("/file.tar?key=secret"));
    return w;
}

static void http_end(struct http_world *w)
{
    remote_files_close(w->remote);
    served_close(w->served);
}

TEST(a_range_comes_over_http_whatever_goes_wrong_on_the_way)
{
    struct http_world  w   = http_new(perm);
    char              *to  = NEW(perm, char, FILE_BYTES);
    struct err         err = { 0 };
    struct remote_file f;
    CHECK(!remote_file_stat(w.remote, w.url, NULL, &f, &err));
    CHECK_EQ(f.bytes, FILE_BYTES);
    CHECK_STR(f.tag, "\"7\"");
    w.server->ill = 3;
    CHECK(!remote_file_read(w.remote, w.url, &f, 1000, 250000, to, NULL, &err));
    CHECK(!memcmp(to, w.server->bytes + 1000, 250000));
    CHECK_EQ(w.server->requests, 5);
    struct str moved = str_cat(perm, served_url(w.served, perm), STR("/moved"));
    CHECK(!remote_file_read(w.remote, moved, &f, FILE_BYTES - 1, 1, to, NULL, &err));
    CHECK_EQ(to[0], w.server->bytes[FILE_BYTES - 1]);
    CHECK(!remote_file_stat(w.remote, str_cat(perm, served_url(w.served, perm), STR("/empty")),
                            NULL, &f, &err));
    CHECK_EQ(f.bytes, 0);
    http_end(&w);
}

/* Where libcurl itself fails, nobody above has put the address into a sentence yet. */
TEST(what_libcurl_cannot_reach_is_a_sentence_without_secrets)
{
    static const char *const urls[] = { "http://me:hunter2@127.0.0.1:1/file?key=hunter2",
                                        "nothing://me:hunter2@127.0.0.1:1/file?key=hunter2" };
    struct web              *web;
    if (web_open(os_real(), perm, &web, NULL)) SKIP("no libcurl");
    for (i64 i = 0; i < COUNT_OF(urls); i++) {
        struct web_request r   = { .method          = STR("GET"),
                                   .url             = str_of(urls[i]),
                                   .limit_ns        = 10000000000,
                                   .reply_bytes_max = 1000,
                                   .direct          = true };
        struct err         err = { 0 };
        struct web_reply   reply;
        CHECK(web->send(web, &r, perm, &reply, &err));
        CHECK(strstr(err.text, "127.0.0.1:1/file"));
        CHECK(!strstr(err.text, "hunter2"));
    }
    web_close(web);
}

TEST(what_http_cannot_give_is_a_sentence_without_secrets)
{
    struct http_world  w    = http_new(perm);
    struct str         base = served_url(w.served, perm);
    struct err         err  = { 0 };
    struct remote_file f;
    atomic_bool        stop = true;
    char               to[10];
    CHECK_EQ(remote_file_stat(w.remote, str_cat(perm, base, STR("/gone")), NULL, &f, &err),
             STATUS_NO);
    CHECK(strstr(err.text, "/gone"));
    CHECK_EQ(remote_file_stat(w.remote, str_cat(perm, base, STR("/round")), NULL, &f, &err),
             STATUS_WORLD);
    CHECK(strstr(err.text, "301"));
    CHECK(!remote_file_stat(w.remote, w.url, NULL, &f, &err));
    w.server->changed = true;
    CHECK_EQ(remote_file_read(w.remote, w.url, &f, 0, 10, to, NULL, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "changed"));
    CHECK(!strstr(err.text, "secret"));
    w.server->no_ranges = true;
    CHECK_EQ(remote_file_stat(w.remote, w.url, NULL, &f, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "range requests"));
    w.server->ill = 1000;
    CHECK_EQ(remote_file_stat(w.remote, w.url, &stop, &f, &err), STATUS_INTERRUPTED);
    http_end(&w);
}

/* --- a host without an address ----------------------------------------------------------------------- */

struct lost {
    struct web web;
    i64        sent, found_at; /* requests so far; the one that finds the host, from 1 */
};

static enum status lost_send(struct web *web, const struct web_request *q, struct arena *perm,
                             struct web_reply *reply, struct err *err)
{
    struct lost *l = web->context;
    (void)q, (void)perm;
    *reply            = (struct web_reply){ .status = 404 };
    reply->unresolved = ++l->sent != l->found_at;
    return reply->unresolved ? err_set(err, STATUS_WORLD, "no such host") : STATUS_OK;
}

/* Its name is probably wrong: five tries in some seconds, not fourteen in a minute. A host that has answered before is
 * waited for as after any other fault. */
TEST(a_host_that_nobody_has_found_yet_is_given_up_soon)
{
    struct os os;
    fake_s3_new(perm, &os);
    struct s3_settings how   = fake_s3_settings();
    how.limit_ns             = (i64)60 * 1000000000;
    struct lost          l   = { .web = { .context = &l, .send = lost_send } };
    struct err           err = { 0 };
    struct remote_file   f;
    struct str           url    = STR("https://nowhere.invalid/x.tar");
    struct remote_files *remote = remote_files_open(&os, &l.web, &how, perm);
    i64                  begin  = os.now_ns(&os);
    CHECK_EQ(remote_file_stat(remote, url, NULL, &f, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "no such host"));
    CHECK(l.sent <= 5);
    CHECK(os.now_ns(&os) - begin < (i64)5 * 1000000000);
    l = (struct lost){ .web = l.web, .found_at = 1 };
    CHECK_EQ(remote_file_stat(remote, url, NULL, &f, &err),
             STATUS_NO); /* there, and it answers 404 */
    l.sent = 0, l.found_at = 6;
    CHECK_EQ(remote_file_stat(remote, url, NULL, &f, &err), STATUS_NO);
    CHECK_EQ(l.sent, 6);
    remote_files_close(remote);

    struct s3 *s;
    l     = (struct lost){ .web = l.web };
    begin = os.now_ns(&os);
    CHECK(!s3_open(&os, &l.web, &how, perm, &s, &err));
    CHECK(s3_put(s, STR("run/a.tar"), STR("0123456789"), scratch, &err));
    CHECK(strstr(err.text, "no such host"));
    CHECK(l.sent <= 5);
    CHECK(os.now_ns(&os) - begin < (i64)5 * 1000000000);
}

/* --- an object store ------------------------------------------------------------------------------- */

TEST(a_range_comes_from_a_bucket_and_only_of_the_version_that_was_seen)
{
    struct os            os;
    struct fake_s3      *fake   = fake_s3_new(perm, &os);
    struct s3_settings   how    = fake_s3_settings();
    struct remote_files *remote = remote_files_open(&os, &fake->web, &how, perm);
    struct s3           *s;
    struct remote_file   f;
    struct err           err = { 0 };
    char                 to[8];
    struct str           url = STR("s3://bucket/run/a.tar");
    CHECK(!s3_open(&os, &fake->web, &how, perm, &s, &err));
    CHECK(!s3_put(s, STR("run/a.tar"), STR("0123456789"), scratch, &err));
    CHECK(!remote_file_stat(remote, url, NULL, &f, &err));
    CHECK_EQ(f.bytes, 10);
    CHECK(!remote_file_read(remote, url, &f, 3, 4, to, NULL, &err));
    CHECK_STR(((struct str){ to, 4 }), "3456");
    fake->torn_at = fake->requests + 1;
    CHECK(!remote_file_read(remote, url, &f, 5, 2, to, NULL, &err));
    CHECK(!s3_put(s, STR("run/a.tar"), STR("9876543210"), scratch, &err));
    CHECK_EQ(remote_file_read(remote, url, &f, 3, 4, to, NULL, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "changed"));
    CHECK_EQ(remote_file_stat(remote, STR("s3://bucket/run/b.tar"), NULL, &f, &err), STATUS_NO);
    CHECK_EQ(remote_file_stat(remote, STR("s3://bucket"), NULL, &f, &err), STATUS_USAGE);
    struct s3_sums asked = remote_files_stores(remote); /* that a bill is made of */
    CHECK_EQ(asked.puts, 0);
    CHECK(asked.gets >= 4 && asked.bytes_in >= 4);
    remote_files_close(remote);
}
