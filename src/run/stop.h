/* stop.h - when a run ends, and when it goes back: a policy that is fed what was observed.
 *
 * It reads no clock and no weights, so tests replay recorded curves through it. The trainer feeds it
 * after each step and each evaluation and does what it says; `text` is the reason in words.
 *
 *   target     an evaluation reached it
 *   patience   so many evaluations in a row were no better than the best by min_improvement
 *   budget     time or money is used up, but for the last evaluation and the last save
 *   forecast   the target will be missed, with the confidence that was asked for
 *   diverged   the loss is no number, or it jumped and stays up: back to sound weights a few times,
 *              then the end
 *
 * docs/decisions/stopping.md says why these, and what they save on recorded runs. */
#ifndef RUN_STOP_H
#define RUN_STOP_H
#include "base/err.h"
#include "base/text.h"
#include "run/forecast.h"

enum stop_reason {
    STOP_NONE,
    STOP_END, /* the steps or epochs that were asked for */
    STOP_TARGET,
    STOP_PATIENCE,
    STOP_BUDGET,
    STOP_FORECAST,
    STOP_DIVERGED,
    STOP_SIGNAL,
    STOP_REASON_COUNT
};

struct str stop_reason_name(enum stop_reason r); /* "patience": as events have it */
bool       metric_falls(struct str metric);      /* less is better */
/* Can the target be missed, and can it be reached? `measured_by_us`: a loss is not below 0. */
enum status target_in_range(struct str metric, f64 target, bool measured_by_us, struct err *err);

enum { STOP_TEXT_MAX = 256, STOP_WINDOW = 64 };

struct stop_config {
    struct str metric;          /* of evaluations: loss | perplexity | accuracy | auc */
    f64        target;          /* NaN: none */
    i64        patience;        /* evaluations; 0: endless */
    f64        min_improvement; /* of the metric, in its own unit */
    f64        max_seconds;     /* NaN: none */
    f64        max_dollars;     /* NaN: none */
    f64 limit_s; /* where the first of these two is reached, on the clock of elapsed_s; NaN: nowhere.
                                   stop_init knows max_seconds alone, bill_limit_s both */
    f64 eval_s,
        save_s; /* kept back for the last evaluation, while none was timed, and for the last save */
    f64 usd_hour;
    i64 steps_max; /* 0: open */
    f64 forecast;  /* confidence asked for; 0: never stops by it */
    i64 rollbacks; /* at most; 0: no number is the end, a jump is not looked for */
    f64 spike;     /* standard deviations */
};

struct stop_eval {
    i64  step;
    f64  elapsed_s, eval_s;
    f64  loss;
    f64  value; /* of the metric */
    bool target_reached;
    f64  fall; /* of the learning rate, still to come, as a part of its peak */
};

enum stop_action { STOP_GO_ON, STOP_NOW, STOP_ROLL_BACK };

struct stop {
    struct stop_config config;
    enum stop_reason   reason;
    char               text[STOP_TEXT_MAX]; /* why, of the last action that was not to go on */
    /* evaluations */
    f64             best; /* value; NaN: none yet */
    i64             best_step;
    i64             worse;    /* evaluations since */
    f64             eval_s;   /* the longest */
    struct forecast forecast; /* of the newest; value in the metric's unit */
    i64             doubts;   /* evaluations in a row whose forecast misses the target */
    f64             x[FORECAST_POINTS_MAX], y[FORECAST_POINTS_MAX];
    i64             point_count, evals, stride; /* every stride-th evaluation is a point */
    /* steps */
    f64 elapsed_s;           /* at the last one */
    f64 window[STOP_WINDOW]; /* newest losses that did not jump, as a ring */
    i64 window_count;
    f64 start;   /* loss of the first step; NaN: none yet */
    f64 begin_s; /* elapsed by the end of it */
    i64 begin_step;
    f64 first;     /* mean of the first full window; NaN: none yet */
    i64 high;      /* losses in a row that jumped */
    i64 rollbacks; /* done */
};

void             stop_init(struct stop *s, const struct stop_config *c);
enum stop_action stop_step(struct stop *s, i64 step, f64 elapsed_s, f64 loss);
enum stop_action stop_at_eval(struct stop *s, const struct stop_eval *e);
/* After an evaluation: must it be said that the target will be missed? Once, where that does not stop the run, and
 * again only if there was hope in between; `text` has the words. */
bool stop_warns(struct stop *s);
/* Before the first step of a start: STOP_NOW where earlier ones have used the cap up. */
enum stop_action stop_over(struct stop *s, f64 elapsed_s);
/* Is there time for an evaluation within the cap? What follows the end of a budget must fit into it too. */
bool stop_eval_fits(const struct stop *s, f64 elapsed_s);
/* Would a save that begins now, and is expected to take so long, be done before the end? One that is still being
 * written then delays the last one. It may take twice as long. */
bool stop_save_fits(const struct stop *s, f64 save_s);
/* STOP_END or STOP_SIGNAL, unless there was a reason before. */
void stop_end(struct stop *s, enum stop_reason reason, i64 step);
void stop_rolled_back(struct stop *s, i64 to_step);   /* what came after is forgotten */
bool stop_sound(const struct stop *s, f64 eval_loss); /* weights to go back to */
bool stop_improved(const struct stop *s);             /* the newest evaluation is the best */

/* What ending now leaves unspent of the planned run, in seconds, at the pace so far; NaN where no
 * end was planned or nothing was saved (diverged, interrupted, done). */
f64 stop_saved_s(const struct stop *s, i64 step, f64 elapsed_s);

#endif
