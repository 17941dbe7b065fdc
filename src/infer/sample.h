/* sample.h - which token comes next: the likeliest, or one drawn at random from the likeliest few. */
#ifndef INFER_SAMPLE_H
#define INFER_SAMPLE_H
#include "base/arena.h"

/* In this order, as transformers' generate does it: logits are divided by the temperature; all but the top_k
 * likeliest are dropped; of these, all but the fewest whose probabilities sum to top_p. */
struct sampling {
    f64 temperature; /* 0: always the likeliest, the first of equals */
    i64 top_k;       /* 0: all */
    f64 top_p;       /* 1: all */
    u64 seed;
};

/* The token at place `index` of sequence `sequence`: the draw depends on these and the seed alone. */
i64 sample_token(const struct sampling *s, const f64 *logits, i64 count, i64 sequence, i64 index,
                 struct arena scratch);

#endif
