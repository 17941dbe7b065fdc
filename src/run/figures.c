/* figures.c - the queue, and the thread that empties it into files. */
#include "base/thread.h"
#include "run/clock.h"
#include "run/figures_int.h"

enum {
    QUEUE_MAX     = 256,
    SINK_CSV      = 0,
    SINK_TB       = 1,
    SINKS         = 2,
    WARNINGS_MAX  = 4,
    RESERVE_BYTES = 1 << 20
};
static const i64 retry_ns = (i64)60 * 1000000000;

struct entry {
    bool           back; /* only the step counts: later ones did not happen */
    struct figures row;
};

struct figures_log {
    struct os         *os;
    struct figures_web web;
    struct sink        sink[SINKS];
    bool               wanted[SINKS], failing[SINKS]; /* the writer's own */
    struct deadline    retry[SINKS];
    i64                last_step; /* that was written, or gone on from */
    pthread_t          thread;
    bool               writes; /* the thread runs */
    pthread_mutex_t    lock;   /* of what follows */
    pthread_cond_t     changed;
    struct entry       queue[QUEUE_MAX];
    i64                put, taken, dropped;
    struct err         warning[WARNINGS_MAX];
    i64                warned, told;
    bool               stop;
};

static enum status (*const openers[SINKS])(struct sink *, i64, struct arena,
                                           struct err *) = { csv_sink_open, tb_sink_open };
static enum status (*const putters[SINKS])(struct sink *, const struct figures *, struct arena,
                                           struct err *) = { csv_sink_put, tb_sink_put };

const char *figure_name(enum figure f)
{
    static const char *const names[] = {
#define FIGURE(name, metric, help) #name,
        FIGURES(FIGURE)
#undef FIGURE
    };
    return names[f];
}

static void warn(struct figures_log *l, const struct err *why)
{
    pthread_mutex_lock(&l->lock);
    if (l->warned < WARNINGS_MAX) l->warning[l->warned++] = *why;
    pthread_mutex_unlock(&l->lock);
}

/* One more failure after another is not told; the first after a success is. */
static void fail(struct figures_log *l, i64 i, const struct err *why)
{
    struct sink *s = &l->sink[i];
    if (s->file.fd >= 0) l->os->close(l->os, &s->file, NULL);
    if (!l->failing[i]) warn(l, why);
    l->failing[i] = true;
    l->retry[i]   = deadline_in(l->os, retry_ns);
}

/* Opens it where that is due; false: there is nothing to write to. */
static bool is_ready(struct figures_log *l, i64 i, struct arena scratch)
{
    struct err why = { 0 };
    if (!l->wanted[i]) return false;
    if (l->sink[i].file.fd >= 0) return true;
    if (l->failing[i] && deadline_left_ns(&l->retry[i]) > 0) return false;
    enum status st = openers[i](&l->sink[i], l->last_step, scratch, &why);
    if (st) fail(l, i, &why);
    if (st == STATUS_USAGE) l->wanted[i] = false; /* it is somebody else's file */
    return !st;
}

static void write_entry(struct figures_log *l, const struct entry *e, struct arena scratch)
{
    for (i64 i = 0; i < SINKS; i++) {
        struct err why = { 0 };
        if (e->back && l->sink[i].file.fd >= 0) l->os->close(l->os, &l->sink[i].file, NULL);
        if (e->back || !is_ready(l, i, scratch)) continue;
        if (putters[i](&l->sink[i], &e->row, scratch, &why)) fail(l, i, &why);
        else l->failing[i] = false;
    }
    l->last_step = e->row.step;
}

static void *write_all(void *context)
{
    struct figures_log *l       = context;
    struct arena        scratch = arena_open(RESERVE_BYTES);
    ASSERT(scratch.begin);
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (l->taken == l->put && !l->stop) pthread_cond_wait(&l->changed, &l->lock);
        if (l->taken == l->put) break;
        struct entry e = l->queue[l->taken % QUEUE_MAX];
        l->taken++;
        pthread_mutex_unlock(&l->lock);
        write_entry(l, &e, scratch);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    for (i64 i = 0; i < SINKS; i++)
        if (l->sink[i].file.fd >= 0) l->os->close(l->os, &l->sink[i].file, NULL);
    arena_close(&scratch);
    return NULL;
}

struct figures_log *figures_open(struct os *os, struct arena *perm, const struct figures_config *c)
{
    bool files = c->log.csv.len || c->log.tensorboard.len;
    if (!files && !c->log.prometheus) return NULL;
    struct figures_log *l      = NEW(perm, struct figures_log, 1);
    struct str          metric = str_copy(perm, c->metric);
    struct err          why    = { 0 };
    *l                         = (struct figures_log){ .os = os, .last_step = c->step };
    ASSERT(!pthread_mutex_init(&l->lock, NULL));
    thread_cond_init(&l->changed);
    for (i64 i = 0; i < SINKS; i++) {
        l->sink[i]      = (struct sink){ .os = os, .metric = metric, .file = { -1 } };
        struct str p    = i == SINK_CSV ? c->log.csv : c->log.tensorboard;
        l->sink[i].path = str_copy(perm, p);
        l->wanted[i]    = p.len > 0;
    }
    l->web = (struct figures_web){ .run = str_copy(perm, c->run), .metric = metric };
    if (c->log.prometheus && figures_web_open(&l->web, os, (i32)c->log.prometheus, perm, &why))
        warn(l, &why);
    if (!files) return l;
    if (thread_start(&l->thread, write_all, l, "the thread that writes figures", &why))
        warn(l, &why);
    else l->writes = true;
    return l;
}

static void enqueue(struct figures_log *l, const struct entry *e)
{
    if (!l->writes) return;
    pthread_mutex_lock(&l->lock);
    if (l->put - l->taken < QUEUE_MAX) l->queue[l->put++ % QUEUE_MAX] = *e;
    else if (!l->dropped++ && l->warned < WARNINGS_MAX)
        err_set(&l->warning[l->warned++], STATUS_WORLD,
                "the disk is too slow for log.csv or log.tensorboard: rows are dropped");
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

void figures_put(struct figures_log *l, const struct figures *f)
{
    if (!l) return;
    figures_web_put(&l->web, f);
    enqueue(l, &(struct entry){ .row = *f });
}

void figures_back(struct figures_log *l, i64 step)
{
    if (l) enqueue(l, &(struct entry){ .back = true, .row.step = step });
}

bool figures_warning(struct figures_log *l, struct err *err)
{
    if (!l) return false;
    pthread_mutex_lock(&l->lock);
    bool some = l->told < l->warned;
    if (some) *err = l->warning[l->told++];
    pthread_mutex_unlock(&l->lock);
    return some;
}

i32 figures_port(const struct figures_log *l)
{
    return l->web.server ? serve_port(l->web.server) : 0;
}

void figures_close(struct figures_log *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (l->writes) pthread_join(l->thread, NULL);
    figures_web_close(&l->web);
}
