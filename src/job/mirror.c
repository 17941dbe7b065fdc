/* mirror.c - rows and event logs of a store, read again while they grow. */
#include "job/mirror.h"
#include "base/hash.h"
#include "base/thread.h"
#include "job/checkpoint_cost.h"
#include "job/shelf.h"
#include <string.h>

enum { OBJECTS_MAX = 1 << 16, MEMORY_GIB = 4, RENEW_S = 10, LOG_BYTES_MAX = 32 << 20 };

struct seen {
    u64 key; /* hash of the object's name; 0: free */
    i64 bytes;
};

struct mirror {
    struct os      *os;
    struct str      address, folder, ledger;
    struct shelf    shelf;
    struct arena    memory, scratch;
    struct seen    *seen;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            stop, runs;
};

static struct seen *seen_of(struct mirror *m, struct str key)
{
    u64 hash = str_hash(key) | 1;
    for (i64 i = 0; i < OBJECTS_MAX; i++) {
        struct seen *s = &m->seen[(hash + (u64)i) % OBJECTS_MAX];
        if (!s->key) s->key = hash;
        if (s->key == hash) return s;
    }
    return NULL;
}

/* "…/FOLDER/NAME.jsonl" */
static bool lies_in(struct str key, struct str folder, struct str *name)
{
    i64 at = key.len;
    while (at > 0 && key.data[at - 1] != '/') at--;
    *name = str_sub(key, at, key.len);
    return str_ends(key, STR(".jsonl")) && str_ends(str_sub(key, 0, at), folder);
}

/* A name that can only mean a file in its folder: the store may be of anybody. */
static bool is_plain(struct str s)
{
    for (i64 i = 0; i < s.len; i++)
        if (s.data[i] == '/' || !s.data[i]) return false;
    return s.len > 0 && s.len < 100 && s.data[0] != '.';
}

/* The id of the run that a log is of: its first line has it. */
static struct str run_of(struct str lines, struct arena *perm)
{
    union event_any event;
    enum event_kind kind;
    struct str      line;
    if (!str_cut(&lines, '\n', &line) || event_read(line, perm, &kind, &event, NULL))
        return STR("");
    return kind == EVENT_open ? event.open.run : kind == EVENT_start ? event.start.run : STR("");
}

static enum status keep_log(struct mirror *m, struct str name, struct str lines, struct arena here,
                            struct err *err)
{
    struct str run = run_of(lines, &here);
    if (!is_plain(run) || !is_plain(name)) return STATUS_OK; /* none of ours */
    struct str  folder = str_fmt(&here, "%.*s/events/%.*s", STR_ARG(m->folder), STR_ARG(run));
    struct str  path   = str_fmt(&here, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
    enum status st     = m->os->make_dir(m->os, folder, err);
    return st ? st : os_publish(m->os, path, lines, here, err);
}

static enum status keep_rows(struct mirror *m, struct str lines, struct arena here, struct err *err)
{
    struct ledger *l;
    i64            rows;
    enum status    st = ledger_open(m->os, m->ledger, &here, &l, err);
    if (st) return st;
    st = ledger_import(l, lines, here, &rows, err);
    ledger_close(l);
    return st;
}

static enum status renew_one(struct mirror *m, const struct s3_object *o, struct arena here,
                             struct err *err)
{
    struct str   name, lines;
    bool         log = lies_in(o->key, STR("events/"), &name);
    struct seen *s   = seen_of(m, o->key);
    if (!log && !lies_in(o->key, STR("ledger/"), &name)) return STATUS_OK;
    if (!s || !o->bytes || o->bytes > LOG_BYTES_MAX || (log && s->bytes == o->bytes))
        return STATUS_OK;
    enum status st = s3_get_range(m->shelf.s3, o->key, 0, o->bytes, &here, &lines, err);
    if (!st) st = log ? keep_log(m, name, lines, here, err) : keep_rows(m, lines, here, err);
    if (!st) s->bytes = o->bytes;
    return st;
}

/* Every object below the prefix; one that fails keeps no other away. */
static enum status renew(struct mirror *m, struct err *err)
{
    struct arena   here  = m->memory;
    struct s3_list found = { 0 };
    enum status    first = STATUS_OK;
    bool           was   = os_private(true); /* settings and paths are nobody else's business */
    first = s3_list(m->shelf.s3, s3_prefix(m->shelf.s3), STR(""), &here, m->scratch, &found, err);
    for (i64 i = 0; i < found.count; i++) {
        struct err  why;
        enum status st = renew_one(m, &found.objects[i], here, &why);
        if (st && !first) {
            first = st;
            if (err) *err = why;
        }
    }
    os_private(was);
    return first;
}

static void *work(void *context)
{
    struct mirror *m = context;
    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        thread_wait_until(&m->changed, &m->lock, moment_now(m->os) + (i64)RENEW_S * 1000000000);
        if (m->stop) break;
        pthread_mutex_unlock(&m->lock);
        renew(m, NULL);
        pthread_mutex_lock(&m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* A folder of its own for each address, beside this machine's ledger. */
static struct str folder_of(struct os *os, struct str address, struct arena *perm)
{
    struct str folder = ledger_path(os, os->env(os, "FRUGAL_RUN_LEDGER"), perm);
    while (folder.len && folder.data[folder.len - 1] != '/') folder.len--;
    return str_fmt(perm, "%.*swatched/%.*s", STR_ARG(folder),
                   STR_ARG(str_sub(sha256_hex(perm, address), 0, 12)));
}

enum status mirror_open(struct mirror **out, struct os *os, struct str address, struct arena *perm,
                        struct err *err)
{
    struct mirror     *m     = NEW(perm, struct mirror, 1);
    struct s3_settings where = object_store_here(os, address);
    *out                     = NULL;
    m->os                    = os;
    m->address               = address;
    m->folder                = folder_of(os, address, perm);
    m->ledger                = str_cat(perm, m->folder, STR("/ledger.db"));
    m->memory                = arena_open((i64)MEMORY_GIB << 30);
    m->scratch               = arena_open((i64)MEMORY_GIB << 30);
    m->seen                  = NEW(perm, struct seen, OBJECTS_MAX);
    ASSERT(!pthread_mutex_init(&m->lock, NULL));
    thread_cond_init(&m->changed);
    if (!m->memory.begin || !m->scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = shelf_open(&m->shelf, os, &where, perm, err);
    if (!st) st = os->make_dir(os, m->folder, err);
    if (!st) st = renew(m, err);
    if (!st) st = thread_start(&m->thread, work, m, "the thread that reads the object store", err);
    m->runs = !st;
    if (st) mirror_close(m);
    else *out = m;
    return st;
}

struct str mirror_ledger(const struct mirror *m) { return m->ledger; }

void mirror_close(struct mirror *m)
{
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (m->runs) {
        s3_cancel(m->shelf.s3);
        pthread_join(m->thread, NULL);
    }
    shelf_close(&m->shelf);
    if (m->memory.begin) arena_close(&m->memory);
    if (m->scratch.begin) arena_close(&m->scratch);
}
