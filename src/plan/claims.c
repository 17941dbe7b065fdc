/* claims.c - figures that circulate, computed again. */
#include "plan/claims.h"
#include <math.h>

static void sizes(struct claims *c)
{
    const f64 n_k = 0.2536, d_k = 1.7424; /* of N = n_k C^0.4995 and D = d_k C^0.5005 */
    c->pair_spends = 6 * n_k * d_k;
    c->law         = law_at(0);
    c->sized       = law_best(&c->law, 1e21);
    law_find(STR("hoffmann1"), &c->hoffmann1);
}

static void prices(struct claims *c, const struct machine *p4d, const struct gpu *a100)
{
    const f64 mfu      = 0.30;
    c->p4d_spot_usd_h  = p4d->spot_usd_h;
    c->p4d_usd_h       = p4d->on_demand_usd_h;
    c->a100_spot_usd_h = bill_part_usd_hour(p4d->spot_usd_h, (i64)p4d->gpus);
    c->a100_usd_h      = bill_part_usd_hour(p4d->on_demand_usd_h, (i64)p4d->gpus);
    c->p4d_72h_usd     = bill_estimate_usd(p4d->on_demand_usd_h, 72 * 3600.0);
    c->p4d_net_gbit_s  = p4d->net_gbit_s;
    c->a100_tflops     = a100->bf16_dense_tflops;
    c->a100_link_gb_s  = a100->link_gb_s_each_way;
    f64 seconds        = 1e21 / (a100->bf16_dense_tflops * 1e12 * mfu);
    c->a100_hours      = seconds / 3600;
    c->a100_usd        = bill_estimate_usd(c->a100_usd_h, seconds);
    c->a100_spot_usd   = bill_estimate_usd(c->a100_spot_usd_h, seconds);
}

static void discounts(struct claims *c, const struct catalogue *k, const struct machine *p4d)
{
    c->spot_low = INFINITY, c->spot_high = -INFINITY;
    for (i64 i = 0; i < k->machine_count; i++) {
        const struct machine *m = &k->machines[i];
        if (!str_eq(m->provider, STR("aws")) || !m->gpus) continue;
        c->spot_low  = fmin(c->spot_low, spot_discount(m));
        c->spot_high = fmax(c->spot_high, spot_discount(m));
    }
    c->spot_p4d = spot_discount(p4d);
}

/* Bytes of activations of a layer in units of s b h: 34 + 5 a s / h (Korthikanti et al. 2022, equation
 * 2); with what attention recomputes 34; with everything recomputed 2. Figures of GPT-3. */
static void recomputing(struct claims *c)
{
    const f64 heads = 96, width = 12288, tokens = 2048;
    f64       all             = 34 + 5 * heads * tokens / width;
    c->recompute_flops        = 8.0 / 6 - 1; /* 8 N a token instead of 6 N */
    c->recompute_all_less     = 1 - 2 / all;
    c->recompute_flash_less   = 1 - 2 / 34.0;
    c->recompute_scores_less  = 1 - 34 / all;
    c->recompute_scores_flops = tokens / (6 * width);
}

static void peaks(struct claims *c, const struct catalogue *k, const struct gpu *a100)
{
    const struct gpu *h100 = catalogue_gpu(k, STR("H100-80")), *t4 = catalogue_gpu(k, STR("T4-16")),
                     *l40s = catalogue_gpu(k, STR("L40S-48"));
    c->t4_16               = t4->fp16_dense_tflops / t4->fp32_tflops;
    c->l40s_16             = l40s->bf16_dense_tflops / l40s->fp32_tflops;
    c->h100_16             = h100->bf16_dense_tflops / h100->fp32_tflops;
    c->a100_16             = a100->bf16_dense_tflops / a100->fp32_tflops;
    c->a100_16_tf32        = a100->bf16_dense_tflops / a100->tf32_tflops;
}

struct claims claims_compute(struct arena scratch)
{
    struct claims           c    = { 0 };
    const struct catalogue *k    = catalogue_new(&scratch);
    const struct machine   *p4d  = catalogue_machine(k, STR("aws"), STR("p4d.24xlarge"));
    const struct gpu       *a100 = catalogue_gpu(k, STR("A100-40"));
    sizes(&c);
    prices(&c, p4d, a100);
    discounts(&c, k, p4d);
    recomputing(&c);
    peaks(&c, k, a100);
    return c;
}
