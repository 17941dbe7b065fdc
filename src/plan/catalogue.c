/* catalogue.c - the facts of this folder as tables, and the user's file over them. */
#include "plan/catalogue.h"
#include "base/rng.h"
#include "plan/table.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* By cmake/facts.cmake. */
extern const char fact_machines[], fact_gpus[], fact_cpus[], fact_storage[], fact_billing[];

/* ---- the columns, in the order in which they are written ---- */

#define COLUMN(name, kind, field)                                                                  \
    {                                                                                              \
        STR_INIT(name), kind, offsetof(struct ROW, field)                                          \
    }
#define FIGURE(name) COLUMN(#name, COLUMN_FIGURE, name),
#define FACT COLUMN("as_of", COLUMN_DAY, fact.as_of_day), COLUMN("source", COLUMN_TEXT, fact.source)
#define TABLE(name, first)                                                                         \
    const struct table table_##name = { columns_##name, COUNT_OF(columns_##name),                  \
                                        sizeof(struct ROW), offsetof(struct ROW, first),           \
                                        offsetof(struct ROW, fact) };

#define ROW machine
static const struct column columns_machines[] = { COLUMN("provider", COLUMN_TEXT, provider),
                                                  COLUMN("instance", COLUMN_TEXT, name),
                                                  COLUMN("region", COLUMN_TEXT, region),
                                                  COLUMN("gpu", COLUMN_TEXT, gpu),
                                                  COLUMN("gpus", COLUMN_COUNT, gpus),
                                                  COLUMN("cpu", COLUMN_TEXT, cpu),
                                                  MACHINE_FIGURES(FIGURE) FACT };
TABLE(machines, vcpus)
#undef ROW
#define ROW gpu
static const struct column columns_gpus[] = { COLUMN("gpu", COLUMN_TEXT, name),
                                              COLUMN("link", COLUMN_TEXT, link),
                                              GPU_FIGURES(FIGURE) FACT };
TABLE(gpus, bf16_dense_tflops)
#undef ROW
#define ROW cpu
static const struct column columns_cpus[] = { COLUMN("cpu", COLUMN_TEXT, name),
                                              CPU_FIGURES(FIGURE) FACT };
TABLE(cpus, vcpus_per_core)
#undef ROW
#define ROW storage
static const struct column columns_storage[] = { COLUMN("provider", COLUMN_TEXT, provider),
                                                 COLUMN("class", COLUMN_TEXT, name),
                                                 STORAGE_FIGURES(FIGURE) FACT };
TABLE(storage, gb_month_usd)
#undef ROW
#define ROW billing
static const struct column columns_billing[] = { COLUMN("provider", COLUMN_TEXT, provider),
                                                 BILLING_FIGURES(FIGURE) FACT };
TABLE(billing, granularity_s)
#undef ROW

/* ---- reading ---- */

/* Our own facts: a fault in them is our own. */
static void *facts(const struct table *t, const char *text, struct arena *perm, i64 *count)
{
    struct err err = { 0 };
    void      *rows;
    ASSERT(!table_read(t, csv_of(STR("facts"), str_of(text)), perm, &rows, count, &err));
    return rows;
}

/* The prices that `row` gives have its date and source. */
static void date_prices(struct machine *m, const struct machine *row)
{
    const struct price_origin of = { row->fact.source, row->fact.as_of_day };
    for (i32 p = 0; p < PRICE_COUNT; p++)
        if (!isnan(machine_usd_h(row, (enum price)p))) m->origin[p] = of;
}

struct catalogue *catalogue_new(struct arena *perm)
{
    struct catalogue *c = NEW(perm, struct catalogue, 1);
    c->machines         = facts(&table_machines, fact_machines, perm, &c->machine_count);
    c->gpus             = facts(&table_gpus, fact_gpus, perm, &c->gpu_count);
    c->cpus             = facts(&table_cpus, fact_cpus, perm, &c->cpu_count);
    c->storage          = facts(&table_storage, fact_storage, perm, &c->storage_count);
    c->billing          = facts(&table_billing, fact_billing, perm, &c->billing_count);
    for (i64 i = 0; i < c->machine_count; i++) date_prices(&c->machines[i], &c->machines[i]);
    for (i64 i = 0; i < c->gpu_count; i++) {
        struct gpu *g = &c->gpus[i];
        if (!isnan(g->memory_usable_gib)) continue;
        g->memory_usable_gib = (1 - GPU_MEMORY_RESERVED) * g->memory_gib;
        table_assume(&table_gpus, g, &g->memory_usable_gib);
    }
    return c;
}

