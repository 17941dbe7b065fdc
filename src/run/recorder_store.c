/* recorder_store.c - a run's rows and event log in the object store: fetched at the first heartbeat, sent while the run
 * lives. What fails is due again at a later heartbeat, and at the end. */
#include "run/recorder_int.h"

enum { FETCH_GIB = 1 }; /* address space */

const i64 recorder_beat_most_ns = 10000000000;

/* Between two copies in the store at most, of which a heartbeat may lose so much: a ledger that another holds keeps it
 * for five seconds (BUSY_MS of ledger.c), and the way to the store takes a moment. */
static const i64 put_every_ns = 30000000000, put_late_ns = 8000000000;

static i64 now_ns(const struct recorder *r) { return clock_now(r->clock); }

/* On a fresh machine the store knows what earlier segments did. */
enum status recorder_fetch(struct recorder *r, struct err *err)
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

/* The bill has the requests of the last ones, and of no other that begins after its end. Promised first: a bill
 * that ends after the question has counted this one. */
static bool may_put(const struct recorder *r, bool last)
{
    const struct recorder_store *store = r->config.store;
    if (last) return true;
    if (store->promise) store->promise(store->context);
    return !bill_is_over(r->config.bill);
}

/* The segment as the ledger has it now, to the store. */
static enum status publish(struct recorder *r, bool last, struct err *err)
{
    const struct recorder_store *store   = r->config.store;
    struct arena                 scratch = r->spare;
    struct str                   lines;
    struct arena                 text = arena_part(&scratch, (i64)FETCH_GIB << 30);
    enum status st    = ledger_export(r->ledger, r->run.id, r->now.id, &text, &lines, err);
    i64         at_ns = now_ns(r);
    if (!st && !may_put(r, last)) return STATUS_OK;
    if (!st) st = store->put(store->context, r->now.id, lines, scratch, err);
    if (st) return st;
    r->put_due   = false;
    r->put_at_ns = at_ns;
    return STATUS_OK;
}

/* A copy made then would be too old by the next heartbeat, even if that is late. */
static bool is_old(const struct recorder *r, i64 at_ns)
{
    return now_ns(r) + r->now.beat_every_ns + put_late_ns - at_ns > put_every_ns;
}

static void back_off(struct recorder *r)
{
    r->store_after_ns = now_ns(r) + (r->config.beat_ns ? r->config.beat_ns : recorder_beat_most_ns);
}

/* The event log to its file, and to the store where it has grown. */
enum status recorder_send_log(struct recorder *r, bool last, struct err *err)
{
    const struct recorder_store *store   = r->config.store;
    struct arena                 scratch = r->log_memory;
    struct str                   lines;
    if (!r->config.log) return STATUS_OK;
    enum status st = event_log_flush(r->config.log, err);
    if (st) return err_set(err, st, "this run's event log is not written: %s", err->text);
    i64 bytes = event_log_bytes(r->config.log), at_ns = now_ns(r);
    if (!store || !store->put_events || bytes == r->log_bytes) return STATUS_OK;
    if (!last && (at_ns < r->store_after_ns || (!r->log_due && !is_old(r, r->log_at_ns))))
        return STATUS_OK;
    struct arena text = arena_part(&scratch, (r->log_memory.end - r->log_memory.begin) / 2);
    st                = event_log_text(r->config.log, &text, &lines, err);
    if (!st && !may_put(r, last)) return STATUS_OK;
    if (!st) st = store->put_events(store->context, r->now.id, lines, scratch, err);
    if (st) back_off(r);
    if (st)
        return err_set(err, st, "the object store lacks the event log of this run: %s", err->text);
    r->log_due   = false;
    r->log_at_ns = at_ns;
    r->log_bytes = bytes;
    return STATUS_OK;
}

/* With the store, where there is one: what fails is due again at a later heartbeat, and at the end. */
enum status recorder_sync_store(struct recorder *r, bool last, struct err *err)
{
    i64 now = now_ns(r);
    if (!r->config.store || (now < r->store_after_ns && !last)) return STATUS_OK;
    if (bill_is_over(r->config.bill) && !last) return STATUS_OK;
    enum status st = recorder_fetch(r, err);
    r->put_due |= is_old(r, r->put_at_ns);
    if (!st && r->put_due) st = publish(r, last, err);
    if (st) back_off(r);
    return st;
}
