/* resnet20.h - the convolutions of ResNet-20 on 32x32 images (He et al. 2016), batch 128. */
#ifndef BENCH_RESNET20_H
#define BENCH_RESNET20_H
#include "base/types.h"

enum { BATCH = 128 };

struct layer {
    i64 size, in, out, kernel, stride, count; /* count: how often the net has it */
};

static const struct layer layers[] = {
    { 32, 3, 16, 3, 1, 1 },  { 32, 16, 16, 3, 1, 6 }, { 32, 16, 32, 3, 2, 1 },
    { 32, 16, 32, 1, 2, 1 }, { 16, 32, 32, 3, 1, 5 }, { 16, 32, 64, 3, 2, 1 },
    { 16, 32, 64, 1, 2, 1 }, { 8, 64, 64, 3, 1, 5 },
};

static inline i64 layer_out_size(const struct layer *l) { return (l->size - 1) / l->stride + 1; }

static inline f64 layer_flops(const struct layer *l) /* of each of the three ops */
{
    i64 pixels = BATCH * layer_out_size(l) * layer_out_size(l);
    return 2.0 * (f64)(pixels * l->out) * (f64)(l->kernel * l->kernel * l->in);
}

#endif
