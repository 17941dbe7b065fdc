/* The thread that looks, on this machine; what it makes of what it sees is test_utilisation.c's. */
#include "harness.h"
#include "run/lookout.h"
#include "support/machine_os.h"

TEST(a_thread_looks_and_ends)
{
    struct lookout_config c = { .os = os_real(), .cores = 1 };
    struct lookout       *l = lookout_new(perm, &c);
    struct usage          u;
    CHECK_EQ(lookout_start(l, NULL), STATUS_OK);
    for (i64 i = 0; i < 100; i++) lookout_mark(l, RHYTHM_STEP);
    CHECK(!lookout_news(l, &u)); /* no minute is over */
    struct lookout_seen seen = lookout_end(l);
    CHECK_EQ(seen.usage.shape, USAGE_UNKNOWN);
    CHECK(seen.load.core_count >= 1);
    CHECK(!seen.gpu);
}

TEST(without_one_nothing_is_seen)
{
    struct usage u;
    lookout_mark(NULL, RHYTHM_STEP);
    CHECK(!lookout_news(NULL, &u));
    CHECK_EQ(lookout_end(NULL).usage.shape, USAGE_UNKNOWN);
}

static struct lookout *look(struct machine_os *m, struct arena *perm)
{
    struct lookout_config c = { .os = &m->os, .cores = MACHINE_CORES };
    return lookout_new(perm, &c);
}

TEST(news_come_once_after_the_first_ill_minute)
{
    struct machine_os *m = machine_os_new(perm);
    struct lookout    *l = look(m, perm);
    struct usage       u;
    i64                news = 0;
    for (i64 i = 0; i < 900; i++) { /* three minutes, a second of work, a second of none */
        machine_os_run(m, 200000000, i / 5 % 2 ? 0.95 : 0);
        lookout_look(l);
        news += lookout_news(l, &u);
        if (i < 290) CHECK_EQ(news, 0);
    }
    CHECK_EQ(news, 1);
    CHECK_EQ(u.shape, USAGE_OSCILLATING);
    CHECK_EQ(lookout_end(l).usage.shape, USAGE_OSCILLATING);
}

TEST(what_comes_before_the_first_work_is_no_gap)
{
    struct machine_os *m = machine_os_new(perm);
    struct lookout    *l = look(m, perm);
    for (i64 i = 0; i < 400; i++) {
        machine_os_run(m, 200000000, i < 100 ? 0 : 0.95);
        lookout_look(l);
    }
    CHECK_EQ(lookout_end(l).usage.shape, USAGE_STEADY_HIGH);
}

/* Between two of them a core may rest. */
TEST(the_highest_clock_of_a_core_counts)
{
    struct machine_os *m = machine_os_new(perm);
    struct lookout    *l = look(m, perm);
    for (i64 i = 0; i < 200; i++) {
        m->cores[1].mhz = i == 60 ? 3000 : 1000;
        m->cores[2].mhz = 2000;
        machine_os_run(m, 1000000000, 0.95);
        lookout_look(l);
    }
    struct load load = lookout_end(l).load;
    CHECK_EQ(load.core_index, 2);
    CHECK_NEAR(load.core_slowest, 2.0 / 3, 1e-9);
}
