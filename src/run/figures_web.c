/* figures_web.c - Prometheus text (exposition format 0.0.4) on 127.0.0.1. One thread serves all readers, none of which
 * waits for another: each has a second to ask, and where too many dawdle the oldest goes. */
#include "base/thread.h"
#include "run/clock.h"
#include "run/figures_int.h"
#include <math.h>
#include <string.h>

enum { QUESTION_BYTES_MAX = 4096, ANSWER_BYTES = 1 << 16, READERS_MAX = 32 };
static const i64        question_ns = (i64)1000000000, retry_ns = (i64)50000000;
static const struct str loopback = STR_INIT("127.0.0.1");

static const char *const metrics[][2] = {
#define FIGURE(name, metric, help) { metric, help },
    FIGURES(FIGURE)
#undef FIGURE
};

/* A label's value: backslash, quote and line end are escaped. */
static void add_label(struct textbuf *b, struct str s)
{
    for (i64 i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c == '\\' || c == '"') textbuf_fmt(b, "\\%c", c);
        else if (c == '\n') textbuf_fmt(b, "\\n");
        else textbuf_fmt(b, "%c", c);
    }
}

static void add_family(struct textbuf *b, const char *name, const char *kind, const char *help)
{
    textbuf_fmt(b, "# HELP frugal_%s %s\n# TYPE frugal_%s %s\n", name, help, name, kind);
}

/* frugal_NAME{run="…" */
static void add_sample(struct textbuf *b, const struct figures_web *w, const char *name)
{
    textbuf_fmt(b, "frugal_%s{run=\"", name);
    add_label(b, w->run);
    textbuf_fmt(b, "\"");
}

static void add_value(struct textbuf *b, f64 v)
{
    textbuf_fmt(b, "} ");
    if (isfinite(v)) textbuf_f64(b, v);
    else textbuf_fmt(b, v > 0 ? "+Inf" : "-Inf");
    textbuf_fmt(b, "\n");
}

struct str figures_web_text(const struct figures_web *w, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    add_family(&b, "up", "gauge", "1 while the run is active");
    add_sample(&b, w, "up");
    add_value(&b, 1);
    if (!w->any) return textbuf_str(&b);
    add_family(&b, "step", "gauge", "steps done");
    add_sample(&b, w, "step");
    add_value(&b, (f64)w->now.step);
    for (i64 i = 0; i < FIGURE_COUNT; i++) {
        if (isnan(w->now.value[i])) continue;
        add_family(&b, metrics[i][0], "gauge", metrics[i][1]);
        add_sample(&b, w, metrics[i][0]);
        if (i == FIGURE_eval_value) {
            textbuf_fmt(&b, ",metric=\"");
            add_label(&b, w->metric);
            textbuf_fmt(&b, "\"");
        }
        add_value(&b, w->now.value[i]);
    }
    if (!w->now.split_known) return textbuf_str(&b);
    add_family(&b, "split_seconds_total", "counter", "where this process's time went, by part");
    for (i64 i = 0; i < PART_LOOP_COUNT; i++) {
        add_sample(&b, w, "split_seconds_total");
        textbuf_fmt(&b, ",part=\"%s\"", clock_part_name((enum part)i));
        add_value(&b, (f64)w->now.split.ns[i] * 1e-9);
    }
    return textbuf_str(&b);
}

struct reader {
    struct file     f;
    struct deadline until; /* that it has to ask */
    i64             count;
    char            question[QUESTION_BYTES_MAX];
};

struct readers {
    struct reader *of[READERS_MAX]; /* the oldest first; behind `count` those that are free */
    i64            count;
};

static void answer(struct figures_web *w, const struct reader *r, struct arena scratch)
{
    struct figures_web copy;
    struct str         question = { r->question, r->count }, body = STR("see /metrics\n");
    const char        *status = "404 Not Found";
    if (!str_starts(question, STR("GET "))) {
        status = "405 Method Not Allowed";
    } else if (str_starts(question, STR("GET /metrics ")) || str_starts(question, STR("GET / "))) {
        pthread_mutex_lock(&w->lock);
        copy = (struct figures_web){
            .run = w->run, .metric = w->metric, .now = w->now, .any = w->any
        };
        pthread_mutex_unlock(&w->lock);
        status = "200 OK";
        body   = figures_web_text(&copy, &scratch);
    }
    struct str head =
        str_fmt(&scratch,
                "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                "Content-Length: %lld\r\nConnection: close\r\n\r\n",
                status, (long long)body.len);
    struct str all = str_cat(&scratch, head,
                             body); /* less than a socket holds: nobody has to read for it to go */
    w->os->write(w->os, r->f, all, NULL);
}

