/* op_case.h - fresh random uses of every op of the table: types, attributes and operands.
 *
 * Forward ops have a generator; a gradient's case is made from one of its forward op, run with
 * the reference, so that results it reads (means, log-sums, indices) are true ones. Sizes are
 * ragged (1, 3, 17, 33, 65, ...) or, in `large` draws, those of a real model scaled down; in `odd` ones they
 * are 1 or prime, so that no vector, tile or block comes out even. */
#ifndef OP_CASE_H
#define OP_CASE_H
#include "base/arena.h"
#include "ir/op.h"

struct draw {
    u64  state;
    bool large, odd;
    bool types_only; /* no data: the same state draws the same types, much faster */
};
u64  draw_bits(struct draw *d);
i64  draw_to(struct draw *d, i64 count); /* [0, count) */
f64  draw_normal(struct draw *d);
f64  draw_unit(struct draw *d); /* [0, 1) */
bool draw_coin(struct draw *d);
i64  draw_size(struct draw *d, i64 size_max); /* around the widths of vectors and blocks */

/* How far a kernel may be from the reference; EPS is f32's (f64's, where a result is f64), one
 * rounding to the result's dtype on both sides comes on top. */
enum nearness {
    NEAR_EXACT, /* not at all */
    NEAR_MAP,   /* 16 EPS of the result and its operands, element by element */
    NEAR_SUM,   /* by the sum of absolute terms, element by element */
    NEAR_ROW,   /* by the largest element of the result and its first operand */
};

struct op_case {
    i32           op;
    struct attrs  at;
    i32           in_count;
    struct type   in[OP_IN_MAX];
    void         *data[OP_IN_MAX]; /* of the inputs: to be copied, not written */
    struct type   out[OP_OUT_MAX];
    enum nearness nearness;
    f64           terms; /* added up in one result, for NEAR_SUM and NEAR_ROW */
    f64           macs;  /* NEAR_SUM: products in all, if terms follow from the result's size */
};

/* A fresh case of `op` over floats of type d. Data lie in perm. */
void op_case_draw(struct op_case *c, i32 op, enum dtype d, struct draw *draw, struct arena *perm);

/* The case of gradient op `op` that belongs to a forward case; its result r is the gradient of the
 * forward op's input op_case_input(op) + r. op_case_forward: that forward op; -1 if op is no gradient. */
void op_case_gradient(struct op_case *c, i32 op, const struct op_case *forward, struct draw *draw,
                      struct arena *perm);
i32  op_case_forward(i32 op);
i32  op_case_input(i32 op);
/* Runs a case with the reference, on its own data; the results lie in perm. */
void op_case_run(const struct op_case *c, void **results, struct arena *perm);

struct str op_case_text(const struct op_case *c, struct arena *perm); /* op, operands, attributes */

/* Elements of any dtype, for comparisons. */
f64  element_get(const void *data, enum dtype t, i64 i);
void element_set(void *data, enum dtype t, i64 i, f64 v);

#endif
