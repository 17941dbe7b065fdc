/* prices_show.c - any table of the catalogue as text and as JSON. */
#include "cli/prices_show.h"
#include "base/json.h"
#include <math.h>

enum { TABLE_COLUMNS_MAX = 64 };

static struct str cell_text(const struct table *t, const struct column *c, const void *row,
                            struct arena *perm)
{
    const void *at = (const u8 *)row + c->offset;
    switch (c->kind) {
    case COLUMN_TEXT: return *(const struct str *)at;
    case COLUMN_COUNT: return str_fmt(perm, "%d", *(const i32 *)at);
    case COLUMN_DAY:
        return *(const i32 *)at == DAY_UNKNOWN ? STR("") : day_text(perm, *(const i32 *)at);
    case COLUMN_FIGURE: break;
    }
    if (isnan(*(const f64 *)at)) return STR("");
    return str_fmt(perm, "%s%.6g", table_is_assumed(t, row, c) ? "~" : "", *(const f64 *)at);
}

void prices_json_row(const struct table *t, const void *row, struct textbuf *b,
                     struct arena scratch)
{
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c  = &t->columns[i];
        const void          *at = (const u8 *)row + c->offset;
        textbuf_fmt(b, ",\"%.*s\":", STR_ARG(c->name));
        if (c->kind == COLUMN_FIGURE) json_add_f64(b, *(const f64 *)at);
        else if (c->kind == COLUMN_COUNT) textbuf_fmt(b, "%d", *(const i32 *)at);
        else json_add_string(b, cell_text(t, c, row, &scratch));
    }
    textbuf_fmt(b, ",\"assumed\":[");
    for (i64 i = 0, shown = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        if (c->kind != COLUMN_FIGURE || !table_is_assumed(t, row, c)) continue;
        textbuf_fmt(b, "%s\"%.*s\"", shown++ ? "," : "", STR_ARG(c->name));
    }
    textbuf_fmt(b, "]");
}

/* As cell_text; the date of an old price of storage has a mark (machines have a line for each of theirs). */
static struct str shown_text(const struct table *t, const struct column *c, const void *row,
                             i32 today, struct arena *perm)
{
    i32        day  = c->kind == COLUMN_DAY ? *(const i32 *)((const u8 *)row + c->offset) : today;
    struct str text = cell_text(t, c, row, perm);
    return t == &table_storage && day_is_old(day, today) ? str_cat(perm, text, STR("*")) : text;
}

void prices_show_row(struct cli *c, const struct table *t, const void *row)
{
    for (i64 i = 0; i < t->column_count; i++) {
        struct arena scratch = *c->perm;
        struct str   text    = shown_text(t, &t->columns[i], row, day_today(c->os), &scratch);
        say_result(c->say, "  %-28.*s %.*s\n", STR_ARG(t->columns[i].name),
                   STR_ARG(text.len ? text : STR("not known")));
    }
}

static const void *row_at(const struct table *t, const void *rows, i64 i)
{
    return (const u8 *)rows + (size_t)i * t->row_bytes;
}

/* How wide a column is, with its name and all of its cells. */
static i64 column_width(const struct table *t, i64 i, const void *rows, i64 count, i32 today,
                        struct arena scratch)
{
    i64 width = t->columns[i].name.len;
    for (i64 r = 0; r < count; r++) {
        struct arena here = scratch;
        width = MAX(width, shown_text(t, &t->columns[i], row_at(t, rows, r), today, &here).len);
    }
    return width;
}

/* A whole table, as wide as its cells, the source last. */
static void show_wide(struct cli *c, const struct table *t, const void *rows, i64 count,
                      const i64 *widths)
{
    for (i64 r = -1; r < count; r++) {
        struct arena   line = *c->perm, cells = arena_part(&line, 1 << 16);
        struct textbuf b = textbuf_new(&line);
        for (i64 i = 0; i < t->column_count; i++) {
            struct str text = t->columns[i].name;
            bool       last = i == t->column_count - 1;
            if (r >= 0)
                text = shown_text(t, &t->columns[i], row_at(t, rows, r), day_today(c->os), &cells);
            textbuf_fmt(&b, "  %-*.*s", last ? 0 : (int)widths[i],
                        STR_ARG(text.len ? text : STR("-")));
        }
        say_result(c->say, "%.*s\n", STR_ARG(textbuf_str(&b)));
    }
}

/* A terminal that is too narrow for the table gets one row below the other. */
void prices_show_table(struct cli *c, const struct table *t, const void *rows, i64 count)
{
    i64 widths[TABLE_COLUMNS_MAX], all = 0;
    ASSERT(t->column_count <= TABLE_COLUMNS_MAX);
    for (i64 i = 0; i < t->column_count; i++)
        all += 2 + (widths[i] = column_width(t, i, rows, count, day_today(c->os), *c->perm));
    if (all <= say_columns(c->say, all)) {
        show_wide(c, t, rows, count, widths);
        return;
    }
    for (i64 r = 0; r < count; r++) {
        if (r) say_result(c->say, "\n");
        prices_show_row(c, t, row_at(t, rows, r));
    }
}
