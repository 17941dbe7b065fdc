/* trial.c - how long an instruction takes, tried out on memory of its own before there is a program. */
#include "backend/cuda/module/gemm.h"

struct trial {
    const struct gpu_kernel *kernel;
    struct gpu_call          call;
};

static bool launch(void *context)
{
    const struct trial *t = context;
    t->kernel->run(&t->call);
    return cudaGetLastError() == cudaSuccess;
}

static i64 room(i64 bytes) { return (bytes + 255) / 256 * 256; }

f64 gpu_trial_s(struct gpu_call c, struct tensor *in, i32 inputs, struct tensor *out, i32 results,
                struct arena *perm)
{
    struct trial t     = { gpu_kernel_choose(&c), c };
    i64          bytes = 0, at = 0;
    u8          *memory = NULL;
    f64          s      = 0;
    if (!t.kernel) return 0;
    t.call.work_bytes = t.kernel->work ? t.kernel->work(&t.call) : 0;
    for (i32 i = 0; i < inputs; i++) bytes += room(type_bytes(in[i].type));
    for (i32 i = 0; i < results; i++) bytes += room(type_bytes(out[i].type));
    if (cudaMalloc((void **)&memory, (size_t)(bytes + t.call.work_bytes)) != cudaSuccess) {
        (void)cudaGetLastError(); /* memory is short: no fault of anything that follows */
        return 0;
    }
    cudaMemsetAsync(memory, 0x30, (size_t)bytes, c.gpu->stream); /* no NaN in any type */
    for (i32 i = 0; i < inputs; i++) in[i].data = memory + at, at += room(type_bytes(in[i].type));
    for (i32 i = 0; i < results; i++)
        out[i].data = memory + at, at += room(type_bytes(out[i].type));
    t.call.work = memory + at;
    if (t.kernel->plan) t.call.plan = t.kernel->plan(&t.call, perm);
    if (!t.kernel->plan || t.call.plan) s = (f64)gpu_time_ms(c.gpu, launch, &t) * 1e-3;
    cudaFree(memory);
    return s > 0 ? s : 0;
}
