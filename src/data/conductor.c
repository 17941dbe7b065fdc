/* conductor.c - the thread that measures the pipeline and does what the tuner says, while it runs.
 *
 * It looks at the sums that the stages keep anyway, a few times a second, and starts or parks threads;
 * nobody stops for it. Where all numbers are given it has nothing to find, and does not run. */
#include "base/pool.h"
#include "data/pipeline_int.h"
#include <stdio.h>

static const i64 tick_ns = 50000000, tick_held_ns = 500000000;
static const f64 kept_part = 0.75; /* of the memory: for kept samples, where there may be any */
static const f64 keep_wait = 0.01; /* share of the caller's time: below, keeping buys nothing */
enum { KEEP_SAMPLES = 64 };        /* decoded, from which their mean is taken */

struct reading {
    i64              now_ns;
    i64              waited_ns; /* the wait that goes on included */
    struct tally     tally;
    struct lane_sums lane[STAGE_COUNT];
};

/* Under the lock. */
static struct reading reading_now(const struct pipeline *p)
{
    i64            now = p->os->now_ns(p->os);
    struct reading r   = { .now_ns = now, .tally = p->tally };
    r.waited_ns        = p->tally.waited_ns + (p->next_since_ns ? now - p->next_since_ns : 0);
    for (i64 k = 0; k < p->lane_count; k++) r.lane[k] = p->lanes[k].sums;
    return r;
}

static f64 seconds(i64 ns) { return (f64)ns * 1e-9; }

static struct tuner_seen seen_since(const struct reading *a, const struct reading *b)
{
    i64               paused = b->tally.paused_ns - a->tally.paused_ns;
    struct tuner_seen s      = { .seconds      = seconds(MAX(b->now_ns - a->now_ns - paused, 1)),
                                 .wait_s       = seconds(b->waited_ns - a->waited_ns),
                                 .away_s       = seconds(b->tally.away_ns - a->tally.away_ns),
                                 .taken        = b->tally.samples - a->tally.samples,
                                 .sample_bytes = b->tally.sample_bytes_max };
    for (i64 k = 0; k < STAGE_COUNT; k++) {
        const struct lane_sums *from = &a->lane[k], *to = &b->lane[k];
        s.stage[k] = (struct tuner_stage){ .samples = to->samples - from->samples,
                                           .busy_s  = seconds(to->own_ns - from->own_ns),
                                           .cpu_s   = seconds(to->cpu_ns - from->cpu_ns) };
    }
    return s;
}

/* --- what is kept --- */

static struct lane *decode_lane(struct pipeline *p)
{
    for (i64 k = 0; k < p->lane_count; k++)
        if (p->lanes[k].stage == STAGE_DECODE) return &p->lanes[k];
    return NULL;
}

static bool may_keep(struct pipeline *p)
{
    struct str keep = p->course.config.options.keep;
    if (!decode_lane(p) || str_eq(keep, STR("off"))) return false;
    return str_eq(keep, STR("on")) || p->course.dataset->keepable;
}

static void keep(struct pipeline *p)
{
    atomic_store_explicit(&p->kept, kept_open(p->course.count, p->kept_bytes_max),
                          memory_order_release);
}

/* Under the lock: from now on, if the caller waits though the threads are as they should be, if all
 * samples fit, and if there is a later epoch to use them in. */
static void keep_if_it_pays(struct pipeline *p, const struct tuner_seen *s)
{
    i64  epochs = p->course.config.epochs;
    bool last   = epochs && p->epoch + 1 >= epochs;
    bool waits  = s->wait_s > keep_wait * (s->wait_s + s->away_s);
    if (!may_keep(p) || atomic_load(&p->kept) || last || !waits) return;
    const struct lane_sums *read = &p->lanes[0].sums, *decode = &decode_lane(p)->sums;
    if (decode->samples < KEEP_SAMPLES || p->tuner.state != TUNER_HOLDS) return;
    f64 bytes  = (f64)p->tally.decoded_bytes / (f64)decode->samples * (f64)p->course.count;
    f64 one_ns = (f64)read->busy_ns / (f64)MAX(read->samples, 1) +
                 (f64)decode->busy_ns / (f64)decode->samples;
    if (bytes > (f64)p->kept_bytes_max) return;
    char line[LOADER_LINE_MAX];
    snprintf(
        line, sizeof line,
        "decoded samples are kept in memory: %lld take %.3g of %.3g GiB, and reading and decoding "
        "one takes %.3g ms",
        (long long)p->course.count, bytes / 0x1p30, (f64)p->memory_bytes / 0x1p30, one_ns * 1e-6);
    keep(p);
    if (atomic_load(&p->kept)) pipeline_say(p, line);
}

