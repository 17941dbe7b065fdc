/* device.h - a machine as the estimate sees it: rates, links, memory, from a row of the catalogue or
 * from the machine at hand. */
#ifndef PLAN_DEVICE_H
#define PLAN_DEVICE_H
#include "plan/catalogue.h"
#include "plan/network.h"
#include "plan/rates.h"
#include "run/hazard.h"

/* Figures that nobody could look up (assumed.def). */
#define ASSUME(name, value, unit, why) extern const f64 assumed_##name;
#include "plan/assumed.def"
#undef ASSUME

struct assumption {
    const char *name, *unit, *why;
    f64         value;
};
extern const struct assumption assumptions[];
extern const i64               assumption_count;

struct device {
    struct str            name;   /* "aws p5.48xlarge" */
    const struct machine *row;    /* NULL: the machine at hand */
    i64                   units;  /* GPUs, or 1 for all cores together */
    struct target         target; /* of a unit */
    const struct rates   *rates;
    struct network        network;
    f64            peak_flops_s[DT_COUNT]; /* by the data sheet: what MFU is of; NaN: unknown */
    f64            usd_h[PRICE_COUNT];     /* of the machine; NaN: not known, not sold so */
    struct billing billing;
    f64            cores;        /* of the host for each unit, or vCPUs: what loads data */
    f64            copy_bytes_s; /* of a unit's state to the host; 0: it is the host's */
    struct str     assumed;      /* names of the catalogue's figures that were assumed */
    struct str     rates_key;    /* of `rates`: what is learned holds for these */
    struct str     model; /* a row of the catalogue's GPUs or CPUs, or the processor's name */
    /* Learned from the user's own runs (plan/lessons.h); 0: nothing was. */
    f64 pace[DT_COUNT]; /* a step in that precision takes so many times what the rates say */
    i64 pace_runs[DT_COUNT];
    f64 warm_s, boot_s; /* process to first step, machine to process */
    struct hazard spot; /* of this kind of machine; scale_s 0: that of all, or the prior */
};

/* What compile must know of such a machine: as our kernels are, but for their workspaces. */
struct target target_of_gpus(void);
struct target target_of_cpus(void);

/* NO and a sentence where a figure without which nothing can be said is missing. */
enum status device_of_machine(const struct catalogue *c, const struct machine *m,
                              struct arena *perm, struct device *out, struct err *err);
/* One GPU of a row of the catalogue, without machine or price. */
enum status device_of_gpu(const struct catalogue *c, struct str gpu, struct arena *perm,
                          struct device *out, struct err *err);
/* The machine at hand, as its backend describes and rates it. */
struct device device_here(const struct target *t, const struct rates *r, f64 usd_h);

#endif
