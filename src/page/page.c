/* page.c - what the page's server answers: docs/formats/page.md. */
#include "base/hash.h"
#include "page/assets.h"
#include "page/page_int.h"
#include "run/ask_stop.h"
#include <math.h>
#include <string.h>
#include <sys/random.h>

enum {
    SERIES_MAX    = 24, /* runs whose curves are held */
    VIEW_RUNS_MAX = 8,  /* that one viewer follows */
    BUCKETS_MAX   = 4000,
    BUCKETS_USUAL = 700,
    SEND_POINTS   = 64, /* of a run at a time */
    SEND_BYTES    = 1 << 17,
    SCRATCH_MIB   = 256,
    TOKEN_BYTES   = 24
};
static const i64        look_ns   = (i64)150000000; /* an event log is looked at at most so often */
static const struct str stop_path = STR_INIT("/api/stop");
static const i64        ping_ns = (i64)10000000000, show_ns = (i64)5000000000;

struct held {
    struct str      run; /* empty: free */
    char            id[64];
    struct series  *series;
    struct deadline next;
    i64             used;   /* the tick of its last use */
    i64             number; /* which filling of this place it is */
};

struct page {
    struct os        *os;
    struct str        events, address;
    struct runs       runs;
    struct held       held[SERIES_MAX];
    i64               ticks;
    struct arena      scratch; /* of the server's thread */
    struct view      *views;
    struct server    *server;
    bool              copied; /* runs of another machine, which do not hear us */
    struct page_play  play;
    struct questions *questions;
};

/* ---- curves that are held ---- */

/* An id names a folder; of anything else there is no run. */
bool page_is_id(struct str s)
{
    for (i64 i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            c != '-' && c != '_')
            return false;
    }
    return s.len > 0 && s.len < (i64)sizeof((struct held *)0)->id;
}

static struct held *place_for(struct page *p)
{
    struct held *oldest = &p->held[0];
    for (i64 i = 0; i < SERIES_MAX; i++) {
        if (!p->held[i].series) return &p->held[i];
        if (p->held[i].used < oldest->used) oldest = &p->held[i];
    }
    series_close(oldest->series);
    oldest->series = NULL;
    return oldest;
}

static struct held *hold(struct page *p, struct str run)
{
    struct held *h = NULL;
    if (!page_is_id(run)) return NULL;
    for (i64 i = 0; i < SERIES_MAX && !h; i++)
        if (p->held[i].series && str_eq(p->held[i].run, run)) h = &p->held[i];
    if (!h) {
        struct arena here = p->scratch;
        h                 = place_for(p);
        memcpy(h->id, run.data, (size_t)run.len);
        h->run    = (struct str){ h->id, run.len };
        h->number = ++p->ticks;
        h->next   = deadline_in(p->os, 0);
        h->series =
            series_open(p->os, str_fmt(&here, "%.*s/%.*s", STR_ARG(p->events), STR_ARG(run)));
        if (!h->series) return NULL;
    }
    h->used = ++p->ticks;
    if (!deadline_left_ns(&h->next)) {
        series_update(h->series);
        h->next = deadline_in(p->os, look_ns);
    }
    return h;
}

/* ---- answers ---- */

static void answer_json(struct serve_answer *a, struct str body)
{
    a->code = 200;
    a->type = "application/json";
    a->body = body;
}

static void answer_runs(struct page *p, struct arena *perm, struct serve_answer *a)
{
    struct textbuf b = textbuf_new(perm);
    runs_refresh(&p->runs);
    out_open(&b, NULL, '{');
    out_i64(&b, "generation", p->runs.generation);
    out_open(&b, "runs", '[');
    for (i64 i = 0; i < p->runs.count; i++) runs_row(&b, &p->runs.items[i], p->runs.now_wall_ns);
    out_close(&b, ']');
    out_close(&b, '}');
    answer_json(a, out_whole(&b));
}

/* Where a viewer goes on with /api/live: which filling of the place, and how much of it is known. */
static struct str next_of(const struct held *h, struct arena *perm)
{
    i64 points, lines;
    series_points(h->series, &points);
    series_lines(h->series, &lines);
    return str_fmt(perm, "%lld.%lld.%lld", (long long)h->number, (long long)points,
                   (long long)lines);
}

