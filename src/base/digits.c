/* digits.c - a number of three digits, "under 0.0001", or all of its whole ones with a comma between thousands. */
#include "base/digits.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct digits digits_of(f64 value)
{
    struct digits d = { { 0 } };
    if (value > 0 && value < 1e-4) {
        (void)snprintf(d.text, sizeof d.text, "under 0.0001");
        return d;
    }
    if (!(fabs(value) >= 999.5) || fabs(value) >= 1e15) {
        (void)snprintf(d.text, sizeof d.text, "%.3g", value);
        return d;
    }
    char digits[24];
    int  len = snprintf(digits, sizeof digits, "%.0f", fabs(value)), at = 0;
    if (value < 0) d.text[at++] = '-';
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) d.text[at++] = ',';
        d.text[at++] = digits[i];
    }
    return d;
}
