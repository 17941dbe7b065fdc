/* known_read.c - a Hugging Face config.json as a shape. Each model_type is a row: what its fields are
 * called, what they are when left out, and which traits its code has without saying so. */
#include "base/json.h"
#include "plan/known.h"

struct names { /* of fields, one way and the other */
    const char *depth, *width, *heads, *hidden, *context;
};
static const struct names names_new = { "num_hidden_layers", "hidden_size", "num_attention_heads",
                                        "intermediate_size", "max_position_embeddings" };
static const struct names names_old = { "n_layer", "n_embd", "n_head", "n_inner", "n_positions" };

static const struct type_row {
    const char         *type;
    const struct names *names;
    enum known_kind     kind;
    bool                learned; /* positions */
    u32                 traits;  /* KNOWN_TIED: unless tie_word_embeddings says otherwise */
} type_rows[] = {
#define LLAMA (KNOWN_GATED | KNOWN_RMS)
    { "gpt2", &names_old, KNOWN_DECODER, true, KNOWN_TIED | KNOWN_BIASES },
    { "gpt_neox", &names_new, KNOWN_DECODER, false, KNOWN_BIASES },
    { "llama", &names_new, KNOWN_DECODER, false, LLAMA },
    { "mistral", &names_new, KNOWN_DECODER, false, LLAMA },
    { "mixtral", &names_new, KNOWN_DECODER, false, LLAMA },
    { "phi3", &names_new, KNOWN_DECODER, false, LLAMA },
    { "qwen2", &names_new, KNOWN_DECODER, false, LLAMA | KNOWN_BIAS_QKV },
    { "qwen2_moe", &names_new, KNOWN_DECODER, false, LLAMA | KNOWN_BIAS_QKV | KNOWN_SHARED_GATE },
    { "qwen3", &names_new, KNOWN_DECODER, false, LLAMA | KNOWN_QK_NORM },
    { "qwen3_moe", &names_new, KNOWN_DECODER, false, LLAMA | KNOWN_QK_NORM },
    { "deepseek", &names_new, KNOWN_DECODER, false, LLAMA },
    { "deepseek_v2", &names_new, KNOWN_DECODER, false, LLAMA },
    { "deepseek_v3", &names_new, KNOWN_DECODER, false, LLAMA },
    { "gemma", &names_new, KNOWN_DECODER, false, LLAMA | KNOWN_TIED },
    { "gemma2", &names_new, KNOWN_DECODER, false, LLAMA | KNOWN_TIED | KNOWN_NORMS_4 },
    { "gemma3_text", &names_new, KNOWN_DECODER, false,
      LLAMA | KNOWN_TIED | KNOWN_NORMS_4 | KNOWN_QK_NORM },
    { "bert", &names_new, KNOWN_ENCODER, true, KNOWN_TIED | KNOWN_BIASES | KNOWN_POOLER },
    { "roberta", &names_new, KNOWN_ENCODER, true, KNOWN_TIED | KNOWN_BIASES | KNOWN_POOLER },
#undef LLAMA
};

/* Often asked for, and not understood: what they are, and what to do instead. */
static const struct {
    const char *type, *why;
} refused[] = {
    { "vit", "is a vision transformer: `frugal plan` prices image models from a run file only" },
    { "t5", "has an encoder and a decoder: `frugal plan` prices models with one of them only" },
    { "gemma3",
      "reads pictures, too: give the file of its text part (model_type \"gemma3_text\")" },
};

enum { COUNT_MAX = 1 << 24, DEPTH_MAX = 1024, CONTEXT_USUAL = 2048 };

struct reader {
    const struct json *root;
    struct str         path;
    enum status        status; /* sticky */
    struct err        *err;
};

