/* csv_table.c - a table (table.c) whose header line has the columns' names (base/csv.h). */
#include "base/csv.h"
#include "data/data_int.h"
#include "data/table.h"

enum { FIELDS_MAX = 4096 };

enum role { ROLE_NONE, ROLE_LABEL, ROLE_NUMERIC, ROLE_CATEGORICAL };

struct column { /* what a field of the file is for */
    enum role  role;
    i64        slot; /* among the columns of its role */
    struct str name;
};

struct csv_columns {
    struct csv                csv;
    const struct data_config *config;
    struct err               *err;
    i64                       field_count; /* of the header */
    struct column             column[FIELDS_MAX];
};

/* Gives the role to the one field of the header with that name. */
static enum status find_column(struct csv_columns *r, struct str name, enum role role, i64 slot)
{
    struct column *found = NULL;
    for (i64 i = 0; i < r->field_count; i++) {
        struct column *c = &r->column[i];
        if (!str_eq(c->name, name)) continue;
        if (found || c->role != ROLE_NONE)
            return err_set(r->err, STATUS_USAGE,
                           "%.*s: the column \"%.*s\" exists or is requested more than once",
                           STR_ARG(r->csv.path), STR_ARG(name));
        found       = c;
        found->role = role;
        found->slot = slot;
    }
    if (found) return STATUS_OK;
    return err_set(r->err, STATUS_USAGE, "%.*s: the header has no column \"%.*s\"",
                   STR_ARG(r->csv.path), STR_ARG(name));
}

static enum status parse_header(struct csv_columns *r, struct arena *perm)
{
    const struct data_config *config = r->config;
    enum status               st     = STATUS_OK;
    bool                      last   = false;
    if (!csv_more(&r->csv))
        return err_set(r->err, STATUS_USAGE, "%.*s: there is no header", STR_ARG(r->csv.path));
    while (!st && !last) {
        if (r->field_count == FIELDS_MAX)
            return err_set(r->err, STATUS_USAGE, "%.*s: more than %d columns", STR_ARG(r->csv.path),
                           FIELDS_MAX);
        struct str name;
        st = csv_field(&r->csv, &name, &last, r->err);
        if (!st) r->column[r->field_count++].name = csv_text(name, perm);
    }
    if (!st && config->label.len) st = find_column(r, config->label, ROLE_LABEL, 0);
    for (i64 i = 0; i < config->numeric_count && !st; i++)
        st = find_column(r, config->numeric[i], ROLE_NUMERIC, i);
    for (i64 i = 0; i < config->categorical_count && !st; i++)
        st = find_column(r, config->categorical[i], ROLE_CATEGORICAL, i);
    return st;
}

/* One line into row t->rows of the table. */
static enum status parse_row(struct csv_columns *r, struct table *t)
{
    i64         line = r->csv.line, count = 0;
    enum status st = STATUS_OK;
    for (bool last = false; !st && !last; count++) {
        struct str s;
        st = csv_field(&r->csv, &s, &last, r->err);
        if (st || count >= r->field_count) continue;
        const struct column *c     = &r->column[count];
        struct table_where   where = { r->csv.path, line, c->name };
        struct arena         mine  = t->own;
        switch (c->role) {
        case ROLE_NONE: break;
        case ROLE_LABEL: st = table_label(t, &where, s, r->err); break;
        case ROLE_NUMERIC: st = table_number(t, &where, c->slot, s, r->err); break;
        case ROLE_CATEGORICAL: table_category(t, c->slot, csv_text(s, &mine));
        }
    }
    if (!st && count != r->field_count)
        st = err_set(r->err, STATUS_USAGE, "%.*s:%lld: %lld fields, but the header has %lld",
                     STR_ARG(r->csv.path), (long long)line, (long long)count,
                     (long long)r->field_count);
    t->rows++;
    return st;
}

enum status csv_parse(struct str path, struct str text, const struct data_config *config,
                      i64 rows_max, struct table *out, struct err *err)
{
    struct csv csv  = csv_of(path, text);
    i64        rows = limit_count(csv_lines_max(&csv), rows_max); /* no more than this */
    i64 more = (i64)sizeof(struct csv_columns) + text.len; /* room for a field without its quotes */
    enum status st = table_init(out, path, config, rows, more, err);
    if (st) return st;
    struct csv_columns *r = NEW(&out->own, struct csv_columns, 1);
    r->csv                = csv;
    r->config             = config;
    r->err                = err;
    st                    = parse_header(r, &out->own);
    while (!st && out->rows < rows && csv_more(&r->csv)) st = parse_row(r, out);
    return st;
}

enum status csv_header(struct str path, struct str line, i64 number,
                       const struct data_config *config, struct arena *perm,
                       struct csv_columns **out, struct err *err)
{
    struct csv_columns *r = NEW(perm, struct csv_columns, 1);
    r->csv                = csv_of(path, str_copy(perm, line)); /* which names point into */
    r->csv.line           = number;
    r->config             = config;
    r->err                = err;
    *out                  = r;
    return parse_header(r, perm);
}

enum status csv_row(struct csv_columns *c, struct str line, i64 number, struct table *t,
                    struct err *err)
{
    c->csv = (struct csv){ .path = c->csv.path, .text = line, .line = number };
    c->err = err;
    return parse_row(c, t);
}

static enum status open_csv(struct dataset *d, const struct data_config *config, struct arena *perm,
                            struct err *err)
{
    return table_open(d, config, csv_parse, perm, err);
}

const struct format format_csv = {
    .kind      = { "csv", 3 },
    .open      = open_csv,
    .fetch     = table_fetch,
    .rows_open = table_rows_open,
    .row       = table_row,
    .close     = table_close,
};
