/* test_resume.c - a run that is interrupted, in many ways, ends with the same bits as one that is not;
 * and no number that it depends on is left out of its checkpoints. */
#include "base/hash.h"
#include "base/rng.h"
#include "harness.h"
#include "support/folder.h"
#include "support/small_run.h"
#include "train/state.h"
#include "train/train_int.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS_MAX = 64, TEXTS_MAX = 16 };

struct watch {
    struct train_orders orders;
    i64                 steps_left; /* until it is told to stop; < 0: never */
    bool                slow;
    bool                syncs;                /* really: it will be killed */
    f64                 losses[STEPS_MAX];    /* by step; those of an earlier start stay */
    i64                 resumed;              /* starts that went on from a checkpoint */
    char                text[TEXTS_MAX][600]; /* of what happened to checkpoints, "kind: text" */
    i64                 texts;
    i64                 saved;
    i64                 late_at; /* step after which there is next to no time left; 0: none */
};

static void on_step(void *context, const struct event_step *p)
{
    struct watch *w = context;
    CHECK(p->step < STEPS_MAX);
    w->losses[p->step] = p->loss;
    if (w->late_at && p->step == w->late_at)
        train_order(&w->orders, ORDER_EXIT, os_real()->now_ns(os_real()) + 1000, "too late");
    if (w->slow)
        usleep(w->syncs ? 2000 : w->saved + w->texts ? 0 : 50000); /* waits for the writer */
    if (w->steps_left-- != 0) return;
    train_order(&w->orders, ORDER_EXIT, 0, "the test says so");
}

static void on_checkpoint(void *context, const struct event_checkpoint *t)
{
    struct watch *w    = context;
    struct str    name = checkpoint_kind_name(t->what);
    w->resumed += t->what == CHECKPOINT_RESUMED;
    w->saved += t->what == CHECKPOINT_SAVED;
    if (t->what == CHECKPOINT_SAVED || w->texts == TEXTS_MAX) return;
    snprintf(w->text[w->texts++], sizeof w->text[0], "%.*s: %.*s", STR_ARG(name), STR_ARG(t->text));
}

static bool told(const struct watch *w, const char *part)
{
    for (i64 i = 0; i < w->texts; i++)
        if (strstr(w->text[i], part)) return true;
    return false;
}

static enum status no_sync(struct os *os, struct file f, struct err *err)
{
    (void)os, (void)f, (void)err;
    return STATUS_OK;
}

static enum status no_sync_dir(struct os *os, struct str path, struct err *err)
{
    (void)os, (void)path, (void)err;
    return STATUS_OK;
}

static atomic_int disk_full; /* writes that fail from now on */

static enum status write_or_full(struct os *os, struct file f, struct str bytes, struct err *err)
{
    if (atomic_load(&disk_full) > 0 && atomic_fetch_sub(&disk_full, 1) > 0)
        return err_set(err, STATUS_WORLD, "cannot write: no space left on device");
    return os_real()->write(os, f, bytes, err);
}

static enum status run(const struct settings *s, struct watch *w, struct train_result *r,
                       struct err *err)
{
    struct subscriber l  = { .context = w, .on_step = on_step, .on_checkpoint = on_checkpoint };
    struct os         os = *os_real();
    if (!w->syncs) { /* the order of writes has a test of its own, and syncing takes its time */
        os.sync        = no_sync;
        os.sync_dir_of = no_sync_dir;
        os.write       = write_or_full;
    }
    return train_run(&os, s, &(struct train_with){ .to = &l, .orders = &w->orders }, r, err);
}

static struct watch watch_new(void)
{
    return (struct watch){ .orders = TRAIN_ORDERS_NONE, .steps_left = -1 };
}

static const char *const network = "- conv: {filters: 8, activation: relu}\n"
                                   "- batchnorm\n"
                                   "- maxpool: 2\n"
                                   "- dropout: 0.2\n"
                                   "- flatten\n"
                                   "- dense: {units: 16, activation: relu}\n"
                                   "- dense: 4\n";

static struct settings gpt_run(struct arena *perm, const char *folder)
{
    struct settings s   = small_text_run(perm, folder, "rotary", 4);
    s.train.micro_batch = 4;
    return s;
}

