#include "base/os.h"
#include "base/thread.h"
#include "harness.h"
#include "support/folder.h"
#include "support/sim_os.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        struct err *check_err = &err;                                                              \
        *check_err            = (struct err){ 0 };                                                 \
        if (call) harness_fail(__FILE__, __LINE__, "%s: %s", #call, check_err->text);              \
    } while (0)

static struct err err;

static struct str temporary_dir(struct arena *perm)
{
    char *dir = NEW(perm, char, 64);
    strcpy(dir, "/tmp/frugal-os-XXXXXX");
    CHECK(mkdtemp(dir));
    return str_of(dir);
}

static struct str in(struct arena *perm, struct str dir, const char *name)
{
    return str_fmt(perm, "%.*s/%s", STR_ARG(dir), name);
}

TEST(files_are_written_read_listed_and_removed)
{
    struct os  *os  = os_real();
    struct str  dir = temporary_dir(perm), a = in(perm, dir, "x/y/a"), b = in(perm, dir, "x/y/b");
    struct file f;
    struct os_stat stat;
    struct str     bytes, *names;
    i64            got, count;
    char           buffer[8];

    CHECK_OK(os->make_dir(os, in(perm, dir, "x/y"), &err));
    CHECK_OK(os->make_dir(os, in(perm, dir, "x/y/"), &err)); /* again is no error */
    CHECK_OK(os->create(os, a, &f, &err));
    CHECK_OK(os->write(os, f, STR("hello "), &err));
    CHECK_OK(os->write(os, f, STR("world"), &err));
    CHECK_OK(os->sync(os, f, &err));
    CHECK_OK(os->close(os, &f, &err));
    CHECK_EQ(f.fd, -1);
    CHECK_OK(os->rename(os, a, b, &err));
    CHECK_OK(os->sync_dir_of(os, b, &err));
    CHECK_OK(os->create(os, a, &f, &err));
    CHECK_OK(os->close(os, &f, &err));

    CHECK_OK(os->stat(os, b, &stat, &err));
    CHECK_EQ(stat.bytes, 11);
    CHECK(!stat.is_dir);
    CHECK(llabs(os->wall_ns(os) - stat.mtime_ns) < (i64)60000000000);
    CHECK_OK(os->list(os, in(perm, dir, "x/y"), perm, &names, &count, &err));
    CHECK_EQ(count, 2);
    CHECK_STR(names[0], "a");
    CHECK_STR(names[1], "b");

    CHECK_OK(os->open_read(os, b, &f, &err));
    CHECK_OK(os->read(os, f, buffer, 4, 6, &got, &err));
    CHECK_STR(((struct str){ buffer, got }), "worl");
    CHECK_OK(os->read(os, f, buffer, 5, -1, &got, &err));
    CHECK_STR(((struct str){ buffer, got }), "hello");
    CHECK_OK(os->read(os, f, buffer, 4, 11, &got, &err));
    CHECK_EQ(got, 0);
    CHECK_OK(os->close(os, &f, &err));

    CHECK_OK(os->map(os, b, &bytes, &err));
    CHECK_STR(bytes, "hello world");
    os->unmap(os, bytes);
    CHECK_OK(os->map(os, a, &bytes, &err)); /* empty */
    CHECK_EQ(bytes.len, 0);
    os->unmap(os, bytes);

    CHECK_OK(os->remove(os, a, &err));
    CHECK_OK(os->remove(os, b, &err));
    CHECK_OK(os->remove(os, in(perm, dir, "x/y"), &err));
    CHECK_OK(os->remove(os, in(perm, dir, "x"), &err));
    CHECK_OK(os->remove(os, dir, &err));
}

