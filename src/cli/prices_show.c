/* prices_show.c - any table of the catalogue as text and as JSON. */
#include "cli/prices_show.h"
#include "base/json.h"
#include <math.h>

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

void prices_show_row(struct cli *c, const struct table *t, const void *row)
{
    for (i64 i = 0; i < t->column_count; i++) {
        struct arena scratch = *c->perm;
        struct str   text    = cell_text(t, &t->columns[i], row, &scratch);
        say_result(c->say, "  %-28.*s %.*s\n", STR_ARG(t->columns[i].name),
                   STR_ARG(text.len ? text : STR("not known")));
    }
}

void prices_show_table(struct cli *c, const struct table *t, const void *rows, i64 count)
{
    for (i64 r = -1; r < count; r++) {
        const void *row = (const u8 *)rows + (size_t)MAX(r, 0) * t->row_bytes;
        for (i64 i = 0; i < t->column_count; i++) {
            struct arena scratch = *c->perm;
            i64          width   = t->columns[i].name.len;
            struct str   text    = t->columns[i].name;
            for (i64 j = 0; j < count; j++) {
                struct arena parts = scratch;
                width              = MAX(width, cell_text(t, &t->columns[i],
                                                          (const u8 *)rows + (size_t)j * t->row_bytes, &parts)
                                                    .len);
            }
            if (r >= 0) text = cell_text(t, &t->columns[i], row, &scratch);
            bool last = i == t->column_count - 1;
            say_result(c->say, last ? "  %-*.*s\n" : "  %-*.*s", last ? 0 : (int)width,
                       STR_ARG(text.len ? text : STR("-")));
        }
    }
}
