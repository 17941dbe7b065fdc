/* rows.c - rows of the ledger as structs and as JSON lines, by the lists of columns.h. */
#include "base/json.h"
#include "run/run_int.h"
#include <math.h>
#include <string.h>
#include <sys/random.h>

/* clang-format off */
#define COLUMN_OF(table, kind, name, since) \
    { #name, COLUMN_##kind, since, offsetof(struct table##_row, name) },
#define COLUMN_run(kind, name, since, meaning)          COLUMN_OF(run, kind, name, since)
#define COLUMN_segment(kind, name, since, meaning)      COLUMN_OF(segment, kind, name, since)
#define COLUMN_step(kind, name, since, meaning)         COLUMN_OF(step, kind, name, since)
#define COLUMN_price(kind, name, since, meaning)        COLUMN_OF(price, kind, name, since)
#define COLUMN_prediction(kind, name, since, meaning)   COLUMN_OF(prediction, kind, name, since)
#define COLUMN_checkpoint(kind, name, since, meaning)   COLUMN_OF(checkpoint, kind, name, since)
#define COLUMN_interruption(kind, name, since, meaning) COLUMN_OF(interruption, kind, name, since)
/* clang-format on */

#define COLUMNS(table, since, meaning)                                                             \
    static const struct column table##_columns[] = { LEDGER_##table(COLUMN_##table) };
LEDGER_TABLES(COLUMNS)

const struct table ledger_tables[LEDGER_TABLE_COUNT] = {
#define TABLE(table, since, meaning)                                                               \
    { #table, since, table##_columns, COUNT_OF(table##_columns), sizeof(struct table##_row) },
    LEDGER_TABLES(TABLE)
};

bool column_is_text(const struct column *c)
{
    return c->kind == COLUMN_KEY || c->kind == COLUMN_TEXT;
}

bool column_is_key(const struct column *c)
{
    return c->kind == COLUMN_KEY || c->kind == COLUMN_KEYINT;
}

static void *field(const struct column *c, const void *row)
{
    union { /* the one cast that drops const: rows are read and written by the same functions */
        const void *in;
        char       *out;
    } at = { row };
    return at.out + c->offset;
}

struct str *row_text(const struct column *c, const void *row) { return field(c, row); }
i64        *row_int(const struct column *c, const void *row) { return field(c, row); }
f64        *row_real(const struct column *c, const void *row) { return field(c, row); }

void row_clear(const struct table *t, void *row)
{
    memset(row, 0, (size_t)t->row_bytes);
    for (i64 i = 0; i < t->column_count; i++)
        if (t->columns[i].kind == COLUMN_REAL) *row_real(&t->columns[i], row) = NAN;
}

void row_copy(const struct table *t, void *to, const void *from, struct arena *texts)
{
    memmove(to, from, (size_t)t->row_bytes);
    for (i64 i = 0; i < t->column_count; i++) {
        struct str *s = row_text(&t->columns[i], to);
        if (column_is_text(&t->columns[i])) *s = str_copy(texts, *s);
    }
}

void row_write(const struct table *t, const void *row, struct textbuf *b)
{
    textbuf_fmt(b, "{\"row\":\"%s\"", t->name);
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        textbuf_fmt(b, ",\"%s\":", c->name);
        if (column_is_text(c)) json_add_string(b, *row_text(c, row));
        else if (c->kind == COLUMN_REAL) json_add_f64(b, *row_real(c, row));
        else textbuf_fmt(b, "%lld", (long long)*row_int(c, row));
    }
    textbuf_fmt(b, "}\n");
}

static bool read_field(const struct column *c, const struct json *v, void *row)
{
    if (v->kind == JSON_NULL) return !column_is_key(c);
    if (c->kind == COLUMN_REAL) return json_f64(v, row_real(c, row));
    if (!column_is_text(c)) return json_i64(v, row_int(c, row));
    *row_text(c, row) = v->text;
    return v->kind == JSON_STRING;
}

enum status row_read(struct str line, struct arena *perm, enum ledger_table *table, void *row,
                     struct err *err)
{
    struct json *root;
    enum status  st = json_parse(perm, line, &root, err);
    if (st) return st;
    struct json        *name = json_get(root, STR("row"));
    const struct table *t    = NULL;
    if (!name)
        return err_set(err, STATUS_USAGE, "this is not a row of a ledger: it has no \"row\"");
    for (i64 i = 0; i < LEDGER_TABLE_COUNT; i++)
        if (str_eq(name->text, str_of(ledger_tables[i].name))) t = &ledger_tables[i];
    if (!t) return STATUS_NO;
    *table = (enum ledger_table)(t - ledger_tables);
    row_clear(t, row);
    for (i64 i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        const struct json   *v = json_get(root, str_of(c->name));
        if (v ? read_field(c, v, row) : !column_is_key(c)) continue;
        return err_set(err, STATUS_USAGE, "%s.%s is %s", t->name, c->name,
                       v ? "the wrong type for that column" : "missing");
    }
    return STATUS_OK;
}

struct str ledger_path(struct os *os, struct str asked, struct arena *perm)
{
    struct str base = os->env(os, "XDG_STATE_HOME"), home = os->env(os, "HOME");
    if (str_eq(asked, STR("none"))) return STR("");
    if (asked.len) return asked;
    if (base.len) return str_cat(perm, base, STR("/frugal/ledger.db"));
    return home.len ? str_cat(perm, home, STR("/.local/state/frugal/ledger.db")) : STR("");
}

struct str ledger_new_id(struct arena *perm)
{
    u64 bits = 0;
    while (getrandom(&bits, 6, 0) != 6) {} /* never fails once the machine is up */
    return str_fmt(perm, "%012llx", (unsigned long long)bits);
}

const struct str segment_killed = STR_INIT("killed");

i64 segment_silence_ns(const struct segment_row *s)
{
    static const i64 least_ns =
        (i64)30000000000; /* writers wait for one another, and clocks differ */
    return MAX(3 * s->beat_every_ns, least_ns);
}

bool segment_runs(const struct segment_row *s, i64 now_wall_ns)
{
    i64 silent_ns = now_wall_ns - s->beat_wall_ns, limit_ns = segment_silence_ns(s);
    return !s->ended.len && silent_ns < limit_ns && silent_ns > -limit_ns;
}

void segment_terms(const struct segment_row *s, i64 ns[TERM_COUNT])
{
#define GET(name, group, help) ns[TERM_##name] = s->name##_ns;
    TERMS(GET)
}

void segment_set_terms(struct segment_row *s, const i64 ns[TERM_COUNT])
{
    s->metered_ns = 0;
#define SET(name, group, help) s->metered_ns += s->name##_ns = ns[TERM_##name];
    TERMS(SET)
}
