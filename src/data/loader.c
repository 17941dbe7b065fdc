/* loader.c - the loader of mapped data: one thread that makes batches ahead, into a ring of three or,
 * where they are small, of more. Formats with stages have pipeline.c.
 *
 *     ring    [ the caller reads ] [ ready ] ... [ being filled ]
 *
 * The thread fills the slots in turn; when all are taken it sleeps until half of them are free, so
 * that a step of a small network need not wake it each time. loader_next gives the oldest ready
 * one and takes back the one it gave before. `made`, `given` and `ended` are guarded by the
 * mutex; a slot belongs to the thread until it is counted in `made`, and to the caller from then
 * until it is taken back. What comes next depends on (seed, epoch, index) only. */
#include "base/rng.h"
#include "base/thread.h"
#include "data/pipeline.h"

enum { RING_MIN = 3, RING_MAX = 16, RING_BYTES = 1 << 20, ALIGN = 64 };

struct loader {
    struct course    course;
    struct pipeline *pipeline; /* of a format with stages; NULL: all below is used */
    i64             *sample;   /* of the batch being made */
    struct batch    *ring;
    i64              slots; /* of the ring: as asked for, RING_MIN, or as many as RING_BYTES hold */

    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    i64             made, given;        /* batches so far; given <= made < given + slots */
    i64             verified;           /* batches made before the last look at the files */
    i64             samples, waited_ns; /* given; that the caller waited */
    bool            ended;              /* the thread makes no more */
    bool            stop;               /* it shall make no more */
};

i64 course_batch(const struct course *c, i64 index)
{
    i64 whole = c->config.whole, end = whole ? c->count - c->count % whole : c->count;
    return MAX(MIN(end - index, c->config.batch), 0);
}

/* Where the part begins: as even as samples allow. */
static i64 course_part(const struct course *c, i64 all, i64 part)
{
    return c->config.parts > 1 ? all * part / c->config.parts : part * all;
}

/* Samples that one batch of this loader may have. */
i64 course_most(const struct course *c)
{
    i64 parts = MAX(c->config.parts, 1);
    return (c->config.batch + parts - 1) / parts;
}

i64 course_shuffled(const struct course *c, i64 epoch, i64 index)
{
    const struct dataset *d    = c->dataset;
    u64                   seed = c->config.seed;
    if (!c->config.shuffle) return index;
    if (d->format->order) return d->format->order(d, c->config.split, seed, epoch, index);
    return rng_permute(seed, (u64)epoch, index, c->count);
}

i64 course_number(const struct course *c, i64 epoch, i64 index)
{
    return c->window ? window_number(c, epoch, index) : course_shuffled(c, epoch, index);
}

void course_describe(const struct course *c, i64 epoch, i64 index, struct batch *b)
{
    b->epoch      = epoch;
    b->index      = index;
    b->all        = course_batch(c, index);
    b->first      = course_part(c, b->all, c->config.part);
    b->count      = course_part(c, b->all, c->config.part + 1) - b->first;
    b->ends_epoch = course_batch(c, index + b->all) == 0;
}

/* By the batch's first sample, of all ranks' parts. */
static bool is_in_pieces(const struct course *c, const struct batch *b)
{
    const struct loader_config *l    = &c->config;
    i64                         each = l->whole ? c->count - c->count % l->whole : c->count;
    return b->epoch < INT64_MAX / each - 1 && b->epoch * each + b->index < l->in_pieces;
}

static void batch_make(struct loader *l, struct batch *b, i64 epoch, i64 index)
{
    const struct course *c = &l->course;
    course_describe(c, epoch, index, b);
    for (i64 i = 0; i < b->count; i++) l->sample[i] = course_number(c, epoch, index + b->first + i);
    if (is_in_pieces(c, b))
        dataset_fetch_pieces(c->dataset, c->config.seed, epoch, l->sample, b->count, b->data);
    else if (c->config.split == SPLIT_TRAIN && (c->config.shuffle || c->dataset->fresh))
        dataset_fetch_epoch(c->dataset, c->config.seed, epoch, l->sample, b->count, b->data);
    else dataset_fetch(c->dataset, c->config.split, l->sample, b->count, b->data);
}

/* Are so few batches ready that a thread asleep should get up? */
static bool half_empty(const struct loader *l) { return l->made - l->given <= (l->slots - 1) / 2; }

/* Counts the batch just made; then waits for a free slot. False: stop. */
static bool slot_wait(struct loader *l, i64 made)
{
    pthread_mutex_lock(&l->lock);
    l->made = made;
    pthread_cond_signal(&l->changed);
    if (l->made == l->given + l->slots - 1)
        while (!l->stop && !half_empty(l)) pthread_cond_wait(&l->changed, &l->lock);
    bool go_on = !l->stop;
    pthread_mutex_unlock(&l->lock);
    return go_on;
}

