/* test_lessons.c - what a plan learns from runs: medians of the newest, of the same device, precision and
 * rates only, and little from few. */
#include "harness.h"
#include "plan/learn.h"
#include "plan/lessons.h"
#include "run/report.h"
#include "run/run_int.h"
#include "support/folder.h"
#include <math.h>
#ifndef FRUGAL_HAVE_SQLITE
TEST(nothing_to_learn_from) { SKIP("built without SQLite"); }
#else

static const i64 s_ns = 1000000000;

struct world {
    struct ledger *l;
    struct str     path;
    struct arena  *perm;
    i64            made;
};

static struct world world_new(struct arena *perm)
{
    struct world w = { .perm = perm };
    w.path         = str_cat(perm, folder_new(perm), STR("/ledger.db"));
    CHECK_EQ(ledger_open(os_real(), w.path, perm, &w.l, NULL), STATUS_OK);
    return w;
}

struct story { /* of a run: 100 steps */
    const char *device, *precision, *rates, *boot, *settings;
    f64         told_s, took_s;              /* of a step */
    f64         waited_s;                    /* for data, in all */
    i64         ranks, machines, sent_bytes; /* several, which sent for a second */
};

static void put(struct world *w, enum ledger_table table, const void *row)
{
    CHECK_EQ(ledger_put(w->l, table, row, NULL), STATUS_OK);
}

/* Runs follow one another, unless a boot is named: then they lie side by side on that machine. */
static void tell(struct world *w, struct story t)
{
    struct run_row        run;
    struct segment_row    s;
    struct prediction_row p              = { .seconds = NAN, .usd = NAN, .step_s = t.told_s };
    i64                   ns[TERM_COUNT] = { [TERM_compute]  = (i64)(100 * t.took_s * 1e9),
                                             [TERM_loading]  = (i64)(t.waited_s * 1e9),
                                             [TERM_starting] = 3 * s_ns };
    row_clear(&ledger_tables[LEDGER_TABLE_run], &run);
    row_clear(&ledger_tables[LEDGER_TABLE_segment], &s);
    run.id       = str_fmt(w->perm, "run%06lld", (long long)++w->made);
    run.settings = str_of(t.settings ? t.settings : "");
    s.id         = str_fmt(w->perm, "seg%06lld", (long long)w->made);
    s.run        = run.id;
    s.boot       = t.boot ? str_of(t.boot) : s.id;
    s.machine    = STR("host");
    s.device     = str_of(t.device ? t.device : "a processor");
    s.precision = p.precision = str_of(t.precision ? t.precision : "fp32");
    s.begin_wall_ns           = t.boot ? s_ns : w->made * 1000000 * s_ns;
    s.step                    = 100;
    s.samples                 = 1600;
    s.ranks                   = t.ranks;
    s.machines                = t.machines;
    s.sent_bytes              = t.sent_bytes;
    s.exchange_ns             = t.ranks ? s_ns : 0;
    segment_set_terms(&s, ns);
    p.id     = s.id;
    p.run    = run.id;
    p.rates  = str_of(t.rates ? t.rates : "table");
    p.device = str_eq(s.device, STR("NVIDIA H200")) ? STR("H200-141") : s.device;
    put(w, LEDGER_TABLE_run, &run);
    put(w, LEDGER_TABLE_segment, &s);
    put(w, LEDGER_TABLE_prediction, &p);
}

static struct lessons *learn(struct world *w)
{
    struct lessons *l;
    CHECK_EQ(lessons_read(w->l, catalogue_new(w->perm), w->perm, &l, NULL), STATUS_OK);
    return l;
}

static struct lesson pace(struct world *w, const char *device, const char *precision,
                          const char *rates)
{
    return lesson_pace(learn(w), str_of(device), str_of(precision), str_of(rates));
}

