/* report_show.h - what `frugal report` shows: one run's bill, the way from one bill to a smaller
 * one, and the picture of that way. */
#ifndef CLI_REPORT_SHOW_H
#define CLI_REPORT_SHOW_H
#include "cli/bills.h"

i64        comparison_decimals(const struct comparison *c); /* of all its sums, wherever shown */
struct str comparison_title(const struct comparison *c, struct arena *perm);
/* "12 runs a month: $4.94 -> $0.96, $47.76 less a year"; empty: the rate is not known. */
struct str comparison_rate(const struct comparison *c, struct arena *perm);

void report_show_run(struct say *s, const struct bills *all, const struct run_bill *b,
                     struct arena scratch);
void report_show_comparison(struct say *s, const struct comparison *c, struct arena scratch);

/* A bar a lever, before first and after last. */
struct str picture_text(const struct comparison *c, i64 columns, struct arena *perm,
                        struct arena scratch);
struct str picture_svg(const struct comparison *c, struct arena *perm, struct arena scratch);

#endif
