#include "base/os.h"
#include "base/pool_int.h"
#include "harness.h"
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static void nap(long ns) { nanosleep(&(struct timespec){ 0, ns }, NULL); }

static void nothing(void *context, i64 block, i32 worker)
{
    (void)context, (void)block, (void)worker;
}

struct tally {
    struct pool *pool;
    i32         *seen;     /* a block: plain memory, so the thread sanitizer sees a double run */
    atomic_int   busy[64]; /* a worker */
};

static void count_block(void *context, i64 block, i32 worker)
{
    struct tally *t = context;
    ASSERT(worker >= 0 && worker < pool_threads(t->pool));
    ASSERT(atomic_fetch_add(&t->busy[worker], 1) == 0); /* one thread at a time is worker n */
    t->seen[block]++;
    atomic_fetch_sub(&t->busy[worker], 1);
}

TEST(every_block_runs_exactly_once)
{
    for (i32 threads = 1; threads <= 5; threads++) {
        struct tally t = { .pool = pool_open(perm, threads), .seen = NEW(perm, i32, 300) };
        CHECK_EQ(pool_threads(t.pool), threads);
        for (i64 blocks = 0; blocks < 300; blocks++) {
            memset(t.seen, 0, 300 * sizeof *t.seen);
            pool_run(t.pool, blocks, count_block, &t);
            for (i64 i = 0; i < 300; i++) CHECK_EQ(t.seen[i], i < blocks);
        }
        pool_close(t.pool);
    }
}

struct pair { /* of blocks that wait for each other */
    atomic_int begun[2];
    i32        worker[2];
};

static void wait_for_the_other(void *context, i64 block, i32 worker)
{
    struct pair *p   = context;
    p->worker[block] = worker;
    atomic_store(&p->begun[block], 1);
    while (!atomic_load(&p->begun[1 - block])) sched_yield();
}

/* What a thread wrote in one job lies in its caches in the next. */
TEST(a_thread_has_the_same_share_in_each_job)
{
    struct pool *pool = pool_open(perm, 2);
    for (int turn = 0; turn < 200; turn++) {
        struct pair p = { 0 };
        if (pool_threads(pool) < 2) break; /* the system refused one */
        if (turn % 10 == 0) nap(100000);   /* it sleeps */
        pool_run(pool, 2, wait_for_the_other, &p);
        CHECK_EQ(p.worker[0], 0);
        CHECK_EQ(p.worker[1], 1);
    }
    pool_close(pool);
}

TEST(sleepers_are_woken)
{
    struct tally t = { .pool = pool_open(perm, 3), .seen = NEW(perm, i32, 8) };
    for (int turn = 0; turn < 100; turn++) {
        nap(turn % 4 * 100000L); /* some find them spinning, some asleep */
        pool_run(t.pool, 8, count_block, &t);
    }
    for (i64 i = 0; i < 8; i++) CHECK_EQ(t.seen[i], 100);
    pool_close(t.pool);
}

/* Both blocks are under way at the same time, or this never ends. */
static void meet(void *context, i64 block, i32 worker)
{
    atomic_int *here = context;
    (void)block, (void)worker;
    atomic_fetch_add(here, 1);
    while (atomic_load(here) < 2) sched_yield();
}

TEST(blocks_run_side_by_side)
{
    struct pool *p    = pool_open(perm, 2);
    f64          best = 1, empty = 1;
    for (int turn = 0; turn < 2000; turn++) {
        atomic_int here  = 0;
        f64        begin = now_s();
        pool_run(p, 2, meet, &here);
        best  = fmin(best, now_s() - begin);
        begin = now_s();
        pool_run(p, 2, nothing, NULL);
        empty = fmin(empty, now_s() - begin);
    }
    printf("(%.2f us to meet, %.2f us for nothing) ", 1e6 * best, 1e6 * empty);
    pool_close(p);
}

struct long_job {
    atomic_int started;
    atomic_int finished;
};

static void uneven(void *context, i64 block, i32 worker)
{
    struct long_job *j = context;
    (void)worker;
    atomic_fetch_add(&j->started, 1);
    if (block == 0) nap(2000000);
    atomic_fetch_add(&j->finished, 1);
}

TEST(the_caller_waits_for_a_slow_block)
{
    struct pool *p = pool_open(perm, 4);
    for (int turn = 0; turn < 20; turn++) {
        struct long_job j = { 0 };
        pool_run(p, 5, uneven, &j);
        CHECK_EQ(atomic_load(&j.finished), 5);
    }
    pool_close(p);
}

