/* plan_devices.h - the machines that a plan may choose: those of the catalogue, and this one as its backends describe
 * it; and this processor's kernels, timed once for all later plans. `frugal plan` needs them. */
#ifndef JOB_PLAN_DEVICES_H
#define JOB_PLAN_DEVICES_H
#include "backend/backend.h"
#include "plan/learn.h"

struct plan_devices {
    struct catalogue *catalogue;
    struct device    *items;
    i64               count;
    i64               rented_count; /* of them; those after are this machine's */
    struct backend   *here[2];      /* that these ask; closed at the end */
    i64               here_count;
};

/* Where a plan looks. */
struct plan_where {
    struct str cloud;    /* only there; empty: anywhere */
    struct str prices;   /* a file over the catalogue's rows; empty: the user's own */
    bool       here;     /* on this machine too, where no cloud is named */
    f64        usd_hour; /* of this machine; NaN: not given */
};

enum status plan_devices_open(struct plan_devices *d, struct os *os, const struct plan_where *where,
                              struct plan_notes *notes, struct arena *perm, struct err *err);
void        plan_devices_close(struct plan_devices *d);

/* Times every kernel of this processor, some seconds in all, and writes its rates to `path`. */
enum status plan_calibrate(struct os *os, struct arena *perm, struct arena scratch, i64 *kernels,
                           struct str *path, struct err *err);

#endif
