/* test_job.c - one run from its settings to its bill: what is printed is what the ledger has, and the stream that it
 * leaves behind gives the same rows and the same summary once more. */
#include "cli/progress.h"
#include "harness.h"
#include "job/logs.h"
#include "job/record.h"
#include "run/run_int.h"
#include "support/folder.h"
#include "support/small_run.h"
#include <math.h>

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
                                          "peak_rss_bytes", "saved_wall_ns" };
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

TEST(a_replayed_stream_gives_the_same_rows_and_summary)
{
#ifndef FRUGAL_HAVE_SQLITE
    SKIP("built without SQLite");
#endif
    struct str folder = folder_new(perm), events, copy = str_cat(perm, folder, STR("/copy.db"));
    struct settings s   = a_run(folder, perm);
    struct job      job = {
             .os = os_real(), .perm = perm, .settings = &s, .kind = STR("train"), .name = STR("small")
    };
    struct shown        live, again;
    struct subscriber   heard = show(&live, perm);
    struct train_result r;
    struct err          err = { 0 };
    if (job_train(&job, &heard, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK(r.target_reached);
    struct str once = shown_text(&live, perm);
    struct str file = only_file(only_file(str_cat(perm, folder, STR("/events")), perm), perm);
    CHECK_EQ(os_read_all(os_real(), file, perm, &events, &err), STATUS_OK);

    struct os     os = *os_real(); /* its wall clock is the stream's */
    struct record record;
    os.wall_ns = replayed_wall;
    job.os     = &os;
    i64 slash  = file.len;
    while (file.data[slash - 1] != '/') slash--;
    struct settings s2 = s;
    s2.run.ledger      = copy;
    s2.log.csv         = str_cat(perm, folder, STR("/copy.csv"));
    job.settings       = &s2;
    CHECK_EQ(record_init(&record, &job, &err), STATUS_OK);
    record.config.bill       = NULL;
    record.config.log        = NULL;
    record.place             = s2.checkpoint.dir;
    record.config.segment.id = str_sub(file, slash, file.len - 6);
    heard                    = show(&again, perm);
    struct logs       logs   = logs_init(&job);
    struct subscriber logged = logs_subscriber(&logs, &heard);
    struct subscriber rows   = record_subscriber(&record, &logged);
    if (event_log_replay(events, &rows, &replayed_wall_ns, arena_part(perm, 1 << 20), &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    record_close(&record, r.stopped);
    logs_close(&logs);
    struct str figures = csv_rows(s.log.csv, perm);
    CHECK(figures.len > 200);
    CHECK_STR(csv_rows(s2.log.csv, perm), str_z(perm, figures));
    CHECK_STR(shown_text(&again, perm), str_z(perm, once));
    for (i64 i = 0; i < COUNT_OF(tables); i++) {
        i64 count = 0, live_count = 0;
        CHECK_STR(rows_of(copy, tables[i], perm, &count),
                  str_z(perm, rows_of(s.run.ledger, tables[i], perm, &live_count)));
        CHECK_EQ(count, live_count);
        CHECK(count > 0 || tables[i] == LEDGER_TABLE_interruption);
    }
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