/* Far more threads than cores must not be slower than the work and its wake-ups: a spinning crowd
 * would need a time slice (milliseconds) for each of the jobs. */
TEST(a_crowd_of_threads_gives_way)
{
    struct tally t     = { .pool = pool_open(perm, 32), .seen = NEW(perm, i32, 64) };
    f64          begin = now_s();
    for (int turn = 0; turn < 300; turn++) pool_run(t.pool, 64, count_block, &t);
    f64 each_s = (now_s() - begin) / 300;
    printf("(%.0f us a job) ", 1e6 * each_s);
    CHECK(each_s < 0.02);
    pool_close(t.pool);
}

TEST(running_takes_no_memory)
{
    struct pool *p      = pool_open(perm, 2);
    u8          *before = perm->begin;
    i64          calls  = arena_system_calls();
    for (int turn = 0; turn < 100; turn++) pool_run(p, 10, nothing, NULL);
    CHECK_EQ(perm->begin, before);
    CHECK_EQ(arena_system_calls(), calls);
    pool_close(p);
}

static void nested(void *context, i64 block, i32 worker)
{
    (void)block, (void)worker;
    pool_run(context, 2, nothing, NULL);
}

TEST(a_job_inside_a_job_is_our_fault)
{
    int   status;
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        struct pool *p = pool_open(perm, 2);
        pool_run(p, 2, nested, p);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(affinity_limits_the_threads)
{
    int   status;
    i32   machine = pool_machine_threads();
    pid_t child   = fork();
    CHECK(machine >= 1);
    CHECK(machine <= sysconf(_SC_NPROCESSORS_CONF));
    if (child == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        if (sched_setaffinity(0, sizeof one, &one)) _exit(77);
        _exit(pool_machine_threads());
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) SKIP("affinity cannot be set here");
    CHECK_EQ(WEXITSTATUS(status), 1);
}

static void write_file(struct arena *perm, struct str root, const char *path, const char *text)
{
    struct os  *os   = os_real();
    struct str  full = str_cat(perm, root, str_of(path));
    struct file f;
    i64         dir = full.len;
    while (full.data[dir] != '/') dir--;
    CHECK_EQ(os->make_dir(os, str_sub(full, 0, dir), NULL), STATUS_OK);
    CHECK_EQ(os->create(os, full, &f, NULL), STATUS_OK);
    CHECK_EQ(os->write(os, f, str_of(text), NULL), STATUS_OK);
    CHECK_EQ(os->close(os, &f, NULL), STATUS_OK);
}

TEST(a_quota_limits_the_threads)
{
    char dir[] = "/tmp/frugal-pool-XXXXXX";
    CHECK(mkdtemp(dir));
    struct str root = str_of(dir);
    write_file(perm, root, "/a/cpu.max", "250000 100000\n");
    write_file(perm, root, "/a/b/cpu.max", "max 100000\n");
    write_file(perm, root, "/a/b/c/cpu.max", "50000 100000\n");
    write_file(perm, root, "/cpu/old/cpu.cfs_quota_us", "400000\n");
    write_file(perm, root, "/cpu/old/cpu.cfs_period_us", "100000\n");
    write_file(perm, root, "/cpu/free/cpu.cfs_quota_us", "-1\n");
    write_file(perm, root, "/cpu/free/cpu.cfs_period_us", "100000\n");

    CHECK_EQ(pool_quota_cores(STR("0::/a\n"), root), 3);   /* two and a half */
    CHECK_EQ(pool_quota_cores(STR("0::/a/b\n"), root), 3); /* the parent's */
    CHECK_EQ(pool_quota_cores(STR("0::/a/b/c\n"), root), 1);
    CHECK_EQ(pool_quota_cores(STR("0::/\n"), root), INT64_MAX);
    CHECK_EQ(pool_quota_cores(STR("0::/unseen/x\n"), root), INT64_MAX);
    CHECK_EQ(pool_quota_cores(STR("5:memory:/old\n4:cpu,cpuacct:/old\n0::/\n"), root), 4);
    CHECK_EQ(pool_quota_cores(STR("4:cpuacct,cpu:/free\n"), root), INT64_MAX);
    CHECK_EQ(pool_quota_cores(STR("nonsense\n::::\n\n4:cpu"), root), INT64_MAX);
    CHECK_EQ(pool_quota_cores(STR(""), root), INT64_MAX);
    CHECK_EQ(system(str_fmt(perm, "rm -r %s", dir).data), 0);
}
