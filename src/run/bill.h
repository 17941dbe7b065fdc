/* bill.h - from seconds to dollars: billing rules, shares of a machine, and parts that sum exactly.
 *
 * Dollars are whole nano-dollars here (a second at $0.01 an hour is 2,778 of them), so that sums
 * are exact in any order; they are rounded for people only when printed. */
#ifndef RUN_BILL_H
#define RUN_BILL_H
#include "run/ledger.h"

/* How a provider turns the time that a machine was up into time on the bill. */
struct billing_rule {
    i64 granularity_s; /* in whole ones of it; 0: to the nanosecond */
    i64 minimum_s;     /* at least */
    i64 free_s;        /* nothing for a machine that its provider took back before that */
};
i64 bill_billed_ns(struct billing_rule rule, i64 up_ns, bool taken); /* 0 for one never up */

/* What a machine costs that was up so long; `taken`: its provider took it back. -1: price unknown. */
i64 bill_nusd(const struct price_row *price, i64 up_ns, bool taken);

/* Parts of `total` as the weights are to one another (all 0: everything to the first): each is off
 * by less than 1, and they sum to `total` exactly. total >= 0, weights >= 0, count >= 1. */
void bill_split(i64 total, const i64 *weights, i64 count, i64 *parts, struct arena scratch);

/* How much of its machine each segment pays for, in nanoseconds: while several run on one machine
 * (the same boot), each pays by the GPUs it holds; where none holds any, all alike. The segment's
 * whole time goes to `own_ns` where nothing ran beside it. */
void bill_shares(const struct segment_row *segments, i64 count, i64 *own_ns, struct arena scratch);

#endif
