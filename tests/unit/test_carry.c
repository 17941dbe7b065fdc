/* test_carry.c - when a file is complete, that a copy of a changing one is thrown away, and that what
 * is brought back after any accident is one whole checkpoint. */
#include "base/hash.h"
#include "harness.h"
#include "store/checkpoint.h"
#include "supervise/carry.h"
#include "support/folder.h"
#include "support/sim_os.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A disk in memory whose clock moves when told. settle_s is 10. */
struct world {
    struct sim_os        *sim;
    struct program_config program;
    struct carry_config   config;
    struct carry         *carry;
};

static void world_init(struct world *w, struct arena *perm)
{
    *w         = (struct world){ .sim = sim_os_new(perm) };
    w->program = (struct program_config){
        .folder = STR("/out"), .files = { STR("*") }, .file_count = 1, .complete = STR("10")
    };
    w->config = (struct carry_config){ &w->program, STR("/kept"), 2, 1, NULL, false };
    sim_os_put(w->sim, STR("/out/readme"), STR("")); /* so that the folder is there */
    w->sim->os.remove(&w->sim->os, STR("/out/readme"), NULL);
}

static void world_open(struct world *w, struct arena *perm)
{
    struct arena *part = NEW(perm, struct arena, 1);
    *part              = arena_open((i64)3 << 30);
    struct err err     = { 0 };
    if (carry_open(&w->sim->os, &w->config, part, &w->carry, &err)) printf("%s\n", err.text);
    CHECK(w->carry);
}

static void put(struct world *w, const char *path, const char *text)
{
    w->sim->now_ns += 1000000;
    sim_os_put(w->sim, str_of(path), str_of(text));
}

static i64 look_after(struct world *w, f64 seconds, enum carry_moment moment)
{
    w->sim->now_ns += (i64)(seconds * 1e9);
    CHECK_EQ(carry_look(w->carry, 7, moment, NULL), STATUS_OK);
    return carry_state(w->carry).count;
}

static bool restore(struct world *w, struct arena *perm, struct str *said)
{
    bool       found;
    struct err err = { 0 };
    if (carry_restore(w->carry, perm, said, &found, &err)) printf("%s\n", err.text);
    CHECK_EQ(err.status, STATUS_OK);
    return found;
}

TEST(a_file_is_carried_once_it_has_not_changed_for_the_settle_time)
{
    struct world w;
    world_init(&w, perm);
    world_open(&w, perm);
    CHECK_EQ(look_after(&w, 0, CARRY_RUNNING), 0); /* an empty folder is no checkpoint */
    put(&w, "/out/a.pt", "one");
    CHECK_EQ(look_after(&w, 100, CARRY_RUNNING), 0); /* it is seen for the first time */
    CHECK_STR(carry_state(w.carry).waits, "a.pt");
    CHECK_EQ(look_after(&w, 9, CARRY_RUNNING), 0);
    put(&w, "/out/a.pt", "two");
    CHECK_EQ(look_after(&w, 9, CARRY_RUNNING), 0);
    CHECK_EQ(look_after(&w, 11, CARRY_RUNNING), 1);
    CHECK_EQ(look_after(&w, 100, CARRY_RUNNING), 1); /* nothing new */
    struct carry_state s = carry_state(w.carry);
    CHECK_STR(s.newest, "a.pt");
    CHECK_EQ(s.step, 7);
    CHECK_EQ(s.bytes, 3);
    CHECK_STR(s.waits, "");
    CHECK_EQ(s.complete_ns, w.sim->now_ns - 111000000000); /* when it was first seen so */
    CHECK_STR(sim_os_look(w.sim, STR("/kept/step-000000007.1.1/file-0")), "two");
}

