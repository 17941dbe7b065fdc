/* precision.c - train.precision as it is meant on the machine at hand, and why; and what became of
 * the scale that fp16 needs. */
#include "train/train_int.h"
#include <math.h>

static const struct {
    const char *name;
    enum dtype  dtype;
} kinds[] = { { "fp32", DT_F32 }, { "bf16", DT_BF16 }, { "fp16", DT_F16 }, { "f64", DT_F64 } };

struct str precision_name(enum dtype t)
{
    for (i32 i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i].dtype == t) return str_of(kinds[i].name);
    return STR("");
}

/* Of the FLOPs of products, convolutions and attention on the way forward: the part that is convolutions. */
static f64 conv_part(struct model *m, struct arena scratch)
{
    struct graph *g   = graph_new(&scratch, STR("precision"));
    f64           all = 0, conv = 0;
    if (model_build(m, g, 1, MODE_TRAIN, NULL)) return 0;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n     = &g->nodes[i];
        struct arena       a     = scratch;
        struct sig         s     = graph_sig(g, n, &a);
        f64                flops = op_cost(&s).flops;
        if (op_info(n->op)->dtype_class != CLASS_LOW) continue;
        all += flops;
        if (n->op == OP_CONV2D) conv += flops;
    }
    return all > 0 ? conv / all : 0;
}

/* By the model and the kind of machine alone, never by a measurement: two starts of a run agree. */
void precision_consider(struct target *t, struct model *m, struct arena scratch)
{
    if (t->low == DT_F32 || t->low_conv || conv_part(m, scratch) < 0.5) return;
    t->low = DT_F32;
    t->low_by =
        "most of this model's work is convolutions, which bf16 does not speed up on this processor";
}

struct precision precision_choose(struct str asked, enum dtype model, const struct target *t,
                                  struct arena *perm)
{
    struct precision p  = { .dtype = DT_F32 };
    struct str       by = str_of(t->low_by ? t->low_by : "nothing is known about this machine");
    if (str_eq(asked, STR("auto"))) {
        p.dtype  = model == DT_F64 ? DT_F64 : t->low;
        p.reason = model == DT_F64 ? STR("model.dtype is f64") : by;
        return p;
    }
    for (i32 i = 0; i < COUNT_OF(kinds); i++)
        if (str_eq(asked, str_of(kinds[i].name))) p.dtype = kinds[i].dtype;
    if (p.dtype == DT_F32 && model == DT_F64) p.dtype = DT_F64;
    if (p.dtype == DT_BF16 || p.dtype == DT_F16)
        p.reason = p.dtype == t->low ? STR("as set")
                                     : str_fmt(perm, "as set, but slower here than %.*s: %.*s",
                                               STR_ARG(precision_name(t->low)), STR_ARG(by));
    return p;
}

void precision_resolve(struct session *s)
{
    const struct settings *c = s->settings;
    if (s->model) precision_consider(&s->target, s->model, s->scratch);
    s->precision = precision_choose(c->train.precision, c->model.dtype, &s->target, s->perm);
    if (s->precision.dtype != DT_F64) s->config.precision = s->precision.dtype;
    if (!c->precision_kept) return;
    struct str why = s->precision.reason, set = STR("as set");
    if (str_starts(why, set)) why = str_sub(why, set.len, why.len);
    s->precision.reason = str_cat(s->perm, STR("as in the checkpoint"), why);
}

struct train_scaling scaling_now(struct session *s)
{
    struct train_scaling now = { .scale = NAN };
    f64                  counts[3];
    if (!session_has(s, STR("loss_scale"))) return now;
    session_get_numbers(s, STR("loss_scale"), &now.scale, 1);
    session_get_numbers(s, STR("loss_scale.counts"), counts, COUNT_OF(counts));
    now.skipped = (i64)counts[1];
    return now;
}

/* Means over rows have gradients of order 1: a scale far below it cannot be what is wrong. */
enum status scaling_check(struct train_scaling s, i64 step, struct err *err)
{
    if (!(s.scale < 0x1p-10)) return STATUS_OK;
    return err_set(err, STATUS_NO,
                   "the gradients are not finite after step %lld, whatever the loss scale: a lower "
                   "train.lr usually helps, or train.precision=bf16",
                   (long long)step);
}
