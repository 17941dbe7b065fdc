/* claims.h - the figures behind `frugal help claims`, from the catalogue and the laws that plans are made of. */
#ifndef PLAN_CLAIMS_H
#define PLAN_CLAIMS_H
#include "plan/catalogue.h"
#include "plan/scaling.h"

struct claims {
    /* A pair of fits for parameters and tokens that circulates: how much of the budget it spends. */
    f64           pair_spends;
    struct law    law, hoffmann1; /* the default; and the first approach of Hoffmann */
    struct sizing sized;          /* 1e21 FLOPs by the default */
    /* A p4d.24xlarge: eight A100. */
    f64 p4d_spot_usd_h, p4d_usd_h, a100_spot_usd_h, a100_usd_h, p4d_72h_usd, p4d_net_gbit_s;
    f64 a100_tflops, a100_hours, a100_usd, a100_spot_usd; /* 1e21 FLOPs at 30 % of its peak */
    f64 a100_link_gb_s;                                   /* each way */
    f64 spot_low, spot_high, spot_p4d;                    /* discounts of AWS machines with GPUs */
    /* Recomputing, parts of GPT-3's activations and FLOPs. */
    f64 recompute_flops;        /* more, where everything is recomputed */
    f64 recompute_all_less;     /* activations, beside attention that keeps its scores */
    f64 recompute_flash_less;   /* beside one that keeps none */
    f64 recompute_scores_less;  /* where only the scores are recomputed, */
    f64 recompute_scores_flops; /* for so many FLOPs more */
    f64 t4_16, l40s_16, h100_16, a100_16,
        a100_16_tf32; /* peak of 16 bits by that of f32, or TF32 */
};

struct claims claims_compute(struct arena scratch);

#endif
