/* report_show.h - what `frugal report` shows: one run's bill, the way from one bill to a smaller
 * one, and the picture of that way. */
#ifndef CLI_REPORT_SHOW_H
#define CLI_REPORT_SHOW_H
#include "cli/bills.h"

enum { LEVERS_MAX = 64 };

struct lever {
    struct str what; /* "train.precision=bf16", or "faster steps" */
    i64        nusd; /* what it adds to a run's bill; below 0: it saves */
};

/* From the first run's bill to the last one's, a run or a cause at a time; the levers sum to the
 * difference. */
struct comparison {
    struct run_bill *const *runs;
    i64                     run_count;
    struct lever            levers[LEVERS_MAX];
    i64                     lever_count;
    f64                     runs_per_month; /* NaN: not known */
    bool                    counted;        /* in the ledger; else the run file says so */
    f64                     target;         /* that all runs have reached; NaN: none */
};

/* NO: a price is not known, so there is nothing to compare. */
enum status comparison_make(struct comparison *c, struct run_bill *const *runs, i64 count,
                            const struct bills *all, struct arena *perm, struct err *err);
i64         comparison_decimals(const struct comparison *c); /* of all its sums, wherever shown */
struct str  comparison_title(const struct comparison *c, struct arena *perm);
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
