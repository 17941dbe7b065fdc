/* split.h - a process's training time by part: every nanosecond from split_begin on lies in exactly one
 * part, so that the parts sum to the wall clock.
 *
 * The loop (train/train.c) says what begins, with one reading of the clock at each boundary; listeners see
 * it in train_progress.split and train_result.split: of all steps of this process so far. The difference
 * of two copies is the split of what lies between.
 *
 * Exact: the sum, always; each part as the host sees it. On a device that works behind the host's back
 * `launch` is the host asking for work and `compute` the host waiting for results: forward, backward and
 * update together, and input and copy only as far as the device did not work meanwhile. Where it
 * works inside the call (a CPU) `launch` is 0, `compute` is forward and backward, and `update` stands alone.
 * In steps that are profiled forward, backward and update are told apart on both, from the time of each
 * instruction; `compute` is then 0, and the rest of the call (clocks, launches) is `launch`. */
#ifndef RUN_SPLIT_H
#define RUN_SPLIT_H
#include "base/types.h"

/* name, what it is; in the order of a step */
#define PARTS(X)                                                                                   \
    X(input, "waiting for the next batch")                                                         \
    X(copy, "batch and scalars to the device")                                                     \
    X(forward, "profiled steps: the model's outputs")                                              \
    X(backward, "profiled steps: gradients")                                                       \
    X(compute, "forward and backward where nobody tells them apart")                               \
    X(update, "clipping and the optimiser")                                                        \
    X(launch, "asking the device for work")                                                        \
    X(evaluation, "on held-out samples")                                                           \
    X(checkpoint, "steps stand still for a save")                                                  \
    X(logging, "telling the screen, files and the ledger")                                         \
    X(other, "the rest of the loop")

enum part {
#define PART(name, help) PART_##name,
    PARTS(PART)
#undef PART
        PART_COUNT
};

struct step_split {
    i64       ns[PART_COUNT]; /* until since_ns */
    i64       since_ns;
    enum part now;
};

void split_begin(struct step_split *s, i64 now_ns); /* nothing so far, in `other` */
/* What was going on ends, `next` begins; returns what it was. now_ns never runs back. */
enum part split_enter(struct step_split *s, enum part next, i64 now_ns);
/* Of what `from` got, the nanoseconds that turned out to be another's; never more than it has. */
void split_move(struct step_split *s, enum part from, enum part to, i64 ns);
i64  split_sum(const struct step_split *s); /* since_ns less that of split_begin */
struct step_split split_since(const struct step_split *now, const struct step_split *before); /* the difference */

const char *split_name(enum part p);
const char *split_help(enum part p);

#endif
