/* pipeline.c - samples go from stage to stage, and end in their place in a batch.
 *
 *     order ─► read ─►[queue]─► decode ─►[queue]─► augment ─► slot of the batch ─► the caller
 *                └──────── what is kept in memory ───────┘
 *
 * A sample is given its batch and its place in it before anything is done for it, so it does not matter
 * which thread does what and when: the batches are the same. A slot is ready when all its samples are in
 * place; the caller takes slots in their order. At most `prefetch` batches are begun beyond those given,
 * and at most `flying_max` samples are on their way.
 *
 * All threads are alike. One that has finished a stage goes on with the same sample, which lies in its
 * core's caches, if the next stage may have one more; else the sample waits in that stage's queue, and the
 * thread looks for other work, in the last stage first. How many may be in a stage at once: its `workers`,
 * and in all stages that only compute, together, as many as there are cores. So where the cores are what
 * limits, each of as many threads takes its samples all the way, and nobody is woken; the others stay
 * asleep. No stage begins a sample while a queue behind it is full, and a thread that holds a sample
 * never waits: so the first batch always gets on.
 *
 * A sample that cannot be had gives its place to the next of the epoch's order that can: a function of
 * (seed, epoch, index) again, as long as the same samples fail. */
#include "data/pipeline_int.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 64, NEXT_TRIED_MAX = 64, SKIPS_SAID = 8, CLASSIFY_SAMPLES = 16 };
enum { THREADS_MAX = STAGE_COUNT * LOADER_WORKERS_MAX };
static const i64 close_limit_ns = 1000000000; /* for threads that wait for a disk or a network */
static const i64 pause_min_ns   = 1000000000; /* the caller does something else, not a step */
enum { PAUSE_TIMES = 8 };                     /* so many times as long as it mostly does */

/* --- what was said --- */

void pipeline_say(struct pipeline *p, const char *line)
{
    if (p->said - p->heard == PIPELINE_LINES_MAX) p->heard++; /* nobody listens: the oldest goes */
    snprintf(p->lines[p->said++ % PIPELINE_LINES_MAX], LOADER_LINE_MAX, "%s", line);
}

bool pipeline_says(struct pipeline *p, char line[LOADER_LINE_MAX])
{
    pthread_mutex_lock(&p->lock);
    bool any = p->heard < p->said;
    if (any) memcpy(line, p->lines[p->heard++ % PIPELINE_LINES_MAX], LOADER_LINE_MAX);
    pthread_mutex_unlock(&p->lock);
    return any;
}

/* --- a sample's way, outside the lock --- */

/* Runs the sample through its stages up to this lane. */
static enum status run_up_to(const struct pipeline *p, struct item *i, const struct lane *lane)
{
    enum status st = STATUS_OK;
    for (const struct lane *l = p->lanes; !st && l <= lane; l++)
        st = l->run(p->course.dataset, &i->sample, &i->err);
    return st;
}

/* The sample at hand failed in this lane: others are tried in its place, if that is wanted. */
static void run_next_instead(struct pipeline *p, struct item *i, const struct lane *lane)
{
    struct sample *s     = &i->sample;
    struct err     first = i->err;
    i->skipped           = 1;
    if (i->status == STATUS_USAGE &&
        !p->course.config.skip) /* not a disk that fails: the sample is bad */
        err_set(&first, i->status, "%.400s; data.on_error=skip skips such samples", i->err.text);
    for (i64 k = 1; i->status && p->course.config.skip && !atomic_load(&p->stop); k++) {
        if (k == MIN(NEXT_TRIED_MAX, p->course.count)) {
            err_set(&first, i->status,
                    "%lld samples in a row cannot be read; the last of them: %.400s", (long long)k,
                    i->err.text);
            break;
        }
        s->number = course_number(&p->course, s->epoch, (s->index + k) % p->course.count);
        i->status = run_up_to(p, i, lane);
        i->skipped += i->status != STATUS_OK;
    }
    i->err = first;
}

static bool is_kept(struct pipeline *p, struct item *i)
{
    struct kept *kept = atomic_load_explicit(&p->kept, memory_order_acquire);
    i->own            = i->sample.decoded;
    i->borrows        = kept && kept_get(kept, &i->sample);
    return i->borrows;
}

