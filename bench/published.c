/* published.c - runs that others have published, and what the planner says of them: `bench_published`; or
 * `bench_published RATES.csv MODEL BATCH`, a model on one H200 by rates of the caller's (docs/formats/rates.md).
 *
 * Time comes from our own estimate alone: rates of one H200, peaks of the GPU at hand, the network.
 * Nothing of the published figure goes into it. One JSON object a run; bench/published.py makes the
 * table. What the planner does not search is reckoned here, from first principles:
 * - tensor parallelism: two all-reduces of a block's activations each way (Shoeybi et al. 2019), and two
 *   more where the forward pass is recomputed; what one costs in PyTorch is the difference between
 *   torchtitan's 8B with it and without it (torch_all_reduce_s): its 70B and 405B are predicted from its 8B.
 * - the pipeline's bubble: (stages - 1) / micro-batches, over the parts of a GPU where they are interleaved.
 * - products on 8 bits, of all matrices but the head's: at twice the pace (the data sheet's peaks), and a
 *   pass over each operand for its largest number and one to cast it, at the rate of a cast.
 * - FSDP2's copies (torchtitan): a gathered weight is copied out of the buffer of its block, forward and backward, and
 *   a gradient into one, where it becomes f32 (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py).
 * Nothing is fused where a run's program fused nothing (eager PyTorch): the update of Composer's DecoupledAdamW takes
 * nine kernels, which read and write 22 numbers for each parameter where a fused one does 7. */
#include "plan/known.h"
#include "plan/search.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PERM_GIB = 16 };

#define MPT(d, w, h)                                                                               \
    {                                                                                              \
        .kind = KNOWN_DECODER, .depth = (d), .width = (w), .heads = (h), .kv_heads = (h),          \
        .head_dim = 128, .hidden = 4 * (w), .vocabulary = 50368, .positions = 8192, .experts = 1,  \
        .experts_used = 1, .traits = KNOWN_TIED                                                    \
    }
#define TORCHTITAN(what_, source_, model, gpus_, micro_, accumulate_, recompute_, tokens)          \
    .what = (what_), .source = (source_), .name = (model), .provider = "aws",                      \
    .machine = "p5.48xlarge", .context = 8192, .gpus = (gpus_), .micro = (micro_),                 \
    .accumulate = (accumulate_), .recompute = (recompute_), .tokens_s = (tokens), .hbm_tb_s = 2.4
