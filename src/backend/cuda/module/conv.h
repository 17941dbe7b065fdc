/* conv.h - plans for the convolutions of a whole graph at once.
 *
 * An engine with maps behind the convolution is compiled by the library when its plan is made, which takes up to
 * 0.8 s; several threads do it at the same time. A plan that was not asked for here is made when it is first needed. */
#ifndef BACKEND_CUDA_MODULE_CONV_H
#define BACKEND_CUDA_MODULE_CONV_H
#include "backend/cuda/module/gpu.h"

bool conv_wants_plans(const struct gpu_call *c); /* notes what is missing; false: nothing is */
void conv_make_plans(struct gpu *gpu);           /* all that was noted */

#endif
