/* gguf.h - a model as one file for llama.cpp: docs/formats/gguf.md. Written only. */
#ifndef INFER_GGUF_H
#define INFER_GGUF_H
#include "model/model.h"
#include "store/safetensors.h"

enum gguf_type { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_Q8_0 = 8 }; /* as the file numbers them */

struct gguf_model {
    const struct model_config *config;
    struct str                 type; /* model_type of config.json */
    struct str folder;               /* with config.json and the tokenizer; empty: there is none */
    struct str name;
};

/* The tensors are f32, under the names of transformers. Matrices become `type`; where their rows are not whole blocks
 * of Q8_0, f16; vectors and the table of positions stay f32. */
enum status gguf_save(struct os *os, struct str path, const struct gguf_model *model,
                      const struct st_made *from, enum gguf_type type, struct arena *memory,
                      struct err *err);

/* Numbers as blocks of 32: the scale in f16, then a byte each; count is whole blocks. */
enum { GGUF_BLOCK = 32, GGUF_BLOCK_BYTES = 34 };
void gguf_q8_0(const f32 *from, i64 count, u8 *to);

#endif
