/* import_aws.c - EC2's offer file: "products" says what an SKU is, "terms" what it costs. The file of
 * all regions has gigabytes, so it is walked, never made into a tree: once for the machines we want
 * (Linux, shared, nothing preinstalled), once for their prices. Of reservations those are read that
 * ask for nothing in advance and can be compared by the hour: standard, "No Upfront". */
#include "base/json_walk.h"
#include "plan/import_int.h"
#include <math.h>

enum { SKUS_MAX = 16384 };

struct sku {
    u64           key;
    struct str    name;
    struct offer *offer;
};
struct skus {
    struct sku *sku; /* [SKUS_MAX] */
    i64         count;
};

/* "1,152 GiB", "400 Gigabit", "96": the number in front. */
static f64 leading_number(struct str s, struct arena scratch)
{
    char *to  = NEW(&scratch, char, s.len + 1);
    i64   len = 0;
    f64   v;
    for (i64 i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c == ',') continue;
        if ((c < '0' || c > '9') && c != '.') break;
        to[len++] = c;
    }
    return str_f64((struct str){ to, len }, &v) ? v : NAN;
}

/* "EBS only", "8 x 1000 NVMe SSD", "1 x 250 NVMe SSD". */
static f64 disk_gb(struct str s, struct arena scratch)
{
    struct str each = s, count;
    if (str_eq(s, STR("EBS only"))) return 0;
    if (!str_cut(&each, 'x', &count)) return NAN;
    return leading_number(str_trim(count), scratch) * leading_number(str_trim(each), scratch);
}

static bool is_wanted(const struct offers *o, const struct json *product)
{
    static const struct {
        struct str key, value;
    } must[]             = { { STR_INIT("operatingSystem"), STR_INIT("Linux") },
                             { STR_INIT("tenancy"), STR_INIT("Shared") },
                             { STR_INIT("preInstalledSw"), STR_INIT("NA") },
                             { STR_INIT("capacitystatus"), STR_INIT("Used") } };
    const struct json *a = json_get(product, STR("attributes"));
    for (i64 i = 0; i < COUNT_OF(must); i++)
        if (!str_eq(json_text(a, must[i].key), must[i].value)) return false;
    struct str market = json_text(a, STR("marketoption")); /* or CapacityBlock */
    if (market.len && !str_eq(market, STR("OnDemand"))) return false;
    return json_text(a, STR("instanceType")).len &&
           offers_wants(o, json_text(a, STR("regionCode")));
}

static enum status add_product(struct offers *o, struct str sku, const struct json *product)
{
    struct skus       *skus = o->state;
    const struct json *a    = json_get(product, STR("attributes"));
    struct str         net = json_text(a, STR("networkPerformance")), upto = STR("Up to ");
    if (!is_wanted(o, product)) return STATUS_OK;
    f64           gpus  = leading_number(json_text(a, STR("gpu")), o->scratch);
    struct offer *offer = offers_get(o, json_text(a, STR("instanceType")), STR(""),
                                     gpus >= 1 && gpus <= 1024 ? (i32)gpus : 0);
    if (!offer) return STATUS_OK;
    if (skus->count == SKUS_MAX)
        return err_set(o->err, STATUS_USAGE,
                       "%.*s has more than %d machines; import one region's file", STR_ARG(o->path),
                       SKUS_MAX);
    struct machine *m = &offer->machine;
    m->vcpus          = leading_number(json_text(a, STR("vcpu")), o->scratch);
    m->ram_gib        = leading_number(json_text(a, STR("memory")), o->scratch);
    m->disk_gb        = disk_gb(json_text(a, STR("storage")), o->scratch);
    m->net_gbit_s =
        leading_number(str_sub(net, str_starts(net, upto) ? upto.len : 0, net.len), o->scratch);
    if (str_starts(net, upto)) table_assume(&table_machines, m, &m->net_gbit_s);
    skus->sku[skus->count++] = (struct sku){ str_hash(sku), sku, offer };
    return STATUS_OK;
}

