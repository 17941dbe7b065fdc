/* hf_bert.c - BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019) as classifiers of
 * sequences: the graph of encoder.c. They differ in names, in where positions begin, in the head's activation.
 *
 * A folder that holds no head of a classifier (one that was pre-trained only) gets a new one, with as many classes as
 * the data has. */
#include "model/hf_int.h"

#define KEYS_OF_BERT                                                                               \
    { "num_hidden_layers", HF_READ, NULL }, { "hidden_size", HF_READ, NULL },                      \
        { "num_attention_heads", HF_READ, NULL }, { "intermediate_size", HF_READ, NULL },          \
        { "hidden_act", HF_READ, NULL }, { "max_position_embeddings", HF_READ, NULL },             \
        { "type_vocab_size", HF_READ, NULL }, { "layer_norm_eps", HF_READ, NULL },                 \
        { "position_embedding_type", HF_ONLY, "absolute" },                                        \
        { "attention_probs_dropout_prob", HF_IGNORED, NULL }, /* model.dropout decides */          \
        { "hidden_dropout_prob", HF_IGNORED, NULL }, { "classifier_dropout", HF_IGNORED, NULL },   \
        { "directionality", HF_IGNORED, NULL }, { "pooler_fc_size", HF_IGNORED, NULL },            \
        { "pooler_num_attention_heads", HF_IGNORED, NULL },                                        \
        { "pooler_num_fc_layers", HF_IGNORED, NULL },                                              \
        { "pooler_size_per_head", HF_IGNORED, NULL },                                              \
    {                                                                                              \
        "pooler_type", HF_IGNORED, NULL                                                            \
    }
#define KEYS_OF_CLASSIFIERS                                                                        \
    { "architectures", HF_READ, NULL }, { "id2label", HF_READ, NULL },                             \
        { "num_labels", HF_READ, NULL },                                                           \
        { "problem_type", HF_ONLY, "single_label_classification" },                                \
        { "is_decoder", HF_ONLY, "false" }, { "add_cross_attention", HF_ONLY, "false" },           \
    {                                                                                              \
        NULL, HF_READ, NULL                                                                        \
    }

static const struct hf_key bert_keys[]    = { KEYS_OF_BERT, KEYS_OF_CLASSIFIERS };
static const struct hf_key roberta_keys[] = { KEYS_OF_BERT,
                                              { "pad_token_id", HF_READ, NULL },
                                              KEYS_OF_CLASSIFIERS };

static const struct hf_key distilbert_keys[] = {
    { "n_layers", HF_READ, NULL },
    { "dim", HF_READ, NULL },
    { "n_heads", HF_READ, NULL },
    { "hidden_dim", HF_READ, NULL },
    { "activation", HF_READ, NULL },
    { "max_position_embeddings", HF_READ, NULL },
    { "attention_dropout", HF_IGNORED, NULL }, /* model.dropout decides */
    { "dropout", HF_IGNORED, NULL },
    { "qa_dropout", HF_IGNORED, NULL },
    { "seq_classif_dropout", HF_IGNORED, NULL },
    { "sinusoidal_pos_embds", HF_IGNORED, NULL }, /* of first values only */
    { "tie_weights_", HF_IGNORED, NULL },
    KEYS_OF_CLASSIFIERS
};

#define BERT_NAMES(family)                                                                         \
    { "wte.weight", HF_WHOLE, { family "embeddings.word_embeddings.weight" } },                    \
        { "wpe.weight", HF_WHOLE, { family "embeddings.position_embeddings.weight" } },            \
        { "wtt.weight", HF_WHOLE, { family "embeddings.token_type_embeddings.weight" } },          \
        { "ln_emb.weight", HF_WHOLE, { family "embeddings.LayerNorm.weight" } },                   \
        { "ln_emb.bias", HF_WHOLE, { family "embeddings.LayerNorm.bias" } },                       \
        BERT_BLOCK(family "encoder.layer.%.")
