/* bills.h - the ledger as `frugal runs` and `frugal report` see it, and how bills are written. */
#ifndef CLI_BILLS_H
#define CLI_BILLS_H
#include "cli/commands.h"
#include "run/comparison.h"

struct bills {
    struct ledger   *ledger;
    struct arena     memory; /* of all that was read */
    i64              now_wall_ns;
    struct run_bill *items; /* oldest first */
    i64              count;
};

/* The ledger that --ledger, FRUGAL_RUN_LEDGER or the default names. */
struct str  bills_path(struct cli *c);
enum status bills_open(struct bills *b, struct cli *c, struct err *err);
enum status bills_read(struct bills *b, struct err *err); /* items, as they are now */
void        bills_close(struct bills *b);

/* Money in whole units of 10^-decimals dollars: as many as show the larger of the sums well, the
 * same for all of a column, so that what is printed sums as what was billed does. */
i64        money_decimals(i64 nusd);
i64        money_units(i64 nusd, i64 decimals);                     /* rounded */
struct str money_text(struct arena *perm, i64 units, i64 decimals); /* "$1,234.50", "-$0.02" */
struct str money(struct arena *perm, i64 nusd);                     /* by itself */

struct str  when_text(struct arena *perm, i64 wall_ns); /* 2026-11-15 10:03 */
struct str  span_text(struct arena *perm, i64 ns);      /* 0.87 s, 12:05 */
const char *state_text(const struct run_bill *b);       /* "end", "runs", "killed" */

#endif
