/* quantity.c - thousands apart, seconds by a clock, dollars. */
#include "base/quantity.h"
#include <math.h>
#include <stdio.h>

struct str text_count(struct arena *perm, f64 value)
{
    char           digits[40];
    struct textbuf b = textbuf_new(perm);
    int            len;
    if (!isfinite(value) || fabs(value) >= 1e15) return str_fmt(perm, "%g", value);
    len = snprintf(digits, sizeof digits, "%.0f", fabs(value));
    if (value < 0) textbuf_fmt(&b, "-");
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) textbuf_fmt(&b, ",");
        textbuf_fmt(&b, "%c", digits[i]);
    }
    return textbuf_str(&b);
}

struct str text_clock(struct arena *perm, f64 seconds)
{
    if (!(seconds >= 0) || seconds > 1e9) return STR("-");
    long long s = (long long)(seconds + 0.5);
    if (s < 3600) return str_fmt(perm, "%lld:%02lld", s / 60, s % 60);
    return str_fmt(perm, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

struct str text_dollars(struct arena *perm, f64 dollars)
{
    if (isnan(dollars)) return STR("price unknown");
    if (dollars > 0 && dollars < 0.0001) return STR("under $0.0001");
    return str_fmt(perm, dollars < 1 ? "$%.4f" : "$%.2f", dollars);
}
