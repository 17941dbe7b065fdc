/* lookout.c - the thread, and where its numbers come from. */
#include "run/lookout.h"
#include "backend/cuda/nvml.h"
#include "base/thread.h"
#include "run/clock.h"
#include "run/utilisation.h"
#include <math.h>

enum { GPUS_MAX = 16, SCRATCH_BYTES = 1 << 20 };

/* GPM counts over any interval; 100 to 200 ms show steps. A family of processes takes a millisecond or
 * more to find. */
static const i64 look_every_ns = 200000000, family_every_ns = 1000000000;
static const f64 begun_at       = 0.05; /* what comes before the first work is start-up, no gap */
static const i64 probe_every_ns = 5000000000;

struct gpu {
    struct nvml        *nvml; /* its own: one measurement at a time */
    struct nvml_device *device;
};

struct lookout {
    struct lookout_config c;
    struct arena          scratch;
    struct gpu            gpus[GPUS_MAX];
    i64                   gpu_count;
    i64                   cpu_ns, cpu_at_ns; /* at the look before; 0: none */
    bool                  begun;             /* it has worked */

    pthread_t           thread;
    bool                running; /* the thread was started */
    pthread_mutex_t     lock;    /* of all below */
    pthread_cond_t      changed;
    bool                stop, told;
    struct probe        first, last; /* written by the thread; last: clocks are the highest seen */
    f64                 busy;        /* at the newest look; NaN: not known */
    struct utilisation *utilisation;
};

/* --- what is looked at -------------------------------------------------------------------------- */

static void open_gpus(struct lookout *l, struct arena *perm)
{
    for (i32 i = 0; i < GPUS_MAX; i++) {
        struct gpu g = { 0 };
        if ((!l->c.bus_id.len && !l->c.any_gpu) || nvml_open(perm, &g.nvml, NULL)) return;
        g.device = l->c.bus_id.len ? nvml_device_at(g.nvml, l->c.bus_id, l->scratch)
                                   : nvml_device(g.nvml, i);
        if (!g.device) {
            nvml_close(g.nvml);
            return;
        }
        nvml_activity_begin(g.nvml, g.device);
        l->gpus[l->gpu_count++] = g;
        if (l->c.bus_id.len) return;
    }
}

static f64 gpus_busy(struct lookout *l)
{
    f64 sum = 0;
    for (i64 i = 0; i < l->gpu_count; i++) {
        struct gpu *g    = &l->gpus[i];
        f64         busy = nvml_activity_end(g->nvml, g->device);
        nvml_activity_begin(g->nvml, g->device);
        sum += isnan(busy) ? nvml_utilisation(g->nvml, g->device) : busy;
    }
    return sum / (f64)l->gpu_count;
}

/* NaN at the first look. */
static f64 cores_busy(struct lookout *l, i64 now_ns)
{
    i64 cpu_ns = l->c.cpu_ns ? l->c.cpu_ns() : probe_own_ns(l->c.os, l->scratch);
    f64 busy   = NAN;
    if (l->cpu_at_ns && cpu_ns >= l->cpu_ns && now_ns > l->cpu_at_ns)
        busy = (f64)(cpu_ns - l->cpu_ns) / (f64)(now_ns - l->cpu_at_ns) / (f64)MAX(l->c.cores, 1);
    l->cpu_ns    = cpu_ns;
    l->cpu_at_ns = now_ns;
    return busy;
}

/* A core that idles for a moment lowers its clock: the highest counts. */
static void look_at_machine(struct lookout *l, struct arena scratch)
{
    struct probe *now = NEW(&scratch, struct probe, 1);
    probe_read(now, l->c.os, scratch);
    for (i64 i = 0; i < now->core_count; i++)
        now->cores[i].mhz = MAX(now->cores[i].mhz, l->last.cores[i].mhz);
    pthread_mutex_lock(&l->lock);
    l->last = *now;
    if (!l->first.at_ns) l->first = *now;
    pthread_mutex_unlock(&l->lock);
}

