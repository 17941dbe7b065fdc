/* cmd_prices.c - frugal prices: the catalogue, looked at, filtered, and renewed from price lists. */
#include "cli/prices_show.h"
#include "plan/import.h"
#include <math.h>
#include <stdlib.h>

enum status command_prices(struct cli *c, struct err *err);

/* A flag that would be ignored is an error. -1 ends the list. */
static enum status refuse_flags(const struct request *r, const i32 *unused, const char *what,
                                struct err *err)
{
    for (; *unused >= 0; unused++)
        if (r->given[*unused])
            return err_set(err, STATUS_USAGE, "--%.*s is not used by `frugal prices %s`",
                           STR_ARG(flags[*unused].name), what);
    return STATUS_OK;
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
    if (r->given[FLAG_region] && !machine_is_in(m, r->value[FLAG_region])) return false;
    return !r->given[FLAG_gpu] || str_glob(gpu, m->gpu) ||
           (str_starts(m->gpu, gpu) && str_starts(str_sub(m->gpu, gpu.len, m->gpu.len), STR("-")));
}

/* An old price has a mark where its digits end, which no terminal is too narrow for. */
static struct str dollars(struct arena *perm, const struct machine *m, enum price p, i32 today)
{
    f64 usd = machine_usd_h(m, p);
    if (isnan(usd)) return STR("- ");
    return str_fmt(perm, "%.2f%s", usd, price_is_old(m, p, today) ? "*" : " ");
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
    { "cloud", -7, 0 },  { "machine", -22, 0 }, { "region", -12, 4 },    { "with", -15, 1 },
    { "vCPUs", 5, 5 },   { "RAM GiB", 8, 6 },   { "on demand ", 10, 0 }, { "spot ", 8, 0 },
    { "off", 6, 3 },     { "1 year ", 8, 8 },   { "3 years ", 8, 9 },    { "own ", 7, 7 },
    { "as of", -10, 2 },
};
static const struct say_table machine_table = { machine_columns, COUNT_OF(machine_columns), "",
                                                " " };

static void show_machine(struct cli *c, const struct machine *m, i32 today)
{
    struct arena     s    = *c->perm;
    struct str       what = m->gpus ? str_fmt(&s, "%d x %.*s", m->gpus, STR_ARG(m->gpu)) : m->cpu;
    const struct str cells[] = { m->provider,
                                 m->name,
                                 m->region,
                                 what,
                                 amount(&s, m->vcpus),
                                 amount(&s, m->ram_gib),
                                 dollars(&s, m, PRICE_ON_DEMAND, today),
                                 dollars(&s, m, PRICE_SPOT, today),
                                 per_cent(&s, spot_discount(m)),
                                 dollars(&s, m, PRICE_RESERVED_1Y, today),
                                 dollars(&s, m, PRICE_RESERVED_3Y, today),
                                 dollars(&s, m, PRICE_OWN, today),
                                 day_or_none(&s, m->fact.as_of_day) };
    say_row(c->say, &machine_table, cells);
}

static void json_machine(struct cli *c, const struct machine *m, i32 today)
{
    struct arena   scratch = *c->perm, parts = arena_part(&scratch, 1 << 16);
    struct textbuf b = event_begin(&scratch, "machine");
    prices_json_row(&table_machines, m, &b, parts);
    event_f64(&b, "spot_discount", spot_discount(m));
    event_f64(&b, "reserved_1y_pays_at", reserved_break_even(m, PRICE_RESERVED_1Y));
    event_f64(&b, "reserved_3y_pays_at", reserved_break_even(m, PRICE_RESERVED_3Y));
    for (i32 p = 0; p < PRICE_COUNT; p++) {
        static const char *const keys[][2] = {
#define PRICE(id, field, text) { #field "_as_of", #field "_source" },
            PRICES(PRICE)
#undef PRICE
        };
        struct price_origin of = price_origin(m, (enum price)p);
        if (of.as_of_day != DAY_UNKNOWN) event_str(&b, keys[p][0], day_text(&parts, of.as_of_day));
        if (of.source.len) event_str(&b, keys[p][1], of.source);
    }
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
    if (!count && c->request->given[FLAG_region])
        return region_refuse(k, c->request->value[FLAG_region], c->request->value[FLAG_on], err);
    if (!count)
        return err_set(err, STATUS_NO,
                       "the catalogue has no such machine; `frugal prices` lists all, and `frugal "
                       "prices gpus` the names of GPUs");
    qsort(picks, (size_t)count, sizeof *picks, by_key);
    if (!c->say->json) say_row(c->say, &machine_table, NULL);
    for (i64 i = 0; i < count; i++)
        if (c->say->json) json_machine(c, picks[i].machine, today);
        else show_machine(c, picks[i].machine, today);
    if (!c->say->json)
        say_message(c->say,
                    "\nDollars per hour; - is not known; * is older than %d days, or has no date. "
                    "`frugal prices "
                    "MACHINE` shows everything about one, and what was assumed.\n",
                    PRICE_OLD_DAYS);
    return STATUS_OK;
}

static struct str dollars_or(struct arena *perm, f64 usd)
{
    return isnan(usd) ? STR("not known") : str_fmt(perm, "$%.2f", usd);
}

