/* small_run.h - a run that takes milliseconds: small images whose class shows as a bright column. */
#ifndef SUPPORT_SMALL_RUN_H
#define SUPPORT_SMALL_RUN_H
#include "train/settings.h"

enum { SMALL_SAMPLES = 70 };

/* Writes the data into the folder; `layers` is YAML. Three epochs of AdamW, 15 % held out. */
struct settings small_run(struct arena *perm, const char *folder, const char *layers);
/* The same of a gpt on a text with something to learn in it: 25 steps of 12 of its 167 samples, which begin at other
 * places in each epoch, so it ends in the second one; evaluated every 7. */
struct settings small_text_run(struct arena *perm, const char *folder, const char *positions,
                               u64 text_seed);

#endif
