/* network.c - latency and bandwidth of collectives; n hops of latency, bytes over the slowest link.
 * Bandwidth terms: nccl-tests, doc/PERFORMANCE.md; the switch's from its factor (n - 1) / (n + 1). */
#include "plan/network.h"
#include <math.h>

f64 ring_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s)
{
    f64 n = (f64)count;
    return count < 2 ? 0 : 2 * (n - 1) * latency_s + 2 * (n - 1) / n * bytes / bytes_s;
}

f64 tree_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s)
{
    return count < 2 ? 0 : 2 * log2((f64)count) * latency_s + 2 * bytes / bytes_s;
}

f64 switch_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s)
{
    f64 n = (f64)count;
    return count < 2 ? 0 : 2 * latency_s + (n + 1) / n * bytes / bytes_s;
}

f64 gather_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s)
{
    return ring_s(bytes, count, bytes_s, latency_s) / 2;
}

static f64 inside_s(const struct network *n, f64 bytes, i64 gpus)
{
    f64 s = MIN(ring_s(bytes, gpus, n->link_bytes_s, n->link_latency_s),
                tree_s(bytes, gpus, n->link_bytes_s, n->link_latency_s));
    return n->adds ? MIN(s, switch_s(bytes, gpus, n->link_bytes_s, n->link_latency_s)) : s;
}

f64 network_all_reduce_s(const struct network *n, f64 bytes, i64 gpus)
{
    i64 inside = MIN(gpus, MAX(n->gpus, 1)), machines = (gpus + inside - 1) / inside;
    if (machines < 2) return inside_s(n, bytes, gpus);
    return 2 * gather_s(bytes, inside, n->link_bytes_s, n->link_latency_s) +
           network_copies_s(n, bytes, machines);
}

/* The GPUs of a machine share its network, so that its parts together are the whole. */
f64 network_copies_s(const struct network *n, f64 bytes, i64 machines)
{
    return MIN(ring_s(bytes, machines, n->net_bytes_s, n->net_latency_s),
               tree_s(bytes, machines, n->net_bytes_s, n->net_latency_s));
}

f64 network_gather_latency_s(const struct network *n, i64 gpus)
{
    return network_gather_s(n, 0, gpus);
}

f64 network_gather_s(const struct network *n, f64 bytes, i64 gpus)
{
    i64 inside = MIN(gpus, MAX(n->gpus, 1)), machines = (gpus + inside - 1) / inside;
    f64 between = gather_s(bytes, machines, n->net_bytes_s, n->net_latency_s);
    return gather_s(bytes, inside, n->link_bytes_s, n->link_latency_s) + between;
}