/* A whole number of at least 1; `usual` where it is left out or null. */
static i64 field(struct reader *r, const char *name, i64 usual, i64 most)
{
    const struct json *v     = json_get(r->root, str_of(name));
    i64                value = usual;
    if (r->status) return 1;
    bool given = v && v->kind != JSON_NULL;
    if ((given && !json_i64(v, &value)) || value < 1 || value > most) {
        r->status =
            err_set(r->err, STATUS_USAGE, "%.*s: \"%s\" should be a whole number from 1 to %lld",
                    STR_ARG(r->path), name, (long long)most);
        return 1;
    }
    return value;
}

static bool flag(const struct reader *r, const char *name, bool usual)
{
    const struct json *v = json_get(r->root, str_of(name));
    return v && v->kind == JSON_BOOL ? str_eq(v->text, STR("true")) : usual;
}

struct str known_types(struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < COUNT_OF(type_rows); i++)
        textbuf_fmt(&b, "%s%s", i ? ", " : "", type_rows[i].type);
    return textbuf_str(&b);
}

static enum status unknown_type(const struct reader *r, struct str type)
{
    char         lent[512];
    struct arena scratch = { (u8 *)lent, (u8 *)lent + sizeof lent, NULL };
    for (i64 i = 0; i < COUNT_OF(refused); i++)
        if (str_eq(type, str_of(refused[i].type)))
            return err_set(r->err, STATUS_USAGE, "%.*s: model_type \"%s\" %s", STR_ARG(r->path),
                           refused[i].type, refused[i].why);
    return err_set(
        r->err, STATUS_USAGE, "%.*s: model_type \"%.*s\" is not supported; supported are %.*s",
        STR_ARG(r->path), (int)MIN(type.len, 40), type.data, STR_ARG(known_types(&scratch)));
}

/* A count that may be absent, null or 0: then 0. */
static i64 optional(struct reader *r, const char *name, i64 most)
{
    const struct json *v = json_get(r->root, str_of(name));
    i64                value;
    if (!v || v->kind == JSON_NULL || (json_i64(v, &value) && value == 0)) return 0;
    return field(r, name, 0, most);
}

/* The first of these names that is given; 0: none. */
static i64 first_of(struct reader *r, const char *const *names, i64 most)
{
    i64 value = 0;
    for (; *names && !value; names++) value = optional(r, *names, most);
    return value;
}

/* Experts, as Mixtral, Qwen and DeepSeek name them. */
static void read_experts(struct reader *r, struct known *k)
{
    static const char *const all[] = { "num_local_experts", "num_experts", "n_routed_experts",
                                       NULL };
    i64                      count = first_of(r, all, COUNT_MAX);
    const struct json       *only  = json_get(r->root, STR("mlp_only_layers"));
    k->experts                     = MAX(count, 1);
    k->experts_used                = field(r, "num_experts_per_tok", 1, k->experts);
    if (!count) return;
    k->expert_hidden = optional(r, "moe_intermediate_size", COUNT_MAX);
    k->shared_hidden = optional(r, "shared_expert_intermediate_size", COUNT_MAX) +
                       optional(r, "n_shared_experts", COUNT_MAX) * k->expert_hidden;
    k->dense_blocks = optional(r, "first_k_dense_replace", k->depth);
    if (only && only->kind == JSON_LIST) k->dense_blocks += only->count;
    i64 sparse      = (k->depth - k->dense_blocks) / field(r, "decoder_sparse_step", 1, k->depth);
    k->dense_blocks = k->depth - MAX(sparse, 0);
}

/* The sequences that it was trained with, where positions were stretched for longer ones afterwards. */
static i64 read_context(struct reader *r, const char *name)
{
    static const char  original[] = "original_max_position_embeddings";
    const struct json *whole = r->root, *rope = json_get(whole, STR("rope_scaling"));
    i64                longest = field(r, name, CONTEXT_USUAL, COUNT_MAX), learnt = 0;
    if (rope && rope->kind == JSON_MAP) {
        r->root = rope;
        learnt  = optional(r, original, COUNT_MAX);
        r->root = whole;
    }
    if (!learnt) learnt = optional(r, original, COUNT_MAX);
    return learnt ? MIN(learnt, longest) : longest;
}

