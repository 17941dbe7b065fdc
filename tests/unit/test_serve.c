/* test_serve.c - who the server takes for its own, and what it answers over a real socket. */
#include "base/http.h"
#include "harness.h"
#include "remote/serve.h"
#include <stdatomic.h>
#include <string.h>

TEST(only_names_of_this_machine_are_ours)
{
    static const char *const ours[]   = { "127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080",
                                          "[::1]:8080", "10.1.2.3:8080" };
    static const char *const others[] = { "",
                                          "127.0.0.1",
                                          "localhost",
                                          "127.0.0.1:808",
                                          "127.0.0.1:80800",
                                          "127.0.0.1:8080 ",
                                          "127.0.0.1:8080.evil",
                                          "localhost.evil:8080",
                                          "evil:8080",
                                          "127.0.0.1:",
                                          "127.0.0.1:808e1",
                                          "127.0.0.1:08080",
                                          "127.0.0.1:8_080",
                                          "10.1.2.4:8080" };
    for (i64 i = 0; i < COUNT_OF(ours); i++)
        CHECK(serve_host_is_ours(str_of(ours[i]), STR("10.1.2.3"), 8080));
    for (i64 i = 0; i < COUNT_OF(others); i++)
        CHECK(!serve_host_is_ours(str_of(others[i]), STR("10.1.2.3"), 8080));
    CHECK(serve_host_is_ours(STR("localhost"), STR(""), 80));
    CHECK(!serve_host_is_ours(STR("10.1.2.3:8080"), STR(""), 8080));
}

TEST(an_origin_is_the_host_of_its_request)
{
    struct str host = STR("127.0.0.1:8080");
    CHECK(serve_origin_is_ours((struct str){ 0 }, host));
    CHECK(serve_origin_is_ours(STR("http://127.0.0.1:8080"), host));
    CHECK(!serve_origin_is_ours(STR("null"), host));
    CHECK(!serve_origin_is_ours(STR(""), host));
    CHECK(!serve_origin_is_ours(STR("https://127.0.0.1:8080"), host));
    CHECK(!serve_origin_is_ours(STR("http://127.0.0.1:8080.evil"), host));
    CHECK(!serve_origin_is_ours(STR("http://localhost:8080"), host));
}

TEST(a_cookie_is_found_among_others)
{
    CHECK_STR(serve_cookie(STR("a=1; frugal_80=x; b=2"), STR("frugal_80")), "x");
    CHECK_STR(serve_cookie(STR("frugal_80=x=y"), STR("frugal_80")), "x=y");
    CHECK_STR(serve_cookie(STR("frugal_8080=x"), STR("frugal_80")), "");
    CHECK_STR(serve_cookie(STR(";;=;frugal_80"), STR("frugal_80")), "");
    CHECK_STR(serve_cookie((struct str){ 0 }, STR("frugal_80")), "");
}

/* A handler of a page, an echo of an argument, and a stream of three bytes. */
struct three {
    atomic_llong sent, closed;
};

static i64 three_read(void *context, char *to, i64 bytes_max)
{
    struct three *t = context;
    i64           n = atomic_fetch_add(&t->sent, 1);
    if (n == 6) return -1;
    if (n % 2) return 0; /* nothing now: it is asked again */
    CHECK(bytes_max > 0);
    *to = 'x';
    return 1;
}

static void three_close(void *context) { atomic_fetch_add(&((struct three *)context)->closed, 1); }

static void handle(void *context, const struct serve_request *q, struct arena *perm,
                   struct serve_answer *a)
{
    if (str_eq(q->path, STR("/echo")))
        *a = (struct serve_answer){ .code = 200,
                                    .type = "text/plain",
                                    .body = str_copy(perm, serve_argument(q, "word")) };
    if (str_eq(q->path, STR("/three")))
        *a = (struct serve_answer){ .code   = 200,
                                    .type   = "text/plain",
                                    .stream = { context, three_read, three_close } };
}

