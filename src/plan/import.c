/* import.c - which list is read how, and what becomes of the offers found in it. */
#include "base/json_walk.h"
#include "plan/import_int.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEM_BYTES = 16 << 20 }; /* address space for one item of a list */

static const struct family {
    struct str provider, pattern, gpu, cpu;
} families[] = {
#define FAMILY(provider, pattern, gpu, cpu)                                                        \
    { STR_INIT(provider), STR_INIT(pattern), STR_INIT(gpu), STR_INIT(cpu) },
#include "plan/families.def"
#undef FAMILY
};

static const struct {
    struct str name;
    enum status (*read)(struct offers *, struct str text);
} formats[]                     = { { STR_INIT("aws"), import_aws },
                                    { STR_INIT("gcp"), import_gcp },
                                    { STR_INIT("azure"), import_azure },
                                    { STR_INIT("skypilot"), import_skypilot } };
const struct str import_formats = STR_INIT("aws|gcp|azure|skypilot");

/* ---- collecting ---- */

bool offers_wants(const struct offers *o, struct str region)
{
    struct str wanted = o->how.region;
    return !wanted.len || str_eq(region, wanted) || region_begins(region, wanted);
}

enum status offers_bad(const struct offers *o, const struct err *why)
{
    return err_set(o->err, STATUS_USAGE, "%.*s: %s", STR_ARG(o->path), why->text);
}

struct str json_text(const struct json *map, struct str key)
{
    const struct json *v = json_get(map, key);
    return v && v->kind == JSON_STRING ? v->text : STR("");
}

enum status offers_each(struct offers *o, struct str text, struct str key,
                        void (*add)(struct offers *, const struct json *item))
{
    struct json_walk w;
    struct str       items, none, value;
    struct err       why = { 0 };
    enum status      st  = json_walk_find(text, key, &items, &why);
    if (st == STATUS_NO) err_set(&why, STATUS_USAGE, "it has no \"%.*s\"", STR_ARG(key));
    if (!st) st = json_walk_open(&w, items, &why);
    while (!st && !(st = json_walk_next(&w, &none, &value, &why))) {
        struct arena scratch = o->scratch;
        struct json *item;
        st = json_parse(&scratch, value, &item, &why);
        if (!st) add(o, item);
    }
    return why.status ? offers_bad(o, &why) : STATUS_OK;
}

/* Takes the catalogue's own words for its GPU, so that nothing points into the list. */
static bool is_known(const struct offers *o, struct machine *m)
{
    const struct gpu *gpu = catalogue_gpu(o->catalogue, m->gpu);
    if (!m->gpu.len) return catalogue_cpu(o->catalogue, m->cpu) && m->gpus == 0;
    if (!gpu || m->gpus < 1) return false;
    m->gpu = gpu->name;
    return true;
}

/* a3-highgpu-4g has four: gcp says so in the name. 0: it does not. */
static i32 gpus_in_name(struct str name)
{
    struct str rest = name, last;
    i64        count;
    while (str_cut(&rest, '-', &last)) continue;
    if (!str_ends(last, STR("g")) || !str_i64(str_sub(last, 0, last.len - 1), &count)) return 0;
    return count >= 1 && count <= 1024 ? (i32)count : 0;
}

static struct machine hardware(const struct offers *o, struct str name, struct str gpu, i32 gpus)
{
    const struct machine *known = catalogue_machine(o->catalogue, o->how.provider, name);
    struct machine        m;
    table_clear(&table_machines, &m);
    m.provider       = o->how.provider;
    m.name           = name;
    m.region         = o->how.region;
    m.gpu            = gpu;
    m.gpus           = gpus;
    m.fact.as_of_day = o->how.as_of_day;
    if (known) {
        m.gpu  = known->gpu;
        m.gpus = known->gpus;
        m.cpu  = known->cpu;
        return m;
    }
    for (i64 i = 0; i < COUNT_OF(families); i++) {
        const struct family *f = &families[i];
        if (!str_eq(f->provider, o->how.provider) || !str_glob(f->pattern, name)) continue;
        if (!m.gpu.len) m.gpu = f->gpu;
        m.cpu = f->cpu;
    }
    if (m.gpu.len && !m.gpus) m.gpus = gpus_in_name(name);
    return m;
}

/* One word that can stand in a CSV file as it is. */
static bool is_name(struct str s)
{
    for (i64 i = 0; i < s.len; i++)
        if (s.data[i] <= ' ' || s.data[i] == '"' || s.data[i] == ',') return false;
    return s.len > 0;
}

struct offer *offers_get(struct offers *o, struct str name, struct str gpu, i32 gpus)
{
    u64 key = str_hash(name);
    for (i64 i = 0; i < o->count; i++)
        if (o->offers[i].key == key && str_eq(o->offers[i].machine.name, name))
            return &o->offers[i];
    struct machine m = hardware(o, name, gpu, gpus);
    if (!is_name(name) || !is_known(o, &m)) {
        i64 i = 0;
        while (i < o->unknown_count && o->unknown[i] != key) i++;
        if (i == o->unknown_count && i < OFFERS_MAX) o->unknown[o->unknown_count++] = key;
        return NULL;
    }
    o->full |= o->count == OFFERS_MAX;
    if (o->full) return NULL;
    struct offer *new = &o->offers[o->count++];
    new->key          = key;
    new->machine      = m;
    new->machine.name = str_copy(o->perm, name);
    return new;
}

