#include "support/served.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct served {
    struct file listener;
    served_fn  *answer;
    void       *context;
    pthread_t   thread;
    atomic_bool closing;
};

static void serve_one(struct served *s, struct file stream)
{
    struct os *os = os_real();
    char       text[8192];
    i64        len = 0, got = 1;
    while (len < (i64)sizeof text && !memmem(text, (size_t)len, "\r\n\r\n", 4)) {
        if (os->read(os, stream, text + len, (i64)sizeof text - len, -1, &got, NULL) || !got)
            return;
        len += got;
    }
    s->answer(s->context, (struct str){ text, len }, stream);
}

static void *serve(void *context)
{
    struct served *s  = context;
    struct os     *os = os_real();
    while (!s->closing) {
        struct file stream;
        if (os->accept(os, s->listener, 20000000, &stream, NULL)) continue;
        serve_one(s, stream);
        os->close(os, &stream, NULL);
    }
    return NULL;
}

struct served *served_open(struct arena *perm, served_fn *answer, void *context)
{
    struct served *s  = NEW(perm, struct served, 1);
    struct os     *os = os_real();
    s->answer         = answer;
    s->context        = context;
    ASSERT(os->listen(os, STR("127.0.0.1"), 0, &s->listener, NULL) == STATUS_OK);
    ASSERT(pthread_create(&s->thread, NULL, serve, s) == 0);
    return s;
}

i32 served_port(struct served *s) { return os_real()->port_of(os_real(), s->listener); }

struct str served_url(struct served *s, struct arena *perm)
{
    return str_fmt(perm, "http://127.0.0.1:%d", served_port(s));
}

void served_close(struct served *s)
{
    s->closing = true;
    pthread_join(s->thread, NULL);
    os_real()->close(os_real(), &s->listener, NULL);
}

bool served_asks(struct str request, const char *part)
{
    return memmem(request.data, (size_t)request.len, part, strlen(part)) != NULL;
}

void served_reply(struct file stream, int code, const char *headers, struct str body)
{
    struct arena scratch = arena_open(1 << 20);
    struct str   text    = str_fmt(
             &scratch, "HTTP/1.1 %d -\r\n%sConnection: close\r\nContent-Length: %lld\r\n\r\n%.*s", code,
             headers, (long long)body.len, STR_ARG(body));
    os_real()->write(os_real(), stream, text, NULL);
    arena_close(&scratch);
}
