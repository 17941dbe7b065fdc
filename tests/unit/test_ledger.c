/* test_ledger.c - the file that all runs share: rows go in and come out, newer copies win, older
 * files are upgraded, and neither kills, nor crowds, nor a full disk spoil it. */
#include "harness.h"
#include "run/ledger.h"
#include "run/run_int.h"
#include "support/folder.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef FRUGAL_HAVE_SQLITE
#include <sqlite3.h>

static struct ledger *open_at(struct str path, struct arena *perm)
{
    struct ledger *l   = NULL;
    struct err     err = { 0 };
    if (ledger_open(os_real(), path, perm, &l, &err)) printf("%s\n", err.text);
    CHECK(l);
    return l;
}

static struct str in_folder(struct arena *perm)
{
    return str_cat(perm, folder_new(perm), STR("/state/ledger.db"));
}

/* A row with something in every column, by its number. */
static void fill(enum ledger_table table, i64 number, void *row, struct arena *perm)
{
    const struct table *t = &ledger_tables[table];
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        if (column_is_text(c))
            *row_text(c, row) = str_fmt(perm, "%s %lld \"é\n", c->name, (long long)number);
        else if (c->kind == COLUMN_REAL) *row_real(c, row) = (f64)number + (f64)i / 7;
        else *row_int(c, row) = number * 1000 + i;
    }
}

static bool same(enum ledger_table table, const void *a, const void *b)
{
    struct arena   room = arena_open(1 << 20);
    struct textbuf x    = textbuf_new(&room), y;
    row_write(&ledger_tables[table], a, &x);
    y = textbuf_new(&room);
    row_write(&ledger_tables[table], b, &y);
    bool eq = str_eq(textbuf_str(&x), textbuf_str(&y));
    arena_close(&room);
    return eq;
}

static i64 count_of(struct ledger *l, enum ledger_table table, struct arena scratch)
{
    i64   count = -1;
    void *rows;
    CHECK_EQ(ledger_read(l, table, NULL, STR(""), &scratch, &rows, &count, NULL), STATUS_OK);
    return count;
}

TEST(every_column_of_every_table_comes_back)
{
    struct ledger *l = open_at(in_folder(perm), perm);
    for (i64 t = 0; t < LEDGER_TABLE_COUNT; t++) {
        union ledger_any row;
        const u8        *rows;
        i64              count;
        for (i64 n = 1; n <= 3; n++) {
            fill((enum ledger_table)t, n, &row, perm);
            CHECK_EQ(ledger_put(l, (enum ledger_table)t, &row, NULL), STATUS_OK);
        }
        CHECK_EQ(ledger_read(l, (enum ledger_table)t, NULL, STR(""), perm, &rows, &count, NULL),
                 STATUS_OK);
        CHECK_EQ(count, 3);
        CHECK(same((enum ledger_table)t, &row, rows + 2 * ledger_tables[t].row_bytes));
        CHECK(!same((enum ledger_table)t, &row, rows));
        const struct column *key = &ledger_tables[t].columns[0];
        CHECK_EQ(ledger_read(l, (enum ledger_table)t, key->name, *row_text(key, &row), perm, &rows,
                             &count, NULL),
                 STATUS_OK);
        CHECK_EQ(count, 1);
    }
    ledger_close(l);
}

TEST(what_is_not_known_stays_unknown)
{
    struct ledger     *l = open_at(in_folder(perm), perm);
    struct segment_row s, *back;
    i64                count;
    row_clear(&ledger_tables[LEDGER_TABLE_segment], &s);
    s.id = STR("x");
    CHECK_EQ(ledger_put(l, LEDGER_TABLE_segment, &s, NULL), STATUS_OK);
    CHECK_EQ(ledger_read(l, LEDGER_TABLE_segment, "id", STR("x"), perm, &back, &count, NULL),
             STATUS_OK);
    CHECK(isnan(back->billed_usd));
    CHECK_EQ(back->price.len, 0);
    ledger_close(l);
}