void offer_price(struct offer *offer, enum price kind, f64 usd_h)
{
    struct machine *m = &offer->machine;
    f64            *to;
    if (!(usd_h > 0)) return; /* lists write 0 for what is not sold */
    switch (kind) {
    case PRICE_SPOT:
        if (offer->spot_count < ZONES_MAX) offer->spot[offer->spot_count++] = usd_h;
        return;
    case PRICE_ON_DEMAND: to = &m->on_demand_usd_h; break;
    case PRICE_RESERVED_1Y: to = &m->reserved_1y_usd_h; break;
    case PRICE_RESERVED_3Y: to = &m->reserved_3y_usd_h; break;
    default: return;
    }
    *to = fmin(*to, usd_h); /* of NaN and a number, the number */
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

static void spot_summary(struct offer *offer)
{
    struct machine *m = &offer->machine;
    i32             n = offer->spot_count;
    if (!n) return;
    qsort(offer->spot, (size_t)n, sizeof *offer->spot, by_value);
    m->spot_usd_h     = 0.5 * (offer->spot[(n - 1) / 2] + offer->spot[n / 2]);
    m->spot_min_usd_h = offer->spot[0];
    m->spot_max_usd_h = offer->spot[n - 1];
}

/* ---- reading ---- */

static struct str folder_of(struct str path)
{
    i64 end = path.len, begin;
    while (end > 0 && path.data[end - 1] != '/') end--;
    begin = end = MAX(end - 1, 0);
    while (begin > 0 && path.data[begin - 1] != '/') begin--;
    return str_sub(path, begin, end);
}

/* The region that the catalogue's rows of a provider have: so a list renews them. */
static struct str home_region(const struct catalogue *c, struct str provider)
{
    for (i64 i = 0; i < c->machine_count; i++)
        if (str_eq(c->machines[i].provider, provider)) return c->machines[i].region;
    return STR("");
}

static i64 format_of(struct str name)
{
    i64 i = 0;
    while (i < COUNT_OF(formats) && !str_eq(formats[i].name, name)) i++;
    return i;
}

enum status import_check_format(struct str name, struct err *err)
{
    if (format_of(name) < COUNT_OF(formats)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "there is no price list \"%.*s\"; it is one of %.*s",
                   (int)MIN(name.len, 40), name.data, STR_ARG(import_formats));
}

enum status prices_import(const struct catalogue *c, const struct import *how, struct str path,
                          struct str text, struct arena *perm, struct imported *out,
                          struct err *err)
{
    i64 format = format_of(how->format);
    if (import_check_format(how->format, err)) return STATUS_USAGE;

    struct offers *o = NEW(perm, struct offers, 1);
    *o = (struct offers){ .catalogue = c, .how = *how, .path = path, .perm = perm, .err = err };
    o->offers  = NEW(perm, struct offer, OFFERS_MAX);
    o->scratch = arena_part(perm, ITEM_BYTES);
    if (!str_eq(how->format, STR("skypilot"))) o->how.provider = how->format;
    else if (!how->provider.len) o->how.provider = folder_of(path);
    if (!o->how.provider.len)
        return err_set(err, STATUS_USAGE,
                       "%.*s: whose prices are these? Put it in a folder named after the cloud, or "
                       "give --on CLOUD",
                       STR_ARG(path));
    o->how.region = region_name(how->region);
    if (!how->region.len) o->how.region = home_region(c, o->how.provider);
    if (!region_is_of(o->how.provider, o->how.region))
        return region_refuse(c, how->region, o->how.provider, err);
    if (str_eq(o->how.region, STR("any"))) o->how.region = STR("");

    enum status st    = formats[format].read(o, text);
    out->machines     = NEW(perm, struct machine, o->count);
    out->count        = 0;
    out->passed_over  = o->unknown_count;
    struct str source = str_fmt(perm, "imported from %.*s", STR_ARG(how->format));
    for (i64 i = 0; i < o->count && !st; i++) {
        struct machine *m = &o->offers[i].machine;
        spot_summary(&o->offers[i]);
        m->fact.source = source;
        if (!m->region.len) m->region = STR("any");
        if (machine_has_price(m)) out->machines[out->count++] = *m;
    }
    out->unpriced = o->count - out->count;
    return st;
}

/* Takes the figures from `old` that `new` replaces. False: it has none left. */
static bool keep_others(struct machine *old, const struct machine *new)
{
    bool kept = false;
    if (!isnan(new->spot_usd_h)) old->spot_min_usd_h = old->spot_max_usd_h = NAN;
#define FIGURE(name)                                                                               \
    if (!isnan(new->name)) old->name = NAN;                                                        \
    kept |= !isnan(old->name);
    MACHINE_FIGURES(FIGURE)
#undef FIGURE
    return kept;
}

enum status prices_merge_text(struct arena *perm, struct str path, struct str before,
                              const struct machine *machines, i64 count, struct str *out,
                              struct err *err)
{
    struct machine *rows = NULL;
    void           *read = NULL;
    i64             all  = 0;
    enum status     st   = STATUS_OK;
    if (before.len) st = table_read(&table_machines, csv_of(path, before), perm, &read, &all, err);
    if (st) return st;
    rows = NEW(perm, struct machine, all + count);
    if (all) memcpy(rows, read, (size_t)all * sizeof *rows);
    for (i64 i = 0; i < count; i++) {
        i64 kept = 0;
        for (i64 at = 0; at < all; at++) {
            if (machine_same(&rows[at], &machines[i]) && !keep_others(&rows[at], &machines[i]))
                continue;
            if (kept != at) rows[kept] = rows[at];
            kept++;
        }
        rows[kept] = machines[i];
        all        = kept + 1;
    }
    struct textbuf b = textbuf_new(perm);
    table_write_header(&table_machines, &b);
    for (i64 i = 0; i < all; i++) table_write_row(&table_machines, &b, &rows[i]);
    *out = textbuf_str(&b);
    return STATUS_OK;
}
