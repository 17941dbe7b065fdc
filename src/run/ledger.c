/* ledger.c - the ledger as an SQLite file.
 *
 * On a local disk it is written ahead (WAL): readers and writers do not wait for one another, and
 * a heartbeat needs no sync. WAL shares memory between processes, which a network file system
 * does not, so there the old rollback journal is used. Either way a killed process leaves a whole
 * file: SQLite undoes what was half done. */
#include "run/run_int.h"
#ifdef FRUGAL_HAVE_SQLITE
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

enum {
    BUSY_MS        = 5000,
    BUSY_TRY_MS    = 10,
    APPLICATION_ID = 0x66727567, /* "frug", in the file's header */
    SQL_BYTES      = 1 << 16
};

struct ledger {
    sqlite3           *db;
    struct str         path;
    sqlite3_stmt      *put[LEDGER_TABLE_COUNT]; /* made when first needed */
    struct arena       scratch;
    struct os         *os;
    const atomic_bool *give_up; /* NULL: never before BUSY_MS */
};

/* Another writes: shall we try again? */
static int busy(void *context, int tries)
{
    struct ledger *l = context;
    if (tries >= BUSY_MS / BUSY_TRY_MS || (l->give_up && atomic_load(l->give_up))) return 0;
    l->os->sleep_ns(l->os, (i64)BUSY_TRY_MS * 1000000);
    return 1;
}

static enum status failed(struct ledger *l, const char *what, struct err *err)
{
    int code = l->db ? sqlite3_errcode(l->db) : SQLITE_NOMEM;
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return err_set(
            err, STATUS_WORLD,
            "the ledger %.*s is damaged (%s); move it away, and a new one will be created",
            STR_ARG(l->path), sqlite3_errmsg(l->db));
    return err_set(err, STATUS_WORLD, "cannot %s the ledger %.*s: %s", what, STR_ARG(l->path),
                   l->db ? sqlite3_errmsg(l->db) : "no memory");
}

static enum status exec(struct ledger *l, const char *sql, const char *what, struct err *err)
{
    return sqlite3_exec(l->db, sql, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK
                                                                   : failed(l, what, err);
}

/* Where the answer of a statement is a number or a word. */
static struct str ask(struct ledger *l, const char *sql, struct arena *perm)
{
    struct str    answer = STR("");
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(l->db, sql, -1, &s, NULL) != SQLITE_OK) return answer;
    if (sqlite3_step(s) == SQLITE_ROW)
        answer = str_copy(perm, str_of((const char *)sqlite3_column_text(s, 0)));
    sqlite3_finalize(s);
    return answer;
}

static i64 ask_i64(struct ledger *l, const char *sql)
{
    struct arena here = l->scratch;
    i64          n    = -1;
    return str_i64(ask(l, sql, &here), &n) ? n : -1;
}

/* ---- the schema ---- */

static const char *sql_type(const struct column *c)
{
    return column_is_text(c) ? "TEXT" : c->kind == COLUMN_REAL ? "REAL" : "INTEGER";
}

static void add_keys(struct textbuf *b, const struct table *t)
{
    for (i64 i = 0; i < t->column_count && column_is_key(&t->columns[i]); i++)
        textbuf_fmt(b, "%s\"%s\"", i ? "," : "", t->columns[i].name);
}

static void add_create(struct textbuf *b, const struct table *t)
{
    textbuf_fmt(b, "CREATE TABLE \"%s\"(", t->name);
    for (i64 i = 0; i < t->column_count; i++)
        textbuf_fmt(b, "\"%s\" %s,", t->columns[i].name, sql_type(&t->columns[i]));
    textbuf_fmt(b, "PRIMARY KEY(");
    add_keys(b, t);
    textbuf_fmt(b, "));\n");
}

/* From what version `old` had to what we have: tables and columns are only ever added. */
static const char *sql_upgrade(struct arena *perm, i64 old)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < LEDGER_TABLE_COUNT; i++) {
        const struct table *t = &ledger_tables[i];
        if (t->since > old) add_create(&b, t);
        for (i64 c = 0; c < t->column_count && t->since <= old; c++)
            if (t->columns[c].since > old)
                textbuf_fmt(&b, "ALTER TABLE \"%s\" ADD COLUMN \"%s\" %s;\n", t->name,
                            t->columns[c].name, sql_type(&t->columns[c]));
    }
    textbuf_fmt(&b, "PRAGMA application_id=%d;PRAGMA user_version=%d;", APPLICATION_ID,
                LEDGER_VERSION);
    return textbuf_str(&b).data;
}

/* A file of a newer version is as good as one of ours: it has all our columns. Looked at again once
 * we hold the file alone, for another may just have done it. */
