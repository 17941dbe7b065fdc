/* meter.c - energy and activity of the GPU between the first step and the last; what MFU is measured by;
 * how fast steps were. */
#include "backend/cuda/nvml.h"
#include "train/loop.h"
#include <math.h>

static i64 loop_ns(struct session *s)
{
    struct step_split split = clock_split(s->clock);
    return split_sum(&split);
}

struct meter meter_begin(struct session *s)
{
    struct meter m = { .begin_ns = loop_ns(s) };
    if (!s->target.bus_id.len || nvml_open(s->perm, &m.nvml, NULL)) return m;
    m.device = nvml_device_at(m.nvml, s->target.bus_id, s->scratch);
    if (!m.device) return m;
    m.begin_j = nvml_energy_j(m.nvml, m.device);
    nvml_activity_begin(m.nvml, m.device);
    return m;
}

struct train_power meter_end(struct meter *m, struct session *s)
{
    struct train_power p = { NAN, NAN, NAN };
    if (m->device) {
        f64 joules    = nvml_energy_j(m->nvml, m->device) - m->begin_j;
        p.energy_wh   = joules / 3600;
        p.watts       = joules / ((f64)(loop_ns(s) - m->begin_ns) / 1e9);
        p.sm_activity = nvml_activity_end(m->nvml, m->device);
    }
    if (m->nvml) nvml_close(m->nvml);
    m->nvml = NULL;
    return p;
}

f64 useful_share(struct session *s)
{
    struct compile_config plain = s->config;
    struct run_plan       plan;
    if (plain.recompute.kind == RECOMPUTE_NONE) return 1;
    plain.recompute.kind = RECOMPUTE_NONE;
    if (plan_of(s, &plain, &plan, NULL)) return NAN;
    f64 later = (f64)(MAX(plain.accumulate, 1) - 1);
    return (plan.flops[PROGRAM_TRAIN] + later * plan.flops[PROGRAM_ADD] +
            plan.flops[PROGRAM_UPDATE]) /
           session_step_flops(s);
}

static f64 of_start(const struct loop *l, i64 all, i64 before)
{
    return (f64)(l->at.steps_ns == l->before.steps_ns ? all : all - before);
}
#define OF_START(l, figure) of_start((l), (l)->at.figure, (l)->before.figure)

f64 loop_samples_per_s(const struct loop *l)
{
    return l->at.steps_ns ? OF_START(l, samples) / (OF_START(l, steps_ns) / 1e9) : NAN;
}

f64 loop_input_share(const struct loop *l)
{
    return OF_START(l, waited_ns) / OF_START(l, steps_ns);
}
