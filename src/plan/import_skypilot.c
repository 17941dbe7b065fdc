/* import_skypilot.c - vms.csv: a row a machine and zone. On gcp a machine's row has no GPU: the price
 * of its GPUs stands in rows without a machine, by kind and count, and belongs to it. */
#include "plan/import_int.h"
#include <math.h>

enum field { INSTANCE, GPU, GPUS, VCPUS, RAM, PRICE, SPOT, REGION, ZONE, FIELD_COUNT };
static const char *const field_names[FIELD_COUNT] = {
    "InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs",           "MemoryGiB",
    "Price",        "SpotPrice",       "Region",           "AvailabilityZone"
};
enum { COLUMNS_MAX = 64, ADDED_MAX = 4096 };

struct added { /* GPUs that are priced apart */
    struct str gpu, zone;
    i32        gpus;
    f64        usd_h, spot_usd_h;
};

struct list {
    struct offers *o;
    struct csv     csv;
    i32            field_of[COLUMNS_MAX]; /* -1: not needed */
    i64            column_count;
    struct added  *added; /* [ADDED_MAX] */
    i64            added_count;
};

static enum status read_header(struct list *l)
{
    enum status st                = csv_more(&l->csv) ? STATUS_OK : STATUS_USAGE;
    bool        seen[FIELD_COUNT] = { 0 };
    for (bool last = false; !st && !last; l->column_count++) {
        struct str name;
        if (l->column_count == COLUMNS_MAX) break;
        st                           = csv_field(&l->csv, &name, &last, l->o->err);
        l->field_of[l->column_count] = -1;
        for (i32 f = 0; f < FIELD_COUNT && !st; f++) {
            if (!str_eq(name, str_of(field_names[f]))) continue;
            l->field_of[l->column_count] = f;
            seen[f]                      = true;
        }
    }
    if (seen[INSTANCE] && seen[PRICE] && seen[REGION]) return st;
    return err_set(
        l->o->err, STATUS_USAGE,
        "%.*s is not a vms.csv of SkyPilot: its header lacks InstanceType, Price or Region",
        STR_ARG(l->csv.path));
}

static enum status read_row(struct list *l, struct str *field)
{
    enum status st = STATUS_OK;
    i64         i  = 0;
    for (i32 f = 0; f < FIELD_COUNT; f++) field[f] = STR("");
    for (bool last = false; !st && !last; i++) {
        struct str text;
        st = csv_field(&l->csv, &text, &last, l->o->err);
        if (!st && i < l->column_count && l->field_of[i] >= 0)
            field[l->field_of[i]] = str_trim(text);
    }
    return st;
}

static f64 number(struct str s)
{
    f64 v;
    return str_f64(s, &v) && v >= 0 ? v : NAN;
}

static i32 count_of(struct str s)
{
    f64 v = number(s);
    return v >= 1 && v <= 1024 ? (i32)v : 0;
}

static struct str gpu_of(struct str name)
{
    static const struct {
        struct str name, gpu;
    } aliases[] = {
#define ALIAS(name, gpu) { STR_INIT(name), STR_INIT(gpu) },
#include "plan/families.def"
#undef ALIAS
    };
    for (i64 i = 0; i < COUNT_OF(aliases); i++)
        if (str_eq(aliases[i].name, name)) return aliases[i].gpu;
    return name; /* the catalogue will not know it */
}

static void add_row(struct list *l, const struct str *f)
{
    struct str gpu = gpu_of(f[GPU]);
    if (!offers_wants(l->o, f[REGION])) return;
    if (!f[INSTANCE].len) {
        if (l->added_count < ADDED_MAX)
            l->added[l->added_count++] = (struct added){ gpu, f[ZONE], count_of(f[GPUS]),
                                                         number(f[PRICE]), number(f[SPOT]) };
        return;
    }
    struct offer *offer = offers_get(l->o, f[INSTANCE], gpu, count_of(f[GPUS]));
    if (!offer) return;
    struct machine *m     = &offer->machine;
    f64             usd_h = number(f[PRICE]), spot_usd_h = number(f[SPOT]);
    m->vcpus   = number(f[VCPUS]);
    m->ram_gib = number(f[RAM]);
    if (m->gpus && !f[GPU].len) {
        const struct added *a = l->added;
        while (a < l->added + l->added_count &&
               !(str_eq(a->gpu, m->gpu) && a->gpus == m->gpus && str_eq(a->zone, f[ZONE])))
            a++;
        bool priced = a < l->added + l->added_count;
        usd_h += priced ? a->usd_h : NAN;
        spot_usd_h += priced ? a->spot_usd_h : NAN;
    }
    offer_price(offer, PRICE_ON_DEMAND, usd_h);
    offer_price(offer, PRICE_SPOT, spot_usd_h);
}

/* Two readings: the prices of GPUs apart may stand behind the machines that have them. */
enum status import_skypilot(struct offers *o, struct str text)
{
    struct list l    = { .o = o, .csv = csv_of(o->path, text) };
    enum status st   = read_header(&l);
    struct csv  rows = l.csv;
    l.added          = NEW(o->perm, struct added, ADDED_MAX);
    for (i32 reading = 0; reading < 2 && !st; reading++) {
        l.csv = rows;
        while (!st && csv_more(&l.csv)) {
            struct str field[FIELD_COUNT];
            st = read_row(&l, field);
            if (!st && (field[INSTANCE].len > 0) == (reading == 1)) add_row(&l, field);
        }
    }
    return st;
}
