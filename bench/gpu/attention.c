/* attention.c - every GPU kernel of attention and of its gradient, at shapes of real models and at small odd ones:
 *
 *     cmake --build build --target bench_attention && build/bench_attention [OP [KERNEL [FROM [TO]]]]
 *
 * OP, KERNEL: only those with it in their names, at shapes FROM to TO - 1. One line a kernel: the median time, TFLOP/s
 * of the products that are needed (two forwards, five in the gradient; half of them where it is causal), whether runs
 * gave the same bits, workspace, and how far its results are from the next kernel's, of small shapes the plainest's:
 * norm of the difference over the norm, of the result or of dq, dk and dv. Exit 1 if one is farther than rounding to 16
 * bits explains, or gave other bits where it must not. */
#include "backend/cuda/module/gpu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 10, REPEATS_MIN = 3, PERIOD = 1000003 };
static const f64 enough_ms = 300; /* of runs of one kernel */
/* Sums of rounded numbers, rounded: 2^-9 each for p, ds and the result. Seen: 3e-3. */
static const f64 far_off = 1e-2;

struct shape_case {
    i64  B, T, H, G, D, window;
    bool causal, documents, small;
};

static const struct shape_case cases[] = {
    { 1, 128, 1, 1, 128, 0, false, false, true },   { 1, 128, 1, 1, 128, 0, true, false, true },
    { 2, 256, 2, 1, 128, 0, false, false, true },   { 2, 384, 4, 2, 128, 0, true, false, true },
    { 1, 1024, 8, 2, 128, 0, true, false, true },   { 3, 512, 6, 3, 128, 0, false, false, true },
    { 2, 768, 4, 1, 128, 100, true, false, true },  { 2, 1024, 4, 2, 128, 0, true, true, true },
    { 8, 512, 16, 4, 128, 300, true, true, true },  { 5, 640, 8, 8, 128, 0, true, false, true },
    { 8, 2048, 16, 4, 128, 0, true, false, false }, { 2, 8192, 16, 4, 128, 0, true, false, false },
    { 1, 32768, 16, 4, 128, 0, true, false, false }, { 4, 4096, 16, 16, 128, 0, true, false, false },
    { 4, 4096, 16, 16, 128, 0, false, false, false }, { 2, 8192, 16, 4, 128, 1024, true, false, false },
    { 64, 1024, 12, 12, 64, 0, true, false, false },
    /* other sizes of heads, and as long as sequences get */
    { 2, 4096, 16, 16, 80, 0, true, false, false }, { 2, 4096, 16, 16, 96, 0, true, false, false },
    { 2, 4096, 8, 2, 256, 0, true, false, false },  { 1, 65536, 2, 1, 64, 0, true, false, false },
    { 1, 65536, 2, 1, 80, 0, true, false, false },  { 1, 65536, 2, 1, 96, 0, true, false, false },
    { 1, 65536, 2, 1, 128, 0, true, false, false }, { 1, 65536, 2, 1, 256, 0, true, false, false },
    { 1, 65536, 2, 1, 128, 4096, true, false, false }, { 1, 65536, 2, 1, 128, 0, true, true, false },
};

struct run {
    struct gpu    gpu;
    struct attrs  at;
    struct tensor qkv, o, lse, d_o, positions, dqkv;
    i32           failed;
    const char   *op, *kernel; /* wanted, or NULL */
};

static void check(cudaError_t e)
{
    if (!e) return;
    fprintf(stderr, "bench_attention: %s\n", cudaGetErrorString(e));
    exit(3);
}

static struct tensor tensor_new(enum dtype t, struct shape s)
{
    struct tensor x = { NULL, type_of(t, s), shape_count(s) };
    check(cudaMalloc(&x.data, (size_t)type_bytes(x.type)));
    check(cudaMemset(x.data, 0xff, (size_t)type_bytes(x.type))); /* NaN: what is not written is seen */
    return x;
}

/* About normal: a sum of uniform numbers. The same PERIOD numbers again and again. */
static void fill(struct tensor *x, u64 *seed)
{
    u16 *host = malloc(PERIOD * sizeof(u16));
    for (i64 i = 0; i < PERIOD; i++) {
        f32 sum = 0;
        for (i32 k = 0; k < 4; k++) {
            *seed = *seed * 6364136223846793005u + 1442695040888963407u;
            sum += (f32)(*seed >> 40) * 0x1p-24f - 0.5f;
        }
        sum *= 1.7320508f; /* variance 4 / 12 */
        u32 bits;
        memcpy(&bits, &sum, 4);
        host[i] = (u16)((bits + 0x8000) >> 16);
    }
    for (i64 at = 0; at < x->count; at += PERIOD)
        check(cudaMemcpy((u16 *)x->data + at, host, (size_t)MIN(PERIOD, x->count - at) * 2,
                         cudaMemcpyHostToDevice));
    free(host);
}