static u64 machine_key(const struct machine *m)
{
    return str_hash(m->provider) ^ rng_mix(str_hash(m->name)) ^ rng_mix(~str_hash(m->region));
}

bool machine_same(const struct machine *a, const struct machine *b)
{
    return str_eq(a->provider, b->provider) && str_eq(a->name, b->name) &&
           str_eq(a->region, b->region);
}

/* A machine that is known in another region: the same hardware, nothing known of its price. */
static struct machine other_region(const struct catalogue *c, const struct machine *m)
{
    const struct machine *known = catalogue_machine(c, m->provider, m->name);
    struct machine        unpriced, result;
    if (!known) return *m;
    table_clear(&table_machines, &result);
    unpriced = *known;
#define PRICE(id, field, text) unpriced.field##_usd_h = NAN;
    PRICES(PRICE)
#undef PRICE
    unpriced.spot_min_usd_h = unpriced.spot_max_usd_h = NAN;
    unpriced.fact.source                              = STR("");
    unpriced.fact.as_of_day                           = DAY_UNKNOWN;
    table_overlay(&table_machines, &result, &unpriced);
    table_overlay(&table_machines, &result, m);
    return result;
}

/* The range of spot prices belongs to their median. The row as a whole is as old as its oldest price; one without a
 * date is older than any. */
static void lay_over(struct machine *to, const struct machine *from)
{
    if (!isnan(from->spot_usd_h)) to->spot_min_usd_h = to->spot_max_usd_h = NAN;
    table_overlay(&table_machines, to, from);
    date_prices(to, from);
    const struct price_origin *oldest = NULL;
    for (i32 p = 0; p < PRICE_COUNT; p++)
        if (!isnan(machine_usd_h(to, (enum price)p)) &&
            (!oldest || to->origin[p].as_of_day < oldest->as_of_day))
            oldest = &to->origin[p];
    if (!oldest) return;
    to->fact.as_of_day = oldest->as_of_day;
    to->fact.source    = oldest->source;
}

static enum status check_new(const struct catalogue *c, const struct machine *m, struct str path,
                             struct err *err)
{
    const char *lack = NULL;
    if (!m->provider.len || !m->name.len) lack = "a row without provider or instance";
    else if (m->gpu.len && !catalogue_gpu(c, m->gpu))
        lack = "a GPU that the catalogue does not know";
    else if (m->cpu.len && !catalogue_cpu(c, m->cpu))
        lack = "a CPU that the catalogue does not know";
    else if (!m->gpu.len && !m->cpu.len) lack = "neither a gpu nor a cpu";
    else if (m->gpu.len ? m->gpus < 1 : m->gpus > 0)
        lack = "a number of gpus that does not match its gpu";
    if (!lack) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.*s: %.*s %.*s has %s (gpu \"%.*s\", cpu \"%.*s\")",
                   STR_ARG(path), STR_ARG(m->provider), STR_ARG(m->name), lack, STR_ARG(m->gpu),
                   STR_ARG(m->cpu));
}

enum status catalogue_merge(struct catalogue *c, struct arena *perm, struct str path,
                            struct str text, struct err *err)
{
    void       *rows  = NULL;
    i64         count = 0, all;
    enum status st    = table_read(&table_machines, csv_of(path, text), perm, &rows, &count, err);
    if (st) return st;
    const struct machine *from = rows;
    struct machine       *to   = NEW(perm, struct machine, c->machine_count + count);
    u64                  *keys = NEW(perm, u64, c->machine_count + count);
    memcpy(to, c->machines, (size_t)c->machine_count * sizeof *to);
    for (i64 i = 0; i < c->machine_count; i++) keys[i] = machine_key(&to[i]);
    all = c->machine_count;
    for (i64 i = 0; i < count && !st; i++) {
        u64 key = machine_key(&from[i]);
        i64 at  = 0;
        while (at < all && !(keys[at] == key && machine_same(&to[at], &from[i]))) at++;
        if (at == all) {
            keys[all] = key;
            to[all++] = other_region(c, &from[i]);
        }
        lay_over(&to[at], &from[i]);
        if (to[at].gpus == COUNT_NOT_GIVEN && !to[at].gpu.len) to[at].gpus = 0;
        st = check_new(c, &to[at], path, err);
    }
    if (st) return st;
    c->machines      = to;
    c->machine_count = all;
    return STATUS_OK;
}

