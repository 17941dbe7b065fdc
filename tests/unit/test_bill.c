/* test_bill.c - seconds become dollars by the rule, parts sum exactly, and a machine's time is
 * shared among those who run on it, no more and no less than there is. */
#include "harness.h"
#include "run/bill.h"
#include <math.h>

static const i64 s_ns = 1000000000;

TEST(a_rule_rounds_up_and_has_a_minimum)
{
    struct price_row p = { .usd_hour = 3.6 };
    CHECK_EQ(bill_nusd(&p, 1500 * s_ns / 1000, false), 1500000); /* $3.6 an hour: $0.001 a second */
    p.granularity_s = 1;
    CHECK_EQ(bill_nusd(&p, 1500 * s_ns / 1000, false), 2000000);
    CHECK_EQ(bill_nusd(&p, 2 * s_ns, false), 2000000);
    p.minimum_s = 60;
    CHECK_EQ(bill_nusd(&p, 2 * s_ns, false), 60000000);
    p.granularity_s = 3600;
    CHECK_EQ(bill_nusd(&p, 3601 * s_ns, false), 7200000000);
    p.free_s = 3600;
    CHECK_EQ(bill_nusd(&p, 3599 * s_ns, true), 0);
    CHECK_EQ(bill_nusd(&p, 3599 * s_ns, false), 3600000000);
    CHECK_EQ(bill_nusd(&p, 3600 * s_ns, true), 3600000000);
    CHECK_EQ(bill_nusd(&p, 0, false), 0); /* never up: not even the minimum */
    p.usd_hour = NAN;
    CHECK_EQ(bill_nusd(&p, 1, false), -1);
}

static u64 next(u64 *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 20;
}

TEST(parts_sum_exactly)
{
    u64 state = test_seed();
    for (i64 n = 0; n < 20000; n++) {
        enum { MOST = 12 };
        i64 weights[MOST], parts[MOST], count = 1 + (i64)(next(&state) % MOST), sum = 0, all = 0;
        i64 total = (i64)(next(&state) >> (next(&state) % 44));
        for (i64 i = 0; i < count; i++) {
            weights[i] = next(&state) % 4 ? (i64)(next(&state) >> (next(&state) % 40)) : 0;
            all += weights[i];
        }
        bill_split(total, weights, count, parts, scratch);
        for (i64 i = 0; i < count; i++) {
            sum += parts[i];
            CHECK(parts[i] >= 0);
            if (!all) continue;
            long double exact = (long double)total * (long double)weights[i] / (long double)all;
            CHECK(fabsl((long double)parts[i] - exact) < 1.0000001L);
            CHECK(weights[i] || !parts[i]);
        }
        CHECK_EQ(sum, total);
    }
}

static struct segment_row segment(const char *boot, i64 from_s, i64 to_s, i64 gpus)
{
    return (struct segment_row){ .boot          = str_of(boot),
                                 .gpus          = gpus,
                                 .begin_wall_ns = from_s * s_ns,
                                 .metered_ns    = (to_s - from_s) * s_ns };
}

TEST(a_machine_is_shared_by_gpus_else_equally)
{
    struct segment_row alone[] = { segment("a", 0, 10, 0), segment("b", 5, 20, 0) };
    i64                own[4];
    bill_shares(alone, 2, own, scratch);
    CHECK_EQ(own[0], 10 * s_ns);
    CHECK_EQ(own[1], 15 * s_ns);
    struct segment_row equal[] = { segment("a", 0, 10, 0), segment("a", 5, 15, 0) };
    bill_shares(equal, 2, own, scratch);
    CHECK_EQ(own[0], 7500000000);
    CHECK_EQ(own[1], 7500000000);
    struct segment_row gpus[] = { segment("a", 0, 8, 3), segment("a", 0, 8, 1),
                                  segment("a", 0, 8, 0) };
    bill_shares(gpus, 3, own, scratch);
    CHECK_EQ(own[0], 6 * s_ns);
    CHECK_EQ(own[1], 2 * s_ns);
    CHECK_EQ(own[2], 0); /* the machine is rented for its GPUs */
    struct segment_row booted = segment("a", 0, 10, 0);
    booted.booting_ns         = 4 * s_ns; /* of the ten metered */
    bill_shares(&booted, 1, own, scratch);
    CHECK_EQ(own[0], 10 * s_ns);
}

