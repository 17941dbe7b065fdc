/* test_job.c - one run from its settings to its bill: what is printed is what the ledger has, and the stream that it
 * leaves behind gives the same rows and the same summary once more. */
#include "backend/ranks/ranks.h"
#include "cli/progress.h"
#include "harness.h"
#include "job/logs.h"
#include "job/record.h"
#include "job/supervised.h"
#include "run/run_int.h"
#include "support/folder.h"
#include "support/small_run.h"
#include <math.h>
#include <stdatomic.h>

static i64 replayed_wall_ns;

static i64 replayed_wall(struct os *os)
{
    (void)os;
    return replayed_wall_ns;
}

struct shown {
    char           *text;
    size_t          bytes;
    struct say      say;
    struct progress progress;
};

static struct subscriber show(struct shown *s, struct arena *perm)
{
    *s              = (struct shown){ 0 };
    s->say.results  = open_memstream(&s->text, &s->bytes);
    s->say.messages = fopen("/dev/null", "w");
    s->progress     = (struct progress){ .say = &s->say, .scratch = arena_part(perm, 1 << 16) };
    return progress_subscriber(&s->progress);
}

static struct str shown_text(struct shown *s, struct arena *perm)
{
    fclose(s->say.results);
    fclose(s->say.messages);
    struct str text = str_copy(perm, str_of(s->text));
    free(s->text);
    return text;
}

/* Of the machine and the moment, not of the stream. */
static bool is_stream(const char *column)
{
    static const char *const others[] = { "machine",        "boot",          "begin_wall_ns",
                                          "beat_wall_ns",   "beat_every_ns", "boot_wall_ns",
                                          "peak_rss_bytes", "saved_wall_ns", "at_wall_ns" };
    for (i64 i = 0; i < COUNT_OF(others); i++)
        if (!strcmp(column, others[i])) return false;
    return true;
}

static struct str rows_of(struct str path, enum ledger_table table, struct arena *perm, i64 *count)
{
    const struct table *t    = &ledger_tables[table];
    struct textbuf      b    = textbuf_new(perm);
    struct arena        room = arena_part(perm, 1 << 22);
    struct ledger      *l;
    u8                 *rows;
    CHECK_EQ(ledger_open(os_real(), path, &room, &l, NULL), STATUS_OK);
    CHECK_EQ(ledger_read(l, table, NULL, STR(""), &room, &rows, count, NULL), STATUS_OK);
    for (i64 i = 0; i < *count; i++) {
        u8 *row = rows + i * t->row_bytes;
        for (i64 k = 0; k < t->column_count; k++) {
            const struct column *c = &t->columns[k];
            if (is_stream(c->name)) continue;
            if (column_is_text(c)) *row_text(c, row) = STR("");
            else *row_int(c, row) = 0;
        }
        row_write(t, row, &b);
        textbuf_fmt(&b, "\n");
    }
    ledger_close(l);
    return textbuf_str(&b);
}

static const enum ledger_table tables[] = { LEDGER_TABLE_run,        LEDGER_TABLE_segment,
                                            LEDGER_TABLE_step,       LEDGER_TABLE_price,
                                            LEDGER_TABLE_checkpoint, LEDGER_TABLE_interruption };

/* Evaluated and saved a few times, so that there are rows of each kind. */
static struct settings a_run(struct str folder, struct arena *perm)
{
    struct settings s     = small_run(perm, folder.data, "[flatten, {dense: 8}, relu, {dense: 4}]");
    s.run.ledger          = str_cat(perm, folder, STR("/live.db"));
    s.run.market          = STR("none");
    s.train.usd_hour      = 7.2;
    s.train.epochs        = 0;
    s.train.steps         = 600;
    s.train.eval_every    = 200;
    s.train.target        = 0.9;
    s.train.target_metric = STR("accuracy");
    s.data.held_out       = 0.25;
    s.checkpoint.dir      = str_cat(perm, folder, STR("/kept"));
    s.checkpoint.every    = STR("100");
    s.checkpoint.keep     = 2;
    s.log.csv             = str_cat(perm, folder, STR("/live.csv"));
    return s;
}

static struct str only_file(struct str folder, struct arena *perm)
{
    struct str *names;
    i64         count;
    CHECK_EQ(os_real()->list(os_real(), folder, perm, &names, &count, NULL), STATUS_OK);
    CHECK_EQ(count, 1);
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(names[0]));
}

