/* test_save_parts.c - ranks that write a checkpoint together, here as threads: a disk that is full for one of them, a
 * folder that one does not see, and what any other number of ranks makes of the parts. */
#include "backend/ranks/threads.h"
#include "harness.h"
#include "store/checkpoint.h"
#include "support/folder.h"
#include "support/small_run.h"
#include "train/train.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { STEPS = 10 };

/* --- one rank's disk --- */

static atomic_llong parts_begun; /* files of parts that other ranks than the first create */
static i64          full_from, full_until; /* of these, the ones that find the disk full */

static bool has(struct str text, const char *part)
{
    struct str p = str_of(part);
    for (i64 i = 0; i + p.len <= text.len; i++)
        if (!memcmp(text.data + i, p.data, (size_t)p.len)) return true;
    return false;
}

static enum status create_or_full(struct os *os, struct str path, struct file *f, struct err *err)
{
    i64 at = has(path, "-of-") ? atomic_fetch_add(&parts_begun, 1) : -1;
    if (at < full_from || at >= full_until) return os_real()->create(os, path, f, err);
    err_set(err, STATUS_WORLD, "cannot create %.*s: no space left", STR_ARG(path));
    if (err) err->cause = CAUSE_FULL;
    return STATUS_WORLD;
}

static enum status stat_elsewhere(struct os *os, struct str path, struct os_stat *out,
                                  struct err *err)
{
    if (!has(path, "probe-")) return os_real()->stat(os, path, out, err);
    return err_set(err, STATUS_WORLD, "%.*s is not there", STR_ARG(path));
}

/* --- runs --- */

struct told { /* to whoever listens to rank 0 */
    i64        saved, failed, resumed_step;
    struct err why; /* of the last that failed */
    char       notes[2000];
};

struct run {
    struct os           os;
    struct settings     settings;
    struct ranks       *r; /* NULL: it is alone */
    struct told         told;
    pthread_t           thread;
    struct train_result result;
    enum status         st;
    struct err          err;
};

static void on_checkpoint(void *context, const struct event_checkpoint *e)
{
    struct told *t = context;
    if (e->what == CHECKPOINT_SAVED) t->saved++;
    if (e->what == CHECKPOINT_RESUMED) t->resumed_step = e->step;
    if (e->what != CHECKPOINT_FAILED) return;
    t->failed++;
    err_set(&t->why, STATUS_WORLD, "%.*s", STR_ARG(e->text));
}

static void on_note(void *context, const struct event_note *e)
{
    struct told *t   = context;
    size_t       len = strlen(t->notes);
    snprintf(t->notes + len, sizeof t->notes - len, "%.*s\n", STR_ARG(e->text));
}

static void *run_one(void *context)
{
    struct run       *r  = context;
    struct subscriber to = { .context       = &r->told,
                             .on_checkpoint = on_checkpoint,
                             .on_note       = on_note };
    r->st = train_run(&r->os, &r->settings, &(struct train_with){ .to = &to, .ranks = r->r },
                      &r->result, &r->err);
    return NULL;
}

/* Runs of `count` ranks, which the caller may change before they start; rank 0 has the folder. */
static struct run *runs_new(struct arena *perm, const struct settings *s, i32 count,
                            struct str kept)
{
    struct rank_threads *all = rank_threads_new(perm, count);
    struct run          *r   = NEW(perm, struct run, count);
    for (i32 i = 0; i < count; i++) {
        r[i].os                      = *os_real();
        r[i].settings                = *s;
        r[i].settings.checkpoint.dir = i ? STR("") : kept;
        r[i].settings.train.out      = i ? STR("") : s->train.out;
        r[i].r                       = count > 1 ? rank_threads_rank(all, i) : NULL;
    }
    return r;
}

static void run_all(struct run *r, i32 count)
{
    for (i32 i = 0; i < count; i++) CHECK(!pthread_create(&r[i].thread, NULL, run_one, &r[i]));
    for (i32 i = 0; i < count; i++) pthread_join(r[i].thread, NULL);
    for (i32 i = 1; i < count; i++) CHECK_EQ(r[i].st, r[0].st);
}

static struct settings settings_new(struct arena *perm, struct str folder, const char *shard)
{
    struct settings s  = small_text_run(perm, folder.data, "learned", 7);
    s.train.shard      = str_of(shard);
    s.train.threads    = 1;
    s.train.schedule   = STR("constant");
    s.train.keep_best  = STR("false");
    s.checkpoint.every = STR("1");
    s.checkpoint.keep  = 3;
    s.train.steps      = STEPS;
    atomic_store(&parts_begun, 0);
    full_from = full_until = 0;
    return s;
}

/* The newest in a folder: verified; its step, and how many files other ranks have written of it. */
static i64 newest(struct arena *perm, struct str kept, i64 *parts)
{
    struct ckpt_list list;
    struct ckpt     *c;
    struct err       err = { 0 };
    if (ckpt_list(os_real(), kept, perm, &list, &err) ||
        ckpt_newest(os_real(), &list, perm, &c, &err))
        return -1;
    *parts = 0;
    for (i64 i = 0; i < c->manifest.shard_count; i++)
        *parts += st_is_part(c->manifest.shards[i].name);
    return c->id.step;
}

/* --- a full disk --- */

TEST(a_disk_that_is_full_for_one_rank_fails_the_save_and_ends_all_alike)
{
    struct str      folder = folder_new(perm), kept = str_cat(perm, folder, STR("/kept"));
    struct settings s = settings_new(perm, folder, "state");
    struct run     *r = runs_new(perm, &s, 2, kept);
    i64             parts;
    full_until     = INT64_MAX;
    r[1].os.create = create_or_full;
    run_all(r, 2);
    CHECK_EQ(r[0].st, STATUS_WORLD);
    CHECK(strstr(r[0].err.text, "nothing of this run could be saved"));
    CHECK_EQ(r[0].told.saved, 0);
    CHECK(r[0].told.failed > 0);
    CHECK(strstr(r[0].told.why.text, "no space left (rank 1)"));
    CHECK_EQ(newest(perm, kept, &parts), -1);
}

