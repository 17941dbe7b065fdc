/* loader.c - one thread that makes batches ahead, into a ring of three or, where they are small,
 * of more.
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
#include "data/data.h"

enum { RING_MIN = 3, RING_MAX = 16, RING_BYTES = 1 << 20, ALIGN = 64 };

struct loader {
    struct dataset      *dataset;
    struct loader_config config;
    i64                  count;  /* samples of an epoch */
    i64                 *sample; /* of the batch being made */
    struct batch         ring[RING_MAX];
    i64                  slots; /* of the ring: RING_MIN, or as many as RING_BYTES hold */

    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    i64             made, given; /* batches so far; given <= made < given + slots */
    bool            ended;       /* the thread makes no more */
    bool            stop;        /* it shall make no more */
};

/* Samples of the batch that begins at `index`; 0 where the epoch has no further batch. */
static i64 batch_count(const struct loader *l, i64 index)
{
    i64 left = l->count - index;
    if (left < l->config.batch && l->config.drop_last) return 0;
    return MIN(left, l->config.batch);
}

static void batch_make(struct loader *l, struct batch *b, i64 epoch, i64 index)
{
    const struct loader_config *c = &l->config;
    b->epoch                      = epoch;
    b->index                      = index;
    b->count                      = batch_count(l, index);
    b->ends_epoch                 = batch_count(l, index + b->count) == 0;
    for (i64 i = 0; i < b->count; i++)
        l->sample[i] =
            c->shuffle ? rng_permute(c->seed, (u64)epoch, index + i, l->count) : index + i;
    dataset_fetch(l->dataset, c->split, l->sample, b->count, b->data);
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
    struct loader *l     = context;
    i64            epoch = l->config.epoch, index = l->config.index, made = 0;
    while (slot_wait(l, made)) {
        if (!batch_count(l, index)) {
            if (!l->config.forever) break;
            epoch++;
            index = 0;
        }
        struct batch *b = &l->ring[made++ % l->slots];
        batch_make(l, b, epoch, index);
        index += b->count;
    }
    pthread_mutex_lock(&l->lock);
    l->ended = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void ring_new(struct loader *l, struct arena *perm)
{
    const struct feeds *feeds = dataset_feeds(l->dataset);
    i64                 bytes = 0; /* of a batch */
    for (i32 f = 0; f < feeds->count; f++)
        bytes += l->config.batch * type_bytes(feeds->feed[f].type);
    l->slots = MIN(MAX(RING_BYTES / bytes, RING_MIN), RING_MAX);
    for (i64 slot = 0; slot < l->slots; slot++)
        for (i32 f = 0; f < feeds->count; f++)
            l->ring[slot].data[f] =
                arena_take(perm, l->config.batch, type_bytes(feeds->feed[f].type), ALIGN);
}

enum status loader_open(struct arena *perm, struct dataset *d, const struct loader_config *c,
                        struct loader **out, struct err *err)
{
    i64 count = dataset_count(d, c->split);
    *out      = NULL;
    ASSERT(c->epoch >= 0);
    ASSERT(c->index >= 0);
    if (c->batch < 1)
        return err_set(err, STATUS_USAGE, "a batch of %lld samples is none", (long long)c->batch);
    if (count < (c->drop_last ? c->batch : 1))
        return err_set(err, STATUS_USAGE,
                       "the data has %lld %s samples, which make no batch of %lld",
                       (long long)count, c->split == SPLIT_TRAIN ? "training" : "held-out",
                       (long long)c->batch);
    if (c->index > count)
        return err_set(err, STATUS_USAGE, "cannot start at sample %lld of an epoch of %lld",
                       (long long)c->index, (long long)count);

    struct loader *l = NEW(perm, struct loader, 1);
    *l               = (struct loader){ .dataset = d, .config = *c, .count = count };
    l->sample        = NEW(perm, i64, c->batch);
    ring_new(l, perm);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    enum status st = thread_start(&l->thread, thread_main, l, "the loader's thread", err);
    if (st) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
        return st;
    }
    *out = l;
    return STATUS_OK;
}

struct batch *loader_next(struct loader *l)
{
    struct batch *b = NULL;
    pthread_mutex_lock(&l->lock);
    while (l->made == l->given && !l->ended) pthread_cond_wait(&l->changed, &l->lock);
    if (l->made > l->given) b = &l->ring[l->given++ % l->slots];
    if (half_empty(l)) pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return b;
}

void loader_close(struct loader *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}