static struct settings network_run(struct arena *perm, const char *folder)
{
    struct settings s  = small_run(perm, folder, network);
    s.train.epochs     = 0;
    s.train.steps      = 30; /* 60 samples, batches of 16: an epoch ends with a short one */
    s.train.eval_every = 4;
    return s;
}

/* --- every way of training --- */

static void plain(struct settings *s) { (void)s; }
static void bf16(struct settings *s) { s->train.precision = STR("bf16"); }

static void fp16(struct settings *s)
{
    s->train.precision  = STR("fp16");
    s->train.loss_scale = 65536 * 1024.0; /* too much at first: steps are left out */
}

static void rounded_at_random(struct settings *s)
{
    bf16(s);
    s->train.stochastic_rounding = true;
}

static void muon(struct settings *s)
{
    s->train.optimiser = STR("muon");
    s->train.muon_lr   = 0.02;
}

static void muon_bf16(struct settings *s)
{
    muon(s);
    bf16(s);
}

static void sgd(struct settings *s)
{
    s->train.optimiser = STR("sgd");
    s->train.momentum  = 0.9;
    s->train.nesterov  = true;
}

static void one_part_frozen(struct settings *s) { s->train.freeze = STR("conv*"); }

static void keeps_the_best(struct settings *s)
{
    s->train.lr        = 0.3; /* so that the last evaluation is not the best */
    s->train.keep_best = STR("true");
}

static void goes_back(struct settings *s)
{
    s->train.lr        = 5; /* too much, until it is halved a few times */
    s->train.rollbacks = 12;
    s->train.clip      = 0;
}

static void measures_noise(struct settings *s) { s->train.noise_scale = true; }

static void patient(struct settings *s)
{
    s->train.patience        = 2;
    s->train.min_improvement = 0.2; /* never */
}

static void predicts(struct settings *s)
{
    s->train.eval_every    = 2;
    s->train.target_metric = STR("loss");
    s->train.target        = 0.001;
    s->train.forecast      = 0.9;
}

static void twice_recomputed(struct settings *s) { s->train.recompute = STR("all"); }

static const struct way {
    const char *name;
    void (*change)(struct settings *);
    bool network_only;
} ways[] = { { "plain", plain, false },
             { "bf16", bf16, false },
             { "fp16", fp16, false },
             { "rounded at random", rounded_at_random, false },
             { "muon", muon, false },
             { "muon bf16", muon_bf16, false },
             { "sgd", sgd, false },
             { "frozen", one_part_frozen, true },
             { "keeps the best", keeps_the_best, false },
             { "goes back", goes_back, false },
             { "measures noise", measures_noise, false },
             { "patient", patient, false },
             { "predicts", predicts, false },
             { "recomputed", twice_recomputed, false } };

static struct str bytes_at(struct arena *perm, struct str path)
{
    struct str bytes = STR("");
    struct err err;
    CHECK_EQ(os_read_all(os_real(), path, perm, &bytes, &err), STATUS_OK);
    return bytes;
}

static void check_same_result(const struct train_result *a, const struct train_result *b)
{
    CHECK_EQ(a->steps, b->steps);
    CHECK_EQ(memcmp(&a->loss, &b->loss, sizeof a->loss), 0);
    CHECK_EQ(a->metric_count, b->metric_count);
    for (i64 i = 0; i < a->metric_count; i++) {
        CHECK_STR(a->metrics[i].name, b->metrics[i].name);
        CHECK_EQ(a->metrics[i].value, b->metrics[i].value);
    }
    CHECK_EQ(a->stopped, b->stopped);
    CHECK_EQ(a->weights_step, b->weights_step);
    CHECK_EQ(a->rollbacks, b->rollbacks);
    CHECK_EQ(a->scaling.skipped, b->scaling.skipped);
    CHECK_EQ(memcmp(&a->noise_scale, &b->noise_scale, sizeof a->noise_scale), 0);
}

