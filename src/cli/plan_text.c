/* plan_text.c - a plan's quantities as people read them: enough digits to compute with, thousands apart, long
 * times in days, and in years where a table is narrow. */
#include "cli/plan_show.h"
#include <math.h>

static const f64 days_from_h = 48, year_h = 365.25 * 24, years_from_h = 10000 * 24.0,
                 whole_from_usd = 10000, whole_short = 100, million = 1e6, billion = 1e9;

/* 1,234.56: the whole part by thousands, then so many decimals. */
static struct str apart(struct arena *perm, f64 value, int decimals)
{
    struct arena scratch = arena_part(perm, 1 << 10);
    struct str   digits  = str_fmt(&scratch, "%.*f", decimals, value);
    i64          dot     = str_find(digits, '.');
    struct str   whole   = str_sub(digits, 0, dot < 0 ? digits.len : dot);
    f64          units;
    if (!isfinite(value) || !str_f64(whole, &units)) return str_copy(perm, digits);
    return str_cat(perm, text_count(&scratch, units), str_sub(digits, whole.len, digits.len));
}

struct str plan_dollars(struct arena *perm, f64 usd)
{
    if (isnan(usd)) return STR("-");
    if (usd == 0) return STR("$0");
    if (usd > 0 && usd < 0.0001) return STR("<$0.0001");
    return str_cat(perm, STR("$"), apart(perm, usd, usd >= whole_from_usd ? 0 : usd < 1 ? 4 : 2));
}

/* Four digits or a whole number: 1,235, 1.235M, 12.35M, 1.235B. */
static struct str few_digits(struct arena *perm, f64 value)
{
    f64 unit = value < billion ? million : billion;
    if (!(value >= million)) return apart(perm, value, 0);
    int decimals = value < 10 * unit ? 3 : value < 100 * unit ? 2 : 1;
    return str_fmt(perm, "%.*f%s", decimals, value / unit, value < billion ? "M" : "B");
}

struct str plan_dollars_short(struct arena *perm, f64 usd)
{
    if (isnan(usd) || usd < whole_short) return plan_dollars(perm, usd);
    return str_cat(perm, STR("$"), few_digits(perm, usd));
}

/* As the catalogue has it: cents, or up to four decimals. */
struct str plan_usd_hour(struct arena *perm, f64 usd_h)
{
    struct arena scratch = arena_part(perm, 1 << 10);
    bool         cents   = str_ends(str_fmt(&scratch, "%.4f", usd_h), STR("00"));
    if (usd_h > 0 && usd_h < 0.00005) return str_fmt(perm, "$%.2g", usd_h);
    return str_cat(perm, STR("$"), apart(perm, usd_h, cents ? 2 : 4));
}

/* Four digits at least, so that they multiply to the dollars. */
struct str plan_usd_hour_short(struct arena *perm, f64 usd_h)
{
    if (usd_h < whole_short) return plan_usd_hour(perm, usd_h);
    return usd_h < 1000 ? str_fmt(perm, "$%.1f", usd_h) : plan_dollars_short(perm, usd_h);
}

struct str plan_billed(struct arena *perm, f64 hours)
{
    return apart(perm, hours, hours < 10 ? 4 : hours < 1000 ? 2 : 1);
}

struct str plan_billed_short(struct arena *perm, f64 hours)
{
    if (hours < whole_short) return plan_billed(perm, hours);
    return hours < 1000 ? str_fmt(perm, "%.1f", hours) : few_digits(perm, hours);
}

struct str plan_time(struct arena *perm, f64 hours)
{
    if (hours < 1) return str_fmt(perm, "%.1f min", hours * 60);
    if (hours < days_from_h) return str_fmt(perm, "%.1f h", hours);
    return str_cat(perm, apart(perm, hours / 24, hours < 100 * 24 ? 1 : 0), STR(" days"));
}

struct str plan_time_short(struct arena *perm, f64 hours)
{
    if (hours >= years_from_h) return str_cat(perm, apart(perm, hours / year_h, 0), STR(" y"));
    struct str time = plan_time(perm, hours);
    return str_ends(time, STR(" days")) ? str_sub(time, 0, time.len - 3) : time;
}

struct str plan_parameters(struct arena *perm, f64 count)
{
    static const char *const prefix[] = { "", " k", " M", " G", " T" };
    i64                      i        = 0;
    while (count >= 999.5 && i + 1 < COUNT_OF(prefix)) {
        count /= 1000;
        i++;
    }
    return str_fmt(perm, "%.*f%s", i == 0 ? 0 : count >= 9.995 ? 1 : 2, count, prefix[i]);
}

struct str plan_ms(struct arena *perm, f64 seconds)
{
    return str_fmt(perm, seconds < 10 ? "%.4g" : "%.0f", seconds * 1e3);
}
