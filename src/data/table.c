/* table.c - rows of numbers and categories with a 0/1 label, for rankers, from any file of rows (csv_table.c,
 * jsonl.c).
 *
 * The file is parsed once at open, into arrays. Feeds, in this order and only where there are such
 * columns: "dense" f32[numbers], "x" i32[categories], "y" f32.
 *
 * One table serves all categorical columns: column j owns its rows j*buckets .. (j+1)*buckets-1.
 * A whole number below `buckets` is its own row, everything else is hashed to one; so ids that fit
 * never collide, and words need no dictionary. A missing number is 0, a missing category row 0. */
#include "data/table.h"
#include "data/rows_int.h"
#include <math.h>
#include <string.h>

static const i64 table_bytes_max = (i64)64 << 30;

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

static enum status parse_number(const struct table_where *w, struct str s, f32 *out,
                                struct err *err)
{
    f64 value = 0;
    if (!number_of(s, &value) || fabs(value) > (f64)3.4028234e38f)
        return err_set(err, STATUS_USAGE, "%.*s:%lld: \"%.*s\" in column \"%.*s\" is not a number",
                       STR_ARG(w->path), (long long)w->line, (int)MIN(s.len, 40), s.data,
                       (int)MIN(w->column.len, 80), w->column.data);
    *out = (f32)value;
    return STATUS_OK;
}

/* Its logit is compared with it: of 2 or -1 the loss would fall for ever, and nothing be learned. */
enum status table_label(struct table *t, const struct table_where *w, struct str s, struct err *err)
{
    f32 *y = &t->y[t->rows];
    if (!str_trim(s).len)
        return err_set(err, STATUS_USAGE, "%.*s:%lld: there is no label in column \"%.*s\"",
                       STR_ARG(w->path), (long long)w->line, (int)MIN(w->column.len, 80),
                       w->column.data);
    enum status st = parse_number(w, str_trim(s), y, err);
    if (st || (*y >= 0 && *y <= 1)) return st;
    return err_set(
        err, STATUS_USAGE,
        "%.*s:%lld: \"%.*s\" in column \"%.*s\" is not a label: expected 0, 1 or a number "
        "between them",
        STR_ARG(w->path), (long long)w->line, (int)MIN(s.len, 40), s.data,
        (int)MIN(w->column.len, 80), w->column.data);
}

enum status table_number(struct table *t, const struct table_where *w, i64 slot, struct str s,
                         struct err *err)
{
    s = str_trim(s);
    if (!s.len) return STATUS_OK;
    return parse_number(w, s, &t->dense[t->rows * t->numeric + slot], err);
}

void table_category(struct table *t, i64 slot, struct str s)
{
    t->x[t->rows * t->categorical + slot] =
        (i32)(slot * t->buckets + bucket_of(str_trim(s), t->buckets));
}

enum status table_init(struct table *t, struct str path, const struct data_config *config, i64 rows,
                       i64 more_bytes, struct err *err)
{
    i64 n = config->numeric_count, k = config->categorical_count;
    i64 bytes = rows * (n + k + 1) * 4;
    *t        = (struct table){ .numeric = n, .categorical = k, .buckets = config->buckets };
    if (bytes <= table_bytes_max) t->own = arena_open(bytes + more_bytes + (1 << 16));
    if (!t->own.begin)
        return err_set(err, STATUS_WORLD, "%.*s: %lld rows of %lld numbers do not fit in memory",
                       STR_ARG(path), (long long)rows, (long long)(n + k + 1));
    t->dense = NEW(&t->own, f32, rows * n);
    t->x     = NEW(&t->own, i32, rows * k);
    t->y     = NEW(&t->own, f32, rows);
    return STATUS_OK;
}

struct table_set { /* the rows of one split */
    const f32 *dense, *y;
    const i32 *x;
};

struct table_state {
    struct table     table[SPLIT_COUNT];
    struct table_set set[SPLIT_COUNT];
    i64              numeric, categorical;
};

static enum status open_split(struct dataset *d, const struct data_config *config, enum split s,
                              table_parse *parse, struct arena scratch, struct err *err)
{
    struct table_state *state = d->state;
    struct table       *t     = &state->table[s];
    struct str          path  = s == SPLIT_TRAIN ? config->path : config->eval_path;
    i64                 limit = s == SPLIT_TRAIN ? config->samples : config->eval_samples;
    struct source       source;
    if (s == SPLIT_TRAIN && !config->eval_path.len) limit = 0; /* the last rows are held out */
    enum status st = source_open(d->os, path, config, scratch, &source, err);
    if (st) return st;
    st = parse(path, source.bytes, config, limit, t, err);
    source_close(d->os, &source);
    d->count[s]   = t->rows;
    state->set[s] = (struct table_set){ t->dense, t->y, t->x };
    return st;
}

