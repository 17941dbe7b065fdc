/* test_checkpoint_writer.c - the thread that writes checkpoints: nothing waits for its pruning once the run
 * must end, and a step that saves nothing does not wake it. */
#include "harness.h"
#include "support/folder.h"
#include "train/checkpoint_writer.h"
#include <sys/resource.h>

enum { SHARD_BYTES = 4 << 20 };
static const i64   soon_ns = (i64)10 * 1000000000;
static atomic_bool reads_hang;
static atomic_int  reads; /* of blocks of a shard; a manifest is smaller */

static enum status read_or_hang(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                                struct err *err)
{
    if (bytes >= 1 << 20) atomic_fetch_add(&reads, 1);
    while (bytes >= 1 << 20 && atomic_load(&reads_hang)) os_real()->sleep_ns(os, 1000000);
    return os_real()->read(os, f, to, bytes, at, got, err);
}

static i64 count_there(struct str folder, struct arena memory)
{
    struct ckpt_list list;
    CHECK_EQ(ckpt_list(os_real(), folder, &memory, &list, NULL), STATUS_OK);
    return list.count;
}

static void begin(struct checkpoint_writer *s, i64 step, const struct ckpt_part *part)
{
    struct ckpt_manifest m = { .id    = { .step = step, .attempt = 1 },
                               .run   = STR("r"),
                               .state = STR("{}") };
    checkpoint_writer_begin(s, &m, part, 1);
}

/* Of a shard of four blocks that is read back for pruning, one is read. */
TEST(a_run_that_must_end_does_not_wait_for_pruning)
{
    struct os        os     = *os_real();
    struct str       folder = folder_new(perm);
    struct st_tensor t      = {
             STR("t"), STR("U8"), shape_1(SHARD_BYTES), { NEW(perm, char, SHARD_BYTES), SHARD_BYTES }
    };
    struct ckpt_part                part = { STR("weights"), &t, 1, STR("") };
    struct checkpoint_writer_config c    = { .os = &os, .keep = 1 };
    struct checkpoint_writer       *s;
    struct saved                    done;
    struct err                      err = { 0 };
    os.read                             = read_or_hang;
    CHECK_EQ(ckpt_store_open(&os, folder, perm, &c.store, &err), STATUS_OK);
    CHECK_EQ(checkpoint_writer_open(&c, perm, &s, &err), STATUS_OK);
    checkpoint_writer_prepare(s);
    CHECK(checkpoint_writer_wait(s, soon_ns));
    CHECK(!checkpoint_writer_writes(s));
    begin(s, 1, &part);
    CHECK(checkpoint_writer_wait(s, soon_ns));
    CHECK(checkpoint_writer_take(s, &done) && !done.err.status);
    atomic_store(&reads_hang, true);
    begin(s, 2, &part);
    while (!atomic_load(&reads)) os.sleep_ns(&os, 1000000);
    CHECK(!checkpoint_writer_idle(s) && !checkpoint_writer_writes(s));
    checkpoint_writer_hurry(s);
    atomic_store(&reads_hang, false);
    CHECK(checkpoint_writer_wait(s, soon_ns));
    CHECK(checkpoint_writer_take(s, &done) && !done.err.status);
    CHECK_EQ(atomic_load(&reads), 1);
    CHECK_EQ(count_there(folder, *perm), 2);
    checkpoint_writer_close(s);
    ckpt_store_close(c.store);
}

static i64 sleeps_of_others(void) /* how often threads beside this one went to sleep */
{
    struct rusage all, own;
    getrusage(RUSAGE_THREAD, &own);
    getrusage(RUSAGE_SELF, &all);
    return all.ru_nvcsw - own.ru_nvcsw;
}

/* Every step calls it: a thread that wakes each time costs a small model a third of its speed. */
TEST(a_thread_that_has_prepared_is_not_woken_again)
{
    struct os                      *os = os_real();
    struct checkpoint_writer_config c  = { .os = os, .keep = 1 };
    struct checkpoint_writer       *s;
    CHECK_EQ(ckpt_store_open(os, folder_new(perm), perm, &c.store, NULL), STATUS_OK);
    CHECK_EQ(checkpoint_writer_open(&c, perm, &s, NULL), STATUS_OK);
    checkpoint_writer_prepare(s);
    CHECK(checkpoint_writer_wait(s, soon_ns));
    i64 before = sleeps_of_others(), calls = 100;
    for (i64 i = 0; i < calls; i++) {
        checkpoint_writer_prepare(s);
        os->sleep_ns(os, 1000000);
    }
    CHECK(sleeps_of_others() - before <
          calls / 2); /* a sanitizer's own thread sleeps ten times a second */
    checkpoint_writer_close(s);
    ckpt_store_close(c.store);
}
