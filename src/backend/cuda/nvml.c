/* nvml.c - the driver's library behind plain functions. Names, types and numbers are those of NVIDIA's
 * published interface (NVML API reference, versions 11.8 to 13). */
#include "backend/cuda/nvml.h"
#include "base/os.h"
#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum { NAME_BYTES = 96 };                   /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */
enum { CLOCK_SM = 1, TEMPERATURE_GPU = 0 }; /* nvmlClockType_t, nvmlTemperatureSensors_t */
enum { GPM_VERSION = 1, GPM_SM_ACTIVITY = 2 };
enum { GPM_METRICS_MAX = 512 }; /* more than any version's; the library reads `count` */

struct memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct utilisation { /* nvmlUtilization_t: percent */
    unsigned gpu, memory;
};

struct gpm_support { /* nvmlGpmSupport_t */
    unsigned version, supported;
};

struct gpm_metric { /* nvmlGpmMetric_t */
    unsigned id;
    int      status;
    double   value;
    char    *names[3];
};

struct gpm_request { /* nvmlGpmMetricsGet_t */
    unsigned          version, count;
    void             *sample[2];
    struct gpm_metric metrics[GPM_METRICS_MAX];
};

typedef struct nvml_device *device;

/* Every function returns 0 where it could do it. */
#define NVML_FUNCTIONS(F)                                                                          \
    F(init, "nvmlInit_v2", (void))                                                                 \
    F(shutdown, "nvmlShutdown", (void))                                                            \
    F(driver, "nvmlSystemGetDriverVersion", (char *, unsigned))                                    \
    F(count, "nvmlDeviceGetCount_v2", (unsigned *))                                                \
    F(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned, device *))                             \
    F(by_bus, "nvmlDeviceGetHandleByPciBusId_v2", (const char *, device *))                        \
    F(name, "nvmlDeviceGetName", (device, char *, unsigned))                                       \
    F(memory, "nvmlDeviceGetMemoryInfo", (device, struct memory *))                                \
    F(power, "nvmlDeviceGetPowerUsage", (device, unsigned *))                                      \
    F(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (device, unsigned *))                        \
    F(clock, "nvmlDeviceGetClockInfo", (device, int, unsigned *))                                  \
    F(clock_max, "nvmlDeviceGetMaxClockInfo", (device, int, unsigned *))                           \
    F(celsius, "nvmlDeviceGetTemperature", (device, int, unsigned *))                              \
    F(energy, "nvmlDeviceGetTotalEnergyConsumption", (device, unsigned long long *))               \
    F(utilisation, "nvmlDeviceGetUtilizationRates", (device, struct utilisation *))                \
    F(gpm_support, "nvmlGpmQueryDeviceSupport", (device, struct gpm_support *))                    \
    F(gpm_alloc, "nvmlGpmSampleAlloc", (void **))                                                  \
    F(gpm_free, "nvmlGpmSampleFree", (void *))                                                     \
    F(gpm_take, "nvmlGpmSampleGet", (device, void *))                                              \
    F(gpm_metrics, "nvmlGpmMetricsGet", (struct gpm_request *))

struct nvml {
    void *library;
#define F(field, symbol, arguments) int(*field) arguments;
    NVML_FUNCTIONS(F)
#undef F
    void *sample[2]; /* of a measurement; NULL: none is under way */
    char  version[NAME_BYTES];
};

static void find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */
}

static enum status start(struct nvml *n, struct err *err)
{
    if (!n->init || !n->shutdown || !n->count || !n->by_index)
        return err_set(err, STATUS_WORLD,
                       "the driver's library lacks nvmlInit_v2 or a similar function");
    int code = n->init();
    if (code)
        return err_set(err, STATUS_WORLD, "the driver does not answer: nvmlInit gives %d", code);
    if (!n->driver || n->driver(n->version, sizeof n->version)) n->version[0] = 0;
    n->version[NAME_BYTES - 1] = 0;
    return STATUS_OK;
}

enum status nvml_open(struct arena *perm, struct nvml **out, struct err *err)
{
    struct os   *os    = os_real();
    struct str   given = os->env(os, "FRUGAL_NVML");
    struct nvml *n     = NEW(perm, struct nvml, 1);
    n->library =
        dlopen(given.len ? str_z(perm, given) : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library) return err_set(err, STATUS_WORLD, "no NVIDIA driver: %s", dlerror());
#define F(field, symbol, arguments) find(n->library, symbol, &n->field);
    NVML_FUNCTIONS(F)
#undef F
    enum status st = start(n, err);
    if (st) dlclose(n->library);
    else *out = n;
    return st;
}

