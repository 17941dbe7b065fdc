/* kernels.c - one ordered list of all fast kernels, and the reference behind it. */
#include "backend/cpu/kernel.h"
#include "base/os.h"

struct family {
    const struct kernel *kernels;
    const i32           *count;
    bool                 then; /* its kernels apply at->then, and store what is kept */
};

#define FAMILY_ONE(table)                                                                          \
    extern const struct kernel table[];                                                            \
    extern const i32           table##_count;
#define FAMILY(table, level) FAMILY_ONE(table##_##level)
#define FAMILY_THEN(table, level) FAMILY_ONE(table##_##level)
#include "backend/cpu/kernels.def"
#undef FAMILY_ONE
#undef FAMILY
#undef FAMILY_THEN

static const struct family families[] = {
#define FAMILY_ONE(table) { table, &table##_count, false },
#define FAMILY(table, level) FAMILY_ONE(table##_##level)
#define FAMILY_THEN(table, level) { table##_##level, &table##_##level##_count, true },
#include "backend/cpu/kernels.def"
#undef FAMILY_ONE
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

/* Chosen for every op, so that what follows in a pass is its too; or where no fast kernel takes the call, and then the
 * maps behind are the fast ones, which give the bits that they give in a pass of their own. */
static const struct kernel reference = { -1, "ref", ISA_ANY, NULL, ref_run, ref_work },
                           only_one  = { -1, "ref", ISA_ANY, NULL, ref_run, ref_work };

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
    enum isa             isa   = kernel_isa();
    struct call          asked = *c; /* without what the choice may not depend on */
    const struct kernel *k;
    asked.work = NULL, asked.work_bytes = 0, asked.pool = NULL;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        if (k->op == c->op && k->isa <= isa && (!k->takes || k->takes(&asked))) return k;
    }
    return &only_one;
}

bool kernel_applies_then(const struct kernel *k)
{
    for (const struct family *f = families; f->kernels; f++)
        if (f->then && k >= f->kernels && k < f->kernels + *f->count) return true;
    return false;
}

/* What is left of the chain is a map that carries the maps behind it. */
static void run_rest(const struct call *c, bool reference_only)
{
    const struct chain *then = &c->at->then;
    struct attrs        at   = *c->at;
    struct tensor       in[1 + THEN_MAX];
    i32                 operands = op_then_inputs(c->at), op = then->op[0];
    at.then = (struct chain){ .count = then->count - 1 };
    for (i32 i = 0; i < at.then.count; i++) at.then.op[i] = then->op[i + 1];
    in[0]      = c->out[0];
    in[0].data = then_target(c);
    for (i32 i = 0; i < operands; i++) in[1 + i] = c->in[c->in_count + i];
    struct call map = { op, &at, in, op_info(op)->in_min, c->out, NULL, 0, c->pool, NULL };
    kernel_run(kernel_choose(&map, reference_only), &map);
}

void kernel_run(const struct kernel *k, const struct call *c)
{
    if (!c->at->then.count || kernel_applies_then(k)) {
        k->run(c);
        return;
    }
    struct tensor out[OP_OUT_MAX] = { 0 };
    struct attrs  at              = *c->at;
    struct call   first           = *c;
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) out[i] = c->out[i];
    out[0].data = then_target(c);
    at.then     = (struct chain){ 0 };
    first.out   = out;
    first.at    = &at;
    k->run(&first);
    run_rest(c, k == &reference);
}
