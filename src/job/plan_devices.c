/* plan_devices.c - the machines that a plan may choose: the catalogue's and this one, whose kernels can be timed. */
#include "job/plan_devices.h"
#include "backend/cuda/cuda.h"
#include "base/pool.h"
#include "job/predict.h"
#include "plan/calibrate.h"
#include <math.h>
#include <string.h>

static enum status open_here(void *context, struct arena *perm, struct backend **out,
                             struct err *err)
{
    (void)context;
    return backend_cpu_open(perm, pool_machine_threads(), BACKEND_FAST, out, err);
}

static enum status add_processor(struct plan_devices *d, struct os *os, f64 usd_hour,
                                 struct plan_notes *notes, struct arena *perm, struct err *err)
{
    struct rates   *r = NEW(perm, struct rates, 1);
    struct target   t;
    struct os_stat  there;
    struct backend *b;
    bool            measured = !os->stat(os, predict_rates_path(os, perm), &there, NULL);
    enum status     st       = open_here(NULL, perm, &b, err);
    if (st) return st;
    d->here[d->here_count++] = b;
    b->table->describe(b, &t);
    *r = *rates_of_cpus();
    if (measured) st = predict_read_rates(os, perm, &t, r, err);
    else b->table->rate(b, &t);
    if (!measured)
        plan_note(
            notes,
            STR("this machine: uses rates measured on another processor; `frugal plan --calibrate` "
                "measures its own"));
    d->items[d->count++] = device_here(&t, r, usd_hour);
    return st;
}

/* As the driver describes it; rates of its row in the catalogue, where it has one. */
static void add_gpu(struct plan_devices *d, struct os *os, f64 usd_hour, struct arena *perm)
{
    struct target     t;
    struct backend   *b;
    struct device     known;
    struct err        why;
    const struct gpu *g;
    if (!backend_cuda_likely(os) || backend_cuda_open(perm, 0, &b, &why)) return;
    d->here[d->here_count++] = b;
    b->table->describe(b, &t);
    struct device gpu = device_here(&t, rates_of_gpus(), usd_hour);
    g                 = catalogue_gpu_of_driver(d->catalogue, t.name);
    gpu.cores         = pool_machine_threads();
    gpu.copy_bytes_s  = 1e9 * assumed_copy_gb_s;
    if (g && !device_of_gpu(d->catalogue, g->name, perm, &known, &why)) {
        memcpy(gpu.target.flops_s, known.target.flops_s, sizeof gpu.target.flops_s);
        memcpy(gpu.peak_flops_s, known.peak_flops_s, sizeof gpu.peak_flops_s);
        gpu.target.bandwidth_bytes_s = known.target.bandwidth_bytes_s;
        gpu.model                    = known.model;
    }
    d->items[d->count++] = gpu;
}

enum status plan_devices_open(struct plan_devices *d, struct os *os, const struct plan_where *where,
                              struct plan_notes *notes, struct arena *perm, struct err *err)
{
    struct err why;
    i64        unknown = 0;
    *d                 = (struct plan_devices){ 0 };
    enum status st     = catalogue_open(os, perm, where->prices, &d->catalogue, err);
    if (st) return st;
    d->items = NEW(perm, struct device, d->catalogue->machine_count + 2);
    for (i64 i = 0; i < d->catalogue->machine_count; i++) {
        const struct machine *m = &d->catalogue->machines[i];
        if (where->cloud.len && !str_eq(where->cloud, m->provider)) continue;
        if (device_of_machine(d->catalogue, m, perm, &d->items[d->count], &why)) unknown++;
        else d->count++;
    }
    if (unknown)
        plan_note(notes,
                  str_fmt(perm, "%lld machines are skipped: their rates or memory are not known",
                          (long long)unknown));
    d->rented_count = d->count;
    if (where->here && !where->cloud.len) {
        st = add_processor(d, os, where->usd_hour, notes, perm, err);
        add_gpu(d, os, where->usd_hour, perm);
    }
    if (!st && !d->count)
        st = err_set(err, STATUS_USAGE,
                     "the catalogue has no machine of %.*s; `frugal prices` lists all",
                     STR_ARG(where->cloud));
    return st;
}

void plan_devices_close(struct plan_devices *d)
{
    for (i64 i = 0; i < d->here_count; i++) d->here[i]->table->close(d->here[i]);
    d->here_count = 0;
}

enum status plan_calibrate(struct os *os, struct arena *perm, struct arena scratch, i64 *kernels,
                           struct str *path, struct err *err)
{
    struct rates       *r = NEW(perm, struct rates, 1);
    struct rate_sample *samples;
    struct backend     *b;
    struct target       t;
    struct str          folder = *path = predict_rates_path(os, perm);
    while (folder.len && folder.data[folder.len - 1] != '/') folder.len--;
    enum status st = calibrate(perm, open_here, NULL, &samples, kernels, scratch, err);
    if (!st) st = open_here(NULL, perm, &b, err);
    if (st) return st;
    b->table->describe(b, &t);
    b->table->rate(b, &t);
    b->table->close(b);
    rates_fit(r, &t, samples, *kernels);
    if (folder.len) st = os->make_dir(os, folder, err);
    return st ? st : os_publish(os, *path, rates_print(r, perm), scratch, err);
}
