/* kernels.c - one ordered list of all fast kernels, and the reference behind it. */
#include "backend/cpu/kernel.h"
#include "base/os.h"

struct family {
    const struct kernel *kernels;
    const i32           *count;
};

#define FAMILY(name)                                                                               \
    extern const struct kernel kernels_##name[];                                                   \
    extern const i32           kernels_##name##_count;
#include "backend/cpu/kernels.def"
#undef FAMILY

static const struct family families[] = {
#define FAMILY(name) { kernels_##name, &kernels_##name##_count },
#include "backend/cpu/kernels.def"
#undef FAMILY
    { NULL, NULL },
};

/* The workspace rule of ops.def is that of the reference. */
static i64 reference_work(const struct call *c)
{
    struct type           in[OP_IN_MAX], out[OP_OUT_MAX];
    const struct op_info *info = op_info(c->op);
    if (!info->work) return 0;
    ASSERT(c->in_count <= OP_IN_MAX);
    for (i32 i = 0; i < c->in_count; i++) in[i] = c->in[i].type;
    for (i32 i = 0; i < info->out_count; i++) out[i] = c->out[i].type;
    return info->work(&(struct sig){ in, c->in_count, out, c->at, c->op });
}

static const struct kernel reference = { -1, "ref", ISA_ANY, NULL, ref_run, reference_work };

const struct kernel *kernel_at(i32 index)
{
    for (const struct family *f = families; f->kernels; f++) {
        if (index < *f->count) return &f->kernels[index];
        index -= *f->count;
    }
    return NULL;
}

const struct kernel *kernel_choose(const struct call *c, bool reference_only)
{
    struct os *os = os_real();
    if (reference_only || str_eq(os->env(os, "FRUGAL_KERNELS"), STR("ref"))) return &reference;
    enum isa             isa = kernel_isa();
    const struct kernel *k;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        if (k->op == c->op && k->isa <= isa && (!k->takes || k->takes(c))) return k;
    }
    return &reference;
}