static void item_run(struct pipeline *p, struct item *i, const struct lane *lane,
                     struct buffer *spare)
{
    i->sample.spare = spare;
    if (lane == p->lanes) {
        i->sample.number = course_number(&p->course, i->sample.epoch, i->sample.index);
        if (is_kept(p, i)) return;
    }
    i->status = lane->run(p->course.dataset, &i->sample, &i->err);
    if (i->status && i->borrows) { /* another may take its place, and needs memory of its own */
        i->sample.decoded = i->own;
        i->borrows        = false;
    }
    if (i->status) run_next_instead(p, i, lane);
    struct kept *kept = atomic_load_explicit(&p->kept, memory_order_acquire);
    if (!i->status && kept && lane->stage == STAGE_DECODE) kept_put(kept, &i->sample);
}

/* --- from hand to hand, under the lock --- */

static struct slot *slot_of(struct pipeline *p, i64 batch)
{
    return &p->slots[batch % p->slot_count];
}

/* That which was given back last: no more memory is touched than batches are in use at once. */
static struct room *room_take(struct pipeline *p)
{
    struct room *r = p->room_free;
    if (r) p->room_free = r->next;
    else r = &p->rooms[p->room_count++];
    ASSERT(p->room_count <= p->slot_count);
    return r;
}

static void room_give_back(struct pipeline *p, struct room *r)
{
    r->next      = p->room_free;
    p->room_free = r;
}

static bool may_begin(const struct pipeline *p)
{
    return !p->all_begun && p->begun < p->given + p->prefetch;
}

static bool batch_begin(struct pipeline *p)
{
    if (!may_begin(p)) return false;
    if (!course_batch(&p->course, p->index)) {
        if (!p->course.config.forever) {
            p->all_begun = true;
            pthread_cond_signal(&p->made);
            return false;
        }
        p->epoch++;
        p->index = 0;
    }
    struct slot *s = slot_of(p, p->begun++);
    s->room        = room_take(p);
    memcpy(s->batch.data, s->room->data, sizeof s->room->data);
    course_describe(&p->course, p->epoch, p->index, &s->batch);
    s->left      = s->batch.count;
    s->ready     = !s->left; /* of several ranks, one may have no part of a short batch */
    s->skipped   = 0;
    s->status    = STATUS_OK;
    s->err_place = INT64_MAX;
    p->issued    = 0;
    p->index += s->batch.all;
    if (s->ready) pthread_cond_signal(&p->made);
    return true;
}

static struct item *item_new(struct pipeline *p)
{
    struct item *i = p->free;
    if (i) p->free = i->next;
    else if (p->item_count < p->item_max) i = &p->items[p->item_count++];
    if (i) p->flying++;
    return i;
}

/* Samples of the newest batch that are not yet on their way. */
static i64 unissued(struct pipeline *p)
{
    return p->begun ? slot_of(p, p->begun - 1)->batch.count - p->issued : 0;
}

/* The next sample of the order; NULL: there is none. */
static struct item *issue(struct pipeline *p)
{
    const struct feeds *feeds = &p->course.dataset->feeds;
    while (!unissued(p))
        if (!batch_begin(p)) return NULL;
    struct item *i = item_new(p);
    if (!i) return NULL;
    struct batch *b = &slot_of(p, p->begun - 1)->batch;
    i->batch        = p->begun - 1;
    i->place        = p->issued++;
    i->skipped      = 0;
    i->status       = STATUS_OK;
    i->borrows      = false;
    i->sample.split = p->course.config.split;
    i->sample.seed  = p->course.config.seed;
    i->sample.epoch = b->epoch;
    i->sample.index = b->index + b->first + i->place;
    i->sample.whole = str_eq(p->course.config.options.keep, STR("on"));
    i->sample.stop  = &p->stop;
    for (i32 f = 0; f < feeds->count; f++)
        i->sample.to[f] = (u8 *)b->data[f] + i->place * type_bytes(feeds->feed[f].type);
    return i;
}

static struct item *pop(struct lane *l)
{
    struct item *i = l->first;
    l->first       = i->next;
    l->queued--;
    return i;
}

static void push(struct lane *l, struct item *i)
{
    i->next = NULL;
    if (l->first) l->last->next = i;
    else l->first = i;
    l->last = i;
    l->queued++;
}

