/* csv.c - rows of numbers and categories with a 0/1 label, for rankers.
 *
 * The header line has the columns' names (base/csv.h). The file is parsed once at open, into arrays. Feeds, in this order and only
 * where there are such columns: "dense" f32[numbers], "x" i32[categories], "y" f32.
 *
 * One table serves all categorical columns: column j owns its rows j*buckets .. (j+1)*buckets-1.
 * A whole number below `buckets` is its own row, everything else is hashed to one; so ids that fit
 * never collide, and words need no dictionary. A missing number is 0, a missing category row 0. */
#include "base/csv.h"
#include "data/data_int.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 4096 };
static const i64 table_bytes_max = (i64)64 << 30;

enum role { ROLE_NONE, ROLE_LABEL, ROLE_NUMERIC, ROLE_CATEGORICAL };

struct column { /* what a field of the file is for */
    enum role  role;
    i64        slot; /* among the columns of its role */
    struct str name;
};

struct reader {
    struct csv                csv;
    const struct data_config *config;
    struct err               *err;
    i64                       field_count; /* of the header */
    struct column            *column;      /* [FIELDS_MAX] */
};

/* The header's text of a name: quotes in it are doubled there. */
static bool names(struct str field, struct str name)
{
    i64 at = 0;
    for (i64 i = 0; i < field.len; i++, at++) {
        if (at == name.len || field.data[i] != name.data[at]) return false;
        i += field.data[i] == '"';
    }
    return at == name.len;
}

/* Gives the role to the one field of the header with that name. */
static enum status find_column(struct reader *r, struct str name, enum role role, i64 slot)
{
    struct column *found = NULL;
    for (i64 i = 0; i < r->field_count; i++) {
        struct column *c = &r->column[i];
        if (!names(c->name, name)) continue;
        if (found || c->role != ROLE_NONE)
            return err_set(r->err, STATUS_USAGE,
                           "%.*s: the column \"%.*s\" is there or is asked for more than once",
                           STR_ARG(r->csv.path), STR_ARG(name));
        found       = c;
        found->role = role;
        found->slot = slot;
    }
    if (found) return STATUS_OK;
    return err_set(r->err, STATUS_USAGE, "%.*s: the header has no column \"%.*s\"",
                   STR_ARG(r->csv.path), STR_ARG(name));
}

static enum status parse_header(struct reader *r)
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
        st = csv_field(&r->csv, &r->column[r->field_count++].name, &last, r->err);
    }
    if (!st) st = find_column(r, config->label, ROLE_LABEL, 0);
    for (i64 i = 0; i < config->numeric_count && !st; i++)
        st = find_column(r, config->numeric[i], ROLE_NUMERIC, i);
    for (i64 i = 0; i < config->categorical_count && !st; i++)
        st = find_column(r, config->categorical[i], ROLE_CATEGORICAL, i);
    return st;
}

/* Up to 15 digits with a point among them, without a detour: digits and power are exact in f64, so
 * their quotient is the nearest (Clinger, PLDI'90). str_f64 reads the rest. */
static bool number_of(struct str s, f64 *out)
{
    static const f64 power[]  = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
    bool             negative = s.len > 1 && s.data[0] == '-';
    i64              digits = 0, value = 0, point = -1;
    if (s.len > 17) return str_f64(s, out);
    for (i64 i = negative; i < s.len; i++) {
        char c = s.data[i];
        if (c == '.' && point < 0) {
            point = digits;
            continue;
        }
        if (c < '0' || c > '9' || ++digits > 15) return str_f64(s, out);
        value = value * 10 + (c - '0');
    }
    if (!digits || point == 0 || point == digits) return str_f64(s, out);
    f64 v = (f64)value / power[point < 0 ? 0 : digits - point];
    *out  = negative ? -v : v;
    return true;
}

static i64 bucket_of(struct str s, i64 buckets)
{
    i64  value  = 0;
    bool number = s.len > 0 && (s.data[0] != '0' || s.len == 1); /* 007 is a word */
    for (i64 i = 0; i < s.len && number; i++) {
        number = s.data[i] >= '0' && s.data[i] <= '9' && value < buckets;
        value  = value * 10 + (s.data[i] - '0');
    }
    if (s.len == 0) return 0;
    return number && value < buckets ? value : (i64)(str_hash(s) % (u64)buckets);
}

static enum status parse_number(const struct reader *r, i64 line, const struct column *c,
                                struct str s, f32 *out)
{
    f64 value = 0;
    s         = str_trim(s);
    if (!s.len && c->role != ROLE_LABEL) return STATUS_OK;
    if (!number_of(s, &value) || fabs(value) > (f64)3.4028234e38f)
        return err_set(r->err, STATUS_USAGE, "%.*s:%lld: \"%.*s\" in column \"%.*s\" is no number",
                       STR_ARG(r->csv.path), (long long)line, (int)MIN(s.len, 40), s.data,
                       STR_ARG(c->name));
    *out = (f32)value;
    return STATUS_OK;
}

