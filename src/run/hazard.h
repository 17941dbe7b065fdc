/* hazard.h - how long a machine lives, and when to save on it.
 *
 * Spot machines die mostly young: over real traces a Weibull law with shape 0.6 to 0.85 fits, so the
 * hazard falls with the machine's age and saves may grow rarer. The trainer asks when the next save
 * is due, the planner what a run will cost; both ask here. Ages are those of the machine (with its
 * boot), not of the process. */
#ifndef RUN_HAZARD_H
#define RUN_HAZARD_H
#include "base/types.h"

struct hazard {  /* P(alive at age t) = exp(-(t / scale_s)^shape) */
    f64 shape;   /* 1: the same at every age (exponential) */
    f64 scale_s; /* INFINITY: it never dies */
};

/* One machine's life as far as it was seen. */
struct lifetime {
    f64  age_s;       /* when it was taken, or when we left it */
    bool interrupted; /* false: it was still alive then */
};

extern const struct hazard hazard_prior;   /* of a spot GPU that nobody has watched yet */
extern const struct hazard hazard_lasting; /* of a machine that no cloud takes away */

struct hazard hazard_of_mean(f64 mean_s, f64 shape);
f64           hazard_mean_s(struct hazard h);
f64           hazard_survival(struct hazard h, f64 age_s); /* P(alive then) */
f64           hazard_lived_s(struct hazard h, f64 age_s);  /* expected life until then at most */
f64 hazard_age_s(struct hazard h, f64 alive); /* at which so many are alive; 0 < alive <= 1 */
/* From lives of one kind of machine in one place; the prior counts as two interruptions. */
struct hazard hazard_fit(const struct lifetime *lives, i64 count);

struct save_costs {
    f64 stall_s;   /* that a save holds the steps up, >= 0 */
    f64 persist_s; /* until it would outlive the machine: saves are never closer than this */
    f64 landing; /* part of interruptions whose notice leaves time for a save, measured; 0: none */
    f64 interval_max_s; /* between two saves; 0: no limit */
};

/* The machine's age at which to save next, if the last save (or the start of work) was at age_s.
 * Saves are spaced so that their stalls cost what the work lost between them does. */
f64 hazard_save_due_s(struct hazard h, const struct save_costs *c, f64 age_s);

#endif
