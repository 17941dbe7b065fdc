/* export.h - a trained model as a folder that transformers' from_pretrained opens: config.json, model.safetensors, and
 * the tokenizer where there is one. */
#ifndef INFER_EXPORT_H
#define INFER_EXPORT_H
#include "infer/gguf.h"
#include "train/settings.h"

enum export_dtype { EXPORT_F32, EXPORT_BF16 };
/* Adapters (train.lora) become a folder of PEFT's, or are added to the weights that they stand beside. */
enum export_adapters { EXPORT_APART, EXPORT_MERGED };

/* The weights are those of settings->train.init, a file that frugal wrote or a folder of adapters. Files that are there
 * are replaced, the weights last. */
enum status export_folder(struct os *os, const struct settings *settings, struct str folder,
                          enum export_dtype dtype, enum export_adapters adapters, struct err *err);
/* Whether that can be done, before the weights are there. */
enum status export_check(struct os *os, const struct settings *settings, struct str folder,
                         struct err *err);
/* The same as one file for llama.cpp, adapters merged; of a folder of somebody else's, too. */
enum status export_gguf(struct os *os, const struct settings *settings, struct str file,
                        enum gguf_type type, struct err *err);

#endif