static void fill_positions(struct tensor *x, i64 T, u64 *seed)
{
    i32 *host = malloc((size_t)x->count * sizeof *host);
    for (i64 i = 0; i < x->count; i++) {
        *seed   = *seed * 6364136223846793005u + 1442695040888963407u;
        host[i] = i % T == 0 || (*seed >> 40) % 150 == 0 ? 0 : host[i - 1] + 1;
    }
    check(cudaMemcpy(x->data, host, (size_t)x->count * 4, cudaMemcpyHostToDevice));
    free(host);
}

static f32 of_bf16(u16 x)
{
    u32 bits = (u32)x << 16;
    f32 y;
    memcpy(&y, &bits, 4);
    return y;
}

/* |a - b| / |b| over columns [from, from + width) of rows. NaN where either has one. */
static f64 apart(const u16 *a, const u16 *b, i64 rows, i64 stride, i64 from, i64 width)
{
    f64 sum = 0, all = 0;
    i64 step = rows * width > 20000000 ? rows * width / 20000000 + 1 : 1; /* every so many rows */
    for (i64 r = 0; r < rows; r += step)
        for (i64 k = r * stride + from; k < r * stride + from + width; k++) {
            f64 x = of_bf16(a[k]), y = of_bf16(b[k]);
            sum += (x - y) * (x - y);
            all += y * y;
        }
    return sqrt(sum / all);
}

struct timed {
    f64  ms;
    bool same;
    u16 *result;
};

static int by_size(const void *a, const void *b)
{
    f32 x = *(const f32 *)a, y = *(const f32 *)b;
    return (x > y) - (x < y);
}

static struct timed time_kernel(struct run *r, const struct gpu_kernel *k, struct gpu_call c)
{
    f32          ms[REPEATS], all_ms = 0;
    i32          count = 0;
    size_t       bytes = (size_t)type_bytes(c.out[0].type);
    struct timed t     = { 0, true, malloc(bytes) };
    u16         *again = malloc(bytes);
    cudaEvent_t  from, to;
    check(cudaEventCreate(&from));
    check(cudaEventCreate(&to));
    c.work_bytes = k->work ? k->work(&c) : 0;
    check(cudaMalloc(&c.work, (size_t)MAX(1, c.work_bytes)));
    check(cudaMemset(c.work, 0xff, (size_t)MAX(1, c.work_bytes)));
    struct arena perm = arena_open(1 << 24);
    if (k->plan) c.plan = k->plan(&c, &perm);
    for (bool last = false; !last; count++) {
        i32 i = count;
        check(cudaMemsetAsync(c.out[0].data, 0xff, bytes, r->gpu.stream));
        check(cudaEventRecord(from, r->gpu.stream));
        k->run(&c);
        check(cudaGetLastError());
        check(cudaEventRecord(to, r->gpu.stream));
        check(cudaEventSynchronize(to));
        check(cudaEventElapsedTime(&ms[i], from, to));
        all_ms += ms[i];
        last = i == REPEATS - 1 || (i >= REPEATS_MIN - 1 && (f64)all_ms > enough_ms);
        if (i > 1 && !last) continue; /* copies take longer than kernels */
        check(cudaMemcpy(i ? again : t.result, c.out[0].data, bytes, cudaMemcpyDeviceToHost));
        if (i) t.same &= !memcmp(again, t.result, bytes);
    }
    qsort(ms, (size_t)count, sizeof *ms, by_size);
    t.ms = (f64)ms[count / 2];
    check(cudaFree(c.work));
    arena_close(&perm);
    free(again);
    return t;
}

static f64 flops_of(const struct shape_case *s, bool grad)
{
    f64 pairs = s->causal ? (f64)s->T * (f64)(s->T + 1) / 2 : (f64)s->T * (f64)s->T;
    if (s->window && s->window < s->T)
        pairs = (f64)s->window * ((f64)s->T - (f64)s->window / 2 + 0.5);
    return (grad ? 10 : 4) * (f64)(s->B * s->H * s->D) * pairs;
}

