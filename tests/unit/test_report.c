/* test_report.c - bills made from rows: the parts sum exactly, redone work counts once, unknown
 * stays unknown, and what makes one run cheaper than another sums to the difference. */
#include "harness.h"
#include "run/report.h"
#include "run/run_int.h"
#include "support/folder.h"
#ifndef FRUGAL_HAVE_SQLITE
TEST(nothing_to_report) { SKIP("built without SQLite"); }
#else

static const i64 s_ns = 1000000000;

struct world {
    struct ledger *l;
    struct arena  *perm;
    u64            state;
    i64            made;
};

static struct world world_new(struct arena *perm, u64 seed)
{
    struct world w = { .perm = perm, .state = seed };
    CHECK_EQ(ledger_open(os_real(), str_cat(perm, folder_new(perm), STR("/ledger.db")), perm, &w.l,
                         NULL),
             STATUS_OK);
    return w;
}

static i64 draw(struct world *w, i64 below)
{
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (i64)(w->state >> 24) % below;
}

static void put(struct world *w, enum ledger_table table, const void *row)
{
    CHECK_EQ(ledger_put(w->l, table, row, NULL), STATUS_OK);
}

static struct run_row run_row(struct world *w, const char *name)
{
    struct run_row r;
    row_clear(&ledger_tables[LEDGER_TABLE_run], &r);
    r.id            = str_fmt(w->perm, "run%06lld", (long long)++w->made);
    r.name          = str_of(name);
    r.unit          = STR("samples");
    r.begin_wall_ns = w->made * s_ns;
    return r;
}

static struct segment_row segment_row(struct world *w, struct str run)
{
    struct segment_row s;
    row_clear(&ledger_tables[LEDGER_TABLE_segment], &s);
    s.id            = str_fmt(w->perm, "seg%06lld", (long long)++w->made);
    s.run           = run;
    s.boot          = s.id; /* a machine of its own */
    s.price         = STR("p");
    s.ended         = STR("end");
    s.begin_wall_ns = w->made * s_ns;
    return s;
}

static void put_price(struct world *w, f64 usd_hour)
{
    struct price_row p = { .id = STR("p"), .usd_hour = usd_hour };
    put(w, LEDGER_TABLE_price, &p);
}

static struct run_bill *read_all(struct world *w, i64 now_wall_ns, i64 *count)
{
    struct run_bill *b;
    CHECK_EQ(report_read(w->l, now_wall_ns, w->perm, &b, count, NULL), STATUS_OK);
    return b;
}

