/* date.c - moments from text and back. The calendar is Gregorian and knows no leap seconds. */
#include "base/date.h"

/* Days since 1970-01-01; years begin in March, so that the odd day ends one. */
static i64 days_of(i64 year, i64 month, i64 day)
{
    i64 y = month > 2 ? year : year - 1, m = (month + 9) % 12;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static bool is_leap(i64 year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

struct moment {
    i64 year, month, day, hour, minute, second;
};

/* `pattern` is the text with a letter for each digit (YMDhms), and anything else as itself. */
static bool read_digits(struct str s, const char *pattern, struct moment *m)
{
    struct str p = str_of(pattern);
    if (s.len < p.len) return false;
    for (i64 i = 0; i < p.len; i++) {
        i64 *of = p.data[i] == 'Y'   ? &m->year
                  : p.data[i] == 'M' ? &m->month
                  : p.data[i] == 'D' ? &m->day
                  : p.data[i] == 'h' ? &m->hour
                  : p.data[i] == 'm' ? &m->minute
                  : p.data[i] == 's' ? &m->second
                                     : NULL;
        if (!of && s.data[i] != p.data[i]) return false;
        if (of && (s.data[i] < '0' || s.data[i] > '9')) return false;
        if (of) *of = *of * 10 + (s.data[i] - '0');
    }
    return true;
}

static bool seconds_of(const struct moment *m, i64 *unix_s)
{
    static const i64 days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    if (m->month < 1 || m->month > 12 || m->day < 1) return false;
    if (m->day > days[m->month - 1] + (m->month == 2 && is_leap(m->year))) return false;
    if (m->hour > 23 || m->minute > 59 || m->second > 60) return false;
    *unix_s =
        ((days_of(m->year, m->month, m->day) * 24 + m->hour) * 60 + m->minute) * 60 + m->second;
    return true;
}

bool date_iso(struct str s, i64 *unix_s)
{
    struct moment m = { 0 };
    if (!read_digits(s, "YYYY-MM-DDThh:mm:ss", &m)) return false;
    s = str_sub(s, 19, s.len);
    if (str_starts(s, STR("."))) {
        i64 end = 1;
        while (end < s.len && s.data[end] >= '0' && s.data[end] <= '9') end++;
        if (end == 1) return false;
        s = str_sub(s, end, s.len);
    }
    return str_eq(s, STR("Z")) && seconds_of(&m, unix_s);
}

bool date_http(struct str s, i64 *unix_s)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct moment     m        = { 0 };
    i64               comma    = str_find(s, ',');
    if (comma != 3) return false;
    s = str_sub(s, 4, s.len);
    if (s.len != 25 || !read_digits(s, " DD ", &m) || !str_ends(s, STR(" GMT"))) return false;
    for (i64 i = 0; i < 12; i++)
        if (str_eq(str_sub(s, 4, 7), (struct str){ months + 3 * i, 3 })) m.month = i + 1;
    return read_digits(str_sub(s, 7, s.len), " YYYY hh:mm:ss", &m) && seconds_of(&m, unix_s);
}

struct str date_text(struct arena *perm, i64 unix_s)
{
    i64 days = unix_s / 86400 - (unix_s % 86400 < 0), s = unix_s - days * 86400;
    i64 year = 1970 + days / 366; /* at or before the right one */
    while (days_of(year + 1, 1, 1) <= days) year++;
    while (days_of(year, 1, 1) > days) year--;
    i64 month = 12;
    while (days_of(year, month, 1) > days) month--;
    return str_fmt(perm, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lldZ", (long long)year,
                   (long long)month, (long long)(days - days_of(year, month, 1) + 1),
                   (long long)(s / 3600), (long long)(s / 60 % 60), (long long)(s % 60));
}
