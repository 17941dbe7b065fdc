/* recorder.c - the thread that keeps a run's rows in the ledger up to date.
 *
 *     the run's thread    now, queue[made % QUEUE]   under the lock, a few copies
 *     ours                beat: copies `now` under the lock; then, without it, one transaction:
 *                         run and price where they changed, segment, queue[taken, made)
 *
 * A slot of the queue is the run's until it is counted in `made`, ours until counted in `taken`.
 * When the disk hangs and the queue is full, further rows are dropped; that is told. */
#include "run/recorder.h"
#include "base/hash.h"
#include "base/thread.h"
#include "run/bill.h"
#include "run/run_int.h"
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE = 64, TEXT_BYTES = 2048, TEXTS_BYTES = 1 << 20 };
enum { LEDGER_GIB = 4, FETCH_GIB = 1 }; /* address space */

static const i64 beat_default_ns = 10000000000, summary_ns = 60000000000;

/* Some runs evaluate a thousand times a second: summaries are this far apart, and a part of the
 * run's time so far, so that a segment of any length has some hundreds of them. */
static const i64 eval_gap_ns = 100000000, eval_gap_part = 32;

struct queued {
    enum ledger_table table;
    union ledger_any  row;
    u8                text[TEXT_BYTES];
};

struct recorder {
    struct os             *os;
    struct recorder_config config;
    struct arena           memory; /* of the ledger, anew at each try to open it */
    struct arena           spare;  /* what the ledger leaves of it */
    struct ledger         *ledger; /* NULL: not open yet */

    pthread_t          thread;
    pthread_mutex_t    lock; /* of all below */
    pthread_cond_t     changed;
    struct arena       texts; /* of the rows */
    struct run_row     run;
    struct segment_row now;
    struct queued     *queue;
    i64                made, taken;
    i64                steps_before; /* -1: not read yet */
    struct err         failure;      /* of the newest try; status OK: it went well */
    bool               warned, stop, done;
    bool               wake;       /* a checkpoint waits: the next heartbeat is now */
    i64                eval_at_ns; /* of the last evaluation's summary */

    bool run_known; /* ours: the rows of run and price are as they should be */
    bool fetched;   /* the store's rows are in the ledger */
    bool put_due;   /* the store's copy of ours is older than the newest checkpoint */
    i64  summary_at_ns;
};

/* ---- what the machine says of itself ---- */

static struct str first_line(struct os *os, const char *path, struct arena *perm)
{
    struct str text;
    if (os_read_all(os, str_of(path), perm, &text, NULL)) return STR("");
    return str_trim(text);
}

static i64 machine_age_ns(void)
{
    struct timespec up;
    clock_gettime(CLOCK_BOOTTIME, &up); /* time asleep included */
    return (i64)up.tv_sec * 1000000000 + up.tv_nsec;
}

static struct segment_row segment_new(struct os *os, const struct segment_row *known,
                                      struct arena *perm)
{
    struct segment_row s;
    char               host[256] = { 0 };
    row_copy(&ledger_tables[LEDGER_TABLE_segment], &s, known, perm);
    gethostname(host, sizeof host - 1);
    s.id            = ledger_new_id(perm);
    s.step          = s.step_from;
    s.loss          = NAN;
    s.value         = NAN;
    s.energy_wh     = NAN;
    s.busy          = NAN;
    s.version       = STR(FRUGAL_VERSION);
    s.machine       = str_copy(perm, str_of(host));
    s.boot          = first_line(os, "/proc/sys/kernel/random/boot_id", perm);
    s.begin_wall_ns = os->wall_ns(os) - os_process_age_ns();
    s.boot_wall_ns  = os->wall_ns(os) - machine_age_ns();
    return s;
}

static struct str price_id(const struct price_row *p, struct arena *perm)
{
    struct price_row p0 = *p;
    struct textbuf   b  = textbuf_new(perm);
    p0.id               = STR("");
    row_write(&ledger_tables[LEDGER_TABLE_price], &p0, &b);
    return str_sub(sha256_hex(perm, textbuf_str(&b)), 0, 12);
}

/* Of a rented machine: from its start, or from the end of its last segment, to the process. */
static void add_before(struct recorder *r, const struct segment_row *others, i64 count)
{
    i64  free_ns = r->now.boot_wall_ns; /* since then nothing ran */
    bool first   = true;
    for (i64 i = 0; i < count; i++) {
        const struct segment_row *s = &others[i];
        if (str_eq(s->id, r->now.id)) continue;
        first   = false;
        free_ns = MAX(free_ns, s->begin_wall_ns + s->metered_ns - s->booting_ns - s->idle_ns);
    }
    account_add(r->config.account, first ? TERM_booting : TERM_idle,
                MAX(r->now.begin_wall_ns - free_ns, 0));
}