static enum status check_config(const struct dataset *d, const struct data_config *config,
                                struct err *err)
{
    i64  n = config->numeric_count, k = config->categorical_count;
    bool jsonl = str_eq(d->format->kind, STR("jsonl"));
    if (!config->label.len)
        return err_set(
            err, STATUS_USAGE, "%.*s needs the name of its label column: set data.label%s",
            STR_ARG(config->path), jsonl ? ", or data.kind=chat where it holds conversations" : "");
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

static bool is_one_class(const struct table_state *state)
{
    for (i32 s = 0; s < SPLIT_COUNT; s++)
        for (i64 i = 0; i < state->table[s].rows; i++)
            if (state->table[s].y[i] != state->table[SPLIT_TRAIN].y[0]) return false;
    return true;
}

static void add_feeds(struct dataset *d, const struct data_config *config)
{
    i64 n = config->numeric_count, k = config->categorical_count;
    if (n) dataset_add_feed(d, STR("dense"), type_of(DT_F32, shape_1(n)), 0);
    if (k) dataset_add_feed(d, STR("x"), type_of(DT_I32, shape_1(k)), k * config->buckets);
    dataset_add_feed(d, STR("y"), type_of(DT_F32, shape_of(0, NULL)), 0);
}

enum status table_open(struct dataset *d, const struct data_config *config, table_parse *parse,
                       struct arena *perm, struct err *err)
{
    struct table_state *state = d->state = NEW(perm, struct table_state, 1);
    i64                 n = config->numeric_count, k = config->categorical_count;
    enum status         st = check_config(d, config, err);
    state->numeric         = n;
    state->categorical     = k;
    if (st) return st;
    add_feeds(d, config);
    if (config->rows_only) return STATUS_OK; /* the settings say all there is to know */
    st = open_split(d, config, SPLIT_TRAIN, parse, *perm, err);
    if (!st && config->eval_path.len) st = open_split(d, config, SPLIT_EVAL, parse, *perm, err);
    if (!st && is_one_class(state))
        st = refuse_one_class(config->path, d->count[SPLIT_TRAIN] + d->count[SPLIT_EVAL], err);
    if (st) return st;
    if (!config->eval_path.len) {
        i64                     first = hold_out_last(d, config);
        const struct table_set *all   = &state->set[SPLIT_TRAIN];
        state->set[SPLIT_EVAL] =
            (struct table_set){ all->dense + first * n, all->y + first, all->x + first * k };
    }
    limit_counts(d, config);
    return STATUS_OK;
}

void table_fetch(const struct dataset *d, enum split s, const i64 *index, i64 count,
                 void *const *to)
{
    const struct table_state *state = d->state;
    const struct table_set   *set   = &state->set[s];
    i64                       n = state->numeric, k = state->categorical;
    void *const              *next  = to;
    f32                      *dense = n ? *next++ : NULL;
    i32                      *x     = k ? *next++ : NULL;
    f32                      *y     = *next;
    for (i64 i = 0; i < count; i++) {
        if (n) memcpy(dense + i * n, set->dense + index[i] * n, (size_t)n * sizeof *dense);
        if (k) memcpy(x + i * k, set->x + index[i] * k, (size_t)k * sizeof *x);
        y[i] = set->y[index[i]];
    }
}

/* ---- rows from outside the files ---- */

struct table_rows {
    struct table        table;   /* of one row */
    struct data_config  config;  /* without a label: nobody knows it yet */
    struct csv_columns *columns; /* of the header; NULL: rows are JSON objects, or none has come */
    bool                began;
};

enum status table_rows_open(struct rows *r, struct arena *perm, struct err *err)
{
    struct table_rows *t = r->state = NEW(perm, struct table_rows, 1);
    (void)err;
    t->config       = *r->config;
    t->config.label = STR("");
    t->table        = (struct table){ .numeric     = t->config.numeric_count,
                                      .categorical = t->config.categorical_count,
                                      .buckets     = t->config.buckets };
    t->table.dense  = NEW(perm, f32, t->table.numeric);
    t->table.x      = NEW(perm, i32, t->table.categorical);
    return STATUS_OK;
}

enum status table_row(struct rows *r, struct str line, void *const *to, struct err *err)
{
    struct table_rows *all = r->state;
    struct table      *t   = &all->table;
    i64                n = t->numeric, k = t->categorical;
    enum status        st;
    if (!all->began) {
        all->began = true;
        if (!str_starts(str_trim(line), STR("{"))) {
            st = csv_header(r->path, line, r->line, &all->config, &r->perm, &all->columns, err);
            return st ? st : STATUS_NO;
        }
    }
    t->rows = 0;
    t->own  = r->scratch;
    if (n) memset(t->dense, 0, (size_t)n * sizeof *t->dense); /* as a missing one stays */
    st = all->columns ? csv_row(all->columns, line, r->line, t, err)
                      : jsonl_row(r->path, line, r->line, &all->config, t, err);
    if (st) return st;
    if (n) memcpy(*to++, t->dense, (size_t)n * sizeof *t->dense);
    if (k) memcpy(*to++, t->x, (size_t)k * sizeof *t->x);
    *(f32 *)*to = 0;
    return STATUS_OK;
}

void table_close(struct dataset *d)
{
    struct table_state *state = d->state;
    for (i32 s = 0; state && s < SPLIT_COUNT; s++)
        if (state->table[s].own.begin) arena_close(&state->table[s].own);
}
