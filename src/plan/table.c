/* table.c - facts as CSV: the same columns read, laid over one another, and written. */
#include "plan/table.h"
#include <math.h>
#include <string.h>

enum { COLUMNS_MAX = 64 };

static void       *cell(const struct column *c, void *row) { return (u8 *)row + c->offset; }
static const void *cell_of(const struct column *c, const void *row)
{
    return (const u8 *)row + c->offset;
}
static u32 *assumed_bits(const struct table *t, void *row)
{
    return &((struct fact *)(void *)((u8 *)row + t->fact_offset))->assumed;
}
static u32 assumed_of(const struct table *t, const void *row)
{
    return ((const struct fact *)(const void *)((const u8 *)row + t->fact_offset))->assumed;
}
static u32 bit_of(const struct table *t, const struct column *c)
{
    return 1u << ((c->offset - t->figure_offset) / sizeof(f64));
}

void table_clear(const struct table *t, void *row)
{
    memset(row, 0, t->row_bytes);
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        switch (c->kind) {
        case COLUMN_TEXT: break;
        case COLUMN_COUNT: *(i32 *)cell(c, row) = COUNT_NOT_GIVEN; break;
        case COLUMN_FIGURE: *(f64 *)cell(c, row) = NAN; break;
        case COLUMN_DAY: *(i32 *)cell(c, row) = DAY_UNKNOWN; break;
        }
    }
}

static bool figure_parse(struct str text, f64 *out, bool *assumed)
{
    *assumed = str_starts(text, STR("~"));
    return str_f64(str_sub(text, *assumed, text.len), out) && *out >= 0;
}

static enum status cell_parse(const struct table *t, const struct column *c, const struct csv *csv,
                              i64 line, struct str text, void *row, struct err *err)
{
    static const char *const wanted[] = { "", "a whole number", "a number of 0 or more",
                                          "a date like 2026-08-22" };
    bool                     good = true, assumed = false;
    i64                      count = 0;
    if (!text.len) return STATUS_OK;
    switch (c->kind) {
    case COLUMN_TEXT: *(struct str *)cell(c, row) = text; break;
    case COLUMN_COUNT:
        good                 = str_i64(text, &count) && count >= 0 && count <= INT32_MAX;
        *(i32 *)cell(c, row) = (i32)count;
        break;
    case COLUMN_FIGURE:
        good = figure_parse(text, cell(c, row), &assumed);
        if (assumed) *assumed_bits(t, row) |= bit_of(t, c);
        break;
    case COLUMN_DAY: good = day_parse(text, cell(c, row)); break;
    }
    if (good) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.*s:%lld: \"%.*s\" in column %.*s should be %s",
                   STR_ARG(csv->path), (long long)line, (int)MIN(text.len, 40), text.data,
                   STR_ARG(c->name), wanted[c->kind]);
}

static enum status read_header(const struct table *t, struct csv *csv, const struct column **order,
                               i64 *count, struct err *err)
{
    enum status st = STATUS_OK;
    *count         = 0;
    if (!csv_more(csv))
        return err_set(err, STATUS_USAGE, "%.*s: there is no header", STR_ARG(csv->path));
    for (bool last = false; !st && !last;) {
        struct str           name;
        const struct column *found = NULL;
        st                         = csv_field(csv, &name, &last, err);
        for (i64 i = 0; i < t->column_count && !st; i++)
            if (str_eq(t->columns[i].name, str_trim(name))) found = &t->columns[i];
        for (i64 i = 0; i < *count && !st; i++)
            if (order[i] == found) found = NULL; /* once only */
        if (!st && (!found || *count == COLUMNS_MAX))
            return err_set(err, STATUS_USAGE,
                           "%.*s: the column \"%.*s\" is not known or given twice; see "
                           "docs/formats/prices.md",
                           STR_ARG(csv->path), (int)MIN(name.len, 40), name.data);
        if (!st) order[(*count)++] = found;
    }
    return st;
}

