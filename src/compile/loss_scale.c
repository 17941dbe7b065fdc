/* loss_scale.c - fp16 reaches down to 6e-8 only, and gradients of activations lie there: the loss is
 * multiplied by a scale before the way back, and the gradients of the parameters, which are f32, are
 * divided by it before anything is done with them (Micikevicius et al., arXiv 1710.03740).
 *
 *   train    loss_seed ── mul ── …                  gradients, times the scale
 *                loss_scale ┘
 *   update   gradients ── sumsq ── unscale ── step, 1/scale, sumsq ── clip ── optimiser
 *
 * A sum of squares that is not finite shows that the scale was too large. Then the step that unscale
 * gives is 0, and the optimiser leaves everything as it is. The scale itself is state of the run and
 * moves as torch.amp.GradScaler's; the host only looks at it. */
#include "compile/compile_int.h"
#include "ir/build.h"

static i32 scale_of(struct graph *g, const struct compile_config *c)
{
    i32 v = graph_value(g, VALUE_STATE, STR("loss_scale"), type_of(DT_F32, shape_1(1)));
    if (v >= 0) g->values[v].init = (struct init){ INIT_CONST, c->scaling.initial };
    return v;
}

i32 scaled_seed(struct graph *g, const struct compile_config *c, i32 seed)
{
    return build_binary(g, OP_MUL, STR("loss_seed.scaled"), seed, scale_of(g, c));
}

struct unscaled unscale(struct graph *g, const struct compile_config *c, i32 sumsq)
{
    i32 counts = graph_value(g, VALUE_STATE, STR("loss_scale.counts"), type_of(DT_F32, shape_1(3)));
    struct attrs at   = { .growth  = c->scaling.growth,
                          .backoff = c->scaling.backoff,
                          .count   = c->scaling.every };
    i32          in[] = { scale_of(g, c), counts, sumsq };
    i32          out  = graph_op(g, OP_UNSCALE, STR("unscale"), in, 3, &at);
    if (out >= 0) graph_output(g, out + 1, STR("grad_unscale"));
    return (struct unscaled){ .step = out, .factor = out + 1, .sumsq = out + 2 };
}

i32 hyper_with_step(struct graph *g, i32 hyper, i32 step)
{
    struct str name = str_fmt(g->perm, "%.*s.step", STR_ARG(g->values[MAX(hyper, 0)].name));
    i32        rest = build_slice(g, name, hyper, 0, 0, 3);
    return build_concat(g, name, (i32[]){ rest, step }, 2, 0);
}