/* Told to stop after a random number of steps, again and again; threads differ from start to start. */
static u64 check_way(struct arena *perm, const struct way *way, struct settings s, u64 seed)
{
    struct train_result whole, part;
    struct err          err  = { 0 };
    struct watch        once = watch_new(), pieces = watch_new();
    struct rng_key      key    = { .seed = seed, .name = str_hash(str_of(way->name)) };
    struct str          folder = folder_new(perm);
    way->change(&s);
    s.train.out = str_fmt(perm, "%.*s/whole", STR_ARG(folder));
    if (run(&s, &once, &whole, &err))
        harness_fail(__FILE__, __LINE__, "%s: %s", way->name, err.text);
    struct str want    = bytes_at(perm, s.train.out);
    s.train.out        = str_fmt(perm, "%.*s/pieces", STR_ARG(folder));
    s.checkpoint.dir   = str_fmt(perm, "%.*s/checkpoints", STR_ARG(folder));
    s.checkpoint.every = STR("5");
    s.checkpoint.keep  = 2;
    enum status st     = STATUS_INTERRUPTED;
    u64         start  = 0;
    for (; st == STATUS_INTERRUPTED; start++) {
        CHECK(start < 100);
        pieces.steps_left = rng_u32(key, 2 * start) % 12;
        s.train.threads   = 1 + rng_u32(key, 2 * start + 1) % 3;
        st                = run(&s, &pieces, &part, &err);
    }
    if (st) harness_fail(__FILE__, __LINE__, "%s: %s", way->name, err.text);
    bool same = !memcmp(once.losses, pieces.losses, sizeof once.losses);
    if (!same) printf("\n  %s: losses differ", way->name);
    CHECK(same);
    check_same_result(&whole, &part);
    if (!str_eq(want, bytes_at(perm, s.train.out))) printf("\n  %s: weights differ", way->name);
    CHECK(str_eq(want, bytes_at(perm, s.train.out)));
    CHECK_EQ(pieces.resumed, (i64)start - 1);
    CHECK(!told(&pieces, "resumed: it")); /* why not to the bit */
    return start;
}

TEST(a_network_in_pieces_is_the_network_at_once)
{
    u64 seed = test_seed(), starts = 0;
    for (i64 i = 0; i < COUNT_OF(ways); i++)
        starts += check_way(perm, &ways[i], network_run(perm, folder_new(perm).data), seed);
    CHECK(starts > 2 * COUNT_OF(ways));
}

/* Five of the ways, others each time; all of them where CHECK_SECONDS allows for a minute. */
TEST(a_gpt_in_pieces_is_the_gpt_at_once)
{
    const char *seconds = getenv("CHECK_SECONDS");
    i64         count   = seconds && atoi(seconds) >= 60 ? COUNT_OF(ways) : 5;
    u64         seed = test_seed(), starts = 0;
    for (i64 i = 0; i < count; i++) {
        const struct way *way = &ways[(seed + (u64)i) % (u64)COUNT_OF(ways)];
        if (!way->network_only)
            starts += check_way(perm, way, gpt_run(perm, folder_new(perm).data), seed);
    }
    CHECK(starts > (u64)count);
}

/* --- nothing is forgotten --- */

enum { RUN, GUARD };

static void mark(u8 *at, size_t bytes) { memset(at, 1, bytes); }

