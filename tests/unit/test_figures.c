/* test_figures.c - rows in files survive interruptions, kills and full disks, no step twice; the server answers
 * whoever asks, and waits for nobody. */
#include "base/http.h"
#include "harness.h"
#include "run/figures_int.h"
#include "supervise/tensorboard.h"
#include "support/sim_os.h"
#include <stdatomic.h>
#include <unistd.h>

static struct figures row(i64 step)
{
    struct figures f = { .step = step, .wall_ns = (i64)1700000000 * 1000000000 + 5000000 };
    for (i64 i = 0; i < FIGURE_COUNT; i++) f.value[i] = NAN;
    f.value[FIGURE_loss]       = 0.5;
    f.value[FIGURE_eval_value] = (f64)step / 4;
    return f;
}

static const struct str path = STR_INIT("/run.csv");
static const char      *header =
    "step,time,elapsed_s,loss,lr,samples_per_s,tokens_per_s,steps_per_s,step_p50_s,"
    "step_p95_s,step_p99_s,input_share,mfu,dollars,eval_loss,eval_accuracy,busy\n";

static struct sink sink_of(struct os *os, struct str at)
{
    return (struct sink){ .os = os, .path = at, .metric = STR("accuracy"), .file = { -1 } };
}

/* The file with rows of these steps. */
static struct str table(struct arena *perm, const i64 *steps, i64 count)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "%s", header);
    for (i64 i = 0; i < count; i++)
        textbuf_fmt(&b, "%lld,1700000000.005,,0.5,,,,,,,,,,,,%g,\n", (long long)steps[i],
                    (f64)steps[i] / 4);
    return textbuf_str(&b);
}

static enum status put(struct sink *s, i64 step, struct arena scratch)
{
    struct figures f = row(step);
    return csv_sink_put(s, &f, scratch, NULL);
}

TEST(a_csv_goes_on_from_a_step)
{
    static const i64 all[] = { 1, 4, 9 }, on[] = { 1, 4, 6 };
    struct sim_os   *sim = sim_os_new(perm);
    struct sink      s   = sink_of(&sim->os, path);
    struct err       err = { 0 };
    CHECK_EQ(csv_sink_open(&s, 0, scratch, &err), STATUS_OK);
    for (i64 i = 0; i < 3; i++) CHECK_EQ(put(&s, all[i], scratch), STATUS_OK);
    CHECK_STR(sim_os_look(sim, path), table(perm, all, 3));
    CHECK_EQ(csv_sink_open(&s, 5, scratch, &err), STATUS_OK); /* step 9 did not happen */
    CHECK_EQ(put(&s, 6, scratch), STATUS_OK);
    CHECK_STR(sim_os_look(sim, path), table(perm, on, 3));
    CHECK_EQ(csv_sink_open(&s, 0, scratch, &err), STATUS_OK); /* begun anew */
    CHECK_STR(sim_os_look(sim, path), str_of(header));
}

TEST(a_torn_row_is_left_out_and_a_foreign_file_left_alone)
{
    static const i64 all[] = { 1, 4 };
    struct sim_os   *sim   = sim_os_new(perm);
    struct sink      s     = sink_of(&sim->os, path);
    struct err       err   = { 0 };
    struct str       whole = table(perm, all, 2);
    sim_os_put(sim, path, str_cat(perm, whole, STR("5,17000")));
    CHECK_EQ(csv_sink_open(&s, 100, scratch, &err), STATUS_OK);
    CHECK_STR(sim_os_look(sim, path), whole);
    sim_os_put(sim, path, STR("name,age\nanna,7\n"));
    CHECK_EQ(csv_sink_open(&s, 0, scratch, &err), STATUS_USAGE);
    CHECK_STR(err.text,
              "/run.csv has other columns than this run and is not changed: give another log.csv");
    CHECK_STR(sim_os_look(sim, path), "name,age\nanna,7\n");
}

