/* ref.c - the naive kernel of any op. */
#include "backend/cpu/ref/ref_int.h"

static void (*const kernels[OP_COUNT])(const struct call *) = {
#define OP(name, ...) [OP_##name] = ref_##name,
#include "ir/ops.def"
#undef OP
};

void ref_run(const struct call *c)
{
    if (c->op < OP_COUNT) kernels[c->op](c);
    else op_info(c->op)->run(c);
}