#define BERT_BLOCK(block)                                                                          \
    { "h.%.attn.qkv.weight",                                                                       \
      HF_QKV,                                                                                      \
      { block "attention.self.query.weight", block "attention.self.key.weight",                    \
        block "attention.self.value.weight" } },                                                   \
        { "h.%.attn.qkv.bias",                                                                     \
          HF_QKV,                                                                                  \
          { block "attention.self.query.bias", block "attention.self.key.bias",                    \
            block "attention.self.value.bias" } },                                                 \
        { "h.%.attn.proj.weight", HF_WHOLE, { block "attention.output.dense.weight" } },           \
        { "h.%.attn.proj.bias", HF_WHOLE, { block "attention.output.dense.bias" } },               \
        { "h.%.ln_1.weight", HF_WHOLE, { block "attention.output.LayerNorm.weight" } },            \
        { "h.%.ln_1.bias", HF_WHOLE, { block "attention.output.LayerNorm.bias" } },                \
        { "h.%.mlp.up.weight", HF_WHOLE, { block "intermediate.dense.weight" } },                  \
        { "h.%.mlp.up.bias", HF_WHOLE, { block "intermediate.dense.bias" } },                      \
        { "h.%.mlp.down.weight", HF_WHOLE, { block "output.dense.weight" } },                      \
        { "h.%.mlp.down.bias", HF_WHOLE, { block "output.dense.bias" } },                          \
        { "h.%.ln_2.weight", HF_WHOLE, { block "output.LayerNorm.weight" } },                      \
    {                                                                                              \
        "h.%.ln_2.bias", HF_WHOLE, { block "output.LayerNorm.bias" }                               \
    }
#define HEAD_NAMES(pooler, classifier)                                                             \
    { "pooler.weight", HF_WHOLE, { pooler ".weight" } },                                           \
        { "pooler.bias", HF_WHOLE, { pooler ".bias" } },                                           \
        { "classifier.weight", HF_WHOLE, { classifier ".weight" } },                               \
        { "classifier.bias", HF_WHOLE, { classifier ".bias" } },                                   \
    {                                                                                              \
        NULL, HF_WHOLE, { NULL }                                                                   \
    }

static const struct hf_name bert_names[]    = { BERT_NAMES("bert."),
                                                HEAD_NAMES("bert.pooler.dense", "classifier") };
static const struct hf_name roberta_names[] = {
    BERT_NAMES("roberta."), HEAD_NAMES("classifier.dense", "classifier.out_proj")
};

#define BLOCK "distilbert.transformer.layer.%."
static const struct hf_name distilbert_names[] = {
    { "wte.weight", HF_WHOLE, { "distilbert.embeddings.word_embeddings.weight" } },
    { "wpe.weight", HF_WHOLE, { "distilbert.embeddings.position_embeddings.weight" } },
    { "ln_emb.weight", HF_WHOLE, { "distilbert.embeddings.LayerNorm.weight" } },
    { "ln_emb.bias", HF_WHOLE, { "distilbert.embeddings.LayerNorm.bias" } },
    { "h.%.attn.qkv.weight",
      HF_QKV,
      { BLOCK "attention.q_lin.weight", BLOCK "attention.k_lin.weight",
        BLOCK "attention.v_lin.weight" } },
    { "h.%.attn.qkv.bias",
      HF_QKV,
      { BLOCK "attention.q_lin.bias", BLOCK "attention.k_lin.bias",
        BLOCK "attention.v_lin.bias" } },
    { "h.%.attn.proj.weight", HF_WHOLE, { BLOCK "attention.out_lin.weight" } },
    { "h.%.attn.proj.bias", HF_WHOLE, { BLOCK "attention.out_lin.bias" } },
    { "h.%.ln_1.weight", HF_WHOLE, { BLOCK "sa_layer_norm.weight" } },
    { "h.%.ln_1.bias", HF_WHOLE, { BLOCK "sa_layer_norm.bias" } },
    { "h.%.mlp.up.weight", HF_WHOLE, { BLOCK "ffn.lin1.weight" } },
    { "h.%.mlp.up.bias", HF_WHOLE, { BLOCK "ffn.lin1.bias" } },
    { "h.%.mlp.down.weight", HF_WHOLE, { BLOCK "ffn.lin2.weight" } },
    { "h.%.mlp.down.bias", HF_WHOLE, { BLOCK "ffn.lin2.bias" } },
    { "h.%.ln_2.weight", HF_WHOLE, { BLOCK "output_layer_norm.weight" } },
    { "h.%.ln_2.bias", HF_WHOLE, { BLOCK "output_layer_norm.bias" } },
    HEAD_NAMES("pre_classifier", "classifier"),
};

/* Heads of other tasks, lists of positions that older versions saved, the pooler that RoBERTa's classifier has not. */
static const char *const bert_ignored[]    = { "*embeddings.position_ids", "cls.*", NULL };
static const char *const roberta_ignored[] = { "*embeddings.position_ids", "lm_head.*", "pooler.*",
                                               "roberta.pooler.*", NULL };
static const char *const distilbert_ignored[] = { "vocab_transform.*", "vocab_layer_norm.*",
                                                  "vocab_projector.*", NULL };