TEST(all_files_are_carried_together_or_not_yet)
{
    struct world w;
    world_init(&w, perm);
    world_open(&w, perm);
    put(&w, "/out/model.pt", "m1");
    put(&w, "/out/sub/optimiser.pt", "o1");
    look_after(&w, 0, CARRY_RUNNING);
    CHECK_EQ(look_after(&w, 11, CARRY_RUNNING), 1);
    put(&w, "/out/model.pt", "m2");
    look_after(&w, 0, CARRY_RUNNING);
    put(&w, "/out/sub/optimiser.pt", "o2");
    CHECK_EQ(look_after(&w, 11, CARRY_RUNNING),
             1); /* the model is complete, its other half is not */
    CHECK_EQ(look_after(&w, 11, CARRY_RUNNING), 2);
}

TEST(a_marker_says_so_at_once)
{
    struct world w;
    world_init(&w, perm);
    w.program.complete = STR(".done");
    world_open(&w, perm);
    put(&w, "/out/a.pt", "one");
    CHECK_EQ(look_after(&w, 0, CARRY_RUNNING), 0);
    put(&w, "/out/a.pt.done", "");
    CHECK_EQ(look_after(&w, 0, CARRY_RUNNING), 1);
    put(&w, "/out/a.pt", "two"); /* the marker is older than that */
    CHECK_EQ(look_after(&w, 1, CARRY_RUNNING), 1);
    put(&w, "/out/a.pt.done", "");
    CHECK_EQ(look_after(&w, 0, CARRY_RUNNING), 2);
}

TEST(when_the_program_has_exited_all_is_complete)
{
    struct world w;
    world_init(&w, perm);
    world_open(&w, perm);
    put(&w, "/out/a.pt", "one");
    CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 1);
}

TEST(patterns_choose_the_files)
{
    struct world w;
    world_init(&w, perm);
    w.program.files[0] = STR("*.pt");
    world_open(&w, perm);
    put(&w, "/out/log.txt", "x");
    put(&w, "/out/a.pt.77.part", "x");
    CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 0);
    put(&w, "/out/deep/er/a.pt", "x");
    CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 1);
    CHECK_STR(carry_state(w.carry).newest, "deep/er/a.pt");
}

/* The world changes the file in the middle of our copying. */
static void rewrite_now(struct sim_os *sim)
{
    i64 *left = sim->context;
    if ((*left)-- == 0) {
        sim->before_change = NULL;
        sim->now_ns += 1000000;
        sim_os_put(sim, STR("/out/a.pt"), STR("two"));
        sim->before_change = rewrite_now;
    }
}

TEST(a_file_that_changes_while_it_is_carried_is_carried_later)
{
    i64 kept_one = 0, discarded = 0, when = 0;
    for (; kept_one < 3;
         when++) { /* at each call in turn, until the change comes after all is done */
        struct world w;
        i64          left = when;
        world_init(&w, perm);
        world_open(&w, perm);
        put(&w, "/out/a.pt", "one");
        look_after(&w, 0, CARRY_RUNNING);
        w.sim->context       = &left;
        w.sim->before_change = rewrite_now;
        look_after(&w, 11, CARRY_RUNNING);
        w.sim->before_change = NULL;
        struct carry_state s = carry_state(w.carry);
        discarded += s.discarded;
        struct str said, now;
        bool       found = restore(&w, perm, &said);
        CHECK_EQ(found, s.count > 0);
        now = sim_os_look(w.sim, STR("/out/a.pt"));
        if (found) CHECK(str_eq(now, STR("one")) || str_eq(now, STR("two")));
        kept_one += left >= 0;
        carry_close(w.carry, false);
    }
    CHECK(discarded > 3); /* or nothing changed when we thought it did */
}

/* Somebody else writes on: no later look would save what the program left. */
TEST(once_it_has_exited_a_changed_file_is_carried_again_or_an_error)
{
    for (i64 when = 0, after = 0; after < 3; when++) {
        struct world w;
        i64          left = when;
        world_init(&w, perm);
        world_open(&w, perm);
        put(&w, "/out/a.pt", "one");
        w.sim->context       = &left;
        w.sim->before_change = rewrite_now;
        CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 1);
        w.sim->before_change = NULL;
        after += left >= 0;
        carry_close(w.carry, false);
    }
}

