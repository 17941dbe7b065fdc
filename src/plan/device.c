/* device.c - from the catalogue's rows to rates, links and memory. */
#include "plan/device.h"
#include "plan/table.h"
#include <math.h>

#define ASSUME(name, value, unit, why) const f64 assumed_##name = value;
#include "plan/assumed.def"
#undef ASSUME

const struct assumption assumptions[] = {
#define ASSUME(name, value, unit, why) { #name, unit, why, value },
#include "plan/assumed.def"
#undef ASSUME
};
const i64 assumption_count = COUNT_OF(assumptions);

/* Without copies of weights, which ranks do not keep: one work serves machines of one GPU, where casts take 1 % of
 * a step, and of many. */
struct target target_of_gpus(void)
{
    return (struct target){ .align_bytes     = TARGET_GPU_ALIGN_BYTES,
                            .loss_part_bytes = TARGET_GPU_LOSS_PART_BYTES,
                            .threads         = 1,
                            .gpus            = 1 };
}

struct target target_of_cpus(void)
{
    return (struct target){ .align_bytes = TARGET_CPU_ALIGN_BYTES, .threads = 1 };
}

/* A large product's rate: measured where it was, else a part of the peak. */
static f64 product_flops_s(const struct gpu *g, f64 peak_tflops)
{
    f64 part = g->bf16_matmul_measured_tflops / g->bf16_dense_tflops;
    return 1e12 * peak_tflops * (part > 0 ? part : assumed_product_part);
}

static void set_peak(struct device *d, enum dtype t, f64 flops_s, f64 reached)
{
    d->peak_flops_s[t] = flops_s;
    if (flops_s > 0) d->target.flops_s[t] = reached;
}

static void use_gpu(struct device *d, const struct machine *m, const struct gpu *g)
{
    bool new_enough = g->bf16_dense_tflops > 0;
    d->target       = target_of_gpus();
    set_peak(d, DT_F32, 1e12 * g->fp32_tflops, 1e12 * g->fp32_tflops * assumed_product_part);
    set_peak(d, DT_BF16, 1e12 * g->bf16_dense_tflops, product_flops_s(g, g->bf16_dense_tflops));
    set_peak(d, DT_F16, 1e12 * g->fp16_dense_tflops, product_flops_s(g, g->fp16_dense_tflops));
    d->target.low               = new_enough ? DT_BF16 : DT_F16;
    d->target.bandwidth_bytes_s = 1e12 * g->hbm_tb_s;
    d->target.memory_bytes      = (i64)(g->memory_usable_gib * 0x1p30);
    d->units                    = m->gpus;
    d->rates                    = rates_of_gpus();
    d->copy_bytes_s             = 1e9 * assumed_copy_gb_s;
    bool nvlink                 = str_starts(g->link, STR("nvlink"));
    d->network                  = (struct network){ .gpus         = m->gpus,
                                                    .link_bytes_s = 1e9 * g->link_gb_s_each_way * assumed_link_part,
                                                    .link_latency_s = 1e-6 * assumed_link_latency_us,
                                                    .adds           = nvlink && g->link.data[6] >= '4' };
}

/* All cores together are one unit: a core is sold as one vCPU or two. */
static void use_cpu(struct device *d, const struct machine *m, const struct cpu *c)
{
    d->target = target_of_cpus();
    f64 cores = m->vcpus / c->vcpus_per_core, clock = 1e9 * c->all_core_ghz * cores;
    f64 part = MIN(cores / c->cores_per_socket, ceil(cores / c->cores_per_socket));
    f64 f32s = clock * c->fp32_flop_per_cycle_core, bf16 = clock * c->bf16_flop_per_cycle_core;
    set_peak(d, DT_F32, f32s, f32s * assumed_core_part);
    set_peak(d, DT_BF16, bf16, bf16 * assumed_core_part);
    d->target.low               = bf16 > f32s ? DT_BF16 : DT_F32;
    d->target.bandwidth_bytes_s = 1e9 * c->memory_gb_s_per_socket * part;
    d->target.memory_bytes      = (i64)(m->ram_gib * assumed_ram_part * 0x1p30);
    d->units                    = 1;
    d->rates                    = rates_of_cpus();
    d->network                  = (struct network){ .gpus = 1, .link_bytes_s = INFINITY };
}

