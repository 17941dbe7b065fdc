/* machine_here.c - the processor is asked and timed, the GPU and its driver are asked. */
#include "job/machine_here.h"
#include "backend/backend.h"
#include "backend/cpu/kernel.h"
#include "backend/cuda/cuda.h"
#include "base/pool.h"
#include <string.h>
#include <unistd.h>

/* The GPU that CUDA would take; without CUDA, the driver's first. */
static void driver_look(struct machine_here *m, struct str bus_id, struct arena *perm)
{
    struct nvml *nvml;
    if (nvml_open(perm, &nvml, NULL)) return;
    struct nvml_device *d = bus_id.len ? nvml_device_at(nvml, bus_id, *perm) : nvml_device(nvml, 0);
    if (d) m->gpu_state = nvml_look(nvml, d, perm);
    m->gpu_driver = str_copy(perm, nvml_driver(nvml));
    nvml_close(nvml);
}

static void gpu_look(struct machine_here *m, struct os *os, struct arena *perm)
{
    struct err      why = { 0 };
    struct backend *gpu;
    struct target   target = { 0 };
    m->gpu_missing         = STR("no NVIDIA device on this machine");
    if (backend_cuda_likely(os) && backend_cuda_open(perm, 0, &gpu, &why)) {
        m->gpu_missing = str_copy(perm, str_of(why.text));
    } else if (backend_cuda_likely(os)) {
        gpu->table->describe(gpu, &target);
        m->gpu = str_copy(perm, target.name);
        gpu->table->close(gpu);
    }
    driver_look(m, target.bus_id, perm);
}

struct machine_here machine_look(struct os *os, struct arena *perm)
{
    struct machine_here m = { .cores_usable    = pool_machine_threads(),
                              .cores           = sysconf(_SC_NPROCESSORS_CONF),
                              .vectors         = isa_word(processor_isa()),
                              .vectors_used    = isa_word(kernel_isa()),
                              .vectors_limited = kernel_isa() < processor_isa(),
                              .memory_bytes    = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) };
    struct backend     *cpu;
    struct target       target;
    gpu_look(&m, os, perm);
    if (backend_cpu_open(perm, 0, BACKEND_FAST, &cpu, NULL)) return m;
    cpu->table->describe(cpu, &target);
    cpu->table->rate(cpu, &target);
    m.cpu               = str_copy(perm, target.name);
    m.memory_free_bytes = target.memory_bytes;
    m.bandwidth_bytes_s = target.bandwidth_bytes_s;
    memcpy(m.flops_s, target.flops_s, sizeof m.flops_s);
    cpu->table->close(cpu);
    return m;
}

enum status machine_check(struct err *err)
{
    enum isa cap;
    return kernel_isa_cap(&cap, err);
}