static void rewrite_always(struct sim_os *sim)
{
    sim->before_change = NULL;
    sim->now_ns += 1000000;
    sim_os_put(sim, STR("/out/a.pt"), STR("more"));
    sim->before_change = rewrite_always;
}

TEST(a_file_that_never_rests_is_an_error_once_the_program_has_exited)
{
    struct world w;
    struct err   err = { 0 };
    world_init(&w, perm);
    world_open(&w, perm);
    put(&w, "/out/a.pt", "one");
    w.sim->before_change = rewrite_always;
    CHECK_EQ(carry_look(w.carry, 7, CARRY_EXITED, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "a.pt changed while it was copied"));
    w.sim->before_change = NULL;
    CHECK_EQ(carry_state(w.carry).count, 0);
    carry_close(w.carry, false);
}

static i64 kept_count(struct world *w, struct arena memory)
{
    struct ckpt_list list;
    CHECK_EQ(ckpt_list(&w->sim->os, STR("/kept"), &memory, &list, NULL), STATUS_OK);
    return list.count;
}

/* Pruning reads the newest one back, which may take longer than a notice leaves. */
TEST(a_run_that_must_end_does_not_wait_for_pruning)
{
    struct world w;
    world_init(&w, perm);
    w.config.keep = 1;
    world_open(&w, perm);
    put(&w, "/out/a.pt", "one");
    CHECK_EQ(look_after(&w, 1, CARRY_EXITED), 1);
    put(&w, "/out/a.pt", "two");
    CHECK_EQ(look_after(&w, 1, CARRY_EXITED), 2);
    CHECK_EQ(kept_count(&w, *perm), 1);
    carry_hurry(w.carry);
    put(&w, "/out/a.pt", "three");
    CHECK_EQ(look_after(&w, 1, CARRY_EXITED), 3);
    CHECK_EQ(kept_count(&w, *perm), 2);
    carry_close(w.carry, false);
}

static enum status refuse_read(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                               struct err *err)
{
    (void)os, (void)f, (void)to, (void)bytes, (void)at;
    *got = 0;
    return err_set(err, STATUS_WORLD, "cannot read from a file: Permission denied");
}

TEST(the_newest_whole_one_is_brought_back_and_other_files_go_aside)
{
    struct world w;
    struct str   said;
    world_init(&w, perm);
    world_open(&w, perm);
    put(&w, "/out/sub/a.pt", "one");
    CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 1);
    put(&w, "/out/sub/a.pt", "two");
    put(&w, "/out/b.pt", "new");
    CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 2);
    put(&w, "/out/sub/a.pt", "ha"); /* half of "half" */
    put(&w, "/out/c.pt", "stray");
    CHECK(restore(&w, perm, &said));
    CHECK_STR(said, "moved 2 files that no checkpoint holds to /out/.frugal-aside\n");
    CHECK_STR(sim_os_look(w.sim, STR("/out/sub/a.pt")), "two");
    CHECK_STR(sim_os_look(w.sim, STR("/out/b.pt")), "new");
    CHECK(!sim_os_look(w.sim, STR("/out/c.pt")).data);
    CHECK_STR(sim_os_look(w.sim, STR("/out/.frugal-aside/sub/a.pt")), "ha");
    CHECK_STR(sim_os_look(w.sim, STR("/out/.frugal-aside/c.pt")), "stray");
    CHECK_EQ(look_after(&w, 100, CARRY_RUNNING), 2); /* what was brought back is nothing new */
    CHECK(restore(&w, perm, &said));
    CHECK_STR(said, "");

    /* The newest is damaged: the one before it serves, and that is said. */
    sim_os_put(w.sim, STR("/kept/step-000000007.1.2/file-0"), STR("bad"));
    CHECK(restore(&w, perm, &said));
    CHECK(strstr(str_z(perm, said), "file-0 is damaged"));
    CHECK_STR(sim_os_look(w.sim, STR("/out/sub/a.pt")), "one");
    CHECK(!sim_os_look(w.sim, STR("/out/b.pt")).data);
}

