/* test_ranks.c - several ranks against one: the same samples, dropout and first weights, losses within the rounding of
 * the sums, and the same bits in every rank and every time. The ranks are threads here; tests/cli/test_ranks.sh has
 * processes. */
#include "backend/ranks/threads.h"
#include "base/os.h"
#include "base/rng.h"
#include "harness.h"
#include "support/folder.h"
#include "train/config.h"
#include "train/train.h"
#include "train/use.h"
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 4, STEPS = 30, EVALS = 8 };

struct run {
    struct settings     settings;
    struct ranks       *r;
    pthread_t           thread;
    f64                 loss[STEPS], eval[EVALS];
    i64                 steps, evals;
    struct train_result result;
    enum status         st;
    struct err          err;
};

static void on_step(void *context, const struct event_step *e)
{
    struct run *r               = context;
    r->loss[r->steps++ % STEPS] = e->loss;
}

static void on_eval(void *context, const struct event_eval *e)
{
    struct run *r = context;
    i64         i = r->evals++ % EVALS;
    r->eval[i]    = e->loss;
}

static void *run_one(void *context)
{
    struct run       *r  = context;
    struct subscriber to = { .context = r, .on_step = on_step, .on_eval = on_eval };
    r->st = train_run(os_real(), &r->settings, &(struct train_with){ .to = &to, .ranks = r->r },
                      &r->result, &r->err);
    if (r->st && r->r) ranks_close(r->r);
    return NULL;
}

static struct pool_cores cores_from_to(i64 from, i64 to)
{
    struct pool_cores c = { 0 };
    for (i64 i = from; i < to; i++) c.word[i / 64] |= (u64)1 << i % 64;
    return c;
}

/* Of 4 ranks, whose cores these are. */
static void check_shares(const struct pool_cores *of, const i64 *expected, i64 any)
{
    for (i32 i = 0; i < RANKS; i++) {
        struct ranks r = { .local = i, .locals = RANKS };
        ranks_share_cores(&r, of);
        CHECK_EQ(r.cores, expected[i]);
        CHECK_EQ(r.cores_any, any);
        CHECK_EQ(ranks_threads(&r, INT64_MAX), MAX(expected[i], 1));
        CHECK_EQ(ranks_threads(&r, 8), MIN(MAX(expected[i], 1), 2)); /* quota of all */
        CHECK_EQ(ranks_threads(&r, 2), 1);
    }
}

TEST(ranks_of_a_machine_share_what_they_may_use)
{
    struct pool_cores all = cores_from_to(0, 64), two = cores_from_to(62, 64);
    struct pool_cores low = cores_from_to(0, 32), high = cores_from_to(32, 64);
    struct pool_cores apart[RANKS] = { cores_from_to(0, 16), cores_from_to(16, 32),
                                       cores_from_to(32, 48), cores_from_to(8190, 8192) };
    check_shares((struct pool_cores[]){ all, all, all, all }, (i64[]){ 16, 16, 16, 16 }, 64);
    check_shares((struct pool_cores[]){ two, two, two, two }, (i64[]){ 0, 0, 0, 0 }, 2);
    check_shares((struct pool_cores[]){ low, high, low, high }, (i64[]){ 16, 16, 16, 16 }, 64);
    check_shares((struct pool_cores[]){ low, low, all, low }, (i64[]){ 8, 8, 40, 8 }, 64);
    check_shares(apart, (i64[]){ 16, 16, 16, 2 }, 50);
}

/* more_gib: memory of all ranks but the last; 0: as the settings have it. */
static struct run *run_uneven(struct arena *perm, const struct settings *s, i32 count, i32 machines,
                              f64 more_gib)
{
    struct rank_threads *t = rank_threads_on(perm, count, machines);
    struct run          *r = NEW(perm, struct run, count);
    for (i32 i = 0; i < count; i++) {
        r[i].settings = *s;
        if (i) r[i].settings.train.out = STR(""); /* rank 0 writes: job.c */
        if (i + 1 < count && more_gib > 0) r[i].settings.train.memory_gib = more_gib;
        r[i].r = count > 1 ? rank_threads_rank(t, i) : NULL;
        CHECK(!pthread_create(&r[i].thread, NULL, run_one, &r[i]));
    }
    for (i32 i = 0; i < count; i++) pthread_join(r[i].thread, NULL);
    for (i32 i = 0; i < count; i++)
        if (r[i].st) harness_fail(__FILE__, __LINE__, "rank %d of %d: %s", i, count, r[i].err.text);
    return r;
}

static struct run *run_on(struct arena *perm, const struct settings *s, i32 count, i32 machines)
{
    return run_uneven(perm, s, count, machines, 0);
}

static struct run *run_ranks(struct arena *perm, const struct settings *s, i32 count)
{
    return run_on(perm, s, count, 1);
}

static const char *const common[] = { "train.steps=30",  "train.eval_every=10",  "train.threads=1",
                                      "train.lr=0.01",   "data.eval_samples=13", "train.clip=1",
                                      "train.device=cpu" };

