/* jsonl.c - a table (table.c) whose rows are JSON objects, one a line; columns are their fields.
 *
 *     {"clicked": 1, "price": 4.5, "city": "Oslo"}
 *
 * Numbers may be written as numbers, as texts that hold one, or as true and false; a field that is not
 * there, or null, is a missing value. Of categories the text counts as it is written. */
#include "base/json.h"
#include "data/table.h"
#include <string.h>

static const i64 tree_bytes_per_byte = 64; /* of the tree of a line: a node for every second byte */

struct reader {
    struct str                path, rest;
    i64                       line;
    const struct data_config *config;
    struct arena              memory; /* of one line's tree */
    bool *seen; /* columns, numbers first, that a line so far has; NULL: nobody asks */
};

/* The field's text; empty: it is missing. A list or a map is no value. */
static enum status field_of(const struct json *row, const struct table_where *w, bool *seen,
                            struct str *out, struct err *err)
{
    const struct json *v = json_get(row, w->column);
    *out                 = STR("");
    if (v && seen) *seen = true;
    if (!v || v->kind == JSON_NULL) return STATUS_OK;
    if (v->kind == JSON_LIST || v->kind == JSON_MAP)
        return err_set(err, STATUS_USAGE,
                       "%.*s:%lld: \"%.*s\" is a %s; a column needs single values",
                       STR_ARG(w->path), (long long)w->line, (int)MIN(w->column.len, 80),
                       w->column.data, v->kind == JSON_LIST ? "list" : "map");
    *out = v->text;
    return STATUS_OK;
}

static struct str as_number(struct str s)
{
    if (str_eq(s, STR("true"))) return STR("1");
    return str_eq(s, STR("false")) ? STR("0") : s;
}

static enum status parse_row(struct reader *r, struct str text, struct table *t, struct err *err)
{
    const struct data_config *c       = r->config;
    struct arena              scratch = r->memory;
    struct json              *row;
    struct err                why;
    struct str                s;
    enum status               st = json_parse_line(&scratch, text, &row, &why);
    if (!st && row->kind != JSON_MAP) st = err_set(&why, STATUS_USAGE, "it is not an object");
    if (st)
        return err_set(err, STATUS_USAGE, "%.*s:%lld: %s", STR_ARG(r->path), (long long)r->line,
                       why.text);
    struct table_where w = { r->path, r->line, c->label };
    if (c->label.len) st = field_of(row, &w, NULL, &s, err);
    if (!st && c->label.len) st = table_label(t, &w, as_number(s), err);
    for (i64 i = 0; i < c->numeric_count && !st; i++) {
        w.column = c->numeric[i];
        st       = field_of(row, &w, r->seen ? r->seen + i : NULL, &s, err);
        if (!st) st = table_number(t, &w, i, as_number(s), err);
    }
    for (i64 i = 0; i < c->categorical_count && !st; i++) {
        w.column = c->categorical[i];
        st       = field_of(row, &w, r->seen ? r->seen + c->numeric_count + i : NULL, &s, err);
        if (!st) table_category(t, i, s);
    }
    t->rows++;
    return st;
}

/* How many lines there are at most, and how long the longest is. */
static i64 measure(struct str text, i64 *longest)
{
    struct str line;
    i64        lines = 0;
    *longest         = 0;
    while (str_cut(&text, '\n', &line)) {
        lines++;
        *longest = MAX(*longest, line.len);
    }
    return lines;
}

/* A column that no line has is a name that is not there, as one that a CSV header lacks. */
static enum status check_seen(const struct reader *r, struct err *err)
{
    const struct data_config *c = r->config;
    for (i64 i = 0; i < c->numeric_count + c->categorical_count; i++) {
        struct str name =
            i < c->numeric_count ? c->numeric[i] : c->categorical[i - c->numeric_count];
        if (!r->seen[i])
            return err_set(err, STATUS_USAGE, "%.*s: no line has a field \"%.*s\"",
                           STR_ARG(r->path), (int)MIN(name.len, 80), name.data);
    }
    return STATUS_OK;
}

enum status jsonl_parse(struct str path, struct str text, const struct data_config *config,
                        i64 rows_max, struct table *out, struct err *err)
{
    i64           longest, rows = limit_count(measure(text, &longest), rows_max);
    i64           columns = config->numeric_count + config->categorical_count;
    i64           more    = longest * tree_bytes_per_byte + columns + (1 << 16);
    struct reader r       = { .path = path, .rest = text, .config = config };
    struct str    line;
    enum status   st = table_init(out, path, config, rows, more, err);
    if (st) return st;
    r.seen   = NEW(&out->own, bool, columns);
    r.memory = out->own;
    while (!st && out->rows < rows && str_cut(&r.rest, '\n', &line)) {
        r.line++;
        line = str_trim(line);
        if (line.len) st = parse_row(&r, line, out, err);
    }
    bool whole = out->rows && !rows_max && str_eq(path, config->path);
    return !st && whole ? check_seen(&r, err) : st;
}

enum status jsonl_row(struct str path, struct str line, i64 number,
                      const struct data_config *config, struct table *t, struct err *err)
{
    struct reader r = { .path = path, .line = number, .config = config, .memory = t->own };
    return parse_row(&r, str_trim(line), t, err);
}

static enum status open_jsonl(struct dataset *d, const struct data_config *config,
                              struct arena *perm, struct err *err)
{
    return table_open(d, config, jsonl_parse, perm, err);
}

const struct format format_jsonl = {
    .kind      = { "jsonl", 5 },
    .open      = open_jsonl,
    .fetch     = table_fetch,
    .rows_open = table_rows_open,
    .row       = table_row,
    .close     = table_close,
};
