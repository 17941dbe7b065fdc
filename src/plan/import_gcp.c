/* import_gcp.c - Compute Engine's SKUs: {"skus": [...]}. What is sold is a vCPU, a GiB of memory or
 * a GPU of a series for an hour; a machine's price is the sum of its parts. Local disks are priced
 * apart and not counted; commitments are not read. */
#include "plan/import_int.h"
#include <math.h>

enum resource { CORE, RAM, GPU, RESOURCE_COUNT };

static const struct series {
    struct str machines;             /* pattern */
    struct str part[RESOURCE_COUNT]; /* how the descriptions of its SKUs begin; empty: has none */
} series[] = {
#define GCP_PART(pattern, name, gpu)                                                               \
    { STR_INIT(pattern), { STR_INIT(name " Core "), STR_INIT(name " Ram "), STR_INIT(gpu) } },
#include "plan/families.def"
#undef GCP_PART
};

struct part_usd_h {
    f64 on_demand, spot; /* of one; NaN until its SKU came by */
};

/* Units of a dollar as text, and billionths. NaN: in another currency, or by tiers. */
static f64 sku_usd(const struct json *sku)
{
    const struct json *info = json_get(sku, STR("pricingInfo")), *rates, *price;
    i64                units, nanos;
    if (!info || !info->first) return NAN;
    rates = json_get(json_get(info->first, STR("pricingExpression")), STR("tieredRates"));
    if (!rates || rates->count != 1) return NAN;
    price = json_get(rates->first, STR("unitPrice"));
    if (!str_eq(json_text(price, STR("currencyCode")), STR("USD"))) return NAN;
    if (!str_i64(json_text(price, STR("units")), &units)) units = 0;
    if (!json_i64(json_get(price, STR("nanos")), &nanos)) nanos = 0;
    return (f64)units + (f64)nanos * 1e-9;
}

static bool sold_here(const struct offers *o, const struct json *sku)
{
    const struct json *regions = json_get(sku, STR("serviceRegions"));
    for (const struct json *r = regions ? regions->first : NULL; r; r = r->next)
        if (offers_wants(o, r->text)) return true;
    return false;
}

static void add_sku(struct offers *o, const struct json *sku)
{
    struct part_usd_h *found = o->state;
    struct str spot = STR("Spot "), preemptible = STR("Preemptible "); /* older: the second alone */
    struct str what    = json_text(sku, STR("description"));
    struct str usage   = json_text(json_get(sku, STR("category")), STR("usageType"));
    bool       is_spot = str_eq(usage, STR("Preemptible"));
    f64        usd     = sku_usd(sku);
    if ((!is_spot && !str_eq(usage, STR("OnDemand"))) || !(usd > 0) || !sold_here(o, sku)) return;
    if (str_starts(what, spot)) what = str_sub(what, spot.len, what.len);
    if (str_starts(what, preemptible)) what = str_sub(what, preemptible.len, what.len);
    for (i64 i = 0; i < COUNT_OF(series) * RESOURCE_COUNT; i++) {
        struct str begin = series[i / RESOURCE_COUNT].part[i % RESOURCE_COUNT];
        if (!begin.len || !str_starts(what, begin)) continue;
        f64 *to = is_spot ? &found[i].spot : &found[i].on_demand;
        *to     = fmin(*to, usd); /* of several regions the cheapest */
    }
}

enum status import_gcp(struct offers *o, struct str text)
{
    const struct catalogue *c = o->catalogue;
    struct part_usd_h *found  = NEW(o->perm, struct part_usd_h, COUNT_OF(series) * RESOURCE_COUNT);
    for (i64 i = 0; i < COUNT_OF(series) * RESOURCE_COUNT; i++)
        found[i].on_demand = found[i].spot = NAN;
    o->state       = found;
    enum status st = offers_each(o, text, STR("skus"), add_sku);
    for (i64 i = 0; i < c->machine_count && !st; i++) {
        const struct machine *m = &c->machines[i];
        i64                   s = 0;
        if (!str_eq(m->provider, o->how.provider)) continue;
        while (s < COUNT_OF(series) && !str_glob(series[s].machines, m->name)) s++;
        struct offer *offer = s < COUNT_OF(series) ? offers_get(o, m->name, m->gpu, m->gpus) : NULL;
        if (!offer) continue;
        const struct part_usd_h *p = &found[s * RESOURCE_COUNT];
        f64 on_demand              = m->vcpus * p[CORE].on_demand + m->ram_gib * p[RAM].on_demand;
        f64 spot                   = m->vcpus * p[CORE].spot + m->ram_gib * p[RAM].spot;
        if (m->gpus) {
            on_demand += m->gpus * p[GPU].on_demand;
            spot += m->gpus * p[GPU].spot;
        }
        offer_price(offer, PRICE_ON_DEMAND, on_demand);
        offer_price(offer, PRICE_SPOT, spot);
    }
    return st;
}