static void answer_curve(struct page *p, const struct serve_request *q, struct arena *perm,
                         struct serve_answer *a)
{
    struct held     *h       = hold(p, serve_argument(q, "run"));
    i64              buckets = BUCKETS_USUAL;
    enum point_value x       = point_value_of(serve_argument(q, "x"));
    struct arena     here    = p->scratch;
    if (!h) return;
    str_i64(serve_argument(q, "points"), &buckets);
    buckets = MIN(MAX(buckets, 10), BUCKETS_MAX);
    if (x == POINT_VALUE_COUNT) x = POINT_step;
    struct str     next = next_of(h, &here);
    struct textbuf b    = textbuf_new(perm);
    curve_json(&b, h->series, x, buckets, next, here);
    answer_json(a, out_whole(&b));
}

static void answer_compare(struct page *p, const struct serve_request *q, struct arena *perm,
                           struct serve_answer *a)
{
    struct textbuf b = textbuf_new(perm);
    runs_refresh(&p->runs);
    runs_compare(&b, &p->runs, serve_argument(q, "runs"), p->scratch);
    answer_json(a, out_whole(&b));
}

static void answer_run(struct page *p, const struct serve_request *q, struct arena *perm,
                       struct serve_answer *a)
{
    runs_refresh(&p->runs);
    const struct run_bill *r = runs_find(&p->runs, serve_argument(q, "run"));
    struct textbuf         b = textbuf_new(perm);
    if (!r) return;
    runs_detail(&b, r, p->runs.now_wall_ns);
    struct str detail = out_whole(&b);
    detail.len -= 1; /* its end */
    answer_json(a, str_fmt(perm, "%.*s,\"stop\":\"%s\"}", STR_ARG(detail),
                           p->copied    ? "remote"
                           : q->trusted ? "yes"
                                        : "token"));
}

static void answer_plain(struct serve_answer *a, i32 code, struct str text)
{
    *a = (struct serve_answer){ .code = code, .type = "text/plain; charset=utf-8", .body = text };
}

/* The only thing that anybody can change: a run is asked to stop after its step. */
static void answer_stop(struct page *p, const struct serve_request *q, struct arena *perm,
                        struct serve_answer *a)
{
    struct err err = { 0 };
    p->runs.next   = deadline_in(p->os, 0); /* as it is now: who has ended is not asked */
    runs_refresh(&p->runs);
    const struct run_bill *r = runs_find(&p->runs, serve_argument(q, "run"));
    if (!r || !page_is_id(r->row.id) || !r->segment_count) return;
    const struct segment_row *s = &r->segments[r->segment_count - 1];
    if (p->copied) answer_plain(a, 409, STR("the run is on another machine\n"));
    else if (r->state != RUN_RUNS) answer_plain(a, 409, STR("the run has ended\n"));
    else if (!page_is_id(s->id) || ask_stop(p->os, p->events, r->row.id, s->id, p->scratch, &err))
        answer_plain(a, 409, str_fmt(perm, "%s\n", err.text));
    else answer_json(a, STR("{\"asked\":true}"));
}

/* ---- live ---- */

struct view_run {
    char id[64];
    i64  id_len, number, points, lines; /* that the viewer has */
};

struct view {
    struct page    *page;
    bool            used;
    i64             generation; /* of the list that it has; -1: it does not look at it */
    i64             row, until; /* where it goes on, to have the list of that generation */
    struct view_run runs[VIEW_RUNS_MAX];
    i64             run_count;
    struct deadline ping;
    char            text[1 << 18]; /* not yet sent */
    i64             at, len;
};

static void view_say(struct view *v, const char *event, struct str data)
{
    struct arena memory = { (u8 *)v->text + v->len, (u8 *)v->text + sizeof v->text, NULL };
    if (data.len + 64 > (i64)sizeof v->text - v->len) return;
    v->len += str_fmt(&memory, "event: %s\ndata: %.*s\n\n", event, STR_ARG(data)).len;
}

static i64 view_room(const struct view *v) { return (i64)sizeof v->text - v->len; }

static void tell_runs(struct view *v)
{
    struct runs *r = &v->page->runs;
    runs_refresh(r);
    if (v->generation < 0 || v->generation == r->generation) return;
    if (!v->row) v->until = r->generation;
    for (i64 i = v->row; i < r->count; i++) {
        struct arena   here = v->page->scratch;
        struct textbuf b    = textbuf_new(&here);
        if (r->changed[i] <= v->generation) continue;
        runs_row(&b, &r->items[i], r->now_wall_ns);
        struct str row = out_whole(&b);
        if (row.len + 128 > view_room(v) && v->len) { /* the rest in the next round */
            v->row = i;
            return;
        }
        view_say(v, "row", row);
    }
    v->generation = v->until;
    v->row        = 0;
}

