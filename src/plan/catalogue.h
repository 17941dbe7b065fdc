/* catalogue.h - machines, what they can do and what they cost: the facts that a plan is made of.
 *
 * The facts are the CSV files of this folder, compiled in (machines.csv, gpus.csv, cpus.csv,
 * storage.csv, billing.csv). A user's prices.csv has the columns of machines.csv and is laid over
 * them: docs/formats/prices.md. What is not known is NaN, never zero, and stays NaN through any
 * arithmetic; what was assumed (written ~400) is marked, so that a plan can name it. */
#ifndef PLAN_CATALOGUE_H
#define PLAN_CATALOGUE_H
#include "base/err.h"
#include "base/os.h"
#include "base/text.h"
#include "run/bill.h"

/* The numbers of a row; each is a column of that name. FIGURE(name) */
#define MACHINE_FIGURES(FIGURE)                                                                    \
    FIGURE(vcpus)                                                                                  \
    FIGURE(ram_gib)                                                                                \
    FIGURE(disk_gb)                                                                                \
    FIGURE(net_gbit_s)                                                                             \
    FIGURE(on_demand_usd_h)                                                                        \
    FIGURE(spot_usd_h)                                                                             \
    FIGURE(spot_min_usd_h)                                                                         \
    FIGURE(spot_max_usd_h)                                                                         \
    FIGURE(reserved_1y_usd_h)                                                                      \
    FIGURE(reserved_3y_usd_h)                                                                      \
    FIGURE(own_usd_h)

#define GPU_FIGURES(FIGURE)                                                                        \
    FIGURE(bf16_dense_tflops)                                                                      \
    FIGURE(fp16_dense_tflops)                                                                      \
    FIGURE(fp8_dense_tflops)                                                                       \
    FIGURE(tf32_tflops)                                                                            \
    FIGURE(fp32_tflops)                                                                            \
    FIGURE(hbm_tb_s)                                                                               \
    FIGURE(memory_gib)                                                                             \
    FIGURE(memory_usable_gib)                                                                      \
    FIGURE(link_gb_s_each_way)                                                                     \
    FIGURE(bf16_matmul_measured_tflops)

#define CPU_FIGURES(FIGURE)                                                                        \
    FIGURE(vcpus_per_core)                                                                         \
    FIGURE(fp32_flop_per_cycle_core)                                                               \
    FIGURE(bf16_flop_per_cycle_core)                                                               \
    FIGURE(all_core_ghz)                                                                           \
    FIGURE(memory_gb_s_per_socket)                                                                 \
    FIGURE(cores_per_socket)

#define STORAGE_FIGURES(FIGURE)                                                                    \
    FIGURE(gb_month_usd)                                                                           \
    FIGURE(minimum_days)                                                                           \
    FIGURE(put_1000_usd)                                                                           \
    FIGURE(get_1000_usd)                                                                           \
    FIGURE(retrieve_gb_usd)                                                                        \
    FIGURE(egress_region_gb_usd)                                                                   \
    FIGURE(egress_internet_gb_usd)

#define BILLING_FIGURES(FIGURE)                                                                    \
    FIGURE(granularity_s)                                                                          \
    FIGURE(minimum_s)                                                                              \
    FIGURE(free_interrupted_s)

/* What all rows have. */
struct fact {
    struct str source;
    i32        as_of_day; /* days since 1970; DAY_UNKNOWN */
    u32        assumed;   /* bit i: the row's i-th figure was not read in the source */
};
enum { DAY_UNKNOWN = INT32_MIN };

#define PRICES(PRICE)                                                                              \
    PRICE(ON_DEMAND, on_demand, "on-demand")                                                       \
    PRICE(SPOT, spot, "spot")                                                                      \
    PRICE(RESERVED_1Y, reserved_1y, "reserved 1y")                                                 \
    PRICE(RESERVED_3Y, reserved_3y, "reserved 3y")                                                 \
    PRICE(OWN, own, "own rate")

enum price {
#define PRICE(id, field, text) PRICE_##id,
    PRICES(PRICE)
#undef PRICE
        PRICE_COUNT
};

struct price_origin {
    struct str source;
    i32        as_of_day;
};

#define FIGURE(name) f64 name;
struct machine { /* one row: a machine of a provider in a region */
    struct str provider, name, region;
    struct str gpu; /* name of a row of gpus; empty: it has none */
    struct str cpu; /* name of a row of cpus; empty: not known */
    i32        gpus;
    MACHINE_FIGURES(FIGURE)
    struct fact         fact;                /* date and source: of the oldest price */
    struct price_origin origin[PRICE_COUNT]; /* of each price that is known */
};
struct gpu {
    struct str name; /* "A100-80" */
    struct str link; /* nvlink3, pcie4 … */
    GPU_FIGURES(FIGURE)
    struct fact fact;
};
struct cpu {
    struct str name;
    CPU_FIGURES(FIGURE)
    struct fact fact;
};
struct storage { /* an object store's class, or a block disk */
    struct str provider, name;
    STORAGE_FIGURES(FIGURE)
    struct fact fact;
};
struct billing { /* how a provider turns seconds into billed seconds */
    struct str provider;
    BILLING_FIGURES(FIGURE)
    struct fact fact;
};
#undef FIGURE

