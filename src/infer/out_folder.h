/* out_folder.h - train.out=FOLDER/: what was trained, as a folder for transformers or PEFT. That it can be made is
 * known before the first step. */
#ifndef INFER_OUT_FOLDER_H
#define INFER_OUT_FOLDER_H
#include "train/settings.h"

/* Of another train.out nothing is asked. */
enum status out_folder_check(struct os *os, const struct settings *settings, struct err *err);
/* From the weights that training left in the folder `out`, which are deleted then; empty, or no folder: nothing. `st`
 * is what training ended with, and is returned unless this fails. */
enum status out_folder_write(struct os *os, struct str out, enum status st, struct arena *perm,
                             struct err *err);

#endif
