/* price.c - the catalogue's prices by kind, and as run/bill.h wants them. */
#include "plan/catalogue.h"
#include <math.h>

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

bool machine_has_price(const struct machine *m)
{
    for (i32 p = 0; p < PRICE_COUNT; p++)
        if (!isnan(machine_usd_h(m, (enum price)p))) return true;
    return false;
}

struct price_origin price_origin(const struct machine *m, enum price p)
{
    if (!isnan(machine_usd_h(m, p))) return m->origin[p];
    return (struct price_origin){ .as_of_day = DAY_UNKNOWN };
}

f64 price_age_days(const struct machine *m, enum price p, i32 today)
{
    i32 day = price_origin(m, p).as_of_day;
    return day == DAY_UNKNOWN ? NAN : (f64)today - day;
}

bool day_is_old(i32 day, i32 today) { return day == DAY_UNKNOWN || today - day > PRICE_OLD_DAYS; }

bool price_is_old(const struct machine *m, enum price p, i32 today)
{
    return !(price_age_days(m, p, today) <= PRICE_OLD_DAYS);
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

/* Half of what an i64 holds as ns, 146 years: beyond it no provider's unit, minimum or gift shows. */
static const f64 counted_s = 0x1p62 / 1e9;

f64 billed_seconds(const struct billing *rule, f64 up_s, bool interrupted)
{
    if (isnan(up_s) || up_s >= counted_s) return up_s;
    return (f64)bill_billed_ns(billing_rule_of(rule), llround(1e9 * up_s), interrupted) / 1e9;
}

f64 billed_dollars(const struct billing *rule, f64 usd_h, f64 up_s, bool interrupted)
{
    return bill_estimate_usd(usd_h, billed_seconds(rule, up_s, interrupted));
}

struct store_price store_price_of(const struct storage *s)
{
    return (struct store_price){ .put_1000_usd    = s->put_1000_usd,
                                 .get_1000_usd    = s->get_1000_usd,
                                 .retrieve_gb_usd = s->retrieve_gb_usd,
                                 .egress_gb_usd   = s->egress_internet_gb_usd,
                                 .gb_month_usd    = s->gb_month_usd,
                                 .minimum_days    = s->minimum_days };
}
