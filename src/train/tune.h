/* tune.h - the search behind `frugal tune`: which settings make a sample cheapest on this machine.
 *
 * Levers are tried one after the other, each from what won before. The values of a lever are measured in
 * turns, so that whatever disturbs the machine meets all of them; one that fell far behind is not measured again.
 * A value wins only by more than the noise seen. What a step computes stays the same, but for levers marked
 * `digits`. Pure: whoever measures is passed in. */
#ifndef TRAIN_TUNE_H
#define TRAIN_TUNE_H
#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

enum { TUNE_VALUES_MAX = 12, TUNE_LEVERS_MAX = 8, TUNE_ROUNDS = 3 };

struct tune_value {
    struct str words;                /* "train.micro_batch=8" */
    f64        seconds[TUNE_ROUNDS]; /* of a sample, by round */
    i64        rounds;
    bool       behind;       /* far, after a round */
    char       why_not[512]; /* why it cannot run; empty: it can */
};

struct tune_lever {
    const char       *name;
    bool              digits;                  /* results differ by rounding between its values */
    struct tune_value values[TUNE_VALUES_MAX]; /* the first is what the run has now */
    i64               count;
    i64               won; /* after tune_try */
};

/* What is known of the run and the machine before the search. */
struct tune_facts {
    i64  gpus, cores;
    i64  threads;           /* in use */
    i64  batch, accumulate; /* samples at once; so many times a step */
    bool batch_norm;        /* its statistics are those of `batch` samples: that must stay */
    bool low;               /* activations are bf16 or f16 already */
    bool wide;              /* the model is f64: precision is no lever */
    bool recomputes;
    bool loads; /* samples are read, decoded and augmented, not mapped memory */
};

i64 tune_levers(const struct tune_facts *f, struct tune_lever *out, struct arena *perm);

/* Seconds of a sample with the value's words; STATUS_NO: it cannot run, and err says why. Another status
 * ends the search. */
typedef enum status tune_measure(void *context, const struct tune_value *v, f64 *seconds,
                                 struct err *err);
enum status tune_try(struct tune_lever *l, tune_measure *measure, void *context, struct err *err);

f64 tune_seconds(const struct tune_value *v); /* median of its rounds; NaN: none */
f64 tune_noise(const struct tune_value *v);   /* (slowest - fastest) / median; NaN: measured once */

#endif