static void compare(struct run *r, const struct shape_case *s, const struct gpu_call *c,
                    const struct gpu_kernel *k)
{
    bool grad = c->op == OP_ATTENTION_GRAD;
    i64  rows = s->B * s->T, H = s->H * s->D, G = s->G * s->D, W = grad ? H + 2 * G : H;
    const struct gpu_kernel *other = gpu_kernel_after(c, k), *next;
    while (s->small && other && (next = gpu_kernel_after(c, other))) other = next;
    struct timed got = time_kernel(r, k, *c), want = { 0 };
    printf("%-15s %-8s %2lld x %5lld, %2lld/%-2lld heads of %3lld%s%s", op_info(c->op)->name, k->name,
           (long long)s->B, (long long)s->T, (long long)s->H, (long long)s->G, (long long)s->D,
           s->causal ? ", causal" : "", s->documents ? ", documents" : "");
    if (s->window) printf(", window %lld", (long long)s->window);
    printf(": %8.3f ms %6.1f TFLOP/s, bits %s, %lld MiB", got.ms, flops_of(s, grad) / got.ms * 1e-9,
           got.same ? "repeat" : "DIFFER", k->work ? (long long)(k->work(c) >> 20) : 0ll);
    r->failed += !got.same && !c->gpu->any_order;
    if (other) {
        want     = time_kernel(r, other, *c);
        f64 o[3] = { apart(got.result, want.result, rows, W, 0, H) };
        if (grad) {
            o[1] = apart(got.result, want.result, rows, W, H, G);
            o[2] = apart(got.result, want.result, rows, W, H + G, G);
        }
        bool bad = !(o[0] <= far_off) || !(o[1] <= far_off) || !(o[2] <= far_off);
        printf(", off %s by %.1e %.1e %.1e%s", other->name, o[0], o[1], o[2], bad ? " WRONG" : "");
        r->failed += bad;
    }
    printf("\n");
    fflush(stdout);
    free(got.result);
    free(want.result);
}

static void try_shape(struct run *r, const struct shape_case *s, u64 *seed)
{
    i64 W     = (s->H + 2 * s->G) * s->D;
    r->at     = (struct attrs){ .heads = s->H, .kv_heads = s->G, .causal = s->causal,
                                .window = s->window, .scale = 1 / sqrt((f64)s->D) };
    r->qkv    = tensor_new(DT_BF16, shape_3(s->B, s->T, W));
    r->dqkv   = tensor_new(DT_BF16, shape_3(s->B, s->T, W));
    r->o      = tensor_new(DT_BF16, shape_3(s->B, s->T, s->H * s->D));
    r->d_o    = tensor_new(DT_BF16, shape_3(s->B, s->T, s->H * s->D));
    r->lse    = tensor_new(DT_F32, shape_3(s->B, s->H, s->T));
    r->positions = tensor_new(DT_I32, shape_2(s->B, s->T));
    fill(&r->qkv, seed);
    fill(&r->d_o, seed);
    fill_positions(&r->positions, s->T, seed);
    struct tensor   in[]   = { r->qkv, r->positions },
                  grad[]   = { r->d_o, r->qkv, r->o, r->lse, r->positions },
                  out[]    = { r->o, r->lse };
    struct gpu_call call[] = {
        { .op = OP_ATTENTION, .at = &r->at, .in = in, .in_count = 1 + s->documents, .out = out, .gpu = &r->gpu },
        { .op = OP_ATTENTION_GRAD, .at = &r->at, .in = grad, .in_count = 4 + s->documents,
          .out = &r->dqkv, .gpu = &r->gpu },
    };
    for (i32 i = 0; i < 2; i++) {
        const struct gpu_kernel *k = gpu_kernel_choose(&call[i]), *first = k;
        for (; k; k = gpu_kernel_after(&call[i], k)) {
            if (r->op && !strstr(op_info(call[i].op)->name, r->op)) continue;
            if (r->kernel && !strstr(k->name, r->kernel)) continue;
            if (!gpu_kernel_after(&call[i], k) && k != first) break; /* the plainest is no rival */
            compare(r, s, &call[i], k);
        }
        if (!i && first) { /* what the gradient reads */
            struct timed t = time_kernel(r, first, call[0]);
            free(t.result);
        }
    }
    void *all[] = { r->qkv.data, r->dqkv.data, r->o.data, r->d_o.data, r->lse.data, r->positions.data };
    for (i32 i = 0; i < COUNT_OF(all); i++) check(cudaFree(all[i]));
}

int main(int argc, char **argv)
{
    struct run            r = { .op = argc > 1 ? argv[1] : NULL, .kernel = argc > 2 ? argv[2] : NULL };
    struct cudaDeviceProp p;
    struct timespec       now;
    clock_gettime(CLOCK_REALTIME, &now);
    u64 seed = (u64)now.tv_sec * 1000000007u + (u64)now.tv_nsec;
    printf("seed %llu\n", (unsigned long long)seed);
    check(cudaGetDeviceProperties(&p, 0));
    check(cudaStreamCreate(&r.gpu.stream));
    r.gpu.processors   = p.multiProcessorCount;
    r.gpu.capability   = p.major * 10 + p.minor;
    r.gpu.code         = gpu_code();
    r.gpu.shared_bytes = (i64)p.sharedMemPerBlockOptin;
    i64 from = argc > 3 ? atoll(argv[3]) : 0, to = argc > 4 ? MIN(atoll(argv[4]), COUNT_OF(cases)) : COUNT_OF(cases);
    for (i64 i = from; i < to; i++) try_shape(&r, &cases[i], &seed);
    printf("%d wrong\n", r.failed);
    return r.failed != 0;
}