TEST(steps_that_took_longer_are_expected_to)
{
    struct world w = world_new(perm);
    CHECK_EQ(pace(&w, "a processor", "fp32", "table").runs, 0);
    CHECK(isnan(pace(&w, "a processor", "fp32", "table").value));
    tell(&w, (struct story){ .told_s = 0.1, .took_s = 0.2 });
    struct lesson one = pace(&w, "a processor", "fp32", "table");
    CHECK_EQ(one.runs, 1);
    CHECK_NEAR(one.value, cbrt(2), 1e-6); /* one against a prior of two */
    for (i64 i = 0; i < 30; i++) tell(&w, (struct story){ .told_s = 0.1, .took_s = 0.2 });
    struct lesson many = pace(&w, "a processor", "fp32", "table");
    CHECK_EQ(many.runs, 16);
    CHECK_NEAR(many.value, pow(2, 16.0 / 18), 1e-6);
    tell(&w, (struct story){ .told_s = 0.1, .took_s = 90 }); /* one bad day */
    CHECK_NEAR(pace(&w, "a processor", "fp32", "table").value, many.value, 1e-6);
    for (i64 i = 0; i < 16; i++) tell(&w, (struct story){ .told_s = 0.1, .took_s = 0.05 });
    CHECK(pace(&w, "a processor", "fp32", "table").value < 1); /* the newest count */
    ledger_close(w.l);
}

TEST(a_run_teaches_of_its_own_device_precision_and_rates)
{
    struct world w = world_new(perm);
    for (i64 i = 0; i < 5; i++) {
        tell(&w, (struct story){ .told_s = 0.1, .took_s = 0.13 });
        tell(&w, (struct story){
                     .device = "NVIDIA H200", .precision = "bf16", .told_s = 1, .took_s = 0.8 });
    }
    CHECK_EQ(pace(&w, "another processor", "fp32", "table").runs, 0);
    CHECK_EQ(pace(&w, "a processor", "bf16", "table").runs, 0);
    CHECK_EQ(pace(&w, "a processor", "fp32", "a newer table").runs, 0);
    CHECK_EQ(pace(&w, "a processor", "fp32", "table").runs, 5);
    CHECK(pace(&w, "H200-141", "bf16", "table").value < 1); /* by the driver's name */
    ledger_close(w.l);
}

/* A prediction for one device says nothing of a run that was made on another after all. */
TEST(a_run_on_another_machine_than_predicted_teaches_nothing)
{
    struct world          w = world_new(perm);
    struct prediction_row p = { .id = STR("seg000001"), .run = STR("run000001"), .step_s = 0.1 };
    tell(&w, (struct story){ .told_s = 0.1, .took_s = 0.2 });
    p.device    = STR("H200-141");
    p.precision = STR("fp32");
    p.rates     = STR("table");
    put(&w, LEDGER_TABLE_prediction, &p); /* in the place of the one that fits */
    CHECK_EQ(pace(&w, "H200-141", "fp32", "table").runs, 0);
    CHECK_EQ(pace(&w, "a processor", "fp32", "table").runs, 0);
    ledger_close(w.l);
}

TEST(short_runs_and_shared_machines_teach_no_pace)
{
    struct world w = world_new(perm);
    tell(&w, (struct story){ .told_s = 0.001, .took_s = 0.002 }); /* 0.2 s in all */
    CHECK_EQ(pace(&w, "a processor", "fp32", "table").runs, 0);
    tell(&w, (struct story){ .boot = "b", .told_s = 0.1, .took_s = 0.2 });
    CHECK_EQ(pace(&w, "a processor", "fp32", "table").runs, 1);
    tell(&w, (struct story){ .boot = "b", .told_s = 0.1, .took_s = 0.2 }); /* beside it */
    CHECK_EQ(pace(&w, "a processor", "fp32", "table").runs, 0);
    ledger_close(w.l);
}