/* --- the thread --- */

static void *conductor_main(void *context)
{
    struct pipeline *p = context;
    char             line[LOADER_LINE_MAX];
    pthread_mutex_lock(&p->lock);
    struct reading last = reading_now(p);
    while (!p->stop) {
        i64 tick = p->tuner.state == TUNER_HOLDS ? tick_held_ns : tick_ns;
        thread_wait_until(&p->tick, &p->lock, p->os->now_ns(p->os) + tick);
        struct reading    now  = reading_now(p);
        struct tuner_seen seen = seen_since(&last, &now);
        if (p->stop || !tuner_enough(&p->tuner, &seen)) continue;
        last = now;
        if (tuner_step(&p->tuner, &seen, line)) pipeline_say(p, line);
        keep_if_it_pays(p, &seen);
        pthread_mutex_unlock(&p->lock);
        pipeline_apply(p, &p->tuner.now, NULL); /* where threads are refused, fewer do it */
        pthread_mutex_lock(&p->lock);
    }
    p->alive--;
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static struct tuner_limits conductor_limits(const struct pipeline *p)
{
    const struct loader_config  *c     = &p->course.config;
    const struct loader_options *o     = &c->options;
    const struct feeds          *feeds = &p->course.dataset->feeds;
    struct tuner_limits          l     = { .stages       = p->lane_count,
                                           .queue        = c->queue,
                                           .prefetch     = o->prefetch,
                                           .workers_max  = LOADER_WORKERS_MAX,
                                           .memory_bytes = p->memory_bytes - p->kept_bytes_max,
                                           .batch        = c->batch };
    l.cpu                              = (f64)p->cores;
    l.cpu_strict                       = c->cpu && c->cpu < pool_machine_threads();
    for (i64 k = 0; k < p->lane_count; k++) {
        l.stage[k]   = p->lanes[k].stage;
        l.workers[k] = o->workers_count == 1 ? o->workers[0] : 0;
        if (o->workers_count > 1) l.workers[k] = o->workers[l.stage[k]];
    }
    for (i32 f = 0; f < feeds->count; f++)
        l.batch_bytes += c->batch * type_bytes(feeds->feed[f].type);
    l.prefetch_max = MIN(MAX(l.memory_bytes / 2 / l.batch_bytes, 1), LOADER_PREFETCH_MAX);
    return l;
}

static bool all_fixed(const struct tuner_limits *l)
{
    bool fixed = l->queue && l->prefetch;
    for (i64 k = 0; k < l->stages; k++) fixed = fixed && l->workers[k];
    return fixed;
}

enum status conductor_start(struct pipeline *p, struct err *err)
{
    const struct loader_options *o = &p->course.config.options;
    p->memory_bytes =
        o->memory_gib > 0 ? (i64)(o->memory_gib * 0x1p30) : os_memory_free_bytes() / 2;
    p->kept_bytes_max = may_keep(p) ? (i64)(kept_part * (f64)p->memory_bytes) : 0;
    if (str_eq(o->keep, STR("on")) && p->kept_bytes_max) keep(p);
    p->cores = p->course.config.cpu ? p->course.config.cpu : pool_machine_threads();
    struct tuner_limits limits = conductor_limits(p);
    tuner_start(&p->tuner, &limits);
    enum status st = pipeline_apply(p, &p->tuner.now, err);
    if (st || (all_fixed(&limits) && !may_keep(p))) return st;
    pthread_mutex_lock(&p->lock);
    st = thread_start(&p->conductor, conductor_main, p, "the thread that tunes the loader", err);
    p->conducted = !st;
    p->alive += !st;
    pthread_mutex_unlock(&p->lock);
    return st;
}
