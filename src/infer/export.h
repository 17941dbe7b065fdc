/* export.h - a trained model as a folder that transformers' from_pretrained opens: config.json, model.safetensors, and
 * the tokenizer where there is one. */
#ifndef INFER_EXPORT_H
#define INFER_EXPORT_H
#include "train/settings.h"

enum export_dtype { EXPORT_F32, EXPORT_BF16 };

/* The weights are those of settings->train.init, a file that frugal wrote. Files that are there are replaced, the
 * weights last. */
enum status export_folder(struct os *os, const struct settings *settings, struct str folder,
                          enum export_dtype dtype, struct err *err);

#endif