/* Going on is one rename: whenever it is killed, and whatever of it survives, rows up to the step are there. */
TEST(no_kill_loses_rows_that_were_there)
{
    static const i64 all[] = { 1, 4, 9 };
    for (i32 survive = 0; survive < SIM_SURVIVE_COUNT; survive++) {
        for (i64 kill = 1;; kill++) {
            struct sim_os *sim = sim_os_new(perm);
            struct sink    s   = sink_of(&sim->os, path);
            sim_os_put(sim, path, table(perm, all, 3));
            sim->kill_at   = kill;
            sim->seed      = (u64)kill;
            enum status st = csv_sink_open(&s, 4, scratch, NULL);
            sim_os_crash(sim, (enum sim_survive)survive);
            struct str now = sim_os_look(sim, path);
            CHECK(str_eq(now, table(perm, all, 3)) || str_eq(now, table(perm, all, 2)));
            if (!st) break;
            CHECK(kill < 100);
        }
    }
}

TEST(tensorboard_files_read_back)
{
    struct sim_os  *sim = sim_os_new(perm);
    struct sink     s   = sink_of(&sim->os, STR("/tb"));
    struct err      err = { 0 };
    struct figures  f   = row(7);
    struct tb_event e;
    struct str     *names;
    i64             count;
    sim->os.make_dir(&sim->os, STR("/tb"), NULL);
    CHECK_EQ(tb_sink_open(&s, 6, scratch, &err), STATUS_OK);
    CHECK_EQ(tb_sink_put(&s, &f, scratch, &err), STATUS_OK);
    CHECK_EQ(sim->os.list(&sim->os, STR("/tb"), perm, &names, &count, &err), STATUS_OK);
    CHECK_EQ(count, 1);
    CHECK(str_starts(names[0], STR("events.out.tfevents.")));
    struct str bytes = sim_os_look(sim, str_cat(perm, STR("/tb/"), names[0]));
    i64        at    = tb_next(bytes, &e), next; /* the version */
    CHECK(at > 0);
    CHECK_EQ(e.count, 0);
    next = tb_next(str_sub(bytes, at, bytes.len), &e); /* the session */
    CHECK(next > 0);
    CHECK_EQ(e.step, 7);
    at += next;
    next = tb_next(str_sub(bytes, at, bytes.len), &e);
    CHECK_EQ(at + next, bytes.len);
    CHECK_EQ(e.step, 7);
    CHECK_EQ(e.count, 2); /* what is not known is not there */
    CHECK_STR(e.scalars[0].tag, "train/loss");
    CHECK_EQ(e.scalars[0].value, 0.5);
    CHECK_STR(e.scalars[1].tag, "eval/accuracy");
    CHECK_EQ(e.scalars[1].value, 1.75);
}

/* A real disk that is full while we say so, and a clock of ours. */
static _Atomic bool full;
static _Atomic i64  clock_ns;

static enum status write_or_full(struct os *os, struct file f, struct str bytes, struct err *err)
{
    (void)os;
    if (full) return err_set(err, STATUS_WORLD, "cannot write: no space left on device");
    return os_real()->write(os_real(), f, bytes, err);
}

static i64 our_clock(struct os *os)
{
    (void)os;
    return clock_ns;
}

static bool is_warned(struct figures_log *l, struct err *err)
{
    for (i64 i = 0; i < 20000;
         i++) { /* some 20 s: the writer's thread is given all the time it may need */
        if (figures_warning(l, err)) return true;
        usleep(1000);
    }
    return false;
}