TEST(parts_sum_to_the_bill_whatever_happened)
{
    struct world w = world_new(perm, test_seed());
    i64          count, sum_ns = 0, sum_own = 0;
    CHECK_EQ(ledger_begin(w.l, NULL), STATUS_OK);
    for (i64 p = 0; p < 5; p++) {
        struct price_row price = { .id            = str_fmt(perm, "p%lld", (long long)p),
                                   .usd_hour      = (f64)draw(&w, 100000) / 997,
                                   .granularity_s = draw(&w, 2) * draw(&w, 3600),
                                   .minimum_s     = draw(&w, 2) * draw(&w, 90),
                                   .free_s        = draw(&w, 4000) };
        put(&w, LEDGER_TABLE_price, &price);
    }
    for (i64 i = 0; i < 60; i++) {
        struct run_row run = run_row(&w, "any");
        put(&w, LEDGER_TABLE_run, &run);
        for (i64 k = draw(&w, 4); k >= 0; k--) {
            struct segment_row s = segment_row(&w, run.id);
            i64                ns[TERM_COUNT];
            for (i64 t = 0; t < TERM_COUNT; t++) ns[t] = draw(&w, 3) ? draw(&w, 1000 * s_ns) : 0;
            segment_set_terms(&s, ns);
            s.boot         = str_fmt(perm, "boot%lld", (long long)draw(&w, 3));
            s.gpus         = draw(&w, 3);
            s.price        = str_fmt(perm, "p%lld", (long long)draw(&w, 5));
            s.step         = draw(&w, 1000);
            s.samples      = s.step * 32;
            s.target_ns    = draw(&w, 2) * draw(&w, s.metered_ns + 1);
            s.requests_usd = draw(&w, 3) ? (f64)draw(&w, 10000) / 9973 : NAN;
            put(&w, LEDGER_TABLE_segment, &s);
            struct checkpoint_row c = {
                s.id, 1, STR("s3://b/1"), draw(&w, 1ll << 40), 0, 0, 0, draw(&w, 2) * s_ns, 0.02
            };
            if (draw(&w, 2)) put(&w, LEDGER_TABLE_checkpoint, &c);
            struct interruption_row n = { .segment = s.id,
                                          .kind    = draw(&w, 2) ? STR("aws") : STR("signal") };
            if (draw(&w, 2)) put(&w, LEDGER_TABLE_interruption, &n);
        }
    }
    CHECK_EQ(ledger_commit(w.l, NULL), STATUS_OK);
    struct run_bill *b = read_all(&w, 1000000 * s_ns, &count);
    CHECK_EQ(count, 60);
    for (i64 i = 0; i < count; i++) {
        i64 nusd = 0, ns = 0;
        for (i64 k = 0; k < BILL_PARTS; k++) nusd += b[i].part_nusd[k];
        for (i64 k = 0; k < TERM_COUNT; k++) ns += b[i].term_ns[k];
        CHECK(b[i].priced);
        CHECK_EQ(nusd, b[i].nusd);
        CHECK_EQ(ns, b[i].metered_ns);
        CHECK(b[i].own_ns <= b[i].metered_ns);
        CHECK(!b[i].reached || (b[i].target_nusd >= 0 && b[i].target_nusd <= b[i].nusd));
        sum_ns += ns, sum_own += b[i].own_ns;
    }
    CHECK(sum_own < sum_ns); /* or no two ever shared a machine */
    for (i64 i = 0; i + 1 < count; i++) {
        i64 causes[CAUSE_COUNT], sum = b[i].nusd;
        if (!report_causes(&b[i], &b[i + 1], causes)) continue;
        for (i64 k = 0; k < CAUSE_COUNT; k++) sum += causes[k];
        CHECK_EQ(sum, b[i + 1].nusd);
    }
    ledger_close(w.l);
}

TEST(a_restart_counts_its_work_once)
{
    struct world   w   = world_new(perm, 1);
    struct run_row run = run_row(&w, "spot");
    i64            count;
    put_price(&w, 3.6);
    put(&w, LEDGER_TABLE_run, &run);
    struct segment_row a = segment_row(&w, run.id), b = segment_row(&w, run.id);
    a.step = 100, a.samples = 3200, a.ended = STR(""), a.beat_wall_ns = a.begin_wall_ns + 50 * s_ns;
    a.beat_every_ns = 10 * s_ns;
    b.step_from = 80, b.step = 200, b.samples = 3840, b.target_ns = 60 * s_ns, b.value = 0.9;
    i64 first[TERM_COUNT] = { [TERM_compute] = 50 * s_ns }, second[TERM_COUNT] = {
        [TERM_compute] = 50 * s_ns, [TERM_redone] = 10 * s_ns, [TERM_starting] = 20 * s_ns
    };
    segment_set_terms(&a, first);
    segment_set_terms(&b, second);
    put(&w, LEDGER_TABLE_segment, &a);
    put(&w, LEDGER_TABLE_segment, &b);
    struct run_bill *r = read_all(&w, 100000 * s_ns, &count);
    CHECK_EQ(r->segment_count, 2);
    CHECK_EQ(r->steps, 200);
    CHECK_EQ(r->work, 200 * 32);
    CHECK_EQ(r->state, RUN_ENDED);
    CHECK_EQ(r->uncertain_ns, 10 * s_ns); /* the first was killed */
    CHECK_EQ(r->nusd, 130 * 1000000);     /* $0.001 a second */
    CHECK_EQ(r->part_nusd[TERM_redone], 10 * 1000000);
    CHECK_EQ(r->target_nusd, 110 * 1000000);
    ledger_close(w.l);
}