static bool sound(const struct device *d)
{
    return d->target.flops_s[DT_F32] > 0 && d->target.bandwidth_bytes_s > 0 &&
           d->target.memory_bytes > 0 && d->units > 0;
}

/* Figures of a row lie one by one, a bit each. */
static bool is_assumed(const struct storage *s, const f64 *figure)
{
    return s->fact.assumed >> (figure - &s->gb_month_usd) & 1;
}

/* Figures that a plan of it rests on and nobody read in a source: of the machine, its GPU, its bill and
 * what keeps its checkpoints. */
static struct str assumed_of(const struct catalogue *c, const struct machine *m, struct arena *perm)
{
    static const struct storage none;
    const struct storage       *found = catalogue_storage(c, m->provider, STR("")),
                         *s           = found ? found : &none;
    struct arena   parts              = arena_part(perm, 1 << 12);
    struct textbuf b                  = textbuf_new(perm);
    struct str     all[]              = {
                         table_assumed(&table_machines, m, &parts),
        m->gpu.len ? table_assumed(&table_gpus, catalogue_gpu(c, m->gpu), &parts) : STR(""),
                         table_assumed(&table_billing, catalogue_billing(c, m->provider), &parts),
        is_assumed(s, &s->gb_month_usd) ? STR("storage's gb_month_usd") : STR(""),
        is_assumed(s, &s->put_1000_usd) ? STR("storage's put_1000_usd") : STR(""),
    };
    for (i64 i = 0; i < COUNT_OF(all); i++)
        if (all[i].len) textbuf_fmt(&b, "%s%.*s", b.len ? ", " : "", STR_ARG(all[i]));
    return textbuf_str(&b);
}

enum status device_of_machine(const struct catalogue *c, const struct machine *m,
                              struct arena *perm, struct device *out, struct err *err)
{
    const struct gpu *gpu = m->gpu.len ? catalogue_gpu(c, m->gpu) : NULL;
    const struct cpu *cpu = m->cpu.len ? catalogue_cpu(c, m->cpu) : NULL;
    struct device     d   = { .row = m, .billing = *catalogue_billing(c, m->provider) };
    d.name                = str_fmt(perm, "%.*s %.*s", STR_ARG(m->provider), STR_ARG(m->name));
    for (i32 t = 0; t < DT_COUNT; t++) d.peak_flops_s[t] = NAN;
    for (i32 p = 0; p < PRICE_COUNT; p++) d.usd_h[p] = machine_usd_h(m, (enum price)p);
    if (gpu) use_gpu(&d, m, gpu);
    else if (cpu) use_cpu(&d, m, cpu);
    d.target.name           = d.name;
    d.cores                 = m->vcpus > 0 ? m->vcpus / MAX(1, (f64)d.units) : 1;
    d.model                 = m->gpu.len ? m->gpu : m->cpu;
    d.network.net_bytes_s   = 1e9 / 8 * m->net_gbit_s * assumed_net_part;
    d.network.net_latency_s = 1e-6 * assumed_net_latency_us;
    d.assumed               = assumed_of(c, m, perm);
    *out                    = d;
    if (sound(&d)) return STATUS_OK;
    return err_set(err, STATUS_NO, "%.*s: its rates or memory are not known", STR_ARG(d.name));
}

enum status device_of_gpu(const struct catalogue *c, struct str gpu, struct arena *perm,
                          struct device *out, struct err *err)
{
    struct machine *m = NEW(perm, struct machine, 1);
    table_clear(&table_machines, m);
    m->gpu  = gpu;
    m->name = gpu;
    m->gpus = 1;
    return device_of_machine(c, m, perm, out, err);
}

struct device device_here(const struct target *t, const struct rates *r, f64 usd_h)
{
    struct device d = { .name   = t->gpus ? STR("this machine's GPU") : STR("this machine"),
                        .units  = 1,
                        .target = *t,
                        .rates  = r,
                        .cores  = MAX(t->threads, 1),
                        .model  = t->name };
    d.network       = (struct network){ .gpus = 1, .link_bytes_s = INFINITY, .net_bytes_s = NAN };
    for (i32 i = 0; i < DT_COUNT; i++) d.peak_flops_s[i] = t->flops_s[i];
    for (i32 p = 0; p < PRICE_COUNT; p++) d.usd_h[p] = NAN;
    d.usd_h[PRICE_OWN]      = usd_h;
    d.billing.granularity_s = 1;
    return d;
}