static const struct {
    const char *name;
    const char *set[12];
} models[] = {
    { "gpt",
      { "data.kind=text", "data.path=text", "data.context=8", "data.samples=50", "model.kind=gpt",
        "model.depth=1", "model.width=16", "model.heads=2", "model.dropout=0.2",
        "model.attention_dropout=0.2" } },
    { "encoder",
      { "data.kind=lines", "data.files=[text, other]", "data.context=12", "data.samples=50",
        "model.kind=encoder", "model.depth=1", "model.width=16", "model.heads=2",
        "model.dropout=0.2", "model.attention_dropout=0.2" } },
    { "gpt, muon",
      { "data.kind=text", "data.path=text", "data.context=8", "data.samples=50", "model.kind=gpt",
        "model.depth=2", "model.width=16", "model.heads=2", "train.optimiser=muon" } },
    { "ranker",
      { "data.kind=synthetic_clicks", "data.samples=60", "data.buckets=500", "model.kind=ranker",
        "model.table_width=4", "model.mlp=[8]" } },
    { "ranker, dense",
      { "data.kind=synthetic_clicks", "data.samples=60", "data.buckets=20", "model.kind=ranker",
        "model.table_width=4", "model.mlp=[8]", "train.tables=dense" } },
    { "layers",
      { "data.kind=idx", "data.path=images", "data.labels=labels", "data.samples=50",
        "model.layers=[flatten, {dense: 8}, relu, {dense: 4}]" } },
};

/* Bounds of losses, relative. f64: a thousand sums of 2^-53 over 30 steps that multiply them by less than 100. fp32:
 * gradients that are nothing but rounding (the bias of a key) are of Adam's eps, so that each step moves such a weight
 * by up to lr. Low types: a few roundings of 2^-8, by SGD: Adam moves a weight by its rate whatever the size of its
 * gradient, so that one whose sign is rounding takes the other way, and losses part by a tenth (ranks_are_micro_batches
 * has Adam in low types). fp16 with a loss scale that overflows nowhere: of a gradient within a rounding of the largest
 * number one order of the sum is infinite and another is not, and a run that leaves a step out is another run. */
static const struct {
    const char *name;
    f64         bound;
    const char *set[4];
} precisions[] = {
    { "f64", 1e-11, { "model.dtype=f64" } },
    { "fp32", 4e-3, { "train.precision=fp32" } },
    { "bf16", 2e-2, { "train.precision=bf16", "train.optimiser=sgd", "train.lr=0.1" } },
    { "fp16",
      2e-2,
      { "train.precision=fp16", "train.optimiser=sgd", "train.lr=0.1", "train.loss_scale=256" } },
};

/* In machines: 2 ranks as 2 x 1, 3 as 3 x 1, 4 as 2 x 2. */
static const struct {
    const char *name;
    bool        machines;
    const char *set[2];
    const char *micro; /* with micro-batches this too */
} shards[] = {
    { "none", false, { "train.shard=none" }, NULL },
    { "state", false, { "train.shard=state" }, "train.optimiser=sgd" },
    { "all", false, { "train.shard=all" }, "train.recompute=all" },
    { "state in machines", true, { "train.shard=state", "train.shard_over=machine" }, NULL },
    { "all in machines",
      true,
      { "train.shard=all", "train.shard_over=machine" },
      "train.recompute=all" },
};

static i32 machines_of(i64 shard, i32 count)
{
    return !shards[shard].machines ? 1 : count == 3 ? 3 : 2;
}

/* Every model kind x sharding x accumulation x precision. */
struct cell {
    i64  model, shard, precision;
    bool micro;
};
enum { CELLS = COUNT_OF(models) * COUNT_OF(shards) * COUNT_OF(precisions) * 2 };

/* In such an order that a stretch of 40 has all shardings in all precisions with and without micro-batches, and every
 * model. */
static struct cell cell_of(i64 k)
{
    i64 ways = COUNT_OF(shards) * COUNT_OF(precisions) * 2, rest = k % ways;
    return (struct cell){ .model     = (k + k / ways) % COUNT_OF(models),
                          .shard     = rest % COUNT_OF(shards),
                          .precision = rest / COUNT_OF(shards) % COUNT_OF(precisions),
                          .micro     = rest / COUNT_OF(shards) / COUNT_OF(precisions) };
}

static i64 add_settings(const char **to, i64 count, const char *const *set, i64 set_count)
{
    for (i64 i = 0; i < set_count && set[i]; i++) to[count++] = set[i];
    return count;
}

static struct settings settings_with(struct arena *perm, struct str folder, i64 model,
                                     const char *const *set, i64 set_count)
{
    struct str     args[48];
    i64            count = 0;
    struct config *config;
    struct err     err = { 0 };
    for (i64 i = 0; i < COUNT_OF(common); i++) args[count++] = str_of(common[i]);
    for (i64 i = 0; i < COUNT_OF(models[model].set) && models[model].set[i]; i++)
        args[count++] = str_of(models[model].set[i]);
    for (i64 i = 0; i < set_count && set[i]; i++) args[count++] = str_of(set[i]);
    if (config_read(os_real(), perm, STR("train"), STR(""), args, count, &config, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    struct data_config *d = &config->settings.data;
    if (d->path.len) d->path = str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(d->path));
    if (d->labels.len) d->labels = str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(d->labels));
    for (i64 i = 0; i < config->settings.data.file_count; i++)
        config->settings.data.files[i] =
            str_fmt(perm, "%.*s/%s", STR_ARG(folder), i ? "other" : "text");
    return config->settings;
}

static struct settings settings_of(struct arena *perm, struct str folder, struct cell c)
{
    static const char *const whole[] = { "train.batch=11" }, *const micro[] = {
        "train.batch=12", "train.micro_batch=2"
    };
    const char *set[12];
    i64         count = add_settings(set, 0, c.micro ? micro : whole, c.micro ? 2 : 1);
    count = add_settings(set, count, precisions[c.precision].set, COUNT_OF(precisions->set));
    count = add_settings(set, count, shards[c.shard].set, COUNT_OF(shards->set));
    if (c.micro) count = add_settings(set, count, &shards[c.shard].micro, 1);
    return settings_with(perm, folder, c.model, set, count);
}

