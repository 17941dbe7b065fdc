/* test_pipeline.c - batches of a format with stages: the same for any threads, through faults, stops
 * and resumptions; never a hang. */
#include "base/hash.h"
#include "base/rng.h"
#include "data/data_int.h"
#include "harness.h"
#include <pthread.h>

/* A made-up data set: sample n is read as the bytes of n, decoded to n x 3, and augmented with randomness
 * of (seed, epoch, index). Samples of `bad` fail in a stage each; reads may be slow. */
struct made {
    struct dataset dataset;
    i64            bad_every; /* a sample in so many fails; 0: none */
    enum stage     bad_stage; /* STAGE_COUNT: in one that depends on the sample */
    i64            delay_ns;  /* of a stage, at most */
    bool           blocks;    /* a read does not end before `released` */
    bool           polite;    /* or before it is asked to stop */
    i64            reads_met; /* nor before so many are there at once */
    i64            compute;   /* turns of a loop in each stage */
    atomic_bool    released;
    atomic_llong   reads, reads_done, decodes;
    atomic_llong   alone;             /* samples that one thread took all the way */
    atomic_llong   computing, beside; /* threads in the loop now; times that there was another */
};

static bool is_bad(const struct made *m, i64 number, enum stage stage)
{
    if (!m->bad_every || rng_mix((u64)number) % (u64)m->bad_every) return false;
    enum stage in = m->bad_stage < STAGE_COUNT ? m->bad_stage : (enum stage)(number % STAGE_COUNT);
    return in == stage;
}

static enum status work(const struct dataset *d, struct sample *s, enum stage stage,
                        struct err *err)
{
    static const char *const names[] = { "read", "decode", "augment" };
    struct made             *m       = d->state;
    if (m->delay_ns) {
        u64 draw = rng_mix((u64)(s->number * 8 + s->epoch * 131 + stage));
        d->os->sleep_ns(d->os, (i64)(draw % (u64)m->delay_ns));
    }
    volatile u64 turned = (u64)s->number;
    atomic_fetch_add(&m->beside, atomic_fetch_add(&m->computing, 1) > 0);
    for (i64 i = 0; i < m->compute; i++) turned = rng_mix(turned);
    atomic_fetch_sub(&m->computing, 1);
    if (!is_bad(m, s->number, stage)) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "cannot %s sample %lld", names[stage], (long long)s->number);
}

static _Thread_local u8 this_thread;

static enum status read_made(const struct dataset *d, struct sample *s, struct err *err)
{
    struct made *m = d->state;
    atomic_fetch_add(&m->reads, 1);
    while (m->blocks && !m->released && !(m->polite && *s->stop)) {
        d->os->sleep_ns(d->os, 1000000);
        if (m->reads_met && m->reads >= m->reads_met) m->released = true;
    }
    atomic_fetch_add(&m->reads_done, 1);
    enum status st = buffer_resize(&s->raw, 8 + s->number % 100, err);
    if (st) return st;
    memset(s->raw.data, (int)(s->number & 0xff), (size_t)s->raw.bytes);
    memcpy(s->raw.data, &s->number, 8);
    s->width = (i64)(uintptr_t)&this_thread;
    return work(d, s, STAGE_READ, err);
}

static enum status decode_made(const struct dataset *d, struct sample *s, struct err *err)
{
    struct made *m = d->state;
    atomic_fetch_add(&m->decodes, 1);
    enum status st = buffer_resize(&s->decoded, 3 * s->raw.bytes, err);
    if (!st) st = buffer_resize(s->spare, 64, err);
    if (st) return st;
    for (i64 i = 0; i < 3; i++)
        memcpy(s->decoded.data + i * s->raw.bytes, s->raw.data, (size_t)s->raw.bytes);
    s->label = s->number % 10;
    return work(d, s, STAGE_DECODE, err);
}

static enum status augment_made(const struct dataset *d, struct sample *s, struct err *err)
{
    struct made   *m   = d->state;
    struct rng_key key = { .seed = s->seed, .step = (u64)s->epoch, .sample = (u64)s->index };
    i64            number;
    atomic_fetch_add(&m->alone, s->width == (i64)(uintptr_t)&this_thread);
    memcpy(&number, s->decoded.data, 8);
    *(i64 *)s->to[0] = number;
    *(i64 *)s->to[1] = (i64)rng_u32(key, 0) * 10 + s->label;
    return work(d, s, STAGE_AUGMENT, err);
}

