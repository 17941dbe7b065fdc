/* bill.c - a run's bill, prices and billing rules. */
#include "run/bill.h"
#include <math.h>
#include <pthread.h>

static const i64 second_ns = 1000000000;
static const f64 day_ns = 86400e9, month_days = BILL_MONTH_DAYS;
static const f64 gb_bytes = 1e9, gib_bytes = 1 << 30;

struct bill {
    pthread_mutex_t    lock; /* of what lies below the clock */
    struct clock      *clock;
    struct price_row   price; /* its texts are not kept */
    struct spent       earlier;
    struct store_price store[STORE_COUNT]; /* NaN: not known */
    bool               taken, stopped;
    struct counter {
        enum bill_store       store;
        store_counter        *ask; /* NULL: no more, `all` is what it was */
        void                 *who;
        struct store_requests all, before; /* before: by others in this place */
        bool                  done;        /* somebody else may have it */
    } counters[BILL_COUNTERS_MAX];
    i64 counter_count;
    i64 kept_bytes, kept_since_ns; /* on the clock's age */
    f64 kept_usd;                  /* until then; NaN: not known */
};

struct bill *bill_new(struct arena *perm, struct clock *clock)
{
    struct bill *b = NEW(perm, struct bill, 1);
    ASSERT(!pthread_mutex_init(&b->lock, NULL));
    b->clock = clock;
    b->price = (struct price_row){ .usd_hour = NAN };
    for (i64 i = 0; i < STORE_COUNT; i++)
        b->store[i] = (struct store_price){ NAN, NAN, NAN, NAN, NAN, NAN };
    return b;
}

struct clock *bill_clock(const struct bill *b) { return b ? b->clock : NULL; }

void bill_price(struct bill *b, const struct price_row *price)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->price = (struct price_row){ .usd_hour      = price->usd_hour,
                                   .granularity_s = price->granularity_s,
                                   .minimum_s     = price->minimum_s,
                                   .free_s        = price->free_s };
    pthread_mutex_unlock(&b->lock);
}

void bill_earlier(struct bill *b, struct spent earlier)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    if (isnan(earlier.usd))
        earlier.usd = (f64)MAX(bill_nusd(&b->price, earlier.ns, false), 0) * 1e-9;
    b->earlier.ns  = MAX(b->earlier.ns, earlier.ns);
    b->earlier.usd = MAX(b->earlier.usd, earlier.usd);
    pthread_mutex_unlock(&b->lock);
}

struct spent bill_before(struct bill *b)
{
    if (!b) return (struct spent){ 0, NAN };
    pthread_mutex_lock(&b->lock);
    struct spent before = b->earlier;
    pthread_mutex_unlock(&b->lock);
    return before;
}

void bill_taken(struct bill *b)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->taken = true;
    pthread_mutex_unlock(&b->lock);
}

bool bill_is_taken(struct bill *b)
{
    if (!b) return false;
    pthread_mutex_lock(&b->lock);
    bool taken = b->taken;
    pthread_mutex_unlock(&b->lock);
    return taken;
}

/* ---- object stores ---- */

void bill_store(struct bill *b, enum bill_store store, const struct store_price *price)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->store[store] = *price;
    pthread_mutex_unlock(&b->lock);
}

/* With the lock held. */
static struct counter *counter_of(struct bill *b, enum bill_store store, const void *who)
{
    for (i64 i = 0; i < b->counter_count; i++)
        if (b->counters[i].who == who && b->counters[i].store == store) return &b->counters[i];
    ASSERT(b->counter_count < BILL_COUNTERS_MAX);
    struct counter *c = &b->counters[b->counter_count++];
    c->store          = store;
    return c;
}

/* Likewise. */
static void ask(struct counter *c)
{
    if (c->ask) c->all = c->ask(c->who);
}

static struct store_requests sum(struct store_requests a, struct store_requests b)
{
    return (struct store_requests){ a.puts + b.puts, a.gets + b.gets, a.bytes_out + b.bytes_out };
}

void bill_count(struct bill *b, enum bill_store store, store_counter *counter, void *who)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    struct counter *c = NULL;
    for (i64 i = 0; i < b->counter_count && !c; i++)
        if (b->counters[i].done && b->counters[i].store == store) c = &b->counters[i];
    if (c) c->before = sum(c->before, c->all), c->all = (struct store_requests){ 0 };
    if (!c) c = counter_of(b, store, who);
    c->who  = who;
    c->ask  = counter;
    c->done = false;
    pthread_mutex_unlock(&b->lock);
}

void bill_counted(struct bill *b, void *who)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    for (i64 i = 0; i < b->counter_count; i++) {
        if (b->counters[i].who != who) continue;
        ask(&b->counters[i]);
        b->counters[i].ask  = NULL;
        b->counters[i].done = true;
    }
    pthread_mutex_unlock(&b->lock);
}

