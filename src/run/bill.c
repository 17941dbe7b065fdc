/* bill.c - a run's bill, prices, billing rules, shares and exact parts. */
#include "run/bill.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 i128; /* dollars x time does not fit in 64 bits */

static const i64 second_ns = 1000000000;
static const f64 day_ns = 86400e9, month_days = 365.0 / 12; /* storage is sold by the month, billed by the hour */
static const f64 gb_bytes = 1e9, gib_bytes = 1 << 30;

struct bill {
    pthread_mutex_t  lock; /* of what lies below the clock */
    struct clock    *clock;
    struct price_row price; /* its texts are not kept */
    struct spent     earlier;
    struct store_price store; /* NaN: not known */
    struct store_requests requests;
};

struct bill *bill_new(struct arena *perm, struct clock *clock)
{
    struct bill *b = NEW(perm, struct bill, 1);
    ASSERT(!pthread_mutex_init(&b->lock, NULL));
    b->clock = clock;
    b->price = (struct price_row){ .usd_hour = NAN };
    b->store = (struct store_price){ NAN, NAN, NAN, NAN, NAN, NAN };
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
    if (isnan(earlier.usd)) earlier.usd = (f64)MAX(bill_nusd(&b->price, earlier.ns, false), 0) * 1e-9;
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

void bill_store(struct bill *b, const struct store_price *price)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->store = *price;
    pthread_mutex_unlock(&b->lock);
}

void bill_requested(struct bill *b, struct store_requests all)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->requests = all;
    pthread_mutex_unlock(&b->lock);
}

/* With the lock held. */
static f64 requests_usd(const struct bill *b)
{
    const struct store_requests *r = &b->requests;
    if (!r->puts && !r->gets) return 0;
    return bill_put_usd(&b->store, (f64)r->puts) + bill_get_usd(&b->store, (f64)r->gets) +
           bill_egress_usd(&b->store, (f64)r->bytes_out);
}

static f64 known(f64 usd) { return isnan(usd) ? 0 : usd; }

f64 bill_requests(struct bill *b)
{
    if (!b) return 0;
    pthread_mutex_lock(&b->lock);
    f64 usd = requests_usd(b);
    pthread_mutex_unlock(&b->lock);
    return usd;
}