void lookout_look(struct lookout *l)
{
    i64 now_ns = moment_now(l->c.os);
    if (now_ns - l->last.at_ns >= probe_every_ns || !l->first.at_ns) look_at_machine(l, l->scratch);
    f64 busy = l->gpu_count ? gpus_busy(l) : cores_busy(l, now_ns);
    l->begun |= busy > begun_at;
    if (!l->begun) busy = NAN;
    pthread_mutex_lock(&l->lock);
    utilisation_add(l->utilisation, now_ns, busy);
    l->busy = busy;
    pthread_mutex_unlock(&l->lock);
}

/* --- the thread --------------------------------------------------------------------------------- */

static void *work(void *context)
{
    struct lookout *l    = context;
    bool            stop = false, family = l->c.cpu_ns && !l->gpu_count;
    while (!stop) {
        lookout_look(l);
        struct deadline next = deadline_in(os_real(), family ? family_every_ns : look_every_ns);
        pthread_mutex_lock(&l->lock);
        while (!l->stop && thread_wait_until(&l->changed, &l->lock, next.at_ns)) {}
        stop = l->stop;
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

struct lookout *lookout_new(struct arena *perm, const struct lookout_config *c)
{
    struct lookout *l = NEW(perm, struct lookout, 1);
    l->c              = *c;
    l->busy           = NAN;
    l->scratch        = arena_part(perm, SCRATCH_BYTES);
    l->utilisation    = utilisation_new(perm);
    ASSERT(!pthread_mutex_init(&l->lock, NULL));
    thread_cond_init(&l->changed);
    open_gpus(l, perm);
    return l;
}

enum status lookout_start(struct lookout *l, struct err *err)
{
    enum status st = thread_start(&l->thread, work, l, "the thread that watches utilisation", err);
    l->running     = !st;
    return st;
}

void lookout_mark(struct lookout *l, enum rhythm what)
{
    if (!l) return;
    i64 now_ns = moment_now(l->c.os);
    pthread_mutex_lock(&l->lock);
    utilisation_mark(l->utilisation, what, now_ns);
    pthread_mutex_unlock(&l->lock);
}

bool lookout_news(struct lookout *l, struct usage *u)
{
    if (!l) return false;
    pthread_mutex_lock(&l->lock);
    *u        = utilisation_worst_minute(l->utilisation);
    bool news = !l->told && usage_is_ill(u->shape);
    l->told |= news;
    pthread_mutex_unlock(&l->lock);
    return news;
}

f64 lookout_busy(struct lookout *l)
{
    if (!l) return NAN;
    pthread_mutex_lock(&l->lock);
    f64 busy = l->busy;
    pthread_mutex_unlock(&l->lock);
    return busy;
}

bool lookout_sees_gpus(const struct lookout *l) { return l->gpu_count > 0; }

struct lookout_seen lookout_now(struct lookout *l, struct arena scratch)
{
    struct probe *first = NEW(&scratch, struct probe, 1), *last = NEW(&scratch, struct probe, 1);
    struct lookout_seen seen = { .gpu = l->gpu_count > 0 };
    pthread_mutex_lock(&l->lock);
    *first     = l->first;
    *last      = l->last;
    seen.usage = utilisation_worst(l->utilisation);
    pthread_mutex_unlock(&l->lock);
    seen.load = probe_load(first, last, scratch);
    return seen;
}

struct lookout_seen lookout_end(struct lookout *l)
{
    struct lookout_seen seen = { .usage.lag_s = NAN };
    if (!l) return seen;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (l->running) pthread_join(l->thread, NULL);
    l->running = false;
    lookout_look(l); /* so that the last moments count */
    look_at_machine(l, l->scratch);
    seen = lookout_now(l, l->scratch);
    while (l->gpu_count) nvml_close(l->gpus[--l->gpu_count].nvml);
    return seen;
}
