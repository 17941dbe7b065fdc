/* day.c - dates as days since 1970. */
#include "base/date.h"
#include "plan/catalogue.h"

enum { DAY_S = 86400 };

bool day_parse(struct str s, i32 *day)
{
    char         lent[32];
    struct arena scratch = { (u8 *)lent, (u8 *)lent + sizeof lent, NULL };
    i64          unix_s;
    if (s.len != 10 || !date_iso(str_cat(&scratch, s, STR("T00:00:00Z")), &unix_s)) return false;
    *day = (i32)(unix_s / DAY_S);
    return true;
}

struct str day_text(struct arena *perm, i32 day)
{
    return str_sub(date_text(perm, (i64)day * DAY_S), 0, 10);
}

struct str day_or_none(struct arena *perm, i32 day)
{
    return day == DAY_UNKNOWN ? STR("no date") : day_text(perm, day);
}

i32 day_today(struct os *os)
{
    i32 given;
    if (day_parse(os->env(os, "FRUGAL_TODAY"), &given)) return given;
    return (i32)(os->wall_ns(os) / 1000000000 / DAY_S);
}
