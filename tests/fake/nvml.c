/* nvml.c - the functions that frugal calls of the driver's library, answered by a script. */
#include "fake/nvml.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fake_nvml fake_nvml = { .devices       = 1,
                               .name          = "NVIDIA H200",
                               .bus_id        = "00000000:18:00.0",
                               .memory        = 150754820096,
                               .memory_free   = 150000000000,
                               .energy_mj     = 5000,
                               .power_mw      = 123456,
                               .clock_mhz     = 1755,
                               .gpm_supported = 1,
                               .activity      = 87.5 };

enum { FAILED = 999 };

static int fails(const char *name) { return fake_nvml.fails && !strcmp(fake_nvml.fails, name); }

/* FAKE_NVML_WAVE=500:5 - at 95 % for 500 ms, at 5 % for the next, and so on; else as the script says. */
static double activity_now(void)
{
    const char     *wave = getenv("FAKE_NVML_WAVE");
    long long       half_ms;
    double          low;
    struct timespec t;
    if (!wave || sscanf(wave, "%lld:%lf", &half_ms, &low) != 2) return fake_nvml.activity;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (t.tv_sec * 1000 + t.tv_nsec / 1000000) / half_ms % 2 ? 95 : low;
}

#define ANSWER(name, arguments, ...)                                                               \
    int name arguments;                                                                            \
    int name arguments                                                                             \
    {                                                                                              \
        if (fails(#name)) return FAILED;                                                           \
        __VA_ARGS__;                                                                               \
        return 0;                                                                                  \
    }

struct memory {
    unsigned long long total, free, used;
};
struct utilisation {
    unsigned gpu, memory;
};
struct support {
    unsigned version, supported;
};
struct metric {
    unsigned id;
    int      status;
    double   value;
    char    *names[3];
};
struct request {
    unsigned      version, count;
    void         *sample[2];
    struct metric metrics[];
};

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    fake_nvml.open += !fake_nvml.fails_init;
    return fake_nvml.fails_init;
}
ANSWER(nvmlShutdown, (void), fake_nvml.open--)
ANSWER(nvmlSystemGetDriverVersion, (char *to, unsigned bytes), strncpy(to, "580.1", bytes))
ANSWER(nvmlDeviceGetCount_v2, (unsigned *count), *count = fake_nvml.devices)
ANSWER(nvmlDeviceGetHandleByIndex_v2, (unsigned i, void **d),
       if (i >= fake_nvml.devices) return FAILED;
       *d = &fake_nvml)
ANSWER(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, void **d),
       if (strcmp(id, fake_nvml.bus_id)) return FAILED;
       *d = &fake_nvml)
ANSWER(nvmlDeviceGetName, (void *d, char *to, unsigned bytes), (void)d;
       memset(to, 'x', bytes); /* a library that ends no string */
       memcpy(to, fake_nvml.name, strlen(fake_nvml.name) + 1))
ANSWER(nvmlDeviceGetMemoryInfo, (void *d, struct memory *m), (void)d;
       *m = (struct memory){ fake_nvml.memory, fake_nvml.memory_free, 0 })
ANSWER(nvmlDeviceGetPowerUsage, (void *d, unsigned *mw), (void)d; *mw = fake_nvml.power_mw)
ANSWER(nvmlDeviceGetEnforcedPowerLimit, (void *d, unsigned *mw), (void)d; *mw = 700000)
ANSWER(nvmlDeviceGetClockInfo, (void *d, int which, unsigned *mhz), (void)d;
       if (which != 1) return FAILED; *mhz = fake_nvml.clock_mhz)
ANSWER(nvmlDeviceGetMaxClockInfo, (void *d, int which, unsigned *mhz), (void)d; (void)which;
       *mhz = 1980)
ANSWER(nvmlDeviceGetTemperature, (void *d, int which, unsigned *c), (void)d; (void)which; *c = 31)
ANSWER(nvmlDeviceGetTotalEnergyConsumption, (void *d, unsigned long long *mj), (void)d;
       *mj = fake_nvml.energy_mj)
ANSWER(nvmlDeviceGetUtilizationRates, (void *d, struct utilisation *u), (void)d;
       *u = (struct utilisation){ (unsigned)activity_now(), 0 })
ANSWER(nvmlGpmQueryDeviceSupport, (void *d, struct support *s), (void)d;
       if (s->version != 1) return FAILED; s->supported = fake_nvml.gpm_supported)
ANSWER(nvmlGpmSampleAlloc, (void **sample), *sample = malloc(1); fake_nvml.samples++)
ANSWER(nvmlGpmSampleFree, (void *sample), free(sample); fake_nvml.samples--)
ANSWER(nvmlGpmSampleGet, (void *d, void *sample), (void)d; (void)sample)
ANSWER(nvmlGpmMetricsGet, (struct request * r),
       if (r->version != 1 || r->count != 1 || r->metrics[0].id != 2) return FAILED;
       r->metrics[0].value = activity_now())
