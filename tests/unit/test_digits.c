/* test_digits.c - numbers as people read them: never 1.22e+03 or 2.57e-06. */
#include "base/digits.h"
#include "base/rng.h"
#include "base/text.h"
#include "harness.h"
#include <math.h>

TEST(figures_have_three_digits_and_thousands_have_commas)
{
    static const struct {
        f64         value;
        const char *text;
    } cases[] = { { 0, "0" },
                  { 2.57e-6, "under 0.0001" },
                  { 0.0001, "0.0001" },
                  { 0.012345, "0.0123" },
                  { 12.345, "12.3" },
                  { 999.4, "999" },
                  { 999.5, "1,000" },
                  { 1224, "1,224" },
                  { -1234567, "-1,234,567" },
                  { 999999999999999.0, "999,999,999,999,999" },
                  { 1e15, "1e+15" },
                  { INFINITY, "inf" },
                  { -INFINITY, "-inf" } };
    for (i64 i = 0; i < COUNT_OF(cases); i++)
        CHECK_STR(str_of(DIGITS(cases[i].value)), cases[i].text);
    CHECK(strstr(DIGITS(NAN), "nan"));
}