static enum status upgrade(struct ledger *l, struct err *err)
{
    if (ask_i64(l, "PRAGMA user_version") >= LEDGER_VERSION) return STATUS_OK;
    struct arena here = l->scratch;
    enum status  st   = ledger_begin(l, err);
    if (st) return st;
    i64 old = ask_i64(l, "PRAGMA user_version");
    if (old == 0 && ask_i64(l, "SELECT count(*) FROM sqlite_schema") > 0)
        st = err_set(err, STATUS_WORLD, "%.*s is a database, but not a ledger", STR_ARG(l->path));
    if (!st && old < LEDGER_VERSION) st = exec(l, sql_upgrade(&here, old), "upgrade", err);
    if (!st) return ledger_commit(l, err);
    sqlite3_exec(l->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

/* To change the way of writing needs the file alone for a moment, and SQLite does not wait for that
 * by itself. */
static enum status journal(struct ledger *l, struct os *os, struct err *err)
{
    enum { TRIES = 50, TRY_NS = 100000000 };
    bool        wal  = !os_disk_is_remote(l->path);
    const char *want = wal ? "wal" : "delete";
    for (i64 i = 0; i < TRIES; i++) {
        struct arena here = l->scratch;
        if (str_eq(ask(l, "PRAGMA journal_mode", &here), str_of(want))) return STATUS_OK;
        if (str_eq(ask(l, wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=DELETE", &here),
                   str_of(want)))
            return STATUS_OK;
        if (sqlite3_errcode(l->db) != SQLITE_BUSY || (l->give_up && atomic_load(l->give_up))) break;
        os->sleep_ns(os, TRY_NS);
    }
    return failed(l, "open", err);
}

static enum status open_file(struct ledger *l, struct os *os, struct err *err)
{
    struct arena here  = l->scratch;
    const char  *z     = str_z(&here, l->path);
    const char  *slash = strrchr(z, '/');
    enum status  st    = STATUS_OK;
    bool         was   = os_private(true);
    if (slash) st = os->make_dir(os, str_sub(l->path, 0, slash - z), err);
    os_private(was);
    if (st) return st;
    int fd = open(z, O_RDWR | O_CREAT | O_CLOEXEC,
                  0600); /* SQLite's others beside it get the same mode */
    if (fd >= 0) close(fd);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(z, &l->db, flags, NULL) != SQLITE_OK) return failed(l, "open", err);
    sqlite3_busy_handler(l->db, busy, l);
    st = journal(l, os, err);
    if (!st) st = exec(l, "PRAGMA synchronous=NORMAL", "open", err);
    return st ? st : upgrade(l, err);
}

const char *ledger_library(void) { return sqlite3_libversion(); }

enum status ledger_open(struct os *os, struct str path, struct arena *perm, struct ledger **out,
                        struct err *err)
{
    return ledger_open_patient(os, path, NULL, perm, out, err);
}

enum status ledger_open_patient(struct os *os, struct str path, const atomic_bool *give_up,
                                struct arena *perm, struct ledger **out, struct err *err)
{
    struct ledger *l = NEW(perm, struct ledger, 1);
    l->os            = os;
    l->give_up       = give_up;
    l->path          = str_copy(perm, path);
    l->scratch       = arena_part(perm, SQL_BYTES);
    enum status st   = open_file(l, os, err);
    if (st) ledger_close(l);
    else *out = l;
    return st;
}

void ledger_close(struct ledger *l)
{
    for (i64 i = 0; i < LEDGER_TABLE_COUNT; i++) sqlite3_finalize(l->put[i]);
    sqlite3_close(l->db);
    l->db = NULL;
}

i64 ledger_version(struct ledger *l) { return ask_i64(l, "PRAGMA data_version"); }

enum status ledger_begin(struct ledger *l, struct err *err)
{
    return exec(l, "BEGIN IMMEDIATE", "write", err);
}

enum status ledger_commit(struct ledger *l, struct err *err)
{
    enum status st = exec(l, "COMMIT", "write", err);
    if (st) ledger_rollback(l);
    return st;
}

void ledger_rollback(struct ledger *l)
{
    if (!sqlite3_get_autocommit(l->db)) sqlite3_exec(l->db, "ROLLBACK", NULL, NULL, NULL);
}

/* ---- rows ---- */

/* INSERT … ON CONFLICT(keys) DO UPDATE SET each=excluded.each WHERE the new one is not older. */
static const char *sql_put(struct arena *perm, const struct table *t)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "INSERT INTO \"%s\"(", t->name);
    for (i64 i = 0; i < t->column_count; i++)
        textbuf_fmt(&b, "%s\"%s\"", i ? "," : "", t->columns[i].name);
    textbuf_fmt(&b, ")VALUES(");
    for (i64 i = 0; i < t->column_count; i++) textbuf_fmt(&b, i ? ",?" : "?");
    textbuf_fmt(&b, ")ON CONFLICT("); /* which SQLite before 3.35 wants to be told */
    add_keys(&b, t);
    textbuf_fmt(&b, ")DO UPDATE SET ");
    for (i64 i = 0; i < t->column_count; i++)
        textbuf_fmt(&b, "%s\"%s\"=excluded.\"%s\"", i ? "," : "", t->columns[i].name,
                    t->columns[i].name);
    for (i64 i = 0; i < t->column_count; i++)
        if (t->columns[i].kind == COLUMN_AGE)
            textbuf_fmt(&b, " WHERE excluded.\"%s\">=\"%s\".\"%s\"", t->columns[i].name, t->name,
                        t->columns[i].name);
    return textbuf_str(&b).data;
}