/* What cannot be read may be whole: the program's own files stay where they are, and it is not begun. */
TEST(one_that_cannot_be_read_ends_the_start_and_moves_nothing)
{
    struct world w;
    struct str   said;
    struct err   err = { 0 };
    bool         found;
    world_init(&w, perm);
    world_open(&w, perm);
    put(&w, "/out/a.pt", "one");
    CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 1);
    put(&w, "/out/a.pt", "two");
    CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 2);
    put(&w, "/out/a.pt", "three");
    struct os *os = &w.sim->os;
    enum status (*read)(struct os *, struct file, void *, i64, i64, i64 *, struct err *) = os->read;
    os->read = refuse_read;
    CHECK_EQ(carry_restore(w.carry, perm, &said, &found, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "Permission denied"));
    CHECK(strstr(err.text, "--fresh"));
    CHECK_STR(sim_os_look(w.sim, STR("/out/a.pt")), "three");
    os->read = read;
    CHECK(restore(&w, perm, &said));
    CHECK_STR(sim_os_look(w.sim, STR("/out/a.pt")), "two");
    /* All of them damaged: no reason to begin with nothing, either. */
    put(&w, "/out/a.pt", "three");
    sim_os_put(w.sim, STR("/kept/step-000000007.1.1/file-0"), STR("bad"));
    sim_os_put(w.sim, STR("/kept/step-000000007.1.2/file-0"), STR("bad"));
    CHECK_EQ(carry_restore(w.carry, perm, &said, &found, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "none of the 2 checkpoints is valid"));
    CHECK_STR(sim_os_look(w.sim, STR("/out/a.pt")), "three");
    carry_close(w.carry, false);
    w.config.fresh = true;
    world_open(&w, perm);
    CHECK(!restore(&w, perm, &said));
    CHECK(!sim_os_look(w.sim, STR("/out/a.pt")).data);
    CHECK_STR(sim_os_look(w.sim, STR("/out/.frugal-aside/a.pt")), "three");
    CHECK(!sim_os_look(w.sim, STR("/kept/step-000000007.1.2/file-0")).data);
    carry_close(w.carry, false);
}

/* Whoever can write to the store can write a manifest and its hashes, but not out of the folder. */
TEST(a_manifest_that_names_files_elsewhere_is_refused)
{
    static const char *const paths[] = { "../x", "/x",  "a/../../x",
                                         "a//x", "./x", ".frugal-aside/x",
                                         "" };
    for (i64 i = 0; i < COUNT_OF(paths); i++) {
        struct world         w;
        struct str           said;
        struct err           err   = { 0 };
        struct ckpt_shard    shard = { STR("file-0"), 1, xxh64(STR("x")) };
        bool                 found;
        struct ckpt_manifest m = {
            .id = { 7, 1, 1 }, .run = STR("r"), .shards = &shard, .shard_count = 1
        };
        m.state =
            str_fmt(perm, "{\"carried\":[{\"shard\":\"file-0\",\"path\":\"%s\",\"mtime_ns\":1}]}",
                    paths[i]);
        world_init(&w, perm);
        sim_os_put(w.sim, STR("/kept/step-000000007.1.1/file-0"), STR("x"));
        sim_os_put(w.sim, STR("/kept/step-000000007.1.1/manifest.json"),
                   ckpt_manifest_text(perm, &m));
        world_open(&w, perm);
        CHECK_EQ(carry_restore(w.carry, perm, &said, &found, &err), STATUS_WORLD);
        CHECK(!sim_os_look(w.sim, STR("/x")).data);
        carry_close(w.carry, false);
    }
}

