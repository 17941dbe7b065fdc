/* model.h - the models frugal knows: each a page that builds a graph from its settings.
 *
 * A model reads the feeds a data set offers, adds its parameters by documented names
 * (docs/formats/weights.md) and ends in outputs: "loss" [1] (sum over rows), and where they make
 * sense "hits" [1] (rows whose largest logit is the target) and "scores" [batch] (for AUC). */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H
#include "base/yaml.h"
#include "compile/compile.h"
#include "ir/feed.h"
#include "ir/rope.h"

struct hf_family;

/* What the graph of evaluation ends in: the loss; that and the logits; the logits of one position a sequence, which the
 * feed "at" names, and no loss.
 *
 * ASK_NEXT with `cached` sequences: a sample is one new token of any of them, with inputs "x", "sequence" (below 0:
 * none, it fills the batch up) and "place", all i32[batch]; "at" i32[cached] names the rows whose logits are wanted.
 * What came before is in VALUE_CACHE, from earlier runs of the programs. */
enum model_ask { ASK_LOSS, ASK_LOGITS, ASK_NEXT };

/* Low-rank adapters beside frozen matrices: lora.h. */
#define LORA_ON_MAX 16
struct lora_config {
    i64        rank;            /* 0: none */
    f64        alpha;           /* their product counts alpha/rank times; NaN: once */
    f64        dropout;         /* of what they read */
    struct str on[LORA_ON_MAX]; /* matrices, by their names or ours; none: all of the blocks */
    i64        on_count;
    struct str
        weights; /* full | fp8 | nf4: how the frozen matrices of blocks are kept; empty: full */
};

struct model_config {
    struct str   kind;   /* layers | gpt | encoder | ranker | hf */
    struct str   path;   /* kind hf: the folder of somebody else's model */
    struct yaml *layers; /* kind layers: the list from the run file */
    struct str   file;   /* name of the run file, for messages about its lines */
    i64          depth, width, heads, kv_heads, hidden; /* hidden 0: the block's usual multiple */
    struct str   norm;                                  /* layer | rms */
    struct str   positions;                             /* learned | rotary */
    struct str   activation; /* gelu | gelu_erf | relu2 | swiglu | relu | silu */
    bool         qk_norm, tied, bias;
    bool         zero_init; /* matrices that write to the residual begin at 0 */
    f64          softcap, dropout, attention_dropout, rope_base;
    i64          window; /* gpt: keys that a query sees at most, the last of them its own; 0: all */
    i64          value_tables; /* gpt: blocks whose values get a row of a table by token; 0: none */
    i64          table_width;  /* ranker: width of an embedding row */
    enum dtype   table_dtype;  /* ranker: f32 or bf16, which only an optimiser of rows can train */
    i64          mlp[8];       /* ranker: widths of the dense layers before the last */
    i64          mlp_count;
    bool masked; /* encoder: the target is a token at every position; only plans have such data */
    f64  smoothing;
    enum dtype dtype; /* of parameters and activations: f32 (f64 in tests) */
    /* What only other people's models say (hf.h); no options. 0, NULL: as ours are. */
    const struct hf_family *family; /* kind hf, once its config.json was read */
    i64                 vocabulary; /* rows of the embedding; 0: as many as the data has tokens */
    i64                 head_dim;   /* 0: width / heads */
    i64                 places;  /* learned positions; 0: as many as a sequence of the data has */
    i64                 context; /* of a sequence: the longest */
    f64                 eps;     /* of norms; 0: the model's usual */
    struct rope_scaling rope_scaling;
    bool bias_qkv, bias_proj, bias_mlp; /* biases here, where `bias` does not put them everywhere */
    bool qk_weights;                    /* queries and keys are normalised, with weights */
    i64  types; /* rows of the table of token types, of which the first is used; 0: no table */
    i64  first_place;        /* row of wpe that the first position reads */
    struct str     pooler;   /* activation of a classifier's head: tanh | relu; empty: tanh */
    i64            classes;  /* 0: as many as the data has */
    bool           new_head; /* the folder holds no classifier: it begins at random */
    enum model_ask ask;      /* no option either */
    i64 cached; /* ASK_NEXT: sequences at once, whose keys and values stay in a cache; 0: none do */
    struct lora_config lora; /* train.lora */
};

/* A classifier with at most so many gives its logits with an evaluation: who looks sees what it takes for what. */
enum { MODEL_CLASSES_SHOWN = 32 };

struct model; /* config + feeds, checked */

enum status                model_new(struct arena *perm, const struct model_config *config,
                                     const struct feeds *feeds, struct model **out, struct err *err);
graph_builder              model_build; /* context: struct model * */
const struct model_config *model_config_of(const struct model *m);
i64        model_rows(const struct model *m);   /* losses a sample: tokens of a sequence, else 1 */
struct str model_metric(const struct model *m); /* "accuracy" | "perplexity" | "auc" */

#endif
