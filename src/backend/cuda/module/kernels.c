/* kernels.c - one ordered list of all CUDA kernels. */
#include "backend/cuda/module/backend_int.h"
#include "base/os.h"

#define FAMILY(name, table)                                                                        \
    extern const struct gpu_kernel table[];                                                        \
    extern const i32               table##_count;
#include "backend/cuda/module/kernels.def"
#undef FAMILY

static const struct {
    struct str               name;
    const struct gpu_kernel *kernels;
    const i32               *count;
} families[] = {
#define FAMILY(name, table) { STR_INIT(#name), table, &table##_count },
#include "backend/cuda/module/kernels.def"
#undef FAMILY
};

/* What every kernel takes unless it says otherwise. f64 is the CPU's. */
static bool no_f64(const struct gpu_call *c)
{
    for (i32 i = 0; i < c->in_count; i++) {
        if (c->in[i].type.dtype == DT_F64) return false;
    }
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) {
        if (c->out[i].type.dtype == DT_F64) return false;
    }
    return true;
}

/* FRUGAL_GPU_OFF=conv,layernorm_grad.cuda_streamed leaves families or single kernels out, to see
 * what they give or where a fault lies. */
static bool is_off(struct str family, const struct gpu_kernel *k)
{
    struct os *os  = os_real();
    struct str off = os->env(os, "FRUGAL_GPU_OFF"), word, op;
    while (str_cut(&off, ',', &word)) {
        if (str_eq(word, family)) return true;
        if (str_cut(&word, '.', &op) && str_eq(op, str_of(op_info(k->op)->name)) &&
            str_eq(word, str_of(k->name)))
            return true;
    }
    return false;
}

bool gpu_is_off(struct str name)
{
    struct os *os  = os_real();
    struct str off = os->env(os, "FRUGAL_GPU_OFF"), word;
    while (str_cut(&off, ',', &word))
        if (str_eq(word, name)) return true;
    return false;
}

const struct gpu_kernel *gpu_kernel_after(const struct gpu_call *c, const struct gpu_kernel *k)
{
    bool passed = !k;
    if (!no_f64(c)) return NULL;
    for (i64 f = 0; f < COUNT_OF(families); f++) {
        for (i32 i = 0; i < *families[f].count; i++) {
            const struct gpu_kernel *next = &families[f].kernels[i];
            if (passed && next->op == c->op && !is_off(families[f].name, next) &&
                (!next->takes || next->takes(c)))
                return next;
            passed |= next == k;
        }
    }
    return NULL;
}

const struct gpu_kernel *gpu_kernel_choose(const struct gpu_call *c)
{
    return gpu_kernel_after(c, NULL);
}
