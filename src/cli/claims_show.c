/* claims_show.c - `frugal help claims`: figures that circulate, ours (plan/claims.h), and why they differ. */
#include "base/digits.h"
#include "cli/help.h"
#include "cli/plan_show.h"
#include "plan/claims.h"

static void say_claim(struct textbuf *b, const char *claim)
{
    textbuf_fmt(b, "%s\"%s\"\n\n", b->len ? "\n\n" : "", claim);
}

static void claim_sizes(struct textbuf *b, const struct claims *c)
{
    const struct sizing *s = &c->sized;
    say_claim(b, "Chinchilla: N = 0.2536 C^0.4995 and D = 1.7424 C^0.5005");
    textbuf_fmt(b,
                "Training costs 6 N D = %.2f C: %.2f times the budget. The half for tokens is near "
                "Hoffmann's first approach; parameters that go with it are %.4f C^%.4f. We use the "
                "replication of 2024, N = %.5f C^%.4f, and always take D = C / 6N: 1e21 FLOPs are "
                "%.2f billion parameters and %.0f billion tokens (`frugal scale 1e21`).",
                c->pair_spends, c->pair_spends, c->hoffmann1.line_k, c->hoffmann1.line_a,
                c->law.line_k, c->law.line_a, s->parameters / 1e9, s->tokens / 1e9);
}

/* An eighth of a price in cents has three decimals: all are shown, so that readers can multiply. */
static void claim_a100_prices(struct textbuf *b, const struct claims *c, struct arena scratch)
{
    say_claim(b, "p4d.24xlarge spot: $9.83 per A100-hour");
    textbuf_fmt(b,
                "That was the price of the instance with all of its eight GPUs: $1.23 for each, in "
                "2023. Now it is $%.2f an hour, $%.3f for each, and it changes.",
                c->p4d_spot_usd_h, c->a100_spot_usd_h);
    say_claim(b, "8 A100 on demand for 72 hours: $37,748");
    textbuf_fmt(b,
                "72 h of one p4d.24xlarge at $%.2f are $%s. The figure took the price of eight "
                "GPUs for that of one, and doubled it.",
                c->p4d_usd_h, DIGITS(c->p4d_72h_usd));
    say_claim(b, "a single A100 on AWS at $3.21 an hour");
    textbuf_fmt(b, "There is none: A100s are sold in groups of eight there, at $%.3f for each.",
                c->a100_usd_h);
    say_claim(b, "1e21 FLOPs cost $50,000 on A100s");
    textbuf_fmt(b,
                "At 30 %% of %.0f TFLOP/s they take %.*s GPU-hours: $%s at $%.3f, on spot $%s at "
                "$%.3f.",
                c->a100_tflops, STR_ARG(plan_billed(&scratch, c->a100_hours)), DIGITS(c->a100_usd),
                c->a100_usd_h, DIGITS(c->a100_spot_usd), c->a100_spot_usd_h);
}

static void claim_spot(struct textbuf *b, const struct claims *c)
{
    say_claim(b, "spot machines cost 70 % less");
    textbuf_fmt(b,
                "Machines with GPUs on AWS are %.0f to %.0f %% off in this catalogue, the p4d %.0f "
                "%%. Work lost to interruptions reduces that.",
                100 * c->spot_low, 100 * c->spot_high, 100 * c->spot_p4d);
}

static void claim_recompute(struct textbuf *b, const struct claims *c)
{
    say_claim(b, "gradient checkpointing: 30 % more compute, 70 % less activation memory");
    textbuf_fmt(
        b,
        "Two techniques. Recomputing everything costs %.0f %% more FLOPs (8 N a token instead "
        "of 6 N) and removes %.0f %% of the activations, %.0f %% where flash attention "
        "keeps no scores. The %.0f %% belong to recomputing attention's scores alone, which costs "
        "%.1f %% "
        "(GPT-3), and which flash attention does anyway.",
        100 * c->recompute_flops, 100 * c->recompute_all_less, 100 * c->recompute_flash_less,
        100 * c->recompute_scores_less, 100 * c->recompute_scores_flops);
}

static void claim_hardware(struct textbuf *b, const struct claims *c)
{
    say_claim(b, "NVLink: 600 Gbps");
    textbuf_fmt(
        b,
        "600 gigabytes a second, both ways together, between A100s: %.0f GB/s each way, %.0f "
        "Gbit/s. The %.0f Gbit/s are those of the p4d's network.",
        c->a100_link_gb_s, 8 * c->a100_link_gb_s, c->p4d_net_gbit_s);
    say_claim(b, "16 bits are 2 to 8 times as fast");
    textbuf_fmt(b,
                "Compared with what? Peak against f32: T4 %.1f, L40S %.1f, H100 %.1f, A100 %.1f "
                "times; against TF32, "
                "which most f32 programs really use, %.1f on an A100. Whole programs gain 1.3 to 2 "
                "over TF32, 1.5 to 5.5 over f32. Measure.",
                c->t4_16, c->l40s_16, c->h100_16, c->a100_16, c->a100_16_tf32);
    say_claim(b, "bf16 takes a model of a billion parameters from 4 GB to 2 GB");
    textbuf_fmt(
        b,
        "That is true of the weights, for inference. Training with Adam keeps 16 to 18 bytes a "
        "parameter with "
        "bf16 too (weights 2, gradients 2 to 4, f32 weights 4, two moments 8): 16 to 18 GB. Only "
        "activations "
        "become smaller.");
    say_claim(b, "bound by memory bandwidth: make the batch smaller, to fit the cache");
    textbuf_fmt(b,
                "Usually the other way round: fuse, use bf16, and raise the batch until the matrix "
                "products are bound by arithmetic.");
}

void claims_add(struct textbuf *b, struct arena scratch)
{
    struct claims c = claims_compute(scratch);
    claim_sizes(b, &c);
    claim_a100_prices(b, &c, scratch);
    claim_spot(b, &c);
    claim_recompute(b, &c);
    claim_hardware(b, &c);
    say_claim(b, "from $50,000 to $18,200 a run, or from $905,952 to $436,800 a year");
    textbuf_fmt(b, "Such sums often contradict each other. `frugal report` computes the effect of "
                   "each change from measured runs, and prints every factor.");
}
