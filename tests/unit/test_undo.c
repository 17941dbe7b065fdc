/* test_undo.c - when a step is left, and that the save behind one that is finished is begun, by a clock of the test. */
#include "harness.h"
#include "support/folder.h"
#include "train/undo.h"

static const i64      second = 1000000000;
static _Atomic i64    clock_ns;
static enum os_signal the_signal;

static i64 now_ns(struct os *os)
{
    (void)os;
    return clock_ns;
}

static i64 no_signal_ns(struct os *os)
{
    (void)os;
    return 0; /* it came just now */
}

static enum os_signal signal_once(struct os *os)
{
    enum os_signal now = the_signal;
    (void)os;
    the_signal = OS_SIGNAL_NONE;
    return now;
}

struct world {
    struct os            os;
    struct train_orders  orders;
    struct settings      settings;
    struct backend_table table;
    struct backend       backend;
    struct session       s;
    struct restore       restore; /* of a run without an object store */
    struct saving        saving;
    struct quantiles     times;
    struct undo          undo;
    struct run_state     at;
};

/* Steps take 0.1 s, and nothing has to be copied when one begins. */
static void world_init(struct world *w, f64 grace_s, struct arena *perm)
{
    *w                       = (struct world){ .os = *os_real(), .orders = TRAIN_ORDERS_NONE };
    clock_ns                 = 1000 * second;
    the_signal               = OS_SIGNAL_NONE;
    w->os.now_ns             = now_ns;
    w->os.signal_ns          = no_signal_ns;
    w->os.signal_take        = signal_once;
    w->settings.spot.grace_s = grace_s;
    w->backend.table         = &w->table;
    w->s                     = (struct session){ .os       = &w->os,
                                                 .settings = &w->settings,
                                                 .backend  = &w->backend,
                                                 .orders   = &w->orders,
                                                 .clock    = clock_new(perm, &w->os) };
    w->saving                = (struct saving){ .s = &w->s, .from = &w->restore };
    w->undo = (struct undo){ .s = &w->s, .saving = &w->saving, .times = &w->times };
    for (i64 i = 0; i < 10; i++) quantiles_add(&w->times, second / 10);
    undo_begin(&w->undo, &w->at, clock_ns, false);
}

/* Its data may never come: without a deadline at once, with one while there is time to save. */
TEST(a_short_step_that_waits_for_data_is_left)
{
    struct world w;
    world_init(&w, 0, perm);
    CHECK(!undo_leaves_wait(&w.undo));
    the_signal = OS_SIGNAL_INT;
    CHECK(!undo_leaves(&w.undo)); /* one that nobody hurries is finished */
    CHECK(undo_leaves_wait(&w.undo) && w.undo.starved);
    world_init(&w, 15, perm);
    the_signal = OS_SIGNAL_TERM;
    CHECK(!undo_leaves_wait(&w.undo));
    clock_ns += 13 * second;
    CHECK(!undo_leaves_wait(&w.undo));
    clock_ns += second; /* 1.5 s are for the end */
    CHECK(undo_leaves_wait(&w.undo) && !w.undo.starved);
}

TEST(a_short_notice_is_not_spent_on_the_farewell)
{
    struct world w;
    world_init(&w, 1, perm);
    CHECK_EQ(saving_usable_ns(&w.saving, second), second / 3);
    CHECK_EQ(saving_usable_ns(&w.saving, 30 * second), 30 * second - 3 * second / 2);
    CHECK_EQ(saving_until_ns(&w.saving, 0), 0);
    CHECK_EQ(saving_until_ns(&w.saving, clock_ns + second), clock_ns + second / 3);
}

/* Whatever is said to fit behind the rest of a step still fits when that is over. */
TEST(what_fits_behind_a_step_fits_after_it)
{
    struct world                    w;
    struct checkpoint_writer_config c   = { .os = &w.os, .keep = 1 };
    struct err                      err = { 0 };
    world_init(&w, 30, perm);
    CHECK_EQ(ckpt_store_open(&w.os, folder_new(perm), perm, &c.store, &err), STATUS_OK);
    CHECK_EQ(checkpoint_writer_open(&c, perm, &w.saving.writer, &err), STATUS_OK);
    w.saving.figures.persist_s = 9;
    i64 begin = clock_ns, fitted = 0;
    for (f64 rest_s = 0; rest_s < 30; rest_s += 0.25) {
        clock_ns  = begin;
        i64 until = saving_until_ns(&w.saving, begin + 30 * second);
        if (!saving_fits(&w.saving, rest_s, until)) continue;
        fitted++;
        clock_ns += (i64)(rest_s * 1e9);
        CHECK(saving_fits(&w.saving, 0, until));
        CHECK(rest_s + 9 <= 28.5);
    }
    CHECK(fitted > 10);
    checkpoint_writer_close(w.saving.writer);
    ckpt_store_close(c.store);
}