/* By brute force, second by second: whenever anyone runs, exactly one second is given out. */
TEST(shares_of_a_machine_sum_to_the_time_it_was_used)
{
    u64 state = test_seed();
    for (i64 n = 0; n < 300; n++) {
        enum { MOST = 8, SPAN = 40 };
        struct segment_row s[MOST];
        i64                own[MOST], count = 1 + (i64)(next(&state) % MOST), used = 0, sum = 0;
        for (i64 i = 0; i < count; i++) {
            i64 from = (i64)(next(&state) % SPAN),
                to   = from + (i64)(next(&state) % (u64)(SPAN - from + 1));
            s[i]     = segment(next(&state) % 2 ? "a" : "b", from, to, (i64)(next(&state) % 3));
        }
        for (i64 at = 0; at < SPAN; at++)
            for (i64 boot = 0; boot < 2; boot++) {
                bool on = false;
                for (i64 i = 0; i < count; i++)
                    on |= s[i].boot.data[0] == (boot ? 'a' : 'b') &&
                          s[i].begin_wall_ns <= at * s_ns &&
                          s[i].begin_wall_ns + s[i].metered_ns > at * s_ns;
                used += on;
            }
        bill_shares(s, count, own, scratch);
        for (i64 i = 0; i < count; i++) sum += own[i];
        for (i64 i = 0; i < count; i++) CHECK(own[i] >= 0 && own[i] <= s[i].metered_ns);
        CHECK_EQ(sum, used * s_ns);
    }
}

/* ---- a run's bill while it runs ---- */

static i64 fake_ns;

static i64 fake_now(struct os *os)
{
    (void)os;
    return fake_ns;
}

/* At a dollar a second, on a clock that has just begun. */
static struct bill *bill_at_0(struct arena *perm, struct price_row price)
{
    struct os *os  = NEW(perm, struct os, 1);
    *os            = *os_real();
    os->now_ns     = fake_now;
    fake_ns        = 0;
    struct bill *b = bill_new(perm, clock_new(perm, os));
    bill_price(b, &price);
    return b;
}

static struct store_requests counted(void *who) { return *(struct store_requests *)who; }

static const struct store_price store_usd = { .put_1000_usd    = 5,
                                              .get_1000_usd    = 0.5,
                                              .retrieve_gb_usd = NAN,
                                              .egress_gb_usd   = 0,
                                              .gb_month_usd    = 0.02 };

