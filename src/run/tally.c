/* tally.c - the thread behind spent.json. The file is replaced by a rename and never synced: a kill leaves
 * a whole one, and after a power cut the checkpoints and the ledger know enough. */
#include "run/tally.h"
#include "base/json.h"
#include "base/thread.h"
#include "run/ledger.h"
#include <ctype.h>
#include <math.h>

enum { MEMORY_BYTES = 1 << 16, ID_MAX = 32 };

/* A kill loses what came after the last writing, so that is often: some 50 us on a local disk. A folder on a network
 * file system is written less often, a hundredth of the time, but once a second however slow it is: no step waits
 * for it. */
static const i64 every_least_ns = (i64)100000000, every_most_ns = (i64)1000000000,
                 cost_factor = 100;

struct tally {
    struct os        *os;
    struct str        path, part;
    struct bill      *bill;
    struct arena      memory; /* the thread's */
    pthread_t         thread;
    pthread_mutex_t   lock; /* of all below */
    pthread_cond_t    changed;
    bool              stop, wake; /* wake: write at once */
    struct tally_file now;
};

static struct str path_of(struct str folder, struct arena *perm)
{
    return str_fmt(perm, "%.*s/%s", STR_ARG(folder), TALLY_FILE);
}

/* Of a run or a segment: hexadecimal digits; else empty. */
static struct str id_at(const struct json *root, const char *key, struct arena *perm)
{
    const struct json *v = json_get(root, str_of(key));
    if (!v || v->kind != JSON_STRING || v->text.len > ID_MAX) return STR("");
    for (i64 i = 0; i < v->text.len; i++)
        if (!isxdigit((unsigned char)v->text.data[i])) return STR("");
    return str_copy(perm, v->text);
}

/* No negative times, and none that sums could overflow with. */
static i64 ns_at(const struct json *root, const char *key)
{
    i64                ns = 0;
    const struct json *v  = json_get(root, str_of(key));
    return v && json_i64(v, &ns) && ns > 0 && ns < INT64_MAX / 1024 ? ns : 0;
}

struct tally_file tally_read(struct os *os, struct str folder, struct arena *perm)
{
    struct tally_file f = { .spent.usd = NAN };
    struct str        text;
    struct json      *root, *usd, *recorded;
    if (os_read_all(os, path_of(folder, perm), perm, &text, NULL) ||
        json_parse(perm, text, &root, NULL))
        return f;
    usd          = json_get(root, STR("usd"));
    recorded     = json_get(root, STR("recorded"));
    f.run        = id_at(root, "run", perm);
    f.segment    = id_at(root, "segment", perm);
    f.missed     = id_at(root, "missed", perm);
    f.spent.ns   = ns_at(root, "ns");
    f.segment_ns = ns_at(root, "segment_ns");
    f.missed_ns  = ns_at(root, "missed_ns");
    f.recorded   = recorded && recorded->kind == JSON_BOOL && str_eq(recorded->text, STR("true"));
    if (!usd || !json_f64(usd, &f.spent.usd) || !(f.spent.usd >= 0)) f.spent.usd = NAN;
    return f;
}

static struct str text_of(struct tally *t, struct arena *perm)
{
    i64            own_ns;
    struct textbuf b     = textbuf_new(perm);
    struct spent   spent = bill_spent_by(t->bill, &own_ns);
    pthread_mutex_lock(&t->lock);
    struct tally_file f = t->now;
    pthread_mutex_unlock(&t->lock);
    textbuf_fmt(&b, "{\"run\":");
    json_add_string(&b, f.run);
    textbuf_fmt(&b, ",\"ns\":%lld,\"usd\":", (long long)spent.ns);
    json_add_f64(&b, spent.usd);
    textbuf_fmt(&b, ",\"segment\":");
    json_add_string(&b, f.segment);
    textbuf_fmt(&b, ",\"segment_ns\":%lld,\"recorded\":%s,\"missed\":", (long long)own_ns,
                f.recorded ? "true" : "false");
    json_add_string(&b, f.missed);
    textbuf_fmt(&b, ",\"missed_ns\":%lld}\n", (long long)f.missed_ns);
    return textbuf_str(&b);
}

/* Where it cannot be written (a full disk) the next second tries again. */
static void write_file(struct tally *t)
{
    struct arena scratch = t->memory;
    struct file  f       = { -1 };
    struct str   text    = text_of(t, &scratch);
    os_private(true); /* this thread writes nothing else */
    enum status st = t->os->create(t->os, t->part, &f, NULL);
    if (!st) st = t->os->write(t->os, f, text, NULL);
    if (f.fd >= 0 && t->os->close(t->os, &f, NULL)) st = STATUS_WORLD;
    if (!st) t->os->rename(t->os, t->part, t->path, NULL);
}

static void *work(void *context)
{
    struct tally *t    = context;
    bool          stop = false;
    while (!stop) {
        i64 begin_ns = clock_now(bill_clock(t->bill));
        write_file(t);
        i64 cost_ns  = clock_now(bill_clock(t->bill)) - begin_ns;
        i64 until_ns = begin_ns + MIN(MAX(every_least_ns, cost_factor * cost_ns), every_most_ns);
        pthread_mutex_lock(&t->lock);
        while (!t->stop && !t->wake && thread_wait_until(&t->changed, &t->lock, until_ns)) {}
        stop    = t->stop;
        t->wake = false;
        pthread_mutex_unlock(&t->lock);
    }
    write_file(t);
    return NULL;
}

/* What the ledger has not heard of waits for a start that it hears of. */
static void take_over(struct tally_file *now, const struct tally_file *before)
{
    bool all       = before->recorded || !before->segment.len;
    now->missed_ns = before->missed_ns + (all ? 0 : before->segment_ns);
    now->missed    = before->missed.len ? before->missed : before->segment;
    if (!now->missed_ns) now->missed = STR("");
}

enum status tally_open(struct os *os, struct str folder, struct str run,
                       const struct tally_file *before, struct bill *bill, struct arena *perm,
                       struct tally **out, struct err *err)
{
    struct tally *t = NEW(perm, struct tally, 1);
    while (folder.len > 1 && str_ends(folder, STR("/"))) folder.len--;
    t->os          = os_beneath(os, folder, perm);
    t->bill        = bill;
    t->path        = path_of(folder, perm);
    t->part        = str_cat(perm, t->path, STR(".part"));
    t->memory      = arena_part(perm, MEMORY_BYTES);
    t->now.run     = str_copy(perm, run);
    t->now.segment = ledger_new_id(perm);
    if (str_eq(before->run, run)) take_over(&t->now, before);
    ASSERT(!pthread_mutex_init(&t->lock, NULL));
    thread_cond_init(&t->changed);
    enum status st =
        thread_start(&t->thread, work, t, "the thread that counts what was spent", err);
    if (!st) *out = t;
    return st;
}

struct str tally_segment(const struct tally *t) { return t->now.segment; }

void tally_recorded(struct tally *t)
{
    pthread_mutex_lock(&t->lock);
    t->now.recorded  = true;
    t->now.missed    = STR("");
    t->now.missed_ns = 0;
    t->wake          = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void tally_close(struct tally *t)
{
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    os_beneath_end(t->os);
}
