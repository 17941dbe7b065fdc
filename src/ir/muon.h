/* muon.h - the numbers of op muon, for its cost and its kernels.
 *
 * Jordan et al. 2024, kellerjordan.github.io/posts/muon: five steps of X <- (a I + b A + c A^2) X
 * with A = X X^T, from X of norm 1, bring every singular value near 1. Those of torch.optim.Muon. */
#ifndef IR_MUON_H
#define IR_MUON_H
#include "ir/op.h"

enum { MUON_STEPS = 5 };
#define MUON_A 3.4445
#define MUON_B (-4.7750)
#define MUON_C 2.0315
#define MUON_NORM_MIN 1e-7 /* a smaller norm counts as this: zeros stay zeros */

/* The matrix a parameter is: axis 0 by all the others. A = X X^T or X^T X, whichever is smaller. */
struct muon_sizes {
    i64  rows, columns;
    i64  gram; /* the smaller of the two */
    bool tall; /* more rows than columns: A = X^T X */
};

static inline struct muon_sizes muon_sizes(struct shape p)
{
    i64 rows = p.dim[0], columns = shape_span(p, 1, p.rank);
    return (struct muon_sizes){ rows, columns, rows > columns ? columns : rows, rows > columns };
}

#endif
