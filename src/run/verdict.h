/* verdict.h - what binds a run, what is wrong with it, and which settings cure that for how many dollars.
 *
 *     evidence  time by part, stages of the loader, /proc, utilisation, settings
 *        │
 *        ▼      rows of verdict.def: a rule, a limit and where it comes from
 *     verdict   what binds it; problems, each with its fix as KEY=VALUE
 *        │
 *        ▼      an experiment: replayed batches, or a few steps with other settings
 *     confirmed or refuted, and by how much
 *
 * Pure: the trainer collects evidence, `frugal profile` experiments, both tell. */
#ifndef RUN_VERDICT_H
#define RUN_VERDICT_H
#include "run/clock.h"
#include "run/hazard.h"
#include "run/probe.h"
#include "run/usage.h"

struct evidence {
    struct step_split split; /* of the run's time from its first batch on */
    i64               steps;
    f64               flops_part,
        bandwidth_part; /* of what the machine can do, while it computes; NaN: not known */

    f64 read_s, decode_s, augment_s; /* of all the loader's workers; 0: samples are mapped memory */
    i64 workers;                     /* of the loader, of the stage that has the most */
    bool workers_fixed;              /* by the user; else the loader finds their number */
    f64  worker_bytes;               /* that each holds */
    i64  prefetch;                   /* batches made ahead */
    bool remote;                     /* samples come over a network */

    i64        batch, accumulate;
    i64        batch_fits;  /* micro-batch that memory would allow; 0: not known */
    f64        low_speedup; /* products in `low` by those in force; NaN: not known, or in force */
    struct str low;         /* bf16 or fp16 */

    i64  saves;      /* checkpoints taken */
    bool saves_auto; /* when they were due, checkpoint.every=auto has found */
    f64  saving_s; /* that they cost, steps that took longer beside one included; NaN: not known */
    struct hazard hazard;                 /* of the machine */
    i64           eval_count, eval_every; /* steps */
    i64           log_every;              /* steps; 0: by the clock */
    i64           threads; /* that compute on the processor; 0: it is not what computes */

    i32 slowest;   /* of several ranks, at the end of a run: whom the others waited for */
    i64 waited_ns; /* each of them; 0: not known, then `split` says how long this one did */

    struct load  load;  /* of the machine, over the run; seconds 0: not known */
    struct usage usage; /* of what computes */
};

enum bound {
    BOUND_compute,
    BOUND_bandwidth,
#define BOUND(name, at, source) BOUND_##name,
#include "run/verdict.def"
};
const char *bound_name(enum bound b); /* "data", …: "… bound" */

enum problem_kind {
#define PROBLEM(name, bound, at, experiment, source, about) PROBLEM_##name,
#include "run/verdict.def"
    PROBLEMS
};

enum experiment { EXPERIMENT_NONE, EXPERIMENT_REPLAY, EXPERIMENT_SETTING };

struct problem_row {
    const char     *name;
    enum bound      bound;
    f64             at;
    enum experiment experiment;
    const char     *source, *about;
};
extern const struct problem_row problems[PROBLEMS];

struct problem {
    enum problem_kind kind;
    struct str        text;  /* the evidence, in words */
    struct str        fix;   /* KEY=VALUE, or several between blanks */
    struct str        tried; /* the settings of its experiment; empty: it needs none */
    f64               gain;  /* part of the run's time that the fix gives back; NaN: not known */
    f64 predicted; /* part by which a sample shall take less time in the experiment; NaN: not known */
    f64  measured; /* the same as it came; NaN: not tried yet */
    bool confirmed;
};

struct verdict {
    enum bound bound;
    f64        part; /* of the time that it takes; compute and bandwidth: of the machine's best */
    i32        slowest;               /* waiting: for this rank; -1: not known */
    struct problem problem[PROBLEMS]; /* the largest gain first */
    i64            count;
};

struct verdict verdict_of(const struct evidence *e, struct arena *perm);

/* Does its experiment need evaluations and checkpoints, or steps alone? */
bool verdict_tries_whole(enum problem_kind a);
/* Seconds a sample without and with what the experiment changed. It is confirmed if at least half of
 * what was predicted comes, and more than noise; where less than that comes `gain` is less. */
void verdict_confirm(struct problem *a, f64 before_s, f64 after_s);

struct dollars {
    f64 run, year; /* NaN: not known */
};
struct dollars problem_dollars(const struct problem *a, f64 usd_run, f64 runs_per_month);

/* "data bound: 43 % of the time goes into waiting for data". */
struct str verdict_text(const struct verdict *v, struct arena *perm);
/* "slow_disk: …; loader.workers=auto gives back 43 % of the run, $1.20 a run, $14 a year; … confirmed". */
struct str problem_text(const struct problem *a, struct dollars d, struct arena *perm);

#endif