static const struct published {
    const char         *what, *source;
    const char         *name; /* a known model, or `shape` */
    struct known        shape;
    const char         *provider, *machine;
    i64                 context, gpus, micro, accumulate;
    enum recompute_kind recompute;
    bool                sharded;
    bool                eager;    /* op by op, nothing fused: PyTorch uncompiled */
    f64                 tokens_s; /* a GPU */
    i64                 tensor, pipeline;
    f64                 bubble; /* of the pipeline, part of the time */
    bool                fp8;
    bool                torch, asynchronous; /* PyTorch's tensor parallelism */
    f64                 hbm_tb_s;            /* where it is not the data sheet's */
} runs[] = {
    { .what       = "frugal GPT-2 124M, one H200 (the rates' own source)",
      .source     = "bench/results/gpu-kernels-2026-11-15.txt",
      .name       = "gpt2",
      .provider   = "verda",
      .machine    = "H200",
      .context    = 1024,
      .gpus       = 1,
      .micro      = 64,
      .accumulate = 1,
      .tokens_s   = 582075 },
    { .what       = "frugal GPT-2 1558M, one H200 (likewise)",
      .source     = "the same",
      .name       = "gpt2-xl",
      .provider   = "verda",
      .machine    = "H200",
      .context    = 1024,
      .gpus       = 1,
      .micro      = 16,
      .accumulate = 1,
      .tokens_s   = 51797 },
    { .what       = "llm.c GPT-2 124M, 8 A100: 10 G tokens in 90 min, $20",
      .source     = "github.com/karpathy/llm.c/discussions/481, 2024-05-28",
      .name       = "gpt2",
      .provider   = "lambda",
      .machine    = "gpu_8x_a100_80gb_sxm4",
      .context    = 1024,
      .gpus       = 8,
      .micro      = 64,
      .accumulate = 1,
      .tokens_s   = 10e9 / (90 * 60) / 8 },
    { .what       = "llm.c GPT-2 124M, 8 H100",
      .source     = "modded-nanogpt, records/2024-10-13_llmc",
      .name       = "gpt2",
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 1024,
      .gpus       = 8,
      .micro      = 64,
      .accumulate = 1,
      .tokens_s   = 468000 },
    { .what       = "llm.c GPT-2 1558M, 8 H100: 24 h, $672",
      .source     = "llm.c, scripts/run_gpt2_1558M.sh",
      .name       = "gpt2-xl",
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 1024,
      .gpus       = 8,
      .micro      = 16,
      .accumulate = 8,
      .tokens_s   = 46800 },
    { TORCHTITAN("torchtitan Llama 3.1 8B, 8 H100, FSDP, compiled",
                 "torchtitan, benchmarks/llama3_h100_202412, table 1", "llama-3-8b", 8, 2, 1,
                 RECOMPUTE_EVERY, 6667),
      .sharded = true },
    { TORCHTITAN("the same on 128 H100", "the same, table 3", "llama-3-8b", 128, 2, 1,
                 RECOMPUTE_EVERY, 6514),
      .sharded = true },
    { TORCHTITAN("the same on 8 H100, 8 bits", "the same, table 1", "llama-3-8b", 8, 2, 1,
                 RECOMPUTE_EVERY, 8532),
      .sharded = true, .fp8 = true },
    { TORCHTITAN("the same on 128 H100, 8 bits", "the same, table 3", "llama-3-8b", 128, 2, 1,
                 RECOMPUTE_EVERY, 8380),
      .sharded = true, .fp8 = true },
    { TORCHTITAN("torchtitan Llama 3.1 70B, 256 H100, tensor 8, all recomputed",
                 "torchtitan, benchmarks/asyncTP_llama3_h100_2025-06", "llama-3.1-70b", 256, 16, 1,
                 RECOMPUTE_ALL, 597.3),
      .tensor = 8, .pipeline = 1, .torch = true },
    { TORCHTITAN("the same, asynchronous", "the same", "llama-3.1-70b", 256, 16, 1, RECOMPUTE_ALL,
                 652.4),
      .tensor = 8, .pipeline = 1, .torch = true, .asynchronous = true },
    { TORCHTITAN("the same, 8 bits", "the same", "llama-3.1-70b", 256, 16, 1, RECOMPUTE_ALL, 809.8),
      .tensor = 8, .pipeline = 1, .torch = true, .fp8 = true },
    { TORCHTITAN("the same, 8 bits, asynchronous", "the same", "llama-3.1-70b", 256, 16, 1,
                 RECOMPUTE_ALL, 942.4),
      .tensor = 8, .pipeline = 1, .torch = true, .fp8 = true, .asynchronous = true },
    { TORCHTITAN("torchtitan Llama 3.1 405B, 512 H100, tensor 8, pipeline 8",
                 "torchtitan, benchmarks/llama3_h100_202412, table 5", "llama-3.1-405b", 512, 4, 8,
                 RECOMPUTE_ALL, 100),
      .tensor = 8, .pipeline = 8, .torch = true, .bubble = 7.0 / 8, .fp8 = true,
      .asynchronous = true },
    { TORCHTITAN("the same, interleaved", "the same", "llama-3.1-405b", 512, 4, 8, RECOMPUTE_ALL,
                 128),
      .tensor = 8, .pipeline = 8, .torch = true, .bubble = 7.0 / (8 * 2), .fp8 = true,
      .asynchronous = true },
    { .what       = "MPT 1B, 8 H100, FSDP",
      .source     = "llm-foundry, scripts/train/benchmarking",
      .shape      = MPT(24, 2048, 16),
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 2048,
      .gpus       = 8,
      .micro      = 14,
      .accumulate = 1,
      .sharded    = true,
      .eager      = true,
      .tokens_s   = 45455 },
    { .what       = "MPT 3B, 16 H100, FSDP",
      .source     = "the same",
      .shape      = MPT(32, 2560, 20),
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 2048,
      .gpus       = 16,
      .micro      = 10,
      .accumulate = 3,
      .sharded    = true,
      .eager      = true,
      .tokens_s   = 24142 },
    { .what       = "MPT 7B, 8 H100, FSDP",
      .source     = "the same",
      .shape      = MPT(32, 4096, 32),
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 2048,
      .gpus       = 8,
      .micro      = 6,
      .accumulate = 1,
      .sharded    = true,
      .eager      = true,
      .tokens_s   = 10643 },
    { .what       = "MPT 13B, 8 H100, FSDP",
      .source     = "the same",
      .shape      = MPT(40, 5120, 40),
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 2048,
      .gpus       = 8,
      .micro      = 2,
      .accumulate = 1,
      .sharded    = true,
      .eager      = true,
      .tokens_s   = 4792 },
    { .what       = "MPT 30B, 8 H100, FSDP, all recomputed",
      .source     = "the same",
      .shape      = MPT(48, 7168, 56),
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 2048,
      .gpus       = 8,
      .micro      = 3,
      .accumulate = 21,
      .recompute  = RECOMPUTE_ALL,
      .sharded    = true,
      .eager      = true,
      .tokens_s   = 2002 },
    { .what       = "MPT 13B, 8 A100, FSDP",
      .source     = "the same",
      .shape      = MPT(40, 5120, 40),
      .provider   = "azure",
      .machine    = "ND96amsr_A100_v4",
      .context    = 2048,
      .gpus       = 8,
      .micro      = 2,
      .accumulate = 3,
      .sharded    = true,
      .eager      = true,
      .tokens_s   = 2262 },
    { .what       = "MPT 30B, 8 A100, FSDP, all recomputed",
      .source     = "the same",
      .shape      = MPT(48, 7168, 56),
      .provider   = "azure",
      .machine    = "ND96amsr_A100_v4",
      .context    = 2048,
      .gpus       = 8,
      .micro      = 3,
      .accumulate = 21,
      .recompute  = RECOMPUTE_ALL,
      .sharded    = true,
      .eager      = true,
      .tokens_s   = 916 },
    { .what       = "Llama 3 405B, 8,192 H100, tensor 8, pipeline 16: 430 TFLOP/s",
      .source     = "arXiv 2407.21783, table 4",
      .name       = "llama-3.1-405b",
      .provider   = "aws",
      .machine    = "p5.48xlarge",
      .context    = 8192,
      .gpus       = 8192,
      .micro      = 1,
      .accumulate = 32,
      .tensor     = 8,
      .pipeline   = 16,
      .bubble     = 15.0 / (32 * 8),
      .tokens_s   = 430e12 / (6 * 405.85e9 + 6 * 126 * 16384.0 * 8192) },
};

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_published: %s\n", err->text);
    exit((int)st);
}

