/* plan_devices.c - the machines that a plan may choose: the catalogue's and this one, whose kernels can be timed. */
#include "backend/cuda/cuda.h"
#include "base/pool.h"
#include "cli/plan.h"
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

static enum status add_processor(struct cli *c, struct question *q, struct err *err)
{
    struct rates   *r = NEW(c->perm, struct rates, 1);
    struct target   t;
    struct os_stat  there;
    struct backend *b;
    bool        measured = !c->os->stat(c->os, predict_rates_path(c->os, c->perm), &there, NULL);
    enum status st       = open_here(NULL, c->perm, &b, err);
    if (st) return st;
    q->here[q->here_count++] = b;
    b->table->describe(b, &t);
    *r = *rates_of_cpus();
    if (measured) st = predict_read_rates(c->os, c->perm, &t, r, err);
    else b->table->rate(b, &t);
    if (!measured)
        note(
            q,
            STR("this machine: uses rates measured on another processor; `frugal plan --calibrate` "
                "measures its own"));
    q->devices[q->device_count++] = device_here(&t, r, q->usd_hour);
    return st;
}

/* As the driver describes it; rates of its row in the catalogue, where it has one. */
static void add_gpu(struct cli *c, struct question *q)
{
    struct target     t;
    struct backend   *b;
    struct device     known;
    struct err        why;
    const struct gpu *g;
    if (!backend_cuda_likely(c->os) || backend_cuda_open(c->perm, &b, &why)) return;
    q->here[q->here_count++] = b;
    b->table->describe(b, &t);
    struct device d = device_here(&t, rates_of_gpus(), q->usd_hour);
    g               = catalogue_gpu_of_driver(q->catalogue, t.name);
    d.cores         = pool_machine_threads();
    d.copy_bytes_s  = 1e9 * assumed_copy_gb_s;
    if (g && !device_of_gpu(q->catalogue, g->name, c->perm, &known, &why)) {
        memcpy(d.target.flops_s, known.target.flops_s, sizeof d.target.flops_s);
        memcpy(d.peak_flops_s, known.peak_flops_s, sizeof d.peak_flops_s);
        d.target.bandwidth_bytes_s = known.target.bandwidth_bytes_s;
        d.model                    = known.model;
    }
    q->devices[q->device_count++] = d;
}

enum status plan_devices(struct cli *c, struct question *q, struct err *err)
{
    const struct request *r     = c->request;
    struct str            cloud = r->value[FLAG_INDEX_on];
    struct err            why;
    i64                   unknown = 0;
    enum status           st =
        catalogue_open(c->os, c->perm, r->value[FLAG_INDEX_prices], &q->catalogue, err);
    if (st) return st;
    q->devices = NEW(c->perm, struct device, q->catalogue->machine_count + 2);
    for (i64 i = 0; i < q->catalogue->machine_count; i++) {
        const struct machine *m = &q->catalogue->machines[i];
        if (cloud.len && !str_eq(cloud, m->provider)) continue;
        if (device_of_machine(q->catalogue, m, c->perm, &q->devices[q->device_count], &why))
            unknown++;
        else q->device_count++;
    }
    if (unknown)
        note(q, str_fmt(c->perm, "%lld machines are skipped: their rates or memory are not known",
                        (long long)unknown));
    q->rented_count = q->device_count;
    if (q->ours && !cloud.len) {
        st = add_processor(c, q, err);
        add_gpu(c, q);
    }
    if (!st && !q->device_count)
        st = err_set(err, STATUS_NO,
                     "the catalogue has no machine of %.*s; `frugal prices` lists all",
                     STR_ARG(cloud));
    return st;
}

/* Some seconds of every kernel, kept for all later plans. */
enum status plan_calibrate(struct cli *c, struct arena scratch, struct err *err)
{
    struct rates       *r = NEW(c->perm, struct rates, 1);
    struct rate_sample *samples;
    struct backend     *b;
    struct target       t;
    i64                 count;
    struct str          path = predict_rates_path(c->os, c->perm), folder = path;
    while (folder.len && folder.data[folder.len - 1] != '/') folder.len--;
    enum status st = calibrate(c->perm, open_here, NULL, &samples, &count, scratch, err);
    if (!st) st = open_here(NULL, c->perm, &b, err);
    if (st) return st;
    b->table->describe(b, &t);
    b->table->rate(b, &t);
    b->table->close(b);
    rates_fit(r, &t, samples, count);
    if (folder.len) st = c->os->make_dir(c->os, folder, err);
    if (!st) st = os_publish(c->os, path, rates_print(r, c->perm), scratch, err);
    if (!st)
        say_message(c->say, "%lld kernels timed; rates written to %.*s\n", (long long)count,
                    STR_ARG(path));
    return st;
}