static bool is_stopped(struct figures_web *w)
{
    pthread_mutex_lock(&w->lock);
    bool stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return stop;
}

static void drop(struct figures_web *w, struct readers *all, i64 i)
{
    struct reader *r = all->of[i];
    w->os->close(w->os, &r->f, NULL);
    all->count--;
    memmove(all->of + i, all->of + i + 1, (size_t)(all->count - i) * sizeof *all->of);
    all->of[all->count] = r;
}

static void greet(struct figures_web *w, struct readers *all)
{
    struct file f      = { -1 };
    bool        failed = w->os->accept(w->os, w->listener, 0, &f, NULL);
    if (all->count && (failed || all->count == READERS_MAX))
        drop(w, all, 0); /* failed: too many files are open */
    else if (failed) w->os->sleep_ns(w->os, retry_ns);
    if (failed) return;
    struct reader *r = all->of[all->count++];
    r->f             = f;
    r->count         = 0;
    r->until         = deadline_in(w->os, question_ns);
}

/* What it has said so far; an empty line ends a question. */
static void listen_to(struct figures_web *w, struct readers *all, i64 i, struct arena scratch)
{
    struct reader *r   = all->of[i];
    i64            got = 0;
    if (w->os->read(w->os, r->f, r->question + r->count, QUESTION_BYTES_MAX - r->count, -1, &got,
                    NULL))
        got = 0;
    r->count += got;
    bool whole = str_ends((struct str){ r->question, r->count }, STR("\r\n\r\n"));
    if (whole) answer(w, r, scratch);
    if (whole || !got || r->count == QUESTION_BYTES_MAX) drop(w, all, i);
}

static void serve_once(struct figures_web *w, struct readers *all, struct arena scratch)
{
    struct file streams[READERS_MAX + 1] = { w->listener };
    i64         left_ns = all->count ? deadline_left_ns(&all->of[0]->until) : question_ns;
    for (i64 i = 0; i < all->count; i++) streams[i + 1] = all->of[i]->f;
    i64 ready = os_wait_any(streams, all->count + 1, left_ns);
    if (ready == 0) greet(w, all);
    if (ready > 0) listen_to(w, all, ready - 1, scratch);
    while (all->count && !deadline_left_ns(&all->of[0]->until)) drop(w, all, 0);
}

static void *serve(void *context)
{
    struct figures_web *w = context;
    struct arena   room   = arena_open(2 * ANSWER_BYTES + READERS_MAX * (i64)sizeof(struct reader));
    struct readers all    = { 0 };
    if (!room.begin) return NULL;
    struct arena   scratch = room;
    struct reader *readers = NEW(&scratch, struct reader, READERS_MAX);
    for (i64 i = 0; i < READERS_MAX; i++) all.of[i] = &readers[i];
    while (!is_stopped(w)) serve_once(w, &all, scratch);
    while (all.count) drop(w, &all, 0);
    arena_close(&room);
    return NULL;
}

enum status figures_web_open(struct figures_web *w, struct os *os, i32 port, struct err *err)
{
    w->os          = os;
    enum status st = os->listen(os, loopback, port, &w->listener, err);
    if (st) return st;
    w->port = os->port_of(os, w->listener);
    ASSERT(!pthread_mutex_init(&w->lock, NULL));
    st = thread_start(&w->thread, serve, w, "the thread that answers Prometheus", err);
    if (st) os->close(os, &w->listener, NULL);
    return st;
}

/* What a row leaves out stays as it was known last. */
void figures_web_put(struct figures_web *w, const struct figures *f)
{
    if (w->listener.fd < 0) return;
    pthread_mutex_lock(&w->lock);
    struct figures before = w->now;
    w->now                = *f;
    for (i64 i = 0; w->any && i < FIGURE_COUNT; i++)
        if (isnan(f->value[i])) w->now.value[i] = before.value[i];
    if (!f->split_known) w->now.split_known = before.split_known, w->now.split = before.split;
    w->any = true;
    pthread_mutex_unlock(&w->lock);
}

/* A connection of our own wakes the thread that waits for one. */
void figures_web_close(struct figures_web *w)
{
    struct file f = { -1 };
    if (w->listener.fd < 0) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    w->os->connect(w->os, loopback, w->port, question_ns, &f, NULL);
    pthread_join(w->thread, NULL);
    if (f.fd >= 0) w->os->close(w->os, &f, NULL);
    w->os->close(w->os, &w->listener, NULL);
}