TEST(a_failure_names_the_file_and_the_reason)
{
    struct os     *os = os_real();
    struct file    f;
    struct os_stat stat;
    struct str     bytes, *names, path = STR("/nowhere/at/all");
    i64            count;
    char           endless[5000];

    CHECK_EQ(os->open_read(os, path, &f, &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot open /nowhere/at/all: No such file or directory");
    CHECK_EQ(f.fd, -1);
    CHECK_EQ(os->create(os, path, &f, NULL), STATUS_WORLD);
    CHECK_EQ(os->create(os, path, &f, &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot create /nowhere/at/all: there is no folder /nowhere/at");
    CHECK_EQ(err.cause, CAUSE_ABSENT);
    CHECK_EQ(os->create(os, os_part_name(perm, STR("nowhere/w.bin")), &f, &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot create nowhere/w.bin: there is no folder nowhere");
    CHECK_EQ(os->stat(os, path, &stat, &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot find /nowhere/at/all: No such file or directory");
    CHECK_EQ(os->list(os, path, perm, &names, &count, &err), STATUS_WORLD);
    CHECK_EQ(os->map(os, path, &bytes, &err), STATUS_WORLD);
    CHECK_EQ(os->map(os, STR("/tmp"), &bytes, &err), STATUS_WORLD);
    CHECK_EQ(os->remove(os, path, &err), STATUS_WORLD);
    CHECK_EQ(os->rename(os, path, path, &err), STATUS_WORLD);
    CHECK_STR(err.text,
              "cannot rename /nowhere/at/all to /nowhere/at/all: No such file or directory");
    CHECK_EQ(os->make_dir(os, STR("/dev/null/x"), &err), STATUS_WORLD);
    CHECK_EQ(os->make_dir(os, STR("/dev/null"), &err), STATUS_WORLD);
    CHECK_EQ(os_read_all(os, path, perm, &bytes, &err), STATUS_WORLD);
    CHECK_EQ(os_read_all(os, STR("/tmp"), perm, &bytes, &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot read /tmp: it is a folder, not a file");
    memset(endless, 'x', sizeof endless);
    CHECK_EQ(os->open_read(os, (struct str){ endless, sizeof endless }, &f, &err), STATUS_USAGE);
    CHECK_EQ(os->open_read(os, STR("a\0b"), &f, &err), STATUS_USAGE);
    CHECK_EQ(os->open_read(os, STR(""), &f, &err), STATUS_USAGE);
    CHECK_EQ(os->create(os, STR("/dev/full"), &f, &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot create /dev/full: it is a device, not a regular file");
    f.fd = open("/dev/full", O_WRONLY);
    CHECK_EQ(os->write(os, f, STR("x"), &err), STATUS_WORLD);
    CHECK_STR(err.text, "cannot write to /dev/full: No space left on device");
    CHECK_EQ(err.cause, CAUSE_FULL);
    CHECK_OK(os->close(os, &f, &err));
}

/* cmake/tests.cmake puts this before the system's: a full disk that has no room for a name. */
static int rename_errno;
int        __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int        __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int        __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    errno = rename_errno;
    return rename_errno ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

TEST(a_full_disk_is_known_as_one_when_a_name_has_no_room)
{
    static const int reasons[] = { ENOSPC, EDQUOT };
    struct os       *os        = os_real();
    for (i64 i = 0; i < COUNT_OF(reasons); i++) {
        struct err why = { 0 };
        rename_errno   = reasons[i];
        CHECK_EQ(os->rename(os, STR("a"), STR("b"), &why), STATUS_WORLD);
        rename_errno = 0;
        CHECK_EQ(why.cause, CAUSE_FULL);
        CHECK(strstr(why.text, "cannot rename a to b: "));
    }
}

/* Whoever opens a FIFO waits for its other end, and that may never come. */
TEST(only_plain_files_are_opened_and_none_is_waited_for)
{
    struct os  *os  = os_real();
    struct str  dir = folder_new(perm), fifo = in(perm, dir, "fifo"), bytes;
    struct file f;
    int         ends[2];
    CHECK_EQ(mkfifo(fifo.data, 0666), 0);
    alarm(10);
    CHECK_EQ(os->open_read(os, fifo, &f, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "fifo: it is a FIFO, not a regular file"));
    CHECK_EQ(f.fd, -1);
    CHECK_EQ(os->create(os, fifo, &f, &err), STATUS_WORLD);
    CHECK_EQ(os->lock(os, fifo, &f, &err), STATUS_WORLD);
    CHECK_EQ(os->map(os, fifo, &bytes, &err), STATUS_WORLD);
    CHECK_EQ(os_read_all(os, fifo, perm, &bytes, &err), STATUS_WORLD);
    CHECK_EQ(os_read_all(os, STR("/dev/zero"), perm, &bytes, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "/dev/zero: it is a device, not a regular file"));
    CHECK_EQ(os->open_read(os, dir, &f, &err), STATUS_WORLD);
    CHECK_EQ(pipe(ends), 0); /* as a shell's <(COMMAND) */
    CHECK_EQ(write(ends[1], "a: 1\n", 5), 5);
    close(ends[1]);
    CHECK_OK(os_read_all(os, str_fmt(perm, "/dev/fd/%d", ends[0]), perm, &bytes, &err));
    CHECK(str_eq(bytes, STR("a: 1\n")));
    close(ends[0]);
    alarm(0);
}

TEST(what_is_not_there_and_a_full_disk_are_told_apart_from_the_rest)
{
    struct os     *os  = os_real();
    struct str     dir = folder_new(perm);
    struct os_stat stat;
    struct file    f;
    CHECK_EQ(os->open_read(os, in(perm, dir, "none"), &f, &err), STATUS_WORLD);
    CHECK_EQ(err.cause, CAUSE_ABSENT);
    CHECK_EQ(os->stat(os, in(perm, dir, "none/deeper"), &stat, &err), STATUS_WORLD);
    CHECK_EQ(err.cause, CAUSE_ABSENT);
    CHECK_EQ(os->open_read(os, dir, &f, &err), STATUS_WORLD);
    CHECK_EQ(err.cause, CAUSE_OTHER);
}

/* links/out and links/file lead out of the root. */
TEST(below_its_root_no_link_is_followed)
{
    struct os     *os  = os_real();
    struct str     top = folder_new(perm), root = in(perm, top, "root"), out = in(perm, top, "out");
    struct os_stat stat;
    struct str    *names, bytes;
    struct file    f;
    i64            count;
    CHECK_OK(os->make_dir(os, in(perm, root, "real"), &err));
    CHECK_OK(os->make_dir(os, out, &err));
    struct str theirs = folder_put(perm, out, "f", STR("theirs"));
    CHECK_EQ(symlink(out.data, in(perm, root, "out").data), 0);
    CHECK_EQ(symlink(theirs.data, in(perm, root, "file").data), 0);
    CHECK_EQ(symlink(root.data, in(perm, top, "way").data), 0);
    struct os *safe = os_beneath(os, in(perm, top, "way"), perm); /* the root may be a link */
    struct str way  = in(perm, top, "way");
    CHECK_OK(safe->create(safe, in(perm, way, "real/g"), &f, &err));
    CHECK_OK(safe->close(safe, &f, &err));
    CHECK_OK(safe->list(safe, way, perm, &names, &count, &err));
    CHECK_EQ(count, 3);
    CHECK_OK(safe->stat(safe, in(perm, way, "out"), &stat, &err));
    CHECK(stat.is_link && !stat.is_dir);
    CHECK_EQ(safe->open_read(safe, in(perm, way, "out/f"), &f, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "way/out/f leads through a symbolic link"));
    CHECK_EQ(safe->open_read(safe, in(perm, way, "file"), &f, &err), STATUS_WORLD);
    CHECK_EQ(safe->create(safe, in(perm, way, "file"), &f, &err), STATUS_WORLD);
    CHECK_EQ(safe->create(safe, in(perm, way, "out/h"), &f, &err), STATUS_WORLD);
    CHECK_EQ(safe->lock(safe, in(perm, way, "file"), &f, &err), STATUS_WORLD);
    CHECK_EQ(safe->list(safe, in(perm, way, "out"), perm, &names, &count, &err), STATUS_WORLD);
    CHECK_EQ(safe->make_dir(safe, in(perm, way, "out"), &err), STATUS_WORLD);
    CHECK_EQ(safe->make_dir(safe, in(perm, way, "out/x"), &err), STATUS_WORLD);
    CHECK_EQ(safe->remove(safe, in(perm, way, "out/f"), &err), STATUS_WORLD);
    CHECK_EQ(safe->rename(safe, in(perm, way, "real/g"), in(perm, way, "out/g"), &err),
             STATUS_WORLD);
    CHECK_EQ(safe->open_read(safe, in(perm, way, "real/../../out/f"), &f, &err), STATUS_WORLD);
    CHECK_OK(safe->remove(safe, in(perm, way, "file"), &err)); /* the link itself */
    CHECK_OK(safe->remove(safe, in(perm, way, "real/g"), &err));
    CHECK_OK(safe->remove(safe, in(perm, way, "real"), &err));
    os_beneath_end(safe);
    CHECK_EQ(os->lock(os, in(perm, root, "file"), &f, &err), STATUS_OK); /* no link any more */
    CHECK_OK(os->close(os, &f, &err));
    CHECK_OK(os_read_all(os, theirs, perm, &bytes, &err));
    CHECK(str_eq(bytes, STR("theirs")));
    CHECK_EQ(symlink(theirs.data, in(perm, root, "lock").data), 0);
    CHECK_EQ(os->lock(os, in(perm, root, "lock"), &f, &err), STATUS_WORLD);
    CHECK_OK(os_read_all(os, theirs, perm, &bytes, &err));
    CHECK(str_eq(bytes, STR("theirs")));
}

TEST(what_a_killed_writer_left_is_removed_and_what_is_written_is_not)
{
    struct os     *os  = os_real();
    struct str     dir = folder_new(perm), path = in(perm, dir, "out");
    struct os_stat stat;
    struct file    f;
    pid_t          gone = fork();
    if (!gone) _exit(0);
    CHECK_EQ(waitpid(gone, NULL, 0), gone);
    struct str left    = str_fmt(perm, "%.*s.%d.part", STR_ARG(path), (int)gone);
    struct str theirs  = str_fmt(perm, "%.*s.%d.part", STR_ARG(path), (int)getppid());
    struct str another = str_fmt(perm, "%.*s2.%d.part", STR_ARG(path), (int)gone);
    CHECK_OK(os_publish(os, another, STR("x"), *perm, &err)); /* of another file */
    CHECK_OK(os_publish(os, theirs, STR("x"), *perm, &err));  /* of a process that runs */
    CHECK_OK(os->create(os, left, &f, &err)); /* of one that we do not see, and that writes */
    CHECK_OK(os_publish(os, path, STR("1"), *perm, &err));
    CHECK_OK(os->stat(os, left, &stat, &err));
    CHECK_OK(os->close(os, &f, &err)); /* killed */
    CHECK_OK(os_publish(os, path, STR("2"), *perm, &err));
    CHECK(os->stat(os, left, &stat, NULL));
    CHECK_OK(os->stat(os, theirs, &stat, &err));
    CHECK_OK(os->stat(os, another, &stat, &err));
}

TEST(whole_files_come_and_go)
{
    struct os *os  = os_real();
    struct str dir = temporary_dir(perm), path = in(perm, dir, "f"), bytes;
    for (i64 len = 0; len < 100000; len = 3 * len + 1) {
        char *data = NEW(perm, char, len);
        memset(data, 'q', (size_t)len);
        CHECK_OK(os_publish(os, path, (struct str){ data, len }, scratch, &err));
        CHECK_OK(os_read_all(os, path, perm, &bytes, &err));
        CHECK_STR(bytes, ((struct str){ data, len }));
        CHECK_EQ(bytes.data[len], '\0');
    }
    struct arena small = arena_part(perm, 1000); /* a file larger than the room is an error */
    CHECK_EQ(os_read_all(os, path, &small, &bytes, &err), STATUS_WORLD);
    CHECK_OK(os->remove(os, path, &err));
    CHECK_OK(os->remove(os, dir, &err));
    CHECK_OK(os_read_all(os, STR("/proc/self/status"), perm, &bytes, &err)); /* says 0 bytes */
    CHECK(bytes.len > 100);
}

struct peer {
    i32        port;
    struct str sent;
};

static void *connect_and_talk(void *argument)
{
    struct peer *p  = argument;
    struct os   *os = os_real();
    struct file  f;
    char         answer[16];
    i64          got;
    ASSERT(!os->connect(os, STR("localhost"), p->port, (i64)5000000000, &f, NULL));
    ASSERT(!os->write(os, f, p->sent, NULL));
    ASSERT(!os->read(os, f, answer, sizeof answer, -1, &got, NULL));
    ASSERT(str_eq((struct str){ answer, got }, STR("thanks")));
    ASSERT(!os->close(os, &f, NULL));
    return NULL;
}

TEST(a_stream_goes_both_ways)
{
    struct os  *os = os_real();
    struct file listener, f;
    pthread_t   thread;
    char        heard[16];
    i64         got;
    CHECK_OK(os->listen(os, STR("127.0.0.1"), 0, &listener, &err));
    struct peer peer = { os->port_of(os, listener), STR("hello") };
    CHECK(peer.port > 0);
    CHECK_EQ(os->accept(os, listener, 1000000, &f, &err), STATUS_NO); /* nobody yet */
    CHECK_EQ(pthread_create(&thread, NULL, connect_and_talk, &peer), 0);
    CHECK_OK(os->accept(os, listener, (i64)5000000000, &f, &err));
    CHECK_OK(os->read(os, f, heard, sizeof heard, -1, &got, &err));
    CHECK_STR(((struct str){ heard, got }), "hello");
    CHECK_OK(os->write(os, f, STR("thanks"), &err));
    CHECK_OK(os->read(os, f, heard, sizeof heard, -1, &got, &err));
    CHECK_EQ(got, 0); /* it hung up */
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) os->write(os, f, STR("anyone?"), NULL); /* an error, no signal */
    CHECK_OK(os->close(os, &f, &err));
    CHECK_OK(os->close(os, &listener, &err));

    CHECK_EQ(os->connect(os, STR("127.0.0.1"), peer.port, 100000000, &f, &err), STATUS_WORLD);
    CHECK_STR(err.text,
              str_fmt(perm, "cannot connect to 127.0.0.1:%d: Connection refused", peer.port));
    CHECK_EQ(f.fd, -1);
    CHECK_EQ(os->connect(os, STR("127.0.0.1"), 70000, 1, &f, &err), STATUS_USAGE);
}

TEST(a_silent_peer_is_not_waited_for_longer_than_the_limit)
{
    struct os  *os = os_real();
    struct file listener, f;
    char        heard[16];
    i64         got;
    CHECK_OK(os->listen(os, STR("127.0.0.1"), 0, &listener, &err));
    CHECK_OK(os->connect(os, STR("127.0.0.1"), os->port_of(os, listener), 20000000, &f, &err));
    i64 begin = os->now_ns(os);
    CHECK_EQ(os->read(os, f, heard, sizeof heard, -1, &got, &err), STATUS_WORLD);
    CHECK(os->now_ns(os) - begin < (i64)5000000000);
    CHECK_OK(os->close(os, &f, &err));
    CHECK_OK(os->close(os, &listener, &err));
}

TEST(the_clock_goes_forward)
{
    struct os *os    = os_real();
    i64        begin = os->now_ns(os);
    os->sleep_ns(os, 2000000);
    CHECK(os->now_ns(os) - begin >= 2000000);
    os->sleep_ns(os, -1);
    CHECK(os->wall_ns(os) > (i64)1600000000000000000);
}

TEST(the_environment_is_read)
{
    struct os *os = os_real();
    setenv("FRUGAL_TEST_ENV", "value", 1);
    CHECK_STR(os->env(os, "FRUGAL_TEST_ENV"), "value");
    CHECK(!os->env(os, "FRUGAL_TEST_UNSET").data);
    setenv("FRUGAL_TEST_ENV", "", 1);
    CHECK(os->env(os, "FRUGAL_TEST_ENV").data);
}

TEST(peak_memory_grows_with_use)
{
    i64 before = os_peak_rss_bytes();
    u8 *p      = NEW(perm, u8, 64 << 20);
    memset(p, 1, 64 << 20);
    CHECK(before > 0);
    CHECK(os_peak_rss_bytes() >= before + (32 << 20)); /* other pages may have gone meanwhile */
}

static int exit_code_of(void (*fn)(void))
{
    int   status;
    pid_t child = fork();
    if (child == 0) {
        fn();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void take_signals(void)
{
    struct os *os = os_real();
    os_signals_catch();
    if (os->signal_take(os) != OS_SIGNAL_NONE) _exit(10);
    raise(SIGUSR1);
    raise(SIGUSR1);
    raise(SIGTERM);
    raise(SIGINT);
    if (os->signal_take(os) != OS_SIGNAL_INT) _exit(11);
    if (os->signal_take(os) != OS_SIGNAL_TERM) _exit(12);
    if (os->signal_take(os) != OS_SIGNAL_USR1) _exit(13);
    if (os->signal_take(os) != OS_SIGNAL_NONE) _exit(14);
}

static void write_to_nobody(void)
{
    struct os *os = os_real();
    int        ends[2];
    os_signals_catch();
    if (pipe(ends) || close(ends[0])) _exit(30);
    if (os->write(os, (struct file){ ends[1] }, STR("hello"), &err) != STATUS_WORLD) _exit(31);
}

static void interrupt_twice(void)
{
    os_signals_catch();
    raise(SIGINT);
    os_real()->signal_take(os_real());
    raise(SIGINT);
}

static void sleep_through_a_signal(void)
{
    struct os *os    = os_real();
    i64        begin = os->now_ns(os);
    pid_t      self  = getpid(), child;
    os_signals_catch();
    if ((child = fork()) == 0) {
        os->sleep_ns(os, 20000000);
        kill(self, SIGTERM);
        _exit(0);
    }
    while (os->signal_take(os) != OS_SIGNAL_TERM)
        os->sleep_ns(os, (i64)2000000000); /* ended early, or this test is slow to pass */
    waitpid(child, NULL, 0);
    _exit(os->now_ns(os) - begin < (i64)10000000000 ? 0 : 20);
}

TEST(signals_are_held_until_taken)
{
    CHECK_EQ(exit_code_of(take_signals), 0);
    CHECK_EQ(exit_code_of(write_to_nobody), 0);
    CHECK_EQ(exit_code_of(interrupt_twice), STATUS_INTERRUPTED);
    CHECK_EQ(exit_code_of(sleep_through_a_signal), 0);
}

/* A power cut or a kill at every call, and every way of losing what was not synced: the next
 * process finds the old file or the new one, and the new one once os_publish had returned. */
TEST(a_published_file_is_old_or_new_after_any_power_cut)
{
    for (int survive = 0; survive < SIM_SURVIVE_COUNT; survive++) {
        bool done = false;
        i64  kill = 1;
        for (; !done; kill++) {
            struct sim_os *sim = sim_os_new(perm);
            sim_os_put(sim, STR("dir/file"), STR("the old one"));
            sim->os.make_dir(&sim->os, STR("dir"), NULL);
            sim->kill_at = sim->calls + kill;
            done = !os_publish(&sim->os, STR("dir/file"), STR("the new one!"), scratch, &err);
            sim_os_crash(sim, (enum sim_survive)survive);
            struct str found  = sim_os_look(sim, STR("dir/file"));
            bool       is_new = str_eq(found, STR("the new one!"));
            CHECK(is_new || (!done && str_eq(found, STR("the old one"))));
        }
        CHECK_EQ(kill, 9); /* seven calls, each was the last one once */
    }
}

static struct str piece_or_none(const void *context, i64 i)
{
    const i64 *fails = context;
    return i == *fails ? (struct str){ NULL, -1 } : STR("piece");
}

TEST(a_piece_that_cannot_be_made_leaves_the_old_file)
{
    for (i64 fails = 0; fails < 3; fails++) {
        struct sim_os   *sim    = sim_os_new(perm);
        struct os_pieces pieces = { piece_or_none, &fails, 3 };
        sim_os_put(sim, STR("file"), STR("the old one"));
        CHECK_EQ(os_publish_from(&sim->os, STR("file"), &pieces, scratch, &err), STATUS_USAGE);
        CHECK_STR(sim_os_look(sim, STR("file")), "the old one");
        CHECK(!sim_os_look(sim, os_part_name(perm, STR("file"))).data);
    }
}

TEST(a_failed_publish_leaves_no_part_behind)
{
    for (i64 fail = 2; fail <= 7; fail++) { /* the first only looks for what others left */
        struct sim_os *sim = sim_os_new(perm);
        sim_os_put(sim, STR("file"), STR("the old one"));
        sim->fail_at = fail;
        CHECK_EQ(os_publish(&sim->os, STR("file"), STR("new"), scratch, &err), STATUS_WORLD);
        CHECK_STR(err.text, str_fmt(perm, "call %d fails", (int)fail));
        CHECK_STR(sim_os_look(sim, STR("file")), fail < 7 ? "the old one" : "new");
        CHECK(!sim_os_look(sim, os_part_name(perm, STR("file"))).data);
    }
}

TEST(a_failed_read_is_reported)
{
    struct str bytes;
    for (i64 fail = 1; fail <= 5; fail++) {
        struct sim_os *sim = sim_os_new(perm);
        sim_os_put(sim, STR("file"), STR("something"));
        sim->fail_at   = fail;
        enum status st = os_read_all(&sim->os, STR("file"), perm, &bytes, &err);
        CHECK_EQ(st, fail < 5 ? STATUS_WORLD : STATUS_OK); /* the close at the end may fail */
    }
    CHECK_STR(bytes, "something");
}

TEST(the_simulated_disk_forgets_what_was_not_synced)
{
    struct sim_os *sim = sim_os_new(perm);
    struct os     *os  = &sim->os;
    struct file    f;
    CHECK_OK(os->create(os, STR("a"), &f, &err));
    CHECK_OK(os->write(os, f, STR("1"), &err));
    CHECK_OK(os->sync(os, f, &err));
    CHECK_OK(os->write(os, f, STR("2"), &err));
    CHECK_OK(os->close(os, &f, &err));
    CHECK_STR(sim_os_look(sim, STR("./a")), "12");
    sim_os_crash(sim, SIM_NAMES_ONLY);
    CHECK_STR(sim_os_look(sim, STR("a")), "1");
    CHECK_OK(os->rename(os, STR("a"), STR("b"), &err));
    sim_os_crash(sim, SIM_SYNCED_ONLY);
    CHECK_STR(sim_os_look(sim, STR("a")), "1");
    CHECK(!sim_os_look(sim, STR("b")).data);
    CHECK_EQ(os->create(os, STR("no/dir"), &f, &err), STATUS_WORLD);
}

/* Whatever is written past the page cache comes back, aligned or not, and the two ways may alternate. */
TEST(a_file_written_past_the_cache_is_the_same_file)
{
    struct os  *os     = os_real();
    struct str  folder = folder_new(perm), back;
    struct str  path   = str_fmt(perm, "%.*s/direct", STR_ARG(folder));
    i64         bytes  = 5 * OS_DIRECT_ALIGN;
    char       *from   = arena_take(perm, bytes, 1, OS_DIRECT_ALIGN);
    struct file f;
    for (i64 i = 0; i < bytes; i++) from[i] = (char)(i * 31 + i / 251);
    CHECK_EQ(os->create(os, path, &f, &err), STATUS_OK);
    os->direct(os, f, true);
    CHECK_EQ(os->write(os, f, (struct str){ from, 2 * OS_DIRECT_ALIGN }, &err), STATUS_OK);
    CHECK_EQ(os->write(os, f, (struct str){ from + 2 * OS_DIRECT_ALIGN, 17 }, &err), STATUS_OK);
    os->direct(os, f, true);
    struct str rest = str_sub((struct str){ from, bytes }, 2 * OS_DIRECT_ALIGN + 17, bytes);
    CHECK_EQ(os->write(os, f, rest, &err), STATUS_OK);
    os->direct(os, f, false);
    CHECK_EQ(os->sync(os, f, &err), STATUS_OK);
    CHECK_EQ(os->close(os, &f, &err), STATUS_OK);
    CHECK_EQ(os_read_all(os, path, perm, &back, &err), STATUS_OK);
    CHECK(str_eq(back, (struct str){ from, bytes }));
}

static i64 sum_of(struct str bytes)
{
    i64 sum = 0;
    for (i64 i = 0; i < bytes.len; i++) sum += bytes.data[i];
    return sum;
}

static void *sum_in_thread(void *context)
{
    struct str *bytes = context;
    bytes->len        = sum_of(*bytes);
    return NULL;
}

TEST(a_mapped_file_that_shrinks_is_an_error_with_its_name)
{
    struct os *os     = os_real();
    struct str folder = folder_new(perm), bytes, other;
    struct str path   = str_fmt(perm, "%.*s/shrinks", STR_ARG(folder));
    struct str whole  = str_fmt(perm, "%.*s/whole", STR_ARG(folder));
    i64        pages  = 3 * 4096;
    char      *ones   = NEW(perm, char, pages);
    struct err none   = { 0 };
    pthread_t  thread;
    for (i64 i = 0; i < pages; i++) ones[i] = 1;
    CHECK_OK(os_publish(os, path, (struct str){ ones, pages }, *perm, &err));
    CHECK_OK(os_publish(os, whole, (struct str){ ones, pages }, *perm, &err));
    CHECK_OK(os->map(os, path, &bytes, &err));
    CHECK_OK(os->map(os, whole, &other, &err));
    CHECK_EQ(sum_of(bytes), pages);
    CHECK_OK(os_maps_check(&err));

    CHECK_EQ(truncate(str_z(perm, path), 4096), 0);
    struct str in_thread = bytes; /* the loader's threads block all other signals */
    CHECK_OK(thread_start(&thread, sum_in_thread, &in_thread, "a thread", &err));
    pthread_join(thread, NULL);
    CHECK_EQ(in_thread.len, 4096); /* zeros behind */
    CHECK_EQ(sum_of(other), pages);
    CHECK_EQ(os_maps_check(NULL), STATUS_WORLD);
    CHECK_EQ(os_maps_check(&err), STATUS_WORLD);
    CHECK(str_starts(str_of(err.text), path));
    CHECK_EQ(os_maps_check(&err), STATUS_WORLD); /* as long as it is mapped */
    os->unmap(os, bytes);
    CHECK_OK(os_maps_check(&none));

    CHECK_EQ(truncate(str_z(perm, whole), pages - 1), 0); /* no signal: the last page is there */
    CHECK_EQ(sum_of(other), pages - 1);
    CHECK_OK(os_maps_check(&none));
    CHECK_EQ(os_maps_verify(&err), STATUS_WORLD);
    CHECK(str_starts(str_of(err.text), whole));
    os->unmap(os, other);
    CHECK_OK(os->map(os, whole, &other, &err));
    CHECK_OK(os_publish(os, whole, STR("another file of this name"), *perm, &err));
    CHECK_OK(os_maps_verify(&none));

    CHECK_OK(os->map(os, whole, &bytes, &err)); /* a reader that did not ask in time */
    CHECK_EQ(truncate(str_z(perm, whole), 0), 0);
    CHECK_EQ(sum_of(bytes), 0);
    os->unmap(os, bytes);
    os->unmap(os, other);
    CHECK_EQ(os_maps_check(&err), STATUS_WORLD);
    CHECK(str_starts(str_of(err.text), whole));
    CHECK_OK(os_maps_check(&none));
}

TEST(a_bus_error_of_no_mapped_file_ends_the_process)
{
    int   state = 0;
    pid_t child = fork();
    if (!child) {
        signal(SIGABRT, SIG_DFL);
        raise(SIGBUS);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &state, 0), child);
    CHECK(!WIFEXITED(state) || WEXITSTATUS(state) != 0); /* a sanitizer's handler exits */
}
