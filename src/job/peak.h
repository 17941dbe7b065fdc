/* peak.h - what a GPU could do at best, by the catalogue: MFU is measured against it. */
#ifndef JOB_PEAK_H
#define JOB_PEAK_H
#include "base/text.h"

/* Dense products a second, of the type that train.precision names, by the driver's name of the device.
 * NaN where the catalogue does not have it: a wrong MFU is worse than none. */
f64 peak_flops_s(struct str device, struct str precision);

#endif
