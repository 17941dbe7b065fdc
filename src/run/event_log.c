/* event_log.c - lines in memory under a lock, and their way to a file. */
#include "run/event_log.h"
#include "base/json.h"
#include <pthread.h>
#include <string.h>

enum { LINE_BYTES = 1 << 15 };

static const f64 gap_s    = 1,
                 gap_part = 1e-3; /* between two steps: at least, and as a part of the run's age */

struct event_log {
    struct os        *os;
    struct str        path; /* empty: not known yet */
    char              name[4096];
    struct arena      line;           /* of the run's thread */
    f64               step_s, eval_s; /* no step, no evaluation is due before the run is so old */
    struct event_step last;           /* the newest; its texts are constants */
    i64               last_wall_ns;   /* when it came */
    bool              pending;        /* it is not written */
    pthread_mutex_t   lock;           /* of the rest */
    char             *buffer;
    i64               len, written, dropped;
    struct file       file; /* of the ledger's thread, as is what it writes; -1: not made yet */
    char             *out;
};

struct event_log *event_log_new(struct arena *perm, struct os *os)
{
    struct event_log *l = NEW(perm, struct event_log, 1);
    ASSERT(!pthread_mutex_init(&l->lock, NULL));
    l->os     = os;
    l->line   = arena_part(perm, LINE_BYTES);
    l->buffer = NEW(perm, char, EVENT_LOG_BUFFER);
    l->out    = NEW(perm, char, EVENT_LOG_BUFFER);
    l->file   = (struct file){ -1 };
    return l;
}

void event_log_to(struct event_log *l, struct str path)
{
    ASSERT(path.len <= (i64)sizeof l->name);
    memcpy(l->name, path.data, (size_t)path.len);
    l->path = (struct str){ l->name, path.len };
}

struct str event_log_path(const struct event_log *l) { return l->path; }

i64 event_log_bytes(struct event_log *l)
{
    pthread_mutex_lock(&l->lock);
    i64 n = l->written;
    pthread_mutex_unlock(&l->lock);
    return n;
}