static const struct plan_variant *variant_of(const struct plan_variants *v,
                                             enum recompute_kind         kind)
{
    for (i64 i = 0; i < PLAN_VARIANTS; i++) {
        const struct plan_variant *one = &v->of[PLAN_GPU][i];
        if (one->low && one->recompute.kind == kind) return one;
    }
    return NULL;
}

/* Seconds that products on 8 bits save of a micro-batch on one GPU. */
static f64 saved_by_8_bits_s(const struct published *p, const struct known *k,
                             const struct plan_row *one)
{
    struct op_time    ops[OP_COUNT];
    struct step_shape shape      = { .micro = p->micro, .accumulate = 1, .gpus = 1 };
    i64               count      = estimate_ops(one->device, &one->variant->work, &shape, 1, ops);
    f64               products_s = 0;
    for (i64 i = 0; i < count; i++)
        if (ops[i].op == OP_MATMUL) products_s += ops[i].seconds;
    f64 width = (f64)k->width, hidden = (f64)k->hidden, kv = (f64)(k->kv_heads * k->head_dim);
    f64 block  = 2 * width * (width + kv) + 3 * width * hidden;
    f64 again  = p->recompute == RECOMPUTE_ALL ? 2 : 1; /* the forward pass, so many times */
    f64 passes = (again + 2) * (f64)k->depth * block, head = 3 * width * (f64)k->vocabulary;
    f64 operands              = again * (3 * width + hidden) + 3 * width + 2 * kv + 2 * hidden;
    f64 cast_bytes            = 5 * operands * (f64)(k->depth * p->micro * p->context);
    const struct rate *cast   = &one->device->rates->of[OP_CAST][RATE_F32];
    f64                cast_s = cast_bytes / (one->device->target.bandwidth_bytes_s * cast->bytes);
    return products_s * passes / (passes + head) / 2 - cast_s;
}

/* Of a micro-batch: 2 + 2 bytes for each parameter on both ways, 2 + 4 for its gradient. */
static f64 fsdp2_copies_s(const struct plan_row *r, f64 parameters)
{
    return 14 * parameters / r->device->target.bandwidth_bytes_s;
}

/* What the program of such a run does besides, in a step. */
static f64 program_s(const struct published *p, const struct plan_row *r, f64 parameters)
{
    f64 copies = p->hbm_tb_s > 0 && p->sharded ? fsdp2_copies_s(r, parameters) : 0;
    f64 update = p->eager ? (22.0 / 7 - 1) * r->step.update_s : 0;
    return copies * (f64)p->accumulate + update;
}

/* An all-reduce of tensor parallelism as PyTorch runs it, with what the narrower products lose. From the 8B:
 * 12 sequences of 8,192 tokens on 8 GPUs, 4 all-reduces in each of 32 blocks, at 4,378 tokens/s a GPU, or
 * 4,809.4 asynchronously (torchtitan, benchmarks/asyncTP_llama3_h100_2025-06), against 6,667 without tensor
 * parallelism (llama3_h100_202412, table 1). */
static f64 torch_all_reduce_s(f64 bytes, bool asynchronous)
{
    f64 tokens = 12 * 8192, with = asynchronous ? 4809.4 : 4378, without = 6667;
    f64 one_s = tokens / 8 * (1 / with - 1 / without) / (4 * 32);
    return one_s * bytes / (2 * 4096 * tokens);
}

