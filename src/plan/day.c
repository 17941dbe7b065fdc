/* day.c - dates as days since 1970, by the proleptic Gregorian calendar. */
#include "plan/catalogue.h"

/* Days from civil and back: Howard Hinnant, "chrono-compatible low-level date algorithms". Years
 * begin in March there, so that the leap day is the last. */
static i32 day_of(i32 year, i32 month, i32 day)
{
    year -= month <= 2;
    i32 era = year / 400, of_era = year % 400; /* year >= 1 */
    i32 of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void civil_of(i32 day, i32 *year, i32 *month, i32 *of_month)
{
    i32 z = day + 719468, era = z / 146097, of_era = z % 146097;
    i32 y       = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    i32 of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;
    *of_month = of_year - (153 * m + 2) / 5 + 1;
    *month    = m < 10 ? m + 3 : m - 9;
    *year     = y + era * 400 + (*month <= 2);
}

static bool digits(struct str s, i64 from, i64 to, i32 *out)
{
    *out = 0;
    for (i64 i = from; i < to; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') return false;
        *out = *out * 10 + (s.data[i] - '0');
    }
    return true;
}

bool day_parse(struct str s, i32 *day)
{
    i32 y, m, d, y2, m2, d2, found;
    if (s.len != 10 || s.data[4] != '-' || s.data[7] != '-') return false;
    if (!digits(s, 0, 4, &y) || !digits(s, 5, 7, &m) || !digits(s, 8, 10, &d)) return false;
    if (y < 1970 || m < 1 || m > 12 || d < 1) return false;
    found = day_of(y, m, d);
    civil_of(found, &y2, &m2, &d2);
    if (d2 != d || m2 != m) return false; /* a 30th of February */
    *day = found;
    return true;
}

struct str day_text(struct arena *perm, i32 day)
{
    i32 y, m, d;
    civil_of(day, &y, &m, &d);
    return str_fmt(perm, "%04d-%02d-%02d", y, m, d);
}

i32 day_today(struct os *os) { return (i32)(os->wall_ns(os) / 1000000000 / 86400); }