/* A thousand PUTs at half a cent; what was not priced is told, and never zero. */
TEST(requests_are_on_the_bill)
{
    struct world       w   = world_new(perm, 1);
    struct run_row     run = run_row(&w, "kept"), old = run_row(&w, "old");
    struct segment_row s = segment_row(&w, run.id), t = segment_row(&w, old.id);
    i64                ns[TERM_COUNT] = { [TERM_compute] = 1000 * s_ns }, count;
    put_price(&w, 3.6);
    segment_set_terms(&s, ns);
    segment_set_terms(&t, ns);
    s.requests_usd            = 0.005;
    t.requests_usd            = NAN;
    struct checkpoint_row c[] = { { .segment = s.id, .place = STR("s3://b/1") },
                                  { .segment = t.id, .place = STR("s3://b/1") } };
    for (i64 i = 0; i < 2; i++) {
        put(&w, LEDGER_TABLE_run, i ? &old : &run);
        put(&w, LEDGER_TABLE_segment, i ? &t : &s);
        put(&w, LEDGER_TABLE_checkpoint, &c[i]);
    }
    struct run_bill *b = read_all(&w, 2000 * s_ns, &count);
    CHECK_EQ(count, 2);
    CHECK_EQ(b[0].part_nusd[BILL_REQUESTS], 5000000);
    CHECK_EQ(b[0].nusd, 1000000000 + 5000000);
    CHECK_NEAR(b[0].usd_hour, 3.6, 1e-9); /* the machine's hour is no dearer for it */
    CHECK(b[0].storage_known && !b[1].storage_known);
    ledger_close(w.l);
}

/* The bill is the one that the run's last line had: sharing the machine, and storage after the end, are beside it. */
TEST(a_bill_does_not_change_after_the_run)
{
    struct world       w   = world_new(perm, 1);
    struct run_row     run = run_row(&w, "kept"), other = run_row(&w, "beside");
    struct segment_row s = segment_row(&w, run.id), t = segment_row(&w, other.id);
    i64                ns[TERM_COUNT] = { [TERM_compute] = 1000 * s_ns }, count, day = 86400 * s_ns;
    put_price(&w, 3.6);
    segment_set_terms(&s, ns);
    segment_set_terms(&t, ns);
    t.boot = s.boot, t.begin_wall_ns = s.begin_wall_ns; /* half of the machine each */
    s.requests_usd = 0.005, s.storage_usd = 0.25, t.requests_usd = t.storage_usd = 0;
    struct checkpoint_row c = { .segment       = s.id,
                                .place         = STR("s3://b/1"),
                                .bytes         = 1ll << 40,
                                .saved_wall_ns = s.begin_wall_ns,
                                .usd_gib_month = 0.02 };
    put(&w, LEDGER_TABLE_run, &run);
    put(&w, LEDGER_TABLE_run, &other);
    put(&w, LEDGER_TABLE_segment, &s);
    put(&w, LEDGER_TABLE_segment, &t);
    put(&w, LEDGER_TABLE_checkpoint, &c);
    for (i64 days = 1; days <= 100; days += 99) {
        struct run_bill *b = read_all(&w, s.begin_wall_ns + days * day, &count);
        CHECK_EQ(count, 2);
        CHECK_EQ(b[0].nusd, 1000000000 + 5000000 + 250000000); /* $1, requests, storage */
        CHECK_EQ(b[0].part_nusd[BILL_STORAGE], 250000000);
        CHECK_EQ(b[0].shared_nusd, 500000000);
        CHECK_EQ(b[0].since_nusd, bill_stored_nusd(0.02, 1ll << 40, days * day) - 250000000);
        CHECK_EQ(b[1].nusd, 1000000000);
        CHECK_EQ(b[1].since_nusd, 0);
    }
    ledger_close(w.l);
}

