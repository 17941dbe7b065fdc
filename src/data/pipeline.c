/* pipeline.c - samples go from stage to stage on the threads of each, and end in their place in a batch.
 *
 *     order ─► read ─►[queue]─► decode ─►[queue]─► augment ─► slot of the batch ─► the caller
 *                └──────── what is kept in memory ───────┘
 *
 * A sample is given its batch and its place in it before anything is done for it, so it does not matter
 * which thread does what and when: the batches are the same. A slot is ready when all its samples are in
 * place; the caller takes slots in their order. At most `prefetch` batches are begun beyond those given,
 * at most `flying_max` samples are on their way, and each queue has a bound of its own. A thread waits
 * for room in the queue after it, and the last stage never waits: so the first batch always gets on.
 *
 * A sample that cannot be had gives its place to the next of the epoch's order that can: a function of
 * (seed, epoch, index) again, as long as the same samples fail. */
#include "data/pipeline_int.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 64, NEXT_TRIED_MAX = 64, SKIPS_SAID = 8 };
static const i64 close_limit_ns = 1000000000; /* for threads that wait for a disk or a network */
static const i64 probe_every_ns = 5000000; /* of a thread: the two looks take a thousandth of it */
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
    for (i64 k = 1; i->status && p->course.config.skip && !atomic_load(&p->stop); k++) {
        if (k == MIN(NEXT_TRIED_MAX, p->course.count)) {
            err_set(&first, i->status,
                    "%lld samples in a row cannot be had; the last of them: %.400s", (long long)k,
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

static void item_run(struct pipeline *p, struct item *i, struct worker *w)
{
    const struct lane *lane = w->lane;
    i->sample.spare         = &w->spare;
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

static bool batch_begin(struct pipeline *p)
{
    if (p->all_begun || p->begun >= p->given + p->prefetch) return false;
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
    course_describe(&p->course, p->epoch, p->index, &s->batch);
    s->left      = s->batch.count;
    s->ready     = false;
    s->skipped   = 0;
    s->status    = STATUS_OK;
    s->err_place = INT64_MAX;
    p->issued    = 0;
    p->index += s->batch.count;
    return true;
}

static struct item *item_new(struct pipeline *p)
{
    struct item *i = p->free;
    if (p->flying >= p->flying_max) return NULL;
    if (i) p->free = i->next;
    else if (p->item_count < p->item_max) i = &p->items[p->item_count++];
    if (i) p->flying++;
    return i;
}

/* The next sample of the order; NULL: nothing may be begun now. */
static struct item *issue(struct pipeline *p)
{
    const struct feeds *feeds = &p->course.dataset->feeds;
    bool all_issued           = !p->begun || p->issued == slot_of(p, p->begun - 1)->batch.count;
    if (all_issued && !batch_begin(p)) return NULL;
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
    i->sample.index = b->index + i->place;
    i->sample.whole = str_eq(p->course.config.options.keep, STR("on"));
    i->sample.stop  = &p->stop;
    for (i32 f = 0; f < feeds->count; f++)
        i->sample.to[f] = (u8 *)b->data[f] + i->place * type_bytes(feeds->feed[f].type);
    return i;
}

static struct item *pop(struct lane *l)
{
    struct item *i = l->first;
    if (!i) return NULL;
    l->first = i->next;
    l->queued--;
    pthread_cond_signal(&l->room);
    return i;
}

/* False: the pipeline closes. */
static bool push(struct pipeline *p, struct lane *l, struct item *i)
{
    while (l->queued >= l->queue_max && !p->stop) pthread_cond_wait(&l->room, &p->lock);
    if (p->stop) return false;
    i->next = NULL;
    if (l->first) l->last->next = i;
    else l->first = i;
    l->last = i;
    l->queued++;
    pthread_cond_signal(&l->go);
    return true;
}

static struct item *take(struct worker *w)
{
    struct pipeline *p = w->pipeline;
    struct lane     *l = w->lane;
    struct item     *i = NULL;
    while (!p->stop) {
        if (w->index >= l->workers) {
            pthread_cond_wait(&l->parked, &p->lock);
            continue;
        }
        i = l == p->lanes ? issue(p) : pop(l);
        if (i) return i;
        pthread_cond_wait(&l->go, &p->lock);
    }
    return NULL;
}

static void collate(struct pipeline *p, struct slot *s)
{
    const struct format *format = p->course.dataset->format;
    struct collation     c      = { .split = p->course.config.split,
                                    .seed  = p->course.config.seed,
                                    .epoch = s->batch.epoch,
                                    .index = s->batch.index,
                                    .count = s->batch.count,
                                    .to    = s->batch.data };
    if (format->collate && !s->status) {
        pthread_mutex_unlock(&p->lock);
        format->collate(p->course.dataset, &c);
        pthread_mutex_lock(&p->lock);
    }
    s->ready = true;
    pthread_cond_signal(&p->made);
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
    pthread_cond_signal(&p->lanes[0].go);
    if (--s->left == 0) collate(p, s);
}

/* What a sample took of its stage. */
struct took {
    i64  busy_ns, cpu_ns, delay_ns;
    bool probed; /* the delay is known: to ask for it costs too much for each */
};

static struct took item_run_timed(struct pipeline *p, struct item *i, struct worker *w)
{
    i64         begin_ns = p->os->now_ns(p->os), cpu_ns = thread_cpu_ns();
    struct took t = { .probed = begin_ns - w->probed_at_ns > probe_every_ns };
    if (t.probed) t.delay_ns = -thread_delay_ns(&w->delay_fd);
    item_run(p, i, w);
    i64 end_ns = p->os->now_ns(p->os);
    t.busy_ns  = end_ns - begin_ns;
    t.cpu_ns   = thread_cpu_ns() - cpu_ns;
    if (t.probed) {
        t.delay_ns += thread_delay_ns(&w->delay_fd);
        w->probed_at_ns = end_ns;
    }
    return t;
}

/* Under the lock. */
static void account(struct pipeline *p, struct lane *l, const struct item *i, const struct took *t)
{
    i64 decoded = i->borrows ? i->own.room : i->sample.decoded.room;
    if (l == p->lanes && i->borrows) return; /* no work of this stage */
    l->samples++;
    l->busy_ns += t->busy_ns;
    l->cpu_ns += t->cpu_ns;
    l->delay_ns += t->delay_ns;
    if (t->probed) l->probed_ns += t->busy_ns;
    if (l->stage == STAGE_DECODE) p->tally.decoded_bytes += i->sample.decoded.bytes;
    p->tally.sample_bytes_max = MAX(p->tally.sample_bytes_max, i->sample.raw.room + decoded);
}

static void *worker_main(void *context)
{
    struct worker   *w = context;
    struct pipeline *p = w->pipeline;
    struct lane     *l = w->lane, *end = p->lanes + p->lane_count;
    pthread_mutex_lock(&p->lock);
    for (struct item *i; (i = take(w));) {
        pthread_mutex_unlock(&p->lock);
        struct took took = item_run_timed(p, i, w);
        pthread_mutex_lock(&p->lock);
        account(p, l, i, &took);
        struct lane *next = i->borrows ? end - 1 : l + 1;
        if (i->status || l == end - 1) finish(p, i);
        else if (!push(p, next, i)) break;
    }
    if (w->delay_fd >= 0) close(w->delay_fd);
    p->alive--;
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- threads --- */

static enum status start_workers(struct pipeline *p, i64 lane, i64 count, struct err *err)
{
    struct lane *l  = &p->lanes[lane];
    enum status  st = STATUS_OK;
    while (!st && l->started < count) {
        struct worker *w = &p->workers[lane][l->started];
        *w = (struct worker){ .pipeline = p, .lane = l, .index = l->started, .delay_fd = -1 };
        pthread_mutex_lock(
            &p->lock); /* which it takes first: it is counted before it does anything */
        st = thread_start(&w->thread, worker_main, w, "a thread of the loader", err);
        p->alive += !st;
        l->started += !st;
        pthread_mutex_unlock(&p->lock);
    }
    return st;
}

enum status pipeline_apply(struct pipeline *p, const struct tuner_choice *c, struct err *err)
{
    enum status st         = STATUS_OK;
    i64         flying_max = 0;
    for (i64 k = 0; k < p->lane_count; k++) {
        enum status one = start_workers(p, k, c->workers[k], err);
        if (one) st = one;
    }
    pthread_mutex_lock(&p->lock);
    for (i64 k = 0; k < p->lane_count; k++) {
        struct lane *l = &p->lanes[k];
        l->workers     = MIN(c->workers[k], l->started);
        l->queue_max   = c->queue[k];
        flying_max += l->workers + l->queue_max;
        pthread_cond_broadcast(&l->parked);
        pthread_cond_broadcast(&l->go);
        pthread_cond_broadcast(&l->room);
    }
    p->flying_max = flying_max;
    p->prefetch   = c->prefetch;
    pthread_mutex_unlock(&p->lock);
    return st;
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
        pthread_cond_init(&l->go, NULL);
        pthread_cond_init(&l->room, NULL);
        pthread_cond_init(&l->parked, NULL);
        p->workers[p->lane_count++] = NEW(&p->arena, struct worker, LOADER_WORKERS_MAX);
    }
}

/* Address space for the most that may ever be used; pages come as they are touched. */
static struct pipeline *memory_new(const struct course *c, struct err *err)
{
    const struct feeds *feeds = &c->dataset->feeds;
    i64 ahead = c->config.options.prefetch ? c->config.options.prefetch : LOADER_PREFETCH_MAX;
    i64 slots = ahead + 1, reserve = 1 << 20, queue = c->config.options.queue;
    i64 items = STAGE_COUNT * (LOADER_WORKERS_MAX + MAX(queue, 2 * LOADER_WORKERS_MAX));
    for (i32 f = 0; f < feeds->count; f++)
        reserve += slots * (c->config.batch * type_bytes(feeds->feed[f].type) + ALIGN);
    reserve += (i64)sizeof(struct pipeline) + slots * (i64)sizeof(struct slot) +
               items * (i64)sizeof(struct item) +
               STAGE_COUNT * LOADER_WORKERS_MAX * (i64)sizeof(struct worker);
    struct arena arena = arena_open(reserve);
    if (!arena.begin) {
        err_set(err, STATUS_WORLD, "the system refuses %lld bytes of addresses for batches",
                (long long)reserve);
        return NULL;
    }
    struct pipeline *p = NEW(&arena, struct pipeline, 1);
    p->slots           = NEW(&arena, struct slot, slots);
    p->slot_count      = slots;
    p->items           = NEW(&arena, struct item, items);
    p->item_max        = items;
    for (i64 s = 0; s < slots; s++)
        for (i32 f = 0; f < feeds->count; f++)
            p->slots[s].batch.data[f] =
                arena_take(&arena, c->config.batch, type_bytes(feeds->feed[f].type), ALIGN);
    p->arena = arena;
    return p;
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
    pthread_mutex_init(&p->lock, NULL);
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
        say_skipped(p, s);
        pthread_cond_broadcast(&p->lanes[0].go);
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
        s.stage[l->stage]    = (struct loader_stage_stats){
               .workers = l->workers, .samples = l->samples, .busy_ns = l->busy_ns, .cpu_ns = l->cpu_ns
        };
    }
    pthread_mutex_unlock(&p->lock);
    return s;
}

static void release(struct pipeline *p)
{
    for (i64 k = 0; k < p->lane_count; k++) {
        struct lane *l = &p->lanes[k];
        for (i64 w = 0; w < l->started; w++) buffer_release(&p->workers[k][w].spare);
        pthread_cond_destroy(&l->go);
        pthread_cond_destroy(&l->room);
        pthread_cond_destroy(&l->parked);
    }
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
    for (i64 k = 0; k < p->lane_count; k++) {
        pthread_cond_broadcast(&p->lanes[k].parked);
        pthread_cond_broadcast(&p->lanes[k].go);
        pthread_cond_broadcast(&p->lanes[k].room);
    }
    pthread_cond_signal(&p->tick);
    i64 until_ns = p->os->now_ns(p->os) + close_limit_ns;
    while (p->alive && thread_wait_until(&p->ended, &p->lock, until_ns)) continue;
    bool all = p->alive == 0;
    pthread_mutex_unlock(&p->lock);
    for (i64 k = 0; k < p->lane_count; k++)
        for (i64 w = 0; w < p->lanes[k].started; w++) let_go(p->workers[k][w].thread, all);
    if (p->conducted) let_go(p->conductor, all);
    if (all) release(p);
    else p->course.dataset->held = true;
    return all;
}
