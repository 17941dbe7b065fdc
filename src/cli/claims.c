/* claims.c - `frugal help claims`: figures that circulate, ours, and why they differ. What can be
 * computed is, from the catalogue and the laws that plans are made of. */
#include "cli/help.h"
#include "plan/catalogue.h"
#include "plan/scaling.h"
#include <math.h>

struct facts {
    struct textbuf         *b;
    const struct catalogue *c;
    const struct machine   *p4d; /* 8 A100 of 40 GB */
    const struct gpu       *a100;
};

static void say_claim(struct textbuf *b, const char *claim)
{
    textbuf_fmt(b, "%s\"%s\"\n\n", b->len ? "\n\n" : "", claim);
}

static void claim_sizes(const struct facts *f)
{
    const f64     n_k = 0.2536, d_k = 1.7424;
    struct law    l = law_at(0), first;
    struct sizing s = law_best(&l, 1e21);
    law_find(STR("hoffmann1"), &first);
    say_claim(f->b, "Chinchilla: N = 0.2536 C^0.4995 and D = 1.7424 C^0.5005");
    textbuf_fmt(f->b,
                "Training costs 6 N D = %.2f C: %.2f times the budget. The half for tokens is near "
                "Hoffmann's first approach; parameters that go with it are %.4f C^%.4f. We use the "
                "replication of 2024, N = %.5f C^%.4f, and always take D = C / 6N: 1e21 FLOPs are "
                "%.2f billion parameters and %.0f billion tokens (`frugal scale 1e21`).",
                6 * n_k * d_k, 6 * n_k * d_k, first.line_k, first.line_a, l.line_k, l.line_a,
                s.parameters / 1e9, s.tokens / 1e9);
}

static void claim_a100_prices(const struct facts *f)
{
    const struct machine *m    = f->p4d;
    f64                   each = bill_part_usd_hour(m->on_demand_usd_h, (i64)m->gpus),
        spot_each              = bill_part_usd_hour(m->spot_usd_h, (i64)m->gpus);
    f64 hours                  = 1e21 / (f->a100->bf16_dense_tflops * 1e12 * 0.30) / 3600;
    say_claim(f->b, "p4d.24xlarge spot: $9.83 per A100-hour");
    textbuf_fmt(f->b,
                "That was the price of the instance with all of its eight GPUs: $1.23 for each, in "
                "2023. Now it is $%.2f an hour, $%.2f for each, and it changes.",
                m->spot_usd_h, spot_each);
    say_claim(f->b, "8 A100 on demand for 72 hours: $37,748");
    textbuf_fmt(f->b,
                "72 h of one p4d.24xlarge at $%.2f are $%.0f. The figure took the price of eight "
                "GPUs for that of one, and doubled it.",
                m->on_demand_usd_h, bill_estimate_usd(m->on_demand_usd_h, 72 * 3600.0));
    say_claim(f->b, "a single A100 on AWS at $3.21 an hour");
    textbuf_fmt(f->b, "There is none: A100s are sold in groups of eight there, at $%.2f for each.",
                each);
    say_claim(f->b, "1e21 FLOPs cost $50,000 on A100s");
    textbuf_fmt(f->b,
                "At 30 %% of %.0f TFLOP/s they take %.0f GPU-hours: $%.0f at $%.2f, $%.0f on spot.",
                f->a100->bf16_dense_tflops, hours, hours * each, each, hours * spot_each);
}

static void claim_spot(const struct facts *f)
{
    f64 low = INFINITY, high = -INFINITY;
    for (i64 i = 0; i < f->c->machine_count; i++) {
        const struct machine *m = &f->c->machines[i];
        if (!str_eq(m->provider, STR("aws")) || !m->gpus) continue;
        low  = fmin(low, spot_discount(m));
        high = fmax(high, spot_discount(m));
    }
    say_claim(f->b, "spot machines cost 70 % less");
    textbuf_fmt(f->b,
                "Machines with GPUs on AWS are %.0f to %.0f %% off in this catalogue, the p4d %.0f "
                "%%. Work lost to interruptions reduces that.",
                100 * low, 100 * high, 100 * spot_discount(f->p4d));
}

