/* recorder.c - the thread that keeps a run's rows in the ledger up to date.
 *
 *     the run's thread    now, queue[made % QUEUE]   under the lock, a few copies
 *     ours                beat: copies `now` under the lock; then, without it, one transaction:
 *                         run and price where they changed, segment, queue[taken, made)
 *
 * A slot of the queue is the run's until it is counted in `made`, ours until counted in `taken`.
 * When the disk hangs and the queue is full, further rows are dropped; that is told. */
#include "base/thread.h"
#include "run/ask_stop.h"
#include "run/recorder_int.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { QUEUE = 64, TEXTS_BYTES = 1 << 20 };
enum { LEDGER_GIB = 4, LOG_GIB = 1 }; /* address space */

static const i64 beat_factor = 100;
static const i64 log_ns      = 400000000; /* who looks at the run sees an event within a second */
static const i64 summary_ns  = 60000000000;

/* Some runs evaluate a thousand times a second: summaries are this far apart, and a part of the
 * run's time so far, so that a segment of any length has some hundreds of them. */
static const i64 eval_gap_ns = 100000000, eval_gap_part = 32;

static i64 now_ns(const struct recorder *r) { return clock_now(r->clock); }

/* ---- a heartbeat ---- */

static enum status ensure_open(struct recorder *r, struct err *err)
{
    struct arena   memory = r->memory;
    struct ledger *l;
    if (r->ledger) return STATUS_OK;
    enum status st = ledger_open_patient(r->os, r->config.path, &r->give_up, &memory, &l, err);
    if (st) return st;
    r->ledger = l;
    r->spare  = memory;
    recorder_fetch(
        r, NULL); /* tried again with each heartbeat: until then the ledger has what it has */
    st = recorder_read_before(r, memory, err);
    if (st) ledger_close(l);
    if (st) r->ledger = NULL;
    return st;
}