/* Date and source of each price: the columns above have those of the oldest. */
static void show_origins(struct cli *c, const struct machine *m)
{
    i32 today = day_today(c->os);
    for (i32 p = 0; p < PRICE_COUNT; p++) {
        struct arena        s  = *c->perm;
        struct price_origin of = price_origin(m, (enum price)p);
        if (isnan(machine_usd_h(m, (enum price)p))) continue;
        say_result(c->say, "  %s price: %.*s%s%s%.*s\n", price_name((enum price)p),
                   STR_ARG(day_or_none(&s, of.as_of_day)),
                   price_is_old(m, (enum price)p, today) ? " (old)" : "", of.source.len ? ", " : "",
                   STR_ARG(of.source));
    }
}

/* All of one machine, in every region, with what its reservations ask for, its GPU and the rule of
 * its bill. */
static enum status show_one(struct cli *c, const struct catalogue *k, struct str name,
                            struct err *err)
{
    static const i32 unused[] = { FLAG_sort, -1 };
    i64              found    = 0;
    enum status      st       = refuse_flags(c->request, unused, "MACHINE", err);
    if (st) return st;
    for (i64 i = 0; i < k->machine_count; i++) {
        const struct machine *m = &k->machines[i];
        struct arena          s = *c->perm;
        if (!machine_is_named(m, name) || !is_picked(c->request, m)) continue;
        found++;
        if (c->say->json) {
            json_machine(c, m, day_today(c->os));
            continue;
        }
        say_heading(c->say,
                    str_z(&s, str_fmt(&s, "%.*s %.*s", STR_ARG(m->provider), STR_ARG(m->name))));
        prices_show_row(c, &table_machines, m);
        show_origins(c, m);
        for (enum price p = PRICE_RESERVED_1Y; p <= PRICE_RESERVED_3Y; p++)
            if (!isnan(reserved_break_even(m, p)))
                say_result(c->say, "  %s is cheaper if used more than %.*s of all hours\n",
                           price_name(p), STR_ARG(per_cent(&s, reserved_break_even(m, p))));
        say_heading(c->say, "How it is billed");
        prices_show_row(c, &table_billing, catalogue_billing(k, m->provider));
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
            prices_show_row(c, &table_gpus, catalogue_gpu(k, m->gpu));
        }
    }
    if (found) return STATUS_OK;
    struct str near = machine_nearest(k, name, *c->perm);
    return err_set(err, STATUS_NO,
                   "the catalogue has no machine %.*s%s%.*s%s; `frugal prices` lists all",
                   (int)MIN(name.len, 60), name.data, near.len ? " (did you mean " : "",
                   STR_ARG(near), near.len ? "?)" : "");
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
    static const i32 unused[] = { FLAG_gpu, FLAG_spot, FLAG_sort, -1 };
    enum status      st       = refuse_flags(r, unused, "import", err);
    how.format                = r->arguments[1];
    if (!st) st = import_check_format(how.format, err);
    if (!st)
        st = prices_import_files(c->os, k, &how, r->arguments + 2, r->argument_count - 2, path,
                                 c->perm, &all, err);
    if (st) return st;
    if (c->say->json) {
        struct textbuf b = event_begin(c->perm, "imported");
        event_str(&b, "file", path);
        event_i64(&b, "machines", all.count);
        event_i64(&b, "passed_over", all.passed_over);
        event_i64(&b, "unpriced", all.unpriced);
        event_end(&b, c->say);
    } else {
        say_result(c->say,
                   "%lld machine%s written to %.*s; skipped: %lld of unknown hardware, %lld "
                   "without a price in the list\n",
                   (long long)all.count, all.count == 1 ? "" : "s", STR_ARG(path),
                   (long long)all.passed_over, (long long)all.unpriced);
    }
    return STATUS_OK;
}

/* ---- the command ---- */

/* STATUS_NO: there is no such table. */
static enum status show_other(struct cli *c, const struct catalogue *k, struct str what,
                              struct err *err)
{
    static const i32 unused[] = { FLAG_on, FLAG_gpu, FLAG_spot, FLAG_sort, FLAG_region, -1 };
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
    if (i == COUNT_OF(others)) return STATUS_NO;
    enum status st = refuse_flags(c->request, unused, others[i].word, err);
    if (st) return st;
    if (!c->say->json) prices_show_table(c, others[i].table, others[i].rows, others[i].count);
    if (!c->say->json && others[i].table == &table_storage)
        say_message(c->say, "\nDollars; - is not known; * is older than %d days, or has no date.\n",
                    PRICE_OLD_DAYS);
    for (i64 r = 0; r < others[i].count && c->say->json; r++) {
        struct arena   scratch = *c->perm, parts = arena_part(&scratch, 1 << 16);
        struct textbuf b = event_begin(&scratch, others[i].event);
        prices_json_row(others[i].table,
                        (const u8 *)others[i].rows + (size_t)r * others[i].table->row_bytes, &b,
                        parts);
        event_end(&b, c->say);
    }
    return STATUS_OK;
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
    if (r->given[FLAG_region] && !region_is_known(k, r->value[FLAG_region]))
        return region_refuse(k, r->value[FLAG_region], r->value[FLAG_on], err);
    if (!what.len) return show_machines(c, k, err);
    st = show_other(c, k, what, err);
    return st == STATUS_NO ? show_one(c, k, what, err) : st;
}
