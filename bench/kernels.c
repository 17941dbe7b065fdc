/* kernels.c - how fast each kernel is at the hot shapes of the examples: a classifier (32 x 784),
 * a small GPT (8 x 256 tokens, 384 wide), a click ranker (2,048 rows, 260,000 table rows).
 *
 *     cmake --build build --target bench_kernels && build/bench_kernels [THREADS [OP [KERNEL]]]
 *
 * One line for each case and kernel that takes it (OP, KERNEL: only those with it in their names):
 * the least time of several runs, FLOPs and bytes as the op table counts them. A star marks the
 * kernel that a run would use. With one thread the clock is that thread's own, so that neighbours
 * on the machine count less. An op that maps follow (matmul+gelu) stands beside the same without. */
#include "backend/cpu/flush.h"
#include "backend/cpu/kernel.h"
#include "base/arena.h"
#include "base/half.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS_MIN = 7, REPEATS_MAX = 1000, IN_MAX = 6 };
static const f64 budget_s    = 0.1; /* of one measurement */
static const i64 arena_bytes = (i64)2 << 30;

struct bench_case {
    i32          op;
    const char  *in; /* types, separated by blanks; T is f32, bf16 and f16 in turn */
    struct attrs at;
};

#define GPT_HEADS .heads = 6, .kv_heads = 6, .causal = 1, .scale = 0.125
#define THEN(first) .then = { .count = 1, .op = { OP_##first } }
#define KEEP(first) .then = { .count = 1, .keep = true, .op = { OP_##first } }
#define THEN_2(first, second) .then = { .count = 2, .op = { OP_##first, OP_##second } }
#define TABLE .dims = { 2, { 260000, 16 } }

