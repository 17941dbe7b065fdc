/* work.h - a training step as a list of what has to be done, for any number of samples.
 *
 * FLOPs, bytes and memory of a compiled program are straight lines in the number of samples that are
 * computed at once, so two compilations tell every batch: the search prices thousands of plans from
 * a handful of them. Instructions that are alike share a row. */
#ifndef PLAN_WORK_H
#define PLAN_WORK_H
#include "compile/compile.h"

struct work_row {
    i32         op;
    enum dtype  dtype; /* of its first operand */
    bool        backward;
    f64         count;         /* instructions alike */
    struct cost fixed, sample; /* of one of them: whatever the batch, and for each sample of it */
};

struct work {
    struct work_row *rows;
    i64              count;
};

struct step_work {
    struct work train, add, update; /* first micro-batch, later ones, optimiser */
    f64         parameters;
    f64         gradient_bytes;
    f64         saved_bytes; /* of a checkpoint: parameters, optimiser state, buffers */
    f64         state_bytes; /* parameters, gradients, optimiser state: whatever the batch */
    f64         memory_fixed, memory_sample; /* bytes of the arena */
};

/* Compiles for `low` and `high` samples (low < high) and draws the lines. The target's memory does
 * not limit it. */
enum status step_work_of(struct arena *perm, const struct target *target,
                         const struct compile_config *config, graph_builder *build, void *context,
                         i64 low, i64 high, struct step_work *out, struct arena scratch,
                         struct err *err);

/* Rows of one program as it is: `sample` costs are nothing. */
struct work work_of_program(struct arena *perm, const struct program *p, struct arena scratch);

struct cost work_cost(const struct work *w, f64 samples); /* of all rows together */
f64         step_work_bytes(const struct step_work *w, f64 samples);

#endif
