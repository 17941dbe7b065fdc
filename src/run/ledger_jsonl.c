/* ledger_jsonl.c - rows that travel: a run or a segment of it as JSON lines, and back. */
#include "run/run_int.h"
#include <string.h>

enum { LINE_BYTES = 4 << 20, ROWS_BYTES = 1 << 30 };

struct export
{
    struct ledger *l;
    struct textbuf out;
    struct arena   scratch;
    struct err    *err;
};

static enum status add_rows(struct export *e, enum ledger_table table, const char *where,
                            struct str is)
{
    const struct table *t    = &ledger_tables[table];
    struct arena        here = e->scratch;
    const u8           *rows;
    i64                 count;
    enum status         st = ledger_read(e->l, table, where, is, &here, &rows, &count, e->err);
    for (i64 i = 0; i < count && !st; i++) row_write(t, rows + i * t->row_bytes, &e->out);
    return st;
}

/* A segment's own rows: what was paid, and what happened in it. */
static enum status add_segment(struct export *e, const struct segment_row *s)
{
    enum status st = STATUS_OK;
    row_write(&ledger_tables[LEDGER_TABLE_segment], s, &e->out);
    if (s->price.len) st = add_rows(e, LEDGER_TABLE_price, "id", s->price);
    if (!st) st = add_rows(e, LEDGER_TABLE_step, "segment", s->id);
    if (!st) st = add_rows(e, LEDGER_TABLE_checkpoint, "segment", s->id);
    if (!st) st = add_rows(e, LEDGER_TABLE_interruption, "segment", s->id);
    return st;
}

enum status ledger_export(struct ledger *l, struct str run, struct str segment, struct arena *perm,
                          struct str *lines, struct err *err)
{
    struct arena rows = arena_open(ROWS_BYTES); /* beside perm, where the text grows in place */
    struct export e   = { l, textbuf_new(perm), rows, err };
    struct segment_row *s;
    i64                 count = 0;
    if (!rows.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = ledger_read(l, LEDGER_TABLE_segment, "run", run, &e.scratch, &s, &count, err);
    if (!st) st = add_rows(&e, LEDGER_TABLE_run, "id", run);
    if (!st) st = add_rows(&e, LEDGER_TABLE_prediction, "run", run);
    for (i64 i = 0; i < count && !st; i++)
        if (!segment.len || str_eq(segment, s[i].id)) st = add_segment(&e, &s[i]);
    arena_close(&rows);
    *lines = textbuf_str(&e.out);
    return st;
}

static enum status import_line(struct ledger *l, struct str line, struct arena scratch, i64 *rows,
                               struct err *err)
{
    union ledger_any  row;
    enum ledger_table table;
    if (line.len > LINE_BYTES / 16)
        return err_set(err, STATUS_USAGE, "too long for a row of a ledger");
    enum status st = row_read(line, &scratch, &table, &row, err);
    if (st == STATUS_NO) return STATUS_OK; /* of a newer frugal */
    if (!st) st = ledger_put(l, table, &row, err);
    *rows += !st;
    return st;
}

/* JSON counts lines too, and to it there is but one. */
static const char *without_line(const char *text)
{
    static const char first[] = "line 1, ";
    return strncmp(text, first, sizeof first - 1) ? text : text + sizeof first - 1;
}

enum status ledger_import(struct ledger *l, struct str lines, struct arena scratch, i64 *rows,
                          struct err *err)
{
    struct str  line;
    i64         number = 0;
    enum status st     = ledger_begin(l, err);
    *rows              = 0;
    while (!st && str_cut(&lines, '\n', &line)) {
        struct err why = { 0 };
        number++;
        if (!str_trim(line).len) continue;
        st = import_line(l, line, scratch, rows, &why);
        if (st) err_set(err, st, "line %lld: %s", (long long)number, without_line(why.text));
    }
    if (!st) st = ledger_commit(l, err);
    if (st) ledger_rollback(l);
    return st;
}
