/* figures_web.c - Prometheus text (exposition format 0.0.4) on 127.0.0.1, by the server that shows the page too. */
#include "run/clock.h"
#include "run/figures_int.h"
#include <math.h>
#include <string.h>

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

static void answer(void *context, const struct serve_request *q, struct arena *perm,
                   struct serve_answer *a)
{
    struct figures_web *w = context, copy;
    a->body               = STR("see /metrics\n");
    if (!str_eq(q->path, STR("/metrics")) && !str_eq(q->path, STR("/"))) return;
    pthread_mutex_lock(&w->lock);
    copy = (struct figures_web){ .run = w->run, .metric = w->metric, .now = w->now, .any = w->any };
    pthread_mutex_unlock(&w->lock);
    a->code = 200;
    a->type = "text/plain; version=0.0.4; charset=utf-8";
    a->body = figures_web_text(&copy, perm);
}

enum status figures_web_open(struct figures_web *w, struct os *os, i32 port, struct arena *perm,
                             struct err *err)
{
    const struct serve_config config = { .port = port, .handler = answer, .context = w };
    ASSERT(!pthread_mutex_init(&w->lock, NULL));
    return serve_open(os, &config, perm, &w->server, err);
}

/* What a row leaves out stays as it was known last. */
void figures_web_put(struct figures_web *w, const struct figures *f)
{
    if (!w->server) return;
    pthread_mutex_lock(&w->lock);
    struct figures before = w->now;
    w->now                = *f;
    for (i64 i = 0; w->any && i < FIGURE_COUNT; i++)
        if (isnan(f->value[i])) w->now.value[i] = before.value[i];
    if (!f->split_known) w->now.split_known = before.split_known, w->now.split = before.split;
    w->any = true;
    pthread_mutex_unlock(&w->lock);
}

void figures_web_close(struct figures_web *w) { serve_close(w->server); }