static struct http_answer ask(const struct server *s, const char *path, struct arena *perm)
{
    struct http_question q   = { .method     = STR("GET"),
                                 .path       = str_of(path),
                                 .to         = { STR("127.0.0.1"), serve_port(s) },
                                 .host       = str_fmt(perm, "127.0.0.1:%d", serve_port(s)),
                                 .header     = "Connection: close\r\n",
                                 .connect_ns = (i64)60000000000,
                                 .answer_ns  = (i64)60000000000 };
    struct http_answer   a   = { 0 };
    struct err           err = { 0 };
    CHECK_EQ(http_ask(os_real(), &q, perm, &a, &err), STATUS_OK);
    return a;
}

TEST(requests_are_answered_and_streams_end)
{
    struct three        t      = { 0 };
    struct serve_config config = { .handler = handle, .context = &t };
    struct server      *s;
    struct err          err = { 0 };
    enum status         st  = serve_open(os_real(), &config, perm, &s, &err);
    if (st == STATUS_NO) SKIP("no libmicrohttpd");
    CHECK_EQ(st, STATUS_OK);
    struct http_answer a = ask(s, "/echo?word=a%20b", perm);
    CHECK_EQ(a.code, 200);
    CHECK_STR(a.body, "a b");
    CHECK(http_header(&a, STR("Content-Security-Policy")).len > 0);
    CHECK_EQ(ask(s, "/nowhere", perm).code, 404);
    CHECK_STR(ask(s, "/three", perm).body, "xxx");
    serve_close(s);
    CHECK_EQ(atomic_load(&t.closed), 1);
}

/* A stream that sleeps while the server stops is closed. */
static i64 silent_read(void *context, char *to, i64 bytes_max)
{
    (void)bytes_max;
    if (atomic_fetch_add(&((struct three *)context)->sent, 1)) return 0;
    *to = '.';
    return 1;
}

static void handle_silent(void *context, const struct serve_request *q, struct arena *perm,
                          struct serve_answer *a)
{
    (void)q, (void)perm;
    *a = (struct serve_answer){ .code   = 200,
                                .type   = "text/plain",
                                .stream = { context, silent_read, three_close } };
}

