/* kernel.h - what a CPU kernel sees: one instruction with its operands in memory.
 *
 * Kernels of an op stand in one ordered list (kernels.def), best first, the naive reference last; the first
 * whose `takes` accepts the call runs. `takes` looks at types and attributes only, `work` at the pool
 * besides, neither at data, so that compile can ask before there is memory.
 *
 * Rules for every fast kernel: cut the work into blocks by shape only and hand them to the
 * pool; never write the same memory from two blocks; sum in a fixed order. Then any number of
 * threads gives the same bits. Results may share the memory of an input only where ops.def says so. */
#ifndef BACKEND_CPU_KERNEL_H
#define BACKEND_CPU_KERNEL_H
#include "backend/tensor.h"
#include "base/pool.h"
#include "ir/op.h"

struct ranks; /* backend/ranks/ranks.h */

struct call {
    i32                  op;
    const struct attrs  *at;
    const struct tensor *in; /* those of the maps in at->then follow */
    i32                  in_count;
    const struct tensor *out;
    void                *work;
    i64                  work_bytes;
    struct pool         *pool;
    struct ranks        *ranks; /* of collective ops; NULL: there is one */
};

/* Each has those before it too. AVX512BF16: two products of bf16 and their sum in each lane; AMX: the
 * same on tiles of 16 x 16 sums. */
enum isa { ISA_ANY, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_AMX, ISA_LEVELS };

struct kernel {
    i32         op;
    const char *name;                   /* e.g. "avx512", "widened", "ref" */
    enum isa    isa;                    /* least instruction set */
    bool (*takes)(const struct call *); /* NULL: anything */
    void (*run)(const struct call *);
    i64 (*work)(const struct call *); /* workspace bytes; NULL: none */
};

/* Where a kernel that applies chains puts what goes into them: where it is kept, or where the first
 * result will be. */
static inline void *then_target(const struct call *c)
{
    return c->out[c->at->then.keep ? op_info(c->op)->out_count : 0].data;
}

/* The kernel for this call: a function of its types, its attributes and kernel_isa() alone, so the pool
 * may be missing. Never NULL for an op of the table. FRUGAL_KERNELS=ref in the environment leaves only
 * the reference. */
const struct kernel *kernel_choose(const struct call *c, bool reference_only);
/* Runs it and, unless its family applies chains, the maps that follow. */
bool                 kernel_applies_then(const struct kernel *k);
void                 kernel_run(const struct kernel *k, const struct call *c);
const struct kernel *kernel_at(i32 index); /* the whole list in order, without the reference; NULL
                                              after the last */

enum isa    processor_isa(void); /* what this processor has */
enum isa    kernel_isa(void);    /* what is used of it: FRUGAL_VECTORS may cap it */
enum status kernel_isa_cap(enum isa   *cap,
                           struct err *err);          /* the cap, AMX where there is none; USAGE:
                                                               another word than isa_word gives */
const char *isa_word(enum isa isa);                   /* "none", "avx2", ... */
bool        isa_find(struct str word, enum isa *out); /* false: there is no such word */

void ref_run(const struct call *c);  /* the naive kernel of any op, any dtype: cpu/ref */
i64  ref_work(const struct call *c); /* its workspace: column `work` of ops.def */

#endif