/* Both feeds of the batch's first sample tell of the whole batch. */
static void collate_made(const struct dataset *d, const struct collation *c)
{
    i64 *y = c->to[1], sum = 0;
    (void)d;
    for (i64 i = 0; i < c->count; i++) sum += y[i] % 1000;
    y[0] += 1000000007 * (sum + 1);
}

static void close_made(struct dataset *d) { (void)d; }

static const struct format format_made = { .kind    = { "made", 4 },
                                           .read    = read_made,
                                           .decode  = decode_made,
                                           .augment = augment_made,
                                           .collate = collate_made,
                                           .close   = close_made };

static struct made *made_new(struct arena *perm, i64 count)
{
    struct made *m = NEW(perm, struct made, 1);
    m->dataset     = (struct dataset){ .format = &format_made, .os = os_real(), .state = m };
    m->dataset.count[SPLIT_TRAIN] = count;
    m->bad_stage                  = STAGE_COUNT;
    dataset_add_feed(&m->dataset, STR("x"), type_of(DT_F64, (struct shape){ 0 }), 0);
    dataset_add_feed(&m->dataset, STR("y"), type_of(DT_F64, (struct shape){ 0 }), 0);
    return m;
}

static struct loader *open_loader(struct arena *perm, struct made *m, struct loader_config c)
{
    struct loader *l;
    struct err     err;
    if (loader_open(perm, &m->dataset, &c, &l, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return l;
}

static struct loader_options fixed(i64 read, i64 decode, i64 augment, i64 prefetch)
{
    return (struct loader_options){ .workers       = { read, decode, augment },
                                    .workers_count = STAGE_COUNT,
                                    .prefetch      = prefetch };
}

/* All of a batch in one number. */
static u64 print_of(const struct batch *b)
{
    i64 head[] = { b->epoch, b->index, b->count, b->ends_epoch };
    u64 h      = xxh64((struct str){ (char *)head, sizeof head });
    for (i32 f = 0; f < 2; f++) h = rng_mix(h ^ xxh64((struct str){ b->data[f], b->count * 8 }));
    return h;
}

struct draw {
    struct rng_key key;
    u64            count;
};

static i64 draw(struct draw *d, i64 from, i64 to) /* [from, to] */
{
    return from + (i64)(rng_u32(d->key, d->count++) % (u64)(to - from + 1));
}

enum { PRINTS_MAX = 400 };

static void check_prints(struct arena perm, struct made *m, struct loader_config c,
                         const u64 *prints, i64 from, i64 to)
{
    struct loader *l = open_loader(&perm, m, c);
    for (i64 i = from; i < to; i++) {
        struct batch *b = loader_next(l);
        CHECK(b != NULL);
        CHECK_EQ(print_of(b), prints[i]);
    }
    CHECK(loader_close(l));
}

TEST(pipeline_gives_the_same_batches_for_any_threads_faults_and_resumption)
{
    struct draw          d = { .key.seed = test_seed() };
    u64                  prints[PRINTS_MAX];
    struct made         *m = made_new(perm, draw(&d, 20, 150));
    struct loader_config c = { .seed    = (u64)draw(&d, 0, 1 << 30),
                               .shuffle = draw(&d, 0, 3) > 0,
                               .forever = true,
                               .skip    = true,
                               .batch   = draw(&d, 1, 20) };
    c.whole = draw(&d, 0, 2) * c.batch; /* of 20 to 150 samples; 0: they may end anywhere */
    if (c.whole > m->dataset.count[SPLIT_TRAIN]) c.whole = c.batch;
    i64 epoch[PRINTS_MAX], index[PRINTS_MAX];
    i64 batches           = MIN(3 * m->dataset.count[SPLIT_TRAIN] / c.batch + 2, PRINTS_MAX);
    m->delay_ns           = 200000;
    m->bad_every          = draw(&d, 0, 1) * draw(&d, 3, 20);
    c.options             = fixed(1, 1, 1, 1);
    c.queue               = 1;
    struct arena   memory = scratch;
    struct loader *l      = open_loader(&memory, m, c);
    for (i64 i = 0; i < batches; i++) {
        struct batch *b = loader_next(l);
        prints[i]       = print_of(b);
        epoch[i]        = b->epoch;
        index[i]        = b->index;
    }
    i64 skipped = loader_stats(l).skipped;
    CHECK(loader_close(l));
    for (i64 w = 1; w <= 8; w++) {
        c.options = fixed(w, draw(&d, 1, w), draw(&d, 1, 8), draw(&d, 1, 5));
        c.queue   = draw(&d, 1, 9);
        check_prints(scratch, m, c, prints, 0, batches);
    }
    for (i64 i = 0; i < 8; i++) {
        i64 from = draw(&d, 0, batches - 1);
        c.epoch  = epoch[from];
        c.index  = index[from];
        c.options =
            i % 2 ? fixed(0, 0, 0, 0) : fixed(draw(&d, 1, 8), draw(&d, 1, 8), draw(&d, 1, 8), 0);
        c.queue = 0;
        check_prints(scratch, m, c, prints, from, MIN(from + 12, batches));
    }
    CHECK((skipped > 0) == (m->bad_every > 0) || m->bad_every > 10); /* few may be none */
}

TEST(pipeline_puts_the_next_sample_in_the_place_of_one_that_cannot_be_had)
{
    enum { COUNT = 60, BATCH = 7 };
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
        struct made         *m = made_new(perm, COUNT);
        struct loader_config c = { .batch = BATCH, .skip = true, .shuffle = true, .seed = 5 };
        m->bad_every           = 5;
        m->bad_stage           = stage;
        struct loader *l       = open_loader(perm, m, c);
        i64            bad = 0, tried = 0;
        for (struct batch *b; (b = loader_next(l));)
            for (i64 i = 0; i < b->count; i++) {
                i64 at = b->index + i, number = rng_permute(5, 0, at, COUNT);
                bad += is_bad(m, number, stage);
                for (; is_bad(m, number, stage); tried++)
                    number = rng_permute(5, 0, ++at % COUNT, COUNT);
                CHECK_EQ(((i64 *)b->data[0])[i], number);
            }
        CHECK(bad > 0);
        CHECK(!loader_failed(l, NULL));
        CHECK_EQ(loader_stats(l).skipped, tried);
        char line[LOADER_LINE_MAX];
        bool told = false;
        while (loader_says(l, line)) told = told || strstr(line, "skipped") != NULL;
        CHECK(told);
        CHECK(loader_close(l));
    }
}

/* Whatever the threads do: all batches before the bad sample's, then the sentence of the first in order. */
TEST(pipeline_stops_at_the_batch_of_a_bad_sample)
{
    enum { COUNT = 60, BATCH = 7 };
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        for (i64 workers = 1; workers < 6; workers++) {
            struct made         *m = made_new(perm, COUNT);
            struct loader_config c = { .batch   = BATCH,
                                       .queue   = 3,
                                       .options = fixed(workers, 2, workers, 4) };
            char                 expected[64];
            i64                  first = 0, batches = 0;
            struct err           err = { 0 };
            m->bad_every             = 9;
            m->bad_stage             = stage;
            m->delay_ns              = 100000;
            while (!is_bad(m, first, stage)) first++;
            struct loader *l = open_loader(perm, m, c);
            while (loader_next(l)) batches++;
            CHECK_EQ(batches, first / BATCH);
            CHECK_EQ(loader_failed(l, &err), STATUS_WORLD);
            static const char *const names[] = { "read", "decode", "augment" };
            snprintf(expected, sizeof expected, "cannot %s sample %lld", names[stage],
                     (long long)first);
            CHECK_STR(err.text, expected);
            CHECK(loader_next(l) == NULL);
            CHECK(loader_close(l));
        }
}

TEST(pipeline_gives_up_where_no_sample_can_be_had)
{
    struct made         *m = made_new(perm, 1000);
    struct loader_config c = { .batch = 3, .skip = true };
    struct err           err;
    m->bad_every     = 1;
    struct loader *l = open_loader(perm, m, c);
    CHECK(loader_next(l) == NULL);
    CHECK_EQ(loader_failed(l, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "64 samples in a row cannot be read; the last of them: cannot ") !=
          NULL);
    CHECK(loader_close(l));
}

TEST(pipeline_ends_where_it_is_not_for_ever)
{
    for (i64 prefetch = 1; prefetch < 5; prefetch++) {
        struct made         *m = made_new(perm, 10);
        struct loader_config c = { .batch = 4, .queue = 2, .options = fixed(2, 2, 2, prefetch) };
        struct loader       *l = open_loader(perm, m, c);
        CHECK_EQ(loader_next(l)->count, 4);
        CHECK_EQ(loader_next(l)->count, 4);
        struct batch *b = loader_next(l);
        CHECK_EQ(b->count, 2);
        CHECK(b->ends_epoch);
        CHECK(loader_next(l) == NULL);
        CHECK(loader_next(l) == NULL);
        CHECK(!loader_failed(l, NULL));
        CHECK(loader_close(l));
    }
}

TEST(pipeline_closes_at_any_moment)
{
    struct draw  d = { .key.seed = test_seed() };
    struct made *m = made_new(perm, 50);
    m->delay_ns    = 100000;
    for (i64 i = 0; i < 60; i++) {
        struct arena         memory = scratch;
        struct loader_config c      = { .batch = 7, .forever = i % 2, .shuffle = true };
        if (i % 3) {
            c.options = fixed(draw(&d, 1, 6), draw(&d, 1, 6), draw(&d, 1, 6), 2);
            c.queue   = draw(&d, 1, 3);
        }
        struct loader *l = open_loader(&memory, m, c);
        for (i64 k = draw(&d, 0, 10); k > 0; k--) loader_next(l);
        CHECK(loader_close(l));
    }
}

TEST(pipeline_waits_for_a_blocked_read_only_as_long_as_it_is_told)
{
    struct made         *m  = made_new(perm, 50);
    struct os           *os = os_real();
    struct loader_config c  = { .batch = 7 };
    m->blocks = m->polite = true;
    struct loader *l      = open_loader(perm, m, c);
    CHECK(!loader_ready(l, os->now_ns(os) + 20000000));
    CHECK(loader_close(l)); /* the read sees that it shall stop */
}

TEST(pipeline_leaves_a_read_behind_that_does_not_end)
{
    static struct made   m; /* outlives the test's memory, as the abandoned thread may */
    struct os           *os = os_real();
    struct loader_config c  = { .batch = 7 };
    m                       = *made_new(perm, 50);
    m.dataset.state         = &m;
    m.blocks                = true;
    struct loader *l        = open_loader(perm, &m, c);
    while (!m.reads) os->sleep_ns(os, 1000000);
    CHECK(!loader_close(l));
    CHECK(m.dataset.held);
    dataset_close(&m.dataset); /* does nothing */
    m.released = true;
    while (m.reads_done < m.reads) os->sleep_ns(os, 1000000);
}

TEST(pipeline_keeps_decoded_samples_and_augments_afresh)
{
    enum { COUNT = 40, BATCH = 8, BATCHES = 5 * COUNT / BATCH };
    struct loader_config c = { .batch   = BATCH,
                               .forever = true,
                               .shuffle = true,
                               .seed    = test_seed(),
                               .queue   = 4,
                               .options = fixed(2, 3, 2, 2) };
    u64                  prints[BATCHES];
    struct made         *m = made_new(perm, COUNT);
    struct loader       *l = open_loader(perm, m, c);
    for (i64 i = 0; i < BATCHES; i++) prints[i] = print_of(loader_next(l));
    CHECK_EQ(loader_stats(l).kept, 0);
    CHECK(loader_close(l));
    m->decodes           = 0;
    c.options.keep       = STR("on");
    c.options.memory_gib = 0.01;
    l                    = open_loader(perm, m, c);
    for (i64 i = 0; i < BATCHES; i++) CHECK_EQ(print_of(loader_next(l)), prints[i]);
    CHECK_EQ(loader_stats(l).kept, COUNT);
    CHECK(loader_stats(l).kept_bytes > COUNT * 24);
    CHECK(m->decodes <=
          COUNT + 4 * BATCH); /* some of the second epoch may be on their way by then */
    CHECK(loader_close(l));
}

TEST(pipeline_keeps_by_itself_what_fits_and_pays)
{
    enum { COUNT = 100, BATCH = 10 };
    struct loader_config c  = { .batch = BATCH, .forever = true, .options.keep = STR("auto") };
    struct os           *os = os_real();
    i64 until = os->now_ns(os) + 60000000000; /* it takes three seconds where nothing disturbs */
    struct made *m      = made_new(perm, COUNT);
    m->delay_ns         = 2000000;
    m->dataset.keepable = true;
    struct loader *l    = open_loader(perm, m, c);
    char           line[LOADER_LINE_MAX];
    bool           told = false;
    while (os->now_ns(os) < until && loader_stats(l).kept < COUNT) {
        struct batch *b = loader_next(l);
        for (i64 k = 0; k < BATCH; k++) CHECK_EQ(((i64 *)b->data[0])[k], b->index + k);
        while (loader_says(l, line))
            told = told ||
                   str_starts(str_of(line), STR("decoded samples are kept in memory: 100 take "));
    }
    CHECK_EQ(loader_stats(l).kept, COUNT);
    CHECK(told);
    CHECK(loader_close(l));
}

TEST(pipeline_counts_what_the_caller_waits)
{
    struct made         *m  = made_new(perm, 100);
    struct os           *os = os_real();
    struct loader_config c  = { .batch = 10, .queue = 1, .options = fixed(1, 1, 1, 1) };
    m->delay_ns             = 1000000;
    struct loader *l        = open_loader(perm, m, c);
    i64            waited   = 0;
    for (bool more = true; more;) {
        i64 begin = os->now_ns(os);
        more      = loader_next(l) != NULL;
        waited += os->now_ns(os) - begin;
    }
    struct loader_stats s = loader_stats(l);
    CHECK(s.waited_ns <= waited);
    CHECK(s.waited_ns > 10000000); /* a thread reads a hundred samples in half a millisecond each */
    CHECK_EQ(s.samples, 100);
    CHECK_EQ(s.batches, 10);
    CHECK_EQ(s.stages, 3);
    CHECK_EQ(s.stage[STAGE_READ].samples, 100);
    CHECK(s.stage[STAGE_READ].busy_ns > s.stage[STAGE_READ].cpu_ns); /* it slept */
    CHECK(loader_close(l));
}

/* What a thread has in its core's caches it does not hand to another, and where all stages compute, there
 * are no more threads at it than cores, however many there may be. */
TEST(pipeline_takes_a_sample_all_the_way_on_one_thread)
{
    enum { COUNT = 2000 };
    struct made         *m = made_new(perm, COUNT);
    struct loader_config c = { .batch = 10, .queue = 8, .options = fixed(4, 8, 8, 4) };
    m->compute             = 10000;
    c.cpu                  = 1;
    struct loader *l       = open_loader(perm, m, c);
    while (loader_next(l)) continue;
    CHECK(m->alone > COUNT / 2);                /* nearly all, where nothing disturbs */
    CHECK(m->beside < STAGE_COUNT * COUNT / 4); /* few, before it is known that they compute */
    CHECK(loader_close(l));
}

/* One core is no reason to wait for one read after the other. */
TEST(pipeline_has_as_many_reads_at_once_as_it_may)
{
    enum { READS = 24 };
    struct made         *m = made_new(perm, 400);
    struct loader_config c = { .batch = 10, .queue = 4, .options = fixed(READS, 2, 1, 4) };
    m->blocks              = true; /* until all of them are there */
    m->reads_met           = READS;
    c.cpu                  = 1;
    struct loader *l       = open_loader(perm, m, c);
    while (loader_next(l)) continue;
    CHECK(!loader_failed(l, NULL));
    CHECK_EQ(m->reads, 400);
    CHECK(loader_close(l));
}

/* Memory is for as many batches as are in use at once, not for as many as may ever be. */
TEST(pipeline_takes_the_memory_that_was_given_back_last)
{
    enum { BATCHES = 3 * LOADER_PREFETCH_MAX };
    struct made         *m = made_new(perm, 1000);
    struct loader_config c = { .batch = 4, .forever = true, .options = { .keep = STR("off") } };
    struct loader       *l = open_loader(perm, m, c);
    void                *seen[BATCHES];
    i64                  count = 0, prefetch = 0;
    for (i64 i = 0; i < BATCHES; i++) {
        void *data = loader_next(l)->data[0];
        i64   k    = 0;
        while (k < count && seen[k] != data) k++;
        if (k == count) seen[count++] = data;
        prefetch = MAX(prefetch, loader_stats(l).prefetch);
    }
    CHECK(prefetch < LOADER_PREFETCH_MAX / 2); /* else this shows nothing */
    CHECK(count <= prefetch + 1);
    CHECK(loader_close(l));
}