TEST(a_full_disk_is_a_sentence_and_tried_again)
{
    static const i64 rows[]     = { 3 };
    char             folder[64] = "/tmp/frugal-test-XXXXXX";
    struct os        os         = *os_real();
    struct err       err        = { 0 };
    struct figures   f;
    struct str       text;
    CHECK(mkdtemp(folder));
    struct figures_config c = { .log.csv = str_fmt(perm, "%s/run.csv", folder),
                                .metric  = STR("accuracy") };
    os.write                = write_or_full;
    os.now_ns               = our_clock;
    full                    = true;
    struct figures_log *l   = figures_open(&os, perm, &c);
    f                       = row(1);
    figures_put(l, &f);
    CHECK(is_warned(l, &err));
    CHECK_STR(err.text, "cannot write: no space left on device");
    f    = row(2);
    full = false;
    figures_put(l, &f); /* too early to try again */
    figures_back(l, 1);
    clock_ns += (i64)61 * 1000000000;
    f = row(3);
    figures_put(l, &f);
    figures_close(l);
    CHECK(!figures_warning(l, &err));
    CHECK_EQ(os_read_all(os_real(), c.log.csv, perm, &text, &err), STATUS_OK);
    i64 lines = 0;
    for (i64 i = 0; i < text.len; i++) lines += text.data[i] == '\n';
    CHECK(lines == 2 ||
          lines == 3); /* row 2 too, where the writer came to it after the clock had moved */
    CHECK(str_ends(text, str_sub(table(perm, rows, 1), (i64)strlen(header), 1 << 20)));
    unlink(c.log.csv.data);
    rmdir(folder);
}

TEST(rows_of_steps_that_did_not_happen_go_away)
{
    static const i64 kept[]     = { 1, 2, 4 };
    char             folder[64] = "/tmp/frugal-test-XXXXXX";
    struct err       err        = { 0 };
    struct str       text;
    CHECK(mkdtemp(folder));
    struct figures_config c = { .log.csv = str_fmt(perm, "%s/run.csv", folder),
                                .metric  = STR("accuracy") };
    struct figures_log   *l = figures_open(os_real(), perm, &c);
    for (i64 step = 1; step <= 5; step++) {
        struct figures f = row(step);
        figures_put(l, &f);
    }
    figures_back(l, 2);
    struct figures f = row(4);
    figures_put(l, &f);
    figures_close(l);
    CHECK_EQ(os_read_all(os_real(), c.log.csv, perm, &text, &err), STATUS_OK);
    CHECK_STR(text, table(perm, kept, 3));
    unlink(c.log.csv.data);
    rmdir(folder);
}

TEST(nothing_asked_for_is_nothing_done)
{
    struct figures_config c = { .metric = STR("loss") };
    struct figures        f = row(1);
    CHECK(!figures_open(os_real(), perm, &c));
    figures_put(NULL, &f);
    figures_back(NULL, 1);
    figures_close(NULL);
}