/* ---- a heartbeat ---- */

/* What earlier segments did, and how this machine was used before: once, when the ledger opens. */
static enum status read_before(struct recorder *r, struct arena scratch, struct err *err)
{
    struct segment_row *s;
    struct run_row     *run;
    i64                 count, step = 0, begin_ns = r->now.begin_wall_ns;
    enum status         st =
        ledger_read(r->ledger, LEDGER_TABLE_segment, "run", r->run.id, &scratch, &s, &count, err);
    for (i64 i = 0; i < count && !st; i++) step = MAX(step, s[i].step);
    if (!st)
        st = ledger_read(r->ledger, LEDGER_TABLE_run, "id", r->run.id, &scratch, &run, &count, err);
    if (!st && count) begin_ns = run[0].begin_wall_ns;
    if (!st && r->config.rented)
        st = ledger_read(r->ledger, LEDGER_TABLE_segment, "boot", r->now.boot, &scratch, &s, &count,
                         err);
    if (st) return st;
    if (r->config.rented) add_before(r, s, count);
    pthread_mutex_lock(&r->lock);
    r->steps_before      = step;
    r->run.begin_wall_ns = begin_ns;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return STATUS_OK;
}

/* On a fresh machine the store knows what earlier segments did. */
static enum status fetch(struct recorder *r, struct err *err)
{
    const struct recorder_store *store   = r->config.store;
    struct arena                 scratch = r->spare;
    struct str                   lines   = STR("");
    i64                          rows;
    if (!store || r->fetched) return STATUS_OK;
    struct arena text = arena_part(&scratch, (i64)FETCH_GIB << 30);
    enum status  st   = store->fetch(store->context, &text, &lines, err);
    if (!st && lines.len) st = ledger_import(r->ledger, lines, scratch, &rows, err);
    r->fetched = !st;
    return st;
}

/* The segment as the ledger has it now, to the store. */
static enum status publish(struct recorder *r, struct err *err)
{
    const struct recorder_store *store   = r->config.store;
    struct arena                 scratch = r->spare;
    struct str                   lines;
    struct arena                 text = arena_part(&scratch, (i64)FETCH_GIB << 30);
    enum status st = ledger_export(r->ledger, r->run.id, r->now.id, &text, &lines, err);
    if (!st) st = store->put(store->context, r->now.id, lines, scratch, err);
    r->put_due &= st != STATUS_OK;
    return st;
}

/* With the store, where there is one: what fails is due again at the next heartbeat. */
static enum status trade(struct recorder *r, struct err *err)
{
    if (!r->config.store) return STATUS_OK;
    enum status st = fetch(r, err);
    return !st && r->put_due ? publish(r, err) : st;
}

static enum status ensure_open(struct recorder *r, struct err *err)
{
    struct arena   memory = r->memory;
    struct ledger *l;
    if (r->ledger) return STATUS_OK;
    enum status st = ledger_open(r->os, r->config.path, &memory, &l, err);
    if (st) return st;
    r->ledger = l;
    r->spare  = memory;
    fetch(r, NULL); /* tried again with each heartbeat: until then the ledger has what it has */
    st = read_before(r, memory, err);
    if (st) ledger_close(l);
    if (st) r->ledger = NULL;
    return st;
}

/* The rows as they are now; a minute after the last summary, another. Called with the lock held. */
static void snapshot(struct recorder *r, struct segment_row *now)
{
    i64 ns[TERM_COUNT];
    account_read(r->config.account, r->os->now_ns(r->os), ns);
    segment_set_terms(&r->now, ns);
    r->now.beat_wall_ns   = r->os->wall_ns(r->os);
    r->now.peak_rss_bytes = os_peak_rss_bytes();
    i64 nusd              = bill_nusd(&r->config.price, r->now.metered_ns, false);
    r->now.billed_usd     = nusd < 0 ? NAN : (f64)nusd * 1e-9;
    *now                  = r->now;
}

static struct step_row summary_of(const struct segment_row *s, f64 value)
{
    return (struct step_row){ .segment    = s->id,
                              .step       = s->step,
                              .metered_ns = s->metered_ns,
                              .compute_ns = s->compute_ns,
                              .samples    = s->samples,
                              .loss       = s->loss,
                              .value      = value };
}