TEST(a_prediction_is_found_by_what_was_set)
{
    struct world   w   = world_new(perm, 1);
    struct run_row run = run_row(&w, "predicted");
    i64            count;
    run.settings      = STR("train.lr=0.1\nrun.machine=aws/x\ntrain.usd_hour=3\n");
    run.begin_wall_ns = 1000;
    put(&w, LEDGER_TABLE_run, &run);
    struct prediction_row p[] = {
        { .id = STR("a"), .made_wall_ns = 10, .machine = STR("aws/x"), .usd = 1 },
        { .id           = STR("b"),
          .made_wall_ns = 20,
          .machine      = STR("aws/x"),
          .usd          = 2 }, /* the newest before it */
        { .id           = STR("c"),
          .made_wall_ns = 30,
          .machine      = STR("aws/y"),
          .usd          = 3 }, /* for another machine */
        { .id           = STR("d"),
          .made_wall_ns = 9000,
          .machine      = STR("aws/x"),
          .usd          = 4 }, /* afterwards */
        { .id           = STR("e"),
          .made_wall_ns = 40,
          .machine      = STR("aws/x"),
          .usd          = 5,
          .settings     = STR("other") },
    };
    for (i64 i = 0; i < COUNT_OF(p); i++) {
        if (!p[i].settings.len)
            p[i].settings = report_settings_key(STR("train.lr=0.1\nrun.name=plan\n"), perm);
        put(&w, LEDGER_TABLE_prediction, &p[i]);
    }
    CHECK_EQ(read_all(&w, 2000, &count)->predicted_usd, 2);
    struct prediction_row own = { .id = STR("f"), .made_wall_ns = 1001, .run = run.id, .usd = 6 };
    put(&w, LEDGER_TABLE_prediction, &own); /* made for this run and no other */
    CHECK_EQ(read_all(&w, 2000, &count)->predicted_usd, 6);
    ledger_close(w.l);
}

TEST(without_a_price_there_are_no_dollars)
{
    struct world       w              = world_new(perm, 1);
    struct run_row     run            = run_row(&w, "free");
    struct segment_row s              = segment_row(&w, run.id);
    i64                ns[TERM_COUNT] = { [TERM_compute] = s_ns }, count, causes[CAUSE_COUNT];
    s.price                           = STR("");
    segment_set_terms(&s, ns);
    put(&w, LEDGER_TABLE_run, &run);
    put(&w, LEDGER_TABLE_segment, &s);
    struct run_bill *r = read_all(&w, 2 * s_ns, &count);
    CHECK(!r->priced);
    CHECK(isnan(r->usd_hour));
    CHECK(!report_causes(r, r, causes));
    ledger_close(w.l);
}

TEST(lives_of_spot_machines_are_learned_from_segments)
{
    struct world     w    = world_new(perm, 1);
    struct price_row spot = { .id = STR("p"), .usd_hour = 1, .market = STR("spot") },
                     dear = { .id = STR("q"), .usd_hour = 3, .market = STR("on-demand") };
    struct lifetime *lives;
    i64              count;
    put(&w, LEDGER_TABLE_price, &spot);
    put(&w, LEDGER_TABLE_price, &dear);
    static const char *const machines[] = { "H100", "T4" };
    for (i64 i = 0; i < 2; i++) {
        struct run_row run = run_row(&w, "any");
        run.id             = str_of(machines[i]);
        run.settings       = str_fmt(perm, "train.lr=1\nrun.machine=%s\n", machines[i]);
        put(&w, LEDGER_TABLE_run, &run);
    }
    static const struct { /* machine, age at the end, how */
        const char *boot, *price, *machine, *ended, *kind;
        i64         age_s;
    } seen[] = {
        { "a", "p", "H100", "end", "", 100 },        { "a", "p", "H100", "signal", "AWS", 250 },
        { "b", "p", "H100", "end", "", 70 },         { "c", "p", "H100", "", "", 30 },
        { "d", "p", "T4", "end", "", 10 },           { "e", "q", "H100", "end", "", 10 },
        { "f", "p", "H100", "signal", "signal", 40 }
    };
    for (i64 i = 0; i < COUNT_OF(seen); i++) {
        struct segment_row s = segment_row(&w, str_of(seen[i].machine));
        s.boot = str_of(seen[i].boot), s.price = str_of(seen[i].price);
        s.ended = str_of(seen[i].ended), s.boot_wall_ns = s_ns;
        s.beat_wall_ns = s_ns + seen[i].age_s * s_ns;
        put(&w, LEDGER_TABLE_segment, &s);
        struct interruption_row n = { .segment  = s.id,
                                      .kind     = str_of(seen[i].kind),
                                      .notice_s = NAN };
        if (n.kind.len) put(&w, LEDGER_TABLE_interruption, &n);
    }
    CHECK_EQ(report_lifetimes(w.l, STR("H100"), 100000 * s_ns, perm, &lives, &count, NULL),
             STATUS_OK);
    CHECK_EQ(count, 4);
    static const struct lifetime are[] = {
        { 250, true }, { 70, false }, { 30, true }, { 40, false }
    };
    for (i64 i = 0; i < count; i++) {
        CHECK_EQ(lives[i].age_s, are[i].age_s);
        CHECK_EQ(lives[i].interrupted, are[i].interrupted);
    }
    CHECK_EQ(report_lifetimes(w.l, STR(""), 100000 * s_ns, perm, &lives, &count, NULL), STATUS_OK);
    CHECK_EQ(count, 5); /* the T4 too */
    ledger_close(w.l);
}