TEST(requests_of_every_store_are_billed_as_they_happen)
{
    struct bill          *b        = bill_at_0(perm, (struct price_row){ .usd_hour = 3600 });
    struct store_requests uploader = { 0 }, data = { 0 }, rows = { 0 };
    struct store_price    cold = store_usd;
    cold.retrieve_gb_usd       = 0.01;
    bill_store(b, STORE_CHECKPOINTS, &cold);
    bill_store(b, STORE_ROWS, &store_usd);
    bill_store(b, STORE_DATA, &store_usd);
    bill_count(b, STORE_CHECKPOINTS, counted, &uploader);
    bill_count(b, STORE_DATA, counted, &data);
    bill_count(b, STORE_ROWS, counted, &rows);
    CHECK_EQ(bill_spent(b).usd, 0.0);
    uploader.puts = 100;
    CHECK_NEAR(bill_spent(b).usd, 0.5,
               1e-12); /* at once: nobody has said that a checkpoint is there */
    uploader.bytes_out = 2000000000;
    CHECK_NEAR(bill_spent(b).usd, 0.52, 1e-12); /* of a cold class reading costs */
    data.gets      = 1000;
    data.bytes_out = 1000000000;
    rows.puts      = 1;
    CHECK_NEAR(bill_spent(b).usd, 0.52 + 0.5 + 0.005, 1e-12);
    bill_expects(b, STORE_ROWS, (struct store_requests){ .puts = 1 });
    bill_told(b, STORE_ROWS, b, (struct store_requests){ .puts = 9 }); /* the last word counts */
    bill_told(b, STORE_ROWS, b, (struct store_requests){ .puts = 1 });
    CHECK_NEAR(bill_spent(b).usd, 1.025 + 0.01, 1e-12);
    CHECK_NEAR(bill_limit_s(b, NAN, 11.035), 10, 1e-9); /* and caps know it */
    bill_counted(b, &uploader);
    uploader = (struct store_requests){ 0 };
    CHECK_NEAR(bill_requests(b), 1.035, 1e-12); /* who is gone is not asked */
    bill_counted_all(b, &uploader, (struct store_requests){ 102, 0, 2000000000 });
    CHECK_NEAR(bill_requests(b), 1.045, 1e-12); /* tags at the end */
    uploader.puts = 10;
    bill_count(b, STORE_CHECKPOINTS, counted, &uploader); /* another training of the same bill */
    CHECK_NEAR(bill_requests(b), 1.045 + 0.05, 1e-12);
    bill_stop(b);
    rows.puts = data.gets = 1000000;
    CHECK_NEAR(bill_requests(b), 1.095, 1e-12); /* what was printed stays */
}

TEST(storage_is_billed_while_the_run_lives)
{
    struct bill *b     = bill_at_0(perm, (struct price_row){ .usd_hour = 0 });
    f64          gb_ns = 0.02 / (BILL_MONTH_DAYS * 86400e9); /* dollars */
    i64          hour  = 3600 * s_ns;
    bill_store(b, STORE_CHECKPOINTS, &store_usd);
    fake_ns = hour;
    CHECK_EQ(bill_spent(b).usd, 0.0);
    bill_keeps(b, 500000000000);
    fake_ns = 3 * hour;
    CHECK_NEAR(bill_spent(b).usd, 500 * gb_ns * 2 * (f64)hour,
               1e-9); /* bill_stored_nusd rounds to 1e-9 */
    bill_keeps(b, 1000000000000);
    fake_ns = 4 * hour;
    CHECK_NEAR(bill_storage(b), 500 * gb_ns * 4 * (f64)hour, 2e-9);
    bill_stop(b);
    fake_ns = 1000 * hour;
    CHECK_NEAR(bill_spent(b).usd, 500 * gb_ns * 4 * (f64)hour,
               2e-9); /* what comes after it is not the run's */
    struct bill *unknown = bill_at_0(perm, (struct price_row){ .usd_hour = 3600 });
    CHECK_EQ(bill_storage(unknown), 0.0);
    bill_keeps(unknown, 1);
    fake_ns = s_ns;
    CHECK(isnan(bill_storage(unknown)));
    CHECK_NEAR(bill_spent(unknown).usd, 1, 1e-12); /* the bill goes without */
}

TEST(what_a_provider_takes_back_early_is_free)
{
    struct bill *b = bill_at_0(perm, (struct price_row){ .usd_hour = 3600, .free_s = 60 });
    fake_ns        = 59 * s_ns;
    CHECK_NEAR(bill_spent(b).usd, 59, 1e-9);
    bill_taken(b);
    CHECK_EQ(bill_spent(b).usd, 0.0);
    fake_ns = 60 * s_ns;
    CHECK_NEAR(bill_spent(b).usd, 60, 1e-9);
}

TEST(a_month_has_one_length)
{
    struct store_price p        = store_usd;
    f64                month_ns = BILL_MONTH_DAYS * 86400e9;
    CHECK_NEAR(bill_storage_usd(&p, 1e9, BILL_MONTH_DAYS), 0.02, 1e-12);
    CHECK_NEAR((f64)bill_stored_nusd(bill_storage_gib_usd(&p), 1000000000, (i64)month_ns) * 1e-9,
               0.02, 1e-9);
}
