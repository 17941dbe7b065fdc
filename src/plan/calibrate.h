/* calibrate.h - what the kernels of the machine at hand take, tried out on small models of every kind:
 * what its rates (plan/rates.h) are learned from. */
#ifndef PLAN_CALIBRATE_H
#define PLAN_CALIBRATE_H
#include "backend/backend.h"
#include "plan/rates.h"

/* Opens the machine; a backend serves one set of programs only, so it is asked for each model. */
typedef enum status backend_opener(void *context, struct arena *perm, struct backend **out,
                                   struct err *err);

/* Times every instruction of the models, some seconds in all; the least of several runs counts. */
enum status calibrate(struct arena *perm, backend_opener *open, void *context,
                      struct rate_sample **out, i64 *count, struct arena scratch, struct err *err);

#endif
