/* risk.h - what a run takes on machines that may be taken away.
 *
 * A machine boots, works, saves now and then, and dies; the next one begins at the last save. From
 * the law of their lives follow the expected seconds and the bill exactly, for short runs as for long
 * ones; the chance of meeting a deadline comes from playing the run many times. Seconds of work are
 * those that an undisturbed, already warm machine would need. */
#ifndef PLAN_RISK_H
#define PLAN_RISK_H
#include "base/arena.h"
#include "run/hazard.h"

/* P(alive at an age): a law, or what was seen as far as it was seen and the law beyond. */
struct survival {
    struct hazard law;
    i64           count;   /* of ages at which somebody died; 0: the law alone */
    const f64    *age_s;   /* rising */
    const f64    *alive;   /* after that age */
    const f64    *lived_s; /* expected life until that age at most */
};
struct survival survival_of_law(struct hazard law);
/* Kaplan and Meier's estimate; the law beyond it is fitted on the same lives. */
struct survival survival_of_lives(struct arena *perm, const struct lifetime *lives, i64 count);
f64             survival_at(const struct survival *s, f64 age_s);
f64             survival_lived_s(const struct survival *s, f64 age_s); /* its integral */
f64             survival_age_s(const struct survival *s, f64 alive);   /* its inverse */

struct risk_job {
    f64 work_s;
    f64 start_s; /* boot, load and warm-up of each machine: billed */
    f64 wait_s;  /* mean, after an interruption until there is a machine again: not billed */
    struct save_costs save;
    f64               interval_s; /* of work between saves; 0: as the hazard asks for */
    f64               free_s;     /* a machine taken away before this age costs nothing */
};

struct risk_outcome { /* expected */
    f64 up_s;         /* of machines, from boot to end or interruption */
    f64 billed_s;     /* without those that cost nothing */
    f64 wall_s;       /* with waiting */
    f64 interruptions;
    f64 interval_s; /* between saves, mean */
};
struct risk_outcome risk_expect(const struct risk_job *job, const struct survival *s,
                                struct arena scratch);

/* Of all fixed intervals the one with the least expected up_s; how long undisturbed machines
 * work at most is its limit. */
f64 risk_best_interval_s(const struct risk_job *job, const struct survival *s,
                         struct arena scratch);

/* From which part off the on-demand price a spot machine is the cheaper one. */
f64 risk_break_even(const struct risk_outcome *spot, const struct risk_outcome *on_demand);

struct risk_odds {
    f64 in_time;          /* part of the runs that met the deadline */
    f64 wall_s, wall95_s; /* mean, and what 95 of 100 stayed below */
};
/* Runs are given up at four times the deadline, which the mean then counts. */
struct risk_odds risk_play(const struct risk_job *job, const struct survival *s, f64 deadline_s,
                           i64 runs, u64 seed, struct arena scratch);

/* Spot where there is any, on-demand while behind the straight line to the deadline and when there is
 * just time to finish on it: Uniform Progress (Wu et al., "Can't Be Late", NSDI '24). */
struct risk_mixed {
    f64 in_time;
    f64 spot_s, on_demand_s; /* billed, means over runs */
};
struct risk_mixed risk_play_mixed(const struct risk_job *job, const struct survival *s,
                                  f64 deadline_s, i64 runs, u64 seed, struct arena scratch);

#endif