/* Only where nobody was before us: else a killed start may have left halves there. */
TEST(what_lies_there_at_the_very_first_start_is_believed_and_later_not)
{
    struct world w;
    struct str   said;
    world_init(&w, perm);
    put(&w, "/out/pretrained.pt", "p");
    world_open(&w, perm);
    CHECK(!restore(&w, perm, &said));
    CHECK_EQ(carry_state(w.carry).count, 1);
    CHECK(restore(&w, perm, &said));
    carry_close(w.carry, false);

    world_init(&w, perm);
    world_open(&w, perm); /* begins in an empty folder, and is killed before anything is carried */
    CHECK(!restore(&w, perm, &said));
    put(&w, "/out/a.pt", "ha");
    carry_close(w.carry, false);
    world_open(&w, perm);
    CHECK(!restore(&w, perm, &said));
    CHECK_STR(sim_os_look(w.sim, STR("/out/.frugal-aside/a.pt")), "ha");
    CHECK_EQ(carry_state(w.carry).count, 0);
}

TEST(store_and_folder_must_lie_apart)
{
    struct str            top     = os_absolute(perm, folder_new(perm));
    struct str            out     = str_fmt(perm, "%.*s/out", STR_ARG(top));
    struct program_config program = { .folder = out, .files = { STR("*") }, .file_count = 1 };
    struct carry_config   inside  = { &program, str_fmt(perm, "%.*s/out/kept", STR_ARG(top)),
                                      2,        1,
                                      NULL,     false };
    struct carry_config   around  = { &program, top, 2, 1, NULL, false };
    struct carry         *c;
    struct err            err = { 0 };
    CHECK_EQ(carry_open(os_real(), &inside, perm, &c, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "checkpoint.dir and program.folder must be separate"));
    CHECK_EQ(carry_open(os_real(), &around, perm, &c, &err), STATUS_USAGE);
}

/* A kill or a power cut at every single call of taking the second checkpoint. */
TEST(after_any_accident_one_whole_checkpoint_is_brought_back)
{
    u64  seed = test_seed();
    bool done = false;
    for (i64 kill = 1; !done; kill++)
        for (i32 survive = 0; survive < SIM_SURVIVE_COUNT; survive++) {
            struct world w;
            struct str   said;
            world_init(&w, perm);
            w.sim->seed = seed + (u64)kill;
            world_open(&w, perm);
            put(&w, "/out/a", "one a");
            put(&w, "/out/b", "one b");
            CHECK_EQ(look_after(&w, 0, CARRY_EXITED), 1);
            put(&w, "/out/a", "two a");
            put(&w, "/out/b", "two b");
            w.sim->kill_at = w.sim->calls + kill;
            carry_look(w.carry, 8, CARRY_EXITED, NULL);
            done       = carry_state(w.carry).count == 2 && w.sim->calls < w.sim->kill_at;
            bool taken = carry_state(w.carry).count == 2;
            carry_close(w.carry, false);
            sim_os_crash(w.sim, (enum sim_survive)survive);
            sim_os_put(w.sim, STR("/out/a"), STR("ha"));
            world_open(&w, perm);
            CHECK(restore(&w, perm, &said));
            struct str a = sim_os_look(w.sim, STR("/out/a")), b = sim_os_look(w.sim, STR("/out/b"));
            bool       one = str_eq(a, STR("one a")) && str_eq(b, STR("one b"));
            bool       two = str_eq(a, STR("two a")) && str_eq(b, STR("two b"));
            CHECK(two || (one && !taken));
            carry_close(w.carry, false);
        }
}

/* --- a real folder, and a real process that holds a file open ----------------------------------- */

/* A process of ours that has the file open for writing until it is ended. */
static int hold_open(void *context, struct file stream)
{
    int fd = open(context, O_WRONLY | O_CREAT, 0666);
    if (write(fd, "half", 4) != 4 || write(stream.fd, "x", 1) != 1) return 1;
    for (;;) pause();
}

