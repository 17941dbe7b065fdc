/* test_remote_save.c - what the user is told of checkpoints in an object store while a run goes on. Whole
 * runs: tests/oracle/test_remote_save.py. */
#include "harness.h"
#include "support/fake_s3.h"
#include "support/folder.h"
#include "train/checkpoint_schedule.h"
#include "train/remote_save.h"
#include <math.h>

static struct err  err;
static _Atomic i64 later_ns; /* the clock of the test, ahead of the machine's; threads read it */

static i64 now_ns(struct os *os) { return os_real()->now_ns(os) + later_ns; }
static i64 wall_ns(struct os *os) { return os_real()->wall_ns(os) + later_ns; }

/* How often each kind was told. */
static void count(void *context, const struct event_checkpoint *e) { ((i64 *)context)[e->what]++; }

static void save(struct remote_save *e, struct ckpt_store *store, i64 step, struct arena *perm)
{
    struct ckpt_manifest m       = { .run = STR("r"), .state = STR("{}") };
    struct arena         scratch = arena_part(perm, 1 << 21);
    i64                  number  = step;
    struct st_tensor     t       = { STR("t"), STR("I64"), shape_1(1), { (char *)&number, 8 } };
    struct ckpt_part     part    = { STR("weights"), &t, 1, STR("") };
    m.id = (struct ckpt_id){ .step = step, .attempt = uploader_attempt(e->up) };
    CHECK_EQ(ckpt_write(store, &m, &part, 1, perm, scratch, &err), STATUS_OK);
    remote_save_saved(e, store, &m);
}

TEST(what_is_late_is_told_once_and_what_comes_too)
{
    struct os              os;
    struct fake_s3        *f                           = fake_s3_new(perm, &os);
    i64                    told[CHECKPOINT_KIND_COUNT] = { 0 };
    struct subscriber      heard    = { .context = told, .on_checkpoint = count };
    struct train_with      listener = { .to = &heard };
    struct upload_settings c = { .where = fake_s3_settings(), .web = &f->web, .wait_s = NAN };
    struct ckpt_store     *store;
    os.now_ns            = now_ns;
    os.wall_ns           = wall_ns;
    struct remote_save e = { .os = &os, .listener = &listener, .since = stopwatch_start(&os) };
    CHECK_EQ(ckpt_store_open(&os, folder_new(perm), perm, &store, &err), STATUS_OK);
    CHECK_EQ(uploader_start(&os, &c, store, perm, &e.up, &err), STATUS_OK);

    CHECK_EQ(remote_save_step(&e, 100, &err), STATUS_OK);
    CHECK_EQ(remote_save_step(&e, 0.001, &err), STATUS_OK); /* half a minute is never late */
    CHECK_EQ(told[CHECKPOINT_BEHIND], 0);
    CHECK(isnan(remote_save_age_s(&e)));
    later_ns = (i64)201 * 1000000000; /* twice the interval, and nothing is there */
    for (int i = 0; i < 3; i++) CHECK_EQ(remote_save_step(&e, 100, &err), STATUS_OK);
    CHECK_EQ(told[CHECKPOINT_BEHIND], 1);
    save(&e, store, 5, perm);
    CHECK_EQ(remote_save_end(&e, 0, NULL, NULL, &err), STATUS_OK);
    CHECK_EQ(remote_save_step(&e, 100, &err), STATUS_OK);
    CHECK_EQ(told[CHECKPOINT_UPLOADED], 1);
    CHECK(remote_save_age_s(&e) < 60);
    later_ns += (i64)201 * 1000000000; /* it is old by now */
    for (int i = 0; i < 3; i++) CHECK_EQ(remote_save_step(&e, 100, &err), STATUS_OK);
    CHECK_EQ(told[CHECKPOINT_BEHIND], 2);
    CHECK(remote_save_age_s(&e) > 200);
    CHECK_EQ(told[CHECKPOINT_NOT_UPLOADED], 0);

    struct train_saving figures = { .remote_step = -1 };
    remote_save_figures(&e, &figures);
    CHECK_EQ(figures.remote_step, 5);
    CHECK(figures.remote_puts > 0 && figures.remote_bytes > 0);
    remote_save_close(&e, false);
    ckpt_store_close(store);
}

