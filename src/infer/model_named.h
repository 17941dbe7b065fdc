/* model_named.h - a trained model by whatever names it: a folder of Hugging Face's, a weights file, a checkpoint or a
 * folder of them, a run file, or a run of the ledger. */
#ifndef INFER_MODEL_NAMED_H
#define INFER_MODEL_NAMED_H
#include "train/config.h"

/* Its settings, with train.init where its weights are a file, and then the overrides. `command`: that they are for. */
enum status model_named(struct os *os, struct arena *perm, struct str command, struct str name,
                        const struct str *overrides, i64 override_count, struct config **out,
                        struct err *err);

#endif