TEST(a_file_that_somebody_has_open_is_not_carried_and_times_come_back)
{
    struct str            top  = os_absolute(perm, folder_new(perm));
    struct program_config p    = { .folder     = str_fmt(perm, "%.*s/out", STR_ARG(top)),
                                   .files      = { STR("*") },
                                   .file_count = 1 };
    struct carry_config   conf = { &p,   str_fmt(perm, "%.*s/kept", STR_ARG(top)), 2, 5000000, NULL,
                                   false };
    struct carry         *c;
    struct str            said;
    bool                  found;
    struct os_child       writer;
    CHECK_EQ(carry_open(os_real(), &conf, perm, &c, NULL), STATUS_OK);
    CHECK(!carry_restore(c, perm, &said, &found, NULL));
    const char *path = str_z(perm, str_fmt(perm, "%.*s/out/a.pt", STR_ARG(top)));

    CHECK_EQ(os_child_start(&writer, hold_open, (void *)(uintptr_t)path, NULL), STATUS_OK);
    char word;
    i64  got;
    CHECK_EQ(os_real()->read(os_real(), writer.stream, &word, 1, -1, &got, NULL), STATUS_OK);
    CHECK_EQ(carry_begin(c, NULL), STATUS_OK);
    os_real()->sleep_ns(os_real(), 200000000);
    CHECK_EQ(carry_state(c).count, 0);
    CHECK_STR(carry_state(c).waits, "a.pt");
    os_child_end(&writer);
    for (i64 i = 0; i < 2000 && !carry_state(c).count; i++) os_real()->sleep_ns(os_real(), 5000000);
    CHECK_EQ(carry_state(c).count, 1);
    carry_pause(c);

    struct stat before, after;
    CHECK_EQ(stat(path, &before), 0);
    CHECK_EQ(unlink(path), 0);
    CHECK(!carry_restore(c, perm, &said, &found, NULL) && found);
    CHECK_EQ(stat(path, &after), 0);
    CHECK_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    CHECK_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    carry_close(c, false);
}

/* --- links, and what cannot be read, in a real folder ---------------------------------------------- */

struct real_world {
    struct str            top, out, kept;
    struct program_config program;
    struct carry_config   config;
};

static void real_init(struct real_world *w, struct arena *perm)
{
    w->top  = os_absolute(perm, folder_new(perm));
    w->out  = str_fmt(perm, "%.*s/out", STR_ARG(w->top));
    w->kept = str_fmt(perm, "%.*s/kept", STR_ARG(w->top));
    w->program =
        (struct program_config){ .folder = w->out, .files = { STR("*") }, .file_count = 1 };
    w->config = (struct carry_config){ &w->program, w->kept, 2, 5000000, NULL, false };
}

static const char *at(struct real_world *w, struct arena *perm, const char *path)
{
    return str_z(perm, str_fmt(perm, "%.*s/%s", STR_ARG(w->top), path));
}

static void write_to(struct real_world *w, struct arena *perm, const char *path, const char *text)
{
    struct err err = { 0 };
    CHECK_EQ(os_publish(os_real(), str_of(at(w, perm, path)), str_of(text), *perm, &err),
             STATUS_OK);
}

static bool reads(struct real_world *w, struct arena *perm, const char *path, const char *text)
{
    struct str bytes;
    return !os_read_all(os_real(), str_of(at(w, perm, path)), perm, &bytes, NULL) &&
           str_eq(bytes, str_of(text));
}

/* Opens the store, and looks once as if the program had exited. */
static struct carry *carried_once(struct real_world *w, struct arena *perm, enum status want)
{
    struct arena *part = NEW(perm, struct arena, 1);
    struct carry *c;
    struct str    said;
    struct err    err = { 0 };
    bool          found;
    *part = arena_open((i64)3 << 30);
    CHECK_EQ(carry_open(os_real(), &w->config, part, &c, &err), STATUS_OK);
    CHECK_EQ(carry_restore(c, part, &said, &found, &err), want);
    return c;
}

