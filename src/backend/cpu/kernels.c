/* kernels.c - one ordered list of all fast kernels, and the reference behind it. */
#include "backend/cpu/kernel.h"
#include "base/os.h"

struct family {
    const struct kernel *kernels;
    const i32           *count;
    bool                 then; /* its kernels apply at->then, and store what is kept */
};

#define FAMILY(name)                                                                               \
    extern const struct kernel kernels_##name[];                                                   \
    extern const i32           kernels_##name##_count;
#define FAMILY_THEN(name) FAMILY(name)
#include "backend/cpu/kernels.def"
#undef FAMILY
#undef FAMILY_THEN

static const struct family families[] = {
#define FAMILY(name) { kernels_##name, &kernels_##name##_count, false },
#define FAMILY_THEN(name) { kernels_##name, &kernels_##name##_count, true },
#include "backend/cpu/kernels.def"
#undef FAMILY
#undef FAMILY_THEN
    { NULL, NULL, false },
};

/* The workspace rule of ops.def is that of the reference. */
i64 ref_work(const struct call *c)
{
    struct type           in[OP_IN_MAX], out[OP_OUT_MAX];
    const struct op_info *info = op_info(c->op);
    if (!info->work) return 0;
    ASSERT(c->in_count <= OP_IN_MAX);
    for (i32 i = 0; i < c->in_count; i++) in[i] = c->in[i].type;
    for (i32 i = 0; i < info->out_count; i++) out[i] = c->out[i].type;
    return info->work(&(struct sig){ in, c->in_count, out, c->at, c->op });
}

static const struct kernel reference = { -1, "ref", ISA_ANY, NULL, ref_run, ref_work };

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

bool kernel_applies_then(const struct kernel *k)
{
    for (const struct family *f = families; f->kernels; f++)
        if (f->then && k >= f->kernels && k < f->kernels + *f->count) return true;
    return false;
}

void kernel_run(const struct kernel *k, const struct call *c)
{
    const struct chain *then = &c->at->then;
    if (!then->count || kernel_applies_then(k)) {
        k->run(c);
        return;
    }
    struct tensor so_far = c->out[then->keep ? op_info(c->op)->out_count : 0], out[OP_OUT_MAX];
    struct call   first  = *c;
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) out[i] = i ? c->out[i] : so_far;
    first.out = out;
    k->run(&first);
    for (i32 i = 0, operand = c->in_count; i < then->count; i++) {
        i32           inputs = op_info(then->op[i])->in_min;
        struct tensor in[]   = { so_far, inputs == 2 ? c->in[operand++] : so_far };
        struct call   map    = { then->op[i], c->at, in, inputs, c->out, NULL, 0, c->pool };
        kernel_choose(&map, k == &reference)->run(&map);
        so_far = c->out[0];
    }
}