/* Foretold by a plan of the same settings, on this machine, before the run. */
TEST(plans_are_found_by_settings)
{
    struct world          w = world_new(perm);
    struct prediction_row p = { .id = STR("plan"), .seconds = 9, .usd = 9, .step_s = 0.05 };
    tell(&w, (struct story){ .settings = "train.lr=0.1\n", .took_s = 0.1, .told_s = NAN });
    p.settings  = report_settings_key(STR("train.lr=0.1\nrun.name=other\n"), perm);
    p.device    = STR("a processor");
    p.precision = STR("fp32");
    p.rates     = STR("table");
    put(&w, LEDGER_TABLE_prediction, &p);
    CHECK_NEAR(pace(&w, "a processor", "fp32", "table").value, cbrt(2), 1e-6);
    p.made_wall_ns = INT64_MAX; /* too late */
    put(&w, LEDGER_TABLE_prediction, &p);
    CHECK_EQ(pace(&w, "a processor", "fp32", "table").runs, 0);
    ledger_close(w.l);
}

/* What ranks sent each other over a network, one on each machine, is its rate; of two on a machine a part never left
 * it. Steps of several ranks, which wait for one another, teach no pace. */
TEST(ranks_teach_what_the_network_gives)
{
    struct world w   = world_new(perm);
    const char  *c7i = "train.lr=0.1\nrun.machine=aws/c7i.48xlarge\n",
               *c7a  = "run.machine=aws/c7a.4xlarge\n";
    tell(&w, (struct story){ .told_s     = 0.1,
                             .took_s     = 0.9,
                             .settings   = c7i,
                             .ranks      = 2,
                             .machines   = 2,
                             .sent_bytes = 900000000 });
    tell(&w, (struct story){ .told_s     = 0.1,
                             .took_s     = 0.9,
                             .settings   = c7i,
                             .ranks      = 4,
                             .machines   = 4,
                             .sent_bytes = 1000000000 });
    tell(&w, (struct story){ .told_s     = 0.1,
                             .took_s     = 0.9,
                             .settings   = c7i,
                             .ranks      = 3,
                             .machines   = 3,
                             .sent_bytes = 1100000000 });
    tell(&w, (struct story){ .told_s     = 0.1,
                             .took_s     = 0.9,
                             .settings   = c7i,
                             .ranks      = 8,
                             .machines   = 4,
                             .sent_bytes = 90000 });
    tell(&w, (struct story){ .told_s     = 0.1,
                             .took_s     = 0.9,
                             .settings   = c7a,
                             .ranks      = 4,
                             .machines   = 2,
                             .sent_bytes = 90000 });
    struct lessons *l   = learn(&w);
    struct lesson   net = lesson_net_bytes_s(l, STR("aws/c7i.48xlarge"));
    CHECK_EQ(net.runs, 3);
    CHECK_NEAR(net.value, 1e9, 1);
    CHECK_EQ(lesson_net_bytes_s(l, STR("aws/c7a.4xlarge")).runs, 0);
    CHECK_EQ(lesson_pace(l, STR("a processor"), STR("fp32"), STR("table")).runs, 0);
    ledger_close(w.l);
}

TEST(machines_are_known_by_the_name_that_runs_gave_them)
{
    struct world w = world_new(perm);
    tell(&w,
         (struct story){ .settings = "run.machine=aws/p4d.24xlarge\n", .told_s = 1, .took_s = 1 });
    struct lessons *l = learn(&w);
    CHECK(lessons_ran_on(l, STR("aws/p4d.24xlarge")));
    CHECK(!lessons_ran_on(l, STR("aws/p4d")));
    ledger_close(w.l);
}

