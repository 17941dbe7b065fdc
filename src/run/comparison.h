/* comparison.h - several runs' bills held against each other: what made one cheaper than another, and what groups of
 * runs cost; which run a word means. `frugal report` and `frugal runs` print them. */
#ifndef RUN_COMPARISON_H
#define RUN_COMPARISON_H
#include "run/report.h"

/* The run that a word means: by the beginning of its id or, the newest, by its name. */
enum status report_find(struct run_bill *bills, i64 count, struct str word, struct run_bill **out,
                        struct err *err);

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

/* `all`: of the ledger, which says how often they run. NO: a price is not known, so there is nothing to compare. */
enum status comparison_make(struct comparison *c, struct run_bill *const *runs, i64 count,
                            const struct run_bill *all, i64 all_count, i64 now_wall_ns,
                            struct arena *perm, struct err *err);

/* Runs of one month, or with one tag. A shared machine is paid once. */
struct run_group {
    struct str key; /* "2026-11"; "(none)": runs without a tag */
    i64        runs, unpriced, metered_ns, nusd;
};
enum run_group_by { GROUP_BY_MONTH, GROUP_BY_TAG };
enum { RUN_GROUPS_MAX = 4096 }; /* those beyond are "(more)" */

/* A run with two tags is in both groups. In the order of their first runs. */
i64 report_groups(const struct run_bill *bills, i64 count, enum run_group_by by,
                  struct run_group **out, struct arena *perm);

/* Dollars a million samples or tokens, in nano-dollars; -1: not known. */
i64 bill_per_million(const struct run_bill *b);
/* What of the money made the model better, in percent: compute and evaluation. */
f64 bill_useful_percent(const struct run_bill *b);

#endif