/* Which bytes of struct run_state and struct guard state.def speaks of. */
static void mark_rows(u8 *run, u8 *guard)
{
#define OWNER_RUN struct run_state
#define OWNER_GUARD struct guard
#define MARK(owner, field)                                                                         \
    mark((owner == RUN ? run : guard) + offsetof(OWNER_##owner, field),                            \
         sizeof(((OWNER_##owner *)0)->field));
#define ROW(owner, kind, field, least, most) MARK(owner, field)
#define NOT(owner, field) MARK(owner, field)
#include "train/state.def"
#undef ROW
#undef NOT
}

/* Padding is shorter than any field that could be forgotten, but for a truth or an enum. */
static void check_marked(const char *name, const u8 *marks, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        bool any = false;
        for (size_t k = 0; k < 8; k++) any |= marks[i + k];
        if (!any) printf("\n  bytes %zu to %zu of %s have no row in state.def", i, i + 8, name);
        CHECK(any);
    }
}

/* Everything of it, also what the next gradients have changed before the copy was made. */
TEST(a_snapshot_is_of_one_moment)
{
    struct settings  s = small_run(perm, folder_new(perm).data, network);
    struct session   session;
    struct guard     guard;
    struct snapshot  n;
    struct run_state at = { .loss = 0 };
    struct err       err;
    s.train.rollbacks = 1; /* the copy is of all state */
    CHECK_EQ(session_open(&session, os_real(), &s, perm, &err), STATUS_OK);
    CHECK_EQ(guard_open(&guard, &session, 1, &err), STATUS_OK);
    CHECK_EQ(snapshot_open(&n, &session, &guard, false, &err), STATUS_OK);
    CHECK_EQ(session_start(&session, &err), STATUS_OK);
    struct backend *b = session.backend;
    for (i32 i = 0; i < session.set->persistent_count; i++) { /* whatever is no state is 0 */
        const struct persistent *t = &session.set->persistents[i];
        if (!guard_copies(&guard, t)) b->table->put(b, t->offset, NULL, type_bytes(t->type));
    }
    u8 *before = NEW(perm, u8, session.set->persistent_bytes);
    i64 same = 0, changed = 0;
    b->table->wait(b, b->table->get(b, 0, before, session.set->persistent_bytes));
    snapshot_take(&n, &at);
    b->table->run(b, session.set->programs[PROGRAM_TRAIN]);
    for (i64 i = 0; i < n.copy_count; i++) {
        const struct backend_copy *c   = &n.copies[i];
        u8                        *now = NEW(perm, u8, c->bytes);
        b->table->wait(b, b->table->get(b, c->offset, now, c->bytes));
        changed += memcmp(now, before + c->offset, (size_t)c->bytes) != 0;
    }
    snapshot_copy(&n);
    for (i64 i = 0; i < n.copy_count; i++)
        same += !memcmp(n.copies[i].to, before + n.copies[i].offset, (size_t)n.copies[i].bytes);
    CHECK_EQ(same, n.copy_count);
    CHECK(changed > 0); /* the variance of a batch norm; its mean stays 0 */
    CHECK_EQ(n.early_count, 2);
    snapshot_close(&n);
    session_close(&session);
}

TEST(every_field_of_the_state_has_a_row)
{
    static u8 run_marks[sizeof(struct run_state)], guard_marks[sizeof(struct guard)];
    mark_rows(run_marks, guard_marks);
    check_marked("struct run_state", run_marks, sizeof run_marks);
    check_marked("struct guard", guard_marks, sizeof guard_marks);
}

/* An evaluation is made of numbers by hand: each comes back. */
TEST(evaluations_come_back)
{
    struct run_state  r = { 0 }, back = { 0 };
    struct guard      g = { 0 }, guard_back = { 0 };
    struct train_eval e       = { .step           = 5,
                                  .epoch          = 2,
                                  .elapsed_s      = 1.5,
                                  .eval_s         = 0.25,
                                  .samples        = 77,
                                  .loss           = 0.125,
                                  .metrics        = { { STR("auc"), 0.5 }, { STR("accuracy"), 0.75 } },
                                  .metric_count   = 2,
                                  .target_reached = true,
                                  .forecast       = { 0.375, 0.625 },
                                  .dollars        = 8 };
    struct st_tensor *tensors = NEW(perm, struct st_tensor, state_count());
    u8               *bytes   = NEW(perm, u8, state_bytes());
    struct err        err;
    r.last_eval   = e;
    r.overfit     = (struct overfit){ 1.5, 3, 2.5, 2, 40, 1, 1.25, true };
    g.stop.stride = 1;
    state_describe(tensors, bytes);
    state_collect(&r, &g, bytes);
    CHECK_EQ(state_put_back(&back, &guard_back,
                            &(struct st_file){ .tensors = tensors, .count = state_count() }, &err),
             STATUS_OK);
    struct train_eval *got = &back.last_eval;
    CHECK_STR(got->metrics[1].name, "accuracy");
    got->metrics[0].name = e.metrics[0].name; /* then all bytes must be the same */
    got->metrics[1].name = e.metrics[1].name;
    CHECK_EQ(memcmp(got, &e, sizeof e), 0);
    CHECK_EQ(memcmp(&r.overfit, &back.overfit, offsetof(struct overfit, reported)), 0);
    CHECK(back.overfit.reported);
    CHECK_EQ(memcmp(&g, &guard_back, sizeof g), 0);
}

/* Whoever can write to the store can make the hashes fit: every number is looked at. */
TEST(numbers_that_no_run_has_are_refused)
{
    static const struct {
        const char *name;
        i64         whole;
        f64         real; /* where the row has such */
    } wrong[] = {
        { "step", -1, 0 },
        { "epoch", -1, 0 },
        { "next_epoch", INT64_MIN, 0 },
        { "next_index", -1, 0 },
        { "elapsed_ns", INT64_MAX, 0 },
        { "steps_ns", -5, 0 },
        { "eval_step", -2, 0 },
        { "eval_due", 2, 0 },
        { "stop.reason", 99, 0 },
        { "stop.point_count", FORECAST_POINTS_MAX + 1, 0 },
        { "stop.point_count", -1, 0 },
        { "stop.stride", 0, 0 },
        { "stop.evals", -1, 0 },
        { "stop.window_count", INT64_MAX, 0 },
        { "stop.elapsed_s", 0, -1 },
        { "stop.elapsed_s", 0, NAN },
        { "stop.eval_s", 0, INFINITY },
        { "lr_factor", 0, 1e30 },
        { "last_eval", 0, 1e300 },
    };
    struct run_state  r     = { .eval_step = -1 }, back;
    struct guard      g     = { .stop.stride = 1, .lr_factor = 1 }, guard_back;
    struct st_tensor *t     = NEW(perm, struct st_tensor, state_count());
    u8               *bytes = NEW(perm, u8, state_bytes());
    struct st_file    file  = { .tensors = t, .count = state_count() };
    struct err        err;
    state_describe(t, bytes);
    state_collect(&r, &g, bytes);
    CHECK_EQ(state_put_back(&back, &guard_back, &file, &err), STATUS_OK);
    for (i64 i = 0; i < COUNT_OF(wrong); i++) {
        const struct st_tensor *x    = st_find(&file, str_of(wrong[i].name));
        bool                    real = str_eq(x->dtype, STR("F64"));
        state_collect(&r, &g, bytes);
        memcpy((char *)(uintptr_t)x->bytes.data,
               real ? (const void *)&wrong[i].real : &wrong[i].whole, (size_t)MIN(x->bytes.len, 8));
        if (state_put_back(&back, &guard_back, &file, &err) != STATUS_WORLD)
            harness_fail(__FILE__, __LINE__, "%s was taken", wrong[i].name);
        CHECK(strstr(err.text, wrong[i].name));
    }
}

/* The newest checkpoint of a folder with another number in it, and hashes that fit. */
static void forge(struct arena *perm, struct str folder, const char *name, i64 number)
{
    struct os         *os = os_real();
    struct ckpt_list   list;
    struct ckpt_loaded loaded;
    struct err         err = { 0 };
    CHECK_EQ(ckpt_list(os, folder, perm, &list, &err), STATUS_OK);
    CHECK_EQ(ckpt_load_newest(os, &list, perm, &loaded, &err), STATUS_OK);
    struct ckpt_manifest    m   = loaded.ckpt->manifest;
    const struct st_file   *run = ckpt_shard(&loaded, STR("run"));
    const struct st_tensor *t   = st_find(run, str_of(name));
    struct str path = str_fmt(perm, "%.*s/run.safetensors", STR_ARG(loaded.ckpt->folder));
    struct str file = bytes_at(perm, path);
    i64        at   = (i64)(t->bytes.data - run->mapped.data);
    memcpy((char *)(uintptr_t)file.data + at, &number, sizeof number);
    for (i64 i = 0; i < m.shard_count; i++)
        if (str_eq(m.shards[i].name, STR("run.safetensors"))) m.shards[i].hash = xxh64(file);
    ckpt_unload(os, &loaded);
    CHECK_EQ(os_publish(os, path, file, *perm, &err), STATUS_OK);
    path = str_fmt(perm, "%.*s/" CKPT_MANIFEST, STR_ARG(list.items[0].folder));
    CHECK_EQ(os_publish(os, path, ckpt_manifest_text(perm, &m), *perm, &err), STATUS_OK);
}

TEST(a_place_in_the_data_that_no_step_begins_at_is_refused)
{
    static const i64 places[] = { 3, 17, 61, 1000 }; /* 60 samples in steps of 16 */
    for (i64 i = 0; i < COUNT_OF(places); i++) {
        struct watch        w = watch_new();
        struct settings     s = network_run(perm, folder_new(perm).data);
        struct train_result r;
        struct err          err = { 0 };
        s.checkpoint.dir        = folder_new(perm);
        s.checkpoint.every      = STR("1000 steps");
        s.checkpoint.keep       = 1;
        w.steps_left            = 5;
        CHECK_EQ(run(&s, &w, &r, &err), STATUS_INTERRUPTED);
        forge(perm, s.checkpoint.dir, "next_index", places[i]);
        w = watch_new();
        CHECK_EQ(run(&s, &w, &r, &err), STATUS_WORLD);
        CHECK(strstr(err.text, "next_index is out of range"));
    }
}

/* --- deaths --- */

/* Kills it until it comes to its end; returns how often it was started. */
static i64 kill_until_done(struct settings s, struct rng_key key)
{
    struct watch w = { .orders = TRAIN_ORDERS_NONE, .steps_left = -1, .slow = true, .syncs = true };
    struct train_result r;
    struct err          err    = { 0 };
    int                 status = 1;
    i64                 starts = 0;
    for (; status; starts++) {
        CHECK(starts < 200);
        fflush(stdout); /* or the child would print it too */
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) _exit((int)run(&s, &w, &r, &err)); /* with threads of its own */
        u32 more =
            starts ? rng_u32(key, (u64)starts) % 50 : 0; /* the first never gets to its end */
        usleep(20000 + 2000 * more * (1 + (u32)starts / 20));
        kill(child, SIGKILL);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    }
    return starts;
}

/* By a signal that no process can catch, at any moment, for a third of CHECK_SECONDS (5) or once;
 * bench/run kills does it 200 times. */
TEST(a_run_that_is_killed_again_and_again_ends_the_same)
{
    struct settings     s      = network_run(perm, folder_new(perm).data);
    struct str          folder = folder_new(perm);
    struct os          *os     = os_real();
    struct train_result r;
    struct err          err  = { 0 };
    struct watch        w    = watch_new();
    struct rng_key      key  = { .seed = test_seed() };
    const char         *text = getenv("CHECK_SECONDS");
    i64                 end = os->now_ns(os) + (i64)((text ? atof(text) : 5) / 3 * 1e9), kills = 0;
    s.train.out = str_fmt(perm, "%.*s/whole", STR_ARG(folder));
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_OK);
    struct str want    = bytes_at(perm, s.train.out);
    s.train.out        = str_fmt(perm, "%.*s/pieces", STR_ARG(folder));
    s.checkpoint.every = STR("1");
    s.checkpoint.keep  = 1;
    do {
        s.checkpoint.dir = str_fmt(perm, "%.*s/checkpoints%llu", STR_ARG(folder),
                                   (unsigned long long)key.sample++);
        kills +=
            kill_until_done(s, key) - 1; /* a busy machine may let a run come to its end first */
        CHECK(str_eq(want, bytes_at(perm, s.train.out)));
    } while (os->now_ns(os) < end || !kills);
}

/* --- what is told --- */

/* Some steps of a run with checkpoints, as a beginning. */
static struct settings begun(struct arena *perm, struct watch *w)
{
    struct settings     s = network_run(perm, folder_new(perm).data);
    struct train_result r;
    struct err          err = { 0 };
    s.checkpoint.dir        = folder_new(perm);
    s.checkpoint.every      = STR("4 steps");
    s.checkpoint.keep       = 3;
    *w                      = watch_new();
    w->steps_left           = 8;
    CHECK_EQ(run(&s, w, &r, &err), STATUS_INTERRUPTED);
    w->steps_left = 8;
    CHECK_EQ(run(&s, w, &r, &err), STATUS_INTERRUPTED);
    CHECK(strstr(err.text, "stopped after step 18: the test says so") != NULL);
    CHECK_EQ(r.saving.step, 18);
    CHECK(r.saving.count >= 1 && w->saved > r.saving.count);
    *w = watch_new();
    return s;
}

TEST(another_run_is_not_continued)
{
    struct watch        w;
    struct settings     s = begun(perm, &w), t;
    struct train_result r;
    struct err          err = { 0 };
#define REFUSED(change, words)                                                                     \
    t = s;                                                                                         \
    change;                                                                                        \
    CHECK_EQ(run(&t, &w, &r, &err), STATUS_USAGE);                                                 \
    if (!strstr(err.text, words)) printf("\n  %s", err.text);                                      \
    CHECK(strstr(err.text, words) != NULL);                                                        \
    CHECK(strstr(err.text, "--fresh") != NULL);
    REFUSED(t.train.optimiser = STR("sgd"), "train.optimiser was adamw and is sgd")
    REFUSED(t.train.seed = 4, "train.seed was 3 and is 4")
    REFUSED(t.train.batch = 8, "train.batch was 16 and is 8")
    REFUSED(t.train.precision = STR("bf16"), "train.precision was fp32 and is bf16")
    REFUSED(t.data.samples = 50, "data.samples was 0 and is 50")
    REFUSED(t.train.shuffle = STR("false"), "train.shuffle was true and is false")
    struct yaml *layers = s.model.layers;
    CHECK_EQ(yaml_parse(perm, STR("test"),
                        STR("- conv: {filters: 8}\n- layernorm\n- flatten\n- dense: 4\n"),
                        &s.model.layers, &err),
             STATUS_OK);
    REFUSED((void)0, "it has no tensor")
    s.model.layers = layers;
#undef REFUSED
}

TEST(what_may_change_is_told)
{
    struct watch        w;
    struct settings     s = begun(perm, &w);
    struct train_result r;
    struct err          err = { 0 };
    s.train.lr              = 0.02;
    s.train.steps           = 20;
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_OK);
    CHECK(told(&w, "changed: train.lr was 0.01 and is 0.02 now"));
    CHECK(told(&w, "changed: train.steps was 30 and is 20 now")); /* the cosine ends there */
    CHECK(told(&w, "resumed: settings have changed"));
    CHECK_EQ(r.saving.resumed_step, 18);
    CHECK_EQ(r.steps, 20);
    /* Both rates are of this start: a batch of 16 and the short one that ends the epoch. */
    CHECK_NEAR(r.samples_per_s / r.steps_per_s, (16 + 12) / 2.0, 1e-6);
}

TEST(a_fresh_run_begins_anew)
{
    struct watch        w;
    struct settings     s = begun(perm, &w);
    struct train_result r;
    struct err          err = { 0 };
    w.orders.fresh          = true;
    s.train.steps           = 3;
    s.train.seed            = 9; /* another run altogether */
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_OK);
    CHECK_EQ(r.saving.resumed_step, -1);
    CHECK_EQ(r.steps, 3);
    w              = watch_new();
    s.train.epochs = 0;
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_OK);
    CHECK_EQ(r.saving.resumed_step, 3); /* nothing of the first is left */
}

