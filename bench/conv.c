/* conv.c - how fast each kernel is in each convolution of ResNet-20 (CIFAR-10, batch 128).
 *
 *     cmake --build build --target bench_conv && build/bench_conv [THREADS [TYPE [WORD]]]
 *
 * One line for each layer, op and kernel that takes it (TYPE: f32 or bf16 operands, where gradients
 * of weights are f32; WORD: only kernels with it in their name): the least time of several runs, and
 * the rate counting a multiply-add as two, as if the convolution were done as it is written. A star
 * marks the kernel that a run would use; the last lines add those up over the layers of the net. */
#include "backend/cpu/kernel.h"
#include "base/arena.h"
#include "base/half.h"
#include "resnet20.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS_MIN = 7 };
static const f64 budget_s = 0.15; /* of one measurement */

/* With one thread the clock is that thread's own, so that neighbours on the machine count less. */
static clockid_t clock_id = CLOCK_MONOTONIC;

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(clock_id, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static struct tensor tensor_new(struct arena *perm, enum dtype dtype, struct shape shape)
{
    struct tensor t = { NULL, type_of(dtype, shape), shape_count(shape) };
    t.data          = arena_take(perm, t.count, dtype_bytes(dtype), 64);
    for (i64 i = 0; i < t.count; i++) {
        f32 x = (f32)(i * 2654435761 % 1000003) / 1000003 - 0.5f;
        if (dtype == DT_F32) ((f32 *)t.data)[i] = x;
        else ((u16 *)t.data)[i] = bf16_from_f32(x);
    }
    return t;
}

/* Seconds of the fastest run. */
static f64 measure(const struct kernel *k, const struct call *c)
{
    f64 best = 1e30, begin = now_s();
    for (i32 i = 0; i < REPEATS_MIN || now_s() - begin < budget_s; i++) {
        f64 start = now_s();
        k->run(c);
        best = MIN(best, now_s() - start);
    }
    return best;
}

/* Prints every kernel of one op of one layer; seconds of the one that a run would use. */
static f64 bench_op(const struct layer *l, struct call *c, f64 flops, const char *word,
                    struct arena scratch)
{
    const struct kernel *k, *chosen = kernel_choose(c, false);
    f64                  chosen_s = 0;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        if (k->op != c->op || k->isa > kernel_isa() || (k->takes && !k->takes(c))) continue;
        if (word && k != chosen && !strstr(k->name, word)) continue;
        struct arena mine = scratch;
        c->work_bytes     = k->work ? k->work(c) : 0;
        c->work           = arena_take(&mine, c->work_bytes, 1, 64);
        f64 s             = measure(k, c);
        if (k == chosen) chosen_s = s;
        printf("%2lldx%-2lld %2lld -> %2lld %lldx%lld/%lld  %-14s %c%-18s %8.3f ms %7.1f GFLOP/s\n",
               (long long)l->size, (long long)l->size, (long long)l->in, (long long)l->out,
               (long long)l->kernel, (long long)l->kernel, (long long)l->stride,
               op_info(c->op)->name, k == chosen ? '*' : ' ', k->name, 1e3 * s, flops / s * 1e-9);
    }
    return chosen_s;
}

/* Adds the seconds of the layer's three ops to total_s, its FLOPs to flops. */
static void bench_layer(const struct layer *l, enum dtype d, struct pool *pool, const char *word,
                        struct arena scratch, f64 total_s[3], f64 total_flops[3])
{
    i64           pad = l->kernel / 2, size = layer_out_size(l);
    struct tensor x     = tensor_new(&scratch, d, shape_4(BATCH, l->size, l->size, l->in));
    struct tensor w     = tensor_new(&scratch, d, shape_4(l->out, l->kernel, l->kernel, l->in));
    struct tensor y     = tensor_new(&scratch, d, shape_4(BATCH, size, size, l->out));
    struct tensor dw    = tensor_new(&scratch, DT_F32, w.type.shape);
    f64           flops = layer_flops(l);

    const i32           ops[3]         = { OP_CONV2D, OP_CONV2D_GRAD_X, OP_CONV2D_GRAD_W };
    const struct tensor operands[3][3] = { { x, w, y }, { y, w, x }, { y, x, dw } };
    for (i32 i = 0; i < 3; i++) {
        if (ops[i] == OP_CONV2D_GRAD_X && l->in == 3) continue; /* nobody asks for the image's */
        struct attrs at = { .stride = l->stride, .pad = pad, .dims = operands[i][2].type.shape };
        struct call  c  = { .op       = ops[i],
                            .at       = &at,
                            .in       = operands[i],
                            .in_count = 2,
                            .out      = &operands[i][2],
                            .pool     = pool };
        total_s[i] += (f64)l->count * bench_op(l, &c, flops, word, scratch);
        total_flops[i] += (f64)l->count * flops;
    }
}

int main(int argc, char **argv)
{
    struct arena perm    = arena_open((i64)1 << 32);
    i32          threads = argc > 1 ? atoi(argv[1]) : pool_machine_threads();
    struct pool *pool    = pool_open(&perm, threads);
    enum dtype   d       = argc > 2 && !strcmp(argv[2], "bf16") ? DT_BF16 : DT_F32;
    if (threads == 1) clock_id = CLOCK_THREAD_CPUTIME_ID;
    f64 s[3] = { 0 }, flops[3] = { 0 };
    for (i64 i = 0; i < COUNT_OF(layers); i++)
        bench_layer(&layers[i], d, pool, argc > 3 ? argv[3] : NULL, perm, s, flops);

    const char *names[3] = { "conv2d", "conv2d_grad_x", "conv2d_grad_w" };
    for (i32 i = 0; i < 3; i++)
        printf("net  %-14s %8.1f ms %7.1f GFLOP/s\n", names[i], 1e3 * s[i], flops[i] / s[i] * 1e-9);
    printf("net  %-14s %8.1f ms %7.1f GFLOP/s, %d threads\n", "all", 1e3 * (s[0] + s[1] + s[2]),
           (flops[0] + flops[1] + flops[2]) / (s[0] + s[1] + s[2]) * 1e-9, pool_threads(pool));
    pool_close(pool);
    return 0;
}