TEST(each_cause_is_seen_alone)
{
    struct run_bill a = { .priced     = true,
                          .work       = 1000,
                          .metered_ns = 300,
                          .own_ns     = 300,
                          .nusd       = 600 },
                    b;
    i64 causes[CAUSE_COUNT];
    a.term_ns[TERM_compute] = 200;
    a.term_ns[TERM_loading] = 100;
    b = a, b.work = 500, b.term_ns[TERM_compute] = 100, b.metered_ns = b.own_ns = 200, b.nusd = 400;
    CHECK(report_causes(&a, &b, causes));
    CHECK(causes[CAUSE_WORK] == -200 && !causes[CAUSE_PACE] && !causes[CAUSE_REST] &&
          !causes[CAUSE_PRICE]);
    b = a, b.term_ns[TERM_compute] = 100, b.metered_ns = b.own_ns = 200, b.nusd = 400;
    CHECK(report_causes(&a, &b, causes));
    CHECK(causes[CAUSE_PACE] == -200 && !causes[CAUSE_WORK] && !causes[CAUSE_REST] &&
          !causes[CAUSE_PRICE]);
    b = a, b.term_ns[TERM_loading] = 0, b.metered_ns = b.own_ns = 200, b.nusd = 400;
    CHECK(report_causes(&a, &b, causes));
    CHECK(causes[CAUSE_REST] == -200 && !causes[CAUSE_WORK] && !causes[CAUSE_PACE] &&
          !causes[CAUSE_PRICE]);
    b = a, b.nusd = 300;
    CHECK(report_causes(&a, &b, causes));
    CHECK(causes[CAUSE_PRICE] == -300 && !causes[CAUSE_WORK] && !causes[CAUSE_PACE] &&
          !causes[CAUSE_REST]);
    b.row.unit = STR("tokens");
    CHECK(!report_causes(&a, &b, causes));
}

/* Two runs at $1 an hour, the first billed for a minute that it did not use: its hour was no dearer. */
TEST(a_billing_minimum_is_no_dearer_hour)
{
    struct world     w       = world_new(perm, 1);
    struct price_row least   = { .id = STR("p"), .usd_hour = 1, .minimum_s = 60 };
    struct price_row exact   = { .id = STR("q"), .usd_hour = 1 };
    struct run_row   runs[2] = { run_row(&w, "least"), run_row(&w, "exact") };
    i64              count, causes[CAUSE_COUNT], ns[TERM_COUNT] = { [TERM_compute] = 6 * s_ns };
    put(&w, LEDGER_TABLE_price, &least);
    put(&w, LEDGER_TABLE_price, &exact);
    for (i64 i = 0; i < 2; i++) {
        struct segment_row s = segment_row(&w, runs[i].id);
        s.step = 10, s.samples = 320, s.price = i ? exact.id : least.id;
        segment_set_terms(&s, ns);
        put(&w, LEDGER_TABLE_run, &runs[i]);
        put(&w, LEDGER_TABLE_segment, &s);
    }
    struct run_bill *b = read_all(&w, 100000 * s_ns, &count);
    CHECK_EQ(count, 2);
    CHECK_EQ(b[0].nusd, 16666667); /* a minute */
    CHECK_EQ(b[1].nusd, 1666667);  /* six seconds */
    CHECK(report_causes(&b[0], &b[1], causes));
    for (i64 i = 0; i < CAUSE_COUNT; i++) CHECK_EQ(causes[i], i == CAUSE_RULE ? -15000000 : 0);
    CHECK_STR(str_of(cause_name(CAUSE_RULE, -1)), "less by billing minimum and rounding");
    ledger_close(w.l);
}