static void *thread_main(void *context)
{
    struct loader              *l     = context;
    const struct loader_config *c     = &l->course.config;
    i64                         epoch = c->epoch, index = c->index, made = 0;
    while (slot_wait(l, made)) {
        if (!course_batch(&l->course, index)) {
            if (!c->forever) break;
            epoch++;
            index = 0;
        }
        struct batch *b = &l->ring[made++ % l->slots];
        batch_make(l, b, epoch, index);
        index += b->all;
    }
    pthread_mutex_lock(&l->lock);
    l->ended = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void ring_new(struct loader *l, struct arena *perm)
{
    const struct feeds *feeds = dataset_feeds(l->course.dataset);
    i64                 batch = course_most(&l->course), ahead = l->course.config.options.prefetch;
    i64                 bytes = 0; /* of a batch */
    for (i32 f = 0; f < feeds->count; f++) bytes += batch * type_bytes(feeds->feed[f].type);
    l->slots = ahead ? ahead + 1 : MIN(MAX(RING_BYTES / bytes, RING_MIN), RING_MAX);
    l->ring  = NEW(perm, struct batch, l->slots);
    for (i64 slot = 0; slot < l->slots; slot++)
        for (i32 f = 0; f < feeds->count; f++)
            l->ring[slot].data[f] = arena_take(perm, batch, type_bytes(feeds->feed[f].type), ALIGN);
}

static enum status check_group(const struct loader_config *c, const struct format *f,
                               struct err *err)
{
    ASSERT(!c->group || c->shuffle);
    if (!c->group || f->length) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.shuffle=by_length needs data.kind=lines: the lengths of %.*s samples "
                   "are not known before they are read",
                   STR_ARG(f->kind));
}

static enum status check(const struct loader_config *c, i64 count, struct err *err)
{
    ASSERT(c->epoch >= 0);
    ASSERT(c->index >= 0);
    if (c->batch < 1)
        return err_set(err, STATUS_USAGE, "a batch cannot have %lld samples", (long long)c->batch);
    if (count < MAX(c->whole, 1))
        return err_set(err, STATUS_USAGE,
                       "the data has %lld %s samples, too few for a batch of %lld",
                       (long long)count, c->split == SPLIT_TRAIN ? "training" : "held-out",
                       (long long)MAX(c->whole, 1));
    if (c->index > count)
        return err_set(err, STATUS_USAGE, "cannot start at sample %lld of an epoch of %lld",
                       (long long)c->index, (long long)count);
    return STATUS_OK;
}

static enum status mapped_open(struct loader *l, struct arena *perm, struct err *err)
{
    l->sample = NEW(perm, i64, course_most(&l->course));
    ring_new(l, perm);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    enum status st = thread_start(&l->thread, thread_main, l, "the loader's thread", err);
    if (st) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
    }
    return st;
}

enum status loader_open(struct arena *perm, struct dataset *d, const struct loader_config *c,
                        struct loader **out, struct err *err)
{
    i64 count      = dataset_count(d, c->split);
    *out           = NULL;
    enum status st = check(c, count, err);
    if (!st) st = check_group(c, d->format, err);
    if (st) return st;
    struct loader *l = NEW(perm, struct loader, 1);
    l->course        = (struct course){ .dataset = d, .config = *c, .count = count };
    if (c->group) l->course.window = window_new(perm, &l->course);
    if (d->format->fetch) st = mapped_open(l, perm, err);
    else st = pipeline_open(&l->course, &l->pipeline, err);
    if (!st) *out = l;
    return st;
}

bool loader_ready(struct loader *l, i64 until_ns)
{
    return l->pipeline ? pipeline_ready(l->pipeline, until_ns) : true; /* memory is soon copied */
}

/* Under the lock; the clock is looked at only where there is a wait. */
static void await_batch(struct loader *l)
{
    struct os *os = l->course.dataset->os;
    if (l->made > l->given || l->ended) return;
    i64 begin_ns = os->now_ns(os);
    while (l->made == l->given && !l->ended) pthread_cond_wait(&l->changed, &l->lock);
    l->waited_ns += os->now_ns(os) - begin_ns;
}

static struct batch *mapped_next(struct loader *l, i64 *made)
{
    struct batch *b = NULL;
    pthread_mutex_lock(&l->lock);
    await_batch(l);
    if (l->made > l->given) {
        b = &l->ring[l->given++ % l->slots];
        l->samples += b->count;
    }
    if (half_empty(l)) pthread_cond_signal(&l->changed);
    *made = l->made;
    pthread_mutex_unlock(&l->lock);
    return b;
}

/* A file that was lost meanwhile may have left zeros in any batch: one is given only after a look at the
 * files that is later than its making. */
struct batch *loader_next(struct loader *l)
{
    if (l->pipeline) {
        struct batch *b = pipeline_next(l->pipeline);
        return os_maps_check(NULL) ? NULL : b;
    }
    i64           made;
    struct batch *b = mapped_next(l, &made);
    if (b && l->given > l->verified) {
        if (os_maps_verify(NULL)) return NULL;
        l->verified = made;
    }
    return b;
}

enum status loader_failed(struct loader *l, struct err *err)
{
    enum status st = os_maps_check(err);
    return st || !l->pipeline ? st : pipeline_failed(l->pipeline, err);
}

bool loader_says(struct loader *l, char line[LOADER_LINE_MAX])
{
    return l->pipeline && pipeline_says(l->pipeline, line);
}

/* Asked by the thread that takes the batches, whose own these numbers are. */
struct loader_stats loader_stats(struct loader *l)
{
    if (l->pipeline) return pipeline_stats(l->pipeline);
    return (struct loader_stats){ .waited_ns = l->waited_ns,
                                  .batches   = l->given,
                                  .samples   = l->samples,
                                  .prefetch  = l->slots - 1 };
}

bool loader_close(struct loader *l)
{
    if (!l) return true;
    if (l->pipeline) return pipeline_close(l->pipeline);
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    return true;
}