static const struct bench_case cases[] = {
    { OP_MATMUL, "f32[32,784] f32[128,784] f32[128]", { .tb = 1 } },
    { OP_MATMUL, "f32[32,128] f32[32,784]", { .ta = 1 } },
    { OP_MATMUL, "f32[32,128] f32[10,128] f32[10]", { .tb = 1 } },
    { OP_MATMUL, "f32[32,10] f32[32,128]", { .ta = 1 } },
    { OP_MATMUL, "f32[32,10] f32[10,128]", { 0 } },
    { OP_MATMUL, "f32[2048,384] f32[1152,384]", { .tb = 1 } },
    { OP_MATMUL, "f32[2048,384] f32[384,384]", { .tb = 1 } },
    { OP_MATMUL, "f32[2048,384] f32[1536,384]", { .tb = 1 } },
    { OP_MATMUL, "f32[2048,1536] f32[384,1536]", { .tb = 1 } },
    { OP_MATMUL, "f32[2048,384] f32[256,384]", { .tb = 1 } },
    { OP_MATMUL, "f32[2048,1152] f32[1152,384]", { 0 } },
    { OP_MATMUL, "f32[2048,384] f32[384,384]", { 0 } },
    { OP_MATMUL, "f32[2048,1536] f32[1536,384]", { 0 } },
    { OP_MATMUL, "f32[2048,384] f32[384,1536]", { 0 } },
    { OP_MATMUL, "f32[2048,1152] f32[2048,384]", { .ta = 1 } },
    { OP_MATMUL, "f32[2048,384] f32[2048,384]", { .ta = 1 } },
    { OP_MATMUL, "f32[2048,1536] f32[2048,384]", { .ta = 1 } },
    { OP_MATMUL, "f32[2048,384] f32[2048,1536]", { .ta = 1 } },
    { OP_MATMUL, "f32[2048,429] f32[256,429] f32[256]", { .tb = 1 } },
    { OP_MATMUL, "f32[2048,256] f32[64,256] f32[64]", { .tb = 1 } },
    { OP_MATMUL, "f32[2048,256] f32[256,429]", { 0 } },
    { OP_MATMUL, "f32[2048,256] f32[2048,429]", { .ta = 1 } },
    { OP_MATMUL, "f32[1024,1024] f32[1024,1024]", { 0 } },
    { OP_MATMUL, "f32[32,1024] f32[4096,1024]", { .tb = 1 } },
    { OP_MATMUL, "bf16[2048,384] bf16[1152,384]", { .tb = 1 } },
    { OP_MATMUL, "bf16[2048,384] bf16[384,384]", { .tb = 1 } },
    { OP_MATMUL, "bf16[2048,384] bf16[1536,384]", { .tb = 1 } },
    { OP_MATMUL, "bf16[2048,1536] bf16[384,1536]", { .tb = 1 } },
    { OP_MATMUL, "bf16[2048,1536] bf16[1536,384]", { 0 } },
    { OP_MATMUL, "bf16[2048,384] bf16[384,1536]", { 0 } },
    { OP_MATMUL, "bf16[2048,1536] bf16[2048,384]", { .ta = 1 } },
    { OP_MATMUL, "bf16[2048,384] bf16[2048,1536]", { .ta = 1 } },
    { OP_MATMUL, "bf16[2048,384] bf16[2048,384]", { .ta = 1 } },
    { OP_MATMUL, "bf16[32,784] bf16[128,784]", { .tb = 1 } },
    { OP_MATMUL, "bf16[1024,1024] bf16[1024,1024]", { 0 } },
    { OP_MATMUL, "f16[1024,1024] f16[1024,1024]", { 0 } },
    { OP_MATMUL, "f32[2048,384] f32[384,1536]", { THEN(RELU) } },
    { OP_MATMUL, "f32[2048,384] f32[1536,384]", { .tb = 1, KEEP(GELU) } },
    { OP_MATMUL, "f32[2048,384] f32[384,1536] f32[2048,1536]", { THEN(GELU_GRAD) } },
    { OP_MATMUL, "f32[2048,1536] f32[384,1536] f32[2048,384]", { .tb = 1, THEN(ADD) } },
    { OP_ATTENTION, "f32[8,256,1152]", { GPT_HEADS } },
    { OP_ATTENTION, "bf16[8,256,1152]", { GPT_HEADS } },
    { OP_ATTENTION_GRAD,
      "f32[8,256,384] f32[8,256,1152] f32[8,256,384] f32[8,6,256]",
      { GPT_HEADS } },
    { OP_ATTENTION_GRAD,
      "bf16[8,256,384] bf16[8,256,1152] bf16[8,256,384] f32[8,6,256]",
      { GPT_HEADS } },
    { OP_ATTENTION, "f32[2,1024,1152]", { GPT_HEADS } },
    { OP_ATTENTION, "bf16[2,1024,1152]", { GPT_HEADS } },
    { OP_ATTENTION_GRAD,
      "f32[2,1024,384] f32[2,1024,1152] f32[2,1024,384] f32[2,6,1024]",
      { GPT_HEADS } },
    { OP_ATTENTION_GRAD,
      "bf16[2,1024,384] bf16[2,1024,1152] bf16[2,1024,384] f32[2,6,1024]",
      { GPT_HEADS } },
    { OP_LAYERNORM, "T[2048,384] f32[384] f32[384]", { .eps = 1e-5 } },
    { OP_LAYERNORM_GRAD, "T[2048,384] T[2048,384] f32[384] f32[2048] f32[2048]", { 0 } },
    { OP_LAYERNORM_GRAD,
      "T[2048,384] T[2048,384] f32[384] f32[2048] f32[2048] T[2048,384]",
      { THEN(ADD) } },
    { OP_ADD_LAYERNORM, "T[2048,384] T[2048,384] f32[384] f32[384]", { .eps = 1e-5 } },
    { OP_RMSNORM, "T[2048,384] f32[384]", { .eps = 1e-5 } },
    { OP_GELU, "T[2048,1536]", { 0 } },
    { OP_GELU_GRAD, "T[2048,1536] T[2048,1536]", { 0 } },
    { OP_RELU, "T[2048,1536]", { 0 } },
    { OP_TANH, "T[2048,1536]", { 0 } },
    { OP_EXP, "T[2048,1536]", { 0 } },
    { OP_ADD, "T[2048,384] T[2048,384]", { 0 } },
    { OP_ADD, "T[2048,1536] T[1536]", { 0 } },
    { OP_ADD, "T[128,32,32,16] T[128,32,32,16]", { 0 } },
    { OP_RELU, "T[128,32,32,16]", { 0 } },
    { OP_ADD, "T[128,32,32,16] T[128,32,32,16]", { THEN(RELU) } },
    { OP_SWIGLU, "T[2048,2048]", { 0 } },
    { OP_CAST, "T[2048,1536]", { .dtype = DT_F32 } },
    { OP_CAST, "f32[2048,1536]", { .dtype = DT_BF16 } },
    { OP_CAST, "f32[2048,1536]", { .dtype = DT_F16 } },
    { OP_DROPOUT, "T[8,256,384] i32[4]", { .key = 1, .p = 0.1 } },
    { OP_ROPE, "T[8,256,1152]", { .heads = 12, .head_dim = 64, .base = 10000 } },
    { OP_QKNORM, "T[8,256,1152]", { .heads = 12, .head_dim = 64, .eps = 1e-6 } },
    { OP_SUM, "T[2048,1536]", { .axis = 0, .count = 1, .wide = 1 } },
    { OP_SUM, "T[32,128]", { .axis = 0, .count = 1 } },
    { OP_BATCHNORM, "T[128,16,16,32] f32[32] f32[32] f32[32] f32[32]", { .eps = 1e-5 } },
    { OP_BATCHNORM, "T[128,32,32,16] f32[16] f32[16] f32[16] f32[16]", { .eps = 1e-5 } },
    { OP_BATCHNORM,
      "T[128,32,32,16] f32[16] f32[16] f32[16] f32[16] T[128,32,32,16]",
      { .eps = 1e-5, THEN_2(ADD, RELU) } },
    { OP_BATCHNORM_GRAD, "T[128,16,16,32] T[128,16,16,32] f32[32] f32[32] f32[32]", { 0 } },
    { OP_MAXPOOL, "T[64,32,32,64]", { .kernel = 2, .stride = 2 } },
    { OP_SOFTMAX, "T[2048,256]", { 0 } },
    { OP_XENT, "T[2048,256] i32[2048]", { 0 } },
    { OP_XENT_GRAD, "f32[2048] T[2048,256] i32[2048] f32[2048]", { 0 } },
    { OP_EMBEDDING, "T[260000,16] i32[2048,26]", { 0 } },
    { OP_EMBEDDING_GRAD, "T[2048,26,16] i32[2048,26]", { .wide = 1, TABLE } },
    { OP_TRANSPOSE, "T[2048,384]", { .dims = { 2, { 1, 0 } } } },
    { OP_SUMSQ, "f32[10740000]", { 0 } },
    { OP_ADAM, "f32[101770] f32[101770] f32[101770] f32[101770] f32[4] f32[1]", { .eps = 1e-8 } },
    { OP_ADAM,
      "f32[4287000] f32[4287000] f32[4287000] f32[4287000] f32[4] f32[1]",
      { .eps = 1e-8 } },
    { OP_ADAMW,
      "f32[10740000] f32[10740000] f32[10740000] f32[10740000] f32[4] f32[1]",
      { .eps = 1e-8, .decay = 0.1 } },
    { OP_SGD, "f32[10740000] f32[10740000] f32[10740000] f32[4] f32[1]", { 0 } },
    { OP_MUON, "f32[384,384] f32[384,384] f32[384,384] f32[4] f32[1]", { .scale = 1 } },
    { OP_MUON,
      "f32[384,384] f32[384,384] f32[384,384] f32[4] f32[1]",
      { .scale = 1, .dtype = DT_BF16 } },
    { OP_MUON, "f32[1536,384] f32[1536,384] f32[1536,384] f32[4] f32[1]", { .scale = 1 } },
    { OP_MUON,
      "f32[1536,384] f32[1536,384] f32[1536,384] f32[4] f32[1]",
      { .scale = 1, .dtype = DT_BF16 } },
};