/* Cheaper is said only of runs that ended at least as good as the strictest target among them. */
TEST(runs_are_compared_at_a_target_that_all_have_reached)
{
    static const struct {
        const char *metric;
        f64         target[2], value[2], common;
    } cases[] = {
        { "accuracy", { 0.9, 0.9 }, { 0.91, 0.9 }, 0.9 },
        { "accuracy", { 0.9, 0.9 }, { 0.91, 0.64 }, NAN },
        { "accuracy", { NAN, 0.9 }, { 0.95, 0.91 }, 0.9 }, /* ran to its end, and was there */
        { "accuracy", { 0.8, 0.9 }, { 0.81, 0.91 }, NAN }, /* stopped at less */
        { "accuracy", { 0.8, 0.9 }, { 0.92, 0.91 }, 0.9 },
        { "accuracy", { NAN, NAN }, { 0.9, 0.9 }, NAN },
        { "accuracy", { 0.9, 0.9 }, { NAN, 0.9 }, NAN },
        { "loss", { 1.8, 1.8 }, { 1.79, 1.8 }, 1.8 },
        { "loss", { 1.8, 1.5 }, { 1.79, 1.4 }, NAN },
        { "perplexity", { 20, NAN }, { 19, 12 }, 20 },
    };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct run_bill  b[2] = { 0 };
        struct run_bill *of[] = { &b[0], &b[1] };
        for (i64 k = 0; k < 2; k++) {
            b[k].row.metric = str_of(cases[i].metric);
            b[k].row.target = cases[i].target[k];
            b[k].value      = cases[i].value[k];
        }
        f64 common = report_common_target(of, 2);
        if (isnan(cases[i].common)) CHECK(isnan(common));
        else CHECK_EQ(common, cases[i].common);
        b[1].row.metric = STR("auc");
        CHECK(isnan(report_common_target(of, 2)));
    }
}

TEST(changes_are_named_once)
{
    struct run_bill a = { .row.settings = STR("train.epochs=5\ntrain.lr=0.1\n") };
    struct run_bill b = { .row.settings = STR("train.lr=0.2\ntrain.precision=bf16\n") };
    CHECK_STR(report_changes(&a, &b, perm),
              "train.lr=0.2, train.precision=bf16, without train.epochs=5");
    CHECK_EQ(report_changes(&a, &a, perm).len, 0);
}

TEST(a_rate_is_given_or_counted_never_guessed)
{
    struct run_bill b[8] = { 0 };
    i64             day = 86400 * s_ns, now = 1000 * day;
    bool            counted;
    for (i64 i = 0; i < 8; i++) {
        b[i].row.name           = i == 7 ? STR("other") : STR("mine");
        b[i].row.begin_wall_ns  = now - (6 - i) * 5 * day; /* mine: 30 days, 25, … 0 */
        b[i].row.runs_per_month = NAN;
    }
    b[7].row.begin_wall_ns = now - day;
    CHECK_NEAR(report_runs_per_month(b, 8, &b[0], now, &counted), 7.0 / 30 * BILL_MONTH_DAYS,
               1e-12);
    CHECK(counted);
    CHECK(isnan(report_runs_per_month(b, 8, &b[7], now, &counted))); /* a day is no month */
    b[7].row.runs_per_month = 4;
    CHECK_EQ(report_runs_per_month(b, 8, &b[7], now, &counted), 4);
    CHECK(!counted);
}
#endif
