/* bill.c - prices by kind, what reserving asks for, and how seconds and bytes become dollars. */
#include "plan/catalogue.h"
#include <math.h>

static const f64 hour_s     = 3600;
static const f64 month_days = 365.0 / 12; /* storage is sold by the month, billed by the hour */
static const f64 gb_bytes   = 1e9;

const char *price_name(enum price p)
{
    static const char *const names[] = {
#define PRICE(id, field, text) text,
        PRICES(PRICE)
#undef PRICE
    };
    return names[p];
}

f64 machine_usd_h(const struct machine *m, enum price p)
{
    switch (p) {
#define PRICE(id, field, text)                                                                     \
    case PRICE_##id: return m->field##_usd_h;
        PRICES(PRICE)
#undef PRICE
    case PRICE_COUNT: break;
    }
    return NAN;
}

f64 reserved_break_even(const struct machine *m, enum price reserved)
{
    return machine_usd_h(m, reserved) / m->on_demand_usd_h;
}

f64 spot_discount(const struct machine *m) { return 1 - m->spot_usd_h / m->on_demand_usd_h; }

static i64 whole_s(f64 seconds) { return isnan(seconds) ? 0 : (i64)seconds; }

struct billing_rule billing_rule_of(const struct billing *b)
{
    return (struct billing_rule){ whole_s(b->granularity_s), whole_s(b->minimum_s),
                                  whole_s(b->free_interrupted_s) };
}

f64 billed_seconds(const struct billing *rule, f64 up_s, bool interrupted)
{
    if (isnan(up_s)) return NAN;
    return (f64)bill_billed_ns(billing_rule_of(rule), llround(1e9 * up_s), interrupted) / 1e9;
}

f64 billed_dollars(const struct billing *rule, f64 usd_h, f64 up_s, bool interrupted)
{
    return usd_h / hour_s * billed_seconds(rule, up_s, interrupted);
}

f64 storage_dollars(const struct storage *s, f64 bytes, f64 days)
{
    return bytes / gb_bytes * s->gb_month_usd * (MAX(days, s->minimum_days) / month_days);
}