struct str catalogue_user_path(struct os *os, struct arena *perm)
{
    struct str given = os->env(os, "FRUGAL_PRICES"), config = os->env(os, "XDG_CONFIG_HOME");
    struct str home = os->env(os, "HOME");
    if (given.len) return str_copy(perm, given);
    if (config.len) return str_cat(perm, config, STR("/frugal/prices.csv"));
    if (home.len) return str_cat(perm, home, STR("/.config/frugal/prices.csv"));
    return STR("");
}

/* What the environment says of prices is obeyed or refused: prices that are not the user's own would pass for them. */
static enum status check_environment(struct os *os, struct str given, struct err *err)
{
    struct os_stat there;
    i32            day;
    struct str     path = os->env(os, "FRUGAL_PRICES"), today = os->env(os, "FRUGAL_TODAY");
    if (today.len && !day_parse(today, &day))
        return err_set(err, STATUS_USAGE, "FRUGAL_TODAY is %.*s; expected a day like 2026-11-17",
                       STR_ARG(today));
    if (!given.len && path.len && os->stat(os, path, &there, NULL))
        return err_set(err, STATUS_USAGE, "FRUGAL_PRICES is %.*s, which cannot be found",
                       STR_ARG(path));
    return STATUS_OK;
}

enum status catalogue_open(struct os *os, struct arena *perm, struct str path,
                           struct catalogue **out, struct err *err)
{
    struct str     text;
    struct os_stat there;
    *out           = catalogue_new(perm);
    enum status st = check_environment(os, path, err);
    if (st) return st;
    if (!path.len) {
        path = catalogue_user_path(os, perm);
        if (!path.len || os->stat(os, path, &there, NULL)) return STATUS_OK;
    }
    st = os_read_all(os, path, perm, &text, err);
    return st ? st : catalogue_merge(*out, perm, path, text, err);
}

/* ---- finding ---- */

const struct machine *catalogue_machine(const struct catalogue *c, struct str provider,
                                        struct str name)
{
    for (i64 i = 0; i < c->machine_count; i++)
        if (str_eq(c->machines[i].name, name) && str_eq(c->machines[i].provider, provider))
            return &c->machines[i];
    return NULL;
}

/* aws/p5.48xlarge, or p5.48xlarge of whichever cloud. */
bool machine_is_named(const struct machine *m, struct str name)
{
    struct str rest = name, cloud;
    if (str_eq(m->name, name)) return true;
    char between =
        str_find(name, '/') >= 0 ? '/' : ' '; /* "aws p5.48xlarge" is how tables print it */
    return str_cut(&rest, between, &cloud) && str_eq(m->provider, cloud) && str_eq(m->name, rest);
}

struct str machine_nearest(const struct catalogue *c, struct str name, struct arena scratch)
{
    i64        least = MIN(4, 1 + name.len / 2); /* slips of the finger */
    struct str best  = { 0 };
    for (i64 i = 0; i < c->machine_count && name.len < 64; i++) {
        i64 d = str_distance(c->machines[i].name, name, scratch);
        if (d >= least) continue;
        least = d;
        best  = c->machines[i].name;
    }
    return best;
}

const struct gpu *catalogue_gpu(const struct catalogue *c, struct str name)
{
    for (i64 i = 0; i < c->gpu_count; i++)
        if (str_eq(c->gpus[i].name, name)) return &c->gpus[i];
    return NULL;
}

const struct cpu *catalogue_cpu(const struct catalogue *c, struct str name)
{
    for (i64 i = 0; i < c->cpu_count; i++)
        if (str_eq(c->cpus[i].name, name)) return &c->cpus[i];
    return NULL;
}

const struct storage *catalogue_storage(const struct catalogue *c, struct str provider,
                                        struct str name)
{
    for (i64 i = 0; i < c->storage_count; i++) {
        const struct storage *s = &c->storage[i];
        if (str_eq(s->provider, provider) && (!name.len || str_eq(s->name, name))) return s;
    }
    return NULL;
}

const struct billing *catalogue_billing(const struct catalogue *c, struct str provider)
{
    static const struct billing by_the_second = {
        .granularity_s = 1,
        .fact = { .source = STR_INIT("not known"), .as_of_day = DAY_UNKNOWN, .assumed = 7 },
    };
    for (i64 i = 0; i < c->billing_count; i++)
        if (str_eq(c->billing[i].provider, provider)) return &c->billing[i];
    return &by_the_second;
}

struct str machine_assumed(struct arena *perm, const struct machine *m)
{
    return table_assumed(&table_machines, m, perm);
}

struct str gpu_assumed(struct arena *perm, const struct gpu *g)
{
    return table_assumed(&table_gpus, g, perm);
}
