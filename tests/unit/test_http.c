/* test_http.c - plain HTTP: whole, in pieces, in chunks, too slow, too much, and not HTTP at all. */
#include "base/http.h"
#include "harness.h"
#include "support/served.h"

static enum http_state parse(const char *text, bool ended, struct http_answer *out,
                             struct arena *perm)
{
    struct str copy = str_copy(perm, str_of(text));
    return http_answer_parse((char *)(uintptr_t)copy.data, copy.len, ended, out);
}

TEST(addresses)
{
    static const struct {
        const char *text, *host;
        i32         port; /* 0: none */
    } cases[] = { { "http://169.254.169.254", "169.254.169.254", 80 },
                  { "http://127.0.0.1:1338/", "127.0.0.1", 1338 },
                  { "metadata.google.internal", "metadata.google.internal", 80 },
                  { "http://[fd00:ec2::254]:81", "fd00:ec2::254", 81 },
                  { "https://127.0.0.1", "", 0 },
                  { "http://127.0.0.1/path", "", 0 },
                  { "http://", "", 0 },
                  { "host:70000", "", 0 },
                  { "[::1", "", 0 } };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct http_address a;
        struct err          err = { 0 };
        enum status         st  = http_address_parse(str_of(cases[i].text), &a, &err);
        CHECK_EQ(st, cases[i].port ? STATUS_OK : STATUS_USAGE);
        if (st) continue;
        CHECK_STR(a.host, cases[i].host);
        CHECK_EQ(a.port, cases[i].port);
    }
}

TEST(an_answer_is_whole_when_its_length_its_last_chunk_or_the_stream_ends)
{
    struct http_answer a;
    CHECK_EQ(parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: x\r\n\r\nhello", false, &a, perm),
             HTTP_WHOLE);
    CHECK_EQ(a.code, 200);
    CHECK_STR(a.body, "hello");
    CHECK_STR(http_header(&a, STR("etag")), "x");
    CHECK(!http_header(&a, STR("date")).data);
    CHECK_EQ(parse("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", false, &a, perm),
             HTTP_PART);
    CHECK_EQ(parse("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", true, &a, perm),
             HTTP_BROKEN);
    CHECK_EQ(parse("HTTP/1.0 404 Not Found\r\n\r\ngone", false, &a, perm), HTTP_PART);
    CHECK_EQ(parse("HTTP/1.0 404 Not Found\r\n\r\ngone", true, &a, perm), HTTP_WHOLE);
    CHECK_EQ(a.code, 404);
    CHECK_STR(a.body, "gone");
    const char *chunks =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    CHECK_EQ(parse(chunks, false, &a, perm), HTTP_WHOLE);
    CHECK_STR(a.body, "abcde");
    for (i64 cut = 0; cut < str_of(chunks).len - 4; cut++)
        CHECK_EQ(parse(str_z(perm, str_sub(str_of(chunks), 0, cut)), false, &a, perm), HTTP_PART);
    CHECK_EQ(parse("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, &a, perm), HTTP_BROKEN);
    CHECK_EQ(parse("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", false, &a, perm),
             HTTP_BROKEN);
    CHECK_EQ(parse("SSH-2.0-OpenSSH\r\n\r\n", false, &a, perm), HTTP_BROKEN);
}

enum manner { PLAIN, IN_PIECES, NEVER, ENDLESS, CUT };

static void answer(void *context, struct str request, struct file stream)
{
    struct os *os = os_real();
    char       rest[16];
    i64        got = 0;
    (void)request;
    switch (*(enum manner *)context) {
    case PLAIN: served_reply(stream, 200, "", STR("hello")); break;
    case IN_PIECES:
        for (const char *c = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"; *c; c++) {
            os->write(os, stream, (struct str){ c, 1 }, NULL);
            os->sleep_ns(os, 1000000);
        }
        break;
    case NEVER: /* until it has gone */
        while (!os->read(os, stream, rest, sizeof rest, -1, &got, NULL) && got) {}
        break;
    case ENDLESS: {
        static char much[4096];
        memset(much, 'x', sizeof much);
        os->write(os, stream, STR("HTTP/1.1 200 OK\r\n\r\n"), NULL);
        while (!os->write(os, stream, (struct str){ much, sizeof much }, NULL)) {}
        break;
    }
    case CUT:
        os->write(os, stream, STR("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhel"), NULL);
        break;
    }
}

TEST(a_server_may_be_slow_silent_endless_or_gone)
{
    static const struct {
        enum manner manner;
        const char *says; /* NULL: it answers well */
    } cases[] = { { PLAIN, NULL },
                  { IN_PIECES, NULL },
                  { NEVER, "did not answer completely in time" },
                  { ENDLESS, "answered too much" },
                  { CUT, "sent an answer that is not HTTP" } };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        enum manner          manner = cases[i].manner;
        struct served       *s      = served_open(perm, answer, &manner);
        struct http_question q      = { .method     = STR("GET"),
                                        .path       = STR("/x"),
                                        .to         = { STR("127.0.0.1"), served_port(s) },
                                        .connect_ns = 1000000000,
                                        .answer_ns  = manner == NEVER ? 200000000 : 10000000000 };
        struct http_answer   a;
        struct err           err   = { 0 };
        struct os           *os    = os_real();
        i64                  begin = os->now_ns(os);
        enum status          st    = http_ask(os, &q, perm, &a, &err);
        CHECK(os->now_ns(os) - begin < 5000000000); /* on a busy machine */
        served_close(s);
        CHECK_EQ(st, cases[i].says ? STATUS_WORLD : STATUS_OK);
        if (cases[i].says) CHECK(strstr(err.text, cases[i].says));
        else CHECK_STR(a.body, "hello");
    }
}
