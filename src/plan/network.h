/* network.h - what it takes to add gradients up over GPUs.
 *
 * Inside a machine by the quickest of ring, tree and, where the switch adds (NVLink 4 and later),
 * the network itself; between machines by halves: scatter inside, all-reduce between, gather inside. */
#ifndef PLAN_NETWORK_H
#define PLAN_NETWORK_H
#include "base/types.h"

struct network {
    i64  gpus;           /* of a machine */
    f64  link_bytes_s;   /* of a GPU, one way, as collectives reach it */
    f64  link_latency_s; /* a hop */
    bool adds;           /* the switch sums on the way */
    f64  net_bytes_s;    /* of a machine, one way, as collectives reach it */
    f64  net_latency_s;
};

f64 ring_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s); /* all-reduce by each */
f64 tree_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s);
f64 switch_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s);
f64 gather_s(f64 bytes, i64 count, f64 bytes_s, f64 latency_s); /* or reduce-scatter: half a ring */

/* The quickest way to add `bytes` on every one of so many GPUs: whole machines but for the last. */
f64 network_all_reduce_s(const struct network *n, f64 bytes, i64 gpus);
/* Every GPU holds a part and gets all, or the other way round with sums. */
f64 network_gather_s(const struct network *n, f64 bytes, i64 gpus);

/* Of machines that each hold a whole copy, spread over `gpus` of their GPUs: what adds up the copies' gradients. Each
 * GPU sends its part to those with the same part in the other machines. */
f64 network_copies_s(const struct network *n, f64 bytes, i64 machines);
/* One call of a gather, apart from its bytes: a hop to each of the others, one after the other. */
f64 network_gather_latency_s(const struct network *n, i64 gpus);

#endif