void bill_counted_all(struct bill *b, void *who, struct store_requests all)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    for (i64 i = 0; i < b->counter_count && !b->stopped; i++)
        if (b->counters[i].who == who) b->counters[i].all = all;
    pthread_mutex_unlock(&b->lock);
}

void bill_told(struct bill *b, enum bill_store store, void *who, struct store_requests all)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    struct counter *c = b->stopped ? NULL : counter_of(b, store, who);
    if (c) c->who = who, c->all = all;
    pthread_mutex_unlock(&b->lock);
}

void bill_requested(struct bill *b, struct store_requests all)
{
    bill_told(b, STORE_CHECKPOINTS, b, all);
}

void bill_expects(struct bill *b, enum bill_store store, struct store_requests last)
{
    static char expected; /* somebody whom nobody else is */
    bill_told(b, store, &expected, last);
}

/* A class without a fee for reading has none. */
static f64 requests_usd(const struct store_price *p, const struct store_requests *r)
{
    f64 fee = bill_retrieve_usd(p, (f64)r->bytes_out);
    return bill_put_usd(p, (f64)r->puts) + bill_get_usd(p, (f64)r->gets) +
           bill_egress_usd(p, (f64)r->bytes_out) + (isnan(fee) ? 0 : fee);
}

/* With the lock held. */
static f64 all_requests_usd(struct bill *b)
{
    f64 usd = 0;
    for (i64 i = 0; i < b->counter_count; i++) {
        struct counter *c = &b->counters[i];
        ask(c);
        struct store_requests all = sum(c->before, c->all);
        if (all.puts || all.gets) usd += requests_usd(&b->store[c->store], &all);
    }
    return usd;
}

static f64 stored_usd(f64 usd_gib_month, i64 bytes, i64 ns)
{
    return (f64)bytes / gib_bytes * usd_gib_month * ((f64)ns / day_ns / month_days);
}

/* Likewise; `age_ns`: until then. */
static f64 storage_usd(const struct bill *b, i64 age_ns)
{
    f64 gib_usd = bill_storage_gib_usd(&b->store[STORE_CHECKPOINTS]);
    if (!b->kept_bytes || b->stopped) return b->kept_usd;
    if (isnan(gib_usd)) return NAN;
    return b->kept_usd + stored_usd(gib_usd, b->kept_bytes, age_ns - b->kept_since_ns);
}

void bill_keeps(struct bill *b, i64 bytes)
{
    if (!b) return;
    i64 age_ns = clock_age_ns(b->clock);
    pthread_mutex_lock(&b->lock);
    b->kept_usd      = storage_usd(b, age_ns);
    b->kept_since_ns = age_ns;
    b->kept_bytes    = bytes;
    pthread_mutex_unlock(&b->lock);
}

static f64 known(f64 usd) { return isnan(usd) ? 0 : usd; }

f64 bill_requests(struct bill *b)
{
    if (!b) return 0;
    pthread_mutex_lock(&b->lock);
    f64 usd = all_requests_usd(b);
    pthread_mutex_unlock(&b->lock);
    return usd;
}

f64 bill_storage(struct bill *b)
{
    if (!b) return 0;
    i64 age_ns = clock_age_ns(b->clock);
    pthread_mutex_lock(&b->lock);
    f64 usd = storage_usd(b, age_ns);
    pthread_mutex_unlock(&b->lock);
    return usd;
}

f64 bill_requests_usd(struct bill *b, enum bill_store store, struct store_requests r)
{
    if (!b) return NAN;
    pthread_mutex_lock(&b->lock);
    f64 usd = requests_usd(&b->store[store], &r);
    pthread_mutex_unlock(&b->lock);
    return usd;
}

/* ---- the whole ---- */

void bill_stop(struct bill *b)
{
    if (!b) return;
    clock_stop(b->clock);
    i64 age_ns = clock_age_ns(b->clock);
    pthread_mutex_lock(&b->lock);
    b->kept_usd = storage_usd(b, age_ns);
    for (i64 i = 0; i < b->counter_count; i++) {
        ask(&b->counters[i]);
        b->counters[i].ask = NULL;
    }
    b->stopped = true;
    pthread_mutex_unlock(&b->lock);
}

bool bill_is_over(struct bill *b)
{
    if (!b) return false;
    pthread_mutex_lock(&b->lock);
    bool over = b->stopped;
    pthread_mutex_unlock(&b->lock);
    return over;
}

struct spent bill_spent_by(struct bill *b, i64 *own_ns_out)
{
    i64          terms[TERM_COUNT];
    struct spent all = { 0, NAN };
    *own_ns_out      = 0;
    if (!b) return all;
    i64 own_ns = *own_ns_out = clock_terms(b->clock, terms), age_ns = clock_age_ns(b->clock);
    pthread_mutex_lock(&b->lock);
    i64 nusd = bill_nusd(&b->price, own_ns, b->taken);
    all.ns   = b->earlier.ns + own_ns;
    if (nusd >= 0)
        all.usd = b->earlier.usd + (f64)nusd * 1e-9 + known(all_requests_usd(b)) +
                  known(storage_usd(b, age_ns));
    pthread_mutex_unlock(&b->lock);
    return all;
}

