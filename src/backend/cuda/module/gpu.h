/* gpu.h - what a CUDA kernel sees: one instruction with its operands in device memory, and the
 * table by which the backend finds it. C and CUDA C++ both read this.
 *
 * Kernels of an op stand in one list (kernels.def), best first; the first whose `takes` accepts the
 * call runs. `takes` and `work` look at types and attributes only. `plan`, if there is one, is called
 * once while the program is prepared: library descriptors, choices by timing. `run` only launches,
 * never waits and never allocates, so that a whole program can be captured as a CUDA graph.
 *
 * As on the CPU, sums are taken in an order that depends on shapes alone: no float atomics, but where
 * `any_order` allows them. */
#ifndef BACKEND_CUDA_MODULE_GPU_H
#define BACKEND_CUDA_MODULE_GPU_H
#ifdef __cplusplus
extern "C" {
#endif
#include "backend/tensor.h"
#include "base/arena.h"
#include "ir/op.h"
#include <cuda_runtime_api.h>

struct gpu {
    cudaStream_t stream;
    i32          processors;   /* multiprocessors */
    i32          capability;   /* 90: sm_90 */
    i64          shared_bytes; /* a block's shared memory at most */
    i64   total_bytes;     /* of memory, free or not, so that choices by it repeat; 0: not known */
    void *blas;            /* gemm.c's, from the first product on */
    struct tuning *tuning; /* choices of products so far */
    i64            tries;  /* algorithms a product is tried with */
    bool           under_load; /* and the best of them once more, for long */
    bool           any_order;  /* of backend_tuning */
    i32            code;       /* gpu_code: at most `capability` */
};

struct gpu_call {
    i32                  op;
    const struct attrs  *at;
    const struct tensor *in;       /* those of the maps in at->then follow */
    i32                  in_count; /* the op's own */
    const struct tensor *out;
    const struct tensor
               *sum; /* DOES_SUM: where to add up the columns of out[0] as it is stored, or NULL */
    void       *work;
    i64         work_bytes;
    void       *plan;
    struct gpu *gpu;
};

/* What a kernel can do besides its op, in the same pass; else it is launched after it. */
enum {
    DOES_CHAIN = 1, /* the maps of at->then */
    DOES_SUM =
        2, /* a sum over the rows of out[0], of out[1]'s type; may be written once all operands are read */
};

struct gpu_kernel {
    i32         op;
    const char *name;
    bool (*takes)(const struct gpu_call *); /* NULL: f32, bf16 and f16 */
    void (*run)(const struct gpu_call *);
    i64 (*work)(const struct gpu_call *);                       /* workspace bytes; NULL: none */
    void *(*plan)(const struct gpu_call *, struct arena *perm); /* NULL: nothing to plan */
    u32 does;                                                   /* bits */
};

const struct gpu_kernel *gpu_kernel_choose(const struct gpu_call *c); /* NULL: none takes it */
/* The next one that takes it, where `k` found no way. */
const struct gpu_kernel *gpu_kernel_after(const struct gpu_call *c, const struct gpu_kernel *k);

/* The compute capability that the kernels were compiled for: 80 where the driver compiled code of 8.0 for a newer GPU.
 * What a kernel has between #if __CUDA_ARCH__ >= 900 goes by this, not by the GPU's own. */
i32 gpu_code(void);

/* FRUGAL_GPU_OFF names it. */
bool gpu_is_off(struct str name);

/* All maps of at->then in one pass: in[0] is what the op stored, the maps' operands follow. */
extern const struct gpu_kernel gpu_kernel_chain;

/* Seconds of the call's kernel on memory made for all its operands, those of its chain too; 0: it cannot
 * be tried. Plans live in perm. */
f64 gpu_trial_s(struct gpu_call c, struct tensor *in, i32 inputs, struct tensor *out, i32 results,
                struct arena *perm);
/* Milliseconds of what `launch` puts on the stream, the best of a few tries; below 0: it failed. */
f32 gpu_time_ms(struct gpu *gpu, bool (*launch)(void *context), void *context);
/* The same while other threads of the process hold the driver's locks now and then, so that the GPU waits for a launch:
 * tried until the two best agree. */
f32 gpu_time_amid_ms(struct gpu *gpu, bool (*launch)(void *context), void *context);

#ifdef __cplusplus
}
#endif
#endif