TEST(a_damaged_checkpoint_is_passed_over)
{
    struct watch        w;
    struct settings     s = begun(perm, &w);
    struct train_result r;
    struct err          err = { 0 };
    struct ckpt_list    list;
    CHECK_EQ(ckpt_list(os_real(), s.checkpoint.dir, perm, &list, &err), STATUS_OK);
    CHECK(list.count >= 2);
    struct str path  = str_fmt(perm, "%.*s/weights.safetensors", STR_ARG(list.items[0].folder));
    struct str bytes = bytes_at(perm, path);
    ((char *)(uintptr_t)bytes.data)[bytes.len - 1] ^= 1;
    CHECK_EQ(os_publish(os_real(), path, bytes, scratch, &err), STATUS_OK);
    s.train.steps = 20;
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_OK);
    CHECK(told(&w, "damaged: "));
    CHECK(told(&w, "weights.safetensors"));
    CHECK_EQ(r.saving.resumed_step, list.items[1].id.step);
}

TEST(a_full_disk_is_a_warning)
{
    struct settings     s = network_run(perm, folder_new(perm).data);
    struct train_result r;
    struct err          err = { 0 };
    struct watch        w   = watch_new();
    s.checkpoint.dir        = folder_new(perm);
    s.checkpoint.every      = STR("4");
    s.checkpoint.keep       = 1;
    w.slow                  = true;
    atomic_store(&disk_full, 1);
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_OK);
    CHECK(told(&w, "failed: cannot write: no space left on device"));
    CHECK_EQ(r.saving.failed, 1);
    CHECK_EQ(r.saving.step, 30); /* later ones went well */
    w              = watch_new();
    w.orders.fresh = true;
    w.steps_left   = 3;
    atomic_store(&disk_full, 1000);
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_WORLD);
    atomic_store(&disk_full, 0);
    CHECK(strstr(err.text, "nothing of this run could be saved") != NULL);
}

