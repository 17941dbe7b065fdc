/* bill_shares.c - exact parts of a sum, and a machine's time shared among those who run on it. */
#include "run/bill.h"
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 i128; /* dollars x time does not fit in 64 bits */

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