/* Threads in stages that only compute. */
static i64 computing(const struct pipeline *p)
{
    i64 threads = 0;
    for (i64 k = 0; k < p->lane_count; k++)
        if (p->lanes[k].computes) threads += p->lanes[k].running;
    return threads;
}

/* How many more may be in this stage now, if there is something to do in it. */
static i64 permits(const struct pipeline *p, const struct lane *l)
{
    i64 more = l->workers - l->running;
    for (const struct lane *later = l + 1; later < p->lanes + p->lane_count; later++)
        if (later->queued >= later->queue_max) return 0;
    return l->computes ? MIN(more, p->cores - computing(p)) : more;
}

/* How many threads could begin something in this stage now. */
static i64 openings(struct pipeline *p, const struct lane *l)
{
    i64 samples = l->queued;
    if (l == p->lanes)
        samples = MIN(may_begin(p) ? LOADER_WORKERS_MAX : unissued(p), p->flying_max - p->flying);
    return samples > 0 ? MAX(MIN(samples, permits(p, l)), 0) : 0;
}

/* Wakes a thread if there is more to do than those that are woken already will find. */
static void call(struct pipeline *p)
{
    i64 count = 0;
    if (p->called >= p->idle) return;
    for (i64 k = 0; k < p->lane_count; k++) count += openings(p, &p->lanes[k]);
    if (p->called >= count) return;
    p->called++;
    pthread_cond_signal(&p->go);
}

/* Something to do, and in which stage; NULL: the pipeline closes. */
static struct item *take(struct pipeline *p, struct lane **at)
{
    while (!p->stop) {
        for (struct lane *l = p->lanes + p->lane_count; l-- > p->lanes;) {
            struct item *i = NULL;
            if (openings(p, l)) i = l == p->lanes ? issue(p) : pop(l);
            *at = l;
            if (i) return i;
        }
        p->idle++;
        pthread_cond_wait(&p->go, &p->lock);
        p->idle--;
        if (p->called) p->called--;
    }
    return NULL;
}

static void collate(struct pipeline *p, struct slot *s)
{
    const struct format *format = p->course.dataset->format;
    struct collation     c      = { .split = p->course.config.split,
                                    .seed  = p->course.config.seed,
                                    .epoch = s->batch.epoch,
                                    .index = s->batch.index + s->batch.first,
                                    .count = s->batch.count,
                                    .to    = s->batch.data };
    if (format->collate && !s->status) {
        pthread_mutex_unlock(&p->lock);
        format->collate(p->course.dataset, &c);
        pthread_mutex_lock(&p->lock);
    }
    s->ready = true;
    if (s == slot_of(p, p->given)) pthread_cond_signal(&p->made);
}

/* The sample is in its place, or never will be. */
static void finish(struct pipeline *p, struct item *i)
{
    struct slot *s = slot_of(p, i->batch);
    s->skipped += i->skipped;
    bool worse = i->status && !s->status, as_bad = !i->status == !s->status;
    if (i->skipped && (worse || (as_bad && i->place < s->err_place))) {
        s->status    = i->status;
        s->err       = i->err;
        s->err_place = i->place;
    }
    if (i->borrows) i->sample.decoded = i->own;
    i->next = p->free;
    p->free = i;
    p->flying--;
    if (--s->left == 0) collate(p, s);
}

/* What a sample took of its stage. */
struct took {
    i64 busy_ns, cpu_ns;
    i64 delay_ns; /* ready, and without a core; 0 where that was not looked at, which takes a while */
    bool waited; /* for a disk, a network, … */
};

static struct took item_run_timed(struct worker *w, const struct lane *l, struct item *i,
                                  bool look_at_delay)
{
    struct os  *os    = w->pipeline->os;
    struct took t     = { .busy_ns  = -os->now_ns(os),
                          .cpu_ns   = -thread_cpu_ns(),
                          .delay_ns = look_at_delay ? -thread_delay_ns(&w->delay_fd) : 0 };
    i64         waits = thread_waits();
    item_run(w->pipeline, i, l, &w->spare);
    t.waited = thread_waits() > waits;
    if (look_at_delay) t.delay_ns += thread_delay_ns(&w->delay_fd);
    t.cpu_ns += thread_cpu_ns();
    t.busy_ns += os->now_ns(os);
    return t;
}