struct spent bill_spent(struct bill *b)
{
    i64 own_ns;
    return bill_spent_by(b, &own_ns);
}

f64 bill_elapsed_s(struct bill *b) { return (f64)bill_spent(b).ns * 1e-9; }

f64 bill_limit_s(struct bill *b, f64 max_seconds, f64 max_dollars)
{
    if (!b) return max_seconds;
    i64 before_ns = clock_before_ns(b->clock), age_ns = clock_age_ns(b->clock);
    pthread_mutex_lock(&b->lock);
    f64 left_usd =
        max_dollars - b->earlier.usd - known(all_requests_usd(b)) - known(storage_usd(b, age_ns));
    f64 paid_s = (f64)b->earlier.ns * 1e-9 + bill_affordable_s(&b->price, left_usd);
    pthread_mutex_unlock(&b->lock);
    return fmin(max_seconds + (f64)before_ns * 1e-9, paid_s); /* passes over NaN */
}

i64 bill_billed_ns(struct billing_rule rule, i64 up_ns, bool taken)
{
    i64 grain_ns = rule.granularity_s * second_ns;
    if (up_ns <= 0 || (taken && up_ns < rule.free_s * second_ns)) return 0;
    i64 billed_ns = MAX(up_ns, rule.minimum_s * second_ns);
    return grain_ns ? (billed_ns + grain_ns - 1) / grain_ns * grain_ns : billed_ns;
}

i64 bill_nusd(const struct price_row *price, i64 up_ns, bool taken)
{
    struct billing_rule rule = { price->granularity_s, price->minimum_s, price->free_s };
    if (isnan(price->usd_hour)) return -1;
    return llround((f64)bill_billed_ns(rule, up_ns, taken) / 3600e9 * price->usd_hour * 1e9);
}

i64 bill_used_nusd(const struct price_row *price, i64 up_ns)
{
    return bill_nusd(&(struct price_row){ .usd_hour = price->usd_hour }, up_ns, false);
}

f64 bill_affordable_s(const struct price_row *price, f64 usd)
{
    f64 up_s = fmax(usd, 0) / price->usd_hour * 3600;
    if (isnan(usd) || isnan(price->usd_hour)) return NAN;
    if (up_s < (f64)price->minimum_s) return 0;
    return price->granularity_s
               ? floor(up_s / (f64)price->granularity_s) * (f64)price->granularity_s
               : up_s;
}

f64 bill_estimate_usd(f64 usd_hour, f64 seconds) { return seconds / 3600 * usd_hour; }

f64 bill_all_usd_hour(f64 usd_hour, i64 machines) { return usd_hour * (f64)machines; }

f64 bill_part_usd_hour(f64 usd_hour, i64 parts) { return usd_hour / (f64)parts; }

f64 bill_hours(f64 usd_hour, f64 usd) { return usd / usd_hour; }

f64 bill_discount(f64 usd_hour, f64 list_usd_hour) { return 1 - usd_hour / list_usd_hour; }

i64 bill_at_rate_nusd(i64 nusd, i64 ns, f64 other_ns)
{
    return llround((f64)nusd / (f64)ns * other_ns);
}

f64 bill_usd_hour(i64 nusd, i64 ns) { return (f64)nusd * 3600 / (f64)ns; }

f64 bill_put_usd(const struct store_price *p, f64 puts) { return puts * p->put_1000_usd / 1000; }

f64 bill_get_usd(const struct store_price *p, f64 gets) { return gets * p->get_1000_usd / 1000; }

f64 bill_retrieve_usd(const struct store_price *p, f64 bytes)
{
    return bytes / gb_bytes * p->retrieve_gb_usd;
}

f64 bill_egress_usd(const struct store_price *p, f64 bytes)
{
    return bytes / gb_bytes * p->egress_gb_usd;
}

f64 bill_storage_usd(const struct store_price *p, f64 bytes, f64 days)
{
    return bytes / gb_bytes * p->gb_month_usd * (MAX(days, p->minimum_days) / month_days);
}

f64 bill_early_usd(const struct store_price *p, f64 bytes, f64 age_days)
{
    return bill_storage_usd(p, bytes, 0) * fmax(1 - fmax(age_days, 0) / p->minimum_days, 0);
}

f64 bill_storage_gib_usd(const struct store_price *p)
{
    return p->gb_month_usd * gib_bytes / gb_bytes;
}

i64 bill_stored_nusd(f64 usd_gib_month, i64 bytes, i64 ns)
{
    return llround(stored_usd(usd_gib_month, bytes, ns) * 1e9);
}
