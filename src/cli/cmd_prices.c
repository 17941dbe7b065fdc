/* cmd_prices.c - frugal prices: the catalogue, looked at, filtered, and renewed from price lists. */
#include "base/json.h"
#include "cli/commands.h"
#include "plan/import.h"
#include "plan/table.h"
#include <math.h>
#include <stdlib.h>

enum status command_prices(struct cli *c, struct err *err);

enum { TABLE_COLUMNS_MAX = 64 };

/* ---- any table ---- */

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

static void json_row(const struct table *t, const void *row, struct textbuf *b,
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

/* Every column of one row, a line each. */
static void show_row(struct cli *c, const struct table *t, const void *row)
{
    for (i64 i = 0; i < t->column_count; i++) {
        struct arena scratch = *c->perm;
        struct str   text    = cell_text(t, &t->columns[i], row, &scratch);
        say_result(c->say, "  %-28.*s %.*s\n", STR_ARG(t->columns[i].name),
                   STR_ARG(text.len ? text : STR("not known")));
    }
}

static const void *row_at(const struct table *t, const void *rows, i64 i)
{
    return (const u8 *)rows + (size_t)i * t->row_bytes;
}

/* How wide a column is, with its name and all of its cells. */
static i64 column_width(const struct table *t, i64 i, const void *rows, i64 count,
                        struct arena scratch)
{
    i64 width = t->columns[i].name.len;
    for (i64 r = 0; r < count; r++) {
        struct arena here = scratch;
        width             = MAX(width, cell_text(t, &t->columns[i], row_at(t, rows, r), &here).len);
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
            if (r >= 0) text = cell_text(t, &t->columns[i], row_at(t, rows, r), &cells);
            textbuf_fmt(&b, "  %-*.*s", last ? 0 : (int)widths[i],
                        STR_ARG(text.len ? text : STR("-")));
        }
        say_result(c->say, "%.*s\n", STR_ARG(textbuf_str(&b)));
    }
}

/* A terminal that is too narrow for the table gets one row below the other. */
static void show_table(struct cli *c, const struct table *t, const void *rows, i64 count)
{
    i64 widths[TABLE_COLUMNS_MAX], all = 0;
    ASSERT(t->column_count <= TABLE_COLUMNS_MAX);
    for (i64 i = 0; i < t->column_count; i++)
        all += 2 + (widths[i] = column_width(t, i, rows, count, *c->perm));
    if (all <= say_columns(c->say, all)) {
        show_wide(c, t, rows, count, widths);
        return;
    }
    for (i64 r = 0; r < count; r++) {
        if (r) say_result(c->say, "\n");
        show_row(c, t, row_at(t, rows, r));
    }
}

/* ---- machines ---- */

static f64 by_price(const struct machine *m) { return m->on_demand_usd_h; }
static f64 by_spot(const struct machine *m) { return m->spot_usd_h; }
static f64 by_gpu(const struct machine *m)
{
    return bill_part_usd_hour(m->on_demand_usd_h, (i64)m->gpus);
}
static f64 by_age(const struct machine *m) { return (f64)m->fact.as_of_day; }

static const struct order {
    struct str name;
    f64 (*key)(const struct machine *m); /* least first, NaN last */
} orders[] = { { STR_INIT("price"), by_price },
               { STR_INIT("spot"), by_spot },
               { STR_INIT("gpu"), by_gpu },
               { STR_INIT("age"), by_age } };

struct pick {
    const struct machine *machine;
    f64                   key;
};