TEST(of_two_copies_the_newer_wins)
{
    struct ledger     *l = open_at(in_folder(perm), perm);
    struct segment_row s, *back;
    i64                count;
    row_clear(&ledger_tables[LEDGER_TABLE_segment], &s);
    s.id                     = STR("x");
    static const i64 beats[] = { 5, 9, 7, 9 };
    for (i64 i = 0; i < COUNT_OF(beats); i++) {
        s.beat_wall_ns = beats[i];
        s.step         = i;
        CHECK_EQ(ledger_put(l, LEDGER_TABLE_segment, &s, NULL), STATUS_OK);
    }
    CHECK_EQ(ledger_read(l, LEDGER_TABLE_segment, NULL, STR(""), perm, &back, &count, NULL),
             STATUS_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(back->beat_wall_ns, 9);
    CHECK_EQ(back->step, 3); /* the last of equal age; that of age 7 was not taken */
    ledger_close(l);
}

/* ---- lines ---- */

static void put_run(struct ledger *l, const char *name, struct arena *perm)
{
    union ledger_any row;
    struct str       run = str_fmt(perm, "run %s", name);
    for (i64 t = 0; t < LEDGER_TABLE_COUNT; t++)
        for (i64 n = 1; n <= 2; n++) {
            fill((enum ledger_table)t, n, &row, perm);
            struct str segment = str_fmt(perm, "%s %lld", name, (long long)n);
            if (t == LEDGER_TABLE_run) row.run.id = run;
            if (t == LEDGER_TABLE_segment)
                row.segment.id = segment, row.segment.run = run, row.segment.price = STR("p");
            if (t == LEDGER_TABLE_step) row.step.segment = segment;
            if (t == LEDGER_TABLE_price) row.price.id = STR("p");
            if (t == LEDGER_TABLE_prediction) row.prediction.run = run, row.prediction.id = segment;
            if (t == LEDGER_TABLE_checkpoint) row.checkpoint.segment = segment;
            if (t == LEDGER_TABLE_interruption) row.interruption.segment = segment;
            CHECK_EQ(ledger_put(l, (enum ledger_table)t, &row, NULL), STATUS_OK);
        }
}

TEST(lines_carry_a_run_to_another_ledger)
{
    struct ledger *a = open_at(in_folder(perm), perm), *b = open_at(in_folder(perm), perm);
    struct str     lines, again, part;
    struct err     err = { 0 };
    i64            rows;
    put_run(a, "one", perm);
    put_run(a, "two", perm);
    CHECK_EQ(ledger_export(a, STR("run two"), STR(""), perm, &lines, &err), STATUS_OK);
    CHECK_EQ(ledger_import(b, lines, scratch, &rows, &err), STATUS_OK);
    CHECK_EQ(rows, 1 + 2 + 2 * 5); /* the run, predictions, and five rows a segment */
    CHECK_EQ(ledger_export(b, STR("run two"), STR(""), perm, &again, &err), STATUS_OK);
    CHECK_STR(lines, again);
    CHECK_EQ(count_of(b, LEDGER_TABLE_run, scratch), 1);
    CHECK_EQ(ledger_import(b, lines, scratch, &rows, &err),
             STATUS_OK); /* once more changes nothing */
    CHECK_EQ(ledger_export(b, STR("run two"), STR(""), perm, &again, &err), STATUS_OK);
    CHECK_STR(lines, again);
    CHECK_EQ(ledger_export(a, STR("run two"), STR("two 1"), perm, &part, &err), STATUS_OK);
    CHECK(part.len < lines.len && strstr(part.data, "\"two 1\"") &&
          !strstr(part.data, "\"segment\",\"id\":\"two 2\""));
    ledger_close(a);
    ledger_close(b);
}

TEST(damaged_lines_change_nothing_and_say_where)
{
    struct ledger *l   = open_at(in_folder(perm), perm);
    struct err     err = { 0 };
    i64            rows;
    struct {
        const char *lines, *says;
    } cases[] = {
        { "{\"row\":\"price\",\"id\":\"a\"}\n{\"row\":", "line 2: " },
        { "{\"row\":\"price\",\"id\":\"a\"}\n{\"row\":\"price\"}", "line 2: price.id is missing" },
        { "{\"row\":\"price\",\"id\":7}", "line 1: price.id is the wrong type for that column" },
        { "{\"row\":\"price\",\"id\":null}", "price.id is the wrong type for that column" },
        { "{\"id\":\"a\"}", "this is not a row of a ledger" },
        { "[1]", "this is not a row of a ledger" },
    };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        CHECK_EQ(ledger_import(l, str_of(cases[i].lines), scratch, &rows, &err), STATUS_USAGE);
        CHECK(strstr(err.text, cases[i].says));
        CHECK_EQ(count_of(l, LEDGER_TABLE_price, scratch), 0);
    }
    /* Of a newer frugal: a table and a column that are not known here. */
    CHECK_EQ(
        ledger_import(
            l, STR("{\"row\":\"moon\",\"id\":\"a\"}\n\n{\"row\":\"price\",\"id\":\"b\",\"x\":[]}"),
            scratch, &rows, &err),
        STATUS_OK);
    CHECK_EQ(rows, 1);
    ledger_close(l);
}

