/* gpu_names.c - the GPU at hand in the catalogue. */
#include "plan/catalogue.h"

static const struct {
    const char *driver, *gpu;
} names[] = {
#define GPU_NAME(driver, gpu) { driver, gpu },
#include "plan/gpu_names.def"
};

const struct gpu *catalogue_gpu_of_driver(const struct catalogue *c, struct str name)
{
    for (i64 i = 0; i < COUNT_OF(names); i++) {
        if (str_eq(name, str_of(names[i].driver))) return catalogue_gpu(c, str_of(names[i].gpu));
    }
    return NULL;
}