/* Older ones make room, and all ranks write again; nothing is reported as failed. */
TEST(older_checkpoints_make_room_for_one_rank)
{
    struct str      folder = folder_new(perm), kept = str_cat(perm, folder, STR("/kept"));
    struct settings s = settings_new(perm, folder, "all");
    s.train.steps = 20 * STEPS; /* on a busy machine most saves are put off: a third must come */
    struct run *r = runs_new(perm, &s, 3, kept);
    i64         parts;
    full_from  = 8; /* two files each of two ranks: the third save, and one of its files again */
    full_until = 10;
    r[1].os.create = r[2].os.create = create_or_full;
    run_all(r, 3);
    CHECK_EQ(r[0].st, STATUS_OK);
    CHECK_EQ(r[0].told.failed, 0);
    CHECK(strstr(r[0].told.notes, "is full: older checkpoints are deleted to make room"));
    CHECK_EQ(newest(perm, kept, &parts), s.train.steps);
    CHECK_EQ(parts, 4);
}

/* --- a folder that not all see --- */

TEST(where_a_rank_does_not_see_the_folder_rank_0_writes_alone)
{
    static const char *const shards[] = { "state", "all" };
    for (i64 i = 0; i < COUNT_OF(shards); i++) {
        struct str      folder = folder_new(perm), kept = str_cat(perm, folder, STR("/kept"));
        struct settings s = settings_new(perm, folder, shards[i]);
        struct run     *r = runs_new(perm, &s, 3, kept);
        i64             parts;
        r[2].os.stat = stat_elsewhere;
        run_all(r, 3);
        CHECK_EQ(r[0].st, STATUS_OK);
        CHECK(strstr(r[0].told.notes, "rank 2 cannot see or write to checkpoint.dir="));
        CHECK_EQ(newest(perm, kept, &parts), STEPS);
        CHECK_EQ(parts, 0);
    }
}

/* --- other numbers of ranks --- */

static struct str weights_of(struct arena *perm, struct str path)
{
    struct st_file f;
    struct err     err = { 0 };
    if (st_open(os_real(), path, perm, &f, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    struct str last = f.tensors[f.count - 1].bytes, first = f.tensors[0].bytes;
    i64        len = last.data + last.len - first.data;
    f32       *to  = NEW(perm, f32, len / 4); /* aligned, as the file's need not be */
    memcpy(to, first.data, (size_t)len);
    return (struct str){ (const char *)to, len };
}

static f64 apart(struct str a, struct str b)
{
    const f32 *x = (const void *)a.data, *y = (const void *)b.data;
    f64        most = a.len == b.len ? 0 : 1e9;
    for (i64 i = 0; i < a.len / 4 && most < 1e9; i++) most = fmax(most, fabs((f64)(x[i] - y[i])));
    return most;
}

/* Saved by some after 12 of 20 steps, and resumed by others: the same number ends with the bits of a run that nobody
 * has interrupted, another within the rounding of sums (a few steps of AdamW at this rate). */
TEST(parts_are_resumed_by_any_number_of_ranks)
{
    static const f64 bound = 2e-2;
    static const struct {
        const char *first, *then;
        i32         from, to;
    } ways[] = { { "state", "state", 3, 3 }, { "all", "all", 3, 3 },   { "all", "none", 4, 1 },
                 { "state", "all", 4, 2 },   { "all", "state", 2, 3 }, { "none", "all", 1, 3 } };
    for (i64 i = 0; i < COUNT_OF(ways); i++) {
        struct arena    room   = *perm;
        struct str      folder = folder_new(&room), kept = str_cat(&room, folder, STR("/kept"));
        struct settings s = settings_new(&room, folder, ways[i].then);
        i64             parts;
        s.checkpoint.every = STR("5");
        s.train.steps      = 20;
        s.train.clip       = 0; /* its norm is summed in another order by each sharding */
        s.train.out        = str_cat(&room, folder, STR("/whole.safetensors"));
        struct run *whole  = runs_new(&room, &s, ways[i].to, STR(""));
        run_all(whole, ways[i].to);
        CHECK_EQ(whole[0].st, STATUS_OK);
        struct settings half = s;
        half.train.shard     = str_of(ways[i].first);
        half.train.steps     = 12;
        half.train.out       = STR("");
        struct run *first    = runs_new(&room, &half, ways[i].from, kept);
        run_all(first, ways[i].from);
        CHECK_EQ(first[0].st, STATUS_OK);
        CHECK_EQ(newest(&room, kept, &parts), 12);
        CHECK_EQ(parts > 0, ways[i].from > 1);
        s.train.out       = str_cat(&room, folder, STR("/resumed.safetensors"));
        struct run *again = runs_new(&room, &s, ways[i].to, kept);
        run_all(again, ways[i].to);
        if (again[0].st) harness_fail(__FILE__, __LINE__, "%s", again[0].err.text);
        CHECK_EQ(again[0].told.resumed_step, 12);
        f64 differ = apart(weights_of(&room, whole[0].settings.train.out),
                           weights_of(&room, again[0].settings.train.out));
        if (ways[i].from == ways[i].to ? differ != 0 : differ > bound)
            harness_fail(__FILE__, __LINE__, "%s by %d, then %s by %d: apart by %g", ways[i].first,
                         ways[i].from, ways[i].then, ways[i].to, differ);
    }
}