static enum status write_rows(struct recorder *r, const struct run_row *run,
                              const struct segment_row *now, i64 made, struct err *err)
{
    enum status st = ledger_begin(r->ledger, err);
    if (st) return st;
    if (!r->run_known) st = ledger_put(r->ledger, LEDGER_TABLE_run, run, err);
    if (!r->run_known && !st && r->config.price.id.len)
        st = ledger_put(r->ledger, LEDGER_TABLE_price, &r->config.price, err);
    if (!st) st = ledger_put(r->ledger, LEDGER_TABLE_segment, now, err);
    for (i64 i = r->taken; i < made && !st; i++) {
        const struct queued *q = &r->queue[i % QUEUE];
        st                     = ledger_put(r->ledger, q->table, &q->row, err);
    }
    if (!st && now->metered_ns - r->summary_at_ns > summary_ns) {
        struct step_row row = summary_of(now, NAN);
        st                  = ledger_put(r->ledger, LEDGER_TABLE_step, &row, err);
        if (!st) r->summary_at_ns = now->metered_ns;
    }
    if (!st) st = ledger_commit(r->ledger, err);
    if (st) ledger_rollback(r->ledger);
    return st;
}

/* With the lock held: is one among those not yet written? */
static bool holds_checkpoint(const struct recorder *r, i64 made)
{
    for (i64 i = r->taken; i < made; i++)
        if (r->queue[i % QUEUE].table == LEDGER_TABLE_checkpoint) return true;
    return false;
}