/* What is new of a run: points, then other events. */
static void tell_run(struct view *v, struct view_run *of)
{
    struct held *h = hold(v->page, (struct str){ of->id, of->id_len });
    i64          points, lines;
    struct arena here = v->page->scratch;
    if (!h) return;
    if (h->number != of->number) { /* it was let go meanwhile: the viewer begins anew */
        of->number = h->number;
        series_points(h->series, &of->points);
        series_lines(h->series, &of->lines);
        view_say(v, "again", str_fmt(&here, "{\"run\":\"%.*s\"}", (int)of->id_len, of->id));
        return;
    }
    const struct point *all  = series_points(h->series, &points);
    const struct str   *text = series_lines(h->series, &lines);
    if (of->points == points && of->lines == lines) return;
    struct textbuf b     = textbuf_new(&here);
    i64            until = MIN(points, of->points + SEND_POINTS);
    out_open(&b, NULL, '{');
    out_text(&b, "run", (struct str){ of->id, of->id_len });
    out_open(&b, "points", '[');
    for (; of->points < until; of->points++) curve_point(&b, &all[of->points]);
    out_close(&b, ']');
    out_open(&b, "lines", '[');
    for (; of->lines < lines; of->lines++) {
        struct str line = text[of->lines];
        if (b.len + line.len > SEND_BYTES) break; /* a line is far shorter */
        textbuf_fmt(&b, "%.*s,", STR_ARG(line));
    }
    out_close(&b, ']');
    out_close(&b, '}');
    view_say(v, "more", out_whole(&b));
}

static i64 view_read(void *context, char *to, i64 bytes_max)
{
    struct view *v = context;
    if (v->at == v->len) {
        v->at = v->len = 0;
        tell_runs(v);
        for (i64 i = 0; i < v->run_count && view_room(v) > SEND_BYTES + SEND_BYTES / 2; i++)
            tell_run(v, &v->runs[i]);
        if (!v->len && !deadline_left_ns(&v->ping)) view_say(v, "ping", STR("{}"));
        if (!v->len) return 0;
        v->ping = deadline_in(v->page->os, ping_ns);
    }
    i64 n = MIN(bytes_max, v->len - v->at);
    memcpy(to, v->text + v->at, (size_t)n);
    v->at += n;
    return n;
}

static void view_close(void *context) { ((struct view *)context)->used = false; }

/* RUN or RUN:NUMBER.POINTS.LINES */
static void view_follow(struct view *v, struct str word)
{
    struct view_run *of = &v->runs[v->run_count];
    struct str       id, n;
    i64              numbers[3] = { -1, 0, 0 };
    if (!str_cut(&word, ':', &id) || !page_is_id(id) || v->run_count == VIEW_RUNS_MAX) return;
    for (i64 i = 0; i < 3 && str_cut(&word, '.', &n); i++)
        if (!str_i64(n, &numbers[i]) || numbers[i] < 0) return;
    *of = (struct view_run){
        .id_len = id.len, .number = numbers[0], .points = numbers[1], .lines = numbers[2]
    };
    memcpy(of->id, id.data, (size_t)id.len);
    struct held *h = hold(v->page, id);
    i64          points, lines;
    if (!h) return;
    series_points(h->series, &points);
    series_lines(h->series, &lines);
    if (of->points > points || of->lines > lines) of->number = -1; /* not of ours */
    v->run_count++;
}

static void answer_live(struct page *p, const struct serve_request *q, struct serve_answer *a)
{
    struct view *v     = NULL;
    struct str   words = serve_argument(q, "follow"), word, list = serve_argument(q, "list");
    for (i64 i = 0; i < SERVE_STREAMS_MAX && !v; i++)
        if (!p->views[i].used) v = &p->views[i];
    a->code = 503;
    if (!v) return;
    v->page = p;
    v->used = true;
    v->at = v->len = v->run_count = v->row = 0;
    v->ping                                = deadline_in(p->os, 0);
    v->generation                          = -1;
    if (list.data) str_i64(list, &v->generation);
    while (str_cut(&words, ',', &word)) view_follow(v, word);
    a->code   = 200;
    a->type   = "text/event-stream";
    a->stream = (struct serve_stream){ v, view_read, view_close };
}

static void answer_levers(struct page *p, const struct serve_request *q, struct serve_answer *a)
{
    runs_refresh(&p->runs);
    const struct run_bill *r = runs_find(&p->runs, serve_argument(q, "run"));
    if (!r || !p->play.run) return;
    if (p->copied) answer_json(a, STR("{\"error\":\"its data are on another machine\"}"));
    else if (str_eq(r->row.kind, STR("train"))) questions_run(p->questions, r, a);
    else answer_json(a, STR("{\"error\":\"only runs of frugal train can be planned\"}"));
}

