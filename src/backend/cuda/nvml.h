/* nvml.h - what the driver tells of a GPU: name, memory, power, clocks, energy, and how busy its
 * multiprocessors were.
 *
 * Through the driver's own library, loaded when it is asked for and called by prototypes of our own, so
 * that no header of NVIDIA's is needed and a machine without a driver is no error. FRUGAL_NVML names
 * another library (tests do). `frugal doctor` shows a moment, the trainer measures a run. What the
 * driver does not tell is NaN. */
#ifndef BACKEND_CUDA_NVML_H
#define BACKEND_CUDA_NVML_H
#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

struct nvml;        /* the library, lives in `perm` */
struct nvml_device; /* the library's own */

struct nvml_state {
    struct str name;
    f64        memory_bytes, memory_free_bytes;
    f64        power_w, power_limit_w;
    f64        clock_mhz, clock_mhz_max; /* of the multiprocessors */
    f64        celsius;
};

enum status nvml_open(struct arena *perm, struct nvml **out, struct err *err);
void        nvml_close(struct nvml *n);
struct str  nvml_driver(const struct nvml *n); /* version; empty: not told */
i32         nvml_count(const struct nvml *n);

/* By index, or by the address on the PCI bus that CUDA tells; NULL: there is no such device. */
struct nvml_device *nvml_device(const struct nvml *n, i32 index);
struct nvml_device *nvml_device_at(const struct nvml *n, struct str bus_id, struct arena scratch);

struct nvml_state nvml_look(const struct nvml *n, struct nvml_device *d, struct arena *perm);
f64 nvml_energy_j(const struct nvml *n, struct nvml_device *d); /* since the driver began */

/* Part of the time between the two calls, 0 to 1, that multiprocessors had work: the mean over all of
 * them (GPM, from Hopper on). One measurement at a time. */
void nvml_activity_begin(struct nvml *n, struct nvml_device *d);
f64  nvml_activity_end(struct nvml *n, struct nvml_device *d);
/* Before Hopper: part of the driver's last period (1/6 to 1 s, by product) in which any kernel ran. */
f64 nvml_utilisation(const struct nvml *n, struct nvml_device *d);

#endif