/* Bytes of activations of a layer in units of s b h: 34 + 5 a s / h (Korthikanti et al. 2022, equation
 * 2); with what attention recomputes 34; with everything recomputed 2. Figures of GPT-3. */
static void claim_recompute(const struct facts *f)
{
    const f64 heads = 96, width = 12288, tokens = 2048;
    f64       all = 34 + 5 * heads * tokens / width;
    say_claim(f->b, "gradient checkpointing: 30 % more compute, 70 % less activation memory");
    textbuf_fmt(
        f->b,
        "Two techniques. Recomputing everything costs %.0f %% more FLOPs (8 N a token instead "
        "of 6 N) and leaves %.0f %% less activations, %.0f %% less where flash attention "
        "keeps no scores. The %.0f %% belong to recomputing attention's scores alone, which costs "
        "%.1f %% "
        "(GPT-3), and which flash attention does anyway.",
        100 * (8.0 / 6 - 1), 100 * (1 - 2 / all), 100 * (1 - 2 / 34.0), 100 * (1 - 34 / all),
        100 * tokens / (6 * width));
}

static void claim_hardware(const struct facts *f)
{
    const struct gpu *h100 = catalogue_gpu(f->c, STR("H100-80")),
                     *t4   = catalogue_gpu(f->c, STR("T4-16"));
    const struct gpu *l40s = catalogue_gpu(f->c, STR("L40S-48")), *a = f->a100;
    say_claim(f->b, "NVLink: 600 Gbps");
    textbuf_fmt(
        f->b,
        "600 gigabytes a second, both ways together, between A100s: %.0f GB/s each way, %.0f "
        "Gbit/s. The %.0f Gbit/s are those of the p4d's network.",
        a->link_gb_s_each_way, 8 * a->link_gb_s_each_way, f->p4d->net_gbit_s);
    say_claim(f->b, "16 bits are 2 to 8 times as fast");
    textbuf_fmt(f->b,
                "Compared with what? Peak against f32: T4 %.1f, L40S %.1f, H100 %.1f, A100 %.1f "
                "times; against TF32, "
                "which most f32 programs really use, %.1f on an A100. Whole programs gain 1.3 to 2 "
                "over TF32, 1.5 to 5.5 over f32. Measure.",
                t4->fp16_dense_tflops / t4->fp32_tflops,
                l40s->bf16_dense_tflops / l40s->fp32_tflops,
                h100->bf16_dense_tflops / h100->fp32_tflops, a->bf16_dense_tflops / a->fp32_tflops,
                a->bf16_dense_tflops / a->tf32_tflops);
    say_claim(f->b, "bf16 takes a model of a billion parameters from 4 GB to 2 GB");
    textbuf_fmt(
        f->b,
        "That is true of the weights, for inference. Training with Adam keeps 16 to 18 bytes a "
        "parameter with "
        "bf16 too (weights 2, gradients 2 to 4, f32 weights 4, two moments 8): 16 to 18 GB. Only "
        "activations "
        "become smaller.");
    say_claim(f->b, "bound by memory bandwidth: make the batch smaller, to fit the cache");
    textbuf_fmt(f->b,
                "Usually the other way round: fuse, use bf16, and raise the batch until the matrix "
                "products are bound by arithmetic.");
}

void claims_add(struct textbuf *b, struct arena scratch)
{
    const struct catalogue *c = catalogue_new(&scratch);
    struct facts            f = { b, c, catalogue_machine(c, STR("aws"), STR("p4d.24xlarge")),
                                  catalogue_gpu(c, STR("A100-40")) };
    claim_sizes(&f);
    claim_a100_prices(&f);
    claim_spot(&f);
    claim_recompute(&f);
    claim_hardware(&f);
    say_claim(b, "from $50,000 to $18,200 a run, or from $905,952 to $436,800 a year");
    textbuf_fmt(b, "Such sums often contradict each other. `frugal report` computes the effect of "
                   "each change from measured runs, and prints every factor.");
}
