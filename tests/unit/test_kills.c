/* test_kills.c - runs under caps of dollars and seconds, killed and resumed at random: what is printed at the end is
 * what the ledger and the report have, to a hundredth of a cent, and no cap is passed by more than was promised. */
#include "base/rng.h"
#include "harness.h"
#include "job/job.h"
#include "run/report.h"
#include "support/folder.h"
#include "support/small_run.h"
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 200, KILLS_A_RUN = 10 };

static const f64 usd_s = 1; /* of the machine */
static const f64 cap_s = 0.8;

/* Of a killed start nobody counts what came after its last word, at most so much (run/tally.h: a tenth of a second,
 * and what a busy machine adds), and what the system needed to load the program. */
static const f64 unseen_s = 0.25;

static i64 now_ns(void) { return os_real()->now_ns(os_real()); }

static struct settings a_run(struct str folder, bool dollars, struct arena *perm)
{
    struct settings s   = small_run(perm, folder.data, "[flatten, {dense: 8}, relu, {dense: 4}]");
    s.run.ledger        = str_cat(perm, folder, STR("/ledger.db"));
    s.run.market        = STR("none");
    s.train.usd_hour    = 3600 * usd_s;
    s.train.epochs      = 1000000000;
    s.train.eval_every  = 1000;
    s.train.max_dollars = dollars ? cap_s * usd_s : NAN;
    s.train.max_seconds = dollars ? NAN : cap_s;
    s.checkpoint.dir    = str_cat(perm, folder, STR("/kept"));
    s.checkpoint.every  = STR("2000");
    s.checkpoint.keep   = 2;
    return s;
}

/* A start in a process of its own, killed after so long (0: not); returns what it lived. *result: of one that ended. */
static f64 life(const struct settings *s, i64 kill_after_ns, struct train_result *result,
                struct arena *perm)
{
    int ends[2];
    i64 begin_ns = now_ns();
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (!pid) {
        struct settings     own  = *s;
        struct train_result r    = { 0 };
        struct arena        room = arena_open((i64)1 << 32);
        struct job          job  = { .os       = os_real(),
                                     .perm     = &room,
                                     .settings = &own,
                                     .kind     = STR("train"),
                                     .name     = STR("killed") };
        job.bill =
            bill_new(&room, clock_new(&room, os_real())); /* the process is older than the run */
        enum status st = job_train(&job, NULL, &r, NULL);
        _exit(write(ends[1], &r, sizeof r) == (ssize_t)sizeof r ? (int)st : 99);
    }
    close(ends[1]);
    if (kill_after_ns) {
        usleep((useconds_t)(kill_after_ns / 1000));
        kill(pid, SIGKILL);
    }
    int  status;
    bool told = read(ends[0], result, sizeof *result) == (ssize_t)sizeof *result;
    waitpid(pid, &status, 0);
    close(ends[0]);
    (void)perm;
    if (!kill_after_ns) CHECK(told && WIFEXITED(status) && !WEXITSTATUS(status));
    return (f64)(now_ns() - begin_ns) * 1e-9;
}

static f64 reported_usd(struct str path, struct arena *perm)
{
    struct arena     room = arena_part(perm, 1 << 24);
    struct ledger   *l;
    struct run_bill *bills;
    i64              count;
    CHECK_EQ(ledger_open(os_real(), path, &room, &l, NULL), STATUS_OK);
    CHECK_EQ(report_read(l, os_real()->wall_ns(os_real()), &room, &bills, &count, NULL), STATUS_OK);
    CHECK_EQ(count, 1);
    f64 usd = (f64)bills[0].nusd * 1e-9;
    ledger_close(l);
    return usd;
}

TEST(caps_hold_over_kills_and_all_who_count_agree)
{
#ifndef FRUGAL_HAVE_SQLITE
    SKIP("built without SQLite");
#endif
    struct rng_key key   = { .seed = test_seed() };
    i64            kills = 0, runs = 0;
    f64            over = 0;
    while (kills < KILLS) {
        struct arena        here    = arena_part(perm, 1 << 26);
        struct str          folder  = folder_new(&here);
        struct settings     s       = a_run(folder, runs++ % 2, &here);
        struct train_result r       = { 0 };
        f64                 lived_s = 0;
        i64                 lives   = 0;
        for (; lives < KILLS_A_RUN; lives++, kills++)
            lived_s +=
                life(&s, 5000000 + (i64)(rng_u32(key, (u64)kills) % 60) * 1000000, &r, &here);
        lived_s += life(&s, 0, &r, &here);
        CHECK_EQ(r.stopped, STOP_BUDGET);
        CHECK_NEAR(reported_usd(s.run.ledger, &here), r.dollars, 1e-4);
        CHECK_NEAR(r.dollars, r.seconds * usd_s, 1e-6);
        CHECK(r.seconds <= lived_s);
        f64 most_s =
            cap_s + 0.2 + unseen_s * (f64)(lives + 1); /* a step, a save, and what nobody saw */
        over = fmax(over, lived_s - cap_s);
        if (lived_s > most_s)
            harness_fail(__FILE__, __LINE__, "%.3f s lived with a cap of %g s, %.3f s printed",
                         lived_s, cap_s, r.seconds);
    }
    printf("(%lld kills, at most %.3f s over) ", (long long)kills, over);
}