TEST(a_link_to_a_folder_is_not_the_programs_to_lose)
{
    struct real_world w;
    struct arena      part = arena_open((i64)3 << 30);
    struct carry     *c;
    struct str        said;
    bool              found;
    struct err        err = { 0 };
    real_init(&w, perm);
    CHECK(!mkdir(at(&w, perm, "out"), 0777) && !mkdir(at(&w, perm, "data"), 0777) &&
          !mkdir(at(&w, perm, "out/run-1"), 0777));
    write_to(&w, perm, "data/set", "a data set");
    write_to(&w, perm, "out/run-1/a.pt", "one");
    CHECK(!symlink("../data", at(&w, perm, "out/data")) &&
          !symlink("run-1", at(&w, perm, "out/latest")) &&
          !symlink("run-1/a.pt", at(&w, perm, "out/newest.pt")));
    carry_close(carried_once(&w, perm, STATUS_OK), false);

    write_to(&w, perm, "out/run-1/a.pt", "half");
    write_to(&w, perm, "out/b.pt", "new");
    CHECK_EQ(carry_open(os_real(), &w.config, &part, &c, &err), STATUS_OK);
    CHECK_EQ(carry_restore(c, &part, &said, &found, &err), STATUS_OK);
    CHECK(found && reads(&w, perm, "data/set", "a data set"));
    CHECK(reads(&w, perm, "out/run-1/a.pt", "one") && reads(&w, perm, "out/newest.pt", "one"));
    CHECK(reads(&w, perm, "out/.frugal-aside/b.pt", "new"));
    write_to(&w, perm, "out/b.pt", "again"); /* what went aside before stays there */
    CHECK_EQ(carry_restore(c, &part, &said, &found, &err), STATUS_OK);
    CHECK(reads(&w, perm, "out/.frugal-aside/b.pt", "new") &&
          reads(&w, perm, "out/.frugal-aside/b.pt.1", "again"));
    carry_close(c, false);

    w.config.fresh = true;
    carry_close(carried_once(&w, perm, STATUS_OK), false);
    CHECK(reads(&w, perm, "data/set", "a data set"));
}

/* A folder that has become a link since it was copied is not written through. */
TEST(files_are_not_brought_back_through_a_link)
{
    struct real_world w;
    real_init(&w, perm);
    CHECK(!mkdir(at(&w, perm, "out"), 0777) && !mkdir(at(&w, perm, "other"), 0777) &&
          !mkdir(at(&w, perm, "out/in"), 0777));
    write_to(&w, perm, "out/in/a.pt", "one");
    carry_close(carried_once(&w, perm, STATUS_OK), false);
    CHECK(!unlink(at(&w, perm, "out/in/a.pt")) && !rmdir(at(&w, perm, "out/in")) &&
          !symlink("../other", at(&w, perm, "out/in")));
    carry_close(carried_once(&w, perm, STATUS_WORLD), false);
    CHECK(access(at(&w, perm, "other/a.pt"), F_OK));
}

TEST(private_files_stay_private)
{
    struct real_world w;
    struct stat       s;
    real_init(&w, perm);
    CHECK(!mkdir(at(&w, perm, "out"), 0777));
    write_to(&w, perm, "out/key", "secret");
    write_to(&w, perm, "out/open", "said");
    CHECK(!chmod(at(&w, perm, "out/key"), 0600) && !chmod(at(&w, perm, "out/open"), 0644));
    carry_close(carried_once(&w, perm, STATUS_OK), false);
    CHECK(!stat(at(&w, perm, "kept/step-000000000.1.1/file-1"), &s) && (s.st_mode & 0777) == 0600);
    CHECK(!unlink(at(&w, perm, "out/key")) && !unlink(at(&w, perm, "out/open")));
    mode_t before = umask(022);
    carry_close(carried_once(&w, perm, STATUS_OK), false);
    umask(before);
    CHECK(!stat(at(&w, perm, "out/key"), &s) && (s.st_mode & 0777) == 0600);
    CHECK(!stat(at(&w, perm, "out/open"), &s) && (s.st_mode & 0777) == 0644);
}