struct spent bill_spent_by(struct bill *b, i64 *own_ns_out)
{
    i64          terms[TERM_COUNT];
    struct spent all = { 0, NAN };
    *own_ns_out      = 0;
    if (!b) return all;
    i64 own_ns  = *own_ns_out = clock_terms(b->clock, terms);
    pthread_mutex_lock(&b->lock);
    i64 nusd = bill_nusd(&b->price, own_ns, false);
    all.ns   = b->earlier.ns + own_ns;
    all.usd  = nusd < 0 ? NAN : b->earlier.usd + (f64)nusd * 1e-9 + known(requests_usd(b));
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
    i64 before_ns = clock_before_ns(b->clock);
    pthread_mutex_lock(&b->lock);
    f64 left_usd = max_dollars - b->earlier.usd - known(requests_usd(b));
    f64 paid_s   = (f64)b->earlier.ns * 1e-9 + bill_affordable_s(&b->price, left_usd);
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

f64 bill_affordable_s(const struct price_row *price, f64 usd)
{
    f64 up_s = fmax(usd, 0) / price->usd_hour * 3600;
    if (isnan(usd) || isnan(price->usd_hour)) return NAN;
    if (up_s < (f64)price->minimum_s) return 0;
    return price->granularity_s ? floor(up_s / (f64)price->granularity_s) * (f64)price->granularity_s : up_s;
}

f64 bill_estimate_usd(f64 usd_hour, f64 seconds) { return seconds / 3600 * usd_hour; }

f64 bill_usd_hour(i64 nusd, i64 ns) { return (f64)nusd * 3600 / (f64)ns; }

f64 bill_put_usd(const struct store_price *p, f64 puts) { return puts * p->put_1000_usd / 1000; }

f64 bill_get_usd(const struct store_price *p, f64 gets) { return gets * p->get_1000_usd / 1000; }

f64 bill_retrieve_usd(const struct store_price *p, f64 bytes) { return bytes / gb_bytes * p->retrieve_gb_usd; }

f64 bill_egress_usd(const struct store_price *p, f64 bytes) { return bytes / gb_bytes * p->egress_gb_usd; }

f64 bill_storage_usd(const struct store_price *p, f64 bytes, f64 days)
{
    return bytes / gb_bytes * p->gb_month_usd * (MAX(days, p->minimum_days) / month_days);
}

f64 bill_storage_gib_usd(const struct store_price *p) { return p->gb_month_usd * gib_bytes / gb_bytes; }

i64 bill_stored_nusd(f64 usd_gib_month, i64 bytes, i64 ns)
{
    f64 months = (f64)ns / day_ns / month_days;
    return llround((f64)bytes / gib_bytes * usd_gib_month * months * 1e9);
}

struct rest {
    i64 index, rest;
};

static int by_rest(const void *a, const void *b)
{
    const struct rest *x = a, *y = b;
    if (x->rest != y->rest) return x->rest > y->rest ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* The largest remainders are rounded up, so many of them as are missing. */
void bill_split(i64 total, const i64 *weights, i64 count, i64 *parts, struct arena scratch)
{
    struct rest *rests = NEW(&scratch, struct rest, count);
    i64          sum = 0, given = 0;
    for (i64 i = 0; i < count; i++) sum += weights[i];
    for (i64 i = 0; i < count; i++) {
        i128 exact = (i128)total * weights[i];
        parts[i]   = sum ? (i64)(exact / sum) : i ? 0 : total;
        rests[i]   = (struct rest){ i, sum ? (i64)(exact % sum) : 0 };
        given += parts[i];
    }
    qsort(rests, (size_t)count, sizeof *rests, by_rest);
    for (i64 i = 0; given < total; i++, given++) parts[rests[i].index]++;
}

struct edge {
    struct str boot;
    i64        at_ns, segment;
    bool       begins;
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    i64                len   = MIN(x->boot.len, y->boot.len);
    int                boots = len ? memcmp(x->boot.data, y->boot.data, (size_t)len) : 0;
    if (boots || x->boot.len != y->boot.len)
        return boots ? boots : x->boot.len < y->boot.len ? -1 : 1;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return x->begins - y->begins; /* who ends makes room first */
}

/* Between two edges nothing changes: everyone alive is given their part of it. */
static void share_span(const struct segment_row *s, const i64 *alive, i64 count, i64 span_ns,
                       i64 *own_ns, struct arena scratch)
{
    i64 *weights = NEW(&scratch, i64, count), *parts = NEW(&scratch, i64, count), gpus = 0;
    for (i64 i = 0; i < count; i++) gpus += weights[i] = s[alive[i]].gpus;
    for (i64 i = 0; i < count && !gpus; i++) weights[i] = 1;
    bill_split(span_ns, weights, count, parts, scratch);
    for (i64 i = 0; i < count; i++) own_ns[alive[i]] += parts[i];
}

/* Machine after machine, along its time. What lies before a process (booting, idle) was nobody
 * else's, and one that took no time has no share to give. */
void bill_shares(const struct segment_row *segments, i64 count, i64 *own_ns, struct arena scratch)
{
    struct edge *edges = NEW(&scratch, struct edge, 2 * count + 1);
    i64         *alive = NEW(&scratch, i64, count + 1), living = 0, n = 0;
    for (i64 i = 0; i < count; i++) {
        const struct segment_row *s = &segments[i];
        own_ns[i]                   = s->booting_ns + s->idle_ns;
        i64 run_ns                  = s->metered_ns - own_ns[i];
        if (!run_ns) continue;
        edges[n++] = (struct edge){ s->boot, s->begin_wall_ns, i, true };
        edges[n++] = (struct edge){ s->boot, s->begin_wall_ns + run_ns, i, false };
    }
    qsort(edges, (size_t)n, sizeof *edges, by_time);
    for (i64 i = 0; i < n; i++) { /* when a machine's last edge is passed, nobody is alive */
        i64 span_ns = living ? edges[i].at_ns - edges[i - 1].at_ns : 0;
        if (span_ns) share_span(segments, alive, living, span_ns, own_ns, scratch);
        if (edges[i].begins) alive[living++] = edges[i].segment;
        for (i64 k = 0; k < living && !edges[i].begins; k++)
            if (alive[k] == edges[i].segment) alive[k--] = alive[--living];
    }
}
