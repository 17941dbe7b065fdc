/* test_ask_stop.c - an order reaches the start that it was for, once, and nobody else. */
#include "harness.h"
#include "run/ask_stop.h"
#include "support/folder.h"
#include <sys/stat.h>

TEST(an_order_is_taken_once_by_the_start_it_was_for)
{
    struct os *os     = os_real();
    struct str events = str_fmt(perm, "%.*s/events", STR_ARG(folder_new(perm)));
    struct str run    = str_fmt(perm, "%.*s/run", STR_ARG(events));
    CHECK_EQ(os->make_dir(os, run, NULL), STATUS_OK);
    struct str one = folder_put(perm, run, "one.jsonl", STR(""));
    struct str two = folder_put(perm, run, "two.jsonl", STR(""));
    CHECK(!ask_stop_taken(os, one, scratch));
    CHECK_EQ(ask_stop(os, events, STR("run"), STR("one"), scratch, NULL), STATUS_OK);
    CHECK_EQ(ask_stop(os, events, STR("run"), STR("one"), scratch, NULL), STATUS_OK); /* again */
    struct stat s;
    CHECK_EQ(stat(str_fmt(perm, "%.*s/run/one.stop", STR_ARG(events)).data, &s), 0);
    CHECK_EQ(s.st_mode & 0777, 0600);
    CHECK(!ask_stop_taken(os, two, scratch)); /* the next start */
    CHECK(ask_stop_taken(os, one, scratch));
    CHECK(!ask_stop_taken(os, one, scratch));
}

TEST(who_writes_no_log_cannot_be_asked)
{
    struct os *os     = os_real();
    struct str events = str_fmt(perm, "%.*s/nothing", STR_ARG(folder_new(perm)));
    struct err err    = { 0 };
    CHECK_EQ(ask_stop(os, events, STR("run"), STR("one"), scratch, &err), STATUS_NO);
    CHECK(str_of(err.text).len > 0);
    CHECK(!ask_stop_taken(os, STR(""), scratch));
    CHECK(!ask_stop_taken(os, STR(".jsonl"), scratch));
}

TEST(it_is_a_signal_of_this_process)
{
    struct os *os = os_real();
    os_signal_add(OS_SIGNAL_WATCH);
    CHECK_EQ(os->signal_take(os), OS_SIGNAL_WATCH);
    CHECK_EQ(os->signal_take(os), OS_SIGNAL_NONE);
    CHECK_STR(str_of(os_signal_name(OS_SIGNAL_WATCH)), "frugal watch");
}