/* One line into row t->rows of the table. */
static enum status parse_row(struct reader *r, struct csv_table *t)
{
    const struct data_config *config = r->config;
    i64                       n = config->numeric_count, k = config->categorical_count;
    i64                       line = r->csv.line, count = 0;
    enum status               st = STATUS_OK;
    for (bool last = false; !st && !last; count++) {
        struct str s;
        st = csv_field(&r->csv, &s, &last, r->err);
        if (st || count >= r->field_count) continue;
        const struct column *c = &r->column[count];
        switch (c->role) {
        case ROLE_NONE: break;
        case ROLE_LABEL: st = parse_number(r, line, c, s, &t->y[t->rows]); break;
        case ROLE_NUMERIC:
            st = parse_number(r, line, c, s, &t->dense[t->rows * n + c->slot]);
            break;
        case ROLE_CATEGORICAL:
            t->x[t->rows * k + c->slot] =
                (i32)(c->slot * config->buckets + bucket_of(str_trim(s), config->buckets));
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
                      i64 rows_max, struct csv_table *out, struct err *err)
{
    struct reader r = { .csv = csv_of(path, text), .config = config, .err = err };
    i64           n = config->numeric_count, k = config->categorical_count;
    i64           rows  = limit_count(csv_lines_max(&r.csv), rows_max); /* no more than this */
    i64           bytes = rows * (n + k + 1) * 4;
    *out                = (struct csv_table){ 0 };
    if (bytes <= table_bytes_max)
        out->own = arena_open(bytes + FIELDS_MAX * (i64)sizeof(struct column) + (1 << 16));
    if (!out->own.begin)
        return err_set(err, STATUS_WORLD, "%.*s: %lld rows of %lld numbers do not fit in memory",
                       STR_ARG(path), (long long)rows, (long long)(n + k + 1));
    r.column       = NEW(&out->own, struct column, FIELDS_MAX);
    out->dense     = NEW(&out->own, f32, rows * n);
    out->x         = NEW(&out->own, i32, rows * k);
    out->y         = NEW(&out->own, f32, rows);
    enum status st = parse_header(&r);
    while (!st && out->rows < rows && csv_more(&r.csv)) st = parse_row(&r, out);
    return st;
}

struct csv_set { /* the rows of one split */
    const f32 *dense, *y;
    const i32 *x;
};

struct csv_state {
    struct csv_table table[SPLIT_COUNT];
    struct csv_set   set[SPLIT_COUNT];
    i64              numeric, categorical;
};

static enum status open_table(struct dataset *d, const struct data_config *config, enum split s,
                              struct arena scratch, struct err *err)
{
    struct csv_state *state = d->state;
    struct csv_table *t     = &state->table[s];
    struct str        path  = s == SPLIT_TRAIN ? config->path : config->eval_path;
    i64               limit = s == SPLIT_TRAIN ? config->samples : config->eval_samples;
    struct source     source;
    if (s == SPLIT_TRAIN && !config->eval_path.len) limit = 0; /* the last rows are held out */
    enum status st = source_open(d->os, path, config, scratch, &source, err);
    if (st) return st;
    st = csv_parse(path, source.bytes, config, limit, t, err);
    source_close(d->os, &source);
    d->count[s]   = t->rows;
    state->set[s] = (struct csv_set){ t->dense, t->y, t->x };
    return st;
}

static enum status check_config(const struct data_config *config, struct err *err)
{
    i64 n = config->numeric_count, k = config->categorical_count;
    if (!config->label.len)
        return err_set(err, STATUS_USAGE, "%.*s needs the name of its label column: set data.label",
                       STR_ARG(config->path));
    if (n + k == 0)
        return err_set(err, STATUS_USAGE,
                       "%.*s needs columns: set data.numeric or data.categorical",
                       STR_ARG(config->path));
    if (k && (config->buckets < 1 || config->buckets > INT32_MAX / k))
        return err_set(err, STATUS_USAGE,
                       "data.buckets is %lld; with %lld columns it must be 1 to %lld",
                       (long long)config->buckets, (long long)k, (long long)INT32_MAX / k);
    return STATUS_OK;
}

static enum status open_csv(struct dataset *d, const struct data_config *config, struct arena *perm,
                            struct err *err)
{
    struct csv_state *state = d->state = NEW(perm, struct csv_state, 1);
    i64               n = config->numeric_count, k = config->categorical_count;
    enum status       st = check_config(config, err);
    state->numeric       = n;
    state->categorical   = k;
    if (!st) st = open_table(d, config, SPLIT_TRAIN, *perm, err);
    if (!st && config->eval_path.len) st = open_table(d, config, SPLIT_EVAL, *perm, err);
    if (st) return st;
    if (!config->eval_path.len) {
        i64                   first = hold_out_last(d, config);
        const struct csv_set *all   = &state->set[SPLIT_TRAIN];
        state->set[SPLIT_EVAL] =
            (struct csv_set){ all->dense + first * n, all->y + first, all->x + first * k };
    }
    limit_counts(d, config);
    if (n) dataset_add_feed(d, STR("dense"), type_of(DT_F32, shape_1(n)), 0);
    if (k) dataset_add_feed(d, STR("x"), type_of(DT_I32, shape_1(k)), k * config->buckets);
    dataset_add_feed(d, STR("y"), type_of(DT_F32, shape_of(0, NULL)), 0);
    return STATUS_OK;
}

static void fetch_csv(const struct dataset *d, enum split s, const i64 *index, i64 count,
                      void *const *to)
{
    const struct csv_state *state = d->state;
    const struct csv_set   *set   = &state->set[s];
    i64                     n = state->numeric, k = state->categorical;
    void *const            *next  = to;
    f32                    *dense = n ? *next++ : NULL;
    i32                    *x     = k ? *next++ : NULL;
    f32                    *y     = *next;
    for (i64 i = 0; i < count; i++) {
        if (n) memcpy(dense + i * n, set->dense + index[i] * n, (size_t)n * sizeof *dense);
        if (k) memcpy(x + i * k, set->x + index[i] * k, (size_t)k * sizeof *x);
        y[i] = set->y[index[i]];
    }
}

static void close_csv(struct dataset *d)
{
    struct csv_state *state = d->state;
    for (i32 s = 0; state && s < SPLIT_COUNT; s++)
        if (state->table[s].own.begin) arena_close(&state->table[s].own);
}

const struct format format_csv = { .kind  = { "csv", 3 },
                                   .open  = open_csv,
                                   .fetch = fetch_csv,
                                   .close = close_csv };