/* Seconds of a step whose samples are shared by tensor x pipeline GPUs. */
static f64 parallel_s(const struct published *p, const struct known *k, const struct plan_row *one,
                      f64 saved_s)
{
    f64 compute = one->step.forward_s + one->step.backward_s - saved_s;
    f64 bytes   = 2.0 * (f64)(k->width * p->context * p->micro);
    f64 times   = p->recompute == RECOMPUTE_ALL ? 6 : 4;
    f64 reduce  = p->torch ? torch_all_reduce_s(bytes, p->asynchronous)
                           : network_all_reduce_s(&one->device->network, bytes, p->tensor);
    f64 micro_s = (compute / (f64)p->tensor + times * reduce * (f64)k->depth) / (f64)p->pipeline;
    return micro_s * (f64)p->accumulate * (1 + p->bubble) + one->step.update_s / (f64)p->gpus;
}

static void tell(const struct published *p, const struct catalogue *c, const struct rates *rates,
                 struct arena perm, struct arena scratch)
{
    struct err           err;
    struct known         k = p->name ? *known_find(str_of(p->name)) : p->shape;
    struct model        *a, *b;
    struct str           differs;
    struct device        d;
    struct plan_variants v;
    bool                 split = p->tensor > 0;
    check(known_model_new(&k, 2, p->context, NULL, &perm, &a, &differs, &err), &err);
    check(known_model_new(&k, 4, p->context, NULL, &perm, &b, &differs, &err), &err);
    check(device_of_machine(c, catalogue_machine(c, str_of(p->provider), str_of(p->machine)), &perm,
                            &d, &err),
          &err);
    d.rates = rates;
    if (p->hbm_tb_s > 0) d.target.bandwidth_bytes_s = 1e12 * p->hbm_tb_s;
    d.target.memory_bytes    = INT64_MAX; /* it ran: whether it fits is not the question */
    struct plan_workload job = { .build       = model_build,
                                 .context     = a,
                                 .deeper      = b,
                                 .depth       = { 2, 4, k.depth },
                                 .batch_total = p->micro * p->accumulate * p->gpus,
                                 .steps       = 1 };
    job.config               = (struct compile_config){ .optimiser = OPTIMISER_ADAMW,
                                                        .clip      = 1,
                                                        .fuse      = p->eager ? 0 : FUSE_ALL };
    check(plan_compile(&perm, &job, &v, scratch, &err), &err);
    struct plan_row r = { .device     = &d,
                          .gpus       = split ? 1 : p->gpus,
                          .machines   = (p->gpus + d.units - 1) / d.units,
                          .variant    = variant_of(&v, p->recompute),
                          .precision  = DT_BF16,
                          .sharding   = { p->sharded ? SHARD_ALL : SHARD_NONE, false },
                          .micro      = p->micro,
                          .accumulate = split ? 1 : p->accumulate };
    if (!plan_cut(&job, &v, 1, &r)) exit(STATUS_NO);
    f64 saved = p->fp8 ? saved_by_8_bits_s(p, &k, &r) : 0;
    f64 step  = split ? parallel_s(p, &k, &r, saved) : r.step.step_s - saved * (f64)p->accumulate +
                                                program_s(p, &r, v.parameters);
    f64 per   = (f64)(p->micro * p->accumulate * p->context) / step;
    if (split) per /= (f64)(p->tensor * p->pipeline);
    printf("{\"run\": \"%s\", \"source\": \"%s\", \"told\": %.1f, \"published\": %.1f, "
           "\"mfu\": %.4f, \"memory_bytes\": %.0f}\n",
           p->what, p->source, per, p->tokens_s,
           per * v.model_flops / (f64)p->context / d.peak_flops_s[DT_BF16], r.memory_bytes);
}

int main(int argc, char **argv)
{
    struct arena perm = arena_open((i64)PERM_GIB << 30), scratch = arena_open((i64)PERM_GIB << 30);
    const struct catalogue *c = catalogue_new(&perm);
    static struct rates     rates;
    struct str              text;
    struct err              err;
    if (argc == 4) {
        struct published p = { .what       = argv[2],
                               .source     = argv[1],
                               .name       = argv[2],
                               .provider   = "verda",
                               .machine    = "H200",
                               .context    = 1024,
                               .gpus       = 1,
                               .micro      = strtol(argv[3], NULL, 10),
                               .accumulate = 1 };
        check(os_read_all(os_real(), str_of(argv[1]), &perm, &text, &err), &err);
        check(rates_parse(&rates, str_of(argv[1]), text, &err), &err);
        tell(&p, c, &rates, perm, scratch);
    }
    for (i64 i = 0; argc == 1 && i < COUNT_OF(runs); i++)
        tell(&runs[i], c, rates_of_gpus(), perm, scratch);
    return STATUS_OK;
}