/* Do threads in this stage need a core all the time? */
static void classify(struct lane *l, const struct took *t)
{
    l->seen++;
    l->seen_waiting += t->waited;
    if (l->seen < CLASSIFY_SAMPLES) return;
    l->computes = 10 * l->seen_waiting < l->seen;
    l->seen = l->seen_waiting = 0;
}

/* Under the lock. */
static void account(struct pipeline *p, struct lane *l, const struct item *i, const struct took *t)
{
    i64 decoded = i->borrows ? i->own.room : i->sample.decoded.room;
    if (l == p->lanes && i->borrows) return; /* no work of this stage */
    l->sums.samples++;
    l->sums.busy_ns += t->busy_ns;
    l->sums.cpu_ns += t->cpu_ns;
    l->sums.own_ns += t->waited ? MAX(t->busy_ns - t->delay_ns, t->cpu_ns) : t->cpu_ns;
    classify(l, t);
    if (l->stage == STAGE_DECODE) p->tally.decoded_bytes += i->sample.decoded.bytes;
    p->tally.sample_bytes_max = MAX(p->tally.sample_bytes_max, i->sample.raw.room + decoded);
}

/* The stage is done: goes on with the sample in the next, or returns NULL. */
static struct item *pass_on(struct pipeline *p, struct item *i, struct lane **at)
{
    struct lane *last = p->lanes + p->lane_count - 1, *next = i->borrows ? last : *at + 1;
    if (i->status || *at == last) {
        finish(p, i);
        return NULL;
    }
    *at = next;
    if (!next->queued && permits(p, next) > 0) return i;
    push(next, i);
    return NULL;
}