static clockid_t clock_id = CLOCK_MONOTONIC;

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(clock_id, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

/* Floats in [0.1, 1.1): valid wherever a variance, a probability or a rate is wanted. Ids below
 * 256, or below the rows of the ranker's table. */
static struct tensor tensor_new(struct arena *perm, struct type type, i64 ids)
{
    struct tensor t = { NULL, type, shape_count(type.shape) };
    t.data          = arena_take(perm, t.count, dtype_bytes(type.dtype), 64);
    for (i64 i = 0; i < t.count; i++) {
        u32 random = (u32)((u64)i * 2654435761u) % 1000003;
        f32 number = 0.1f + (f32)random / 1000003;
        if (type.dtype == DT_F32) ((f32 *)t.data)[i] = number;
        else if (type.dtype == DT_BF16) ((u16 *)t.data)[i] = bf16_from_f32(number);
        else if (type.dtype == DT_F16) ((u16 *)t.data)[i] = f16_from_f32(number);
        else ((i32 *)t.data)[i] = (i32)(random % (u32)ids);
    }
    return t;
}

static f64 measure(const struct kernel *k, const struct call *c)
{
    f64 best = 1e30, begin = now_s();
    for (i32 i = 0; i < REPEATS_MAX && (i < REPEATS_MIN || now_s() - begin < budget_s); i++) {
        f64 start = now_s();
        kernel_run(k, c);
        best = MIN(best, now_s() - start);
    }
    return best;
}

/* The type that a word of a case names; t stands for T. */
static struct type type_named(struct str word, enum dtype t, struct arena scratch)
{
    struct type type;
    if (str_starts(word, STR("T")))
        word = str_cat(&scratch, dtype_name(t), str_sub(word, 1, word.len));
    ASSERT(type_parse(word, &type));
    return type;
}

static void bench(const struct bench_case *b, enum dtype t, const char *kernel, struct pool *pool,
                  struct arena scratch)
{
    struct tensor in[IN_MAX], out[OP_OUT_MAX];
    struct type   in_types[IN_MAX], out_types[OP_OUT_MAX];
    struct str    rest = str_of(b->in), word;
    struct err    err;
    struct sig    sig   = { in_types, 0, out_types, &b->at, b->op };
    bool          table = b->op == OP_EMBEDDING || b->op == OP_EMBEDDING_GRAD;
    while (str_cut(&rest, ' ', &word)) {
        in_types[sig.in_count] = type_named(word, t, scratch);
        in[sig.in_count]       = tensor_new(&scratch, in_types[sig.in_count], table ? 260000 : 256);
        sig.in_count++;
    }
    sig.in_count -= op_then_inputs(&b->at);
    ASSERT(op_types(&sig, &err) == STATUS_OK);
    for (i32 i = 0; i < op_result_count(b->op, &b->at); i++)
        out[i] = tensor_new(&scratch, out_types[i], 1);

    struct call          c    = { b->op, &b->at, in, sig.in_count, out, NULL, 0, pool, NULL };
    struct cost          cost = op_cost(&sig);
    struct str           name = op_text(&scratch, b->op, &b->at);
    const struct kernel *k, *chosen = kernel_choose(&c, false);
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        if (k->op != b->op || k->isa > kernel_isa() || (k->takes && !k->takes(&c))) continue;
        if (!strstr(k->name, kernel)) continue;
        struct arena a = scratch;
        c.work_bytes   = k->work ? k->work(&c) : 0;
        c.work         = arena_take(&a, c.work_bytes, 1, 64);
        f64 s          = measure(k, &c);
        printf("%-18.*s %-4.*s %-52.52s %c%-18s %10.1f us %7.1f GFLOP/s %6.1f GB/s\n",
               STR_ARG(name), STR_ARG(dtype_name(t)), b->in, k == chosen ? '*' : ' ',
               k->name, 1e6 * s, cost.flops / s / 1e9, cost.bytes / s / 1e9);
    }
    fflush(stdout);
}

int main(int count, char **arguments)
{
    i32          threads = count > 1 ? atoi(arguments[1]) : pool_machine_threads();
    const char  *op      = count > 2 ? arguments[2] : "";
    const char  *kernel  = count > 3 ? arguments[3] : "";
    u8          *pages   = pages_open(arena_bytes); /* as the backend's: huge ones */
    struct arena perm    = { .begin = pages, .end = pages + arena_bytes };
    flush_begin(); /* as the backend's, too */
    struct pool *pool = pool_open(&perm, threads);
    if (threads == 1) clock_id = CLOCK_THREAD_CPUTIME_ID;
    for (i64 i = 0; i < COUNT_OF(cases); i++)
        for (enum dtype t = DT_F32; t <= (strchr(cases[i].in, 'T') ? DT_F16 : DT_F32); t++)
            if (strstr(op_info(cases[i].op)->name, op)) bench(&cases[i], t, kernel, pool, perm);
    pool_close(pool);
    pages_close(pages, arena_bytes);
    return 0;
}