/* A part of a folder taken for the whole would be kept, and older ones deleted in trust of it. */
static enum status deny(struct os *os, struct str path, struct str what, struct err *err)
{
    (void)os;
    return str_ends(path, what)
               ? err_set(err, STATUS_WORLD, "cannot read %.*s: Permission denied", STR_ARG(path))
               : STATUS_OK;
}

static enum status stat_or_denied(struct os *os, struct str path, struct os_stat *out,
                                  struct err *err)
{
    enum status st = deny(os, path, STR("/out/deep/a.pt"), err);
    return st ? st : os_real()->stat(os, path, out, err);
}

static enum status list_or_denied(struct os *os, struct str dir, struct arena *perm,
                                  struct str **names, i64 *count, struct err *err)
{
    enum status st = deny(os, dir, STR("/out/deep"), err);
    return st ? st : os_real()->list(os, dir, perm, names, count, err);
}

TEST(a_folder_that_cannot_be_read_whole_is_not_carried)
{
    for (i64 i = 0; i < 2; i++) {
        struct real_world w;
        struct os         os  = *os_real();
        struct err        err = { 0 };
        struct carry     *c;
        struct str        said;
        bool              found;
        real_init(&w, perm);
        CHECK(!mkdir(at(&w, perm, "out"), 0777) && !mkdir(at(&w, perm, "out/deep"), 0777));
        write_to(&w, perm, "out/deep/a.pt", "one");
        write_to(&w, perm, "out/b.pt", "two");
        if (i) os.stat = stat_or_denied;
        else os.list = list_or_denied;
        struct arena part = arena_open((i64)3 << 30);
        CHECK_EQ(carry_open(&os, &w.config, &part, &c, &err), STATUS_OK);
        CHECK_EQ(carry_restore(c, &part, &said, &found, &err), STATUS_WORLD);
        CHECK(strstr(err.text, "Permission denied"));
        CHECK_EQ(carry_state(c).count, 0);
        carry_close(c, false);
        arena_close(&part);
    }
}

/* Its lock was deleted, and a second start has taken the folder and the name of its next checkpoint. */
TEST(a_start_that_lost_its_lock_deletes_nothing_of_another)
{
    struct real_world w;
    struct arena      part = arena_open((i64)3 << 30), other = arena_open((i64)3 << 30);
    struct carry     *a, *b;
    struct str        said;
    struct err        err = { 0 };
    bool              found;
    real_init(&w, perm);
    CHECK_EQ(carry_open(os_real(), &w.config, &part, &a, &err), STATUS_OK);
    CHECK_EQ(carry_restore(a, &part, &said, &found, &err), STATUS_OK);
    CHECK(!unlink(at(&w, perm, "kept/lock")));
    CHECK_EQ(carry_open(os_real(), &w.config, &other, &b, &err), STATUS_OK);
    write_to(&w, perm, "out/a.pt", "one");
    CHECK_EQ(carry_look(b, 0, CARRY_EXITED, &err), STATUS_OK);
    CHECK_EQ(carry_state(b).count, 1);
    CHECK(carry_look(a, 0, CARRY_EXITED, &err) != STATUS_OK);
    CHECK(reads(&w, perm, "kept/step-000000000.1.1/file-0", "one"));
    CHECK(!access(at(&w, perm, "kept/step-000000000.1.1/manifest.json"), F_OK));
    carry_close(a, false);
    carry_close(b, false);
}