static f64 apart(f64 a, f64 b) { return fabs(a - b) / MAX(fabs(a), 1e-3); }

static void compare(const struct run *one, const struct run *some, i32 count, f64 bound,
                    const char *what)
{
    f64  most  = 0;
    bool exact = one->result.arena_bytes_planned == one->result.arena_bytes_used;
    CHECK_EQ(one->steps, some->steps);
    CHECK_EQ(one->evals, some->evals);
    for (i64 i = 0; i < STEPS; i++) most = MAX(most, apart(one->loss[i], some->loss[i]));
    for (i64 i = 0; i < MIN(one->evals, EVALS); i++) /* the newest, if there are more */
        most = MAX(most, apart(one->eval[i], some->eval[i]));
    if (!(most <= bound))
        harness_fail(__FILE__, __LINE__, "%s, %d ranks: losses are %.3g apart, more than %.3g",
                     what, count, most, bound);
    for (i32 r = 1; r < count; r++)
        if (memcmp(some->loss, some[r].loss, sizeof some->loss))
            harness_fail(__FILE__, __LINE__, "%s: ranks 0 and %d do not agree", what, r);
    for (i32 r = 0; r < count; r++) { /* parts differ by one number, workspaces do not */
        const struct train_result *t = &some[r].result;
        if (exact && t->arena_bytes_planned - t->arena_bytes_used > count * (i64)sizeof(f64))
            harness_fail(__FILE__, __LINE__, "%s, rank %d of %d: %lld bytes planned, %lld used",
                         what, r, count, (long long)t->arena_bytes_planned,
                         (long long)t->arena_bytes_used);
    }
}

/* 80 random images of 2x2 pixels in four classes. */
static void put_images(struct arena *perm, struct str folder, u64 seed)
{
    enum { COUNT = 80, PIXELS = 4 };
    u8 images[16 + COUNT * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, COUNT, 0, 0, 0, 2, 0, 0, 0, 2 };
    u8 labels[8 + COUNT]           = { 0, 0, 8, 1, 0, 0, 0, COUNT };
    for (i64 i = 0; i < COUNT * PIXELS; i++)
        images[16 + i] = (u8)rng_u32((struct rng_key){ .seed = seed }, (u64)i);
    for (i64 i = 0; i < COUNT; i++)
        labels[8 + i] = (u8)(rng_u32((struct rng_key){ .seed = seed, .name = 1 }, (u64)i) % 4);
    folder_put(perm, folder, "images", (struct str){ (char *)images, sizeof images });
    folder_put(perm, folder, "labels", (struct str){ (char *)labels, sizeof labels });
}

static struct str text_folder(struct arena *perm, u64 seed)
{
    char *path = NEW(perm, char, 64);
    u8    text[2][3000];
    snprintf(path, 64, "/tmp/frugal-test-XXXXXX");
    CHECK(mkdtemp(path));
    for (i64 f = 0; f < 2; f++)
        for (i64 i = 0; i < 3000; i++) {
            u32 x      = rng_u32((struct rng_key){ .seed = seed, .name = (u64)f }, (u64)i);
            text[f][i] = (u8)(x % 9 == 0 ? '\n' : 'a' + x / 9 % (f ? 5 : 9));
        }
    folder_put(perm, str_of(path), "text", (struct str){ (char *)text[0], 3000 });
    folder_put(perm, str_of(path), "other", (struct str){ (char *)text[1], 3000 });
    put_images(perm, str_of(path), seed);
    return str_of(path);
}

static void remove_texts(struct arena *perm, struct str folder)
{
    static const char *const names[] = { "/text", "/other", "/images", "/labels", "/weights" };
    for (i64 i = 0; i < COUNT_OF(names); i++)
        unlink(str_z(perm, str_cat(perm, folder, str_of(names[i]))));
    rmdir(str_z(perm, folder));
}

/* Under a sanitizer, which slows a run by ten, few are enough: what it looks for is in all of them. Of WAYS_STEP models
 * or ways one is drawn. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { WAYS_STEP = 3, COUNT_FIRST = 4, CELLS_SHORT = 10, CELLS_LONG = 40 };
#else
enum { WAYS_STEP = 1, COUNT_FIRST = 2, CELLS_SHORT = 20, CELLS_LONG = CELLS };
#endif

static void check_cell(struct arena room, struct str folder, struct cell c)
{
    struct settings s   = settings_of(&room, folder, c);
    struct run     *one = run_ranks(&room, &s, 1);
    char            what[128];
    snprintf(what, sizeof what, "%s, %s, %s%s", models[c.model].name, precisions[c.precision].name,
             shards[c.shard].name, c.micro ? ", micro-batches" : "");
    CHECK(one->steps == STEPS && one->loss[0] > 0);
    for (i32 count = COUNT_FIRST; count <= RANKS; count++) {
        i32         machines = machines_of(c.shard, count);
        struct run *some     = run_on(&room, &s, count, machines);
        compare(one, some, count, precisions[c.precision].bound, what);
        if (count != RANKS || WAYS_STEP > 1) continue;
        struct run *again = run_on(&room, &s, count, machines);
        CHECK(!memcmp(some->loss, again->loss, sizeof some->loss));
    }
}

/* 20 cells, others each time; all of them where CHECK_SECONDS allows for a minute. */
TEST(several_ranks_train_what_one_does)
{
    const char *seconds = getenv("CHECK_SECONDS");
    i64         count   = seconds && atoi(seconds) >= 60 ? CELLS_LONG : CELLS_SHORT;
    u64         seed    = test_seed();
    struct str  folder  = text_folder(perm, seed);
    for (i64 k = 0; k < count; k++)
        check_cell(*perm, folder, cell_of((i64)(seed % CELLS + (u64)k) % CELLS));
    remove_texts(perm, folder);
}

