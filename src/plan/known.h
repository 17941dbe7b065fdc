/* known.h - models that others train: shapes by name, or from a Hugging Face config.json.
 *
 * `frugal plan llama-3-8b` and `frugal plan config.json` begin here. A shape gives exact parameter
 * counts and FLOPs; known_model_new makes a model of ours with the same matrices, which compiles
 * like any other, so that time and memory come from the one planner. */
#ifndef PLAN_KNOWN_H
#define PLAN_KNOWN_H
#include "base/os.h"
#include "model/model.h"

enum known_kind { KNOWN_DECODER, KNOWN_ENCODER };

struct known {
    struct str      name, source;
    enum known_kind kind;
    i64             depth, width, heads, kv_heads, head_dim, hidden, vocabulary;
    i64             context;    /* tokens of a sequence it was made for */
    i64             positions;  /* rows of learned positions; 0: rotary */
    i64             segments;   /* rows of BERT's token types */
    i64  experts, experts_used; /* MLPs a block, and how many of them a token goes through; 1, 1 */
    bool gated, rms, tied;
    bool bias_qkv, bias_out, bias_mlp; /* biases of attention's matrices and of the MLP's */
    bool qk_norm;     /* with weights, one of head_dim for queries and one for keys a block */
    bool single_norm; /* one norm a block: attention and MLP read the same (Phi) */
    bool pooler;      /* BERT's */
};

struct known_flops { /* floating-point operations of a token, forward and backward */
    f64 matrices;    /* 6 for each weight it is multiplied by */
    f64 attention; /* scores and sums: 12 x depth x heads x head_dim x context, half of it if causal */
};

i64                 known_count(void);
const struct known *known_at(i64 index);
const struct known *
known_find(struct str name); /* NULL: none; - and . and _ are alike, as is case */
/* A config.json of transformers: gpt2, gpt_neox, llama, mistral, mixtral, qwen2, qwen3, gemma, phi,
 * bert, roberta. */
enum status known_read(struct str path, struct str text, struct arena *perm, struct known *out,
                       struct err *err);

f64                known_parameters(const struct known *k);      /* exact */
f64                known_parameters_used(const struct known *k); /* by a token: of few experts */
struct known_flops known_flops_per_token(const struct known *k, i64 context);

/* A model of ours with these matrices, for model_build. What ours cannot say (experts, biases in
 * some places only, heads of another width) is left out or rounded; `differs` says so in words, and
 * is empty where nothing does. */
enum status known_model_new(const struct known *k, i64 context, struct arena *perm,
                            struct model **out, struct str *differs, struct err *err);

#endif