TEST(what_cannot_be_in_time_is_not_waited_for)
{
    struct os              os;
    struct fake_s3        *f        = fake_s3_new(perm, &os);
    struct train_with      listener = { 0 };
    struct upload_settings c = { .where = fake_s3_settings(), .web = &f->web, .wait_s = NAN };
    struct ckpt_store     *store;
    struct remote_save     e = { .os = &os, .listener = &listener, .since = stopwatch_start(&os) };
    CHECK_EQ(ckpt_store_open(&os, folder_new(perm), perm, &store, &err), STATUS_OK);
    CHECK_EQ(uploader_start(&os, &c, store, perm, &e.up, &err), STATUS_OK);
    CHECK_EQ(remote_save_needs_s(&e, 1 << 30), 0.0); /* nobody knows yet */
    save(&e, store, 1, perm);
    CHECK_EQ(remote_save_end(&e, 0, NULL, NULL, &err), STATUS_OK);
    CHECK(remote_save_needs_s(&e, (i64)1 << 50) > 1000);
    atomic_store(&f->held, true);
    save(&e, store, 2, perm);
    CHECK_EQ(remote_save_end(&e, os.now_ns(&os) + 50000000, NULL, NULL, &err), STATUS_NO);
    CHECK(strstr(err.text, "not in the object store"));
    atomic_store(&f->held, false);
    remote_save_close(&e, false);
    ckpt_store_close(store);
}

/* Before any was timed or sent, its bytes say what a cap must keep back for it. */
TEST(something_is_kept_back_for_the_first_save)
{
    struct restore     from  = { 0 };
    struct bill       *bill  = bill_new(perm, clock_new(perm, os_real()));
    struct store_price price = { .put_1000_usd = 1000, .get_1000_usd = 0, .retrieve_gb_usd = NAN };
    struct saving      v     = { .from = &from, .figures.persist_s = NAN };
    v.snapshot.file_bytes    = 250000000;
    CHECK_EQ(saving_needs_s(&v), 0.0);          /* nothing is saved */
    v.writer = (struct checkpoint_writer *)&v;  /* any will do */
    CHECK_NEAR(saving_needs_s(&v), 2.1, 1e-12); /* 0.1 s for its syncs */
    CHECK_EQ(saving_needs_usd(&v, bill), 0.0);  /* nor sent */

    struct os              os;
    struct fake_s3        *f = fake_s3_new(perm, &os);
    struct upload_settings c = { .where = fake_s3_settings(), .web = &f->web, .wait_s = NAN };
    struct ckpt_store     *store;
    CHECK_EQ(ckpt_store_open(&os, folder_new(perm), perm, &store, &err), STATUS_OK);
    CHECK_EQ(uploader_start(&os, &c, store, perm, &from.remote.up, &err), STATUS_OK);
    CHECK_NEAR(saving_needs_s(&v), 4.1, 1e-12); /* to the disk, and from there */
    CHECK_EQ(saving_needs_usd(&v, bill), 0.0);  /* nobody knows the price */
    bill_store(bill, STORE_CHECKPOINTS, &price);
    CHECK(saving_needs_usd(&v, bill) >= 30); /* parts of 8 MiB at a dollar each */
    struct store_requests before = remote_save_requests(&from.remote);
    CHECK(before.puts > 0); /* the number of the start was claimed */
    remote_save_close(&from.remote, true);
    struct store_requests after = remote_save_requests(&from.remote);
    CHECK(after.puts > before.puts); /* what is there was listed once more, for its tags */
    ckpt_store_close(store);
}