/* A rank's part of a batch is a micro-batch of one rank, by the same kernels, and gradients are added in the same
 * order: the same bits in every precision and by every optimiser, which see no norm that is summed in another order
 * (train.clip=0); a short batch has other micro-batches (train.drop_last). In machines the order is another: there
 * state is compared with all. */
TEST(ranks_are_micro_batches)
{
    static const char *const types[] = { "train.precision=bf16", "train.precision=fp16",
                                         "train.precision=fp32" };
    u64                      seed    = test_seed();
    struct str               folder  = text_folder(perm, seed);
    for (i64 m = (i64)(seed % WAYS_STEP); m < COUNT_OF(models); m += WAYS_STEP) {
        const char     *type  = types[(seed + (u64)m) % COUNT_OF(types)];
        const char     *one[] = { type, "train.batch=12", "train.clip=0", "train.drop_last=true",
                                  "train.micro_batch=3" };
        struct arena    room  = *perm;
        struct settings s     = settings_with(&room, folder, m, one, COUNT_OF(one));
        struct run     *alone = run_ranks(&room, &s, 1), *state = NULL;
        for (i64 k = 0; k < COUNT_OF(shards); k++) {
            const char *set[6] = { type, "train.batch=12", "train.clip=0", "train.drop_last=true" };
            i64         count  = add_settings(set, 4, shards[k].set, COUNT_OF(shards->set));
            s                  = settings_with(&room, folder, m, set, count);
            struct run *some   = run_on(&room, &s, RANKS, machines_of(k, RANKS));
            struct run *like   = !shards[k].machines ? alone : state ? state : some;
            if (shards[k].machines) state = some;
            for (i64 i = 0; i < STEPS; i++)
                if (like->loss[i] != some->loss[i])
                    harness_fail(__FILE__, __LINE__, "%s, %s, %s: loss %.9g at step %lld, not %.9g",
                                 models[m].name, type, shards[k].name, some->loss[i], (long long)i,
                                 like->loss[i]);
        }
    }
    remove_texts(perm, folder);
}

/* Muon is a third of the work of a step of 7 samples and half of that of 3, by FLOPs: the whole step counts, so ranks
 * choose what one does, and all the same. */
TEST(the_optimiser_is_chosen_as_by_one_rank)
{
    struct str folder = text_folder(perm, test_seed());
    for (i64 w = 0; w < 3; w++) {
        const char     *set[4] = { "train.optimiser=auto", "train.batch=7" };
        i64             sets   = add_settings(set, 2, shards[w].set, COUNT_OF(shards->set));
        struct arena    room   = *perm;
        struct settings s      = settings_with(&room, folder, 2, set, sets);
        struct run     *one    = run_ranks(&room, &s, 1);
        compare(one, run_ranks(&room, &s, 2), 2, precisions[1].bound, "auto");
    }
    remove_texts(perm, folder);
}

/* Weights that are rounded at random are rounded as one rank rounds them, whoever holds them. */
TEST(ranks_round_at_random_as_one_does)
{
    struct str folder = text_folder(perm, test_seed());
    for (i64 w = 0; w < COUNT_OF(shards); w++) {
        const char     *set[8] = { "train.stochastic_rounding=true", "train.batch=12" };
        i64             sets   = add_settings(set, 2, precisions[2].set, COUNT_OF(precisions->set));
        struct arena    room   = *perm;
        struct settings s;
        sets            = add_settings(set, sets, shards[w].set, COUNT_OF(shards->set));
        s               = settings_with(&room, folder, 0, set, sets);
        struct run *one = run_ranks(&room, &s, 1);
        compare(one, run_on(&room, &s, 4, machines_of(w, 4)), 4, precisions[2].bound, "at random");
    }
    remove_texts(perm, folder);
}

/* Where a device has a queue beside the first, each matrix is summed as soon as its gradient is there: the same sums,
 * in the same order of ranks, so the same bits. 50 = 2 * 24 + 2: of the last batch one rank has no sample. */
TEST(sums_that_begin_early_are_the_same)
{
    u64        seed   = test_seed();
    struct str folder = text_folder(perm, seed);
    for (i64 m = (i64)(seed % WAYS_STEP); m < COUNT_OF(models); m += WAYS_STEP)
        for (i64 w = 0; w < COUNT_OF(shards); w++) {
            const char     *set[4] = { "train.batch=24",
                                   m % 2 ? "train.precision=fp32" : "train.precision=bf16" };
            i64             sets   = add_settings(set, 2, shards[w].set, COUNT_OF(shards->set));
            struct arena    room   = *perm;
            struct settings s      = settings_with(&room, folder, m, set, sets);
            i32             count = shards[w].machines ? 4 : 3, on = machines_of(w, count);
            struct run     *plain = run_on(&room, &s, count, on);
            s.queues              = 2;
            struct run *early     = run_on(&room, &s, count, on);
            CHECK_EQ(plain->steps, STEPS);
            for (i32 i = 0; i < count; i++)
                if (memcmp(plain[i].loss, early[i].loss, sizeof plain[i].loss))
                    harness_fail(__FILE__, __LINE__, "%s, %s, rank %d: other losses",
                                 models[m].name, shards[w].name, i);
        }
    remove_texts(perm, folder);
}