/* A process of its own that writes pairs of rows until it is ended: a segment never comes without
 * its step. */
static void write_pairs(struct str path, i64 writer, i64 limit)
{
    struct arena       mine = arena_open((i64)1 << 28);
    struct ledger     *l;
    struct segment_row s    = { .beat_wall_ns = 1 };
    struct step_row    step = { 0 };
    if (ledger_open(os_real(), path, &mine, &l, NULL)) _exit(3);
    for (i64 i = 0; i < limit; i++) {
        struct arena here = mine;
        s.id              = step.segment =
            str_fmt(&here, "%lld-%d-%lld", (long long)writer, getpid(), (long long)i);
        if (ledger_begin(l, NULL) || ledger_put(l, LEDGER_TABLE_segment, &s, NULL) ||
            ledger_put(l, LEDGER_TABLE_step, &step, NULL) || ledger_commit(l, NULL))
            _exit(3);
    }
    ledger_close(l);
    _exit(0);
}

static pid_t writer_start(struct str path, i64 writer, i64 limit)
{
    pid_t pid = fork();
    if (!pid) write_pairs(path, writer, limit);
    CHECK(pid > 0);
    return pid;
}

/* ---- files that are not ours, not of now, not whole ---- */

static void sql(struct str path, const char *text, struct arena scratch)
{
    sqlite3 *db;
    CHECK_EQ(sqlite3_open(str_z(&scratch, path), &db), SQLITE_OK);
    int code = sqlite3_exec(db, text, NULL, NULL, NULL);
    if (code != SQLITE_OK) printf("%s\n", sqlite3_errmsg(db));
    CHECK_EQ(code, SQLITE_OK);
    sqlite3_close(db);
}

TEST(another_file_is_left_alone)
{
    struct str     folder = folder_new(perm), path = str_cat(perm, folder, STR("/other.db"));
    struct err     err = { 0 };
    struct ledger *l;
    sql(path, "CREATE TABLE users(name TEXT)", scratch);
    CHECK_EQ(ledger_open(os_real(), path, perm, &l, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "is a database, but not a ledger"));
    path = folder_put(perm, folder, "text.db",
                      STR("no database at all, but long enough for a header of one, "
                          "which has one hundred bytes, so that it is read and found wanting"));
    CHECK_EQ(ledger_open(os_real(), path, perm, &l, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "is damaged (file is not a database); move it away"));
    path = str_cat(perm, folder, STR("/text.db/ledger.db"));
    CHECK_EQ(ledger_open(os_real(), path, perm, &l, &err), STATUS_WORLD);
    CHECK(err.text[0]);
}