i64 event_log_dropped(struct event_log *l)
{
    pthread_mutex_lock(&l->lock);
    i64 n = l->dropped;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* The end has room in any case. */
static void add_line(struct event_log *l, struct str line, bool last)
{
    i64 most = last ? EVENT_LOG_BYTES + EVENT_LOG_BUFFER : EVENT_LOG_BYTES;
    i64 room = last ? EVENT_LOG_BUFFER : EVENT_LOG_BUFFER - LINE_BYTES;
    pthread_mutex_lock(&l->lock);
    bool fits = l->len + line.len <= room && l->written + l->len + line.len <= most;
    if (fits) memcpy(l->buffer + l->len, line.data, (size_t)line.len);
    if (fits) l->len += line.len;
    l->dropped += !fits;
    pthread_mutex_unlock(&l->lock);
}

static bool is_due(f64 *next_s, f64 elapsed_s)
{
    if (elapsed_s < *next_s) return false;
    *next_s = elapsed_s + MAX(gap_s, gap_part * elapsed_s);
    return true;
}

static void write_event(struct event_log *l, enum event_kind kind, const void *event, i64 wall_ns)
{
    struct arena   scratch = l->line;
    struct textbuf b       = textbuf_new(&scratch);
    event_json(kind, event, &b);
    struct str line  = textbuf_str(&b);
    struct str whole = str_fmt(&scratch, "%.*s,\"wall_ns\":%lld}\n", (int)line.len - 1, line.data,
                               (long long)wall_ns);
    add_line(l, whole, kind == EVENT_done);
}

static void write_step(struct event_log *l)
{
    event_step_fill(&l->last);
    write_event(l, EVENT_step, &l->last, l->last_wall_ns);
    l->pending = false;
}

static bool is_crowded(struct event_log *l)
{
    pthread_mutex_lock(&l->lock);
    bool crowded = l->written + l->len > EVENT_LOG_BYTES / 4;
    pthread_mutex_unlock(&l->lock);
    return crowded;
}

/* The lists of a large program's memory fill more than a line may. */
static bool is_long(enum event_kind kind, const void *event)
{
    if (kind != EVENT_profile_memory) return false;
    const struct event_profile_memory *m     = event;
    i64                                bytes = 21 * m->use_bytes.count;
    for (i64 i = 0; i < m->holders.count; i++) bytes += 6 * m->holders.items[i].name.len + 48;
    return bytes > LINE_BYTES / 4;
}

static void drop(struct event_log *l)
{
    pthread_mutex_lock(&l->lock);
    l->dropped++;
    pthread_mutex_unlock(&l->lock);
}

/* The step that an evaluation, a checkpoint or the end follows is written before it: rows of the ledger name it. */
static void on_event(void *context, enum event_kind kind, const void *event)
{
    struct event_log *l = context;
    if (!event_rows[kind].field_count) return;
    if (kind == EVENT_step) {
        l->last         = *(const struct event_step *)event;
        l->last_wall_ns = l->os->wall_ns(l->os);
        l->pending      = true;
        if (is_due(&l->step_s, l->last.elapsed_s)) write_step(l);
        return;
    }
    if (kind == EVENT_eval) {
        const struct event_eval *e = event;
        if (!is_due(&l->eval_s, e->elapsed_s) && !e->target_reached && is_crowded(l)) return;
    }
    if (is_long(kind, event)) {
        drop(l);
        return;
    }
    if (l->pending && kind != EVENT_note && kind != EVENT_finding) write_step(l);
    write_event(l, kind, event, l->os->wall_ns(l->os));
}

struct subscriber event_log_subscriber(struct event_log *l, const struct subscriber *next)
{
    return (struct subscriber){ .context = l, .next = next, .on_event = on_event };
}

enum status event_log_text(struct event_log *l, struct arena *perm, struct str *text,
                           struct err *err)
{
    *text = STR("");
    return l->file.fd < 0 ? STATUS_OK : os_read_all(l->os, l->path, perm, text, err);
}

static enum status make_file(struct event_log *l, struct err *err)
{
    struct str folder = l->path;
    while (folder.len && folder.data[folder.len - 1] != '/') folder.len--;
    os_private(true); /* settings and paths are nobody else's business */
    enum status st = folder.len ? l->os->make_dir(l->os, folder, err) : STATUS_OK;
    return st ? st : l->os->create(l->os, l->path, &l->file, err);
}

enum status event_log_flush(struct event_log *l, struct err *err)
{
    enum status st = STATUS_OK;
    pthread_mutex_lock(&l->lock);
    struct str lines = { l->out, l->len };
    memcpy(l->out, l->buffer, (size_t)l->len);
    pthread_mutex_unlock(&l->lock);
    if (!lines.len || !l->path.len) return STATUS_OK;
    if (l->file.fd < 0) st = make_file(l, err);
    if (!st) st = l->os->write(l->os, l->file, lines, err);
    if (st) return st;
    pthread_mutex_lock(&l->lock);
    l->written += lines.len;
    l->len -= lines.len;
    memmove(l->buffer, l->buffer + lines.len, (size_t)l->len);
    pthread_mutex_unlock(&l->lock);
    return STATUS_OK;
}

void event_log_close(struct event_log *l)
{
    if (l && l->file.fd >= 0) l->os->close(l->os, &l->file, NULL);
}

/* When it came; 0: the line does not say. */
static i64 wall_of(struct str line, struct arena scratch)
{
    struct json       *root;
    const struct json *v;
    i64                ns = 0;
    if (json_parse(&scratch, line, &root, NULL)) return 0;
    v = json_get(root, STR("wall_ns"));
    return v && json_i64(v, &ns) ? ns : 0;
}

enum status event_log_replay(struct str lines, const struct subscriber *to, i64 *wall_ns,
                             struct arena scratch, struct err *err)
{
    struct str line;
    while (str_cut(&lines, '\n', &line)) {
        struct arena    here = scratch;
        union event_any event;
        enum event_kind kind;
        enum status     st = event_read(line, &here, &kind, &event, err);
        if (st == STATUS_NO) continue;
        if (st && !lines.len) break; /* cut off by a kill */
        if (st) return st;
        if (wall_ns) *wall_ns = wall_of(line, here);
        events_emit(to, kind, &event);
    }
    return STATUS_OK;
}