/* Without the moment of each: its second column. */
static struct str csv_rows(struct str path, struct arena *perm)
{
    struct str     text = { 0 }, line, step, moment;
    struct textbuf b    = textbuf_new(perm);
    struct arena   room = arena_part(perm, 1 << 20);
    CHECK_EQ(os_read_all(os_real(), path, &room, &text, NULL), STATUS_OK);
    while (str_cut(&text, '\n', &line))
        if (str_cut(&line, ',', &step) && str_cut(&line, ',', &moment))
            textbuf_fmt(&b, "%.*s,%.*s\n", STR_ARG(step), STR_ARG(line));
    return textbuf_str(&b);
}

/* The only log below the folder into an empty ledger and an empty table: rows as those of the run itself. */
static void replay(const struct job *of, struct str folder, enum stop_reason ended,
                   const struct subscriber *show, struct arena *perm)
{
    struct str file = only_file(only_file(str_cat(perm, folder, STR("/events")), perm), perm),
               events;
    struct settings s   = *of->settings;
    struct job      job = *of;
    struct os       os  = *os_real(); /* its wall clock is the stream's */
    struct err      err = { 0 };
    struct record   record;
    i64             slash = file.len;
    CHECK_EQ(os_read_all(os_real(), file, perm, &events, &err), STATUS_OK);
    while (file.data[slash - 1] != '/') slash--;
    os.wall_ns   = replayed_wall;
    job.os       = &os;
    job.settings = &s;
    s.run.ledger = str_cat(perm, folder, STR("/copy.db"));
    s.log.csv    = str_cat(perm, folder, STR("/copy.csv"));
    CHECK_EQ(record_init(&record, &job, &err), STATUS_OK);
    record.config.bill       = NULL;
    record.config.log        = NULL;
    record.place             = s.checkpoint.dir;
    record.config.segment.id = str_sub(file, slash, file.len - 6);
    struct logs       logs   = logs_init(&job);
    struct subscriber logged = logs_subscriber(&logs, show);
    struct subscriber rows   = record_subscriber(&record, &logged);
    if (event_log_replay(events, &rows, &replayed_wall_ns, arena_part(perm, 1 << 20), &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    record_close(&record, ended);
    logs_close(&logs);
    struct str figures = csv_rows(of->settings->log.csv, perm);
    CHECK(figures.len > 200);
    CHECK_STR(csv_rows(s.log.csv, perm), str_z(perm, figures));
    for (i64 i = 0; i < COUNT_OF(tables); i++) {
        i64 count = 0, live_count = 0;
        CHECK_STR(rows_of(s.run.ledger, tables[i], perm, &count),
                  str_z(perm, rows_of(of->settings->run.ledger, tables[i], perm, &live_count)));
        CHECK_EQ(count, live_count);
        CHECK(count > 0 || tables[i] == LEDGER_TABLE_interruption);
    }
}

static void ignore(void *context, struct str bytes)
{
    (void)context;
    (void)bytes;
}

TEST(a_replayed_stream_gives_the_same_rows_and_summary)
{
#ifndef FRUGAL_HAVE_SQLITE
    SKIP("built without SQLite");
#endif
    struct str      folder = folder_new(perm);
    struct settings s      = a_run(folder, perm);
    struct job      job    = {
                .os = os_real(), .perm = perm, .settings = &s, .kind = STR("train"), .name = STR("small")
    };
    struct shown        live, again;
    struct subscriber   heard = show(&live, perm);
    struct train_result r;
    struct err          err = { 0 };
    if (job_train(&job, &heard, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK(r.target_reached);
    struct str once = shown_text(&live, perm);
    heard           = show(&again, perm);
    replay(&job, folder, r.stopped, &heard, perm);
    CHECK_STR(shown_text(&again, perm), str_z(perm, once));
}

/* Somebody else's program: six steps with their losses, two of them evaluated, killed once after the second. */
TEST(a_replayed_stream_of_a_supervised_program_gives_the_same_rows)
{
#ifndef FRUGAL_HAVE_SQLITE
    SKIP("built without SQLite");
#endif
    static const char program[] =
        "cd $TOP/out; n=0; [ \"$1\" = --resume ] && n=$(cat state)\n"
        "while [ $n -lt 6 ]; do n=$((n+1)); sleep 0.05\n"
        "case $n in 2|6) echo step $n loss 0.$n metric 0.$((n+2));; *) echo step $n loss 0.$n;; "
        "esac\n"
        "[ $n = 3 ] && [ ! -e $TOP/died ] && { echo 2 >state; sleep 1; >$TOP/died; kill -9 $$; }\n"
        "done; echo $n >state";
    const char             *command[] = { "/bin/sh", "-c", program, "-", NULL };
    struct str              folder    = os_absolute(perm, folder_new(perm));
    struct settings         s         = a_run(folder, perm);
    struct job              job       = { .os       = os_real(),
                                          .perm     = perm,
                                          .settings = &s,
                                          .kind     = STR("supervised"),
                                          .name     = STR("theirs") };
    struct job_program      p         = { .command = command, .on_output = ignore };
    struct supervise_result r;
    struct err              err = { 0 };
    setenv("TOP", folder.data, 1);
    s.train.target = NAN;
    s.train.steps  = 0;
    s.spot.cloud   = STR("none");
    s.program      = (struct program_config){ .folder       = str_cat(perm, folder, STR("/out")),
                                              .files        = { STR("*") },
                                              .file_count   = 1,
                                              .complete     = STR("0.1"),
                                              .signal       = { STR("term") },
                                              .signal_count = 1,
                                              .grace_s      = 10,
                                              .restarts     = 2,
                                              .resume       = { STR("--resume") },
                                              .resume_count = 1,
                                              .read         = STR("regex"),
                                              .step         = STR("step ([0-9]+)"),
                                              .loss         = STR("loss ([0-9.]+)"),
                                              .metric       = STR("metric ([0-9.]+)") };
    if (job_supervise(&job, &p, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(r.starts, 2);
    CHECK_EQ(r.step, 6);
    replay(&job, folder, STOP_END, NULL, perm);
    struct str rows = csv_rows(s.log.csv, perm);
    CHECK(
        strstr(str_z(perm, rows), ",eval_accuracy,busy\n1,")); /* the header, and the first step */
    CHECK(strstr(str_z(perm, rows), "\n6,"));
    CHECK(strstr(str_z(perm, rows), ",0.8,")); /* the metric of the last */
}

/* A killed program goes on from an older step, which it may say again: no step is there twice. */
TEST(steps_that_are_done_again_are_one_row_each)
{
    static const i64   steps[] = { 1, 2, 2, 3, 4, 3, 4, 5, 5 };
    struct str         folder  = folder_new(perm);
    struct settings    s       = a_run(folder, perm);
    struct job         job     = { .os = os_real(), .perm = perm, .settings = &s };
    struct logs        logs    = logs_init(&job);
    struct subscriber  to      = logs_subscriber(&logs, NULL);
    struct event_start start;
    struct event_step  e;
    event_clear(EVENT_start, &start);
    event_clear(EVENT_step, &e);
    start.metric      = STR("loss");
    s.train.log_every = 1;
    emit_start(&to, &start);
    for (i64 i = 0; i < COUNT_OF(steps); i++) {
        e.step = steps[i];
        e.loss = (f64)i;
        emit_step(&to, &e);
    }
    emit_done(&to, &(struct event_done){ .steps = 5 });
    logs_close(&logs);
    CHECK(strstr(str_z(perm, csv_rows(s.log.csv, perm)),
                 "1,,0,,,,,,,,,,,,,\n2,,2,,,,,,,,,,,,,\n3,,5,,,,,,,,,,,,,\n4,,6,,,,,,,,,,,,,\n"
                 "5,,8,,,,,,,,,,,,,\n"));
}

/* What is opened, by name, in its order. */
static struct {
    char        paths[64][256];
    _Atomic i64 asked; /* by any thread; the first of them have a place */
} opened;

static i64 opened_count(void) { return MIN(atomic_load(&opened.asked), COUNT_OF(opened.paths)); }

static void note_opened(struct str path)
{
    i64 at = atomic_fetch_add(&opened.asked, 1);
    if (at < COUNT_OF(opened.paths))
        snprintf(opened.paths[at], sizeof opened.paths[0], "%.*s", STR_ARG(path));
}

static enum status noted_open(struct os *os, struct str path, struct file *f, struct err *err)
{
    (void)os;
    note_opened(path);
    return os_real()->open_read(os_real(), path, f, err);
}

static enum status noted_map(struct os *os, struct str path, struct str *bytes, struct err *err)
{
    (void)os;
    note_opened(path);
    return os_real()->map(os_real(), path, bytes, err);
}

static enum status noted_create(struct os *os, struct str path, struct file *f, struct err *err)
{
    (void)os;
    note_opened(path);
    return os_real()->create(os_real(), path, f, err);
}

static enum status noted_lock(struct os *os, struct str path, struct file *f, struct err *err)
{
    (void)os;
    note_opened(path);
    return os_real()->lock(os_real(), path, f, err);
}

static enum status noted_stat(struct os *os, struct str path, struct os_stat *to, struct err *err)
{
    (void)os;
    note_opened(path);
    return os_real()->stat(os_real(), path, to, err);
}

/* Whether a file of the checkpoints was read before the one at `at`. */
static bool ours_before(i64 at, struct str dir)
{
    for (i64 i = 0; i < at; i++)
        if (str_starts(str_of(opened.paths[i]), dir)) return true;
    return false;
}

static void note_resumed(void *context, const struct event_open *e)
{
    (void)e;
    *(i64 *)context = opened_count();
}

/* Ledger, catalogue, notices, data and model come after it: the first files of a start are those of its checkpoints,
 * which are read whole before any other. A spot machine, so that the ledger is asked how long such machines last. */
TEST(a_run_is_restored_before_anything_else_is_opened)
{
    struct str      folder = folder_new(perm);
    struct settings s      = a_run(folder, perm);
    struct os       os     = *os_real();
    struct job      job    = {
                .os = &os, .perm = perm, .settings = &s, .kind = STR("train"), .name = STR("small")
    };
    i64                 restored = 0, checkpoints = 0;
    struct subscriber   hear = { .context = &restored, .on_open = note_resumed };
    struct train_result r;
    struct err          err = { 0 };
    s.run.market            = STR("spot");
    s.spot.cloud            = STR("none");
    s.train.target          = NAN;
    s.checkpoint.mtti_hours = NAN;
    if (job_train(&job, NULL, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    s.train.steps += 10;
    os.open_read = noted_open, os.map = noted_map, os.create = noted_create;
    os.lock = noted_lock, os.stat = noted_stat;
    atomic_store(&opened.asked, 0);
    if (job_train(&job, &hear, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(r.saving.resumed_step, s.train.steps - 10);
    while (checkpoints < opened_count() &&
           str_starts(str_of(opened.paths[checkpoints]), s.checkpoint.dir))
        checkpoints++;
    bool read = false, others = false; /* its tensors; and before the data, the ledger or a price */
    for (i64 i = 0; i < checkpoints; i++)
        read |= str_ends(str_of(opened.paths[i]), STR("weights.safetensors"));
    for (i64 i = checkpoints; i < restored; i++)
        others |= str_eq(str_of(opened.paths[i]), s.run.ledger);
    if (!read) harness_fail(__FILE__, __LINE__, "%s is opened first", opened.paths[checkpoints]);
    CHECK(others);
}

/* Somebody else's program, too: its checkpoints are found and its folder is put back before ledger and catalogue. */
TEST(a_supervised_run_is_restored_before_anything_else_is_opened)
{
    static const char program[] = "cd $TOP/out; n=$(cat state || echo 0); echo $((n+1)) >state";
    const char       *command[] = { "/bin/sh", "-c", program, NULL };
    struct str        folder    = os_absolute(perm, folder_new(perm));
    struct settings   s         = a_run(folder, perm);
    struct os         os        = *os_real();
    struct job        job       = {
                     .os = &os, .perm = perm, .settings = &s, .kind = STR("supervised"), .name = STR("theirs")
    };
    struct job_program      p = { .command = command, .on_output = ignore };
    struct supervise_result r;
    struct err              err  = { 0 };
    struct str              text = { 0 }, out = str_cat(perm, folder, STR("/out"));
    struct str              state = str_cat(perm, out, STR("/state"));
    setenv("TOP", folder.data, 1);
    s.run.market            = STR("spot"); /* the ledger says how long such machines last */
    s.run.machine           = STR("aws/p4d.24xlarge");
    s.spot.cloud            = STR("none");
    s.train.target          = NAN;
    s.train.usd_hour        = NAN;
    s.train.steps           = 0;
    s.checkpoint.mtti_hours = NAN;
    s.log                   = (struct log_config){ 0 };
    s.program               = (struct program_config){ .folder       = out,
                                                       .files        = { STR("*") },
                                                       .file_count   = 1,
                                                       .complete     = STR("0.1"),
                                                       .signal       = { STR("term") },
                                                       .signal_count = 1,
                                                       .grace_s      = 10,
                                                       .read         = STR("none") };
    if (job_supervise(&job, &p, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(os_publish(os_real(), state, STR("9\n"), *perm, NULL), STATUS_OK); /* half, say */
    os.open_read = noted_open, os.map = noted_map, os.create = noted_create;
    os.lock = noted_lock, os.stat = noted_stat;
    atomic_store(&opened.asked, 0);
    if (job_supervise(&job, &p, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(os_read_all(os_real(), state, perm, &text, NULL), STATUS_OK);
    CHECK_STR(text, "2\n"); /* it went on from the checkpoint, not from what lay there */
    i64  first    = 0;
    bool restored = false;
    for (; first < opened_count(); first++) {
        struct str path = str_of(opened.paths[first]);
        bool       ours = str_starts(path, s.checkpoint.dir);
        if (!ours && !str_starts(path, out)) break;
        restored |= !ours && str_ends(path, STR("state")) && ours_before(first, s.checkpoint.dir);
    }
    if (!restored) harness_fail(__FILE__, __LINE__, "%s is opened first", opened.paths[first]);
}

/* By a provider that bills a minute at least, over two starts: the last line, the ledger and the report are one sum. */
TEST(what_is_printed_is_what_is_recorded)
{
#ifndef FRUGAL_HAVE_SQLITE
    SKIP("built without SQLite");
#endif
    struct str      folder = folder_new(perm);
    struct settings s      = a_run(folder, perm);
    struct job      job    = {
                .os = os_real(), .perm = perm, .settings = &s, .kind = STR("train"), .name = STR("small")
    };
    struct train_result r;
    struct err          err = { 0 };
    s.run.machine           = STR("aws/p4d.24xlarge");
    s.train.target          = NAN;
    for (i64 start = 1; start <= 2; start++) {
        struct arena        room = arena_part(perm, 1 << 24);
        struct ledger      *l;
        struct segment_row *rows;
        i64                 count;
        f64                 sum = 0;
        if (job_train(&job, NULL, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
        CHECK_EQ(ledger_open(os_real(), s.run.ledger, &room, &l, NULL), STATUS_OK);
        CHECK_EQ(ledger_read(l, LEDGER_TABLE_segment, NULL, STR(""), &room, &rows, &count, NULL),
                 STATUS_OK);
        for (i64 i = 0; i < count; i++) sum += rows[i].billed_usd;
        ledger_close(l);
        CHECK_EQ(count, start);
        CHECK_NEAR(r.dollars, sum, 1e-9);
        CHECK_NEAR(r.dollars, 7.2 / 60 * (f64)start,
                   1e-9); /* a minute each, from the first second on */
        s.train.steps += 300;
    }
}

/* AWS asks nothing for a spot machine that it takes within its first hour; of several it takes one. */
TEST(machines_that_stay_are_billed_when_another_is_taken)
{
    static const i64 up_ns  = (i64)600 * 1000000000;
    struct str       folder = folder_new(perm);
    f64              one    = 0;
    for (i32 machines = 1; machines <= 3; machines++) {
        struct settings s        = a_run(folder, perm);
        struct ranks    together = { .count = 2 * machines, .machines = machines };
        struct job      job = { .os = os_real(), .perm = perm, .settings = &s, .ranks = &together };
        struct price_row price;
        struct err       err = { 0 };
        s.train.usd_hour     = NAN;
        s.run.machine        = STR("aws/p4d.24xlarge");
        s.run.market         = STR("spot");
        if (job_price(&job, &price, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
        if (machines == 1) one = price.usd_hour;
        CHECK_NEAR(price.usd_hour, machines * one, 1e-9);
        f64 whole = bill_estimate_usd(one, (f64)up_ns * 1e-9);
        f64 taken = (f64)bill_nusd(&price, up_ns, true) * 1e-9;
        CHECK(taken >= (machines - 1) * whole - 1e-9 && taken <= machines * whole + 1e-9);
        CHECK(machines > 1 || taken == 0);
    }
}
