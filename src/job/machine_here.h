/* machine_here.h - what the machine at hand is and can do, measured now; `frugal doctor` prints it. */
#ifndef JOB_MACHINE_HERE_H
#define JOB_MACHINE_HERE_H
#include "backend/cuda/nvml.h"
#include "base/os.h"
#include "ir/type.h"

struct machine_here {
    struct str        cpu;
    i64               cores_usable, cores;
    const char       *vectors, *vectors_used; /* the processor's; and under FRUGAL_VECTORS, */
    bool              vectors_limited;        /* which allows less */
    i64               memory_bytes, memory_free_bytes;      /* 0: not known */
    f64               flops_s[DT_COUNT], bandwidth_bytes_s; /* 0: not known */
    struct str        gpu, gpu_missing;                     /* its name, or why there is none */
    struct nvml_state gpu_state; /* by its driver; an empty name: it does not answer */
    struct str        gpu_driver;
};

/* USAGE: FRUGAL_VECTORS is no word that limits the kernels. */
enum status         machine_check(struct err *err);
struct machine_here machine_look(struct os *os, struct arena *perm);

#endif