static void *worker_main(void *context)
{
    struct worker   *w = context;
    struct pipeline *p = w->pipeline;
    struct item     *i = NULL;
    struct lane     *l;
    pthread_mutex_lock(&p->lock);
    while (!p->stop && (i || (i = take(p, &l)))) {
        l->running++;
        call(p);
        bool waits = !l->computes;
        pthread_mutex_unlock(&p->lock);
        struct took took = item_run_timed(w, l, i, waits);
        pthread_mutex_lock(&p->lock);
        l->running--;
        account(p, l, i, &took);
        i = pass_on(p, i, &l);
    }
    if (w->delay_fd >= 0) close(w->delay_fd);
    p->alive--;
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- threads --- */

static enum status start_threads(struct pipeline *p, i64 count, struct err *err)
{
    enum status st = STATUS_OK;
    while (!st && p->started < count) {
        struct worker *w = &p->workers[p->started];
        *w               = (struct worker){ .pipeline = p, .delay_fd = -1 };
        pthread_mutex_lock(
            &p->lock); /* which it takes first: it is counted before it does anything */
        st = thread_start(&w->thread, worker_main, w, "a thread of the loader", err);
        p->alive += !st;
        p->started += !st;
        pthread_mutex_unlock(&p->lock);
    }
    return st;
}

enum status pipeline_apply(struct pipeline *p, const struct tuner_choice *c, struct err *err)
{
    i64 threads = 0, flying_max = 0;
    pthread_mutex_lock(&p->lock);
    for (i64 k = 0; k < p->lane_count; k++) {
        struct lane *l = &p->lanes[k];
        l->workers     = c->workers[k];
        l->queue_max   = c->queue[k];
        threads += l->workers;
        flying_max += l->workers + l->queue_max;
    }
    p->flying_max = flying_max;
    p->prefetch   = c->prefetch;
    call(p);
    pthread_mutex_unlock(&p->lock);
    return start_threads(p, threads, err); /* where some are refused, the others do it */
}

/* --- open, next, close --- */

static void lanes_new(struct pipeline *p)
{
    const struct format *format             = p->course.dataset->format;
    stage_fn *const      hooks[STAGE_COUNT] = { format->read, format->decode, format->augment };
    for (enum stage s = 0; s < STAGE_COUNT; s++) {
        if (!hooks[s]) continue;
        struct lane *l = &p->lanes[p->lane_count];
        l->stage       = s;
        l->run         = hooks[s];
        p->lane_count++;
    }
}

/* Address space for the most that may ever be used; pages come as they are touched. */
static struct pipeline *memory_new(const struct course *c, struct err *err)
{
    const struct feeds *feeds = &c->dataset->feeds;
    i64 ahead = c->config.options.prefetch ? c->config.options.prefetch : LOADER_PREFETCH_MAX;
    i64 slots = ahead + 1, reserve = 1 << 20, queue = c->config.queue;
    i64 items = STAGE_COUNT * (LOADER_WORKERS_MAX + MAX(queue, 2 * LOADER_WORKERS_MAX));
    for (i32 f = 0; f < feeds->count; f++)
        reserve += slots * (course_most(c) * type_bytes(feeds->feed[f].type) + ALIGN);
    reserve += (i64)sizeof(struct pipeline) + slots * (i64)sizeof(struct slot) +
               slots * (i64)sizeof(struct room) + items * (i64)sizeof(struct item) +
               THREADS_MAX * (i64)sizeof(struct worker);
    struct arena arena = arena_open(reserve);
    if (!arena.begin) {
        err_set(err, STATUS_WORLD, "the system refuses %lld bytes of address space for batches",
                (long long)reserve);
        return NULL;
    }
    struct pipeline *p = NEW(&arena, struct pipeline, 1);
    p->slots           = NEW(&arena, struct slot, slots);
    p->slot_count      = slots;
    p->rooms           = NEW(&arena, struct room, slots);
    p->workers         = NEW(&arena, struct worker, THREADS_MAX);
    p->items           = NEW(&arena, struct item, items);
    p->item_max        = items;
    for (i64 s = 0; s < slots; s++)
        for (i32 f = 0; f < feeds->count; f++)
            p->rooms[s].data[f] =
                arena_take(&arena, course_most(c), type_bytes(feeds->feed[f].type), ALIGN);
    p->arena = arena;
    return p;
}

/* It is held for less time than it takes to fall asleep and be woken. */
static void lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t spins;
    pthread_mutexattr_init(&spins);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP /* glibc has it; the type itself is in an enum */
    pthread_mutexattr_settype(&spins, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(lock, &spins);
    pthread_mutexattr_destroy(&spins);
}

enum status pipeline_open(const struct course *c, struct pipeline **out, struct err *err)
{
    struct pipeline *p = memory_new(c, err);
    *out               = NULL;
    if (!p) return STATUS_WORLD;
    p->course = *c;
    p->os     = c->dataset->os;
    p->epoch  = c->config.epoch;
    p->index  = c->config.index;
    lock_init(&p->lock);
    pthread_cond_init(&p->go, NULL);
    thread_cond_init(&p->made);
    thread_cond_init(&p->ended);
    thread_cond_init(&p->tick);
    lanes_new(p);
    enum status st = conductor_start(p, err);
    if (st) pipeline_close(p);
    else *out = p;
    return st;
}

/* How long the caller was away, if that tells how fast it takes batches. */
static void account_away(struct pipeline *p, i64 now_ns)
{
    struct tally *t    = &p->tally;
    i64           away = p->left_ns ? now_ns - p->left_ns : 0;
    i64           mean = t->away_ns / MAX(t->batches, 1);
    if (away > MAX(PAUSE_TIMES * mean, pause_min_ns)) t->paused_ns += away;
    else t->away_ns += away;
}

static void say_skipped(struct pipeline *p, const struct slot *s)
{
    char line[LOADER_LINE_MAX];
    bool last = p->tally.skipped < SKIPS_SAID && p->tally.skipped + s->skipped >= SKIPS_SAID;
    if (s->skipped && p->tally.skipped < SKIPS_SAID) {
        snprintf(line, sizeof line, "%lld sample%s skipped%s: %.160s", (long long)s->skipped,
                 s->skipped == 1 ? "" : "s", last ? ", further ones are only counted" : "",
                 s->err.text);
        pipeline_say(p, line);
    }
    p->tally.skipped += s->skipped;
}

/* Under the lock. */
static bool next_is_there(struct pipeline *p)
{
    bool ready = p->begun > p->given && slot_of(p, p->given)->ready;
    return p->failed || ready || (p->all_begun && p->begun == p->given);
}

/* Under the lock: what the caller waits for is there, or it is `until_ns`. */
static bool await_next(struct pipeline *p, i64 until_ns)
{
    if (!p->next_since_ns) {
        p->next_since_ns = p->os->now_ns(p->os);
        account_away(p, p->next_since_ns);
    }
    p->called = 0; /* glibc may lose a signal (its bug 25847): rather one too many */
    call(p);
    while (!next_is_there(p))
        if (!thread_wait_until(&p->made, &p->lock, until_ns)) break;
    return next_is_there(p);
}

bool pipeline_ready(struct pipeline *p, i64 until_ns)
{
    pthread_mutex_lock(&p->lock);
    bool there = await_next(p, until_ns);
    pthread_mutex_unlock(&p->lock);
    return there;
}

struct batch *pipeline_next(struct pipeline *p)
{
    struct batch *b = NULL;
    pthread_mutex_lock(&p->lock);
    if (p->held) room_give_back(p, p->held);
    p->held = NULL;
    ASSERT(await_next(p, INT64_MAX));
    struct slot *s = slot_of(p, p->given);
    if (!p->failed && p->begun > p->given) {
        p->failed = s->status;
        p->err    = s->err;
        if (!p->failed) b = &s->batch;
    }
    p->left_ns = p->os->now_ns(p->os);
    p->tally.waited_ns += p->left_ns - p->next_since_ns;
    p->next_since_ns = 0;
    if (b) {
        p->given++;
        p->tally.batches++;
        p->tally.samples += b->count;
        p->held = s->room;
        say_skipped(p, s);
        call(p);
    }
    pthread_mutex_unlock(&p->lock);
    return b;
}

enum status pipeline_failed(struct pipeline *p, struct err *err)
{
    if (p->failed && err) *err = p->err;
    return p->failed;
}

struct loader_stats pipeline_stats(struct pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    struct kept        *kept = atomic_load(&p->kept);
    struct loader_stats s    = { .waited_ns  = p->tally.waited_ns,
                                 .batches    = p->tally.batches,
                                 .samples    = p->tally.samples,
                                 .skipped    = p->tally.skipped,
                                 .prefetch   = p->prefetch,
                                 .kept       = kept_count(kept),
                                 .kept_bytes = kept_bytes(kept),
                                 .stages     = p->lane_count };
    for (i64 k = 0; k < p->lane_count; k++) {
        const struct lane *l = &p->lanes[k];
        s.stage[l->stage]    = (struct loader_stage_stats){ .workers = l->workers,
                                                            .samples = l->sums.samples,
                                                            .busy_ns = l->sums.busy_ns,
                                                            .cpu_ns  = l->sums.cpu_ns };
    }
    pthread_mutex_unlock(&p->lock);
    return s;
}

static void release(struct pipeline *p)
{
    for (i64 w = 0; w < p->started; w++) buffer_release(&p->workers[w].spare);
    for (i64 i = 0; i < p->item_count; i++) {
        struct item *item = &p->items[i];
        if (item->borrows) item->sample.decoded = item->own;
        buffer_release(&item->sample.raw);
        buffer_release(&item->sample.decoded);
    }
    kept_close(atomic_load(&p->kept));
    pthread_cond_destroy(&p->tick);
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->made);
    pthread_cond_destroy(&p->go);
    pthread_mutex_destroy(&p->lock);
    struct arena arena = p->arena;
    arena_close(&arena);
}

static void let_go(pthread_t thread, bool ended)
{
    if (ended) pthread_join(thread, NULL);
    else pthread_detach(thread);
}

/* A thread that does not come back from a read is left behind, with all that it may still touch. */
bool pipeline_close(struct pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->go);
    pthread_cond_signal(&p->tick);
    i64 until_ns = p->os->now_ns(p->os) + close_limit_ns;
    while (p->alive && thread_wait_until(&p->ended, &p->lock, until_ns)) continue;
    bool all = p->alive == 0;
    pthread_mutex_unlock(&p->lock);
    for (i64 w = 0; w < p->started; w++) let_go(p->workers[w].thread, all);
    if (p->conducted) let_go(p->conductor, all);
    if (all) release(p);
    else p->course.dataset->held = true;
    return all;
}