/* A file as version 1 made it: never to be changed. */
static const char version_1[] =
    "CREATE TABLE run(id TEXT, name TEXT, kind TEXT, settings TEXT, tags TEXT, runs_per_month "
    "REAL, metric TEXT,"
    " target REAL, unit TEXT, steps_planned INTEGER, begin_wall_ns INTEGER, PRIMARY KEY(id));"
    "CREATE TABLE segment(id TEXT, run TEXT, version TEXT, machine TEXT, boot TEXT, device TEXT, "
    "gpus INTEGER,"
    " price TEXT, begin_wall_ns INTEGER, beat_wall_ns INTEGER, beat_every_ns INTEGER, ended TEXT,"
    " metered_ns INTEGER, compute_ns INTEGER, evaluation_ns INTEGER, redone_ns INTEGER, loading_ns "
    "INTEGER,"
    " checkpoint_ns INTEGER, starting_ns INTEGER, booting_ns INTEGER, idle_ns INTEGER, billed_usd "
    "REAL,"
    " step_from INTEGER, step INTEGER, samples INTEGER, tokens INTEGER, loss REAL, value REAL, "
    "target_ns INTEGER,"
    " precision TEXT, batch INTEGER, accumulate INTEGER, flops_step REAL, arena_bytes INTEGER,"
    " peak_rss_bytes INTEGER, PRIMARY KEY(id));"
    "CREATE TABLE step(segment TEXT, step INTEGER, metered_ns INTEGER, compute_ns INTEGER, samples "
    "INTEGER,"
    " loss REAL, value REAL, PRIMARY KEY(segment, step));"
    "CREATE TABLE price(id TEXT, usd_hour REAL, market TEXT, source TEXT, granularity_s INTEGER,"
    " minimum_s INTEGER, free_s INTEGER, PRIMARY KEY(id));"
    "CREATE TABLE prediction(id TEXT, run TEXT, by TEXT, made_wall_ns INTEGER, machine TEXT, "
    "seconds REAL,"
    " usd REAL, arena_bytes INTEGER, PRIMARY KEY(id));"
    "CREATE TABLE checkpoint(segment TEXT, step INTEGER, place TEXT, bytes INTEGER, blocked_ns "
    "INTEGER,"
    " persist_ns INTEGER, saved_wall_ns INTEGER, removed_wall_ns INTEGER, usd_gib_month REAL,"
    " PRIMARY KEY(segment, step, place));"
    "CREATE TABLE interruption(segment TEXT, kind TEXT, at_wall_ns INTEGER, notice_s REAL, step "
    "INTEGER,"
    " saved_step INTEGER, PRIMARY KEY(segment, kind));"
    "PRAGMA application_id=1718777191; PRAGMA user_version=1;"
    "INSERT INTO run(id, name, begin_wall_ns) VALUES('old', 'kept', 7);"
    "INSERT INTO segment(id, run, step, loss, beat_wall_ns) VALUES('s', 'old', 12, 0.5, 8);";

