/* near.h - how far results may lie from the naive kernel's, by the norm of the difference: 16 roundings
 * of the result's type and 2 of the operands', for casts of biases and of what is stored on the way, and the root of
 * the terms in roundings of f32, by which sums in another order walk apart. */
#ifndef NEAR_H
#define NEAR_H
#include "backend/tensor.h"
#include "ir/op.h"

/* |got - want| over |want| or, if that is larger, over the first operand where it has as many elements
 * (differences of large numbers); a NaN that is not wanted is infinitely far. `first` may be NULL. */
f64 near_distance(const void *got, const void *want, struct type t, const struct tensor *first);
/* Of a result of type t, of `terms` added up in each element. */
f64 near_allowed(i32 op, const struct attrs *at, const struct type *in, i32 in_count, struct type t,
                 f64 terms);

#endif
