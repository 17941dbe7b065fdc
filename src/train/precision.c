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
