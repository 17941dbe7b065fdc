/* onednn.c - the convolutions of ResNet-20 by oneDNN, for comparison with bench_conv.
 *
 *     cmake --build build --target bench_onednn && OMP_NUM_THREADS=1 build/bench_onednn
 *
 * Images are NHWC as ours; weights are in oneDNN's favourite layout, and turning them from and to
 * OHWI counts, because a training step must. Time is that of the one thread; least of REPEATS.
 * Both algorithms are asked for; oneDNN 2.6 has Winograd for few machines and shapes. */
#include "resnet20.h"
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 40, FORWARD = 0, GRAD_X, GRAD_W, OPS };

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static void check(dnnl_status_t status)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "bench_onednn: oneDNN says %d\n", (int)status);
    exit(3);
}

static dnnl_memory_t memory_new(const dnnl_memory_desc_t *type)
{
    size_t        bytes = dnnl_memory_desc_get_size(type);
    f32          *data  = aligned_alloc(64, (bytes + 63) / 64 * 64);
    dnnl_memory_t m;
    if (!data) exit(3);
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = (f32)(i * 2654435761 % 1000003) / 1000003 - 0.5f;
    check(dnnl_memory_create(&m, type, engine, data));
    return m;
}

struct types {
    dnnl_memory_desc_t x, y, w, ohwi;
    dnnl_dims_t        stride, pad;
};

static struct types types_of(const struct layer *l)
{
    i64          out = layer_out_size(l), pad = l->kernel / 2;
    struct types t = { .stride = { l->stride, l->stride }, .pad = { pad, pad } };
    dnnl_dims_t  x = { BATCH, l->in, l->size, l->size }, y = { BATCH, l->out, out, out };
    dnnl_dims_t  w = { l->out, l->in, l->kernel, l->kernel };
    check(dnnl_memory_desc_init_by_tag(&t.x, 4, x, dnnl_f32, dnnl_nhwc));
    check(dnnl_memory_desc_init_by_tag(&t.y, 4, y, dnnl_f32, dnnl_nhwc));
    check(dnnl_memory_desc_init_by_tag(&t.w, 4, w, dnnl_f32, dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&t.ohwi, 4, w, dnnl_f32, dnnl_ohwi));
    return t;
}

/* NULL where oneDNN cannot do it so. */
static dnnl_primitive_desc_t convolution(const struct types *t, int op, dnnl_alg_kind_t how)
{
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_desc_t   first, p;
    check(dnnl_convolution_forward_desc_init(&forward, dnnl_forward_training, how, &t->x, &t->w,
                                             NULL, &t->y, t->stride, t->pad, t->pad));
    if (dnnl_primitive_desc_create(&first, &forward, NULL, engine, NULL)) return NULL;
    if (op == FORWARD) return first;
    if (op == GRAD_X)
        check(dnnl_convolution_backward_data_desc_init(&backward, how, &t->x, &t->w, &t->y,
                                                       t->stride, t->pad, t->pad));
    else
        check(dnnl_convolution_backward_weights_desc_init(&backward, how, &t->x, &t->w, NULL, &t->y,
                                                          t->stride, t->pad, t->pad));
    return dnnl_primitive_desc_create(&p, &backward, NULL, engine, first) ? NULL : p;
}

static f64 measure(const struct types *t, int op, dnnl_primitive_desc_t p)
{
    const dnnl_memory_desc_t *own = dnnl_primitive_desc_query_md(
        p, op == GRAD_W ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    dnnl_memory_t         x = memory_new(&t->x), y = memory_new(&t->y), w = memory_new(own);
    dnnl_memory_t         ohwi = memory_new(&t->ohwi);
    dnnl_primitive_t      work, turn;
    dnnl_primitive_desc_t turning;
    check(dnnl_primitive_create(&work, p));
    check(dnnl_reorder_primitive_desc_create(&turning, op == GRAD_W ? own : &t->ohwi, engine,
                                             op == GRAD_W ? &t->ohwi : own, engine, NULL));
    check(dnnl_primitive_create(&turn, turning));
    dnnl_exec_arg_t operands[] = {
        { op == GRAD_X ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, x },
        { op == GRAD_W ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, w },
        { op == FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, y },
    };
    dnnl_exec_arg_t weights[] = { { DNNL_ARG_FROM, op == GRAD_W ? w : ohwi },
                                  { DNNL_ARG_TO, op == GRAD_W ? ohwi : w } };
    f64             best      = 1e30;
    for (i32 i = 0; i < REPEATS; i++) {
        f64 begin = now_s();
        if (op != GRAD_W) check(dnnl_primitive_execute(turn, stream, 2, weights));
        check(dnnl_primitive_execute(work, stream, 3, operands));
        if (op == GRAD_W) check(dnnl_primitive_execute(turn, stream, 2, weights));
        check(dnnl_stream_wait(stream));
        best = MIN(best, now_s() - begin);
    }
    return best;
}

/* Seconds of the better algorithm. */
static f64 bench_op(const struct layer *l, int op)
{
    static const char *const     names[OPS] = { "conv2d", "conv2d_grad_x", "conv2d_grad_w" };
    static const dnnl_alg_kind_t hows[] = { dnnl_convolution_direct, dnnl_convolution_winograd };
    struct types                 t      = types_of(l);
    f64                          best   = 1e30;
    for (i32 i = 0; i < 2; i++) {
        dnnl_primitive_desc_t p = convolution(&t, op, hows[i]);
        const char           *how;
        if (!p) continue;
        check(dnnl_primitive_desc_query(p, dnnl_query_impl_info_str, 0, &how));
        f64 s = measure(&t, op, p);
        best  = MIN(best, s);
        printf("%2lldx%-2lld %2lld -> %2lld %lldx%lld/%lld  %-14s  %-23s %8.3f ms %7.1f GFLOP/s\n",
               (long long)l->size, (long long)l->size, (long long)l->in, (long long)l->out,
               (long long)l->kernel, (long long)l->kernel, (long long)l->stride, names[op], how,
               1e3 * s, layer_flops(l) / s * 1e-9);
    }
    return best;
}

int main(void)
{
    f64 total_s = 0;
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    for (i64 i = 0; i < COUNT_OF(layers); i++)
        for (int op = 0; op < OPS; op++)
            if (op != GRAD_X || layers[i].in != 3) /* nobody asks for the image's */
                total_s += (f64)layers[i].count * bench_op(&layers[i], op);
    printf("net  all            %8.1f ms\n", 1e3 * total_s);
    return 0;
}
