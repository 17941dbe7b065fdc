/* cmd_runs.c - frugal runs [FILE...]: what the ledger has, what others have, and one run to take
 * along. */
#include "cli/bills.h"
#include "job/shelf.h"
#include "job/weights_mark.h"
#include <math.h>

enum status command_runs(struct cli *c, struct err *err);

/* The table's columns: what each is called, and how it is written. */
struct line {
    struct str id, when, name, state, steps, time, dollars, per_million, value, tags;
};

static struct line line_of(const struct run_bill *b, struct arena *perm)
{
    i64         million = bill_per_million(b);
    struct line l       = { .id      = str_sub(b->row.id, 0, 8),
                            .when    = when_text(perm, b->row.begin_wall_ns),
                            .name    = b->row.name,
                            .state   = str_of(state_text(b)),
                            .steps   = text_count(perm, (f64)b->steps),
                            .time    = span_text(perm, b->metered_ns),
                            .dollars = b->priced ? money(perm, b->nusd) : STR("unknown"),
                            .tags    = b->row.tags };
    if (b->uncertain_ns)
        l.time = str_fmt(perm, "%.*s +%.0f s", STR_ARG(l.time), (f64)b->uncertain_ns / 1e9);
    l.per_million = million < 0 ? STR("-") : money(perm, million);
    l.value       = isnan(b->value) ? STR("-") : text_metric(perm, b->row.metric, b->value);
    if (!isnan(b->value))
        l.value = str_fmt(perm, "%.*s %.*s", STR_ARG(b->row.metric), STR_ARG(l.value));
    return l;
}

static const struct say_column runs_columns[] = {
    { "run", -8, 0 },   { "started", -16, 3 }, { "name", -14, 0 },   { "ended", -8, 1 },
    { "steps", 9, 4 },  { "time", 14, 2 },     { "dollars", 13, 0 }, { "a million", 13, 5 },
    { "last", -18, 0 }, { "tags", -8, 6 },
};
static const struct say_table runs_table = { runs_columns, COUNT_OF(runs_columns), "", "  " };

static void show_line(struct say *s, const struct line *l)
{
    const struct str cells[] = { l->id,   l->when,    l->name,        l->state, l->steps,
                                 l->time, l->dollars, l->per_million, l->value, l->tags };
    say_row(s, &runs_table, cells);
}

static void show_table(struct say *s, const struct bills *b, struct arena scratch)
{
    bool vague = false;
    if (b->count) say_row(s, &runs_table, NULL);
    for (i64 i = 0; i < b->count; i++) {
        struct arena here = scratch;
        struct line  l    = line_of(&b->items[i], &here);
        vague |= b->items[i].uncertain_ns > 0;
        show_line(s, &l);
    }
    if (!b->count) say_message(s, "no run is recorded yet: `frugal train` records each run\n");
    if (vague)
        say_message(
            s, "+ a killed run's last heartbeat is its end; it may have run this much longer\n");
}

static void run_event(struct say *s, const struct run_bill *r, struct arena scratch)
{
    struct textbuf b       = event_begin(&scratch, "run");
    i64            million = bill_per_million(r);
    event_str(&b, "run", r->row.id);
    event_str(&b, "name", r->row.name);
    event_str(&b, "kind", r->row.kind);
    event_str(&b, "ended", str_of(state_text(r)));
    event_f64(&b, "begin_s", (f64)r->row.begin_wall_ns / 1e9);
    event_i64(&b, "segments", r->segment_count);
    event_i64(&b, "interruptions", r->interruptions);
    event_i64(&b, "steps", r->steps);
    event_i64(&b, "work", r->work);
    event_str(&b, "unit", r->row.unit);
    event_f64(&b, "metered_s", (f64)r->metered_ns / 1e9);
    event_f64(&b, "uncertain_s", (f64)r->uncertain_ns / 1e9);
    event_f64(&b, "dollars", r->priced ? (f64)r->nusd / 1e9 : NAN);
    event_f64(&b, "dollars_per_million", million < 0 ? NAN : (f64)million / 1e9);
    event_str(&b, "metric", r->row.metric);
    event_f64(&b, "value", r->value);
    event_f64(&b, "loss", r->loss);
    event_bool(&b, "target_reached", r->reached);
    event_str(&b, "tags", r->row.tags);
    event_end(&b, s);
}

