/* report.h - runs as a bill shows them: dollars by part, per unit of work, to the target; and what
 * made one run cheaper than another. Plain figures, which `frugal runs` and `frugal report` print. */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H
#include "run/bill.h"
#include "run/hazard.h"

/* What a run's dollars went into: its terms of time, and what was kept of it. */
enum { BILL_STORAGE = TERM_COUNT, BILL_REQUESTS, BILL_PARTS };
const char *bill_part_name(i64 part);

enum run_state { RUN_ENDED, RUN_RUNS, RUN_KILLED };

struct run_bill {
    struct run_row      row;
    struct segment_row *segments; /* in the order of time */
    i64                 segment_count, interruptions;
    enum run_state      state;
    i64                 uncertain_ns; /* of killed segments: they may have lived so much longer */
    i64                 term_ns[TERM_COUNT], metered_ns;
    i64                 own_ns; /* of metered_ns, what is left after sharing machines with others */
    bool                priced; /* every segment's price is known; else no dollars are */
    i64 nusd, part_nusd[BILL_PARTS]; /* nano-dollars; the parts sum to the whole. What the run's own
                                                        last line said (bill.h): as if alone on its machines, with
                                                        storage while its starts lived */
    i64 rule_nusd; /* of it, what the provider's billing minimum and rounding added to the time used; below 0:
                                                        what its free time took off */
    i64 shared_nusd;    /* of it, what others that used the machine at the same time pay */
    i64 since_nusd;     /* beside it: storage while no start of the run lived, until now */
    bool storage_known; /* false: something is kept or asked for whose price is not known */
    f64  usd_hour;      /* of the machine, mean over the run; NaN: not known */
    i64  steps, work;   /* done; samples or tokens that count, as row.unit says */
    f64  loss, value;
    bool reached;                    /* the target */
    i64  target_nusd;                /* until then */
    f64  predicted_s, predicted_usd; /* NaN: nobody predicted it */
};

/* The last segment of several ranks that has ended; NULL: there is none. */
const struct segment_row *report_ranks(const struct run_bill *b);

/* All runs of a ledger, oldest first. */
enum status report_read(struct ledger *l, i64 now_wall_ns, struct arena *perm,
                        struct run_bill **bills, i64 *count, struct err *err);

/* 12 hexadecimal digits for settings that make a run take what it takes: those of two runs are
 * alike where only price, place or name differ. `settings` as in run_row. */
struct str report_settings_key(struct str settings, struct arena *perm);

/* The lives of spot machines, as far as segments on them tell: those of runs with that run.machine
 * (empty: all). One that was taken away, or never heard of again after a segment was killed, has
 * died. */
enum status report_lifetimes(struct ledger *l, struct str machine, i64 now_wall_ns,
                             struct arena *perm, struct lifetime **lives, i64 *count,
                             struct err *err);

/* Why b costs another sum than a: from a's bill to b's by one change after the other,
 *     nusd = price x (work x pace + the rest) + the provider's billing minimum and rounding
 * so that the five sum to the difference. */
enum cause { CAUSE_WORK, CAUSE_PACE, CAUSE_REST, CAUSE_PRICE, CAUSE_RULE, CAUSE_COUNT };
const char *cause_name(enum cause c, i64 nusd); /* "less work" or "more work", by its sign */
/* False: one of them has no price. */
bool report_causes(const struct run_bill *a, const struct run_bill *b, i64 nusd[CAUSE_COUNT]);

/* The strictest target that any of the runs had, if all of them ended at least that good, by the same metric; NaN: they
 * did not reach the same, and what they cost cannot be compared. */
f64 report_common_target(struct run_bill *const *runs, i64 count);

/* Settings of b that a has not, "train.precision=bf16, …"; with a's own where b left them at the
 * default. Empty: none. */
struct str report_changes(const struct run_bill *a, const struct run_bill *b, struct arena *perm);

/* Runs a month: as the run file says or, from the ledger, of that name over its last 90 days; NaN
 * where it knows less than 28 of them. *counted says which. */
f64 report_runs_per_month(const struct run_bill *bills, i64 count, const struct run_bill *of,
                          i64 now_wall_ns, bool *counted);

#endif