/* Bytes of the largest rank's arena. */
static i64 most_bytes(const struct run *r, i32 count)
{
    i64 most = 0;
    for (i32 i = 0; i < count; i++) most = MAX(most, r[i].result.arena_bytes_planned);
    return most;
}

static void check_chosen(struct arena room, struct str folder, i64 m, i64 w, i32 queues)
{
    enum { COUNT = 4 };
    const char *set[8] = { m % 2 ? "train.precision=fp32" : "train.precision=bf16",
                           "train.batch=13", "model.depth=3", "train.steps=7" };
    i64         sets    = add_settings(set, 4, shards[w].set, COUNT_OF(shards->set));
    const char *kinds[] = { "train.recompute=none", "train.recompute=all", "train.recompute=auto" };
    struct run *r[3];
    struct settings s;
    for (i64 k = 0; k < 3; k++) {
        set[sets] = kinds[k];
        s         = settings_with(&room, folder, m, set, sets + 1);
        s.queues  = queues;
        if (k == 2) {
            i64 all = most_bytes(r[1], COUNT), none = most_bytes(r[0], COUNT);
            s.train.memory_gib = (f64)(all + (none - all) / 2) / 0x1p30;
        }
        r[k] = run_uneven(&room, &s, COUNT, machines_of(w, COUNT), k < 2 ? 0 : 1);
    }
    for (i32 i = 0; i < COUNT; i++) {
        const struct train_result *t = &r[2][i].result;
        if (memcmp(r[0][i].loss, r[2][i].loss, sizeof r[0][i].loss))
            harness_fail(__FILE__, __LINE__, "%s, %s: other losses", models[m].name,
                         shards[w].name);
        CHECK((f64)t->arena_bytes_planned <= s.train.memory_gib * 0x1p30);
        if (m != 1) /* some rows of an encoder no sequence fills */
            CHECK(t->arena_bytes_planned - t->arena_bytes_used <= COUNT * (i64)sizeof(f64));
    }
    struct train_compiled shown;
    s.shown_ranks    = COUNT;
    s.shown_machines = machines_of(w, COUNT);
    CHECK(!train_compile(os_real(), &s, &room, &shown, NULL));
    CHECK_EQ(shown.set->arena_bytes, r[2][COUNT - 1].result.arena_bytes_planned);
}

/* Parts of 3 and 4 samples, and at one rank half of the memory that recomputing everything saves: the same bits as
 * where nothing is recomputed, within the budget, and `show` knows how much. 50 = 3 * 13 + 11: the last batch
 * recomputes less, in all ranks, also in those whose part of it is as large as of a full one. */
TEST(ranks_recompute_what_one_of_them_has_chosen)
{
    struct str folder = text_folder(perm, test_seed());
    for (i64 m = 0; m < 3; m += WAYS_STEP) /* those of blocks */
        for (i64 w = 0; w < COUNT_OF(shards); w++)
            if (w == 2 || (w == 4 && WAYS_STEP == 1)) /* all, all in machines */
                check_chosen(*perm, folder, m, w, 1 + (i32)(m + w) % 2);
    remove_texts(perm, folder);
}

/* --- train.fp8 --- */

/* Relative, of a loss. Where another order of sums changes a last bit, a number may take the other of two codes, 2^-4
 * apart; a product adds 16 or more random such errors, and hidden layers make a tenth of the loss: 2^-4 / 4 / 10
 * for each of ten products. */
static const f64 fp8_bound = 2e-2;

/* Against one rank; the same bits for the same number, also where everything runs again and where sums begin early. */
TEST(products_of_eight_bits_are_those_of_one_rank)
{
    u64        seed   = test_seed();
    struct str folder = text_folder(perm, seed);
    i64        first  = WAYS_STEP > 1 && seed % 2 ? 4 : 2;
    for (i64 w = first; w < COUNT_OF(shards); w += 2 * WAYS_STEP) { /* all, all in machines */
        const char     *set[12] = { "train.precision=bf16", "train.fp8=on",   "train.optimiser=sgd",
                                    "train.lr=0.1",         "train.batch=11", "data.context=16",
                                    "model.depth=2" };
        struct arena    room    = *perm;
        i64             sets    = add_settings(set, 7, shards[w].set, COUNT_OF(shards->set));
        struct settings s       = settings_with(&room, folder, 0, set, sets);
        struct run     *one     = run_ranks(&room, &s, 1);
        i32             count = shards[w].machines ? 4 : 3, on = machines_of(w, count);
        struct run     *some = run_on(&room, &s, count, on);
        compare(one, some, count, fp8_bound, shards[w].name);
        set[sets]         = "train.recompute=all";
        s                 = settings_with(&room, folder, 0, set, sets + 1);
        s.queues          = 2;
        struct run *again = run_on(&room, &s, count, on);
        CHECK(!memcmp(some->loss, again->loss, sizeof some->loss));
        set[1]            = "train.fp8=off";
        s                 = settings_with(&room, folder, 0, set, sets);
        struct run *plain = run_on(&room, &s, count, on);
        CHECK(memcmp(some->loss, plain->loss, sizeof some->loss));
    }
    remove_texts(perm, folder);
}