/* A text as RFC 4180 has it. */
static void add_cell(struct textbuf *b, struct str s)
{
    bool plain = str_find(s, ',') < 0 && str_find(s, '"') < 0 && str_find(s, '\n') < 0;
    if (plain) textbuf_add(b, s);
    if (plain) return;
    textbuf_fmt(b, "\"");
    for (i64 i = 0; i < s.len; i++) textbuf_fmt(b, s.data[i] == '"' ? "\"\"" : "%c", s.data[i]);
    textbuf_fmt(b, "\"");
}

static void add_figure(struct textbuf *b, f64 value) /* not known: an empty cell */
{
    textbuf_fmt(b, ",");
    if (!isnan(value)) textbuf_f64(b, value);
}

static void show_csv(struct say *s, const struct bills *all, struct arena scratch)
{
    say_result(s, "run,name,kind,ended,begin_s,segments,steps,work,unit,metered_s,uncertain_s,"
                  "dollars,metric,value,"
                  "loss,tags\n");
    for (i64 i = 0; i < all->count; i++) {
        const struct run_bill *r    = &all->items[i];
        struct arena           here = scratch;
        struct textbuf         b    = textbuf_new(&here);
        struct str texts[] = { r->row.id, r->row.name, r->row.kind, str_of(state_text(r)) };
        for (i64 t = 0; t < COUNT_OF(texts); t++) {
            if (t) textbuf_fmt(&b, ",");
            add_cell(&b, texts[t]);
        }
        add_figure(&b, (f64)r->row.begin_wall_ns / 1e9);
        add_figure(&b, (f64)r->segment_count);
        add_figure(&b, (f64)r->steps);
        add_figure(&b, (f64)r->work);
        textbuf_fmt(&b, ",%.*s", STR_ARG(r->row.unit));
        add_figure(&b, (f64)r->metered_ns / 1e9);
        add_figure(&b, (f64)r->uncertain_ns / 1e9);
        add_figure(&b, r->priced ? (f64)r->nusd / 1e9 : NAN);
        textbuf_fmt(&b, ",%.*s", STR_ARG(r->row.metric));
        add_figure(&b, r->value);
        add_figure(&b, r->loss);
        textbuf_fmt(&b, ",");
        add_cell(&b, r->row.tags);
        textbuf_fmt(&b, "\n");
        say_text(s, textbuf_str(&b));
    }
}

static enum status merge(struct cli *c, struct ledger *l, struct str path, struct err *err)
{
    i64         rows;
    enum status st = shelf_merge(c->os, l, path, c->perm, &rows, err);
    if (!st) say_message(c->say, "%.*s: %lld rows merged\n", STR_ARG(path), (long long)rows);
    return st;
}

static bool is_weights(struct str argument) { return str_ends(argument, STR(".safetensors")); }

/* Only the runs that wrote this file. */
static enum status keep_writers(struct cli *c, struct bills *b, struct str file, struct err *err)
{
    struct str *ids;
    i64         count, kept = 0;
    enum status st = weights_runs(c->os, b->ledger, file, &b->memory, &ids, &count, err);
    for (i64 i = 0; !st && i < b->count; i++) {
        bool is = false;
        for (i64 k = 0; k < count; k++) is |= str_eq(ids[k], b->items[i].row.id);
        if (is) b->items[kept++] = b->items[i];
    }
    b->count = kept;
    return st;
}

static enum status export_run(struct cli *c, const struct bills *b, struct err *err)
{
    struct run_bill *r;
    struct str       lines;
    enum status      st = report_find(b->items, b->count, c->request->value[FLAG_export], &r, err);
    struct arena     to = b->memory;
    if (!st) st = ledger_export(b->ledger, r->row.id, STR(""), &to, &lines, err);
    if (!st) say_text(c->say, lines);
    return st;
}

enum status command_runs(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct bills          b;
    enum status           st = bills_open(&b, c, err);
    for (i64 i = 0; i < r->argument_count && !st; i++)
        if (!is_weights(r->arguments[i])) st = merge(c, b.ledger, r->arguments[i], err);
    if (!st && r->argument_count) st = bills_read(&b, err);
    for (i64 i = 0; i < r->argument_count && !st; i++)
        if (is_weights(r->arguments[i])) st = keep_writers(c, &b, r->arguments[i], err);
    if (!st && r->given[FLAG_export]) st = export_run(c, &b, err);
    else if (!st && r->given[FLAG_csv]) show_csv(c->say, &b, b.memory);
    else if (!st && c->say->json)
        for (i64 i = 0; i < b.count; i++) run_event(c->say, &b.items[i], b.memory);
    else if (!st) show_table(c->say, &b, b.memory);
    bills_close(&b);
    return st;
}