static struct http_answer ask(struct arena *perm, i32 port, const char *method, const char *where)
{
    struct http_answer   a   = { 0 };
    struct http_question q   = { .method     = str_of(method),
                                 .path       = str_of(where),
                                 .to         = { STR("127.0.0.1"), port },
                                 .host       = str_fmt(perm, "127.0.0.1:%d", port),
                                 .connect_ns = (i64)20 * 1000000000,
                                 .answer_ns  = (i64)20 * 1000000000 };
    struct err           err = { 0 };
    if (http_ask(os_real(), &q, perm, &a, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return a;
}

static void serve_figures(struct figures_web *w, struct os *os, struct arena *perm)
{
    struct err  err = { 0 };
    enum status st  = figures_web_open(w, os, 0, perm, &err);
    if (st == STATUS_NO) SKIP("no libmicrohttpd");
    CHECK_EQ(st, STATUS_OK);
}

TEST(prometheus_is_answered)
{
    struct figures_web *w = NEW(perm, struct figures_web, 1);
    struct figures      f = row(3);
    *w = (struct figures_web){ .run = STR("a \"b\"\\\n"), .metric = STR("accuracy") };
    serve_figures(w, os_real(), perm);
    struct http_answer a = ask(perm, serve_port(w->server), "GET", "/metrics");
    CHECK_EQ(a.code, 200);
    CHECK(strstr(a.body.data, "frugal_up{run=\"a \\\"b\\\"\\\\\\n\"} 1\n"));
    CHECK(!strstr(a.body.data, "frugal_step"));
    f.value[FIGURE_lr]     = INFINITY;
    f.split.ns[PART_input] = 1500000000;
    figures_web_put(w, &f);
    a = ask(perm, serve_port(w->server), "GET", "/metrics");
    CHECK(!strstr(a.body.data, "split_seconds")); /* a stream does not say where the time went */
    f.split_known = true;
    figures_web_put(w, &f);
    a = ask(perm, serve_port(w->server), "GET", "/metrics");
    CHECK_STR(http_header(&a, STR("Content-Type")), "text/plain; version=0.0.4; charset=utf-8");
    CHECK(strstr(a.body.data,
                 "# TYPE frugal_loss gauge\nfrugal_loss{run=\"a \\\"b\\\"\\\\\\n\"} 0.5\n"));
    CHECK(strstr(a.body.data, ",metric=\"accuracy\"} 0.75\n"));
    CHECK(strstr(a.body.data, "} +Inf\n"));
    CHECK(strstr(a.body.data, ",part=\"input\"} 1.5\n"));
    CHECK(!strstr(a.body.data, "mfu")); /* not known */
    f                          = row(4);
    f.value[FIGURE_eval_value] = NAN;
    figures_web_put(w, &f);
    a = ask(perm, serve_port(w->server), "GET", "/");
    CHECK(strstr(a.body.data, ",metric=\"accuracy\"} 0.75\n")); /* of the last evaluation */
    CHECK(strstr(a.body.data, "\"} 4\n"));
    CHECK_EQ(ask(perm, serve_port(w->server), "GET", "/other").code, 404);
    CHECK_EQ(ask(perm, serve_port(w->server), "POST", "/metrics").code, 405);
    figures_web_close(w);
}

/* More idle ones than the server keeps. */
TEST(idle_readers_delay_nobody)
{
    struct figures_web *w  = NEW(perm, struct figures_web, 1);
    struct os          *os = os_real();
    struct file         idle[50];
    *w = (struct figures_web){ .run = STR("x"), .metric = STR("loss") };
    serve_figures(w, os, perm);
    for (i64 i = 0; i < COUNT_OF(idle); i++)
        CHECK_EQ(os->connect(os, STR("127.0.0.1"), serve_port(w->server), (i64)1000000000, &idle[i],
                             NULL),
                 STATUS_OK);
    CHECK_EQ(os->write(os, idle[40], STR("GET /met"), NULL), STATUS_OK); /* half a question */
    i64 begin_ns = os->now_ns(os);
    CHECK_EQ(ask(perm, serve_port(w->server), "GET", "/metrics").code, 200);
    CHECK(os->now_ns(os) - begin_ns < 900000000); /* less than the seconds that each of them has */
    for (i64 i = 0; i < COUNT_OF(idle); i++) os->close(os, &idle[i], NULL);
    figures_web_close(w);
}

/* One who connects and says nothing is left after some seconds; rows are put and the server closed meanwhile. */
TEST(a_reader_that_dawdles_stops_nobody)
{
    struct figures_web *w   = NEW(perm, struct figures_web, 1);
    struct err          err = { 0 };
    struct file         idle;
    *w = (struct figures_web){ .run = STR("x"), .metric = STR("loss") };
    serve_figures(w, os_real(), perm);
    CHECK_EQ(os_real()->connect(os_real(), STR("127.0.0.1"), serve_port(w->server),
                                (i64)10 * 1000000000, &idle, &err),
             STATUS_OK);
    for (i64 step = 0; step < 1000; step++) {
        struct figures f = row(step);
        figures_web_put(w, &f);
    }
    CHECK(strstr(ask(perm, serve_port(w->server), "GET", "/metrics").body.data,
                 "frugal_step{run=\"x\"} 999\n"));
    figures_web_close(w);
    os_real()->close(os_real(), &idle, NULL);
}

TEST(a_port_that_is_taken_is_a_warning)
{
    struct figures_web   *w   = NEW(perm, struct figures_web, 1);
    struct err            err = { 0 };
    struct figures_config c   = { .run = STR("x"), .metric = STR("loss") };
    *w                        = (struct figures_web){ 0 };
    serve_figures(w, os_real(), perm);
    c.log.prometheus      = serve_port(w->server);
    struct figures_log *l = figures_open(os_real(), perm, &c);
    CHECK(figures_warning(l, &err));
    CHECK(strstr(err.text, "cannot listen on 127.0.0.1"));
    CHECK_EQ(figures_port(l), 0);
    figures_close(l);
    figures_web_close(w);
}
