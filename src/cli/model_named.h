/* model_named.h - a trained model by whatever names it: a folder of Hugging Face's, a weights file, a run file, or a
 * run of the ledger. */
#ifndef CLI_MODEL_NAMED_H
#define CLI_MODEL_NAMED_H
#include "cli/commands.h"
#include "train/config.h"

/* Its settings, with train.init where its weights are a file, and then the overrides. */
enum status model_named(struct cli *c, struct str name, const struct str *overrides,
                        i64 override_count, struct config **out, struct err *err);

#endif
