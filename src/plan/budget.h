/* budget.h - what a budget of FLOPs, hours or dollars comes to, for scaling laws. `frugal scale` asks it. */
#ifndef PLAN_BUDGET_H
#define PLAN_BUDGET_H
#include "plan/catalogue.h"
#include "plan/scaling.h"

/* What the user said. */
struct budget_request {
    struct str text;    /* 1e21, 100h or $5000 */
    struct str machine; /* that hours and dollars are spent on; empty: none was named */
    struct str prices;  /* a file over the catalogue's rows; empty: the user's own */
    f64        mfu;     /* the part of its peak that it reaches; NaN: the usual one */
    bool       spot;
};

struct budget {
    f64                   flops;
    const struct machine *machine; /* NULL: FLOPs were given, and what follows is not known */
    f64                   hours, usd_h, mfu;
};

/* USAGE: it is no budget, or too small a one for a law. NO: the machine has no such price. */
enum status budget_read(struct os *os, const struct budget_request *r, struct arena *perm,
                        struct budget *out, struct err *err);
/* A law says nothing of budgets far below those of its runs: 5000 was meant as dollars or hours. */
enum status budget_check(const struct budget_request *r, const struct budget *b, struct err *err);

/* A law fitted to the runs of a file, with 95 % by bootstrap; `count`: of the runs. */
enum status law_read(struct os *os, struct str path, struct arena *perm, struct fitted_law *out,
                     i64 *count, struct err *err);

#endif