TEST(a_run_that_is_over_is_not_run_again)
{
    struct settings     s = network_run(perm, folder_new(perm).data);
    struct train_result first, again;
    struct err          err = { 0 };
    struct watch        w   = watch_new();
    s.checkpoint.dir        = folder_new(perm);
    s.checkpoint.every      = STR("1h");
    s.checkpoint.keep       = 1;
    s.train.patience        = 2;
    s.train.min_improvement = 0.9;
    CHECK_EQ(run(&s, &w, &first, &err), STATUS_OK);
    CHECK_EQ(first.stopped, STOP_PATIENCE);
    memset(w.losses, 0, sizeof w.losses);
    CHECK_EQ(run(&s, &w, &again, &err), STATUS_OK);
    check_same_result(&first, &again);
    CHECK_STR(again.why, first.why);
    for (i64 i = 0; i < STEPS_MAX; i++) CHECK_EQ(w.losses[i], 0); /* no step was made */
    s.train.patience = 0;                                         /* but it may go on */
    CHECK_EQ(run(&s, &w, &again, &err), STATUS_OK);
    CHECK_EQ(again.steps, 30);
}

TEST(two_trainers_do_not_share_a_folder)
{
    struct settings     s = network_run(perm, folder_new(perm).data);
    struct ckpt_store  *store;
    struct train_result r;
    struct err          err = { 0 };
    struct watch        w   = watch_new();
    s.checkpoint.dir        = folder_new(perm);
    s.checkpoint.every      = STR("auto");
    CHECK_EQ(ckpt_store_open(os_real(), s.checkpoint.dir, perm, &store, &err), STATUS_OK);
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "two runs cannot write to one folder") != NULL);
    ckpt_store_close(store);
}