static int by_key(const void *a, const void *b)
{
    f64 x = ((const struct pick *)a)->key, y = ((const struct pick *)b)->key;
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

static enum status pick_order(struct cli *c, const struct order **out, struct err *err)
{
    const struct request *r    = c->request;
    struct str            name = r->value[FLAG_sort];
    *out                       = &orders[r->given[FLAG_spot] ? 1 : 0];
    if (!r->given[FLAG_sort]) return STATUS_OK;
    for (i64 i = 0; i < COUNT_OF(orders); i++) {
        *out = &orders[i];
        if (str_eq(orders[i].name, name)) return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "--sort takes one of %.*s, not %.*s",
                   STR_ARG(flags[FLAG_sort].argument), (int)MIN(name.len, 40), name.data);
}

static bool is_picked(const struct request *r, const struct machine *m)
{
    struct str on = r->value[FLAG_on], gpu = r->value[FLAG_gpu];
    if (r->given[FLAG_on] && !str_eq(m->provider, on)) return false;
    if (r->given[FLAG_spot] && isnan(m->spot_usd_h)) return false;
    return !r->given[FLAG_gpu] || str_glob(gpu, m->gpu) ||
           (str_starts(m->gpu, gpu) && str_starts(str_sub(m->gpu, gpu.len, m->gpu.len), STR("-")));
}

static struct str dollars(struct arena *perm, f64 usd)
{
    return isnan(usd) ? STR("-") : str_fmt(perm, "%.2f", usd);
}

static struct str amount(struct arena *perm, f64 value)
{
    return isnan(value) ? STR("-") : str_fmt(perm, "%.0f", value);
}

static struct str per_cent(struct arena *perm, f64 part)
{
    return isnan(part) ? STR("-") : str_fmt(perm, "%.0f %%", 100 * part);
}

static const struct say_column machine_columns[] = {
    { "cloud", -7, 1 },   { "machine", -22, 0 }, { "region", -12, 4 },  { "with", -15, 0 },
    { "vCPUs", 5, 5 },    { "RAM GiB", 8, 6 },   { "on demand", 9, 0 }, { "spot", 8, 0 },
    { "off", 6, 3 },      { "1 year", 8, 8 },    { "3 years", 8, 9 },   { "own", 7, 7 },
    { " as of", -15, 2 },
};
static const struct say_table machine_table = { machine_columns, COUNT_OF(machine_columns), "",
                                                " " };

static void show_machine(struct cli *c, const struct machine *m, i32 today)
{
    struct arena s = *c->perm;
    bool       old = m->fact.as_of_day == DAY_UNKNOWN || today - m->fact.as_of_day > PRICE_OLD_DAYS;
    struct str what = m->gpus ? str_fmt(&s, "%d x %.*s", m->gpus, STR_ARG(m->gpu)) : m->cpu;
    struct str day =
        m->fact.as_of_day == DAY_UNKNOWN ? STR("no date") : day_text(&s, m->fact.as_of_day);
    const struct str cells[] = { m->provider,
                                 m->name,
                                 m->region,
                                 what,
                                 amount(&s, m->vcpus),
                                 amount(&s, m->ram_gib),
                                 dollars(&s, m->on_demand_usd_h),
                                 dollars(&s, m->spot_usd_h),
                                 per_cent(&s, spot_discount(m)),
                                 dollars(&s, m->reserved_1y_usd_h),
                                 dollars(&s, m->reserved_3y_usd_h),
                                 dollars(&s, m->own_usd_h),
                                 str_fmt(&s, " %.*s%s", STR_ARG(day), old ? " old" : "") };
    say_row(c->say, &machine_table, cells);
}

static void json_machine(struct cli *c, const struct machine *m, i32 today)
{
    struct arena   scratch = *c->perm, parts = arena_part(&scratch, 1 << 16);
    struct textbuf b = event_begin(&scratch, "machine");
    json_row(&table_machines, m, &b, parts);
    event_f64(&b, "spot_discount", spot_discount(m));
    event_f64(&b, "reserved_1y_pays_at", reserved_break_even(m, PRICE_RESERVED_1Y));
    event_f64(&b, "reserved_3y_pays_at", reserved_break_even(m, PRICE_RESERVED_3Y));
    event_f64(&b, "age_days",
              m->fact.as_of_day == DAY_UNKNOWN ? NAN : (f64)(today - m->fact.as_of_day));
    event_end(&b, c->say);
}

static enum status show_machines(struct cli *c, const struct catalogue *k, struct err *err)
{
    struct pick        *picks = NEW(c->perm, struct pick, k->machine_count);
    i64                 count = 0;
    i32                 today = day_today(c->os);
    const struct order *order;
    enum status         st = pick_order(c, &order, err);
    if (st) return st;
    for (i64 i = 0; i < k->machine_count; i++)
        if (is_picked(c->request, &k->machines[i]))
            picks[count++] = (struct pick){ &k->machines[i], order->key(&k->machines[i]) };
    if (!count)
        return err_set(err, STATUS_NO,
                       "the catalogue has no such machine; `frugal prices` lists all");
    qsort(picks, (size_t)count, sizeof *picks, by_key);
    if (!c->say->json) say_row(c->say, &machine_table, NULL);
    for (i64 i = 0; i < count; i++)
        if (c->say->json) json_machine(c, picks[i].machine, today);
        else show_machine(c, picks[i].machine, today);
    if (!c->say->json)
        say_message(
            c->say,
            "\nDollars per hour; - is not known; old is more than %d days. `frugal prices MACHINE` "
            "shows everything about one, and what was assumed.\n",
            PRICE_OLD_DAYS);
    return STATUS_OK;
}

static struct str dollars_or(struct arena *perm, f64 usd)
{
    return isnan(usd) ? STR("not known") : str_fmt(perm, "$%.2f", usd);
}

/* All of one machine, in every region, with what its reservations ask for, its GPU and the rule of
 * its bill. */
static enum status show_one(struct cli *c, const struct catalogue *k, struct str name,
                            struct err *err)
{
    i64 found = 0;
    for (i64 i = 0; i < k->machine_count; i++) {
        const struct machine *m = &k->machines[i];
        struct arena          s = *c->perm;
        if (!str_eq(m->name, name) || !is_picked(c->request, m)) continue;
        found++;
        if (c->say->json) {
            json_machine(c, m, day_today(c->os));
            continue;
        }
        say_heading(c->say,
                    str_z(&s, str_fmt(&s, "%.*s %.*s", STR_ARG(m->provider), STR_ARG(name))));
        show_row(c, &table_machines, m);
        for (enum price p = PRICE_RESERVED_1Y; p <= PRICE_RESERVED_3Y; p++)
            if (!isnan(reserved_break_even(m, p)))
                say_result(c->say, "  %s is cheaper if used more than %.*s of all hours\n",
                           price_name(p), STR_ARG(per_cent(&s, reserved_break_even(m, p))));
        say_heading(c->say, "How it is billed");
        show_row(c, &table_billing, catalogue_billing(k, m->provider));
        if (m->gpus) {
            say_heading(c->say, "Each of its GPUs");
            if (m->gpus > 1)
                say_result(
                    c->say,
                    "  an hour of one: %.*s on demand, %.*s spot; all %d are sold together "
                    "(`frugal help claims`)\n",
                    STR_ARG(dollars_or(&s, bill_part_usd_hour(m->on_demand_usd_h, (i64)m->gpus))),
                    STR_ARG(dollars_or(&s, bill_part_usd_hour(m->spot_usd_h, (i64)m->gpus))),
                    m->gpus);
            show_row(c, &table_gpus, catalogue_gpu(k, m->gpu));
        }
    }
    if (found) return STATUS_OK;
    return err_set(err, STATUS_NO, "the catalogue has no machine %.*s; `frugal prices` lists all",
                   (int)MIN(name.len, 60), name.data);
}

/* ---- importing ---- */

/* frugal prices import FORMAT FILE... */
static enum status import_prices(struct cli *c, const struct catalogue *k, struct err *err)
{
    const struct request *r = c->request;
    struct str            path =
        r->given[FLAG_prices] ? r->value[FLAG_prices] : catalogue_user_path(c->os, c->perm);
    struct import   how = { .provider = r->value[FLAG_on], .region = r->value[FLAG_region] };
    struct imported all;
    if (r->argument_count < 3)
        return err_set(err, STATUS_USAGE, "which list? Try: frugal prices import %.*s FILE",
                       STR_ARG(import_formats));
    if (!path.len)
        return err_set(err, STATUS_USAGE,
                       "where to write? Neither HOME nor --prices FILE is given");
    how.format     = r->arguments[1];
    enum status st = prices_import_files(c->os, k, &how, r->arguments + 2, r->argument_count - 2,
                                         path, c->perm, &all, err);
    if (st) return st;
    if (c->say->json) {
        struct textbuf b = event_begin(c->perm, "imported");
        event_str(&b, "file", path);
        event_i64(&b, "machines", all.count);
        event_i64(&b, "passed_over", all.passed_over);
        event_end(&b, c->say);
    } else {
        say_result(
            c->say,
            "%lld machine%s written to %.*s; %lld skipped because their hardware is not known\n",
            (long long)all.count, all.count == 1 ? "" : "s", STR_ARG(path),
            (long long)all.passed_over);
    }
    return STATUS_OK;
}

/* ---- the command ---- */

static bool show_other(struct cli *c, const struct catalogue *k, struct str what)
{
    const struct {
        const char         *word, *event;
        const struct table *table;
        const void         *rows;
        i64                 count;
    } others[] = { { "gpus", "gpu", &table_gpus, k->gpus, k->gpu_count },
                   { "cpus", "cpu", &table_cpus, k->cpus, k->cpu_count },
                   { "storage", "storage", &table_storage, k->storage, k->storage_count },
                   { "billing", "billing", &table_billing, k->billing, k->billing_count } };
    i64 i      = 0;
    while (i < COUNT_OF(others) && !str_eq(what, str_of(others[i].word))) i++;
    if (i == COUNT_OF(others)) return false;
    if (!c->say->json) show_table(c, others[i].table, others[i].rows, others[i].count);
    for (i64 r = 0; r < others[i].count && c->say->json; r++) {
        struct arena   scratch = *c->perm, parts = arena_part(&scratch, 1 << 16);
        struct textbuf b = event_begin(&scratch, others[i].event);
        json_row(others[i].table, row_at(others[i].table, others[i].rows, r), &b, parts);
        event_end(&b, c->say);
    }
    return true;
}

enum status command_prices(struct cli *c, struct err *err)
{
    const struct request *r      = c->request;
    struct str            what   = r->argument_count ? r->arguments[0] : STR("");
    bool                  import = str_eq(what, STR("import"));
    struct catalogue     *k;
    /* What an import writes to need not be sound, nor there. */
    enum status st =
        import ? STATUS_OK : catalogue_open(c->os, c->perm, r->value[FLAG_prices], &k, err);
    if (st) return st;
    if (import) return import_prices(c, catalogue_new(c->perm), err);
    if (r->argument_count > 1)
        return err_set(err, STATUS_USAGE,
                       "one machine or table at a time; see `frugal help prices`");
    if (!what.len) return show_machines(c, k, err);
    return show_other(c, k, what) ? STATUS_OK : show_one(c, k, what, err);
}
