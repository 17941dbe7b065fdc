/* scaling.h - how loss follows from size and data, and what a budget buys by it.
 *
 *   L(N, D) = E + A / N^alpha + B / D^beta        N parameters, D tokens, nats a token
 *   C = 6 N D                                      FLOPs of training
 *
 * Published laws are rows of laws.def. Of a law with all five numbers everything follows; of one
 * that is only a line of best sizes, N = k C^a, the tokens follow by C = 6 N D: the two halves are
 * never stated apart, because a published pair of them spends 2.65 times its budget.
 * Loss is a matter of tokenizer and text: for other data than a law's own only a refit on small runs
 * tells absolute values. docs/decisions/scaling_laws.md */
#ifndef PLAN_SCALING_H
#define PLAN_SCALING_H
#include "base/err.h"
#include "base/text.h"

struct law {
    struct str name, source;
    f64        e, a, b, alpha, beta; /* NaN: the law says nothing of loss */
    f64        line_k, line_a;       /* N = line_k * C^line_a */
};

struct sizing {
    f64 flops, parameters, tokens, loss; /* loss: NaN where the law says nothing */
};

i64        law_count(void);
struct law law_at(i64 index); /* 0: the default, Besiroglu 2024 */
bool       law_find(struct str name, struct law *out);
struct law law_of(f64 e, f64 a, f64 b, f64 alpha, f64 beta); /* with its line of best sizes */
f64        law_loss(const struct law *l, f64 parameters, f64 tokens);

/* The least loss for so many FLOPs. */
struct sizing law_best(const struct law *l, f64 flops);
/* The same for a size that is given: its tokens. */
struct sizing law_at_size(const struct law *l, f64 flops, f64 parameters);
/* What a budget of hours or dollars buys of a machine that sustains so many FLOP/s. */
f64 budget_flops_hours(f64 hours, f64 flops_s);
f64 budget_flops_dollars(f64 dollars, f64 usd_h, f64 flops_s);
/* The FLOPs after which the best size has this loss; NaN: none has, or the law says nothing. */
f64 law_flops_for(const struct law *l, f64 loss);

/* Least dollars to a loss when the model will also be used: 6 N D training FLOPs at one price and
 * 2 N for each token served at another. More served tokens: a smaller model, trained longer. */
struct serving {
    f64 tokens_served;
    f64 train_usd_flop, serve_usd_flop;
};
struct sizing law_best_served(const struct law *l, f64 loss, const struct serving *s);
/* To the loss that is the best for so many training FLOPs, with FLOPs at one price. */
struct sizing law_best_with_use(const struct law *l, f64 flops, f64 tokens_served);

/* ---- a law from runs ---- */

struct run_point {
    f64 parameters, tokens, loss;
};

enum { LAW_POINTS_MAX = 4096, LAW_POINTS_MIN = 5 };

struct fitted_law {
    struct law law;
    struct law low, high; /* 2.5 and 97.5 % of the numbers, each by itself, over the resamples */
    f64        objective; /* sum of Huber losses */
    i64        resamples; /* that came to an end; 0: no interval */
};

/* Huber loss (delta 1e-3) of log L, the three terms by log-sum-exp, from many starts, summed and not
 * averaged; intervals by bootstrap over the points. NO: the points cannot tell a law (fewer than
 * five, or all of one size or one number of tokens). */
enum status law_fit(const struct run_point *points, i64 count, i64 resamples, u64 seed,
                    struct arena scratch, struct fitted_law *out, struct err *err);

/* CSV with the columns params, loss and tokens or train_flop; others are passed over. */
enum status law_points_read(struct str path, struct str text, struct arena *perm,
                            struct run_point **points, i64 *count, struct err *err);

#endif
