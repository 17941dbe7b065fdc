/* test_kills.c - runs under caps of dollars and seconds, killed and resumed at random: what is printed at the end is
 * what the ledger and the report have, to a hundredth of a cent, and no cap is passed by more than was promised:
 *
 *     printed <= cap + one step + one save
 *     lived   <= that, and what no file has of each start
 *
 * All of it is measured, nothing assumed. Step and save are the slowest of the start that ends: a step from one event
 * to the next, a save from its beginning to its event, the last one until all is closed. An evaluation, and an older
 * save that is still being written at the last step, have to fit into what was kept back; but where the kernel says
 * that the thread was ready after its last step and had no core (schedstat), that is nobody's promise. What no file has
 * of a killed start, its beginning and what came after its last word, is what it lived and did not add to spent.json
 * (that it is less than a tenth of a second is test_tally.c's to show).
 *
 * Kills go on for CHECK_SECONDS (5), from a minute on (./check --long) until there were 200. */
#include "base/rng.h"
#include "base/thread.h"
#include "harness.h"
#include "job/job.h"
#include "run/report.h"
#include "run/tally.h"
#include "support/folder.h"
#include "support/small_run.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 200, KILLS_A_RUN = 10 };

static const f64 usd_s = 1; /* of the machine */
static const f64 cap_s = 0.8;

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
    s.train.log_every   = 1; /* so that the slowest step is seen */
    return s;
}

/* Of a run that ended, and what it measured by its events. */
struct ended {
    struct train_result result;
    i64                 steps;
    f64                 step_s, save_s; /* the slowest */
    f64                 last_save_s;    /* after the last step */
    f64  starved_s;       /* after the last step, but for its save: ready, without a core */
    f64  own_s;           /* on its own clock, until that stopped */
    i64  at_ns, delay_ns; /* of the last event */
    int  schedstat;
    char after[256]; /* the last step: its events, each after so many milliseconds */
};

/* Seconds since the last event. */
static f64 mark(struct ended *r, const char *what)
{
    i64 len = (i64)strlen(r->after);
    i64 now = now_ns(), delay = thread_delay_ns(&r->schedstat), since = now - r->at_ns;
    r->starved_s += (f64)(delay - r->delay_ns) * 1e-9;
    r->at_ns    = now;
    r->delay_ns = delay;
    snprintf(r->after + len, sizeof r->after - (size_t)len, " %s %.1f", what, (f64)since * 1e-6);
    return (f64)since * 1e-9;
}

static void on_step(void *context, const struct event_step *e)
{
    struct ended *r = context;
    f64           s = mark(r, "step");
    if (r->steps++) r->step_s = fmax(r->step_s, s);
    r->last_save_s = 0;
    r->starved_s   = 0;
    r->after[0]    = 0;
    (void)e;
}

static void on_eval(void *context, const struct event_eval *e)
{
    mark(context, "eval");
    (void)e;
}

/* One that is written beside the steps says itself what it took; for the last one, and for one that is still being
 * written when the steps end, the run waits. */
static void on_checkpoint(void *context, const struct event_checkpoint *e)
{
    struct ended *r         = context;
    f64           starved_s = r->starved_s, s = mark(r, checkpoint_kind_name(e->what).data);
    if (e->what != CHECKPOINT_SAVED) return;
    r->last_save_s += s;
    r->save_s    = fmax(r->save_s, fmax(r->last_save_s, e->blocked_s + e->persist_s));
    r->starved_s = starved_s;
}

/* Closing is the end of the last save. */
static void on_done(void *context, const struct event_done *e)
{
    struct ended *r         = context;
    f64           starved_s = r->starved_s;
    r->save_s               = fmax(r->save_s, r->last_save_s + mark(r, "done"));
    r->starved_s            = starved_s;
    (void)e;
}

/* A start in a process of its own, killed after so long (0: not); returns what it lived. *ended: of one that did. */
static f64 life(const struct settings *s, i64 kill_after_ns, struct ended *ended)
{
    int ends[2];
    i64 begin_ns = now_ns();
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (!pid) {
        struct settings   own  = *s;
        struct ended      r    = { .schedstat = -1 };
        struct subscriber hear = { .context       = &r,
                                   .on_step       = on_step,
                                   .on_eval       = on_eval,
                                   .on_checkpoint = on_checkpoint,
                                   .on_done       = on_done };
        struct arena      room = arena_open((i64)1 << 32);
        struct job        job  = { .os       = os_real(),
                                   .perm     = &room,
                                   .settings = &own,
                                   .kind     = STR("train"),
                                   .name     = STR("killed") };
        job.bill =
            bill_new(&room, clock_new(&room, os_real())); /* the process is older than the run */
        enum status st = job_train(&job, &hear, &r.result, NULL);
        i64         terms[TERM_COUNT];
        r.own_s = (f64)clock_terms(bill_clock(job.bill), terms) * 1e-9;
        _exit(write(ends[1], &r, sizeof r) == (ssize_t)sizeof r ? (int)st : 99);
    }
    close(ends[1]);
    if (kill_after_ns) {
        usleep((useconds_t)(kill_after_ns / 1000));
        kill(pid, SIGKILL);
    }
    int  status;
    bool told = read(ends[0], ended, sizeof *ended) == (ssize_t)sizeof *ended;
    waitpid(pid, &status, 0);
    close(ends[0]);
    if (!kill_after_ns) {
        CHECK(told && WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), ended->result.steps ? 0 : STATUS_NO); /* of all starts */
    }
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

