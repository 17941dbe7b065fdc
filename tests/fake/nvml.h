/* nvml.h - the script of the driver's library that tests load in place of NVIDIA's: what it answers, and
 * which of its functions fail. The library exports it as `fake_nvml`. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

struct fake_nvml {
    int                fails_init; /* what nvmlInit_v2 returns */
    unsigned           devices;
    const char        *fails; /* the one function that returns an error; NULL: none */
    const char        *name, *bus_id;
    unsigned long long memory, memory_free, energy_mj;
    unsigned           power_mw, clock_mhz;
    unsigned           gpm_supported;
    double             activity;      /* percent */
    int                open, samples; /* inits without shutdown; samples that are not freed */
};

#endif