static void answer_asset(struct str path, struct serve_answer *a)
{
    if (str_eq(path, STR("/"))) path = STR("/index.html");
    for (i64 i = 0; i < page_asset_count; i++)
        if (str_eq(path, str_of(page_assets[i].path)))
            *a = (struct serve_answer){ .code = 200,
                                        .type = page_assets[i].type,
                                        .body = { page_assets[i].data, page_assets[i].bytes } };
}

static void answer(void *context, const struct serve_request *q, struct arena *perm,
                   struct serve_answer *a)
{
    struct page *p = context;
    if (str_eq(q->path, STR("/api/runs"))) answer_runs(p, perm, a);
    else if (str_eq(q->path, STR("/api/run"))) answer_run(p, q, perm, a);
    else if (str_eq(q->path, stop_path) && q->writes) answer_stop(p, q, perm, a);
    else if (str_eq(q->path, stop_path))
        answer_plain(a, 405, STR("this needs POST and the token\n"));
    else if (str_eq(q->path, STR("/api/curve"))) answer_curve(p, q, perm, a);
    else if (str_eq(q->path, STR("/api/compare"))) answer_compare(p, q, perm, a);
    else if (str_eq(q->path, STR("/api/live"))) answer_live(p, q, a);
    else if (str_eq(q->path, STR("/api/levers"))) answer_levers(p, q, a);
    else if (str_eq(q->path, STR("/api/play")) && p->play.answer)
        questions_play(p->questions, q, a);
    else if (str_eq(q->path, STR("/api/choices")) && p->play.choices)
        questions_choices(p->questions, a);
    else answer_asset(q->path, a);
}

/* ---- opening and closing ---- */

struct str page_events(const struct page_config *c, struct arena *perm)
{
    struct str folder = c->ledger;
    if (c->events.len) return c->events;
    while (folder.len && folder.data[folder.len - 1] != '/') folder.len--;
    return str_fmt(perm, "%.*sevents", STR_ARG(folder));
}

static struct str new_token(struct arena *perm)
{
    u8 bytes[TOKEN_BYTES];
    while (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    } /* never fails once the machine is up */
    return hash_hex(perm, bytes, sizeof bytes);
}

enum status page_open(struct os *os, const struct page_config *config, struct arena *perm,
                      struct page **out, struct err *err)
{
    struct page *p     = NEW(perm, struct page, 1);
    struct str   token = new_token(perm),
               host    = config->listen.len ? config->listen : STR("127.0.0.1");
    enum status st     = STATUS_OK;
    *out               = NULL;
    p->os              = os;
    p->play            = config->play;
    p->copied          = config->copied;
    p->questions       = questions_new(perm, &p->play);
    p->views           = NEW(perm, struct view, SERVE_STREAMS_MAX);
    p->events          = page_events(config, perm);
    p->scratch         = arena_open((i64)SCRATCH_MIB << 20);
    if (!p->scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    st                              = runs_open(&p->runs, os, config->ledger, perm, err);
    const struct serve_config serve = { .listen  = config->listen,
                                        .port    = config->port,
                                        .token   = token,
                                        .writes  = stop_path,
                                        .handler = answer,
                                        .context = p };
    if (!st) st = serve_open(os, &serve, perm, &p->server, err);
    if (st) {
        page_close(p);
        return st;
    }
    p->address = str_fmt(perm, "http://%.*s:%d/?token=%.*s", STR_ARG(host), serve_port(p->server),
                         STR_ARG(token));
    *out       = p;
    return STATUS_OK;
}

struct str page_address(const struct page *p) { return p->address; }

bool page_show(const struct page *p, struct str at)
{
    struct arena here = p->scratch;
    bool desktop = p->os->env(p->os, "DISPLAY").len || p->os->env(p->os, "WAYLAND_DISPLAY").len;
    struct str nothing, command = str_fmt(&here, "xdg-open '%.*s%.*s' >/dev/null 2>&1",
                                          STR_ARG(p->address), STR_ARG(at));
    return desktop && !os_output_of(command.data, show_ns, 1, &here, &nothing, NULL);
}

void page_close(struct page *p)
{
    if (!p) return;
    serve_close(p->server);
    for (i64 i = 0; i < SERIES_MAX; i++)
        if (p->held[i].series) series_close(p->held[i].series);
    runs_close(&p->runs);
    arena_close(&p->scratch);
}