static void beat(struct recorder *r)
{
    struct segment_row now;
    struct run_row     run;
    struct err         why = { 0 };
    enum status        st  = ensure_open(r, &why);
    pthread_mutex_lock(&r->lock);
    snapshot(r, &now);
    run      = r->run;
    i64 made = r->made;
    r->put_due |= r->stop || holds_checkpoint(r, made);
    pthread_mutex_unlock(&r->lock);
    if (!st) st = write_rows(r, &run, &now, made, &why);
    if (st) err_set(&why, st, "this run is not recorded: %s", why.text);
    else if (trade(r, &why))
        err_set(&why, why.status, "the object store lacks rows of this run: %s", why.text);
    pthread_mutex_lock(&r->lock);
    if (!st) r->taken = made;
    if (!st) r->run_known = true;
    if (st && r->steps_before < 0) r->steps_before = 0;
    r->failure = why;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Until the next heartbeat is due, or the end; true: that. */
static bool wait_for_beat(struct recorder *r)
{
    i64 until_ns = r->os->now_ns(r->os) + r->now.beat_every_ns;
    pthread_mutex_lock(&r->lock);
    while (!r->stop && !r->wake && thread_wait_until(&r->changed, &r->lock, until_ns)) {}
    bool stop = r->stop;
    r->wake   = false;
    pthread_mutex_unlock(&r->lock);
    return stop;
}

static void *work(void *context)
{
    struct recorder *r   = context;
    bool             end = false;
    beat(r);
    while (!end) {
        end = wait_for_beat(r);
        beat(r);
    }
    if (r->ledger) ledger_close(r->ledger);
    pthread_mutex_lock(&r->lock);
    r->done = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- the run's side ---- */

enum status recorder_open(struct os *os, struct arena *perm, const struct recorder_config *config,
                          struct recorder **out, struct err *err)
{
    struct recorder *r = NEW(perm, struct recorder, 1);
    r->os              = os;
    r->config          = *config;
    r->config.path     = str_copy(perm, config->path);
    r->texts           = arena_part(perm, TEXTS_BYTES);
    r->memory          = arena_open((i64)LEDGER_GIB << 30);
    r->queue           = NEW(perm, struct queued, QUEUE);
    r->steps_before    = -1;
    row_copy(&ledger_tables[LEDGER_TABLE_run], &r->run, &config->run, &r->texts);
    row_copy(&ledger_tables[LEDGER_TABLE_price], &r->config.price, &config->price, &r->texts);
    if (!r->run.id.len) r->run.id = ledger_new_id(&r->texts);
    if (!isnan(config->price.usd_hour)) r->config.price.id = price_id(&config->price, &r->texts);
    r->now               = segment_new(os, &config->segment, &r->texts);
    r->now.run           = r->run.id;
    r->now.price         = r->config.price.id;
    r->now.beat_every_ns = config->beat_ns ? config->beat_ns : beat_default_ns;
    if (!r->memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    ASSERT(!pthread_mutex_init(&r->lock, NULL));
    thread_cond_init(&r->changed);
    enum status st = thread_start(&r->thread, work, r, "the ledger's thread", err);
    if (!st) *out = r;
    return st;
}

struct str recorder_run_id(const struct recorder *r) { return r->run.id; }

i64 recorder_steps_before(struct recorder *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->steps_before < 0) pthread_cond_wait(&r->changed, &r->lock);
    i64 steps = r->steps_before;
    pthread_mutex_unlock(&r->lock);
    return steps;
}

void recorder_step(struct recorder *r, i64 step, i64 samples, i64 tokens, f64 loss)
{
    pthread_mutex_lock(&r->lock);
    r->now.step    = step;
    r->now.samples = samples;
    r->now.tokens  = tokens;
    r->now.loss    = loss;
    pthread_mutex_unlock(&r->lock);
}

void recorder_energy(struct recorder *r, f64 wh)
{
    pthread_mutex_lock(&r->lock);
    r->now.energy_wh = wh;
    pthread_mutex_unlock(&r->lock);
}

void recorder_usage(struct recorder *r, struct str shape, f64 busy)
{
    pthread_mutex_lock(&r->lock);
    r->now.usage = shape;
    r->now.busy  = busy;
    pthread_mutex_unlock(&r->lock);
}

void recorder_requests(struct recorder *r, f64 usd)
{
    pthread_mutex_lock(&r->lock);
    r->now.requests_usd = usd;
    pthread_mutex_unlock(&r->lock);
}

/* With the lock held; where the queue is full the row is lost, and that will be told. One place is kept
 * for the end, which comes when a slow store has held everything up. */
static void enqueue(struct recorder *r, enum ledger_table table, const void *row)
{
    if (r->made - r->taken >= (table == LEDGER_TABLE_interruption ? QUEUE : QUEUE - 1)) {
        if (!r->failure.status)
            err_set(&r->failure, STATUS_WORLD,
                    "the ledger %.*s takes rows too slowly; some are lost",
                    STR_ARG(r->config.path));
        return;
    }
    struct queued *q     = &r->queue[r->made % QUEUE];
    struct arena   texts = { q->text, q->text + TEXT_BYTES, NULL };
    q->table             = table;
    row_copy(&ledger_tables[table], &q->row, row, &texts);
    r->made++;
}

void recorder_eval(struct recorder *r, f64 loss, f64 value, bool target_reached)
{
    i64 ns[TERM_COUNT];
    i64 metered_ns = account_read(r->config.account, r->os->now_ns(r->os), ns);
    pthread_mutex_lock(&r->lock);
    r->now.loss  = loss;
    r->now.value = value;
    if (target_reached && !r->now.target_ns) r->now.target_ns = metered_ns;
    segment_set_terms(&r->now, ns);
    if (target_reached ||
        metered_ns - r->eval_at_ns >= MAX(eval_gap_ns, metered_ns / eval_gap_part)) {
        struct step_row row = summary_of(&r->now, value);
        enqueue(r, LEDGER_TABLE_step, &row);
        r->eval_at_ns = metered_ns;
    }
    pthread_mutex_unlock(&r->lock);
}

void recorder_put(struct recorder *r, enum ledger_table table, const void *row)
{
    union ledger_any any;
    memcpy(&any, row, (size_t)ledger_tables[table].row_bytes);
    if (table == LEDGER_TABLE_prediction) any.prediction.run = r->run.id;
    if (table == LEDGER_TABLE_checkpoint) any.checkpoint.segment = r->now.id;
    if (table == LEDGER_TABLE_interruption) any.interruption.segment = r->now.id;
    pthread_mutex_lock(&r->lock);
    if (table == LEDGER_TABLE_prediction && !any.prediction.id.len)
        any.prediction.id = ledger_new_id(&r->texts);
    enqueue(r, table, &any);
    r->wake |= table == LEDGER_TABLE_checkpoint; /* what a kill now would lose is little */
    if (r->wake) pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

bool recorder_warning(struct recorder *r, struct err *err)
{
    pthread_mutex_lock(&r->lock);
    bool now = r->failure.status && !r->warned;
    if (now) *err = r->failure;
    r->warned |= now;
    pthread_mutex_unlock(&r->lock);
    return now;
}

enum status recorder_close(struct recorder *r, struct str ended, i64 until_ns, struct err *err)
{
    pthread_mutex_lock(&r->lock);
    r->now.ended = str_copy(&r->texts, ended);
    r->stop      = true;
    pthread_cond_broadcast(&r->changed);
    while (until_ns && !r->done && thread_wait_until(&r->changed, &r->lock, until_ns)) continue;
    bool late = until_ns && !r->done;
    pthread_mutex_unlock(&r->lock);
    if (late && r->config.store) r->config.store->cancel(r->config.store->context);
    pthread_join(r->thread, NULL);
    arena_close(&r->memory);
    if (err && r->failure.status) *err = r->failure;
    return r->failure.status;
}
