/* retry.c - growing, jittered waits. */
#include "remote/retry.h"
#include "base/rng.h"

static const i64 wait_first_ns = 100000000;            /* full jitter: up to this, doubling, */
static const i64 wait_most_ns  = (i64)10 * 1000000000; /* to at most this */
static const i64 unresolved_ns =
    (i64)3 * 1000000000; /* long enough for a name server that has just started */
static const i64 unresolved_tries = 5;
static const i64 wait_slice_ns    = 50000000; /* how soon a stop is seen */

bool retry_status(i32 status)
{
    return (status >= 500 && status != 501) || status == 429 || status == 408;
}

bool retry_unanswered(bool unresolved, bool answered_before, i64 tries, i64 since_ns)
{
    return !unresolved || answered_before || (tries < unresolved_tries && since_ns < unresolved_ns);
}

static bool said(const atomic_bool *flag) { return flag && atomic_load(flag); }

void retry_wait(struct os *os, u64 seed, u64 draw, i64 tries, i64 until_ns, const atomic_bool *stop,
                const atomic_bool *cancel)
{
    i64 most    = MIN(wait_most_ns, wait_first_ns << MIN(tries - 1, 20));
    i64 wait_ns = (i64)((f64)most * rng_uniform((struct rng_key){ .seed = seed }, draw));
    i64 end     = MIN(until_ns, os->now_ns(os) + wait_ns);
    while (!said(stop) && !said(cancel) && os->now_ns(os) < end)
        os->sleep_ns(os, MIN(wait_slice_ns, end - os->now_ns(os)));
}
