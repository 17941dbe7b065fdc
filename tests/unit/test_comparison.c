/* test_comparison.c - which run a word means, levers that sum to the difference of two bills, and groups of runs. */
#include "cli/report_show.h"
#include "harness.h"
#include "run/comparison.h"
#include <math.h>

static const i64 mid_november_ns = (i64)1794700800 * 1000000000; /* 2026-11-15, wherever one is */

static struct run_bill bill(const char *id, const char *name, const char *tags, i64 nusd)
{
    return (struct run_bill){ .row    = { .id            = str_of(id),
                                          .name          = str_of(name),
                                          .tags          = str_of(tags),
                                          .begin_wall_ns = mid_november_ns },
                              .priced = true,
                              .nusd   = nusd };
}

TEST(a_word_means_one_run)
{
    struct run_bill all[] = { bill("aaa111", "old", "", 1), bill("aaa222", "same", "", 2),
                              bill("bbb333", "same", "", 3) },
                    *found;
    struct err err;
    CHECK_EQ(report_find(all, 3, STR("bbb"), &found, &err), STATUS_OK);
    CHECK(found == &all[2]);
    CHECK_EQ(report_find(all, 3, STR("same"), &found, &err), STATUS_OK);
    CHECK(found == &all[2]); /* the newest */
    CHECK_EQ(report_find(all, 3, STR("aaa"), &found, &err), STATUS_USAGE);
    CHECK_STR(str_of(err.text), STR("aaa is the beginning of 2 runs; give more of it"));
    CHECK_EQ(report_find(all, 3, STR("bb"), &found, &err), STATUS_USAGE); /* too short for an id */
    CHECK_STR(str_of(err.text), STR("no run is called bb; `frugal runs` lists them"));
}

/* Of three runs each step is a lever, by its name or, of one name, by what was set otherwise. */
TEST(levers_sum_to_the_difference)
{
    struct run_bill   all[]  = { bill("a", "first", "", 1000), bill("b", "second", "", 700),
                                 bill("c", "second", "", 650) };
    struct run_bill  *runs[] = { &all[0], &all[1], &all[2] };
    struct comparison c;
    struct err        err;
    all[2].row.settings = STR("train.precision=bf16\n");
    CHECK_EQ(comparison_make(&c, runs, 3, all, 3, mid_november_ns, perm, &err), STATUS_OK);
    CHECK_EQ(c.lever_count, 2);
    CHECK_STR(c.levers[0].what, STR("second"));
    CHECK_EQ(c.levers[0].nusd, -300);
    CHECK_STR(c.levers[1].what, STR("train.precision=bf16"));
    CHECK_EQ(c.levers[1].nusd, -50);
    all[1].priced = false;
    CHECK_EQ(comparison_make(&c, runs, 3, all, 3, mid_november_ns, perm, &err), STATUS_NO);
    CHECK_EQ(comparison_make(&c, runs, LEVERS_MAX + 1, all, 3, mid_november_ns, perm, &err),
             STATUS_USAGE);
}

/* A nano-dollar of a cent is $0 as printed, and no bar. */
TEST(a_cause_of_nothing_is_not_drawn)
{
    struct run_bill   all[] = { bill("a", "first", "", 10000000), bill("b", "first", "", 5000001) };
    struct run_bill  *runs[] = { &all[0], &all[1] };
    struct comparison c      = { .runs = runs, .run_count = 2, .lever_count = 2 };
    c.levers[0]              = (struct lever){ STR("less work"), -5000000 };
    c.levers[1]              = (struct lever){ STR("a dearer hour"), 1 };
    const char *text         = str_z(perm, picture_text(&c, 80, perm, scratch));
    CHECK(strstr(text, "before "));
    CHECK(strstr(text, "less work "));
    CHECK(strstr(text, "after "));
    CHECK(!strstr(text, "hour"));
    CHECK(!strstr(str_z(perm, picture_svg(&c, perm, scratch)), "hour"));
}

TEST(groups_count_a_run_in_each_of_its_tags)
{
    struct run_bill   all[] = { bill("a", "n", "x,y", 100), bill("b", "n", "y", 10),
                                bill("c", "n", "", 1) };
    struct run_group *g;
    all[0].metered_ns  = 5;
    all[0].shared_nusd = 40; /* others pay it */
    all[1].priced      = false;
    CHECK_EQ(report_groups(all, 3, GROUP_BY_TAG, &g, perm), 3);
    CHECK_STR(g[0].key, STR("x"));
    CHECK_EQ(g[0].nusd, 60);
    CHECK_EQ(g[0].metered_ns, 5);
    CHECK_STR(g[1].key, STR("y"));
    CHECK_EQ(g[1].runs, 2);
    CHECK_EQ(g[1].unpriced, 1);
    CHECK_EQ(g[1].nusd, 60);
    CHECK_STR(g[2].key, STR("(none)"));
    CHECK_EQ(report_groups(all, 3, GROUP_BY_MONTH, &g, perm), 1);
    CHECK_STR(g[0].key, STR("2026-11"));
    CHECK_EQ(g[0].runs, 3);
}

TEST(samples_and_tokens_are_counted_by_the_million_trials_are_not)
{
    struct run_bill b          = bill("a", "n", "", 5000);
    b.work                     = 1000;
    b.row.unit                 = STR("tokens");
    b.part_nusd[TERM_compute]  = 4000;
    b.part_nusd[TERM_starting] = 1000;
    CHECK_EQ(bill_per_million(&b), 5000000);
    CHECK_NEAR(bill_useful_percent(&b), 80, 1e-12);
    b.row.unit = STR("trials");
    CHECK_EQ(bill_per_million(&b), -1);
    b.nusd = 0;
    CHECK_EQ(bill_useful_percent(&b), 0);
}
