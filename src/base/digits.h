/* digits.h - numbers for people: three digits, and no exponent below 1e15. */
#ifndef BASE_DIGITS_H
#define BASE_DIGITS_H
#include "base/types.h"

struct digits {
    char text[40];
};
struct digits digits_of(f64 value); /* under 0.0001, 0.0123, 12.3, 1,234, 1e+15 */

/* As an argument of %s; it lives until the end of the expression. */
#define DIGITS(value) (digits_of(value).text)

#endif
