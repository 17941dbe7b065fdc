/* figures.h - a run's figures as it runs, for other programs: TensorBoard event files, a CSV file, Prometheus
 * text over HTTP. docs/formats/figures.md describes them.
 *
 *     trainer --put--> queue --> writer's thread --> CSV, TensorBoard
 *                \--> the newest row --> server's thread, on the loopback address only
 *
 * Putting never waits for a disk or a reader. What cannot be written is told once, by figures_warning, and
 * tried again a minute later; the run goes on. A run that goes on from step S, or back to it, takes the rows
 * of later steps away, so that no step is there twice. */
#ifndef RUN_FIGURES_H
#define RUN_FIGURES_H
#include "base/os.h"
#include "run/clock.h"

struct log_config {
    struct str tensorboard; /* folder for event files; empty: none */
    struct str csv;         /* file; empty: none */
    i64        prometheus;  /* port on the loopback address; 0: none */
};

/* name (of the CSV column; after train/ or eval/ TensorBoard's tag), Prometheus's name after frugal_, meaning */
#define FIGURES(X)                                                                                 \
    X(elapsed_s, "elapsed_seconds", "since the run began, earlier starts included")                \
    X(loss, "loss", "mean over the rows of the newest batch")                                      \
    X(lr, "learning_rate", "of that step")                                                         \
    X(samples_per_s, "samples_per_second", "over the steps so far")                                \
    X(tokens_per_s, "tokens_per_second", "the same in tokens")                                     \
    X(steps_per_s, "steps_per_second", "of this process")                                          \
    X(step_p50_s, "step_p50_seconds", "half of this process's steps took no longer")               \
    X(step_p95_s, "step_p95_seconds", "95 % of them did not")                                      \
    X(step_p99_s, "step_p99_seconds", "99 % of them did not")                                      \
    X(input_share, "input_wait_ratio", "part of the steps' time that they waited for data")        \
    X(mfu, "mfu_ratio", "model FLOPs over the device's peak")                                      \
    X(dollars, "dollars", "what the run has cost so far")                                          \
    X(eval_loss, "eval_loss", "of the newest evaluation")                                          \
    X(eval_value, "eval_value", "the target's metric at that evaluation")                          \
    X(busy, "busy_ratio", "how busy the GPUs, else the cores, were when last looked at")

enum figure {
#define FIGURE(name, metric, help) FIGURE_##name,
    FIGURES(FIGURE)
#undef FIGURE
        FIGURE_COUNT
};

struct figures {
    i64               step;
    i64               wall_ns;             /* since 1970 */
    f64               value[FIGURE_COUNT]; /* NaN: not known */
    bool              split_known;         /* else there is none */
    struct step_split split;               /* of this process so far */
};

struct figures_config {
    struct log_config log;
    struct str        run;    /* its name, for a label */
    struct str        metric; /* that eval_value is of */
    i64               step;   /* that the run goes on from */
};

struct figures_log;

/* Opens nothing yet but the port; that this is taken, or a file cannot be written, is a warning. NULL where
 * nothing is asked for. */
struct figures_log *figures_open(struct os *os, struct arena *perm, const struct figures_config *c);
void                figures_put(struct figures_log   *l,
                                const struct figures *f); /* texts of it are none: all is copied */
void                figures_back(struct figures_log *l, i64 step); /* later steps did not happen */
bool                figures_warning(struct figures_log *l,
                                    struct err         *err); /* true once for each thing that failed */
i32                 figures_port(const struct figures_log *l); /* that is answered on; 0: none */
void figures_close(struct figures_log *l); /* all that was put is written, or has failed */

#endif
