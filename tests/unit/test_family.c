/* test_family.c - a program and all that came from it: who is signalled, who writes, who is left. */
#include "base/family.h"
#include "harness.h"
#include "support/folder.h"
#include <signal.h>
#include <unistd.h>

static const char *const *shell(struct arena *perm, const char *script)
{
    const char **argv = NEW(perm, const char *, 4);
    argv[0]           = "/bin/sh";
    argv[1]           = "-c";
    argv[2]           = script;
    return argv;
}

static void start(struct arena *perm, struct family *f, const char *script)
{
    CHECK_EQ(family_start(f, shell(perm, script), FAMILY_OUTPUT_READ, NULL), STATUS_OK);
}

/* The next line it prints, or the rest of all. */
static struct str read_line(struct arena *perm, struct family *f)
{
    char *line = NEW(perm, char, 4096);
    i64   len = 0, got = 0;
    while (len < 4096 && !os_real()->read(os_real(), f->out, line + len, 1, -1, &got, NULL) && got)
        if (line[len++] == '\n') return (struct str){ line, len - 1 };
    return (struct str){ line, len };
}

static struct family_end wait_end(struct family *f)
{
    struct family_end end = { -1, -1 };
    for (i64 i = 0; i < 2000 && !family_ended(f, &end); i++)
        os_real()->sleep_ns(os_real(), 5000000);
    CHECK(end.code >= 0);
    return end;
}

static void finish(struct family *f)
{
    family_kill(f);
    os_real()->close(os_real(), &f->out, NULL);
}

TEST(a_program_that_is_not_there_is_a_sentence)
{
    const char *const argv[] = { "/nowhere/at-all", NULL };
    struct family     f;
    struct err        err = { 0 };
    CHECK_EQ(family_start(&f, argv, FAMILY_OUTPUT_OURS, &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot start /nowhere/at-all: No such file or directory");
    CHECK_EQ(f.pid, 0);
}

TEST(ends_are_told_apart)
{
    struct family f;
    start(perm, &f, "exit 7");
    CHECK_EQ(wait_end(&f).code, 7);
    finish(&f);
    start(perm, &f, "kill -9 $$");
    struct family_end end = wait_end(&f);
    CHECK_EQ(end.signal, 9);
    CHECK_EQ(end.code, 137);
    finish(&f);
}

/* We ignore SIGPIPE; a program must not begin so, or `yes | head` would never end. */
TEST(it_begins_with_signals_as_they_are_by_default)
{
    struct family f;
    os_signals_catch();
    start(perm, &f, "grep -E '^Sig(Ign|Blk)' /proc/self/status");
    CHECK_STR(read_line(perm, &f), "SigBlk:\t0000000000000000");
    CHECK_STR(read_line(perm, &f), "SigIgn:\t0000000000000000");
    finish(&f);
}

/* The launcher has no handler and would die of it; its worker has one. (A process that the shell has just
 * forked has its handlers for a moment, so that counts are at least what they should be.) */
TEST(a_signal_goes_to_those_that_handle_it)
{
    struct family f;
    start(
        perm, &f,
        "sh -c 'trap \"echo worker\" USR1; echo up; while :; do sleep 0.02; done' & wait; echo $?");
    CHECK_STR(read_line(perm, &f), "up");
    CHECK(family_signal(SIGUSR1) >= 1);
    CHECK_STR(read_line(perm, &f), "worker");
    CHECK_EQ(family_signal(SIGUSR2), 0); /* nobody does, and nobody dies */
    struct family_end end;
    CHECK(!family_ended(&f, &end));
    CHECK_EQ(kill((pid_t)f.pid, SIGTERM), 0);
    CHECK_EQ(wait_end(&f).signal, SIGTERM);
    finish(&f);
}

/* It left the launcher's group and outlives it: still ours to find and end. */
TEST(orphans_belong_to_the_family_until_they_are_killed)
{
    struct family f;
    start(perm, &f, "setsid sh -c 'trap \"\" TERM HUP; echo $$; sleep 100; sleep 100' & exit 3");
    i64 orphan;
    CHECK(str_i64(read_line(perm, &f), &orphan));
    CHECK_EQ(wait_end(&f).code, 3);
    CHECK_EQ(kill((pid_t)orphan, 0), 0);
    family_kill(&f);
    CHECK(kill((pid_t)orphan, 0) != 0);
    CHECK_EQ(read_line(perm, &f).len, 0); /* so that nobody holds its output any more */
    finish(&f);
}

TEST(a_file_is_written_while_one_of_the_family_has_it_open_for_that)
{
    struct family f;
    struct str    folder = os_absolute(perm, folder_new(perm));
    struct str    path   = str_fmt(perm, "%.*s/x", STR_ARG(folder));
    struct str    script =
        str_fmt(perm,
                "exec 3>%.*s; echo open; sleep 0.3; exec 3>&-; exec 4<%.*s; echo shut; "
                "sleep 100",
                STR_ARG(path), STR_ARG(path));
    start(perm, &f, script.data);
    CHECK_STR(read_line(perm, &f), "open");
    CHECK(family_writes(path));
    CHECK(!family_writes(str_fmt(perm, "%.*sx", STR_ARG(path))));
    CHECK_STR(read_line(perm, &f), "shut");
    CHECK(!family_writes(path)); /* reading is not writing */
    finish(&f);
}

TEST(processor_time_is_of_the_whole_family_and_stays_when_one_is_buried)
{
    struct family f;
    start(perm, &f,
          "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo done; sleep 60; exit");
    CHECK_STR(read_line(perm, &f),
              "done"); /* the child is gone, and its parent knows what it took */
    i64 after = family_cpu_ns();
    CHECK(after >= 10000000); /* a tick; such a loop takes tens of milliseconds at least */
    CHECK(family_cpu_ns() >= after);
    finish(&f);
    CHECK_EQ(family_cpu_ns(), 0);
}