TEST(starting_saving_and_loading_are_those_of_earlier_runs)
{
    struct world          w = world_new(perm);
    struct lesson         kept;
    struct checkpoint_row c = { STR("seg000001"), 5, STR("kept"), 1000, s_ns, s_ns, 1, 0, NAN };
    tell(&w,
         (struct story){
             .settings = "data.path=a\ntrain.lr=1\n", .told_s = 1, .took_s = 1, .waited_s = 60 });
    tell(&w, (struct story){ .settings = "data.path=b\n", .told_s = 1, .took_s = 1 });
    put(&w, LEDGER_TABLE_checkpoint, &c);
    struct lessons *l = learn(&w);
    CHECK_NEAR(lesson_start_s(l, STR("a processor")).value, 3, 1e-9);
    CHECK_EQ(lesson_start_s(l, STR("another")).runs, 0);
    CHECK_EQ(lesson_boot_s(l).runs, 0);
    CHECK_NEAR(lesson_stall_bytes_s(l, STR("a processor")).value, 1000, 1e-9);
    struct lesson load = lesson_load_s(l, STR("host"), STR("data.path=a\nmodel.kind=gpt\n"), &kept);
    CHECK_NEAR(load.value, 160.0 / 1600, 1e-9); /* it waited: that is what loading gives */
    CHECK_EQ(kept.runs, 0);
    CHECK_EQ(lesson_load_s(l, STR("host"), STR("data.path=b\n"), &kept).runs, 0);
    CHECK_NEAR(kept.value, 100.0 / 1600, 1e-9); /* it did not: loading is at least as quick */
    CHECK_EQ(lesson_load_s(l, STR("elsewhere"), STR("data.path=a\n"), &kept).runs, 0);
    CHECK_EQ(lesson_load_s(l, STR("host"), STR("data.path=c\n"), &kept).runs + kept.runs, 0);
    ledger_close(w.l);
}

static bool is_noted(const struct plan_notes *n, const char *begin)
{
    for (i64 i = 0; i < n->count; i++)
        if (str_starts(n->text[i], str_of(begin))) return true;
    return false;
}

/* Two devices of one model, and one that never ran: the first two learn, and it is told once. */
TEST(a_plan_takes_what_the_ledger_says_and_tells_it)
{
    struct world         w        = world_new(perm);
    struct device        d[3]     = { { .model = STR("a processor"), .rates = rates_of_cpus() },
                                      { .model = STR("a processor"), .rates = rates_of_cpus() },
                                      { .model = STR("another"), .rates = rates_of_cpus() } };
    struct str           key      = lesson_rates_key(rates_print(rates_of_cpus(), perm), perm);
    struct plan_limits   limits   = { .runs = 1 };
    struct plan_workload workload = { 0 };
    struct plan_notes    notes = { 0 }, none = { 0 };
    struct plan_learner  of = { .ledger       = w.path,
                                .catalogue    = catalogue_new(perm),
                                .devices      = d,
                                .device_count = 3,
                                .limits       = &limits,
                                .workload     = &workload };
    tell(&w, (struct story){ .rates = str_z(perm, key), .told_s = 0.1, .took_s = 0.2 });
    ledger_close(w.l);
    plan_learn(os_real(), &of, &notes, perm);
    CHECK_NEAR(d[0].pace[DT_F32], cbrt(2), 1e-6);
    CHECK_NEAR(d[1].pace[DT_F32], cbrt(2), 1e-6);
    CHECK_EQ(d[0].pace[DT_BF16], 0);
    CHECK_NEAR(d[0].warm_s, 3, 1e-9);
    CHECK_EQ(d[2].pace_runs[DT_F32], 0);
    CHECK_EQ(d[2].warm_s, 0);
    CHECK_EQ(notes.count, 2);
    CHECK(is_noted(&notes, "steps on a processor in fp32: learned from 1 runs: x 1.26"));
    CHECK(is_noted(&notes, "starting on a processor takes 3 s"));

    of.ledger = STR(""); /* nothing to learn from: said only of data that is to be read */
    of.loads  = true;
    plan_learn(os_real(), &of, &none, perm);
    CHECK_EQ(none.count, 1);
    CHECK(is_noted(&none, "load_s 0"));
}

TEST(notes_that_there_is_no_room_for_are_dropped)
{
    struct plan_notes n = { 0 };
    for (i64 i = 0; i < 2 * COUNT_OF(n.text); i++) plan_note(&n, STR("a note"));
    CHECK_EQ(n.count, COUNT_OF(n.text));
}
#endif