struct catalogue {
    struct machine *machines;
    struct gpu     *gpus;
    struct cpu     *cpus;
    struct storage *storage;
    struct billing *billing;
    i64             machine_count, gpu_count, cpu_count, storage_count, billing_count;
};

enum { CATALOGUE_MACHINES_MAX = 8192 };

/* The compiled-in facts. */
struct catalogue *catalogue_new(struct arena *perm);
/* Lays a user's file over them: a row with the provider, name and region of a machine replaces the
 * figures it gives, any other adds a machine, whose GPU and CPU must be known. Date and source of a
 * row are those of the prices that it gives; the others keep their own. */
enum status catalogue_merge(struct catalogue *c, struct arena *perm, struct str path,
                            struct str text, struct err *err);
/* catalogue_new with the user's file over it: `path` or, where that is empty, FRUGAL_PRICES or
 * $XDG_CONFIG_HOME/frugal/prices.csv (~/.config), which need not exist. */
enum status catalogue_open(struct os *os, struct arena *perm, struct str path,
                           struct catalogue **out, struct err *err);
struct str  catalogue_user_path(struct os *os, struct arena *perm); /* empty: no home */

const struct machine *catalogue_machine(const struct catalogue *c, struct str provider,
                                        struct str name); /* NULL: none; any region, first row */
/* p5.48xlarge of whichever cloud, or aws/p5.48xlarge. */
bool machine_is_named(const struct machine *m, struct str name);
/* The machine whose name differs by a slip of the finger or two; empty: none. */
struct str        machine_nearest(const struct catalogue *c, struct str name, struct arena scratch);
const struct gpu *catalogue_gpu(const struct catalogue *c, struct str name);
/* By the driver's name for it: gpu_names.def. */
const struct gpu     *catalogue_gpu_of_driver(const struct catalogue *c, struct str name);
const struct cpu     *catalogue_cpu(const struct catalogue *c, struct str name);
const struct storage *catalogue_storage(const struct catalogue *c, struct str provider,
                                        struct str name); /* name empty: the provider's first */
/* The provider's rule; for one that is not in the table by the second, all figures assumed. */
const struct billing *catalogue_billing(const struct catalogue *c, struct str provider);

/* ---- prices ---- */

const char         *price_name(enum price p);
f64                 machine_usd_h(const struct machine *m, enum price p); /* NaN: not known */
bool                machine_has_price(const struct machine *m);           /* of any kind */
struct price_origin price_origin(const struct machine *m, enum price p);  /* not known: no date */
f64  price_age_days(const struct machine *m, enum price p, i32 today);    /* NaN: no date */
bool price_is_old(const struct machine *m, enum price p, i32 today);      /* or has no date */
bool day_is_old(i32 day, i32 today);                                      /* of any price */
/* The part of all hours that a reserved machine must be used to cost no more than paying by the
 * hour: its price by that on demand. NaN: not known; above 1: never. */
f64 reserved_break_even(const struct machine *m, enum price reserved);
/* One minus spot by on-demand; NaN: not known. */
f64 spot_discount(const struct machine *m);

/* ---- regions (region.c) ---- */

/* Is its price one of that region? A region is asked for by its whole name, or by its beginning up to a dash: us or us-
 * is us-east-1 and so on, without us-gov-*. A row of "us" stands for all regions of its cloud that begin so, one of
 * "any" for all. */
bool machine_is_in(const struct machine *m, struct str region);
bool region_begins(struct str region, struct str prefix);  /* up to a dash; not us-gov-* */
bool region_is_of(struct str provider, struct str region); /* as that cloud names them */
/* One that can be rented in, not the beginning of several (us), nor "any". */
bool       region_is_whole(struct str provider, struct str region);
struct str region_name(struct str region);                          /* us- is us */
bool region_is_known(const struct catalogue *c, struct str region); /* has a row, not of "any" */
/* The sentence for --region with no row; provider empty: of any cloud. */
enum status region_refuse(const struct catalogue *c, struct str region, struct str provider,
                          struct err *err);

/* ---- how a bill is made ---- */

struct billing_rule billing_rule_of(const struct billing *b); /* what is not known rounds nothing */
/* Seconds on the bill for one machine that was up so long; `interrupted`: the provider took it
 * back. */
f64 billed_seconds(const struct billing *rule, f64 up_s, bool interrupted);
f64 billed_dollars(const struct billing *rule, f64 usd_h, f64 up_s, bool interrupted);
struct store_price store_price_of(const struct storage *s); /* egress: over the internet */

/* ---- marks ---- */

/* Usable memory of a GPU: as measured or, marked in fact.assumed when the catalogue is read,
 * nominal less 7 %. */
#define GPU_MEMORY_RESERVED 0.07

/* Names of the figures that were assumed, "disk_gb, net_gbit_s"; empty: none. */
struct str machine_assumed(struct arena *perm, const struct machine *m);
struct str gpu_assumed(struct arena *perm, const struct gpu *g);

bool       day_parse(struct str text, i32 *day); /* 2026-08-22 */
struct str day_text(struct arena *perm, i32 day);
struct str day_or_none(struct arena *perm, i32 day); /* DAY_UNKNOWN: "no date" */
i32        day_today(struct os *os);                 /* FRUGAL_TODAY=2026-11-17 sets another day */
enum {
    PRICE_OLD_DAYS = 90
}; /* older figures are marked: spot prices moved by tens of per cent in
                                 half a year (docs/formats/prices.md) */

#endif
