/* peak.c - the catalogue's row for a device. */
#include "job/peak.h"
#include "plan/catalogue.h"
#include <math.h>

enum { RESERVE_BYTES = 1 << 26 }; /* address space only */

f64 peak_flops_s(struct str device, struct str precision)
{
    struct arena room   = arena_open(RESERVE_BYTES);
    f64          tflops = NAN;
    if (!room.begin) return NAN;
    const struct gpu *g = catalogue_gpu_of_driver(catalogue_new(&room), device);
    if (g && str_eq(precision, STR("bf16"))) tflops = g->bf16_dense_tflops;
    if (g && str_eq(precision, STR("fp16"))) tflops = g->fp16_dense_tflops;
    if (g && str_eq(precision, STR("fp32"))) tflops = g->fp32_tflops;
    arena_close(&room);
    return tflops * 1e12;
}
