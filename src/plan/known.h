/* known.h - models that others train: shapes by name, or from a Hugging Face config.json.
 *
 * `frugal plan llama-3-8b` and `frugal plan config.json` begin here. A shape gives exact parameter
 * counts and FLOPs; known_model_new makes a model of ours with the same matrices, which compiles
 * like any other, so that time and memory come from the one planner. */
#ifndef PLAN_KNOWN_H
#define PLAN_KNOWN_H
#include "base/err.h"
#include "model/model.h"

enum known_kind { KNOWN_DECODER, KNOWN_ENCODER };

enum known_trait {
    KNOWN_GATED       = 1 << 0, /* an MLP of three matrices */
    KNOWN_RMS         = 1 << 1, /* rms norm; else layer norm */
    KNOWN_TIED        = 1 << 2, /* the head is the embedding */
    KNOWN_BIAS_QKV    = 1 << 3, /* of queries, keys and values */
    KNOWN_BIAS_OUT    = 1 << 4, /* of attention's last matrix */
    KNOWN_BIAS_MLP    = 1 << 5,
    KNOWN_QK_NORM     = 1 << 6, /* with weights, head_dim of queries and of keys a block */
    KNOWN_POOLER      = 1 << 7, /* BERT's matrix behind the first position */
    KNOWN_NORMS_4     = 1 << 8, /* a norm behind attention and MLP, too: Gemma 2 and 3 */
    KNOWN_SHARED_GATE = 1 << 9, /* a row of weights that scales the shared experts: Qwen 2 */
    KNOWN_MASKED =
        1 << 15, /* BERT's head at every position: a matrix, a norm, the embedding, a bias */
    KNOWN_BIASES = KNOWN_BIAS_QKV | KNOWN_BIAS_OUT | KNOWN_BIAS_MLP,
};

struct known {
    struct str      name;
    enum known_kind kind;
    i64             depth, width, heads, kv_heads, head_dim, hidden, vocabulary;
    i64             context;   /* tokens of a sequence that it is usually trained with */
    i64             positions; /* rows of learned positions; 0: rotary */
    i64             segments;  /* rows of BERT's token types */
    i64             experts, experts_used; /* MLPs a block; so many of them take a token. 1, 1 */
    u32             traits;
    i64             expert_hidden; /* of one expert; 0: `hidden` */
    i64             shared_hidden; /* of the experts that every token uses, together; 0: none */
    i64             dense_blocks;  /* blocks that have one MLP of `hidden` instead of experts */
    /* DeepSeek's attention: keys and values from kv_rank numbers a token, queries from query_rank (0: from
     * the width); head_dim numbers of a head without positions, rope_dim with; 0: attention as usual. */
    i64 kv_rank, query_rank, rope_dim, value_dim;
    i64 window; /* tokens that attention looks back at; 0: all */
};

struct known_flops { /* of a token, forward and backward */
    f64 matrices;    /* 6 for each weight that it is multiplied by */
    f64 attention;   /* scores and sums: 12 depth heads head_dim context, half of it where causal */
};

i64                 known_count(void);
const struct known *known_at(i64 index);
/* NULL: none. Case, and - . _ for one another, do not count; nor does an owner in front. */
const struct known *known_find(struct str name);
/* The one that a name which is not known may mean; NULL: none is near. */
const struct known *known_nearest(struct str name, struct arena scratch);
/* A config.json of transformers; which model_types can be read is said in the error. */
struct str  known_types(struct arena *perm); /* "gpt2, gpt_neox, …" */
enum status known_read(struct str path, struct str text, struct arena *perm, struct known *out,
                       struct err *err);

f64                known_parameters(const struct known *k);      /* exact */
f64                known_parameters_used(const struct known *k); /* by a token: of few experts */
struct known_flops known_flops_per_token(const struct known *k, i64 context);
/* Numbers that a token's heads compare and add up, by those of our model's: 1 where heads x head_dim is the
 * width. */
f64 known_attention_part(const struct known *k);

/* A model of ours of `depth` such blocks, with the matrices that a token uses, for model_build. What ours
 * cannot say (experts, attention of another width, biases in some places only) is left out, or put into an
 * MLP of as many weights; `differs` says so in words, and is empty where nothing does: then frugal itself
 * can train it. */
enum status known_model_new(const struct known *k, i64 depth, i64 context,
                            const struct lora_config *lora, struct arena *perm, struct model **out,
                            struct str *differs, struct err *err);

#endif
