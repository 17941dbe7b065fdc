/* The driver's library, by a script in its place: tests/fake/nvml.c. */
#include "backend/cuda/nvml.h"
#include "fake/nvml.h"
#include "harness.h"
#include "job/peak.h"
#include <dlfcn.h>

/* The script that nvml_open will meet. */
static struct fake_nvml *script(void)
{
    static struct fake_nvml *s, as_built;
    setenv("FRUGAL_NVML", FAKE_NVML, 1);
    if (!s) {
        s = dlsym(dlopen(FAKE_NVML, RTLD_NOW), "fake_nvml");
        CHECK(s);
        as_built = *s;
    }
    *s = as_built;
    return s;
}

TEST(a_gpu_as_its_driver_tells)
{
    struct fake_nvml *s = script();
    struct nvml      *n;
    struct err        err = { 0 };
    CHECK_EQ(nvml_open(perm, &n, &err), STATUS_OK);
    CHECK_STR(nvml_driver(n), "580.1");
    CHECK_EQ(nvml_count(n), 1);
    CHECK(!nvml_device(n, 1));
    CHECK(!nvml_device_at(n, STR("00000000:99:00.0"), scratch));
    struct nvml_device *d = nvml_device_at(n, STR("00000000:18:00.0"), scratch);
    CHECK(d && d == nvml_device(n, 0));
    struct nvml_state g = nvml_look(n, d, perm);
    CHECK_STR(g.name, "NVIDIA H200");
    CHECK_EQ(g.memory_bytes, 150754820096.0);
    CHECK_EQ(g.memory_free_bytes, 150e9);
    CHECK_NEAR(g.power_w, 123.456, 1e-9);
    CHECK_EQ(g.power_limit_w, 700.0);
    CHECK_EQ(g.clock_mhz, 1755.0);
    CHECK_EQ(g.clock_mhz_max, 1980.0);
    CHECK_EQ(g.celsius, 31.0);
    CHECK_EQ(nvml_energy_j(n, d), 5.0);
    nvml_close(n);
    CHECK_EQ(s->open, 0);
}

TEST(activity_is_of_the_time_between_and_leaves_nothing)
{
    struct fake_nvml *s = script();
    struct nvml      *n;
    CHECK_EQ(nvml_open(perm, &n, NULL), STATUS_OK);
    struct nvml_device *d = nvml_device(n, 0);
    CHECK(isnan(nvml_activity_end(n, d))); /* never begun */
    nvml_activity_begin(n, d);
    CHECK_EQ(nvml_activity_end(n, d), 0.875);
    CHECK_EQ(s->samples, 0);
    s->gpm_supported = 0; /* before Hopper */
    nvml_activity_begin(n, d);
    CHECK(isnan(nvml_activity_end(n, d)));
    s->gpm_supported = 1;
    nvml_activity_begin(n, d); /* closed in the middle */
    nvml_close(n);
    CHECK_EQ(s->samples, 0);
    CHECK_EQ(s->open, 0);
}

/* A driver that refuses one thing tells the others. */
TEST(what_is_refused_is_not_known)
{
    struct fake_nvml *s = script();
    struct nvml      *n;
    CHECK_EQ(nvml_open(perm, &n, NULL), STATUS_OK);
    struct nvml_device *d = nvml_device(n, 0);
    s->fails              = "nvmlDeviceGetMemoryInfo";
    CHECK(isnan(nvml_look(n, d, perm).memory_bytes));
    CHECK_EQ(nvml_look(n, d, perm).celsius, 31.0);
    s->fails = "nvmlDeviceGetPowerUsage";
    CHECK(isnan(nvml_look(n, d, perm).power_w));
    s->fails = "nvmlDeviceGetClockInfo";
    CHECK(isnan(nvml_look(n, d, perm).clock_mhz));
    s->fails = "nvmlDeviceGetName";
    CHECK_EQ(nvml_look(n, d, perm).name.len, 0);
    s->fails = "nvmlDeviceGetTotalEnergyConsumption";
    CHECK(isnan(nvml_energy_j(n, d)));
    static const char *const gpm[] = { "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc",
                                       "nvmlGpmSampleGet", "nvmlGpmMetricsGet" };
    for (i64 i = 0; i < COUNT_OF(gpm); i++) {
        s->fails = gpm[i];
        nvml_activity_begin(n, d);
        CHECK(isnan(nvml_activity_end(n, d)));
        CHECK_EQ(s->samples, 0);
    }
    nvml_close(n);
}

TEST(without_a_driver_there_is_a_sentence)
{
    struct fake_nvml *s   = script();
    struct nvml      *n   = NULL;
    struct err        err = { 0 };
    s->fails_init         = 9;
    CHECK_EQ(nvml_open(perm, &n, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "nvmlInit gives 9"));
    setenv("FRUGAL_NVML", "no/such/library.so", 1);
    CHECK_EQ(nvml_open(perm, &n, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "no NVIDIA driver"));
    CHECK(!n);
}

/* Data sheet: 989 TFLOP/s dense. A relative with other rates has no row and so no MFU. */
TEST(a_peak_is_that_of_the_very_kind_or_not_known)
{
    CHECK_EQ(peak_flops_s(STR("NVIDIA H200"), STR("bf16")), 989e12);
    CHECK_EQ(peak_flops_s(STR("NVIDIA H200"), STR("fp32")), 67e12);
    CHECK(isnan(peak_flops_s(STR("NVIDIA H200"), STR("f64"))));
    CHECK(isnan(peak_flops_s(STR("NVIDIA H200 NVL"), STR("bf16"))));
    CHECK(isnan(peak_flops_s(STR("Tesla V100-SXM2-16GB"), STR("bf16"))));
    CHECK(isnan(peak_flops_s(STR("AMD EPYC"), STR("fp32"))));
}