/* What spent.json has. */
static f64 tallied_s(const struct settings *s, struct arena scratch)
{
    return (f64)tally_read(os_real(), s->checkpoint.dir, &scratch).spent.ns * 1e-9;
}

static bool go_on(i64 kills, i64 begin_ns)
{
    const char *text  = getenv("CHECK_SECONDS");
    f64         limit = text ? atof(text) : 5;
    bool        time  = limit >= 60 || (f64)(now_ns() - begin_ns) * 1e-9 < limit;
    return kills < 2 * KILLS_A_RUN || (kills < KILLS && time); /* both kinds of cap */
}

TEST(caps_hold_over_kills_and_all_who_count_agree)
{
#ifndef FRUGAL_HAVE_SQLITE
    SKIP("built without SQLite");
#endif
    struct rng_key key   = { .seed = test_seed() };
    i64            kills = 0, runs = 0, none = 0, begin_ns = now_ns();
    f64            over = -INFINITY, lost = 0, starved = 0;
    while (go_on(kills, begin_ns)) {
        struct arena    here    = arena_part(perm, 1 << 26);
        struct settings s       = a_run(folder_new(&here), runs++ % 2, &here);
        struct ended    r       = { 0 };
        f64             lived_s = 0;
        for (i64 i = 0; i < KILLS_A_RUN; i++, kills++)
            lived_s += life(&s, 5000000 + (i64)(rng_u32(key, (u64)kills) % 60) * 1000000, &r);
        f64 unseen_s = lived_s - tallied_s(&s, here);
        f64 last_s   = life(&s, 0, &r);
        f64 usd = r.result.dollars, printed_s = r.result.seconds;
        CHECK_EQ(r.result.stopped, STOP_BUDGET);
        CHECK_NEAR(reported_usd(s.run.ledger, &here), usd, 1e-4);
        CHECK_NEAR(usd, printed_s * usd_s, 1e-6);
        CHECK_NEAR(printed_s, tallied_s(&s, here), 1e-6);
        CHECK(printed_s <= lived_s + last_s);
        none += !r.steps; /* those before have used it up: what it costs is its own start */
        if (!r.steps) continue;
        f64 most_s = cap_s + r.step_s + r.save_s + r.starved_s;
        if (printed_s > most_s)
            harness_fail(
                __FILE__, __LINE__,
                "%.4f s printed with a cap of %g s, a step of %.4f s, a save of %.4f s and "
                "%.4f s without a core; after its last step:%s",
                printed_s, cap_s, r.step_s, r.save_s, r.starved_s, r.after);
        f64 start_s = last_s - r.own_s; /* of the last process, and its exit */
        if (lived_s + last_s > most_s + unseen_s + start_s)
            harness_fail(__FILE__, __LINE__,
                         "%.4f s lived, %.4f s of them unseen, with a cap of %g s",
                         lived_s + last_s, unseen_s + start_s, cap_s);
        over    = fmax(over, printed_s - cap_s);
        starved = fmax(starved, r.starved_s);
        lost    = fmax(lost, unseen_s / KILLS_A_RUN);
    }
    CHECK(none < runs / 2 + 1); /* most of them did end with steps of their own */
    printf("(%lld kills, at most %.3f s over, without a core %.3f s; of a killed start %.3f s are "
           "in no "
           "file) ",
           (long long)kills, over, starved, lost);
}

/* Each start of a machine with a minimum costs that much at least: a start for which less is left trains nothing. */
TEST(a_cap_counts_the_minimum_of_each_start)
{
#ifndef FRUGAL_HAVE_SQLITE
    SKIP("built without SQLite");
#endif
    static const f64 minimum_usd = 7.2 / 60; /* the catalogue's rule for it: a minute */
    struct settings  s           = a_run(folder_new(perm), true, perm);
    struct ended     r           = { 0 };
    f64              tallied     = 0;
    i64              starts      = 1;
    s.run.machine                = STR("aws/p4d.24xlarge");
    s.train.usd_hour             = 7.2;
    s.train.max_dollars          = 2.5 * minimum_usd;
    for (i64 i = 0; i < 2; i++) {
        life(&s, 300000000, &r);
        starts +=
            tallied_s(&s, *perm) > tallied; /* a busy machine may kill one before its first word */
        tallied = tallied_s(&s, *perm);
    }
    if (starts < 3) SKIP("too busy");
    life(&s, 0, &r);
    CHECK_EQ(r.result.stopped, STOP_BUDGET);
    CHECK_EQ(r.steps, 0); /* half a minimum was left */
    CHECK_NEAR(r.result.dollars, 3 * minimum_usd, 1e-9);
    CHECK(r.result.dollars <= s.train.max_dollars + minimum_usd);
    CHECK_NEAR(reported_usd(s.run.ledger, perm), r.result.dollars, 1e-9);
}
