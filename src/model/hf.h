/* hf.h - other people's models: what transformers' save_pretrained says in config.json as a model of
 * ours, and what its tensors are called.
 *
 *     config.json ─► hf_config_read ─► model_config (kind hf, and a family) ─► the graph of gpt.c
 *                                          └─► hf_source: h.3.attn.qkv.weight is q_proj, k_proj and v_proj
 *
 * A family is a row of hf.def and a file of a page: the keys of its config.json, the names of its
 * tensors. A key that is not in the family's list, or that asks for what our graph lacks, is refused by name. */
#ifndef MODEL_HF_H
#define MODEL_HF_H
#include "model/model.h"

struct hf_family;

/* `c` has kind hf, and keeps what the config says nothing of (dropout, smoothing, dtype). `path`: for messages. */
enum status hf_config_read(struct str path, struct str text, struct arena *perm,
                           struct model_config *c, struct err *err);

#define HF_PARTS_MAX 3
struct hf_source {                 /* where a tensor of ours is in their files */
    struct str name[HF_PARTS_MAX]; /* one below the other in ours */
    i64        rows[HF_PARTS_MAX]; /* of ours */
    i32        count;
    bool       transposed;
};
/* `shape` is that of ours. False: they have no such tensor. */
bool hf_source(const struct model_config *c, struct str ours, struct shape shape,
               struct arena *perm, struct hf_source *out);
bool hf_is_transposed(const struct model_config *c); /* dense layers: theirs are [in, out] */
struct str
     hf_prefix(const struct model_config *c); /* that names lack where only the body was saved */
bool hf_is_encoder(const struct model_config *c); /* a classifier of sequences: BERT and its kin */
bool hf_may_lack(const struct model_config *c, struct str ours); /* part of a head that is new */
/* The names of the classes in the text of a classifier's config.json; 0: it has none, or only LABEL_0 and so on. */
i64 hf_class_names(struct str text, struct arena *perm, const struct str **names);
/* A tensor that carries nothing of the model: a mask, a table of frequencies, the copy of a tied one. */
bool hf_is_ignored(const struct model_config *c, struct str theirs);

/* The other way (hf_write.c). The family that computes what a model of kind gpt does; USAGE: none does. */
enum status hf_family_of(struct model_config *c, struct err *err);
struct str  hf_type(const struct model_config *c); /* model_type */
struct hf_written {
    struct str        dtype; /* of the weights: "float32" */
    const struct str *class_names;
    i64               class_count; /* 0: nobody knows them */
};
/* A config.json for weights that are so: `before`, theirs, with another type and classes; empty: by `c`. */
enum status hf_config_write(const struct model_config *c, struct str before,
                            const struct hf_written *how, struct arena *perm, struct str *out,
                            struct err *err);

#endif