enum status table_read(const struct table *t, struct csv csv, struct arena *perm, void **rows,
                       i64 *count, struct err *err)
{
    const struct column *order[COLUMNS_MAX];
    i64                  columns, rows_max;
    enum status          st = read_header(t, &csv, order, &columns, err);
    if (st) return st;
    rows_max = csv_lines_max(&csv);
    if (rows_max > CATALOGUE_MACHINES_MAX)
        return err_set(err, STATUS_USAGE, "%.*s has more than %d rows", STR_ARG(csv.path),
                       CATALOGUE_MACHINES_MAX);
    u8 *to = arena_take(perm, rows_max, (i64)t->row_bytes, _Alignof(max_align_t));
    *rows  = to;
    for (*count = 0; !st && csv_more(&csv); ++*count, to += t->row_bytes) {
        i64 line = csv.line, field = 0;
        table_clear(t, to);
        for (bool last = false; !st && !last; field++) {
            struct str text;
            st = csv_field(&csv, &text, &last, err);
            if (!st && field < columns)
                st = cell_parse(t, order[field], &csv, line, str_trim(csv_text(text, perm)), to,
                                err);
        }
        if (!st && field != columns)
            st = err_set(err, STATUS_USAGE, "%.*s:%lld: %lld fields, but the header has %lld",
                         STR_ARG(csv.path), (long long)line, (long long)field, (long long)columns);
    }
    return st;
}

void table_overlay(const struct table *t, void *to, const void *from)
{
    u32 *assumed = assumed_bits(t, to);
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        const void *new        = cell_of(c, from);
        switch (c->kind) {
        case COLUMN_TEXT:
            if (((const struct str *)new)->len)
                *(struct str *)cell(c, to) = *(const struct str *)new;
            break;
        case COLUMN_COUNT:
            if (*(const i32 *)new != COUNT_NOT_GIVEN) *(i32 *)cell(c, to) = *(const i32 *)new;
            break;
        case COLUMN_DAY:
            if (*(const i32 *)new != DAY_UNKNOWN) *(i32 *)cell(c, to) = *(const i32 *)new;
            break;
        case COLUMN_FIGURE:
            if (isnan(*(const f64 *)new)) break;
            *(f64 *)cell(c, to) = *(const f64 *)new;
            *assumed            = (*assumed & ~bit_of(t, c)) | (assumed_of(t, from) & bit_of(t, c));
        }
    }
}

void table_write_header(const struct table *t, struct textbuf *b)
{
    for (i64 i = 0; i < t->column_count; i++)
        textbuf_fmt(b, "%s%.*s", i ? "," : "", STR_ARG(t->columns[i].name));
    textbuf_fmt(b, "\n");
}

/* Quoted where it must be, its own quotes doubled. */
static void write_text(struct textbuf *b, struct str s)
{
    bool quoted = str_find(s, ',') >= 0 || str_find(s, '"') >= 0 || str_find(s, '\n') >= 0 ||
                  str_find(s, '\r') >= 0;
    if (quoted) textbuf_add(b, STR("\""));
    for (i64 at = str_find(s, '"'); at >= 0; at = str_find(s, '"')) {
        textbuf_fmt(b, "%.*s\"\"", (int)at, s.data);
        s = str_sub(s, at + 1, s.len);
    }
    textbuf_fmt(b, quoted ? "%.*s\"" : "%.*s", STR_ARG(s));
}

void table_write_row(const struct table *t, struct textbuf *b, const void *row)
{
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c  = &t->columns[i];
        const void          *at = cell_of(c, row);
        char                 day[32];
        struct arena         lent = { (u8 *)day, (u8 *)day + sizeof day, NULL };
        if (i) textbuf_fmt(b, ",");
        switch (c->kind) {
        case COLUMN_TEXT: write_text(b, *(const struct str *)at); break;
        case COLUMN_COUNT:
            if (*(const i32 *)at != COUNT_NOT_GIVEN) textbuf_fmt(b, "%d", *(const i32 *)at);
            break;
        case COLUMN_DAY:
            if (*(const i32 *)at != DAY_UNKNOWN) textbuf_add(b, day_text(&lent, *(const i32 *)at));
            break;
        case COLUMN_FIGURE:
            if (isnan(*(const f64 *)at)) break;
            if (assumed_of(t, row) & bit_of(t, c)) textbuf_fmt(b, "~");
            textbuf_f64(b, *(const f64 *)at);
        }
    }
    textbuf_fmt(b, "\n");
}

void table_assume(const struct table *t, void *row, const f64 *figure)
{
    size_t offset = (size_t)((const u8 *)figure - (const u8 *)row);
    *assumed_bits(t, row) |= 1u << ((offset - t->figure_offset) / sizeof(f64));
}

bool table_is_assumed(const struct table *t, const void *row, const struct column *figure)
{
    return assumed_of(t, row) & bit_of(t, figure);
}

struct str table_assumed(const struct table *t, const void *row, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        if (c->kind != COLUMN_FIGURE || !table_is_assumed(t, row, c)) continue;
        textbuf_fmt(&b, "%s%.*s", b.len ? ", " : "", STR_ARG(c->name));
    }
    return textbuf_str(&b);
}