static int bind(sqlite3_stmt *s, int at, const struct column *c, const void *row)
{
    if (c->kind == COLUMN_REAL) { /* SQLite keeps a NaN as NULL */
        return sqlite3_bind_double(s, at, *row_real(c, row));
    }
    if (!column_is_text(c)) return sqlite3_bind_int64(s, at, *row_int(c, row));
    const struct str *text = row_text(c, row);
    return sqlite3_bind_text(s, at, text->len ? text->data : "", (int)text->len, SQLITE_TRANSIENT);
}

enum status ledger_put(struct ledger *l, enum ledger_table table, const void *row, struct err *err)
{
    const struct table *t    = &ledger_tables[table];
    struct arena        here = l->scratch;
    sqlite3_stmt      **s    = &l->put[table];
    if (!*s && sqlite3_prepare_v2(l->db, sql_put(&here, t), -1, s, NULL) != SQLITE_OK)
        return failed(l, "write", err);
    for (i64 i = 0; i < t->column_count; i++)
        if (bind(*s, (int)i + 1, &t->columns[i], row) != SQLITE_OK) return failed(l, "write", err);
    int         code = sqlite3_step(*s);
    enum status st   = code == SQLITE_DONE ? STATUS_OK : failed(l, "write", err);
    sqlite3_reset(*s);
    return st;
}

/* Machines, devices, versions and much else are the same from row to row: such texts are kept once. */
static void take(sqlite3_stmt *s, int at, const struct column *c, void *row, void *row_before,
                 struct arena *perm)
{
    if (column_is_text(c)) {
        struct str text = { (const char *)sqlite3_column_text(s, at), sqlite3_column_bytes(s, at) };
        struct str last = row_before ? *row_text(c, row_before) : STR("");
        if (!text.data) text = STR("");
        *row_text(c, row) = str_eq(text, last) ? last : str_copy(perm, text);
    } else if (c->kind == COLUMN_REAL) {
        bool known        = sqlite3_column_type(s, at) != SQLITE_NULL;
        *row_real(c, row) = known ? sqlite3_column_double(s, at) : NAN;
    } else {
        *row_int(c, row) = sqlite3_column_int64(s, at);
    }
}

/* SELECT columns, or count(*), FROM table WHERE … */
static sqlite3_stmt *select(struct ledger *l, const struct table *t, bool count, const char *where,
                            struct str is)
{
    struct arena   here = l->scratch;
    struct textbuf b    = textbuf_new(&here);
    sqlite3_stmt  *s    = NULL;
    textbuf_fmt(&b, "SELECT ");
    for (i64 i = 0; i < t->column_count && !count; i++)
        textbuf_fmt(&b, "%s\"%s\"", i ? "," : "", t->columns[i].name);
    textbuf_fmt(&b, "%s FROM \"%s\"", count ? "count(*)" : "", t->name);
    if (where) textbuf_fmt(&b, " WHERE \"%s\"=?", where);
    textbuf_fmt(&b, " ORDER BY rowid");
    if (sqlite3_prepare_v2(l->db, textbuf_str(&b).data, -1, &s, NULL) != SQLITE_OK) return NULL;
    if (where) sqlite3_bind_text(s, 1, is.len ? is.data : "", (int)is.len, SQLITE_TRANSIENT);
    return s;
}

enum status ledger_read(struct ledger *l, enum ledger_table table, const char *where, struct str is,
                        struct arena *perm, void *rows, i64 *count, struct err *err)
{
    const struct table *t    = &ledger_tables[table];
    sqlite3_stmt       *s    = select(l, t, true, where, is);
    i64                 room = 0;
    int                 code = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (code == SQLITE_ROW) room = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    if (code != SQLITE_ROW) return failed(l, "read", err);

    u8 *at = arena_take(perm, MAX(room, 1), t->row_bytes, _Alignof(union ledger_any));
    memcpy(rows, &at, sizeof at); /* the caller's pointer has the type of its rows */
    s = select(l, t, false, where, is);
    for (*count = 0; s && (code = sqlite3_step(s)) == SQLITE_ROW && *count < room; (*count)++) {
        u8 *row = at + *count * t->row_bytes, *before = *count ? row - t->row_bytes : NULL;
        for (i64 c = 0; c < t->column_count; c++)
            take(s, (int)c, &t->columns[c], row, before, perm);
    }
    bool ok = s && (code == SQLITE_DONE || *count == room); /* more may have come meanwhile */
    sqlite3_finalize(s);
    return ok ? STATUS_OK : failed(l, "read", err);
}
#endif
