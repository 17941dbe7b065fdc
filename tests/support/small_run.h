/* small_run.h - a run that takes milliseconds: small images whose class shows as a bright column. */
#ifndef SUPPORT_SMALL_RUN_H
#define SUPPORT_SMALL_RUN_H
#include "train/settings.h"

enum { SMALL_SAMPLES = 70 };

/* Writes the data into the folder; `layers` is YAML. Three epochs of AdamW, 15 % held out. */
struct settings small_run(struct arena *perm, const char *folder, const char *layers);

#endif
