/* text_rows.c - the columns of a row, from CSV or JSON lines. */
#include "data/text_rows.h"
#include "base/json.h"

static enum status read_header(struct text_rows *r, struct arena scratch, struct err *err)
{
    bool        last = false;
    enum status st   = STATUS_OK;
    if (!csv_more(&r->csv))
        return err_set(err, STATUS_USAGE, "%.*s: there is no header", STR_ARG(r->csv.path));
    for (i64 i = 0; i < r->column_count; i++) r->field[i] = -1;
    for (; !st && !last; r->field_count++) {
        struct str name;
        if (r->field_count == ROW_FIELDS_MAX)
            return err_set(err, STATUS_USAGE, "%.*s: more than %d columns", STR_ARG(r->csv.path),
                           ROW_FIELDS_MAX);
        st = csv_field(&r->csv, &name, &last, err);
        if (!st) name = csv_text(name, &scratch);
        for (i64 i = 0; i < r->column_count && !st; i++)
            if (str_eq(name, r->column[i]) && r->field[i] < 0) r->field[i] = r->field_count;
    }
    for (i64 i = 0; i < r->column_count && !st; i++)
        if (r->field[i] < 0)
            st = err_set(err, STATUS_USAGE, "%.*s: the header has no column \"%.*s\"",
                         STR_ARG(r->csv.path), STR_ARG(r->column[i]));
    return st;
}

enum status text_rows_init(struct text_rows *r, struct str path, struct str bytes, bool is_csv,
                           const struct str *columns, i64 count, struct arena scratch,
                           struct err *err)
{
    ASSERT(count <= ROW_COLUMNS_MAX);
    *r = (struct text_rows){ .is_csv = is_csv, .csv = csv_of(path, bytes), .rest = bytes };
    for (i64 i = 0; i < count; i++) r->column[i] = columns[i];
    r->column_count = count;
    return is_csv ? read_header(r, scratch, err) : STATUS_OK;
}

static enum status next_csv(struct text_rows *r, struct str *values, struct arena *perm,
                            struct err *err)
{
    i64         line = r->csv.line, count = 0;
    enum status st = STATUS_OK;
    if (!csv_more(&r->csv)) return STATUS_NO;
    line = r->line = r->csv.line; /* where the row begins */
    for (bool last = false; !st && !last; count++) {
        struct str s;
        st = csv_field(&r->csv, &s, &last, err);
        for (i64 i = 0; i < r->column_count && !st; i++)
            if (r->field[i] == count) values[i] = csv_text(s, perm);
    }
    if (!st && count != r->field_count)
        st = err_set(err, STATUS_USAGE, "%.*s:%lld: %lld fields, but the header has %lld",
                     STR_ARG(r->csv.path), (long long)line, (long long)count,
                     (long long)r->field_count);
    return st;
}

static enum status next_json(struct text_rows *r, struct str *values, struct arena *perm,
                             struct err *err)
{
    struct str   line;
    struct json *row;
    struct err   why;
    do {
        if (!str_cut(&r->rest, '\n', &line)) return STATUS_NO;
        r->line++;
        line = str_trim(line);
    } while (!line.len);
    enum status st = json_parse_line(perm, line, &row, &why);
    if (!st && row->kind != JSON_MAP) st = err_set(&why, STATUS_USAGE, "it is not an object");
    if (st)
        return err_set(err, STATUS_USAGE, "%.*s:%lld: %s", STR_ARG(r->csv.path), (long long)r->line,
                       why.text);
    for (i64 i = 0; i < r->column_count; i++) {
        const struct json *v = json_get(row, r->column[i]);
        values[i]            = (struct str){ 0 };
        if (!v || v->kind == JSON_NULL) continue;
        if (v->kind == JSON_LIST || v->kind == JSON_MAP)
            return err_set(err, STATUS_USAGE,
                           "%.*s:%lld: \"%.*s\" is a %s; a column needs single values",
                           STR_ARG(r->csv.path), (long long)r->line, STR_ARG(r->column[i]),
                           v->kind == JSON_LIST ? "list" : "map");
        values[i] = v->text.data ? v->text : STR("");
    }
    return STATUS_OK;
}

enum status text_rows_next(struct text_rows *r, struct str *values, struct arena *perm,
                           struct err *err)
{
    return r->is_csv ? next_csv(r, values, perm, err) : next_json(r, values, perm, err);
}