static void read_head(struct hf_reader *r, struct model_config *c)
{
    const struct json *kinds = json_get(r->root, STR("architectures"));
    const struct json *names = json_get(r->root, STR("id2label"));
    c->new_head              = true;
    for (const struct json *v = kinds ? kinds->first : NULL; v; v = v->next)
        if (str_ends(v->text, STR("ForSequenceClassification"))) c->new_head = false;
    if (c->new_head) return;
    i64 named  = names && names->kind == JSON_MAP ? names->count : 2;
    c->classes = hf_count(r, "num_labels", named, MODEL_COUNT_MAX);
    if (c->classes < 2)
        hf_refuse(r, "id2label", "has one label, which is a regression: not supported");
}

i64 hf_class_names(struct str text, struct arena *perm, const struct str **names)
{
    struct json *root;
    if (json_parse(perm, text, &root, NULL)) return 0;
    const struct json *kinds = json_get(root, STR("architectures"));
    const struct json *map   = json_get(root, STR("id2label"));
    bool               classifies =
        kinds && kinds->first && str_ends(kinds->first->text, STR("ForSequenceClassification"));
    bool        given = false;
    struct str *to    = NEW(perm, struct str, map && map->kind == JSON_MAP ? map->count : 0);
    *names            = to;
    for (i64 i = 0; classifies && map && map->kind == JSON_MAP && i < map->count; i++) {
        const struct json *name = json_get(map, str_fmt(perm, "%lld", (long long)i));
        if (!name || name->kind != JSON_STRING) return 0;
        to[i] = name->text;
        given |= !str_eq(to[i], str_fmt(perm, "LABEL_%lld", (long long)i));
    }
    return given ? map->count : 0;
}

/* Once the sizes are read. */
static void read_encoder(struct hf_reader *r, struct model_config *c, const char *heads)
{
    c->kv_heads  = 0;
    c->head_dim  = c->width / c->heads;
    c->bias      = true;
    c->tied      = false;
    c->norm      = STR("layer");
    c->positions = STR("learned");
    c->pooler    = STR("tanh");
    if (c->head_dim * c->heads != c->width) hf_refuse(r, heads, "does not divide the width");
    read_head(r, c);
}

static void read_bert(struct hf_reader *r, struct model_config *c)
{
    c->depth      = hf_count(r, "num_hidden_layers", 12, MODEL_DEPTH_MAX);
    c->width      = hf_count(r, "hidden_size", 768, MODEL_COUNT_MAX);
    c->heads      = hf_count(r, "num_attention_heads", 12, c->width);
    c->hidden     = hf_count(r, "intermediate_size", 3072, MODEL_COUNT_MAX);
    c->places     = hf_count(r, "max_position_embeddings", 512, MODEL_COUNT_MAX);
    c->types      = hf_count(r, "type_vocab_size", 2, MODEL_COUNT_MAX);
    c->eps        = hf_number(r, "layer_norm_eps", 1e-12);
    c->activation = hf_activation(r, "hidden_act", "gelu");
    read_encoder(r, c, "num_attention_heads");
}

/* Positions begin behind the number of the padding token. */
static void read_roberta(struct hf_reader *r, struct model_config *c)
{
    read_bert(r, c);
    c->first_place = hf_count(r, "pad_token_id", 1, MODEL_COUNT_MAX) + 1;
    if (c->first_place >= c->places)
        hf_refuse(r, "max_position_embeddings", "leaves no position behind \"pad_token_id\"");
}

static void read_distilbert(struct hf_reader *r, struct model_config *c)
{
    c->depth      = hf_count(r, "n_layers", 6, MODEL_DEPTH_MAX);
    c->width      = hf_count(r, "dim", 768, MODEL_COUNT_MAX);
    c->heads      = hf_count(r, "n_heads", 12, c->width);
    c->hidden     = hf_count(r, "hidden_dim", 3072, MODEL_COUNT_MAX);
    c->places     = hf_count(r, "max_position_embeddings", 512, MODEL_COUNT_MAX);
    c->eps        = 1e-12;
    c->activation = hf_activation(r, "activation", "gelu");
    read_encoder(r, c, "n_heads");
    c->pooler = STR("relu");
}

const struct hf_family hf_family_bert = {
    "bert", bert_keys, bert_names, "bert.", bert_ignored, read_bert, "BertForSequenceClassification"
};
const struct hf_family hf_family_roberta    = { "roberta",
                                                roberta_keys,
                                                roberta_names,
                                                "roberta.",
                                                roberta_ignored,
                                                read_roberta,
                                                "RobertaForSequenceClassification" };
const struct hf_family hf_family_distilbert = { "distilbert",
                                                distilbert_keys,
                                                distilbert_names,
                                                "distilbert.",
                                                distilbert_ignored,
                                                read_distilbert,
                                                "DistilBertForSequenceClassification" };