TEST(a_file_of_an_older_frugal_is_upgraded)
{
    struct str          folder = folder_new(perm), path = str_cat(perm, folder, STR("/ledger.db"));
    struct segment_row *s;
    i64                 count;
    sql(path, version_1, scratch);
    struct ledger *l = open_at(path, perm);
    CHECK_EQ(ledger_read(l, LEDGER_TABLE_segment, "run", STR("old"), perm, &s, &count, NULL),
             STATUS_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(s->step, 12);
    CHECK_EQ(s->loss, 0.5);
    CHECK(isnan(s->energy_wh));  /* of version 2 */
    CHECK(isnan(s->value));      /* was NULL already */
    CHECK_EQ(s->weights.len, 0); /* of version 9 */
    struct run_row *run;
    CHECK_EQ(ledger_read(l, LEDGER_TABLE_run, "id", STR("old"), perm, &run, &count, NULL),
             STATUS_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(run->parameters, 0); /* of version 7 */
    CHECK_EQ(run->model.len, 0);
    CHECK_EQ(run->origins.len, 0); /* of version 8 */
    s->energy_wh = 3;
    CHECK_EQ(ledger_put(l, LEDGER_TABLE_segment, s, NULL), STATUS_OK);
    CHECK_EQ(ledger_read(l, LEDGER_TABLE_segment, "run", STR("old"), perm, &s, &count, NULL),
             STATUS_OK);
    CHECK_EQ(s->energy_wh, 3);
    put_run(l, "new", perm);
    CHECK_EQ(count_of(l, LEDGER_TABLE_run, scratch), 2);
    ledger_close(l);
    l = open_at(path, perm); /* and once more there is nothing to do */
    CHECK_EQ(count_of(l, LEDGER_TABLE_run, scratch), 2);
    ledger_close(l);
}

/* Killed while it upgrades: the next one finds the old file, or the new one. */
TEST(an_upgrade_that_is_killed_is_done_by_the_next)
{
    u64 state = test_seed();
    for (i64 i = 0; i < 8; i++) {
        struct str path = str_cat(perm, folder_new(perm), STR("/ledger.db"));
        sql(path, version_1, scratch);
        pid_t pid = writer_start(path, 1, 1);
        state     = state * 6364136223846793005u + 1442695040888963407u;
        usleep((useconds_t)(state >> 33) % 12000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        struct ledger *l = open_at(path, perm);
        CHECK_EQ(count_of(l, LEDGER_TABLE_run, scratch), 1);
        ledger_close(l);
    }
}

TEST(a_file_of_a_newer_frugal_serves)
{
    struct str     path = in_folder(perm);
    struct ledger *l    = open_at(path, perm);
    ledger_close(l);
    sql(path,
        "ALTER TABLE run ADD COLUMN mood TEXT; CREATE TABLE moon(id TEXT); PRAGMA "
        "user_version=999;",
        scratch);
    l = open_at(path, perm);
    put_run(l, "old", perm);
    CHECK_EQ(count_of(l, LEDGER_TABLE_run, scratch), 1);
    ledger_close(l);
}

/* ---- kills, crowds, a full disk ---- */

static void check_whole(struct str path, struct arena scratch)
{
    sqlite3       *db;
    sqlite3_stmt  *s;
    struct ledger *l =
        open_at(path, &scratch); /* first: a writer may die before it made the folder */
    CHECK_EQ(sqlite3_open(str_z(&scratch, path), &db), SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_step(s), SQLITE_ROW);
    CHECK_STR((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
    sqlite3_close(db);
    CHECK_EQ(count_of(l, LEDGER_TABLE_segment, scratch), count_of(l, LEDGER_TABLE_step, scratch));
    ledger_close(l);
}

static i64 seconds_asked(void)
{
    const char *text = getenv("CHECK_SECONDS");
    return text ? atoll(text) : 2;
}

/* A hundred kills in the long form; at least ten in any. */
TEST(a_hundred_kills_leave_it_whole)
{
    struct str path  = in_folder(perm);
    u64        state = test_seed();
    i64        kills = MIN(MAX(10 * seconds_asked(), 10), 100), rows = 0;
    for (i64 i = 0; i < kills; i++) {
        int status;
        state   = state * 6364136223846793005u + 1442695040888963407u;
        pid_t a = writer_start(path, 1, INT64_MAX), b = writer_start(path, 2, INT64_MAX);
        usleep((useconds_t)(state >> 33) % 50000);
        kill(a, SIGKILL);
        kill(b, SIGKILL);
        CHECK_EQ(waitpid(a, &status, 0), a);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK_EQ(waitpid(b, &status, 0), b);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        check_whole(path, scratch);
    }
    struct ledger *l = open_at(path, perm);
    rows             = count_of(l, LEDGER_TABLE_step, scratch);
    ledger_close(l);
    printf("(%lld kills, %lld rows) ", (long long)kills, (long long)rows);
    CHECK(rows > kills); /* or nothing was ever written */
}

TEST(four_writers_lose_nothing)
{
    enum { WRITERS = 4, EACH = 50 };
    struct str path = in_folder(perm);
    pid_t      pids[WRITERS];
    for (i64 i = 0; i < WRITERS; i++) pids[i] = writer_start(path, i, EACH);
    for (i64 i = 0; i < WRITERS; i++) {
        int status;
        CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    struct ledger *l = open_at(path, perm);
    CHECK_EQ(count_of(l, LEDGER_TABLE_segment, scratch), WRITERS * EACH);
    ledger_close(l);
    check_whole(path, scratch);
}

/* The disk as the process sees it ends at some byte: every write beyond it fails. */
TEST(a_full_disk_is_a_sentence_and_what_was_there_stays)
{
    struct str     path = in_folder(perm);
    struct ledger *l    = open_at(path, perm);
    struct err     err  = { 0 };
    struct rlimit  was, now;
    i64            put = 0;
    put_run(l, "before", perm);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    now = (struct rlimit){ 200000, was.rlim_max };
    setrlimit(RLIMIT_FSIZE, &now);
    for (; put < 100000 && !err.status; put++) {
        struct arena       here = scratch;
        struct segment_row s = { .id = str_fmt(&here, "%lld", (long long)put), .beat_wall_ns = 1 };
        if (ledger_begin(l, &err) || ledger_put(l, LEDGER_TABLE_segment, &s, &err) ||
            ledger_commit(l, &err))
            ledger_rollback(l);
    }
    setrlimit(RLIMIT_FSIZE, &was);
    CHECK_EQ(err.status, STATUS_WORLD);
    CHECK(strstr(err.text, "cannot write the ledger"));
    /* Once there is room again, the same connection goes on. */
    struct segment_row s = { .id = STR("after"), .beat_wall_ns = 1 };
    CHECK_EQ(ledger_put(l, LEDGER_TABLE_segment, &s, &err), STATUS_OK);
    CHECK_EQ(count_of(l, LEDGER_TABLE_run, scratch), 1);
    CHECK(count_of(l, LEDGER_TABLE_segment, scratch) >= put);
    ledger_close(l);
}
#else
TEST(without_sqlite_it_says_so)
{
    struct ledger *l;
    struct err     err = { 0 };
    CHECK_EQ(ledger_open(os_real(), STR("x"), perm, &l, &err), STATUS_NO);
    CHECK(strstr(err.text, "without SQLite"));
}
#endif

TEST(terms_of_a_segment_sum_to_its_time)
{
    i64                ns[TERM_COUNT], back[TERM_COUNT], sum = 0;
    struct segment_row s = { 0 };
    for (i64 i = 0; i < TERM_COUNT; i++) sum += ns[i] = (i64)1 << (3 * i);
    segment_set_terms(&s, ns);
    segment_terms(&s, back);
    CHECK_EQ(s.metered_ns, sum);
    for (i64 i = 0; i < TERM_COUNT; i++) CHECK_EQ(ns[i], back[i]);
}

TEST(the_ledger_lies_where_the_user_says)
{
    setenv("XDG_STATE_HOME", "/state", 1);
    CHECK_STR(ledger_path(os_real(), STR(""), perm), "/state/frugal/ledger.db");
    CHECK_STR(ledger_path(os_real(), STR("here.db"), perm), "here.db");
    CHECK_EQ(ledger_path(os_real(), STR("none"), perm).len, 0);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "/me", 1);
    CHECK_STR(ledger_path(os_real(), STR(""), perm), "/me/.local/state/frugal/ledger.db");
}
