/* work.h - a training step as a list of what has to be done, for any number of samples.
 *
 * FLOPs, bytes and memory of a compiled program are straight lines in the number of samples that are
 * computed at once, so two compilations tell every batch: the search prices thousands of plans from
 * a handful of them. Deep models are straight lines in their depth, too. */
#ifndef PLAN_WORK_H
#define PLAN_WORK_H
#include "compile/compile.h"

struct
    work_row { /* all instructions of an op with operands of a type, in one half of the program */
    i32         op;
    enum dtype  dtype; /* of the first operand */
    bool        backward;
    f64         count;
    struct cost fixed, sample; /* of all of them: whatever the batch, and for each sample of it */
};

struct work {
    struct work_row *rows;
    i64              count;
};

struct step_work {
    struct work train, add, update; /* first micro-batch, later ones, optimiser */
    f64         parameters;
    f64         gradient_bytes;
    f64         saved_bytes;     /* of a checkpoint: parameters, optimiser state, buffers */
    f64         state_bytes;     /* parameters, gradients, optimiser state: whatever the batch */
    f64         optimiser_bytes; /* of them, the optimiser's */
    f64         tensors;         /* of trained parameters, each of which is gathered by itself */
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

/* A model of `depth` blocks from two of the same but for a and b blocks, a < b. */
struct step_work step_work_deeper(struct arena *perm, const struct step_work *at_a, i64 a,
                                  const struct step_work *at_b, i64 b, i64 depth);

/* The same work with attention's own ops scaled, and with so many parameters, of which the compiled ones are
 * those that a sample uses: the others are held, read, updated and saved like them. `low`: copies of the
 * parameters in two bytes, too. */
void step_work_stand_for(struct step_work *w, f64 parameters, f64 attention_part, bool low);

struct cost work_cost(const struct work *w, f64 samples); /* of all rows together */
f64         step_work_bytes(const struct step_work *w, f64 samples);

#endif
