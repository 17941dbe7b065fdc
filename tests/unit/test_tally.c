/* test_tally.c - what a run has spent, kept beside its checkpoints: it survives kills, and nonsense in the file
 * is no tally. */
#include "harness.h"
#include "run/bill.h"
#include "run/tally.h"
#include "support/folder.h"
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static const i64 s_ns = 1000000000;

static struct bill *bill_at(struct arena *perm, f64 usd_hour)
{
    struct bill     *b     = bill_new(perm, clock_new(perm, os_real()));
    struct price_row price = { .usd_hour = usd_hour };
    bill_price(b, &price);
    return b;
}

static i64 now_ns;

static i64 fake_now(struct os *os)
{
    (void)os;
    return now_ns;
}

/* Whose clock has gone from 0 to `now_ns`. */
static struct bill *bill_since_0(struct arena *perm, i64 until_ns)
{
    struct os *os  = NEW(perm, struct os, 1);
    *os            = *os_real();
    os->now_ns     = fake_now;
    now_ns         = 0;
    struct bill *b = bill_new(perm, clock_new(perm, os));
    now_ns         = until_ns;
    return b;
}

TEST(spent_is_of_all_starts_and_the_largest_word_counts)
{
    struct bill     *b     = bill_since_0(perm, 5 * s_ns);
    struct price_row price = { .usd_hour = 3600 };
    CHECK(isnan(bill_spent(b).usd));
    CHECK_EQ(bill_spent(b).ns, 5 * s_ns);
    bill_price(b, &price);
    bill_earlier(b, (struct spent){ 10 * s_ns, 30 }); /* it was a dearer machine */
    bill_earlier(b, (struct spent){ 8 * s_ns, 24 });
    CHECK_EQ(bill_spent(b).ns, 15 * s_ns);
    CHECK_NEAR(bill_spent(b).usd, 35, 1e-9);
    CHECK_NEAR(bill_limit_s(b, NAN, 40), 20, 1e-9); /* $10 are left: 10 s after the 10 before */
    CHECK_NEAR(bill_limit_s(b, 12, 40), 12, 1e-9);
    CHECK(isnan(bill_limit_s(b, NAN, NAN)));
    bill_earlier(b, (struct spent){ 20 * s_ns, NAN }); /* its price is not known: ours */
    CHECK_NEAR(bill_spent(b).usd, 35, 1e-9);
    CHECK_NEAR(bill_limit_s(b, NAN, 40), 30, 1e-9);
}

TEST(a_cap_on_seconds_counts_from_the_process_and_one_on_dollars_from_the_machine)
{
    struct bill     *b     = bill_since_0(perm, 5 * s_ns);
    struct price_row price = { .usd_hour = 3600 };
    bill_price(b, &price);
    clock_add(bill_clock(b), PART_boot, 100 * s_ns);
    CHECK_EQ(bill_spent(b).ns, 105 * s_ns);
    CHECK_NEAR(bill_limit_s(b, 20, NAN), 120, 1e-9);
    CHECK_NEAR(bill_limit_s(b, NAN, 110), 110, 1e-9);
}

TEST(what_the_store_was_paid_is_on_the_bill)
{
    struct bill     *b     = bill_since_0(perm, 5 * s_ns);
    struct price_row price = { .usd_hour = 3600 };
    bill_price(b, &price);
    bill_earlier(b, (struct spent){ 10 * s_ns, 12 });
    CHECK_EQ(bill_requests(b), 0);
    bill_requested(b, (struct store_requests){ 100, 1000, 2000000000 });
    CHECK(isnan(bill_requests(b))); /* nobody knows the price: the bill goes without */
    CHECK_NEAR(bill_spent(b).usd, 12 + 5, 1e-9);
    bill_store(
        b, STORE_CHECKPOINTS,
        &(struct store_price){ .put_1000_usd = 5, .get_1000_usd = 0.5, .egress_gb_usd = 0.5 });
    CHECK_NEAR(bill_requests(b), 0.5 + 0.5 + 1, 1e-9);
    CHECK_NEAR(bill_spent(b).usd, 12 + 5 + 2, 1e-9);
    CHECK_NEAR(bill_limit_s(b, NAN, 24), 10 + (24 - 12 - 2),
               1e-9); /* what is left buys ten seconds */
}

TEST(a_link_in_its_place_is_not_followed)
{
    struct str        folder = folder_new(perm);
    struct os        *os     = os_real();
    struct tally_file before = { 0 };
    struct tally     *t;
    struct str        victim = str_cat(perm, folder, STR("/victim")), text;
    struct str        link   = str_cat(perm, folder, STR("/spent.json.part"));
    CHECK(!os_publish(os, victim, STR("mine"), *perm, NULL));
    CHECK(!symlink(str_z(perm, victim), str_z(perm, link)));
    CHECK(!tally_open(os, folder, STR("ab"), &before, bill_at(perm, 1), perm, &t, NULL));
    tally_close(t);
    CHECK(!os_read_all(os, victim, perm, &text, NULL));
    CHECK(str_eq(text, STR("mine")));
}