static struct offer *find_sku(const struct skus *s, struct str name)
{
    u64 key = str_hash(name);
    for (i64 i = 0; i < s->count; i++)
        if (s->sku[i].key == key && str_eq(s->sku[i].name, name)) return s->sku[i].offer;
    return NULL;
}

/* The price by the hour of one term: its dimension with the unit Hrs. */
static f64 term_usd_h(const struct json *term)
{
    const struct json *d = json_get(term, STR("priceDimensions"));
    f64                usd;
    for (d = d ? d->first : NULL; d; d = d->next) {
        struct str text = json_text(json_get(d, STR("pricePerUnit")), STR("USD"));
        if (str_eq(json_text(d, STR("unit")), STR("Hrs")) && str_f64(text, &usd)) return usd;
    }
    return NAN;
}

static void add_terms(struct offer *offer, const struct json *terms, bool reserved)
{
    for (const struct json *t = terms->first; t; t = t->next) {
        const struct json *a     = json_get(t, STR("termAttributes"));
        struct str         lease = json_text(a, STR("LeaseContractLength"));
        f64                usd_h = term_usd_h(t);
        if (!reserved) {
            offer_price(offer, PRICE_ON_DEMAND, usd_h);
            continue;
        }
        if (!str_eq(json_text(a, STR("PurchaseOption")), STR("No Upfront"))) continue;
        if (!str_eq(json_text(a, STR("OfferingClass")), STR("standard"))) continue;
        if (str_eq(lease, STR("1yr"))) offer_price(offer, PRICE_RESERVED_1Y, usd_h);
        if (str_eq(lease, STR("3yr"))) offer_price(offer, PRICE_RESERVED_3Y, usd_h);
    }
}

static enum status walk_products(struct offers *o, struct str products, struct err *why)
{
    struct json_walk w;
    struct str       sku, value;
    enum status      st = json_walk_open(&w, products, why);
    while (!st && !(st = json_walk_next(&w, &sku, &value, why))) {
        struct arena whole = o->scratch;
        struct json *product;
        st = json_parse(&o->scratch, value, &product, why);
        if (!st) st = add_product(o, sku, product);
        o->scratch = whole;
    }
    return st == STATUS_NO ? STATUS_OK : st;
}

static enum status walk_terms(struct offers *o, struct str kind, bool reserved, struct err *why)
{
    struct json_walk w;
    struct str       sku, value;
    enum status      st = json_walk_open(&w, kind, why);
    while (!st && !(st = json_walk_next(&w, &sku, &value, why))) {
        struct offer *offer   = find_sku(o->state, sku);
        struct arena  scratch = o->scratch;
        struct json  *terms;
        if (offer) st = json_parse(&scratch, value, &terms, why);
        if (offer && !st) add_terms(offer, terms, reserved);
    }
    return st == STATUS_NO ? STATUS_OK : st;
}

enum status import_aws(struct offers *o, struct str text)
{
    struct skus *skus = NEW(o->perm, struct skus, 1);
    struct str   products, terms, kind, date;
    struct err   why = { 0 };
    enum status  st  = json_walk_find(text, STR("products"), &products, &why);
    skus->sku        = NEW(o->perm, struct sku, SKUS_MAX);
    o->state         = skus;
    if (!st && !json_walk_find(text, STR("publicationDate"), &date, &why))
        day_parse(str_sub(date, 1, 11), &o->how.as_of_day);
    if (!st) st = walk_products(o, products, &why);
    if (!st) st = json_walk_find(text, STR("terms"), &terms, &why);
    if (st == STATUS_NO) st = err_set(&why, STATUS_USAGE, "it has no \"products\" and \"terms\"");
    for (i32 reserved = 0; reserved < 2 && !st; reserved++) {
        st = json_walk_find(terms, reserved ? STR("Reserved") : STR("OnDemand"), &kind, &why);
        if (!st) st = walk_terms(o, kind, reserved, &why);
        else if (st == STATUS_NO) st = STATUS_OK; /* none on offer */
    }
    if (why.status) return offers_bad(o, &why);
    return st;
}