/* The rows as they are now; a minute after the last summary, another. Called with the lock held. */
static void snapshot(struct recorder *r, struct segment_row *now)
{
    i64 ns[TERM_COUNT];
    if (r->config.bill) {
        clock_terms(bill_clock(r->config.bill), ns);
        segment_set_terms(&r->now, ns);
        r->now.requests_usd = bill_requests(r->config.bill);
        r->now.storage_usd  = bill_storage(r->config.bill);
    }
    r->now.beat_wall_ns   = r->wall_ns + now_ns(r);
    r->now.peak_rss_bytes = os_peak_rss_bytes();
    recorder_set_billed(&r->now, &r->config.price, bill_is_taken(r->config.bill));
    *now = r->now;
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

/* `frugal watch` in another process asks like Ctrl-C here would. */
static void hear_stop(struct recorder *r)
{
    u8           bytes[8192];
    struct arena scratch = { bytes, bytes + sizeof bytes, NULL };
    if (!r->config.log || r->stop_asked) return;
    r->stop_asked = ask_stop_taken(r->os, event_log_path(r->config.log), scratch);
    if (r->stop_asked) os_signal_add(OS_SIGNAL_WATCH);
}

static void beat(struct recorder *r)
{
    struct segment_row now;
    struct run_row     run;
    struct err         why = { 0 }, log_why = { 0 };
    recorder_send_log(r, false, &log_why); /* before the ledger, which another may hold */
    enum status st = ensure_open(r, &why);
    pthread_mutex_lock(&r->lock);
    snapshot(r, &now);
    run       = r->run;
    i64  made = r->made;
    bool last = r->stop;
    bool due  = last || holds_checkpoint(r, made);
    r->put_due |= due;
    r->log_due |= due;
    pthread_mutex_unlock(&r->lock);
    i64 begin_ns = now_ns(r);
    if (!st) st = write_rows(r, &run, &now, made, &why);
    i64 cost_ns = now_ns(r) - begin_ns;
    if (st) err_set(&why, st, "this run is not recorded: %s", why.text);
    else if (recorder_sync_store(r, last, &why))
        err_set(&why, why.status, "the object store lacks rows of this run: %s", why.text);
    if (last) log_why = (struct err){ 0 }; /* all is tried once more */
    recorder_send_log(r, last, &log_why);
    if (!why.status) why = log_why;
    pthread_mutex_lock(&r->lock);
    if (!st) r->taken = made;
    if (!st) r->run_known = true;
    if (!st) r->before_known = true; /* and our own row is there, which tally.h relies on */
    if (!r->config.beat_ns)
        r->now.beat_every_ns =
            MIN(MAX(beat_factor * cost_ns, recorder_beat_least_ns), recorder_beat_most_ns);
    r->tried   = true;
    r->failure = why;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Until then, or the end, or a checkpoint; true: one of the two came. */
static bool wait_until(struct recorder *r, i64 until_ns)
{
    pthread_mutex_lock(&r->lock);
    while (!r->stop && !r->wake && thread_wait_until(&r->changed, &r->lock, until_ns)) {}
    bool came = r->stop || r->wake;
    pthread_mutex_unlock(&r->lock);
    return came;
}

/* Until the next heartbeat is due, or the end; true: that. Meanwhile the event log is written, which is one append to
 * a file where a heartbeat is a transaction, and orders are heard. */
static bool wait_for_beat(struct recorder *r)
{
    i64  begin_ns = now_ns(r), until_ns = begin_ns + r->now.beat_every_ns;
    i64  part_ns = r->config.beat_ns ? r->config.beat_ns : log_ns;
    bool came    = false;
    for (i64 at_ns = begin_ns + part_ns; !came && at_ns < until_ns; at_ns += part_ns) {
        came = wait_until(r, at_ns);
        if (!came && r->config.log)
            event_log_flush(r->config.log, NULL); /* tried again by the heartbeat */
        if (!came) hear_stop(r);
    }
    if (!came) wait_until(r, until_ns);
    pthread_mutex_lock(&r->lock);
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
        if (!end) hear_stop(r);
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
    r->clock           = config->bill ? bill_clock(config->bill) : clock_new(perm, os);
    r->config.path     = str_copy(perm, config->path);
    r->texts           = arena_part(perm, TEXTS_BYTES);
    r->kept_texts      = arena_part(perm, RECORDER_KEPT_BYTES);
    r->memory          = arena_open((i64)LEDGER_GIB << 30);
    r->queue           = NEW(perm, struct queued, QUEUE);
    row_copy(&ledger_tables[LEDGER_TABLE_run], &r->run, &config->run, &r->texts);
    row_copy(&ledger_tables[LEDGER_TABLE_price], &r->config.price, &config->price, &r->texts);
    if (!r->run.id.len) r->run.id = ledger_new_id(&r->texts);
    if (!isnan(config->price.usd_hour))
        r->config.price.id = recorder_price_id(&config->price, &r->texts);
    r->now               = recorder_segment_new(r, &config->segment, &r->texts);
    r->now.run           = r->run.id;
    r->now.price         = r->config.price.id;
    r->now.beat_every_ns = config->beat_ns ? config->beat_ns : recorder_beat_least_ns;
    r->wall_ns           = os->wall_ns(os) - now_ns(r);
    r->put_at_ns         = now_ns(r);
    r->log_at_ns         = now_ns(r);
    if (config->log && config->store) r->log_memory = arena_open((i64)LOG_GIB << 30);
    if (!r->memory.begin || (config->log && config->store && !r->log_memory.begin))
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    ASSERT(!pthread_mutex_init(&r->lock, NULL));
    thread_cond_init(&r->changed);
    enum status st = thread_start(&r->thread, work, r, "the ledger's thread", err);
    if (!st) *out = r;
    return st;
}

struct str recorder_run_id(const struct recorder *r) { return r->run.id; }

bool recorder_before(struct recorder *r, i64 limit_ns, struct recorder_before *out)
{
    i64 until_ns = now_ns(r) + limit_ns;
    pthread_mutex_lock(&r->lock);
    while (!r->tried && thread_wait_until(&r->changed, &r->lock, until_ns)) {}
    bool known = r->before_known;
    if (known) *out = r->before;
    pthread_mutex_unlock(&r->lock);
    return known;
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

void recorder_done(struct recorder *r, const struct event_done *e)
{
    pthread_mutex_lock(&r->lock);
    r->now.energy_wh    = e->energy_wh;
    r->now.requests_usd = e->requests_usd;
    r->now.storage_usd  = e->storage_usd;
    segment_set_terms(&r->now, e->terms_ns.ns);
    if (e->ranks > 1) {
        r->now.ranks        = e->ranks;
        r->now.machines     = e->machines;
        r->now.slowest_rank = e->slowest_rank;
        r->now.waited_ns    = (i64)(e->waited_s * 1e9);
        r->now.exchange_ns  = e->split_ns.ns[PART_exchange];
        r->now.sent_bytes   = e->sent_bytes;
    }
    if (e->usage.len) {
        r->now.usage = str_copy(&r->texts, e->usage);
        r->now.busy  = e->busy;
    }
    pthread_mutex_unlock(&r->lock);
}

void recorder_result(struct recorder *r, f64 loss, f64 value)
{
    pthread_mutex_lock(&r->lock);
    r->now.loss  = loss;
    r->now.value = value;
    pthread_mutex_unlock(&r->lock);
}

void recorder_weights(struct recorder *r, struct str mark)
{
    pthread_mutex_lock(&r->lock);
    r->now.weights = str_copy(&r->texts, mark);
    pthread_mutex_unlock(&r->lock);
}

/* With the lock held; where the queue is full the row is lost, and that will be told. One place is kept
 * for the end, which comes when a slow store has held everything up. */
static void enqueue(struct recorder *r, enum ledger_table table, const void *row)
{
    if (r->made - r->taken >= (table == LEDGER_TABLE_interruption ? QUEUE : QUEUE - 1)) {
        if (!r->failure.status)
            err_set(&r->failure, STATUS_WORLD,
                    "writing to the ledger %.*s is too slow; some rows are lost",
                    STR_ARG(r->config.path));
        return;
    }
    struct queued *q     = &r->queue[r->made % QUEUE];
    struct arena   texts = { q->text, q->text + TEXT_BYTES, NULL };
    q->table             = table;
    row_copy(&ledger_tables[table], &q->row, row, &texts);
    r->made++;
}

void recorder_eval(struct recorder *r, const struct event_terms *terms, f64 loss, f64 value,
                   bool target_reached)
{
    i64 ns[TERM_COUNT];
    if (!terms) clock_terms(bill_clock(r->config.bill), ns);
    pthread_mutex_lock(&r->lock);
    segment_set_terms(&r->now, terms ? terms->ns : ns);
    i64 metered_ns = r->now.metered_ns;
    r->now.loss    = loss;
    r->now.value   = value;
    if (target_reached && !r->now.target_ns) r->now.target_ns = metered_ns;
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
    if (table == LEDGER_TABLE_checkpoint && !any.checkpoint.segment.len)
        any.checkpoint.segment = r->now.id;
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
    atomic_store(&r->give_up, late);
    if (late && r->config.store) r->config.store->cancel(r->config.store->context);
    pthread_join(r->thread, NULL);
    event_log_close(r->config.log);
    arena_close(&r->memory);
    if (r->log_memory.begin) arena_close(&r->log_memory);
    if (err && r->failure.status) *err = r->failure;
    return r->failure.status;
}
