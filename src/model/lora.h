/* lora.h - low-rank adapters beside frozen matrices (Hu et al. 2021, arXiv 2106.09685), with the arithmetic and the
 * names of Hugging Face's PEFT.
 *
 *     y = x W^T + alpha/rank (dropout(x) A^T) B^T        W frozen; A [rank, in] uniform, B [out, rank] zero
 *
 * A matrix of ours that is several of theirs (queries, keys and values) has an adapter for each of those. Their A lie
 * one below the other in one parameter, and so do their B: h.3.attn.qkv.lora_A.weight. */
#ifndef MODEL_LORA_H
#define MODEL_LORA_H
#include "model/hf.h"

bool lora_is_adapter(struct str param); /* by its name */
/* The matrix it belongs to: h.3.attn.qkv.weight of h.3.attn.qkv.lora_B.weight. */
struct str lora_matrix(struct str adapter, struct arena *perm);
/* Names of matrices and of their parts, for a model with its own names or with those of `config.family`. */
struct model_config lora_names(const struct model_config *c);
/* Where the tensor of an adapter, of this shape, is in PEFT's files; `names` is from lora_names. */
bool lora_source(const struct model_config *names, struct str adapter, struct shape shape,
                 struct arena *perm, struct hf_source *out);
/* Which parts of a matrix have adapters: a bit each. Names that match are marked in `used`, which may be NULL. */
u32 lora_parts(const struct model_config *names, const struct hf_source *matrix, struct str ours,
               u32 *used);
f64 lora_scale(const struct lora_config *l);

/* PEFT's adapter_config.json (lora_config.c). `base`: base_model_name_or_path, empty where there is none. What asks for
 * arithmetic that we lack is refused by its key. `path`: for messages. */
enum status lora_config_read(struct str path, struct str text, struct arena *perm,
                             struct lora_config *out, struct str *base, struct err *err);
/* For adapters of the model that `names`, from lora_names, describes. */
struct str lora_config_write(const struct model_config *names, struct str base, struct arena *perm);

#endif
