/* near.h - how far results may lie from the naive kernel's, by the norm of the difference: 16 roundings
 * of the result's type and 2 of the operands', for casts of biases and of what is stored on the way, and the root of
 * the terms in roundings of f32, by which sums in another order walk apart. */
#ifndef NEAR_H
#define NEAR_H
#include "backend/tensor.h"
#include "ir/op.h"

/* |got - want| over |want| or, if that is larger, over `terms`, near_terms' answer: differences of large numbers
 * are as exact as these. A NaN that is not wanted is infinitely far. */
f64 near_distance(const void *got, const void *want, struct type t, f64 terms);
/* The norm of what a result of `count` numbers is the sum of: the first operand's where it has as many,
 * and in the gradient of a norm, which ends with the factor 1/deviation, that times this factor. A row of one
 * number has no deviation at all: what is left of 1 - 1 there is rounding times 1/sqrt(eps). In the gradient of a loss
 * over classes, p - 1 times the loss's: the norm of the latter. 0: not known. */
f64 near_terms(i32 op, const struct attrs *at, const struct tensor *in, i32 in_count, i64 count);
/* The same of result `result` where each number is a sum or mean of many that may cancel out: a norm's means,
 * weights' gradients, sums, losses over classes (differences of logits); else 0. */
f64 near_sum_terms(i32 op, i32 result, const struct tensor *in, i64 count);
/* Of a result of type t, of `terms` added up in each element. */
f64 near_allowed(i32 op, const struct attrs *at, const struct type *in, i32 in_count, struct type t,
                 f64 terms);
/* Of the parameter that op muon writes, by norm, if what it multiplies is kept as `kind`; `in` as it was before the
 * step. near.c derives it. */
f64 near_allowed_muon(const struct attrs *at, const struct tensor *in, enum dtype kind,
                      struct arena scratch);
/* Does the op round its first operand, a table of 16 bits, at random? Then bits are compared too: nearness alone would
 * not notice another generator. The share of numbers that differ, and how large it may be; near.c derives it. */
bool near_is_rounded(i32 op, const struct type *in, i32 in_count);
f64  near_differing(const void *got, const void *want, struct type t);
f64  near_differing_allowed(struct type t);
/* The sizes of the terms of attention's gradient, by element: of two keys that are nearly the same and share a
 * query's attention the gradients of scores are opposite, and hardly anything of large terms is left.
 * in: gradient, qkv, result, lse (, lengths or offsets). */
f64 *near_attention_terms(i32 op, const struct attrs *at, const struct tensor *in, i32 in_count,
                          struct arena *perm);

#endif