/* --- batch norms --- */

static const char dense_norm[] = "[flatten, {dense: 8}, batchnorm, relu, {dense: 4}]";
static const char conv_norm[]  = "[{conv: 4}, batchnorm, relu, flatten, {dense: 4}]";

static struct settings norm_settings(struct arena *perm, struct str folder, const char *layers,
                                     const char *way)
{
    struct err     err = { 0 };
    struct config *config;
    struct str     args[] = { STR("train.steps=30"),
                              STR("train.eval_every=10"),
                              STR("train.threads=1"),
                              STR("train.lr=0.01"),
                              STR("train.batch=8"),
                              STR("train.device=cpu"),
                              STR("model.dtype=f64"),
                              STR("data.kind=idx"),
                              STR("data.held_out=0.2"),
                              str_fmt(perm, "model.layers=%s", layers),
                              str_fmt(perm, "data.path=%.*s/images", STR_ARG(folder)),
                              str_fmt(perm, "data.labels=%.*s/labels", STR_ARG(folder)),
                              str_of(way) };
    if (config_read(os_real(), perm, STR("train"), STR(""), args, COUNT_OF(args), &config, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return config->settings;
}

/* What one rank makes of the held-out samples with the weights and statistics that rank 0 has written. */
static f64 evaluated(struct settings s, struct str weights)
{
    struct err        err  = { 0 };
    struct train_eval eval = { 0 };
    struct use       *u    = NULL;
    s.train.init           = weights;
    s.train.out            = STR("");
    if (use_open(os_real(), &s, USE_EVALUATE, &u, &err) || use_evaluate(u, &eval, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    use_close(u);
    return eval.loss;
}

/* The statistics of a rank's part are those of a micro-batch of as many samples of one rank. Running ones are the
 * last rank's, in all ranks: else their evaluation would not be that of the file. */
TEST(batch_norms_of_ranks_see_what_those_of_micro_batches_see)
{
    u64        seed   = test_seed();
    struct str folder = text_folder(perm, seed), out = str_cat(perm, folder, STR("/weights"));
    for (i64 k = 0; k < COUNT_OF(shards); k++) {
        struct settings one  = norm_settings(perm, folder, dense_norm, "train.micro_batch=4");
        struct settings some = norm_settings(perm, folder, dense_norm, shards[k].set[0]);
        if (shards[k].machines) continue;
        some.train.out       = out;
        some.train.keep_best = STR("false"); /* the weights of the last evaluation */
        struct run *a = run_ranks(perm, &one, 1), *b = run_ranks(perm, &some, 2);
        f64         most = 0;
        for (i64 i = 0; i < STEPS; i++) most = MAX(most, apart(a->loss[i], b->loss[i]));
        if (!(most <= 1e-11)) harness_fail(__FILE__, __LINE__, "losses are %.3g apart", most);
        CHECK_EQ(b->evals, 3);
        CHECK(apart(b->eval[2], evaluated(some, out)) <= 1e-11);
    }
    remove_texts(perm, folder);
}

/* 64 = 2 * 31 + 2: of the last batch rank 0 of 3 has no sample. With train.shard=all it computes one that counts for
 * nothing: losses and statistics are those of a rank that stands aside. A convolution, because its norm sees several
 * values of a channel in one sample. */
TEST(a_rank_without_a_sample_leaves_statistics_alone)
{
    struct str folder = text_folder(perm, test_seed()),
               out    = str_cat(perm, folder, STR("/weights"));
    struct run *ran[COUNT_OF(shards)];
    f64         kept[COUNT_OF(shards)];
    for (i64 k = 0; k < COUNT_OF(shards); k++) {
        struct settings s = norm_settings(perm, folder, conv_norm, shards[k].set[0]);
        if (shards[k].machines) continue;
        s.train.batch     = 31;
        s.train.steps     = 30; /* ten epochs: the last step is of a short batch */
        s.train.out       = out;
        s.train.keep_best = STR("false");
        ran[k]            = run_ranks(perm, &s, 3);
        kept[k]           = evaluated(s, out);
        CHECK_EQ(ran[k]->evals, 3);
        CHECK(apart(ran[k]->eval[2], kept[k]) <= 1e-11);
        for (i64 i = 0; i < STEPS; i++) CHECK(apart(ran[0]->loss[i], ran[k]->loss[i]) <= 1e-11);
        for (i64 i = 0; i < 3; i++) CHECK(apart(ran[0]->eval[i], ran[k]->eval[i]) <= 1e-11);
    }
    remove_texts(perm, folder);
}

/* --- what ends a run, and what it keeps --- */

/* Each acts on several ranks as on one: on a text model in f64, whose losses are equal to 1e-11. */
static const struct {
    const char      *name;
    enum stop_reason ends;
    const char      *set[8];
} rules[] = {
    { "muon, all", STOP_END, { "train.optimiser=muon", "train.shard=all" } },
    { "adapters",
      STOP_END,
      { "train.lora.rank=2", "train.lora.dropout=0.1", "train.keep_best=auto" } },
    { "adapters, state", STOP_END, { "train.lora.rank=2", "train.shard=state" } },
    { "adapters, all", STOP_END, { "train.lora.rank=2", "train.shard=all" } },
    { "frozen", STOP_END, { "train.freeze=*mlp*", "train.shard=state" } },
    { "documents, all",
      STOP_END,
      { "data.documents=10", "train.micro_batch=3", "train.shard=all" } },
    { "patience, state",
      STOP_PATIENCE,
      { "train.patience=1", "train.min_improvement=10", "train.keep_best=true",
        "train.shard=state" } },
    { "patience, all",
      STOP_PATIENCE,
      { "train.patience=1", "train.min_improvement=10", "train.keep_best=true",
        "train.shard=all" } },
    { "target",
      STOP_TARGET,
      { "train.target=100", "train.target_metric=loss", "data.windows=fixed" } },
    { "by epochs",
      STOP_END,
      { "model.smoothing=0.1", "train.drop_last=true", "train.batch=7", "train.warmup=5",
        "train.schedule=wsd", "train.eval_every=0" } },
};

/* Of all ranks: each may do the whole update and adds what the others send, which is little beside a text model's
 * products. */
static bool work_is_that_of_one(const struct run *one, const struct run *some)
{
    f64 alone = one->result.flops_per_s / one->result.samples_per_s;
    f64 work  = some->result.flops_per_s / some->result.samples_per_s;
    return work > 0.99 * alone && work < 1.5 * alone;
}

TEST(what_ends_a_run_and_what_it_keeps_do_not_depend_on_ranks)
{
    struct str folder       = text_folder(perm, test_seed()),
               first        = str_cat(perm, folder, STR("/weights"));
    const char     *begin[] = { "model.dtype=f64", "train.batch=12", "train.steps=2" };
    struct settings s       = settings_with(perm, folder, 0, begin, COUNT_OF(begin));
    s.train.out             = first;
    run_ranks(perm, &s, 1);
    for (i64 k = 0; k < COUNT_OF(rules); k += WAYS_STEP) {
        struct arena room = *perm;
        /* By default the best weights are kept, but not where several ranks shard them. */
        const char *set[13] = { "model.dtype=f64", "train.batch=12", "train.steps=13",
                                "train.eval_every=3", "train.keep_best=false" };
        for (i64 i = 0; i < COUNT_OF(rules[k].set); i++) set[5 + i] = rules[k].set[i];
        s               = settings_with(&room, folder, 0, set, COUNT_OF(set));
        s.train.init    = first;
        struct run *one = run_ranks(&room, &s, 1), *some = run_ranks(&room, &s, 2);
        compare(one, some, 2, 1e-11, rules[k].name);
        CHECK(work_is_that_of_one(one, some));
        CHECK_EQ(one->result.stopped, rules[k].ends);
        for (i32 r = 0; r < 2; r++) {
            const struct train_result *t = &some[r].result;
            CHECK_EQ(t->stopped, one->result.stopped);
            CHECK_EQ(t->weights_step, one->result.weights_step);
        }
    }
    remove_texts(perm, folder);
}

/* --- a folder of checkpoints that another run takes --- */

enum { LAST_STEP = 4 };

struct theft {
    struct run run;
    struct str kept; /* empty: not of this rank */
    i32        stolen;
    u32        wait_us; /* for the writer, which nothing shows */
};

/* Before the save of the last step but one somebody deletes the lock, and another run saves there; the writer has
 * found that out when the last step is over. */
static void steal(void *context, const struct event_step *e)
{
    struct theft *t = context;
    char          path[256];
    if (!t->kept.len || e->step < LAST_STEP - 1) return;
    usleep(t->wait_us); /* until the save before is over */
    snprintf(path, sizeof path, "%.*s/lock", STR_ARG(t->kept));
    if (e->step == LAST_STEP - 1) t->stolen += !unlink(path);
    snprintf(path, sizeof path, "%.*s/step-000000900.7.1", STR_ARG(t->kept));
    if (e->step == LAST_STEP - 1) t->stolen += !mkdir(path, 0777);
}

static void *run_robbed(void *context)
{
    struct theft     *t  = context;
    struct run       *r  = &t->run;
    struct subscriber to = { .context = t, .on_step = steal };
    r->st = train_run(os_real(), &r->settings, &(struct train_with){ .to = &to, .ranks = r->r },
                      &r->result, &r->err);
    return NULL;
}

/* One run of two ranks; false: its writer was too slow to find out in time. */
static bool is_robbed(struct arena *perm, const struct settings *s, u32 wait_us)
{
    struct rank_threads *all  = rank_threads_new(perm, 2);
    struct theft        *t    = NEW(perm, struct theft, 2);
    struct str           kept = str_cat(perm, folder_new(perm), STR("/kept"));
    for (i32 i = 0; i < 2; i++) {
        t[i].run.settings                = *s;
        t[i].run.r                       = rank_threads_rank(all, i);
        t[i].kept                        = i ? STR("") : kept;
        t[i].run.settings.checkpoint.dir = t[i].kept;
        t[i].wait_us                     = wait_us;
        CHECK(!pthread_create(&t[i].run.thread, NULL, run_robbed, &t[i]));
    }
    for (i32 i = 0; i < 2; i++) pthread_join(t[i].run.thread, NULL);
    CHECK_EQ(t[0].run.st, t[1].run.st);
    if (t[0].run.st != STATUS_INTERRUPTED || t[0].stolen != 2) return false;
    for (i32 i = 0; i < 2; i++) CHECK(strstr(t[i].run.err.text, "another process has saved"));
    return true;
}

TEST(a_folder_that_is_taken_at_the_last_step_ends_all_ranks_alike)
{
    struct str text = text_folder(perm, test_seed());
    for (i64 k = 0; k < COUNT_OF(shards); k++) {
        if (shards[k].machines) continue;
        const char *set[] = { "train.batch=12",      "train.steps=4",      "train.eval_every=100",
                              "checkpoint.dir=kept", "checkpoint.every=1", shards[k].set[0] };
        struct settings s = settings_with(perm, text, 0, set, COUNT_OF(set));
        bool            robbed = false;
        for (u32 wait_us = 400000; !robbed && wait_us < 10000000; wait_us *= 2)
            robbed = is_robbed(perm, &s, wait_us);
        CHECK(robbed);
    }
    remove_texts(perm, text);
}

/* --- a save that is under way when the run diverges --- */

/* Folders of checkpoints there, and those of them that were saved after `step` or have no manifest. */
static i64 count_kept(struct arena scratch, struct str kept, i64 step, i64 *bad)
{
    struct str *names;
    i64         count = 0, found = 0;
    CHECK(!os_real()->list(os_real(), kept, &scratch, &names, &count, NULL));
    for (i64 i = 0; i < count; i++) {
        i64 at = 0;
        if (!str_starts(names[i], STR("step-"))) continue;
        struct str manifest =
            str_fmt(&scratch, "%.*s/%.*s/manifest.json", STR_ARG(kept), STR_ARG(names[i]));
        found++;
        *bad += !str_i64(str_sub(names[i], 5, 14), &at) || at > step ||
                !os_is_file(os_real(), manifest);
    }
    return found;
}

/* The loss is not a number after step 2: the save of step 1 is finished, unless the writer was not ready (`late`),
 * and that of step 2 must not begin. */
TEST(a_run_that_diverges_finishes_the_save_under_way)
{
    struct str text = text_folder(perm, test_seed());
    for (i64 k = 0; k < COUNT_OF(shards); k++) {
        const char          *set[] = { "train.batch=12",     "train.optimiser=sgd", "train.lr=1e30",
                                       "train.rollbacks=0",  "train.clip=0",        "checkpoint.dir=kept",
                                       "checkpoint.every=1", "train.eval_every=99", shards[k].set[0],
                                       shards[k].set[1] };
        i32                  count = shards[k].machines ? 4 : 2;
        struct settings      s     = settings_with(perm, text, 0, set, COUNT_OF(set));
        struct rank_threads *all   = rank_threads_on(perm, count, machines_of(k, count));
        struct run          *r     = NEW(perm, struct run, count);
        struct str           kept  = str_cat(perm, folder_new(perm), STR("/kept"));
        i64                  bad   = 0;
        for (i32 i = 0; i < count; i++) {
            r[i].settings                = s;
            r[i].settings.checkpoint.dir = i ? STR("") : kept;
            r[i].r                       = rank_threads_rank(all, i);
            CHECK(!pthread_create(&r[i].thread, NULL, run_one, &r[i]));
        }
        for (i32 i = 0; i < count; i++) pthread_join(r[i].thread, NULL);
        for (i32 i = 0; i < count; i++) {
            CHECK_EQ(r[i].st, STATUS_NO);
            CHECK_EQ(r[i].result.stopped, STOP_DIVERGED);
        }
        CHECK_EQ(r[0].steps, 2);
        CHECK_EQ(count_kept(*perm, kept, 1, &bad) + r[0].result.saving.late, 1);
        CHECK_EQ(bad, 0);
    }
    remove_texts(perm, text);
}

/* --- where the time goes --- */

enum { LATE_US = 20000, LATE_STEPS = 20 };

struct late {
    struct run        run;
    struct step_split split;
};

static void come_late(void *context, const struct event_step *e)
{
    const struct late *l = context;
    (void)e;
    if (l->run.r->rank) usleep(LATE_US);
}

static void keep_split(void *context, const struct event_done *e)
{
    struct late *l = context;
    l->split       = e->split_ns;
}

static void *run_late(void *context)
{
    struct late      *l  = context;
    struct run       *r  = &l->run;
    struct subscriber to = { .context = l, .on_step = come_late, .on_done = keep_split };
    r->st = train_run(os_real(), &r->settings, &(struct train_with){ .to = &to, .ranks = r->r },
                      &r->result, &r->err);
    return NULL;
}

/* Rank 1 comes late to what rank 0 decides after each step. A tenth of that wait is enough: a busy machine may hold
 * rank 0 up as well. */
TEST(waiting_for_decisions_is_time_of_the_exchange)
{
    struct str           text  = text_folder(perm, test_seed());
    const char          *set[] = { "train.batch=12", "train.steps=20", "train.eval_every=100" };
    struct settings      s     = settings_with(perm, text, 0, set, COUNT_OF(set));
    struct rank_threads *all   = rank_threads_new(perm, 2);
    struct late         *l     = NEW(perm, struct late, 2);
    for (i32 i = 0; i < 2; i++) {
        l[i].run.settings = s;
        l[i].run.r        = rank_threads_rank(all, i);
        CHECK(!pthread_create(&l[i].run.thread, NULL, run_late, &l[i]));
    }
    for (i32 i = 0; i < 2; i++) pthread_join(l[i].run.thread, NULL);
    CHECK_EQ(l[0].run.st, STATUS_OK);
    CHECK(l[0].split.ns[PART_exchange] > (i64)LATE_STEPS * LATE_US * 1000 / 10);
    CHECK(l[0].split.ns[PART_exchange] > l[0].split.ns[PART_other]);
    remove_texts(perm, text);
}
