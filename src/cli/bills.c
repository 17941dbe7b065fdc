/* bills.c - opening, finding and writing what the ledger knows. */
#include "cli/bills.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEMORY_GIB = 16 }; /* address space only */

struct str bills_path(struct cli *c)
{
    struct str asked = c->request->value[FLAG_ledger];
    if (!asked.len) asked = c->os->env(c->os, "FRUGAL_RUN_LEDGER");
    return ledger_path(c->os, asked, c->perm);
}

enum status bills_open(struct bills *b, struct cli *c, struct err *err)
{
    struct str path = bills_path(c);
    *b              = (struct bills){ .memory      = arena_open((i64)MEMORY_GIB << 30),
                                      .now_wall_ns = c->os->wall_ns(c->os) };
    if (!b->memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    if (!path.len)
        return err_set(err, STATUS_USAGE,
                       "there is no ledger: FRUGAL_RUN_LEDGER is none, or HOME is not set");
    enum status st = ledger_open(c->os, path, &b->memory, &b->ledger, err);
    return st ? st : bills_read(b, err);
}

/* Rows may have come from anywhere, and are printed: what a terminal would obey is written out. */
static void make_printable(struct bills *b)
{
    struct arena *perm = &b->memory;
    for (i64 i = 0; i < b->count; i++) {
        struct run_row *r       = &b->items[i].row;
        struct str     *texts[] = { &r->id, &r->name, &r->kind, &r->tags, &r->metric, &r->unit };
        for (i64 t = 0; t < COUNT_OF(texts); t++) *texts[t] = str_printable(perm, *texts[t]);
        r->settings = str_printable_lines(perm, r->settings);
        for (i64 k = 0; k < b->items[i].segment_count; k++) {
            struct segment_row *s    = &b->items[i].segments[k];
            struct str         *of[] = { &s->id,    &s->version,   &s->machine, &s->device,
                                         &s->ended, &s->precision, &s->usage };
            for (i64 t = 0; t < COUNT_OF(of); t++) *of[t] = str_printable(perm, *of[t]);
        }
    }
}

enum status bills_read(struct bills *b, struct err *err)
{
    enum status st = report_read(b->ledger, b->now_wall_ns, &b->memory, &b->items, &b->count, err);
    if (!st) make_printable(b);
    return st;
}

void bills_close(struct bills *b)
{
    if (b->ledger) ledger_close(b->ledger);
    arena_close(&b->memory);
}

/* Four figures of the largest sum, cents at least, and a nano-dollar at most. */
i64 money_decimals(i64 nusd)
{
    f64 usd = fabs((f64)nusd) * 1e-9;
    if (usd >= 10 || usd == 0) return 2;
    return MIN(3 - (i64)floor(log10(usd)), 9);
}

i64 money_units(i64 nusd, i64 decimals)
{
    i64 unit = 1;
    for (i64 i = decimals; i < 9; i++) unit *= 10;
    return (nusd + (nusd < 0 ? -unit : unit) / 2) / unit;
}

struct str money_text(struct arena *perm, i64 units, i64 decimals)
{
    i64 scale = 1;
    for (i64 i = 0; i < decimals; i++) scale *= 10;
    struct str whole = text_count(perm, (f64)(llabs(units) / scale));
    return str_fmt(perm, "%s$%.*s.%0*lld", units < 0 ? "-" : "", STR_ARG(whole), (int)decimals,
                   (long long)(llabs(units) % scale));
}

struct str money(struct arena *perm, i64 nusd)
{
    i64 decimals = money_decimals(nusd);
    return money_text(perm, money_units(nusd, decimals), decimals);
}

struct str when_text(struct arena *perm, i64 wall_ns)
{
    time_t    seconds = (time_t)(wall_ns / 1000000000);
    struct tm tm;
    char      text[32] = { 0 };
    localtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm);
    return str_copy(perm, str_of(text));
}

struct str span_text(struct arena *perm, i64 ns)
{
    if (ns < 60000000000) return str_fmt(perm, "%.2f s", (f64)ns * 1e-9);
    return text_clock(perm, (f64)ns * 1e-9);
}

const char *state_text(const struct run_bill *b)
{
    if (b->state == RUN_RUNS) return "runs";
    if (b->state == RUN_KILLED || !b->segment_count) return "killed";
    return b->segments[b->segment_count - 1].ended.data; /* ends with a zero: str_printable */
}