TEST(a_cap_counts_as_the_machine_is_billed)
{
    struct bill     *b     = bill_since_0(perm, s_ns);
    struct price_row price = { .usd_hour = 3600, .granularity_s = 10, .minimum_s = 60 };
    bill_price(b, &price);
    CHECK_NEAR(bill_spent(b).usd, 60, 1e-9);  /* the first second costs a minute */
    CHECK_EQ(bill_limit_s(b, NAN, 59), 0.0);  /* which is not there */
    CHECK_EQ(bill_limit_s(b, NAN, 79), 70.0); /* the last ten seconds cannot be begun */
    price.usd_hour = NAN;
    CHECK(isnan(bill_affordable_s(&price, 1)));
}

TEST(a_killed_start_is_known_to_a_second)
{
    struct str        folder = folder_new(perm);
    struct os        *os     = os_real();
    struct tally_file before = tally_read(os, folder, perm);
    int               ready[2];
    char              byte;
    CHECK_EQ(before.run.len, 0);
    CHECK_EQ(pipe(ready), 0);
    i64   begin_ns = os->now_ns(os);
    pid_t pid      = fork();
    if (!pid) {
        struct arena  mine = arena_open((i64)1 << 30);
        struct tally *t;
        if (tally_open(os, folder, STR("abc"), &before, bill_at(&mine, 3600), &mine, &t, NULL))
            _exit(1);
        usleep(2000000);
        if (write(ready[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    i64 lived_ns = os->now_ns(os) - begin_ns;
    waitpid(pid, NULL, 0);
    struct tally_file f = tally_read(os, folder, perm);
    CHECK_STR(f.run, "abc");
    CHECK(f.spent.ns <= lived_ns &&
          f.spent.ns >=
              lived_ns - 1300000000); /* the second on a slow disk, and what a busy machine adds */
    CHECK_EQ(f.segment_ns, f.spent.ns);
    CHECK_NEAR(f.spent.usd, (f64)f.spent.ns * 1e-9, 1e-6);
    CHECK(!f.recorded);
    close(ready[0]);
    close(ready[1]);
}

static _Atomic i64 renames;

static enum status slow_rename(struct os *os, struct str from, struct str to, struct err *err)
{
    usleep(50000);
    atomic_fetch_add(&renames, 1);
    return os_real()->rename(os, from, to, err);
}

/* A hundred times the cost of a write would be five seconds. */
TEST(on_a_slow_disk_it_is_still_written_every_second)
{
    struct os         os     = *os_real();
    struct str        folder = folder_new(perm);
    struct tally_file before = { 0 };
    struct tally     *t;
    os.rename = slow_rename;
    CHECK(!tally_open(&os, folder, STR("ab"), &before, bill_at(perm, 1), perm, &t, NULL));
    usleep(2500000);
    CHECK(atomic_load(&renames) >= 2); /* three on a machine that is not busy */
    tally_close(t);
}

/* Two starts that no ledger heard of, one that it did. */
TEST(what_the_ledger_missed_is_kept_until_it_hears_of_it)
{
    struct str        folder = folder_new(perm);
    struct os        *os     = os_real();
    struct tally_file before = { 0 }, f;
    struct str        first  = STR("");
    for (i64 i = 0; i < 3; i++) {
        struct bill  *b = bill_at(perm, 1);
        struct tally *t;
        clock_add(bill_clock(b), PART_start, 5 * s_ns);
        bill_earlier(b, before.spent);
        CHECK_EQ(tally_open(os, folder, STR("abc"), &before, b, perm, &t, NULL), STATUS_OK);
        if (i == 2) tally_recorded(t);
        tally_close(t);
        f = tally_read(os, folder, perm);
        CHECK(f.spent.ns >= (i + 1) * 5 * s_ns && f.spent.ns < (i + 1) * 6 * s_ns);
        CHECK(f.segment_ns >= 5 * s_ns && f.segment_ns < 6 * s_ns);
        if (i == 0) first = f.segment;
        if (i == 1) CHECK_STR(f.missed, first.data);
        CHECK_EQ(f.missed_ns >= 5 * s_ns, i == 1);
        CHECK_EQ(f.recorded, i == 2);
        before = f;
    }
    struct tally *t; /* another run in the same folder */
    CHECK_EQ(tally_open(os, folder, STR("def"), &before, bill_at(perm, 1), perm, &t, NULL),
             STATUS_OK);
    tally_close(t);
    CHECK_EQ(tally_read(os, folder, perm).missed_ns, 0);
}

TEST(nonsense_is_no_tally)
{
    static const char *const texts[] = { "",
                                         "{",
                                         "[]",
                                         "{\"run\":7}",
                                         "{\"run\":\"../x\",\"ns\":5}",
                                         "{\"run\":\"\\u001b[2J\",\"ns\":5}" };
    struct str folder = folder_new(perm), path = str_cat(perm, folder, STR("/" TALLY_FILE));
    for (i64 i = 0; i < COUNT_OF(texts); i++) {
        CHECK_EQ(os_publish(os_real(), path, str_of(texts[i]), *perm, NULL), STATUS_OK);
        CHECK_EQ(tally_read(os_real(), folder, perm).run.len, 0);
    }
    struct str text =
        STR("{\"run\":\"ab\",\"ns\":-1,\"usd\":-3,\"segment_ns\":9223372036854775807}");
    CHECK_EQ(os_publish(os_real(), path, text, *perm, NULL), STATUS_OK);
    struct tally_file f = tally_read(os_real(), folder, perm);
    CHECK_STR(f.run, "ab");
    CHECK_EQ(f.spent.ns, 0);
    CHECK_EQ(f.segment_ns, 0);
    CHECK(isnan(f.spent.usd));
}