/* "BertForMaskedLM" predicts tokens at every position; what classifies, or is a BertModel alone, reads the first. */
static u32 with_head(const struct reader *r, u32 traits)
{
    const struct json *list = json_get(r->root, STR("architectures"));
    struct str name = list && list->kind == JSON_LIST && list->first ? list->first->text : STR("");
    if (str_ends(name, STR("ForPreTraining"))) return traits | KNOWN_MASKED;
    if (!str_ends(name, STR("ForMaskedLM"))) return traits;
    return (traits | KNOWN_MASKED) & ~(u32)KNOWN_POOLER;
}

static void read_shape(struct reader *r, const struct type_row *t, struct known *k)
{
    const struct names *n = t->names;
    k->kind               = t->kind;
    k->depth              = field(r, n->depth, 0, DEPTH_MAX);
    k->width              = field(r, n->width, 0, COUNT_MAX);
    k->heads              = field(r, n->heads, 0, COUNT_MAX);
    k->kv_heads           = field(r, "num_key_value_heads", k->heads, k->heads);
    k->head_dim           = field(r, "head_dim", k->width / k->heads, COUNT_MAX);
    k->hidden             = field(r, n->hidden, 4 * k->width, 4 * (i64)COUNT_MAX);
    k->vocabulary         = field(r, "vocab_size", 0, COUNT_MAX);
    k->context            = read_context(r, n->context);
    k->positions          = t->learned ? field(r, n->context, CONTEXT_USUAL, COUNT_MAX) : 0;
    k->kv_rank            = optional(r, "kv_lora_rank", COUNT_MAX);
    if (k->kv_rank) {
        k->query_rank = optional(r, "q_lora_rank", COUNT_MAX);
        k->head_dim   = field(r, "qk_nope_head_dim", 0, COUNT_MAX);
        k->rope_dim   = field(r, "qk_rope_head_dim", 0, COUNT_MAX);
        k->value_dim  = field(r, "v_head_dim", 0, COUNT_MAX);
    }
    if (flag(r, "use_sliding_window", true)) k->window = optional(r, "sliding_window", COUNT_MAX);
    if (k->window >= k->context) k->window = 0;
    read_experts(r, k);
    if (t->kind == KNOWN_ENCODER) k->segments = field(r, "type_vocab_size", 2, COUNT_MAX);
    k->traits = t->traits & ~(u32)KNOWN_TIED;
    if (flag(r, "tie_word_embeddings", t->traits & KNOWN_TIED)) k->traits |= KNOWN_TIED;
    if (t->kind == KNOWN_ENCODER) k->traits = with_head(r, k->traits);
    if (flag(r, "attention_bias", false)) k->traits |= KNOWN_BIAS_QKV | KNOWN_BIAS_OUT;
    if (flag(r, "mlp_bias", false)) k->traits |= KNOWN_BIAS_MLP;
}

enum status known_read(struct str path, struct str text, struct arena *perm, struct known *out,
                       struct err *err)
{
    struct json  *root;
    struct err    why = { 0 };
    struct reader r   = { .path = path, .err = err };
    *out              = (struct known){ .name = path };
    if (json_parse(perm, text, &root, &why))
        return err_set(err, STATUS_USAGE, "%.*s: %s", STR_ARG(path), why.text);
    r.root                  = root;
    const struct json *v    = json_get(root, STR("model_type"));
    struct str         type = v && v->kind == JSON_STRING ? v->text : STR("");
    i64                i    = 0;
    while (i < COUNT_OF(type_rows) && !str_eq(type, str_of(type_rows[i].type))) i++;
    if (i == COUNT_OF(type_rows)) return unknown_type(&r, type);
    read_shape(&r, &type_rows[i], out);
    return r.status;
}