TEST(an_order_to_save_is_obeyed_between_two_steps)
{
    struct settings     s = network_run(perm, folder_new(perm).data);
    struct train_result r;
    struct err          err = { 0 };
    struct watch        w   = watch_new();
    s.checkpoint.dir        = folder_new(perm);
    s.checkpoint.every      = STR("1h");
    s.checkpoint.keep       = 3;
    w.slow                  = true;
    train_order(&w.orders, ORDER_SAVE, 0, "maintenance");
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_OK);
    CHECK_EQ(r.saving.count, 2); /* that one and the last */
    CHECK_EQ(r.steps, 30);
}

static enum os_signal the_signal;

static enum os_signal signal_once(struct os *os)
{
    enum os_signal now = the_signal;
    (void)os;
    the_signal = OS_SIGNAL_NONE;
    return now;
}

/* It comes while kernels are prepared: there is nothing to save yet, and nothing to tell. */
TEST(a_signal_before_the_first_step_saves_nothing)
{
    static const struct {
        enum os_signal signal;
        const char    *on_usr1;
        enum status    status;
    } cases[] = { { OS_SIGNAL_TERM, "save", STATUS_INTERRUPTED },
                  { OS_SIGNAL_INT, "save", STATUS_INTERRUPTED },
                  { OS_SIGNAL_USR1, "exit", STATUS_INTERRUPTED },
                  { OS_SIGNAL_USR1, "save", STATUS_OK } };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct settings     s    = network_run(perm, folder_new(perm).data);
        struct os           os   = *os_real();
        struct subscriber   none = { 0 };
        struct train_result r;
        struct err          err = { 0 };
        struct ckpt_list    list;
        os.signal_take       = signal_once;
        the_signal           = cases[i].signal;
        s.train.steps        = 3;
        s.checkpoint.dir     = folder_new(perm);
        s.checkpoint.every   = STR("1h");
        s.checkpoint.keep    = 3;
        s.checkpoint.on_usr1 = str_of(cases[i].on_usr1);
        CHECK_EQ(train_run(&os, &s, &(struct train_with){ .to = &none }, &r, &err),
                 cases[i].status);
        CHECK_EQ(ckpt_list(&os, s.checkpoint.dir, perm, &list, &err), STATUS_OK);
        CHECK_EQ(list.count > 0, !cases[i].status);
    }
}

/* A save that is expected to take longer than there is time is not begun. */
TEST(a_deadline_that_is_too_near_is_told)
{
    struct settings     s = network_run(perm, folder_new(perm).data);
    struct train_result r;
    struct err          err = { 0 };
    struct watch        w   = watch_new();
    s.checkpoint.dir        = folder_new(perm);
    s.checkpoint.every      = STR("1");
    s.checkpoint.keep       = 3;
    w.late_at               = 9;
    w.slow                  = true;
    CHECK_EQ(run(&s, &w, &r, &err), STATUS_INTERRUPTED);
    CHECK(told(&w, "will be repeated"));
    CHECK(r.saving.step < 10);
}