static void drop_samples(struct nvml *n)
{
    for (i32 i = 0; i < 2; i++) {
        if (n->sample[i]) n->gpm_free(n->sample[i]);
        n->sample[i] = NULL;
    }
}

void nvml_close(struct nvml *n)
{
    drop_samples(n);
    n->shutdown();
    dlclose(n->library);
}

struct str nvml_driver(const struct nvml *n) { return str_of(n->version); }

i32 nvml_count(const struct nvml *n)
{
    unsigned count = 0;
    return n->count(&count) ? 0 : (i32)count;
}

struct nvml_device *nvml_device(const struct nvml *n, i32 index)
{
    device d = NULL;
    return n->by_index((unsigned)index, &d) ? NULL : d;
}

struct nvml_device *nvml_device_at(const struct nvml *n, struct str bus_id, struct arena scratch)
{
    device d = NULL;
    return !n->by_bus || n->by_bus(str_z(&scratch, bus_id), &d) ? NULL : d;
}

/* What a function of one number tells, in units of which `per` make one. */
static f64 number(int (*f)(device, unsigned *), device d, f64 per)
{
    unsigned value = 0;
    return !f || f(d, &value) ? NAN : (f64)value / per;
}

static f64 number_of(int (*f)(device, int, unsigned *), device d, int which)
{
    unsigned value = 0;
    return !f || f(d, which, &value) ? NAN : (f64)value;
}

struct nvml_state nvml_look(const struct nvml *n, struct nvml_device *d, struct arena *perm)
{
    char          name[NAME_BYTES] = "";
    struct memory m                = { 0 };
    if (!n->name || n->name(d, name, sizeof name)) name[0] = 0;
    name[NAME_BYTES - 1] = 0;
    bool memory          = n->memory && !n->memory(d, &m);
    return (struct nvml_state){ .name              = str_copy(perm, str_of(name)),
                                .memory_bytes      = memory ? (f64)m.total : NAN,
                                .memory_free_bytes = memory ? (f64)m.free : NAN,
                                .power_w           = number(n->power, d, 1e3),
                                .power_limit_w     = number(n->power_limit, d, 1e3),
                                .clock_mhz         = number_of(n->clock, d, CLOCK_SM),
                                .clock_mhz_max     = number_of(n->clock_max, d, CLOCK_SM),
                                .celsius           = number_of(n->celsius, d, TEMPERATURE_GPU) };
}

f64 nvml_energy_j(const struct nvml *n, struct nvml_device *d)
{
    unsigned long long mj = 0;
    return !n->energy || n->energy(d, &mj) ? NAN : (f64)mj / 1e3;
}

void nvml_activity_begin(struct nvml *n, struct nvml_device *d)
{
    struct gpm_support can = { GPM_VERSION, 0 };
    drop_samples(n);
    if (!n->gpm_support || !n->gpm_alloc || !n->gpm_free || !n->gpm_take || !n->gpm_metrics) return;
    if (n->gpm_support(d, &can) || !can.supported) return;
    bool taken = !n->gpm_alloc(&n->sample[0]) && !n->gpm_alloc(&n->sample[1]) &&
                 !n->gpm_take(d, n->sample[0]);
    if (!taken) drop_samples(n);
}

f64 nvml_activity_end(struct nvml *n, struct nvml_device *d)
{
    struct gpm_request r        = { .version = GPM_VERSION,
                                    .count   = 1,
                                    .sample  = { n->sample[0], n->sample[1] } };
    f64                activity = NAN;
    r.metrics[0].id             = GPM_SM_ACTIVITY;
    if (!n->sample[0]) return NAN;
    if (!n->gpm_take(d, n->sample[1]) && !n->gpm_metrics(&r) && !r.metrics[0].status)
        activity = r.metrics[0].value / 100;
    drop_samples(n);
    return activity;
}

f64 nvml_utilisation(const struct nvml *n, struct nvml_device *d)
{
    struct utilisation u = { 0 };
    return !n->utilisation || n->utilisation(d, &u) ? NAN : (f64)u.gpu / 100;
}