TEST(a_server_stops_while_somebody_listens)
{
    struct three        t      = { 0 };
    struct serve_config config = { .handler = handle_silent, .context = &t };
    struct server      *s;
    struct file         f  = { -1 };
    struct os          *os = os_real();
    enum status         st = serve_open(os, &config, perm, &s, NULL);
    if (st == STATUS_NO) SKIP("no libmicrohttpd");
    CHECK_EQ(st, STATUS_OK);
    CHECK_EQ(os->connect(os, STR("127.0.0.1"), serve_port(s), (i64)60000000000, &f, NULL),
             STATUS_OK);
    struct str question =
        str_fmt(perm, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", serve_port(s));
    CHECK_EQ(os->write(os, f, question, NULL), STATUS_OK);
    while (atomic_load(&t.sent) < 3) os->sleep_ns(os, 10000000);
    serve_close(s);
    CHECK_EQ(atomic_load(&t.closed), 1);
    os->close(os, &f, NULL);
}

/* ---- answers that take long ---- */

struct slow {
    atomic_llong begun, may_end, closed;
};

static struct str slow_work(void *context, struct arena *perm)
{
    struct slow *t = context;
    i64          n = atomic_fetch_add(&t->begun, 1) + 1;
    while (atomic_load(&t->may_end) < n) os_real()->sleep_ns(os_real(), 1000000);
    return str_fmt(perm, "answer %lld", (long long)n);
}

static void slow_close(void *context) { atomic_fetch_add(&((struct slow *)context)->closed, 1); }

static void handle_slow(void *context, const struct serve_request *q, struct arena *perm,
                        struct serve_answer *a)
{
    (void)perm;
    *a = (struct serve_answer){ .code = 200, .type = "text/plain", .body = STR("quick") };
    if (str_eq(q->path, STR("/slow")))
        a->later = (struct serve_later){ context, slow_work, slow_close };
}

static struct file ask_slow(const struct server *s, struct arena *perm)
{
    struct file f  = { -1 };
    struct os  *os = os_real();
    struct str  question =
        str_fmt(perm, "GET /slow HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n",
                serve_port(s));
    CHECK_EQ(os->connect(os, STR("127.0.0.1"), serve_port(s), (i64)60000000000, &f, NULL),
             STATUS_OK);
    CHECK_EQ(os->write(os, f, question, NULL), STATUS_OK);
    return f;
}

/* All that comes until the connection ends. */
static struct str heard(struct file f, struct arena *perm)
{
    struct os     *os   = os_real();
    struct arena   text = arena_part(perm, 1 << 16);
    struct textbuf b    = textbuf_new(&text);
    char           bytes[1024];
    i64            got = 0;
    while (!os->read(os, f, bytes, sizeof bytes, -1, &got, NULL) && got > 0)
        textbuf_add(&b, (struct str){ bytes, got });
    os->close(os, &f, NULL);
    return textbuf_str(&b);
}

TEST(others_are_served_while_an_answer_is_made)
{
    struct slow         t      = { 0 };
    struct serve_config config = { .handler = handle_slow, .context = &t };
    struct server      *s;
    enum status         st = serve_open(os_real(), &config, perm, &s, NULL);
    if (st == STATUS_NO) SKIP("no libmicrohttpd");
    CHECK_EQ(st, STATUS_OK);
    struct file first = ask_slow(s, perm);
    while (!atomic_load(&t.begun)) os_real()->sleep_ns(os_real(), 1000000);
    struct file second = ask_slow(s, perm);
    for (i64 i = 0; i < 20; i++) CHECK_STR(ask(s, "/", perm).body, "quick");
    CHECK_EQ(atomic_load(&t.begun), 1); /* one at a time */
    atomic_store(&t.may_end, 2);
    CHECK(str_ends(heard(first, perm), STR("answer 1")));
    CHECK(str_ends(heard(second, perm), STR("answer 2")));
    serve_close(s);
    CHECK_EQ(atomic_load(&t.closed), 2);
}

/* More than there are places for are refused, and nobody waits for those whose caller is gone. */
TEST(there_are_so_many_places)
{
    enum { MORE = 4 };
    struct slow         t      = { 0 };
    struct serve_config config = { .handler = handle_slow, .context = &t };
    struct server      *s;
    struct file         f[SERVE_LATER_MAX + MORE];
    i64                 refused = 0, answered = 0;
    enum status         st = serve_open(os_real(), &config, perm, &s, NULL);
    if (st == STATUS_NO) SKIP("no libmicrohttpd");
    CHECK_EQ(st, STATUS_OK);
    for (i64 i = 0; i < COUNT_OF(f); i++) f[i] = ask_slow(s, perm);
    while (atomic_load(&t.closed) < MORE) os_real()->sleep_ns(os_real(), 1000000);
    atomic_store(&t.may_end, COUNT_OF(f));
    for (i64 i = 0; i < COUNT_OF(f); i++) {
        struct str text = heard(f[i], perm);
        refused += str_starts(text, STR("HTTP/1.1 503"));
        answered += str_starts(text, STR("HTTP/1.1 200"));
    }
    CHECK_EQ(refused, MORE);
    CHECK_EQ(answered, SERVE_LATER_MAX);
    serve_close(s);
    CHECK_EQ(atomic_load(&t.closed), COUNT_OF(f));
}

TEST(a_server_stops_while_answers_are_made)
{
    struct slow         t      = { 0 };
    struct serve_config config = { .handler = handle_slow, .context = &t };
    struct server      *s;
    struct file         f[3];
    enum status         st = serve_open(os_real(), &config, perm, &s, NULL);
    if (st == STATUS_NO) SKIP("no libmicrohttpd");
    CHECK_EQ(st, STATUS_OK);
    for (i64 i = 0; i < COUNT_OF(f); i++) f[i] = ask_slow(s, perm);
    while (!atomic_load(&t.begun)) os_real()->sleep_ns(os_real(), 1000000);
    atomic_store(&t.may_end, 1); /* others still wait, or have not even been read */
    serve_close(s);
    i64 begun = atomic_load(&t.begun);
    CHECK(begun >= 1);
    CHECK(atomic_load(&t.closed) >= begun);
    for (i64 i = 0; i < COUNT_OF(f); i++) os_real()->close(os_real(), &f[i], NULL);
}
